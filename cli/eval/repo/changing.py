"""Jobs that change what a repository does."""

from __future__ import annotations

from collections.abc import Mapping

from ossia.cli.eval.repo.parts import Job

_STORE = '''\
"""Where each $noun is kept."""

_kept = {}


def put_$noun(name, place):
    """Keep a $noun at a place."""
    _kept[name] = place
    return place


def where(name):
    return _kept.get(name)
'''
_USERS = {
    "$pkg/moving.py": '''\
"""Moves a $noun."""

from $pkg.store import put_$noun, where


def move(name, place):
    before = where(name)
    put_$noun(name, place)
    return before
''',
    "$pkg/loading.py": '''\
"""Loads many."""

from $pkg import store


def load(pairs):
    return [store.put_$noun(name, place) for name, place in pairs]
''',
    "tests/test_moving.py": """\
from $pkg.moving import move
from $pkg.store import put_$noun


def test_move():
    put_$noun("a", 1)
    assert move("a", 2) == 1
""",
    "docs/use.md": "Call `put_$noun(name, place)` to keep one.\n",
}


def _renamed(text: str) -> str:
    return text.replace("put_$noun", "keep_$noun")


_MAIN = '''\
"""The command line: prints each $noun of a list."""

import argparse

ALL = ["ash", "birch", "cedar", "elm", "fir", "larch", "oak", "pine", "yew"]


def main(argv):
    parser = argparse.ArgumentParser(prog="$pkg")
    parser.add_argument("--upper", action="store_true", help="in capitals")
    args = parser.parse_args(argv)
    for name in ALL:
        print(name.upper() if args.upper else name)
    return 0
'''
_MAIN_RIGHT = _MAIN.replace(
    "    args = parser", '    parser.add_argument("--limit", type=int, help="at most this many")\n    args = parser'
).replace("in ALL:", "in ALL[: args.limit]:")

_INI = "; settings of $pkg\n[server]\nhost = localhost\nport = 80$n0\n[log]\nlevel = info\n".replace("$n0", "${n}0")
_INI_READER = '''\
"""Reads settings.ini."""

import configparser
from pathlib import Path


def port():
    parser = configparser.ConfigParser()
    parser.read(Path(__file__).resolve().parents[1] / "settings.ini")
    return parser.getint("server", "port")
'''

_MODEL = '''\
"""A $noun."""


class $Noun:
    def __init__(self, name, weight):
        self.name = name
        self.weight = weight

    def __eq__(self, other):
        return vars(self) == vars(other)
'''
_SERIAL = '''\
"""A $noun as JSON and back."""

import json

from $pkg.model import $Noun


def dump(one):
    return json.dumps({"name": one.name, "weight": one.weight})


def load(text):
    found = json.loads(text)
    return $Noun(found["name"], found["weight"])
'''
_MODEL_RIGHT = _MODEL.replace("name, weight):", 'name, weight, note=""):').replace(
    "        self.weight = weight\n", "        self.weight = weight\n        self.note = note\n"
)
_SERIAL_RIGHT = _SERIAL.replace("one.weight}", 'one.weight, "note": one.note}').replace(
    'found["weight"])', 'found["weight"], found.get("note", ""))'
)

_CONFIG = '''\
"""The settings, from JSON."""

import json

DEFAULTS = {"colour": "grey", "width": 80}


def read(text):
    """The settings in `text`; what it lacks has its default. Raises KeyError for a name that isn't known."""
    settings = dict(DEFAULTS)
    for name, value in json.loads(text).items():
        if name not in DEFAULTS:
            raise KeyError(name)
        settings[name] = value
    return settings
'''
_CONFIG_RIGHT = _CONFIG.replace('"width": 80}', '"width": 80, "height": 2$n}').replace(
    "        settings[name] = value\n",
    '        if name == "height" and value < 1:\n            raise ValueError("height must be at least 1")\n'
    "        settings[name] = value\n",
)

