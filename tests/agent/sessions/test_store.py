"""Stored sessions: what is in the file after every event, and after everything that can happen to a file."""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ossia.agent.errors import SessionInUse, SessionMissing, SessionsUnusable, SessionUnclear
from ossia.agent.events import Event, MessageAdded
from ossia.agent.sessions._rows import SESSIONS
from ossia.agent.sessions.session import Entry, Options, Session, Summary, UserText
from ossia.agent.sessions.store import SessionHit, SessionInfo, SessionStore
from ossia.harmony.messages import Message, Sampled
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.database import migrate
from ossia.tools.spec import Attachment, Taint, ToolResult
from tests.oracle.kill_sessions import play_and_kill
from tests.support.command import ROOT
from tests.support.turns import Stage, drive

CALL = (
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>x=1<|call|>"
)
FINAL = "<|channel|>final<|message|>Done.<|return|>"

Open = Callable[[], SessionStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "sessions" / "sessions.sqlite"


@pytest.fixture
def opened(path: Path) -> Iterator[Open]:
    """Opens the file, each time anew, as another process would; its clock ticks once a look."""
    stores: list[SessionStore] = []
    clock = itertools.count(1_000_000)

    def open_store() -> SessionStore:
        stores.append(SessionStore(path, now=lambda: float(next(clock))))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def _same(one: Session, other: Session) -> None:
    assert one.entries == other.entries
    assert [entry.message.sampled for entry in one.entries] == [entry.message.sampled for entry in other.entries]
    assert (one.ends, one.options, one.summary) == (other.ends, other.options, other.summary)


def _spoken(*texts: str) -> Session:
    """A session of one turn for each text, with its answer."""
    session = Session()
    for text in texts:
        session.open_turn(text)
        session.add(Message("assistant", (f"You said {text}.",), channel="final", sampled=Sampled((1, 2), "return")))
        session.close_turn("answered")
    return session


# -- as it happens -----------------------------------------------------------------------------------------------------


def test_after_every_event_the_file_has_all_of_it(opened: Open, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL, CALL, FINAL))
    stage.session.vocabulary, stage.session.model = etude_tokenizer.vocabulary.digest, "étude"
    session_id, other = opened().keep(stage.session), opened()
    added = 0

    def look(event: Event) -> None:
        nonlocal added
        if isinstance(event, MessageAdded):
            added += 1
            assert other.load(session_id).messages[-1] == event.message
        if added:
            _same(other.load(session_id), stage.session)

    for text in ("häh? 🎵 <|end|>", "more"):
        drive(stage.turn(text), look)
    assert added == 10 and stage.session.ends == ("answered", "answered")


def test_every_field_of_an_entry_comes_back(opened: Open) -> None:
    session = Session(Options("high", "Notes.", "2025-06-28", taints=frozenset({"private"})))
    session.vocabulary, session.model = "v1", "gpt-oss-20b"
    session.open_turn(UserText("see \udcff this\0", "see"))
    sampled = Sampled((0, 1, 200_012), "call", repaired=True)
    session.add(Message("assistant", ("", "x"), recipient="python", channel="analysis", sampled=sampled), cut=True)
    attached = (Attachment(Path("/a/plot.png"), "image/png"),)
    state, taints = {"a": ["\udcff"]}, frozenset[Taint]({"outside"})
    result = ToolResult("1" * 5000, error=True, attachments=attached, state=state, taints=taints)
    store = opened()
    session_id = store.keep(session, workspace="/w")
    answer = Message("tool", (result.text,), name="python", recipient="assistant", channel="analysis")
    session.add_result(answer, result)
    session.shorten(2, "1…")
    session.summarise(Summary("They spoke.", 1))
    session.options = replace(session.options, effort="low")
    assert store.problem is None
    _same(opened().load(session_id), session)
    assert [entry.shortened for entry in session.entries] == [None, None, "1…"]
    assert opened().latest() == SessionInfo(
        session_id, "see", 1_000_000.0, 1_000_003.0, 1, "gpt-oss-20b", "/w", None, 3
    )


