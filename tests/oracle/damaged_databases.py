"""Every stored file, damaged in every way: no command ends with a traceback, hangs, or says nothing of it.

    python -m tests.oracle.damaged_databases [1000] [--seed 1] [--verbose]

Each time one of the files of a data folder is damaged (cut, zeroed, flipped bits, random bytes, rows that nobody wrote,
another program's, a newer version's, foreign logs, a folder in its place, closed to us), and some of the commands that
use it are run. None may show a traceback, be killed or take more than a minute; one that fails says in one line what is
wrong, and where; and `ossia run` answers where it can do without the file. Exit 1 at any fault.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionStore
from ossia.cli.main import main as main_of_ossia
from ossia.harmony.messages import Message
from ossia.tools.approval.grants import Grants
from ossia.tools.approval.trust import TrustStore
from ossia.tools.library.library import Library, Row, Seen
from ossia.tools.undo.journal import Journal
from tests.support.command import ROOT, write_script
from tests.support.work_calls import writes

_FINAL = "<|channel|>final<|message|>Done.<|return|>"
_WRITE = writes("new.txt")
_PATIENCE_S = 60
_LINUX_CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h

Damage = Callable[[Path, random.Random], None]


# -- what is damaged ---------------------------------------------------------------------------------------------------


def make_folder(data: Path) -> None:
    """A data folder with something in each of its files, and a workspace beside it."""
    store = SessionStore(data / "sessions" / "sessions.sqlite", now=time.time)
    for number in range(12):
        session = Session()
        session.open_turn(f"Question {number}? " + "apples and pears " * 60)
        session.add(Message("assistant", (f"Answer {number}. " + "they grow " * 60,), channel="final"))
        session.close_turn("answered")
        store.keep(session)
    store.close()
    library = Library(data / "library.sqlite")
    root = library.add_root("folder", "/notes")
    text = "a capybara swims " * 40
    library.put(root, [Row(f"/notes/{n}", f"{n}", Seen(1, 1, b"x", 1), f"Note {n}", text, text) for n in range(12)])
    work = data.parent / "work"
    work.mkdir()
    journal = Journal(data, work)
    for number in range(3):
        (work / f"{number}.txt").write_text(f"before {number}\n")
        journal.begin_turn(f"turn {number}")
        journal.keep(work / f"{number}.txt")
        (work / f"{number}.txt").write_text("text\n" * number)
        journal.end_turn()
    before = journal.before_command()
    assert before is not None
    journal.after_command(before)
    TrustStore(data).trust(work)
    Grants(data).add(["python", "container.exec:git status"])
    (data / "history.jsonl").write_text('{"text": "hello"}\n' * 5)
    config = data.parent / "config" / "ossia"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('effort = "high"\n[approvals]\npython = "ask"\n')
    (config / "mcp.json").write_text('{"mcpServers": {}}\n')
    (data / "mcp").mkdir()
    (data / "mcp" / "pins.json").write_text('{"version": 1, "servers": {"one": {"tool": "00"}}}\n')


def _cut(path: Path, draw: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data) + 1)])


def _empty(path: Path, draw: random.Random) -> None:
    path.write_bytes(b"")


def _zeroed(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(max(1, len(data) // 4096 + 1)) * 4096
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
    path.write_bytes(data)


def _flipped(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 3, 30, 300))):
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def _head_flipped(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 5))):
        if data:
            data[draw.randrange(min(200, len(data)))] = draw.randrange(256)
    path.write_bytes(data)


def _garbage(path: Path, draw: random.Random) -> None:
    path.write_bytes(draw.randbytes(draw.choice((1, 99, 5000))))


def _another(path: Path, draw: random.Random) -> None:
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE songs(title TEXT)")
    db.close()


def _newer(path: Path, draw: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=99")


def _no_table(path: Path, draw: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'") if "_" not in row[0]]
        db.execute(f"DROP TABLE {draw.choice(names)}")


def _no_column(path: Path, draw: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema=ON")
        name = draw.choice(["sessions", "turns", "entries", "documents", "roots", "words"])
        db.execute("UPDATE sqlite_master SET sql=replace(sql, ?, ?) WHERE name=?", ("T", draw.choice("xT("), name))


def _rows(path: Path, draw: random.Random) -> None:
    """What nobody wrote, in some column."""
    values = (
        None,
        "nonsense",
        "[]",
        "{}",
        "7",
        7,
        -1,
        1e300,
        b"\xff\x00",
        "\ud800".encode("utf-8", "replace"),
        "[" * 9999,
    )
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        tables = {
            "sessions": ("options", "summary", "title", "created", "updated", "model", "workspace"),
            "entries": ("text", "more", "ids", "state", "turn", "tokens"),
            "turns": ("end", "turn"),
            "documents": ("page", "links", "title", "origin", "characters"),
            "roots": ("kind", "place"),
        }
        there = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        table = draw.choice([name for name in tables if name in there])
        with contextlib.suppress(sqlite3.IntegrityError):
            db.execute(f"UPDATE OR IGNORE {table} SET {draw.choice(tables[table])}=?", (draw.choice(values),))


def _foreign_log(path: Path, draw: random.Random) -> None:
    for name in draw.choice((("-wal",), ("-shm",), ("-journal",), ("-wal", "-shm"))):
        log = path.with_name(path.name + name)
        if draw.random() < 0.2:
            log.mkdir()
        else:
            log.write_bytes(draw.randbytes(draw.choice((1, 32, 33000))))


def _folder(path: Path, draw: random.Random) -> None:
    _remove(path)
    path.mkdir()


def _loop(path: Path, draw: random.Random) -> None:
    _remove(path)
    path.symlink_to(path)


def _closed(path: Path, draw: random.Random) -> None:
    path.chmod(0)


def _folder_closed(path: Path, draw: random.Random) -> None:
    path.parent.chmod(draw.choice((0, 0o500)))


def _folder_is_a_file(path: Path, draw: random.Random) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_bytes(b"not a folder")


def _lines(path: Path, draw: random.Random) -> None:
    """JSON that isn't what was written."""
    said = (
        *("null", "[]", "{}", "7", '"x"', "nonsense", "[" * 99_999, "\ud800", "\0", '["a"]'),
        *('{"version": 2}', '{"version": 1}', '{"mcpServers": []}', '{"mcpServers": {"x": 7}}'),
        '{"version": 1, "folders": [], "rules": {}}',
        '{"version": 1, "folders": {}, "rules": {"": [7]}}',
        '{"version": 1, "servers": {"one": {"tool": 7}}}',
        '{"label": [], "turn": {}, "repositories": 7}',
        '["a", [1,2,3,4,5], ["file", "x", 7, 7, 7], 1]',
        '{"path": 7, "before": ["file", 1e999, 1, 1, [1]]}',
        '{"path": "../x", "before": ["absent", 0, "", "", null]}',
        '{"path": "0.txt", "before": ["file", 420, "../../x", "", null]}',
    )
    text = "\n".join(draw.choice(said) for _ in range(draw.choice((1, 1, 3))))
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


