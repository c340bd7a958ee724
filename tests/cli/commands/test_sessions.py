"""`ossia sessions`, and `ossia run` with --save, --continue and --resume: as a shell uses them."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from ossia.agent.engine.base import Sampling
from ossia.agent.prompt import WORK
from ossia.agent.sessions.session import Options, Session
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.main import invoke
from ossia.harmony.messages import Message
from ossia.tools.browser.document import Document
from ossia.tools.spec import ToolResult
from tests.support.command import ossia, start, write_script
from tests.support.documents import counted
from tests.support.pages import opened
from tests.support.pty import spawn
from tests.support.site import wait_until

FINAL = "<|channel|>final<|message|>Done.<|return|>"
THOUGHT = "<|channel|>analysis<|message|>Secret thought.<|end|><|start|>assistant" + FINAL.replace("Done", "Four")


@pytest.fixture
def store() -> Iterator[SessionStore]:
    """The store of this home, as another process would open it; its clock stands on 2001-09-09, 01:46:40 UTC."""
    opened = SessionStore(paths.sessions_file(), now=lambda: 1e9)
    yield opened
    opened.close()


def _spoken(*texts: str, options: Options | None = None) -> Session:
    session = Session(options)
    for text in texts:
        session.open_turn(text)
        session.add(Message("assistant", (f"Thinking of {text}.",), channel="analysis"))
        session.add(Message("assistant", (f"You said {text}.",), channel="final"))
        session.close_turn("answered")
    return session


def _keep(store: SessionStore, session: Session, **about: str) -> str:
    session_id = store.keep(session, **about)
    store.release(session)
    return session_id


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `ossia …` in this process, which takes a tenth of the time."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = invoke(list(arguments))
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def sessions(here: Command) -> Command:
    """Runs `ossia sessions …`."""
    return partial(here, "sessions")


# -- ossia sessions ----------------------------------------------------------------------------------------------------


def test_no_session_yet(sessions: Command) -> None:
    listed = sessions("list")
    assert (listed.code, listed.out) == (0, "") and listed.err.startswith("ossia: no session is stored yet")
    assert json.loads(sessions("list", "--json").out) == {"version": 1, "sessions": []}
    assert (sessions("search", "x").out, sessions("search", "x").err) == ("", "ossia: nothing found\n")
    for command in (["show", "x"], ["export", "x"], ["fork", "x"], ["rm", "x"]):
        said = sessions(*command)
        assert (said.code, said.out) == (2, "")
        assert said.err == "ossia: error: no session is called 'x': `ossia sessions list` shows the stored ones\n"
    assert not paths.sessions_file().parent.exists()


def test_list(sessions: Command, store: SessionStore) -> None:
    ids = [_keep(store, _spoken("Fix the\nparser", "more"), workspace="/w"), _keep(store, _spoken("\x1b[2J Hm"))]
    listed = sessions("list")
    when = listed.out.splitlines()[1][10:26]
    assert when.startswith("2001-09-0")  # in whatever time zone
    assert listed.out.splitlines() == [
        "ID        LAST USED         TURNS  TITLE",
        f"{ids[1]}  {when}      1  \x1b[2J Hm",
        f"{ids[0]}  {when}      2  Fix the",
    ]
    assert len(sessions("list", "--limit", "1").out.splitlines()) == 2
    (first, second) = json.loads(sessions("list", "--limit", "0", "--json").out)["sessions"]
    assert second == {
        "id": ids[0], "title": "Fix the", "created": 1e9, "updated": 1e9, "turns": 2, "model": None, "workspace": "/w",
        "parent": None, "tokens": 0, "forked": None, "parent_title": None, "folder": None,
    }  # fmt: skip
    assert first["id"] == ids[1]


def test_show(sessions: Command, store: SessionStore) -> None:
    session = Session()
    session_id = store.keep(session)
    session.open_turn("Old?")
    session.cut_back(0)
    for event in ("New?",):
        session.open_turn(event)
    session.add(Message("assistant", ("Secret.",), channel="analysis"))
    session.add(Message("assistant", ("Open \x1b[31mred.",), channel="final"))
    for ref in (session_id, session_id[:4], "old"):
        shown = sessions("show", ref)
        assert shown.code == 0 and "\n## You\n\nNew?\n\n## Assistant\n\nOpen \x1b[31mred.\n" in shown.out
        assert "Secret" not in shown.out and "Old?\n\n" not in shown.out.partition("## You")[2]
    assert "> Secret." in sessions("show", session_id, "--thinking").out
    assert sessions("show", session_id, "--all").out.endswith("retry or an edit\n\n## You\n\nOld?\n")


def test_search(sessions: Command, store: SessionStore) -> None:
    session_id = _keep(store, _spoken("How does parse_header work?"))
    _keep(store, _spoken("Another"))
    first, second = sessions("search", "header work").out.splitlines()
    assert first.startswith(f"{session_id}  2001-09-0") and first.endswith("  How does parse_header work?")
    assert second == "          user: How does parse_header work?  (+1)"
    assert sessions("search", "Thinking of").out == ""
    assert len(sessions("search", "Thinking of", "--thinking", "--limit", "1").out.splitlines()) == 2
    (hit,) = json.loads(sessions("search", '"header" work?', "--json").out)["results"] or [None]
    assert hit is None or hit["kind"] == "user"
    found = json.loads(sessions("search", "PARSE", "--json").out)
    assert found["query"] == "PARSE" and [one["matches"] for one in found["results"]] == [2]


def test_export_and_import(sessions: Command, store: SessionStore, tmp_path: Path) -> None:
    session = _spoken("One?", "Two?", options=Options("high", "Be brief.", "2025-06-28"))
    session_id = _keep(store, session)
    markdown = sessions("export", session_id).out
    assert markdown.startswith(f"# One?\n\n{session_id} · 2001-09-0") and "Thinking" not in markdown
    for name, begin in (("a.html", "<!doctype html>"), ("a.md", "# One?"), ("a.json", '{"version": 1, ')):
        done = sessions("export", "one", "-o", str(tmp_path / "new" / name))
        assert (done.code, done.out, done.err) == (0, "", "")
        assert (tmp_path / "new" / name).read_text().startswith(begin)
        assert stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) == 0o600
    imported = sessions("import", "--trust", str(tmp_path / "new" / "a.json"))
    new_id = imported.out.strip()
    assert imported.err == f"ossia: One?; continue it with: ossia --resume {new_id}\n"
    back = store.load(new_id)
    assert (back.entries, back.options, back.ends) == (session.entries, session.options, session.ends)
    assert store.load(sessions("import", str(tmp_path / "new" / "a.json")).out.strip()).taint == {"outside"}
    (tmp_path / "other.json").write_text(sessions("export", session_id, "--form", "harmony", "--thinking").out)
    other = store.load(sessions("import", str(tmp_path / "other.json")).out.strip())
    assert other.messages == session.messages and other.options.instructions == "Be brief."


def test_what_cannot_be_exported_or_imported(sessions: Command, store: SessionStore, tmp_path: Path) -> None:
    session_id = _keep(store, _spoken("One?"))
    (tmp_path / "torn.json").write_text("{")
    (tmp_path / "latin").write_bytes(b"\xff")
    for code, complaint, *command in (
        (1, "can't write", "export", session_id, "-o", str(tmp_path)),
        (2, "'--form'", "export", session_id, "--form", "pdf"),
        (2, "not JSON", "import", str(tmp_path / "torn.json")),
        (2, "not UTF-8 text", "import", str(tmp_path / "latin")),
        (2, "can't be read", "import", str(tmp_path / "missing")),
        (2, "has 1 turn", "fork", session_id, "--turn", "2"),
    ):
        said = sessions(*command)
        assert (said.code, said.out) == (code, "") and complaint in said.err and said.err.count("\n") == 1
    assert len(store.list()) == 1


def test_rm_takes_an_id_only(sessions: Command, store: SessionStore) -> None:
    ids = [_keep(store, _spoken(text)) for text in ("One", "Two", "Three")]
    said = sessions("rm", "two")
    assert (said.code, said.err) == (2, f"ossia: error: rm: needs an id: 'two' is only part of the title of {ids[1]}\n")
    said = sessions("rm", ids[0], "nowhere")
    assert said.code == 2 and len(store.list()) == 3  # all of them or none
    assert sessions("rm", ids[0], ids[2][:6]).out == f"removed {ids[0]} One\nremoved {ids[2]} Three\n"
    assert [info.id for info in store.list()] == [ids[1]]
    store.resume(ids[1])
    said = sessions("rm", ids[1])
    assert said.code == 2 and f"session {ids[1]} is open in another ossia" in said.err


def test_fork(sessions: Command, store: SessionStore) -> None:
    session_id = _keep(store, _spoken("One", "Two"))
    whole, first = (sessions("fork", session_id, *turn).out.strip() for turn in ((), ("--turn", "1")))
    assert [len(store.load(one).ends) for one in (session_id, whole, first)] == [2, 2, 1]
    assert store.find(first).parent == session_id
    titles = {row[:8]: row[35:] for row in sessions("list").out.splitlines()[1:]}
    assert titles == {
        session_id: "One", whole: '↳ fork at turn 2 of "One"', first: '↳ fork at turn 1 of "One"'
    }  # fmt: skip
    store.rename(session_id, "Numbers")
    assert 'One  ↳ fork at turn 2 of "Numbers"\n' in sessions("search", "said two").out
    sessions("rm", session_id)
    assert f"↳ fork at turn 1 of {session_id} (removed)" in sessions("list").out


def test_a_text_that_several_titles_have_is_unclear(here: Command, store: SessionStore, tmp_path: Path) -> None:
    ids = [_keep(store, _spoken("Are llamas kind?"), workspace="/w"), _keep(store, _spoken("Are llamas tall?"))]
    script = ("--engine", write_script(tmp_path, FINAL), "--no-tools")
    for command in (["run", "And?", *script, "--resume", "llamas"], ["sessions", "show", "llamas"]):
        said = here(*command)
        line, *rows = said.err.splitlines()
        assert (said.code, said.out) == (2, "")
        assert line == "ossia: error: 2 sessions may be meant by 'llamas': name one by its id"
        assert [(row[:8], row[26:]) for row in rows] == [
            (ids[1], "      1  Are llamas tall?"), (ids[0], "      1  Are llamas kind?  (in /w)")
        ]  # fmt: skip
    assert here("sessions", "show", "are llamas KIND?").code == 0


def test_a_store_that_cannot_be_used_is_one_line(sessions: Command, tmp_path: Path) -> None:
    file = paths.sessions_file()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"torn" * 100)
    (tmp_path / "chat.json").write_text('[{"role": "user", "content": "x"}]')
    for command in (["list"], ["show", "x"], ["search", "x"], ["rm", "x"], ["import", str(tmp_path / "chat.json")]):
        said = sessions(*command)
        assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
        assert said.err.startswith(f"ossia: error: {file}: not a whole database")
    assert file.read_bytes() == b"torn" * 100
    file.unlink()
    file.parent.rmdir()
    file.parent.touch()
    said = sessions("import", str(tmp_path / "chat.json"))
    assert (said.code, said.out) == (1, "") and str(file.parent) in said.err


def test_a_terminal_gets_nothing_that_it_could_obey(store: SessionStore) -> None:
    hostile = "\x1b]0;owned\x07 \u202eHm"
    session_id = _keep(store, _spoken(hostile))
    for command in (["list"], ["show", session_id]):
        said = str(spawn("sessions", *command).read())
        assert "␛]0;owned␇" in said and "\x1b" not in said and "\u202e" not in said and "\x07" not in said


# -- ossia run ---------------------------------------------------------------------------------------------------------


def test_a_run_stores_nothing_unless_it_is_asked_to(here: Command, store: SessionStore, tmp_path: Path) -> None:
    script = write_script(tmp_path, THOUGHT)
    assert here("run", "What is 2+2?", "--engine", script, "--no-tools").code == 0
    assert not paths.sessions_file().parent.exists()
    flags = ("--engine", script, "--no-tools", "--save", "--effort", "low")
    done = ossia("run", "What is 2+2?", *flags, stdin=b"piped\n")
    assert (done.returncode, done.stdout) == (0, b"Four.\n")
    (info,) = store.list()
    assert (info.title, info.turns, info.model) == ("What is 2+2?", 1, "script") and info.tokens > 10
    session = store.load(info.id)
    assert [message.text for message in session.messages] == ["What is 2+2?\n\npiped", "Secret thought.", "Four."]
    assert session.said == "What is 2+2?" and session.options.effort == "low" and session.ends == ("answered",)
    assert all(entry.vocabulary and entry.message.sampled for entry in session.entries[1:])


def test_to_continue_prefers_the_last_session_of_this_folder(store: SessionStore, tmp_path: Path) -> None:
    """It was begun there, or works in it; where there is none, it is the last of all, and a terminal says so."""
    a, b, c = (tmp_path / name for name in "abc")
    for folder in (a, b, c):
        folder.mkdir()
    script = ("--engine", write_script(tmp_path, FINAL))
    for folder, more in ((a, ()), (c, ("-w", str(b))), (tmp_path, ())):
        assert ossia("run", f"From {folder.name}", "--save", *script, *more, cwd=folder).returncode == 0

    def continued(folder: Path, *more: str) -> str:
        assert ossia("run", "And?", "-c", *script, *more, cwd=folder).returncode == 0
        return store.list()[0].title

    seen = [continued(a), continued(b), continued(c), continued(tmp_path), continued(tmp_path, "-w", str(b))]
    assert seen == ["From a", "From c", "From c", f"From {tmp_path.name}", "From c"]
    (d := tmp_path / "d").mkdir()
    assert continued(d) == "From c"
    child = spawn("run", "So?", "-c", *script, "-w", str(d), columns=200)
    printed = str(child.read())
    assert 'continuing "From c" (5 turns); no session was begun in this folder: this is the last of all' in printed
    child = spawn("run", "So?", "-c", *script, "-w", str(b), columns=200)
    assert 'continuing "From c" (6 turns)\r\n' in str(child.read())


def test_a_run_goes_on_with_a_session(here: Command, store: SessionStore, tmp_path: Path) -> None:
    options = Options("high", "Be brief.", "2025-06-28", sampling=Sampling(0.5, seed=7))
    ids = [_keep(store, _spoken(text, options=options)) for text in ("Apples?", "Pears?")]
    script = ("--engine", write_script(tmp_path, FINAL), "--no-tools")
    assert here("run", "More", "--continue", *script, "--json", "--raw").code == 2  # nothing was stored
    assert json.loads(here("run", "More", "--continue", *script, "--json").out)["answer"] == "Done."
    assert here("run", "Other", "--resume", "APPLES", *script, "--effort", "low").code == 0
    flags = ("--resume", ids[1][:5], "--instructions", "Be long.", "--temperature", "0.9")
    assert here("run", "Third", *flags, *script).code == 0
    assert ossia("--continue", *script, stdin=b"Fourth").returncode == 0
    apples, pears = (store.load(session_id) for session_id in ids)
    assert [message.text for message in apples.messages[3:]] == ["Other", "Done."]
    assert apples.options == replace(options, effort="low")
    answer = apples.entries[-1]
    assert answer.model == "script" and answer.vocabulary and answer.message.sampled
    assert store.find(ids[0]).tokens > len(answer.message.sampled.ids)  # and those of the question
    users = [message.text for message in pears.messages if message.role == "user"]
    assert users == ["Pears?", "More", "Third", "Fourth"]
    assert pears.options == replace(options, instructions="Be long.", sampling=Sampling(0.9, seed=7))
    assert pears.ends == ("answered",) * 4 and len(store.list()) == 2


def test_the_workspaces_notes_come_to_the_instructions_once(here: Command, store: SessionStore, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Use tabs.")
    session_id = _keep(store, _spoken("One", options=Options(instructions="Be brief.")))
    script = write_script(tmp_path, FINAL)
    for _ in range(2):
        said = here("run", "More", "--continue", "--workspace", str(work), "--trust", "--engine", script)
        assert said.code == 0
    options = store.load(session_id).options
    assert options.instructions is not None and options.instructions.startswith("Be brief.\n\n")
    assert options.instructions.count("Use tabs.") == 1 and "private" in options.taints


def test_the_instructions_follow_the_workspace(here: Command, store: SessionStore, tmp_path: Path) -> None:
    """Ours for work in a folder, and its notes, are there while it is; those of the user stay."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Use tabs.")
    trusting, script = ("--workspace", str(work), "--trust"), write_script(tmp_path, FINAL)
    assert here("run", "More", "--save", *trusting, "--engine", script).code == 0
    session_id = store.list()[0].id
    first = store.load(session_id).options.instructions
    assert first == f"{WORK}\n\nNotes of the workspace's AGENTS.md:\n\nUse tabs."
    for flags, told in (((), None), (("--workspace", str(work)), WORK), (trusting, first), ((), None)):
        assert here("run", "More", "--resume", session_id, *flags, "--engine", script).code == 0
        assert store.load(session_id).options.instructions == told


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--continue"], "--continue: no session is stored yet"),
        (["--resume", "apples"], "no session is called 'apples': `ossia sessions list` shows the stored ones"),
    ],
)
def test_a_session_that_is_not_there(flags: list[str], complaint: str, here: Command, tmp_path: Path) -> None:
    said = here("run", "hi", *flags, "--engine", write_script(tmp_path, FINAL))
    assert said == Said(2, "", f"ossia: error: {complaint}\n")


