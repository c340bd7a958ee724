"""The session: what it keeps, what of it enters the next prompt, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ossia.agent.engine.base import Sampling
from ossia.agent.errors import SessionInvalid
from ossia.agent.events import TurnEnd
from ossia.agent.prompt import DATA, compose
from ossia.agent.request import Request
from ossia.agent.sessions.json import dump_session, import_session, session_from_json
from ossia.agent.sessions.session import Entry, Options, Session, Summary, UserText
from ossia.harmony.messages import DeveloperPrompt, Message, ResponseFormat, Sampled, SystemPrompt
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Document, Hit
from ossia.tools.spec import Attachment, ToolResult, ToolSpec
from tests.support.pages import Pages, Results, documents, links, numbered
from tests.support.turns import Double, Stage, end_of

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


def _back(session: Session) -> Session:
    """The session after a way through JSON."""
    return session_from_json(json.loads(dump_session(session)))[0]


def test_json_gives_the_session_back(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL), session=Session(OPTIONS))
    stage.session.vocabulary, stage.session.model = etude_tokenizer.vocabulary.digest, "étude"
    stage.play("häh? 🎵 <|end|>")
    stage.session.summarise(Summary("They greeted.", 1))
    back, title = session_from_json(json.loads(dump_session(stage.session, title="A greeting")))
    assert title == "A greeting"
    assert back.options == OPTIONS
    assert back.entries == stage.session.entries
    assert [e.message.sampled for e in back.entries] == [e.message.sampled for e in stage.session.entries]
    assert back.ends == ("answered",)
    assert back.summary == Summary("They greeted.", 1)
    assert back.next_call_id() == "call_2"


def test_no_field_of_an_entry_is_forgotten() -> None:
    sampled = Sampled((1, 200_012), "call", repaired=True, headless=True)
    message = Message("assistant", ("1", "2"), "a", "python", "analysis", "code", sampled)
    entry = Entry(
        message,
        turn=0,
        cut=True,
        taints=frozenset({"private"}),
        state={"cursor": [1, None, {"a": "b"}]},
        typed="1",
        attachments=(Attachment(Path("/a/plot.png"), "image/png"),),
        vocabulary="v",
        model="m",
        shortened="s",
        error=True,
        mark="m",
        said_at=1.5,
        structured=True,
    )
    unset = Entry(Message("user"), turn=0)
    assert all(getattr(entry, f.name) != getattr(unset, f.name) for f in fields(Entry) if f.name != "turn")
    back = _back(Session(entries=[entry], ends=["error"]))
    assert back.entries == (entry,) and back.entries[0].message.sampled == sampled


def test_the_prompt_after_loading_has_the_same_ids(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL))
    stage.play()
    after = Stage(etude_tokenizer, (FINAL,), session=_back(stage.session))
    assert after.prompt() == stage.prompt()


def test_a_request_has_all_the_options() -> None:
    request = Session(OPTIONS).request((), max_tokens=5, open_with="final")
    assert request == Request(
        (), (), "high", "Be brief.", "2025-06-28", OPTIONS.response_format, OPTIONS.sampling, 5, None, "final"
    )


def test_ids_of_another_vocabulary_stay_out_of_the_prompt() -> None:
    session = Session()
    session.vocabulary = "one"
    session.open_turn("hi")
    session.add(Message("assistant", ("Done.",), channel="final", sampled=Sampled((1, 2, 3), "return")))
    back = _back(session)
    back.vocabulary = "one"
    assert [message.sampled for message in back.request(()).history] == [None, Sampled((1, 2, 3), "return")]
    back.vocabulary = "another"
    assert [message.sampled for message in back.request(()).history] == [None, None]
    assert [message.text for message in back.request(()).history] == ["hi", "Done."]


def test_what_somebody_else_wrote_is_outside_text_that_nobody_typed() -> None:
    session = Session(Options(instructions="Notes."))
    session.vocabulary = "v"
    session.open_turn(UserText("Look at https://a.test/", "Look at https://a.test/"))
    session.add(Message("assistant", ("Done.",), channel="final", sampled=Sampled((1, 2, 3), "return")))
    session.close_turn("answered")
    back, _ = session_from_json(json.loads(dump_session(session)), trusted=False)
    assert back.messages == session.messages and back.ends == session.ends
    assert [entry.message.sampled for entry in back.entries] == [None, None]
    assert (back.said, back.taint) == ("", frozenset({"outside"}))
    assert session_from_json(json.loads(dump_session(session)))[0].said == "Look at https://a.test/"


def test_a_stopped_turn_survives(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL))
    for event in stage.turn():
        if type(event).__name__ == "ToolStarted":
            stage.control.stop()
    back = _back(stage.session)
    assert back.ends == ("stopped",)
    after = Stage(etude_tokenizer, (FINAL,), session=back)
    assert end_of(after.play("more")).end == "answered"
    assert "Hm." not in after.prompt()


def test_a_call_that_the_time_limit_cut_is_answered_so() -> None:
    session = Session()
    session.open_turn("hi")
    session.add(Message("assistant", ("1",), recipient="python", channel="analysis"), cut=True)
    session.close_turn("time")
    assert session.open_turn("more")[0].message.text == "[interrupted: out of time]"


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("stopped", "[interrupted by the user]"),
        ("tokens", "[cut by the limit of tokens: it did not run]"),
        ("context", "[cut, since the context was full: it did not run]"),
        ("error", "[broken off by a failure of the program]"),
    ],
)
def test_a_call_without_a_result_says_what_cut_it(end: TurnEnd, told: str) -> None:
    session = Session()
    session.open_turn("hi")
    session.add(Message("assistant", ("1",), recipient="python", channel="analysis"), cut=True)
    session.close_turn(end)
    assert session.open_turn("more")[0].message.text == told


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
        ("[]", "the session must be of version 1, not 'list'"),
        ('{"version": 2}', "the session must be of version 1, not 2"),
        ('{"version": 1}', "not a whole session (KeyError: 'entries')"),
    ],
)
def test_a_newer_one_or_another_value_is_one_line(content: str, complaint: str) -> None:
    with pytest.raises(SessionInvalid) as raised:
        session_from_json(json.loads(content))
    assert complaint in str(raised.value) and "\n" not in str(raised.value)


def test_every_truncation_is_refused(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (FINAL,))
    stage.play()
    whole = dump_session(stage.session)
    for at in range(0, len(whole), 97):
        with pytest.raises(SessionInvalid):
            import_session(whole[:at])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ends": ["exploded"]}, "exploded"),
        ({"ends": [["answered"]]}, "unknown end"),
        ({"ends": []}, "not in ends"),
        ({"summary": {"text": "x"}}, "turns"),
        ({"summary": {"text": "x", "turns": 2}}, "that aren't there"),
        ({"options": {"effort": "huge", "sampling": {}}}, "huge"),
        ({"entries": [{"message": {"role": "bot"}}]}, "ConversationError"),
        ({"entries": 5}, "TypeError"),
        ({"entries": [5]}, "TypeError"),
    ],
)
def test_what_nobody_wrote_is_refused(change: dict[str, object], complaint: str) -> None:
    session = Session()
    session.open_turn("hi")
    session.close_turn("answered")
    data = {**json.loads(dump_session(session)), **change}
    with pytest.raises(SessionInvalid, match=complaint):
        session_from_json(data)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sampled": {"ids": [], "closed_by": None}}, "without valid ids"),
        ({"sampled": {"ids": [-1], "closed_by": None}}, "without valid ids"),
        ({"sampled": {"ids": [1], "closed_by": None, "more": 1}}, "TypeError"),
        ({"turn": 1}, "out of order"),
        ({"turn": -1}, "out of order"),
        ({"state": []}, "state"),
        ({"typed": 5}, "a text or null"),
        ({"taints": ["poison"]}, "poison"),
        ({"attachments": [{}]}, "path"),
    ],
)
def test_an_entry_that_nobody_wrote_is_refused(change: dict[str, object], complaint: str) -> None:
    session = Session()
    session.open_turn("hi")
    data = json.loads(dump_session(session))
    data["entries"][0] |= change
    with pytest.raises(SessionInvalid, match=complaint):
        session_from_json(data)


def test_what_the_tools_left_survives() -> None:
    session = Session(Options(instructions="Notes.", taints=frozenset({"private"})))
    session.open_turn(UserText("Look at https://a.test/\n\npiped in: https://b.test/", "Look at https://a.test/"))
    message = Message("tool", ("[0] A page",), name="browser.open", recipient="assistant", channel="analysis")
    session.add_result(message, ToolResult("[0] A page", state={"cursor": 0}, taints=frozenset({"outside"})))
    session.close_turn("stopped")
    session.open_turn("And now?")
    loaded = _back(session)
    assert loaded.entries == session.entries and loaded.options == session.options
    assert loaded.taint == {"private", "outside"}
    assert loaded.said == "Look at https://a.test/\nAnd now?"
    assert loaded.states == ({"cursor": 0},)


def test_what_a_tool_is_described_with_stays_in_the_conversation(etude_tokenizer: Tokenizer) -> None:
    """The model has read it, and what it wrote since may come of it: also when the tool is off, and after a resume."""
    theirs = Double(replace(Double().spec, taints=frozenset({"outside"})))
    stage = Stage(etude_tokenizer, (FINAL, FINAL), tools=(theirs,))
    stage.toolbox.turn_off([theirs.spec.name])
    stage.play()
    assert stage.session.taint == frozenset()
    stage.toolbox.turn_off([])
    stage.play("Again.")
    stage.toolbox.turn_off([theirs.spec.name])
    assert stage.session.taint == {"outside"} and _back(stage.session).taint == {"outside"}


def test_the_browser_goes_on_from_json(etude_tokenizer: Tokenizer) -> None:
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
    loaded = _back(first.session)
    browser, second = stage((*again, call("open", id=0, cursor=1), FINAL), new, loaded)
    browser.restore(loaded.states)
    second.play("Again.")
    shown = results(second)
    assert shown[:4] == shown[4:8] == results(first) and shown[2].endswith("line 399")
    assert second.session.messages[-2].text.startswith("[8] That (http://a.test/that)")


def test_outside_text_is_announced_as_data_once_a_tool_reads_it() -> None:
    def developer(*names: str) -> list[str | None]:
        specs = [
            ToolSpec(name, "Does it.", trained=not name.startswith("functions."), provenance="built-in")
            for name in names
        ]
        request = Session(Options(instructions="Be brief.")).request(specs)
        parts = [part for message in compose(request) for part in message.content]
        return [part.instructions for part in parts if isinstance(part, DeveloperPrompt)]

    assert developer("python") == ["Be brief."]
    assert developer("python", "browser.open") == [f"Be brief.\n\n{DATA}"]
    assert developer("repo_browser.open_file") == [f"Be brief.\n\n{DATA}"]


def test_a_tools_note_stands_in_the_instructions_and_leaves_the_system_message_as_it_is() -> None:
    spec = ToolSpec("container.exec", "Runs it.", trained=True, section="A shell.", provenance="built-in")
    noted = replace(spec, note="Commands can use cargo 1.95.")
    (system, developer), (plain, _) = (compose(Session(Options(instructions="Be brief.")).request([one]))
                                       for one in (noted, spec))  # fmt: skip
    assert developer.content == (DeveloperPrompt(f"Be brief.\n\nCommands can use cargo 1.95.\n\n{DATA}", None, ()),)
    assert system == plain


def test_a_section_of_a_trained_tool_may_name_its_sources() -> None:
    spec = ToolSpec(
        "browser.search", "Searches.", trained=True, section="Tool for browsing.\nsources=docs", provenance="built-in"
    )
    (system, *_) = compose(Session().request([spec]))
    (prompt,) = system.content
    assert isinstance(prompt, SystemPrompt) and prompt.tools is not None
    assert prompt.tools["browser"].description == "Tool for browsing.\nsources=docs"