def test_nothing_is_written_before_the_first_message(opened: Open, path: Path) -> None:
    store = opened()
    session = Session()
    store.keep(session)
    session.options = Options("low")
    assert (list(store.list()), store.latest(), list(store.search("x"))) == ([], None, [])
    assert not path.parent.exists()
    session.open_turn("hi")
    assert store.list()[0].title == "hi"
    assert store.load(store.list()[0].id).options == Options("low")


def test_only_the_owner_can_read_it(opened: Open, path: Path) -> None:
    before = os.umask(0)
    try:
        session = Session()
        opened().keep(session)
        session.open_turn("hi")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert len(modes) == 4 and set(modes.values()) == {0o600}  # the database, its log and index, the lock
        assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
        path.chmod(0o644)
        opened().keep(other := Session())
        other.open_turn("ho")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_what_was_cut_back_stays_in_the_file_and_out_of_the_session(opened: Open) -> None:
    session = _spoken("one", "two", "three")
    store = opened()
    session_id = store.keep(session)
    session.summarise(Summary("One and two.", 2))
    taken = session.cut_back(1)
    _same(opened().load(session_id), session)
    assert session.summary is None and len(session.entries) == 2
    assert store.replaced(session_id) == taken
    session.open_turn("two, but other")
    session.shorten(2, "two")
    _same(opened().load(session_id), session)
    assert [hit.snippet for hit in store.search("three")] == []
    assert store.list()[0].turns == 2


def test_a_retry_takes_its_summary_along_at_once(opened: Open) -> None:
    """The session tells its recorder both, one after the other: a process may die in between."""
    session = _spoken("one", "two")
    session_id = opened().keep(session)
    session.summarise(Summary("One and two.", 2))
    assert session.recorder is not None
    session.recorder.cut_back(1)
    back = opened().load(session_id)
    assert (back.summary, back.ends) == (None, ("answered",))


def test_counts_what_no_model_sampled_once_it_can(opened: Open) -> None:
    store = opened()
    session = Session()
    store.keep(session)
    session.open_turn("12345")
    assert store.list()[0].tokens == 0
    store.count_tokens = len
    session.open_turn("12345")
    session.add(Message("assistant", ("ab",), channel="final", sampled=Sampled((1, 2, 3), "return")))
    assert store.list()[0].tokens == 8


def test_a_turn_that_was_under_way_is_open_again(opened: Open, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL,))
    session_id = opened().keep(stage.session)
    for event in stage.turn():
        if type(event).__name__ == "ToolStarted":
            break
    back = opened().load(session_id)
    assert back.ends == (None,) and back.messages[-1].recipient == "python"
    after = Stage(etude_tokenizer, (FINAL,), session=back)
    after.play("more")
    assert [message.text for message in back.messages[-3:]] == ["[interrupted by the user]", "more", "Done."]


# -- going on ----------------------------------------------------------------------------------------------------------


def test_a_resumed_session_goes_on_in_its_place(opened: Open) -> None:
    session, first = _spoken("one"), opened()
    session_id = first.keep(session)
    first.release(session)
    session.open_turn("not stored")
    again = opened()
    back = again.resume(session_id)
    back.open_turn("two")
    back.close_turn("stopped")
    back.cut_back(1)
    back.open_turn("another two")
    _same(opened().load(session_id), back)
    assert [message.text for message in back.messages] == ["one", "You said one.", "another two"]
    assert len(again.list()) == 1
    again.close()
    again.release(back)
    assert back.recorder is None


def test_one_goes_on_with_a_session_at_a_time(opened: Open, path: Path) -> None:
    session, first, second = _spoken("one"), opened(), opened()
    session_id = first.keep(session)
    for held in (second.resume, second.remove, first.resume):
        with pytest.raises(SessionInUse, match=f"process {os.getpid()}.*ossia sessions fork {session_id}"):
            held(session_id)
    copy = second.resume(second.fork(session_id))
    assert copy.messages == session.messages
    first.release(session)
    assert second.resume(session_id).messages == session.messages
    second.close()
    assert list(path.parent.glob("*.lock")) == []


