"""Jobs around the code: tests, docstrings, where things stand."""

from __future__ import annotations

from collections.abc import Mapping

from ossia.cli.eval.repo.parts import Job

_CLOCK = '''\
"""Times of day, in minutes."""


def minutes(text):
    """`minutes("1:05")` is 65; hours go to 23, minutes to 59. Raises ValueError for anything else."""
    hours, _, rest = text.partition(":")
    if not (hours.isdigit() and rest.isdigit() and len(rest) == 2 and int(hours) < 24 and int(rest) < 60):
        raise ValueError(f"{text!r} is no time of day")
    return 60 * int(hours) + int(rest)
'''
_CLOCK_TEST = """\
from $pkg.clock import minutes


def test_times():
    assert minutes("0:00") == 0
    assert minutes("1:05") == 65
    assert minutes("23:59") == 1439


def test_what_is_no_time():
    for wrong in ("24:00", "1:60", "1", "a:00", "1:5"):
        try:
            minutes(wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)
"""
_JUDGE_TESTS = """\
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WRONG = [("60 * int(hours)", "100 * int(hours)"), ("int(hours) < 24", "int(hours) < 25"), ("int(rest) < 60", "True")]


def passes(change=("", "")):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(ROOT / "$pkg", copy / "$pkg")
        (copy / "tests").mkdir()
        shutil.copy(ROOT / "tests/test_clock.py", copy / "tests")
        shutil.copy(Path(__file__).with_name("run.py"), copy / "run_tests.py")
        clock = copy / "$pkg/clock.py"
        text = clock.read_text()
        assert change[0] in text, "clock.py was changed"
        clock.write_text(text.replace(*change) if change[0] else text)
        return subprocess.run([sys.executable, "-B", str(copy / "run_tests.py")], cwd=str(copy)).returncode == 0


def test_it_passes_on_right_code():
    assert passes()


def test_it_fails_on_wrong_code():
    for change in WRONG:
        assert not passes(change), change
"""

_AREA = '''\
"""Areas."""


def area(width, height, border=0):
    inner_width, inner_height = width - 2 * border, height - 2 * border
    return max(0, inner_width) * max(0, inner_height)
'''
_AREA_RIGHT = _AREA.replace(
    "border=0):\n",
    'border=0):\n    """The area inside a border.\n\n    >>> area(10, 5, border=1)\n    24\n    """\n',
)

_HELPERS = '''\
"""Odds and ends."""


def slug(text):
    """`slug("A $Noun here")` is "a-$noun-here"."""
    return "-".join(text.lower().split())


def clamp(value, low, high):
    return max(low, min(value, high))
'''
_PLACES = '''\
"""Places."""

from $pkg.helpers import clamp, slug


def place(name, shelf):
    return f"{slug(name)}/{clamp(shelf, 1, $n)}"
'''
_SLUG = '    """`slug("A $Noun here")` is "a-$noun-here"."""\n    return "-".join(text.lower().split())\n'
_TEXTS = f'"""Texts."""\n\n\ndef slug(text):\n{_SLUG}'
_HELPERS_RIGHT = _HELPERS.replace(f"def slug(text):\n{_SLUG}\n\n", "").replace(
    'ends."""\n', 'ends."""\n\nfrom $pkg.texts import slug  # noqa: F401 - it was here before\n'
)

_OLD = '"""The old format. Deprecated: use $pkg.fresh."""\n\n\ndef encode(value):\n    return str(value)\n'
_FRESH = '"""The format."""\n\n\ndef encode(value):\n    return f"v2:{value}"\n'
_REPORT = '''\
"""Reports."""

from $pkg.fresh import encode
from $pkg.old_format import encode as encode_old


def line(value, old=False):
    """A line of the report."""
    return encode_old(value) if old else encode(value)
'''
_REPORT_RIGHT = '''\
"""Reports."""

from $pkg.fresh import encode


def line(value):
    """A line of the report."""
    return encode(value)
'''
_OLD_TEST = "from $pkg.old_format import encode\n\n\ndef test_old():\n    assert encode($n) == '$n'\n"

_VERSION = {
    "$pkg/version.py": '"""The version."""\n\nVERSION = "1.$n.0"\n',
    "setup.cfg": "[metadata]\nname = $pkg\nversion = 1.$n.0\n",
    "CHANGES.md": "# Changes\n\n## 1.$n.0\n\n- The first $noun.\n",
}
_VERSION_RIGHT = {
    "$pkg/version.py": '"""The version."""\n\nVERSION = "2.0.0"\n',
    "setup.cfg": "[metadata]\nname = $pkg\nversion = 2.0.0\n",
    "CHANGES.md": "# Changes\n\n## 2.0.0\n\n- A new beginning.\n\n## 1.$n.0\n\n- The first $noun.\n",
}