CHANGING: Mapping[str, Job] = {
    "rename": Job(
        "Rename `put_$noun` to `keep_$noun` everywhere: code, tests and docs. Nothing may go by the old name.",
        {"$pkg/store.py": _STORE, **_USERS},
        {name: _renamed(text) for name, text in {"$pkg/store.py": _STORE, **_USERS}.items()},
        "from pathlib import Path\n\nfrom $pkg import loading, moving, store\n\n"
        "ROOT = Path(store.__file__).parents[1]\n\n\n"
        "def test_it_works():\n    assert store.keep_$noun('a', 1) == 1\n    assert moving.move('a', 2) == 1\n"
        "    assert loading.load([('b', 3)]) == [3]\n\n\ndef test_the_old_name_is_gone():\n"
        "    files = [p for p in ROOT.rglob('*') if p.suffix in ('.py', '.md') and 'hidden' not in str(p)]\n"
        "    assert [str(p) for p in files if 'put_$noun' in p.read_text()] == []\n"
        "    assert 'keep_$noun' in (ROOT / 'docs/use.md').read_text()\n"
        "    assert 'keep_$noun' in (ROOT / 'tests/test_moving.py').read_text()\n",
    ),
    "flag": Job(
        "Add a flag --limit N to the command line in $pkg/main.py: print at most N names. Without it all are printed.",
        {"$pkg/main.py": _MAIN},
        {"$pkg/main.py": _MAIN_RIGHT},
        "import contextlib\nimport io\n\nfrom $pkg.main import ALL, main\n\n\ndef printed(*argv):\n"
        "    out = io.StringIO()\n    with contextlib.redirect_stdout(out):\n        main(list(argv))\n"
        "    return out.getvalue().split()\n\n\ndef test_limit():\n    assert printed() == ALL\n"
        "    assert printed('--limit', '$n') == ALL[:$n]\n    assert printed('--upper', '--limit', '1') == ['ASH']\n"
        "    assert printed('--limit', '50') == ALL\n",
    ),
    "crlf": Job(
        "Change the port in settings.ini to 9000. The file is written on Windows: its line ends must stay as they are.",
        {"settings.ini": _INI, "$pkg/settings.py": _INI_READER},
        {"settings.ini": _INI.replace("80${n}0", "9000"), "$pkg/settings.py": _INI_READER},
        "from pathlib import Path\n\nfrom $pkg import settings\n\n\ndef test_the_port():\n"
        "    assert settings.port() == 9000\n\n\ndef test_the_rest_stays():\n"
        "    data = (Path(settings.__file__).parents[1] / 'settings.ini').read_bytes()\n"
        "    lines = [b'; settings of $pkg', b'[server]', b'host = localhost', b'port = 9000', b'[log]', "
        "b'level = info', b'']\n    assert data.split(b'\\r\\n') == lines, data\n",
        crlf=("settings.ini",),
    ),
    "field": Job(
        'Give $Noun a third field, `note`, a text that is "" by default, and keep it in JSON ($pkg/serial.py). JSON '
        "without it must still be read.",
        {"$pkg/model.py": _MODEL, "$pkg/serial.py": _SERIAL},
        {"$pkg/model.py": _MODEL_RIGHT, "$pkg/serial.py": _SERIAL_RIGHT},
        "import json\n\nfrom $pkg.model import $Noun\nfrom $pkg.serial import dump, load\n\n\ndef test_round_trip():\n"
        "    one = $Noun('a', $n, note='mind the step')\n    assert json.loads(dump(one))['note'] == 'mind the step'\n"
        "    assert load(dump(one)) == one\n    assert $Noun('a', 1, 'x').note == 'x'\n\n\n"
        'def test_old_json():\n    found = load(\'{"name": "a", "weight": 1}\')\n'
        "    assert (found.name, found.note) == ('a', '')\n",
    ),
    "setting": Job(
        "Add a setting `height` to $pkg/config.py, 2$n by default; a value below 1 raises ValueError.",
        {"$pkg/config.py": _CONFIG},
        {"$pkg/config.py": _CONFIG_RIGHT},
        "from $pkg.config import read\n\n\ndef test_height():\n"
        "    assert read('{}') == {'colour': 'grey', 'width': 80, 'height': 2$n}\n"
        "    assert read('{\"height\": 1}')['height'] == 1\n\n\ndef test_wrong_ones():\n"
        "    for text, kind in (('{\"height\": 0}', ValueError), ('{\"hight\": 1}', KeyError)):\n        try:\n"
        "            read(text)\n        except kind:\n            continue\n        raise AssertionError(text)\n",
    ),
}