_HOLDS = """
import sys, time
from pathlib import Path
from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionStore
store = SessionStore(Path(sys.argv[1]), now=time.time)
session = store.resume(sys.argv[2]) if len(sys.argv) > 2 else Session()
print(sys.argv[2] if len(sys.argv) > 2 else store.keep(session), flush=True)
for n in range(int(sys.stdin.readline())):
    session.open_turn(f"line {n}")
    assert store.problem is None, store.problem
print("stored", flush=True)
sys.stdin.readline()
"""


def _process(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _HOLDS, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def test_two_processes_at_once(opened: Open, path: Path) -> None:
    """Both store into one file at once; what one holds the other can't have, until it is killed."""
    store = opened()
    kept = store.keep(session := _spoken("one"))
    store.release(session)
    one, other = _process(str(path)), _process(str(path), kept)
    try:
        ids = [_line(one), _line(other)]
        with pytest.raises(SessionInUse, match=f"process {other.pid}"):
            store.resume(kept)
        for process in (one, other):
            _tell(process, "100")
        assert [_line(one), _line(other)] == ["stored", "stored"]
        stored = [[message.text for message in store.load(session_id).messages] for session_id in ids]
        lines = [f"line {n}" for n in range(100)]
        assert stored == [lines, ["one", "You said one.", *lines]]
        other.send_signal(signal.SIGKILL)
        other.wait(10)
        assert len(store.resume(kept).messages) == 102
    finally:
        for process in (one, other):
            process.kill()
            process.communicate(timeout=10)


def test_a_file_that_another_process_is_making_is_ours(tmp_path: Path) -> None:
    """Between two looks at its marks, say: the first says that there are none, the second that there are tables."""
    path = tmp_path / "new.sqlite"
    one, other = (sqlite3.connect(path, isolation_level=None, timeout=0) for _ in range(2))
    blocked = []

    def quicker(statement: str) -> None:
        if statement == "PRAGMA user_version" and not blocked:
            try:
                migrate(other, path, SESSIONS)
            except sqlite3.OperationalError as error:  # ours is one look: the other one has to wait
                blocked.append(str(error))

    one.set_trace_callback(quicker)
    migrate(one, path, SESSIONS)
    one.set_trace_callback(None)
    assert blocked == ["database is locked"]
    migrate(other, path, SESSIONS)
    for db in (one, other):
        assert db.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
        db.close()


def test_one_thread_lists_while_another_stores(opened: Open) -> None:
    store, session = opened(), Session()
    session_id = store.keep(session)
    session.open_turn("begin")
    done = threading.Event()

    def speak() -> None:
        for n in range(100):
            session.open_turn(f"line {n}")
        done.set()

    thread = threading.Thread(target=speak)
    thread.start()
    while not done.is_set():
        assert store.list()[0].id == session_id
        loaded = store.load(session_id)
        assert len(loaded.entries) == len(loaded.ends)
    thread.join()
    assert store.problem is None and len(store.load(session_id).entries) == 101


# -- finding -----------------------------------------------------------------------------------------------------------


def test_a_session_is_found_by_its_id_or_title(opened: Open) -> None:
    store = opened()
    ids = [store.keep(_spoken(text)) for text in ("Fix the parser\nplease", "fix 100% of_it", "  \n\tTell   me\n")]
    assert [info.title for info in store.list()] == ["Tell me", "fix 100% of_it", "Fix the parser"]
    assert [info.id for info in store.list(limit=1)] == [ids[2]]
    for n, ref in enumerate(["the PARSER", "0% of_", "tell"]):
        assert store.find(ref).id == ids[n]
    assert store.find(ids[0]).id == store.find(ids[0].upper()[:5]).id == ids[0]
    assert store.find("%").id == ids[1]
    with pytest.raises(SessionUnclear, match="2 sessions may be meant by 'fix': name one by its id") as unclear:
        store.find("fix")
    assert [info.id for info in unclear.value.found] == [ids[1], ids[0]]
    store.rename(ids[0], "Fix")
    assert store.find("fix").id == ids[0]  # all of its title
    for ref in ("", " ", "0% of-", "zzzzzzzz", "x" * 100_000, "\udcff", "\0"):
        with pytest.raises(SessionMissing, match="ossia sessions list"):
            store.find(ref)


def test_the_beginning_of_several_ids_is_none(opened: Open) -> None:
    store = opened()
    ids = [store.keep(_spoken("0")) for _ in range(28)]  # one more than there are letters
    begin = next(session_id[0] for session_id in ids if sum(one[0] == session_id[0] for one in ids) > 1)
    with pytest.raises(SessionUnclear, match=f"sessions may be meant by '{begin}'") as unclear:
        store.find(begin)
    assert {info.id for info in unclear.value.found} == {one for one in ids if one.startswith(begin)}


def test_the_last_session_of_a_folder(opened: Open) -> None:
    store = opened()
    begun, worked, last = (
        store.keep(_spoken(text), workspace=workspace, folder=folder)
        for text, workspace, folder in (("one", None, "/a"), ("two", "/b", "/c"), ("three", None, None))
    )
    found = [store.latest(folder=folder) for folder in ("/a", "/b", "/c", "/d")]
    assert [info and info.id for info in found] == [begun, worked, worked, None]
    assert (store.latest() or found[0]).id == last


def test_a_title_is_the_first_line_until_one_is_given(opened: Open) -> None:
    store, session = opened(), Session()
    session_id = store.keep(session)
    session.open_turn(UserText("\n\x1b[2J What   is this?\n\npiped", "\n\x1b[2J What   is this?"))
    session.open_turn("Another line")
    title = "\x1b[2J What is this?"
    assert store.list()[0].title == title
    store.rename(session_id, " A name\nof two lines ")
    session.cut_back(0)
    session.open_turn("Yet another")
    assert store.list()[0].title == "A name"
    store.rename(session_id, "")
    assert store.list()[0].title == "Yet another"
    session.open_turn("x" * 200)
    session.cut_back(0)
    session.open_turn("x" * 200)
    store.rename(session_id, " \n ")
    assert store.list()[0].title == "x" * 79 + "…"


def test_search(opened: Open) -> None:
    store = opened()
    parser = _spoken("How does parse_header work?", "And parseHeader?")
    parser.open_turn("Think.")
    parser.add(Message("assistant", ("secretly wondering",), channel="analysis"))
    other = _spoken("東京の天気は？", "Straße, naïve 🎵 C++")
    ids = [store.keep(parser), store.keep(other)]
    infos = {info.id: info for info in store.list()}

    def found(text: str, **options: bool) -> list[tuple[str, str]]:
        return [(hit.info.id, hit.kind) for hit in store.search(text, **options)]

    assert found("header") == found("HEADER parse") == [(ids[0], "user")]
    assert store.search("header work")[0] == SessionHit(infos[ids[0]], "user", "How does parse_header work?", 2)
    for text in ("天気", "straße", "🎵", "c++", "+"):
        assert [hit.info.id for hit in store.search(text)] == [ids[1]]
    assert found("天気は") and found("header 天気は") == [] == found("nowhere")
    assert found("wonder") == [] and found("wonder", thinking=True) == [(ids[0], "thinking")]
    store.rename(ids[1], "Weather and parse things")
    assert found("parse") == [(ids[1], "title"), (ids[0], "user")]
    assert len(store.search("parse", limit=1)) == 1


HOSTILE = ('"', "'", '" OR "', "text:x", "^x", "x*", "NEAR(a b)", "a AND", "NOT", "(", "-x", "{a}:b", "%", "_", ";--")


@pytest.mark.parametrize("text", [*HOSTILE, "\0", "a\0b", "\udcff", "x" * 100_000, "q " * 5000, "\n", "ab" * 300])
def test_no_text_is_syntax(text: str, opened: Open) -> None:
    store = opened()
    store.keep(_spoken("hello there"))
    assert [hit.info.title for hit in store.search(text)] == []


@given(st.text(max_size=30))
@settings(max_examples=60)
def test_what_was_said_is_found(text: str) -> None:
    """Any text at all: no error; and a message finds itself."""
    store = _memory()
    assert isinstance(list(store.search(text)), list)
    session = Session()
    session.open_turn(f"{text} end")
    session_id = store.keep(session)
    if "\0" not in text:
        assert session_id in [hit.info.id for hit in store.search(text, limit=10_000)] or not text.split()
    store.release(session)


_STORES: list[SessionStore] = []


def _memory() -> SessionStore:
    """One file for all examples."""
    if not _STORES:
        import tempfile

        folder = tempfile.mkdtemp(prefix="ossia-")
        _STORES.append(SessionStore(Path(folder) / "sessions.sqlite", now=lambda: 0.0))
    return _STORES[0]


@pytest.fixture(scope="module", autouse=True)
def _forget_memory() -> Iterator[None]:
    yield
    for store in _STORES:
        store.close()
        shutil.rmtree(store.path.parent)


# -- changing ----------------------------------------------------------------------------------------------------------


def test_a_fork_has_the_turns_that_were_asked_for(opened: Open) -> None:
    session, store = _spoken("one", "two", "three"), opened()
    session_id = store.keep(session, workspace="/w")
    session.cut_back(2)
    session.open_turn("other three")
    session.summarise(Summary("One, two.", 2))
    whole, part, none = (store.fork(session_id, turns=turns) for turns in (None, 1, 0))
    _same(store.load(whole), session)
    assert [message.text for message in store.load(part).messages] == ["one", "You said one."]
    assert (store.load(part).ends, store.load(part).summary, store.load(none).entries) == (("answered",), None, ())
    info = store.find(part)
    assert (info.parent, info.title, info.turns, info.workspace) == (session_id, "one", 1, "/w")
    assert [store.find(one).forked for one in (whole, part, none, session_id)] == [3, 1, 0, None]
    store.rename(session_id, "Numbers")
    assert (store.find(part).parent_title, store.find(session_id).parent_title) == ("Numbers", None)
    assert store.replaced(whole) == ()
    went_on = store.resume(part)
    went_on.open_turn("elsewhere")
    _same(store.load(session_id), session)
    _same(store.load(part), went_on)  # no summary of two turns comes back, now that there are two


def test_what_is_removed_is_gone_from_the_disk(opened: Open, path: Path) -> None:
    store = opened()
    ids = [store.keep(session) for session in (_spoken("Kiribati " * 50), _spoken("Tuvalu"))]
    store.close()
    with pytest.raises(SessionMissing):
        store.remove(ids[0], "nowhere")  # all of them or none
    assert len(store.list()) == 2
    store.remove(ids[0])
    assert [info.id for info in store.list()] == [ids[1]]
    assert list(store.search("Kiribati")) == []
    files = list(path.parent.iterdir())
    assert not any(part in file.read_bytes().lower() for file in files for part in (b"kiribati", b"irib", b"kir"))
    assert any(b"Tuvalu" in file.read_bytes() for file in files)
    for missing in (store.remove, store.load, store.resume, store.fork, store.replaced):
        with pytest.raises(SessionMissing, match=f"no session {ids[0]}: `ossia sessions list`"):
            missing(ids[0])
    with pytest.raises(SessionMissing):
        store.rename(ids[0], "x")


# -- files that can't be used ------------------------------------------------------------------------------------------


def _unusable(store: SessionStore, match: str) -> None:
    """Every way in ends with the same one line."""
    uses: list[Callable[[], object]] = [
        store.list,
        store.latest,
        lambda: store.find("x"),
        lambda: store.search("x"),
        lambda: store.load("x"),
        lambda: store.resume("x"),
        lambda: store.fork("x"),
        lambda: store.remove("x"),
        lambda: store.rename("x", "y"),
        lambda: store.keep(Session()),
    ]
    for use in uses:
        with pytest.raises(SessionsUnusable, match=match) as raised:
            use()
        assert "\n" not in str(raised.value) and str(store.path) in str(raised.value)


@pytest.mark.parametrize("content", [b"x", b"not a database" * 50, b"SQLite format 3\0", b"\0" * 5000])
def test_garbage_is_told_and_left_alone(content: bytes, opened: Open, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    _unusable(opened(), "move it away")
    assert path.read_bytes() == content and list(path.parent.iterdir()) == [path]


def test_a_database_of_another_program_is_left_alone(opened: Open, path: Path) -> None:
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine(x)")
    db.commit()
    db.close()
    before = path.read_bytes()
    _unusable(opened(), "a database of another program")
    assert path.read_bytes() == before


def test_a_newer_one_is_left_alone_with_its_log(opened: Open, path: Path) -> None:
    """A process of a newer program was killed: its last messages are in the log only."""
    store = opened()
    store.keep(_spoken("one"))
    store.close()
    db = sqlite3.connect(path, isolation_level=None)
    step = "ALTER TABLE sessions ADD COLUMN mood TEXT;\nUPDATE sessions SET mood='fine';"
    migrate(db, path, replace(SESSIONS, steps=(*SESSIONS.steps, step)))
    db.execute("UPDATE sessions SET title='in the log'")
    copy = path.parent.parent / "copy"
    shutil.copytree(path.parent, copy)
    db.close()
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert before["sessions.sqlite-wal"]
    newer = SessionStore(copy / "sessions.sqlite", now=lambda: 0.0)
    _unusable(newer, "must be of version 4, not 5: use the ossia that wrote it")
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == before


def test_an_older_one_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    store = SessionStore(path, now=lambda: 0.0)
    store.keep(_spoken("one"))
    store.close()
    db = sqlite3.connect(path, isolation_level=None)
    more = ("ALTER TABLE sessions ADD COLUMN mood TEXT;", "UPDATE sessions SET mood='fine; still';")
    newer = replace(SESSIONS, steps=(*SESSIONS.steps, *more))
    migrate(db, path, newer)
    migrate(db, path, newer)
    assert db.execute("SELECT title, mood FROM sessions").fetchall() == [("one", "fine; still")]
    assert db.execute("PRAGMA user_version").fetchone() == (6,)
    with pytest.raises(sqlite3.OperationalError):
        migrate(
            db, path, replace(newer, steps=(*newer.steps, "ALTER TABLE sessions ADD COLUMN more TEXT;", "nonsense;"))
        )
    assert db.execute("PRAGMA user_version").fetchone() == (6,)  # all of it or nothing
    assert "more" not in [row[1] for row in db.execute("PRAGMA table_info(sessions)")]
    db.close()


def test_a_truncated_one_is_told_and_never_changed(opened: Open, path: Path) -> None:
    store = opened()
    for n in range(5):
        store.keep(_spoken(f"{n} " * 2000))
    store.close()
    whole = path.read_bytes()
    for size in [1, 99, 100, 511, *range(512, len(whole), len(whole) // 23)]:
        path.write_bytes(whole[:size])
        torn = opened()
        with pytest.raises(SessionsUnusable, match="move it away"):
            torn.list()
            torn.keep(_spoken("more"))
        torn.close()
        assert path.read_bytes() == whole[:size]


def test_a_file_that_lost_its_beginning_keeps_its_log(opened: Open, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch()
    log = path.with_name("sessions.sqlite-wal")
    log.write_bytes(b"what was said")
    _unusable(opened(), "is empty, and sessions.sqlite-wal is not")
    assert (path.read_bytes(), log.read_bytes()) == (b"", b"what was said")
    log.unlink()
    opened().keep(session := Session())
    session.open_turn("begin")
    assert opened().list()[0].title == "begin"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET more='{'",
        "UPDATE entries SET more='5'",
        "UPDATE entries SET state=x'00'",
        "UPDATE entries SET ids=x'00'",
        "UPDATE turns SET end='exploded'",
        "UPDATE sessions SET options='{}'",
        "UPDATE sessions SET summary='{}'",
    ],
)
def test_a_row_that_nobody_wrote_is_one_line(change: str, opened: Open, path: Path) -> None:
    store, session = opened(), _spoken("one")
    session_id = store.keep(session)
    store.release(session)
    db = sqlite3.connect(path)
    db.execute(change)
    db.commit()
    db.close()
    for use in (store.load, store.resume):
        with pytest.raises(SessionsUnusable, match=f"session {session_id} isn't whole"):
            use(session_id)
    assert list(path.parent.glob("*.lock")) == []
    assert store.list()[0].id == session_id
    store.remove(session_id)


def test_a_table_that_is_missing_is_one_line(opened: Open, path: Path) -> None:
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.executescript(f"CREATE TABLE sessions(x); PRAGMA application_id={SESSIONS.application}; PRAGMA user_version=1;")
    db.close()
    with pytest.raises(SessionsUnusable, match="not a whole database"):
        opened().list()


# -- what can't be written ---------------------------------------------------------------------------------------------


def test_a_full_disk_is_a_problem_not_an_error(opened: Open, path: Path) -> None:
    """The limit of a file's size stands for the end of the disk. Once there is room again, nothing is missing."""
    store, session = opened(), Session()
    session_id = store.keep(session)
    session.open_turn("before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("sessions.sqlite-wal").stat().st_size, hard))
    try:
        session.add(Message("assistant", ("lost? " * 20_000,), channel="final"))
        assert store.problem is not None and str(path) in store.problem and "\n" not in store.problem
        session.close_turn("answered")
        session.open_turn("while")
        session.cut_back(1)
        session.open_turn("while, anew")
        assert store.problem
        assert len(opened().load(session_id).entries) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    session.add(Message("assistant", ("after",), channel="final"))
    session.shorten(len(session.entries) - 1, "a…")
    assert store.problem is None
    _same(opened().load(session_id), session)
    assert [entry.message.text for entry in opened().replaced(session_id)] == ["while"]


def test_a_first_message_that_could_not_be_stored_is_there_with_the_second(opened: Open, path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.touch()
    store, session = opened(), Session()
    session_id = store.keep(session)
    session.open_turn("first")
    assert store.problem
    path.parent.unlink()
    path.parent.mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # the tables go in, the message doesn't
    try:
        session.add(Message("assistant", ("x" * 200_000,), channel="final"))
        assert store.problem
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    session.close_turn("answered")
    assert store.problem is None and store.list()[0].title == "first"
    _same(opened().load(session_id), session)


def test_what_waits_is_stored_when_the_session_is_let_go(opened: Open, path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.touch()
    store, session = opened(), Session()
    session_id = store.keep(session)
    session.open_turn("first")
    assert store.problem
    path.parent.unlink()
    store.close()
    _same(opened().load(session_id), session)
    assert list(path.parent.glob("*.lock")) == []


def test_a_folder_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = SessionStore(tmp_path / "file" / "sessions.sqlite", now=lambda: 0.0)
    session = Session()
    store.keep(session)
    session.open_turn("hi")
    session.close_turn("stopped")
    assert store.problem is not None and str(tmp_path / "file") in store.problem
    assert session.ends == ("stopped",)
    with pytest.raises(SessionMissing):
        store.find("hi")


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def test_a_kill_loses_at_most_the_open_message(etude_tokenizer: Tokenizer) -> None:
    """`python -m tests.oracle.kill_sessions --count 50` is the long form."""
    report = play_and_kill(count=5, seed=1, tokenizer=etude_tokenizer)
    assert report.kills == 5 and report.resumed >= 1


def test_entries_compare_without_their_ids() -> None:
    """Why `_same` compares the ids by themselves."""
    entry = Entry(Message("user", sampled=Sampled((1,), None)), 0)
    assert entry == replace(entry, message=Message("user"))