_ANY: tuple[Damage, ...] = (_cut, _empty, _flipped, _garbage, _folder, _loop, _closed, _folder_closed)
_DATABASE: tuple[Damage, ...] = (
    *(
        _cut,
        _zeroed,
        _zeroed,
        _flipped,
        _flipped,
        _head_flipped,
        _head_flipped,
        _another,
        _newer,
        _no_table,
        _no_column,
    ),
    *(_rows, _rows, _rows, _foreign_log, _foreign_log, *_ANY),
)
_TEXT: tuple[Damage, ...] = (*_ANY, _lines, _lines, _lines)

_RUN = ("run", "hi", "--engine", "SCRIPT", "--quiet")
_WORK = ("run", "hi", "--engine", "WRITES", "--quiet", "--workspace", "WORK", "--yes", "--tools", "python")


@dataclass(frozen=True)
class Kind:
    """A stored file: where it lies, how it can be damaged, the commands that use it; `answers`: they do without it."""

    files: str
    damages: tuple[Damage, ...]
    commands: tuple[tuple[str, ...], ...]
    answers: tuple[tuple[str, ...], ...] = ()


KINDS = {
    "sessions": Kind(
        "data/sessions/sessions.sqlite",
        (*_DATABASE, _folder_is_a_file),
        (
            *((*_RUN, "--no-tools", "--continue"), (*_RUN, "--no-tools", "--resume", "Question 3")),
            *(("sessions", "list"), ("sessions", "list", "--json"), ("sessions", "show", "Question 4", "--all")),
            *(("sessions", "search", "apples"), ("sessions", "search", "they grow", "--thinking", "--json")),
            *(
                ("sessions", "export", "Question 5", "--form", "json"),
                ("sessions", "export", "Question 5", "--form", "harmony"),
            ),
            *(("sessions", "export", "Question 6", "--form", "html"), ("sessions", "fork", "Question 7")),
            *(("sessions", "import", "SESSION"), ("sessions", "rm", "ID")),
        ),
        ((*_RUN, "--no-tools"), (*_RUN, "--no-tools", "--save")),
    ),
    "library": Kind(
        "data/library.sqlite",
        _DATABASE,
        (
            *(
                ("docs", "list"),
                ("docs", "list", "--json"),
                ("docs", "search", "capybara"),
                ("docs", "search", "swims a", "--json"),
            ),
            *(
                ("docs", "show", "3"),
                ("docs", "add", "WORK"),
                ("docs", "rm", "/notes/4"),
                ("docs", "rm", "5"),
                ("docs", "add"),
            ),
            ("tools", "call", "browser.search", '{"query": "capybara", "source": "docs"}'),
            ("tools", "call", "browser.open", '{"id": "doc:2"}'),
        ),
        ((*_RUN, "--tools", "browser"),),
    ),
    "journal": Kind(
        "data/undo/*/turns/*/turn.jsonl",
        (*_TEXT, _folder_is_a_file),
        (
            ("undo", "--workspace", "WORK"),
            ("undo", "--workspace", "WORK", "--list"),
            ("undo", "--workspace", "WORK", "--dry-run"),
        ),
        (_WORK,),
    ),
    "bytes": Kind(
        "data/undo/*/turns/*/bytes/*",
        (*_ANY, _folder_is_a_file),
        (
            ("undo", "--workspace", "WORK"),
            ("undo", "--workspace", "WORK", "--force"),
            ("undo", "--workspace", "WORK", "--skip"),
        ),
        (_WORK,),
    ),
    "seen": Kind(
        "data/undo/*/seen/seen.jsonl",
        (*_TEXT, _folder_is_a_file),
        (("undo", "--workspace", "WORK", "--list"),),
        (_WORK,),
    ),
    "lock": Kind(
        "data/undo/*/lock", (*_ANY, _folder_is_a_file), (("undo", "--workspace", "WORK"), ("undo", "--list")), (_WORK,)
    ),
    "trust": Kind(
        "data/trust.json",
        _TEXT,
        (
            ("trust", "--list"),
            ("trust", "WORK", "--yes"),
            ("trust", "--forget", "python"),
            ("trust", "--revoke", "WORK"),
        ),
        ((*_RUN, "--no-tools"), _WORK),
    ),
    "pins": Kind("data/mcp/pins.json", _TEXT, (("mcp", "list"), ("mcp", "rm", "one")), (_RUN,)),
    "config": Kind(
        "config/ossia/config.toml",
        _TEXT,
        (
            ("config", "show"),
            ("config", "path"),
            ("models", "list"),
            ("mcp", "list"),
            ("tools", "list"),
            (*_RUN, "--no-tools"),
        ),
    ),
    "servers": Kind(
        "config/ossia/mcp.json", _TEXT, (("mcp", "list"), ("mcp", "add", "x", "--", "true"), ("mcp", "rm", "x"), _RUN)
    ),
    "history": Kind("data/history.jsonl", _TEXT, (), (_RUN,)),
}