def test_one_run_at_a_time_goes_on_with_a_session(here: Command, store: SessionStore, tmp_path: Path) -> None:
    session_id = store.keep(_spoken("Apples?"))
    said = here("run", "hi", "--continue", "--engine", write_script(tmp_path, FINAL))
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert f"session {session_id} is open in another ossia" in said.err
    assert f"ossia sessions fork {session_id}" in said.err


def test_a_run_that_cannot_store_says_so(here: Command, tmp_path: Path) -> None:
    """A folder that can't be made, a file that is torn: the answer is worth more."""
    file, script = paths.sessions_file(), ("--engine", write_script(tmp_path, FINAL), "--no-tools")
    file.parent.parent.mkdir(parents=True)
    file.parent.touch()
    said = here("run", "hi", "--save", *script)
    assert (said.code, said.out) == (0, "Done.\n")
    assert "the session is not stored: " in said.err and str(file.parent) in said.err
    file.parent.unlink()
    file.parent.mkdir()
    file.write_bytes(b"torn" * 100)
    said = here("run", "hi", "--save", *script)
    assert (said.code, said.out, said.err.count("\n")) == (0, "Done.\n", 1)
    assert "the session is not stored: " in said.err and "move it away" in said.err


def test_a_run_that_was_killed_goes_on(here: Command, store: SessionStore, tmp_path: Path) -> None:
    slow = write_script(tmp_path, THOUGHT.replace("Four.", counted("Four. ", 50)), tokens_per_s=10)
    process = start("run", "What is 2+2?", "--engine", slow, "--save", "--no-tools")
    try:
        wait_until(lambda: bool(store.list()), seconds=30)  # with the first message; the rest takes 20 s
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=10)
    (info,) = store.list()
    assert store.load(info.id).ends == (None,)
    said = here("run", "Well?", "--continue", "--engine", write_script(tmp_path, FINAL), "--no-tools")
    assert (said.code, said.out) == (0, "Done.\n")
    session = store.load(info.id)
    assert session.messages[0].text == "What is 2+2?" and session.messages[-1].text == "Done."
    assert session.ends[-1] == "answered"
    with sqlite3.connect(paths.sessions_file()) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_pages_and_the_loss_of_variables_are_known_after_a_resume(
    here: Command, store: SessionStore, tmp_path: Path
) -> None:
    session = Session()
    session.open_turn("Look.")
    page = opened(Document("Capy", "https://w.test/", "They swim.\nMuch."))
    session.add(Message("assistant", ('{"id": "x"}',), recipient="browser.open", channel="analysis"))
    session.add_result(_result("browser.open", page.text), page)
    session.add(Message("assistant", ("x=1",), recipient="python", channel="analysis"))
    session.add_result(_result("python", "1"), ToolResult("1"))
    session.close_turn("answered")
    _keep(store, session)
    steps = (
        '<|channel|>analysis to=browser.find code<|message|>{"pattern": "swim", "cursor": 0}<|call|>',
        "<|channel|>analysis to=python code<|message|>print(6*7)<|call|>",
        "<|channel|>analysis to=python code<|message|>print(6*7)<|call|>",
        "<|channel|>final<|message|>They swim【0†L0】.<|return|>",
    )
    line = json.loads(here("run", "Again.", "--continue", "--engine", write_script(tmp_path, *steps), "--json").out)
    found, first, second = [call["result"] for call in line["calls"]]
    assert "They swim." in found
    assert first.startswith("[WARN] this is a new kernel: variables lost") and first.endswith("\n42")
    assert second == "42"
    assert [note["url"] for note in line["citations"]] == ["https://w.test/"]


def _result(name: str, text: str) -> Message:
    return Message("tool", (text,), name=name, recipient="assistant", channel="analysis")
