"""A folder that is entered for the first time: asked about once, with all that would take effect in it."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.cli import paths
from ossia.cli.terminal.question import QUIET_S
from ossia.tools.approval.trust import TrustStore
from tests.support.command import write_script
from tests.support.documents import answer
from tests.support.looks import Looks
from tests.support.pty import PtyChat, spawn
from tests.support.screen import ChatScreen, Clock, chatting

CONFIG = """
tools = [".ossia/weather.py"]
[approvals]
"container.exec:git status*" = "auto"
[mcpServers.notes]
command = "npx"
args = ["-y", "\\u001b[2Jnotes"]
"""
ASKS = "[y] trust  [n] no, never ask here  [l] later"
NOTE = "its AGENTS.md is not used (/tools trust to look at it)"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Speak of llamas.\n")
    return folder


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder whose path looks the same on each screen."""
    folder = Path(tempfile.mkdtemp(prefix="ossia-", dir="/tmp")) / "proj"
    (folder / ".ossia").mkdir(parents=True)
    (folder / ".ossia" / "config.toml").write_text(CONFIG)
    (folder / ".ossia" / "weather.py").write_text("def weather(): ...\n")
    (folder / ".agents" / "skills" / "release").mkdir(parents=True)
    (folder / ".agents" / "skills" / "release" / "SKILL.md").write_text("---\nname: release\ndescription: x\n---\nx\n")
    (folder / "AGENTS.md").write_text("Be brief.\n")
    yield folder
    shutil.rmtree(folder.parent)


async def asked(stage: ChatScreen, clock: Clock) -> None:
    await stage.until(lambda: ASKS in stage.terminal.display)
    clock.now += 2 * QUIET_S


def shown(stage: ChatScreen) -> str:
    return " ".join(stage.rows)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(("columns", "rows"), [(50, 15), (120, 40)])
def test_it_is_asked_about_at_the_start(
    tmp_path: Path, project: Path, columns: int, rows: int, request: pytest.FixtureRequest
) -> None:
    looks = Looks(f"folder-{columns}x{rows}", write=request.config.getoption("--write-screens"))
    engine = write_script(tmp_path, answer("Hello."))
    with PtyChat(str(project), "--engine", engine, columns=columns, rows=rows) as chat:
        chat.until(ASKS)
        looks.at("the question", chat)
        time.sleep(1.2 * QUIET_S)  # a question listens only then
        chat.press("n")
        looks.at("the answer", chat)
    with PtyChat(str(project), "--engine", engine, columns=columns, rows=rows) as chat:
        chat.idle()
        looks.at("later", chat)
    looks.done()
    assert TrustStore(paths.data_dir()).declined() == (project.resolve(),)


def test_a_line_sent_instead_of_an_answer_means_later(tmp_path: Path, work: Path) -> None:
    async def case() -> None:
        for _ in range(2):
            engine = write_script(tmp_path, answer("Hello."))
            async with ChatScreen(engine=engine, workspace=str(work), no_tools=None) as stage:
                await stage.until(lambda stage=stage: ASKS in stage.terminal.display)
                await stage.type("hello\r")
                await stage.until(lambda stage=stage: "Hello." in stage.rows)
                assert NOTE in shown(stage) and not stage.face.asks
                await stage.settle()

    chatting(case)


def test_keys_typed_ahead_do_not_answer_and_later_asks_again(work: Path) -> None:
    clock = Clock()

    async def case() -> None:
        for _ in range(2):
            async with ChatScreen(workspace=str(work), no_tools=None, clock=clock) as stage:
                await stage.until(lambda stage=stage: ASKS in stage.terminal.display)
                await stage.type("y")
                await stage.settle()
                assert ASKS in stage.terminal.display and TrustStore(paths.data_dir()).state(work) == "unknown"
                await stage.type("\x15")
                clock.now += 2 * QUIET_S
                await stage.type("l")
                await stage.until(lambda stage=stage: NOTE in shown(stage))
                await stage.settle()

    chatting(case)


@pytest.mark.parametrize("entered", ["--workspace", "/tools workspace"])
def test_once_trusted_its_own_takes_effect(work: Path, entered: str) -> None:
    clock = Clock()

    async def case() -> None:
        at_start = entered.startswith("--")
        async with ChatScreen(workspace=str(work) if at_start else None, no_tools=None, clock=clock) as stage:
            if not at_start:
                await stage.type(f"{entered} {work}\r")
            await asked(stage, clock)
            assert "notes     AGENTS.md (17 bytes) is added to the instructions" in stage.rows
            assert "Speak of llamas." not in (stage.talk.session.options.instructions or "")
            await stage.type("y")
            await stage.until(lambda: stage.talk.loaded is not None and stage.talk.session.taint == {"private"})
            assert "Speak of llamas." in (stage.talk.session.options.instructions or "")
            await stage.settle()
        async with ChatScreen(workspace=str(work), no_tools=None) as stage:
            assert not stage.face.asks and stage.talk.folder and stage.talk.folder.workspace.trusted

    chatting(case)


def test_a_declined_folder_is_never_asked_about_again(work: Path) -> None:
    clock = Clock()

    async def case() -> None:
        async with ChatScreen(workspace=str(work), no_tools=None, clock=clock) as stage:
            await asked(stage, clock)
            await stage.type("n")
            await stage.until(lambda: "not asked about again: /tools trust changes that" in shown(stage))
        async with ChatScreen(workspace=str(work), no_tools=None, clock=clock) as stage:
            await stage.until(lambda: NOTE in shown(stage))
            assert not stage.face.asks
            await stage.type("/tools trust\r")
            await stage.until(lambda: "[y] yes" in shown(stage))
            clock.now += 2 * QUIET_S
            await stage.type("y")
            await stage.until(lambda: TrustStore(paths.data_dir()).state(work) == "trusted")
            await stage.settle()
        assert TrustStore(paths.data_dir()).declined() == ()

    chatting(case)


@pytest.mark.parametrize("changed", ["home", "above it", "since it was trusted", "a link in .ossia", "trust.json"])
def test_some_folders_are_only_noted(work: Path, changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that can't be somebody's own work, that were answered about, and where no answer could be stored."""
    if changed in ("home", "above it"):
        monkeypatch.setenv("XDG_DATA_HOME", str(work.with_name("data")))  # else it can't be a workspace at all
        monkeypatch.setenv("HOME", str(work if changed == "home" else work / "me"))
    elif changed == "since it was trusted":
        TrustStore(paths.data_dir()).trust(work)
        (work / "AGENTS.md").write_text("Run everything.")
    elif changed == "a link in .ossia":
        (work / ".ossia").symlink_to(work)
    else:
        paths.data_dir().mkdir(parents=True, exist_ok=True)
        (paths.data_dir() / "trust.json").write_text("{")

    async def case() -> None:
        async with ChatScreen(workspace=str(work), no_tools=None) as stage:
            await stage.until(lambda: "not used (/tools trust to look at" in shown(stage))
            assert not stage.face.asks

    chatting(case)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_run_asks_nothing(tmp_path: Path, work: Path) -> None:
    child = spawn("run", "Hi", "-w", str(work), "--engine", write_script(tmp_path, answer("Hello.")), columns=200)
    printed = child.read()
    child.close()
    assert child.exitstatus == 0 and "Hello." in printed
    assert "its AGENTS.md is not used (`ossia trust" in printed and "[y]" not in printed
    assert TrustStore(paths.data_dir()).asks(work)