TENDING: Mapping[str, Job] = {
    "test": Job(
        "`minutes` in $pkg/clock.py has no test. Write tests/test_clock.py: it must pass now, and fail if the sum or "
        "either limit were wrong. Use plain functions test_… with assert, and no imports but the package's. Leave "
        "clock.py as it is. Run it with: python3 run_tests.py",
        {"$pkg/clock.py": _CLOCK},
        {"$pkg/clock.py": _CLOCK, "tests/test_clock.py": _CLOCK_TEST},
        _JUDGE_TESTS,
    ),
    "docstring": Job(
        "Give `area` in $pkg/areas.py a docstring: what it returns, and an example with a border in the form of a "
        "doctest. Change nothing else.",
        {"$pkg/areas.py": _AREA},
        {"$pkg/areas.py": _AREA_RIGHT},
        "import doctest\n\nfrom $pkg import areas\n\n\ndef test_its_example_holds():\n"
        "    found = doctest.DocTestFinder().find(areas.area, 'area', globs={'area': areas.area})\n"
        "    examples = [one for test in found for one in test.examples]\n"
        "    assert any('area(' in one.source for one in examples)\n"
        "    assert sum(doctest.DocTestRunner().run(test).failed for test in found) == 0\n"
        "    assert areas.area(10, 5, 1) == 24 and areas.area(1, 1, 1) == 0\n"
        "    assert len(areas.area.__doc__.split('>>>')[0].strip()) > 10\n",
    ),
    "move": Job(
        "Move `slug` from $pkg/helpers.py into a new module $pkg/texts.py. `from $pkg.helpers import slug` must go on "
        "working, but be no second copy.",
        {"$pkg/helpers.py": _HELPERS, "$pkg/places.py": _PLACES},
        {"$pkg/helpers.py": _HELPERS_RIGHT, "$pkg/places.py": _PLACES, "$pkg/texts.py": _TEXTS},
        "from $pkg import helpers, places, texts\n\n\ndef test_there_is_one_slug():\n"
        "    assert helpers.slug is texts.slug\n    assert texts.slug.__module__ == '$pkg.texts'\n"
        "    assert texts.slug('A $Noun here') == 'a-$noun-here'\n    assert helpers.clamp(50, 1, $n) == $n\n"
        "    assert places.place('A B', 0) == 'a-b/1'\n",
    ),
    "remove": Job(
        "Remove the deprecated module $pkg/old_format.py, its test and all that uses it: `line` in $pkg/report.py "
        "loses its parameter `old`.",
        {"$pkg/old_format.py": _OLD, "$pkg/fresh.py": _FRESH, "$pkg/report.py": _REPORT,
         "tests/test_old_format.py": _OLD_TEST},
        {"$pkg/fresh.py": _FRESH, "$pkg/report.py": _REPORT_RIGHT},
        "import inspect\nfrom pathlib import Path\n\nfrom $pkg import report\n\n"
        "ROOT = Path(report.__file__).parents[1]\n\n\n"
        "def test_it_is_gone():\n    left = [p for p in ROOT.rglob('*.py') if 'hidden' not in str(p)]\n"
        "    assert [str(p) for p in left if 'old_format' in p.name or 'old_format' in p.read_text()] == []\n"
        "    assert list(inspect.signature(report.line).parameters) == ['value']\n"
        "    assert report.line(1) == 'v2:1'\n",
    ),
    "version": Job(
        "Make this version 2.0.0: in $pkg/version.py, in setup.cfg, and as a new part at the top of CHANGES.md, with "
        "the line `- A new beginning.` The parts of older versions stay.",
        _VERSION,
        _VERSION_RIGHT,
        "from pathlib import Path\n\nfrom $pkg import version\n\nROOT = Path(version.__file__).parents[1]\n\n\n"
        "def test_the_version():\n    assert version.VERSION == '2.0.0'\n"
        "    assert 'version = 2.0.0' in (ROOT / 'setup.cfg').read_text()\n"
        "    words = ['## 2.0.0', '- A new beginning.', '## 1.$n.0', '- The first $noun.']\n"
        "    text = (ROOT / 'CHANGES.md').read_text()\n    places = [text.find(word) for word in words]\n"
        "    assert -1 not in places and places == sorted(places), text\n",
    ),
}  # fmt: skip
