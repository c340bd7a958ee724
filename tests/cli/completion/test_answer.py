"""What is offered for a word of a command line; `test_shells` has the shells themselves."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.app import command
from ossia.cli.completion.answer import answer
from ossia.cli.completion.line import Line, quoted, read
from ossia.cli.completion.values import _SOURCES
from ossia.harmony.messages import Message
from ossia.tools.approval.grants import Grants, Hosts
from ossia.tools.approval.trust import TrustStore, look
from tests.support.command import ossia, ossia_here
from tests.support.skills import write_skill


@pytest.fixture
def mine(home: Path) -> Path:
    """A home with something of everything."""
    data = paths.data_dir()
    (data / "models").mkdir(parents=True)
    (data / "models" / "tuned.gguf").write_bytes(b"GGUF")
    write_skill(home / ".agents" / "skills", "review", "Review changes.")
    write_skill(home / ".agents" / "skills", "quiet", "For the model.", "Be quiet.", "user-invocable: false")
    paths.config_file().parent.mkdir(parents=True)
    paths.config_file().write_text('[engines.team]\nurl = "https://gpu.test"\n\n[mcpServers.files]\ncommand = "x"\n')
    Grants(data).add(["container.exec:git status *"])
    Hosts(data).add("https://gpu.test")
    stored("What is 48*17?")
    return home


def stored(title: str) -> str:
    """Store a session; its id."""
    store = SessionStore(paths.sessions_file(), now=lambda: 1e9)
    session = Session()
    session_id = store.keep(session, title=title)
    session.open_turn("hello")
    session.add(Message("assistant", ("Hi.",), channel="final"))
    session.close_turn("answered")
    store.release(session)
    store.close()
    return session_id


def offered(*words: str) -> list[str]:
    """What the shell itself offers, then the candidates."""
    return [line.partition("\t")[0] for line in answer("fish", [*words[:-1], shlex.quote(words[-1])], command)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mod", "none models"),
        ("mcp l", "none list login logout"),
        ("'why is the sky blue?' --sch", "none --schema --schema-multi"),
        ("chat --prefill-ahead ''", "none auto on off"),
        ("run --effort ''", "none low medium high"),
        ("--effort=h", "none --effort=high"),
        ("run -e m", "none medium"),
        ("run --context ''", "none max"),
        ("run --truncate ''", "none head tail middle"),
        ("run --file ''", "files"),
        ("sessions export --form h", "none html harmony"),
        ("run --web b", "none brave"),
        ("run --engine ''", "none llama team"),
        ("--model t", "models tuned"),
        ("models show e", "models etude"),
        ("models pull ''", "none gpt-oss-20b gpt-oss-120b"),
        ("run --skill ''", "none review"),
        ("-t ''", "none review"),
        ("-t review --trun", "none --truncate"),
        ("--truncate ''", "none head tail middle"),
        ("--tr", "none --truncate --trust"),
        ("-x -f ''", "files"),
        ("skills show ''", "none quiet review"),
        ("run --allow container.", "none container.exec container.exec:git status *"),
        ("run --deny 'container.exec:git s'", "none container.exec:git status *"),
        ("trust --forget ''", "none container.exec:git status * https://gpu.test"),
        ("mcp rm ''", "none files"),
        ("mcp remove ''", "none files"),
        ("mcp add ''", "none"),
        ("config get see", "none seed"),
        ("config set kv", "none kv_type"),
        ("config set vi ''", "none true false"),
        ("config set model tu", "none tuned"),
        ("help skil", "none skills"),
        ("completion ''", "none bash zsh fish"),
        ("run --schema ''", "files"),
        ("-w ''", "folders"),
        ("./pro", "folders"),
        ("-c ''", "none"),
        ("--version ''", "none"),
        ("run hello ''", "none"),
        ("nonsense --no-such ''", "none"),
        ("docs --bad ''", "none add list rm search show"),
    ],
)
def test_what_fits(mine: Path, line: str, expected: str) -> None:
    assert " ".join(offered(*shlex.split(line))) == expected


def test_a_candidate_comes_with_a_line_about_it(mine: Path) -> None:
    other = stored("x\x1b[31m $(touch pwned): 100%")
    found = answer("fish", ["--resume", ""], command)
    assert sorted(line[8:] for line in found[1:]) == [
        "\t2001-09-09 01:46 What is 48*17?",
        "\t2001-09-09 01:46 x␛[31m $(touch pwned): 100%",
    ]
    assert answer("zsh", ["run", "--allow", "container.exec:"], command) == [
        "none", "container.exec\\:git status *:always, without a workspace",
    ]  # fmt: skip
    line = "ossia run --allow container.exec:g"
    assert answer("bash", [line, "g", "9"], command) == ["none", "git\\ status\\ \\*"]
    assert answer("bash", [f"ossia --resume {other}", other, "63"], command) == ["none", other]
    assert answer("bash", ["ossia --kv-type ", "", "63"], command) == ["none", "f16", "q8_0"]
    assert len(answer("bash", ["ossia --resume ", "", "63"], command)[1].split("  (2001-09-09 01:46 ")) == 2
    assert len(answer("bash", ["ossia --resume ", "", "9"], command)[1]) == len(other)


def test_a_workspaces_skills_are_offered_as_it_was_trusted(mine: Path, tmp_path: Path) -> None:
    write_skill(tmp_path / ".agents" / "skills", "release")
    asked = ["-w", str(tmp_path), "hi there", "--skill", ""]
    assert offered(*asked) == ["none", "review"]
    store = TrustStore(paths.data_dir())
    store.trust(tmp_path, look(tmp_path))
    assert offered(*asked) == ["none", "release", "review"]
    write_skill(tmp_path / ".agents" / "skills", "evil")
    assert offered(*asked) == ["none", "review"]
    assert store.state(tmp_path) == "changed"


def test_the_places_of_documents(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("hello")
    assert ossia_here("docs", "add", str(tmp_path)).returncode == 0
    assert offered("docs", "rm", "/") == ["files", str(tmp_path)]


def _files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


_ASKED = [
    "--resume ''", "--model ''", "run --skill ''", "--allow ''", "--engine ''", "mcp rm ''", "docs rm ''",
    "trust --forget ''", "config set ''", "help ''", "''",
]  # fmt: skip


@pytest.mark.parametrize("broken", [False, True])
def test_a_tab_makes_no_file_and_no_noise(mine: Path, broken: bool) -> None:
    (mine / "notes.md").write_text("hello")
    assert ossia_here("docs", "add", str(mine / "notes.md")).returncode == 0
    if broken:
        paths.config_file().write_text("effort = [")
        for path in (paths.sessions_file(), paths.library_file(), paths.data_dir() / "trust.json"):
            path.write_bytes(b"not a database")
    before = _files(mine)
    for line in _ASKED:
        done = ossia("completion", "fish", "--", *shlex.split(line), cwd=mine)
        assert (done.returncode, done.stderr) == (0, b""), line
    assert _files(mine) == before


@pytest.fixture
def locked(mine: Path) -> Iterator[None]:
    with closing(sqlite3.connect(paths.sessions_file(), isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("UPDATE sessions SET title = 'x'")
        yield


def test_a_locked_store_gives_nothing(locked: None) -> None:
    assert offered("--resume", "") == ["none"]


@given(value=st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1))
@example(value="odd $(touch x) `touch x` 'q' \"d\" {a,b};&!\\")
def test_bash_reads_a_value_as_it_is(value: str) -> None:
    assert read(f"ossia -m {quoted(value)}").word == value
    assert read(f"ossia -m '{quoted(value, chr(39))}").word == value
    assert read(f'ossia -m "{quoted(value, chr(34))}').word == value


def test_a_line_of_bash() -> None:
    assert read(r"""ossia run 'a b' x\ y "c \"$d\e" --eff""") == Line(
        ["run", "a b", "x y", r'c "$d\e'], "--eff", "", False
    )
    assert read("ossia run x >out 2> err --e") == Line(["run", "x"], "--e", "", False)
    assert read("ossia run x > ou") == Line(["run", "x"], "ou", "", True)
    assert read("ossia -m 'a ") == Line(["-m"], "a ", "'", False)
    assert read("ossia run a\\") == Line(["run"], "a", "", False)


def test_one_shell_at_a_time() -> None:
    done = ossia_here("completion", "bash", "zsh")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"ossia: error: prints the script of one shell: ossia completion bash\n"


def _parameters(one: Any, path: tuple[str, ...]) -> Iterator[str]:
    for param in one.params:
        yield from (" ".join([*path[-2:], param.name]), f"{path[0]} {param.name}" if path else "", param.name)
    for name, below in getattr(one, "commands", {}).items():
        yield from _parameters(below, (*path, name))


def test_each_source_is_for_a_parameter() -> None:
    assert _SOURCES.keys() - set(_parameters(command, ())) == set()