_HEAVY = (
    *(
        "ossia.agent.engine.llama",
        "ossia.agent.sessions.json",
        "ossia.agent.respond",
        "ossia.cli.app",
        "ossia.tools.build",
        "ossia.cli.chat.app",
        "ossia.cli.export.html",
    ),
    *(
        "ossia.cli.oneshot.once",
        "ossia.cli.commands.sessions",
        "ossia.cli.commands.tools_call",
        "ossia.cli.commands.tools",
        "ossia.tools.library.indexing",
    ),
    *(f"ossia.tools.{name}" for name in ("convert.converter", "fetch.client", "mcp.servers", "work.exec")),
    "ossia.tools.functions.user",
)


# -- the one that runs commands ----------------------------------------------------------------------------------------


def _play() -> None:
    """Each line on stdin is a command: run in a process of its own that has everything imported already."""
    for name in _HEAVY:
        importlib.import_module(name)
    for line in sys.stdin:
        given = json.loads(line)
        child = os.fork()
        if not child:
            _become(given)
            os._exit(main_of_ossia())
        print(_ended(child), flush=True)


def _become(given: dict[str, str]) -> None:
    for number, (name, flags) in enumerate(
        ((os.devnull, os.O_RDONLY), (given["out"], os.O_WRONLY), (given["err"], os.O_WRONLY))
    ):
        descriptor = os.open(name, flags)
        os.dup2(descriptor, number)
        os.close(descriptor)
    _obey_modes()
    os.environ.update(given["environ"])
    os.chdir(given["folder"])
    sys.argv = ["ossia", *given["command"]]


