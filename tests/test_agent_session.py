"""The session: what it keeps, what of it enters the next prompt, and its file."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.engine.base import Sampling
from agent.errors import SessionInvalid
from agent.prompt import DATA, compose
from agent.request import Request
from agent.session import Options, Session, UserText
from agent.session_file import load_session, save_session
from harmony import Tokenizer
from harmony.messages import DeveloperPrompt, Message, ResponseFormat, SystemPrompt
from tests.support.pages import Pages, Results, documents, links, numbered
from tests.support.turns import Stage, end_of
from tools.browser import Browser, Document, Hit
from tools.spec import ToolResult, ToolSpec

CALL = (
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>x=1<|call|>"
)
FINAL = "<|channel|>final<|message|>Done.<|return|>"
OPTIONS = Options(
    "high",
    "Be brief.",
    "2025-06-28",
    ResponseFormat("answer", {"type": "object"}),
    Sampling(0.5, 0.9, 40, 0.1, seed=7),
)


def _saved(stage: Stage, folder: Path) -> Path:
    path = folder / "sessions" / "one.json"
    save_session(stage.session, path, vocabulary=stage.tokenizer.vocabulary.digest)
    return path


def test_a_file_gives_the_session_back(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL), session=Session(OPTIONS))
    stage.play("häh? 🎵 <|end|>")
    path = _saved(stage, tmp_path)
    back = load_session(path, vocabulary=etude_tokenizer.vocabulary.digest)
    assert back.options == OPTIONS
    assert back.entries == stage.session.entries
    assert [e.message.sampled for e in back.entries] == [e.message.sampled for e in stage.session.entries]
    assert back.ends == ("answered",)
    assert back.next_call_id() == "call_2"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_prompt_after_loading_has_the_same_ids(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL))
    stage.play()
    back = load_session(_saved(stage, tmp_path), vocabulary=etude_tokenizer.vocabulary.digest)
    after = Stage(etude_tokenizer, (FINAL,), session=back)
    assert after.prompt() == stage.prompt()


def test_a_request_has_all_the_options() -> None:
    request = Session(OPTIONS).request((), max_tokens=5, open_with="final")
    assert request == Request(
        (), (), "high", "Be brief.", "2025-06-28", OPTIONS.response_format, OPTIONS.sampling, 5, "final"
    )


def test_a_save_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        save_session(Session(), tmp_path / "taken", vocabulary="x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_another_vocabulary_leaves_the_ids_out(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (FINAL,))
    stage.play()
    back = load_session(_saved(stage, tmp_path), vocabulary="another")
    assert [message.sampled for message in back.messages] == [None, None]
    assert [message.text for message in back.messages] == ["hi", "Done."]


def test_a_stopped_turn_survives_its_file(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL))
    for event in stage.turn():
        if type(event).__name__ == "ToolStarted":
            stage.control.stop()
    back = load_session(_saved(stage, tmp_path), vocabulary=etude_tokenizer.vocabulary.digest)
    assert back.ends == ("stopped",)
    after = Stage(etude_tokenizer, (FINAL,), session=back)
    assert end_of(after.play("more")).end == "answered"
    assert "Hm." not in after.prompt()


@pytest.mark.parametrize("channel", ["commentary", None])
def test_a_call_that_nobody_answered_is_answered_by_the_next_turn(channel: str | None) -> None:
    session = Session()
    session.open_turn("hi")
    session.add(Message("assistant", ('{"n": 1}',), recipient="functions.double", channel=channel))
    added = session.open_turn("more")
    assert [event.message for event in added] == [
        Message(
            "tool",
            ("[interrupted by the user]",),
            name="functions.double",
            recipient="assistant",
            channel="commentary",
        ),
        Message("user", ("more",)),
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "expected a session in JSON"),
        ("{", "expected a session in JSON"),
        ("[]", "expected a session of version 1, got 'list'"),
        ('{"version": 2}', "expected a session of version 1, got 2"),
        ('{"version": 1}', "not a whole session (KeyError: 'options')"),
    ],
)
def test_a_torn_or_newer_file_is_one_line(content: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(content)
    with pytest.raises(SessionInvalid) as raised:
        load_session(path, vocabulary="x")
    assert complaint in str(raised.value) and str(path) in str(raised.value)


def test_every_truncation_is_refused(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (FINAL,))
    stage.play()
    path = _saved(stage, tmp_path)
    whole = path.read_text()
    for at in range(0, len(whole), 97):
        path.write_text(whole[:at])
        with pytest.raises(SessionInvalid):
            load_session(path, vocabulary="x")
    data = json.loads(whole)
    data["entries"][1]["sampled"]["ids"] = []
    path.write_text(json.dumps(data))
    with pytest.raises(SessionInvalid, match="without ids"):
        load_session(path, vocabulary="x")
    data = json.loads(whole)
    data["ends"] = ["exploded"]
    path.write_text(json.dumps(data))
    with pytest.raises(SessionInvalid, match="exploded"):
        load_session(path, vocabulary="x")


def test_saving_leaves_no_other_file(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (FINAL,))
    stage.play()
    path = _saved(stage, tmp_path)
    _saved(stage, tmp_path)
    assert list(path.parent.iterdir()) == [path]


def test_what_the_tools_left_survives_the_file(tmp_path: Path) -> None:
    session = Session(Options(instructions="Notes.", brings=frozenset({"private"})))
    session.open_turn(UserText("Look at https://a.test/\n\npiped in: https://b.test/", "Look at https://a.test/"))
    message = Message("tool", ("[0] A page",), name="browser.open", recipient="assistant", channel="analysis")
    session.add_result(message, ToolResult("[0] A page", state={"cursor": 0}, brings=frozenset({"outside"})))
    session.close_turn("stopped")
    session.open_turn("And now?")
    save_session(session, tmp_path / "s.json", vocabulary="v")
    loaded = load_session(tmp_path / "s.json", vocabulary="v")
    assert loaded.entries == session.entries and loaded.options == session.options
    assert loaded.taint == {"private", "outside"}
    assert loaded.said == "Look at https://a.test/\nAnd now?"
    assert loaded.states == ({"cursor": 0},)


def test_the_browser_goes_on_from_a_file(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    """The pages are kept with the messages that made them: a loaded session has them, whatever the web has by now."""
    old = Document("More", "http://a.test/more", f"See 【0†that】.\n{numbered(400)}", links(["http://a.test/that"]))
    new = Document("More", "http://a.test/more", "Gone.")
    that = Document("That", "http://a.test/that", "That is it.")
    hits: dict[str, tuple[Hit, ...]] = {"more": (Hit("More", "http://a.test/more", "All lines."),)}

    def stage(steps: Sequence[str], more: Document, session: Session) -> tuple[Browser, Stage]:
        pages = Pages(documents(more, that))
        browser = Browser([Results("web", hits)], {"http": pages}, count_view_tokens=len)
        return browser, Stage(etude_tokenizer, steps, tools=browser.tools, session=session)

    def call(name: str, **arguments: object) -> str:
        return f"<|channel|>analysis to=browser.{name} code<|message|>{json.dumps(arguments)}<|call|>"

    def results(stage: Stage) -> list[str]:
        """What the model was shown, without the cursors."""
        return [message.text.partition("] ")[2] for message in stage.session.messages if message.role == "tool"]

    steps = (call("search", query="more"), call("open", id=0), call("open", loc=390), call("find", pattern="line 7"))
    _, first = stage((*steps, FINAL), old, Session())
    first.play("Find more.")
    again = (call("open", cursor=0), call("open", cursor=1), call("open", cursor=2, loc=390), call("open", cursor=3))
    loaded = load_session(_saved(first, tmp_path), vocabulary=etude_tokenizer.vocabulary.digest)
    browser, second = stage((*again, call("open", id=0, cursor=1), FINAL), new, loaded)
    browser.restore(loaded.states)
    second.play("Again.")
    shown = results(second)
    assert shown[:4] == shown[4:8] == results(first) and shown[2].endswith("line 399")
    assert second.session.messages[-2].text.startswith("[8] That (http://a.test/that)")


def test_outside_text_is_announced_as_data_once_a_tool_reads_it() -> None:
    def developer(*names: str) -> list[str | None]:
        specs = [ToolSpec(name, "Does it.", trained=not name.startswith("functions.")) for name in names]
        request = Session(Options(instructions="Be brief.")).request(specs)
        parts = [part for message in compose(request) for part in message.content]
        return [part.instructions for part in parts if isinstance(part, DeveloperPrompt)]

    assert developer("python") == ["Be brief."]
    assert developer("python", "browser.open") == [f"Be brief.\n\n{DATA}"]
    assert developer("functions.read_file") == [f"Be brief.\n\n{DATA}"]


def test_a_section_of_a_trained_tool_may_name_its_sources() -> None:
    spec = ToolSpec("browser.search", "Searches.", trained=True, section="Tool for browsing.\nsources=docs")
    (system, *_) = compose(Session().request([spec]))
    (prompt,) = system.content
    assert isinstance(prompt, SystemPrompt) and prompt.tools is not None
    assert prompt.tools["browser"].description == "Tool for browsing.\nsources=docs"