def _obey_modes() -> None:
    """Root may read and write what is closed to it; without its capabilities it is a user like others."""
    if sys.platform == "linux" and os.getuid() == 0:
        header = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0)
        assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0


def _ended(child: int) -> int:
    give_up_at = time.monotonic() + _PATIENCE_S
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > give_up_at:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return -99
        time.sleep(0.002)


# -- the one that judges -----------------------------------------------------------------------------------------------


@dataclass
class Report:
    """By kind of file: how many were damaged, commands run, how many of them failed with a line, and the faults."""

    damaged: Counter[str] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[str]] = field(default_factory=dict)
    lines: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        rows = [f"{'':<9} {'damaged':>8} {'commands':>9} {'failed, told':>13} {'faults':>7}"]
        for kind, count in sorted(self.damaged.items()):
            faults = sum(1 for many in self.faults.values() for one in many if one.startswith(f"{kind} "))
            rows.append(f"{kind:<9} {count:>8} {self.commands[kind]:>9} {self.told[kind]:>13} {faults:>7}")
        for what, where in self.faults.items():
            rows.append(f"\n{len(where)} × {what}\n    " + "\n    ".join(where[:3]))
        return "\n".join(rows)


def damage(count: int, *, seed: int) -> Report:
    """Damage `count` files, each another way, and run commands on them."""
    report = Report()
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.oracle.damaged_databases", "--play"]
    player = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environ)
    with tempfile.TemporaryDirectory(prefix="ossia-") as folder:
        Path(folder).chmod(0o755)
        whole = Path(folder, "whole")
        (whole / "data").mkdir(parents=True)
        make_folder(whole / "data")
        try:
            for number in range(count):
                _one(Path(folder, "home"), whole, f"{seed}/{number}", player, report)
        finally:
            player.communicate(timeout=_PATIENCE_S)
    return report


def _one(home: Path, whole: Path, name: str, player: subprocess.Popen[str], report: Report) -> None:
    draw = random.Random(name)
    kind_name = draw.choice([*KINDS, "sessions", "sessions", "sessions", "library", "library"])
    kind = KINDS[kind_name]
    shutil.copytree(whole, home)
    places = _moved(home, whole)
    path = draw.choice(sorted(home.glob(kind.files)))
    how = draw.choice(kind.damages)
    how(path, draw)
    report.damaged[kind_name] += 1
    several = [*draw.sample(kind.commands, min(2, len(kind.commands))), draw.choice(kind.answers or kind.commands)]
    for command in several:
        words = [places.get(word, word) for word in command]
        code, out, err = _run(home, words, player)
        report.commands[kind_name] += 1
        fault = _fault(code, out, err, home, answers=command in kind.answers)
        report.told[kind_name] += code != 0 and not fault
        report.lines[err.strip().replace(str(home), "HOME")[-300:]] += 1
        if fault:
            about = f"{kind_name} {name} {how.__name__}: ossia {' '.join(command)}: {code} {err.strip()[-600:]!r}"
            report.faults.setdefault(fault, []).append(about.replace(str(home), "HOME"))
    for place in (home, *home.rglob("*")):
        if place.is_dir() and not place.is_symlink():
            place.chmod(0o700)
    shutil.rmtree(home)


def _moved(home: Path, whole: Path) -> dict[str, str]:
    """What stands for a path in a command. The journal of a workspace lies under a hash of its path: it moves along."""
    import hashlib

    keys = [hashlib.sha256(os.fsencode(top / "work")).hexdigest()[:16] for top in (whole, home)]
    undo = home / "data" / "undo"
    (undo / keys[0]).rename(undo / keys[1])
    store = SessionStore(whole / "data" / "sessions" / "sessions.sqlite", now=time.time)
    last = store.list()[0].id
    store.close()
    (home / "session.json").write_text(
        '[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]'
    )
    scripts = {}
    for name, steps in (("SCRIPT", (_FINAL,)), ("WRITES", (_WRITE, _FINAL))):
        (home / name).mkdir()
        scripts[name] = write_script(home / name, *steps)
    return {"WORK": str(home / "work"), "SESSION": str(home / "session.json"), "ID": last, **scripts}


def _run(home: Path, command: list[str], player: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = home / "out", home / "err"
    for file in (out, err):
        file.write_bytes(b"")
        file.chmod(0o666)
    data = home / "xdg"
    if not data.exists():
        data.mkdir()
        (data / "ossia").symlink_to(home / "data")
    environ = {"HOME": str(home), "XDG_DATA_HOME": str(data), "XDG_CONFIG_HOME": str(home / "config"),
               "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state")}  # fmt: skip
    assert player.stdin is not None and player.stdout is not None
    told = {"out": str(out), "err": str(err), "environ": environ, "folder": str(home), "command": command}
    player.stdin.write(json.dumps(told) + "\n")
    player.stdin.flush()
    code = int(player.stdout.readline())
    return code, out.read_text(errors="replace"), err.read_text(errors="replace")


def _fault(code: int, out: str, err: str, home: Path, *, answers: bool) -> str | None:
    """What is wrong with how a command ended; None: nothing."""
    if "Traceback" in err or "Exception ignored" in err:
        return "a traceback: " + err.strip().splitlines()[-1].replace(str(home), "HOME")[:150]
    if code == -99:
        return "it hangs"
    if code < 0:
        return f"killed by signal {-code}"
    if answers and (code, out) != (0, "Done.\n"):
        return "no answer, which needs none of it"
    lines = [line for line in err.splitlines() if line.startswith("ossia: error: ")]
    if code and (len(lines) != 1 or len(lines[0]) > 1000):
        return "it fails without one line that says why"
    return None


def main() -> int:
    """Damage, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="Also what was said, with how often.")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        _play()
        return 0
    report = damage(given.count, seed=given.seed)
    print(report)
    if given.verbose:
        print("\n".join(f"{count:>5} {line}" for line, count in report.lines.most_common()))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
