"""The transcript: what it says of a turn, seen live or loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.errors import EngineFailed
from ossia.agent.events import (
    ApprovalAsked,
    ContextTrimmed,
    Delta,
    Event,
    MessageAdded,
    Stats,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnd,
    TurnEnded,
)
from ossia.agent.sessions.json import dump_session, session_from_json
from ossia.agent.sessions.session import Entry, Session, Summary, UserText
from ossia.cli.chat.pager.items import TAIL_CHARS, Item
from ossia.cli.chat.pager.sections import Switches, sections
from ossia.cli.chat.pager.transcript import Transcript
from ossia.harmony.messages import Message, Sampled
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.spec import Attachment, Preview, ToolCall, ToolResult
from tests.agent.test_loop import CALL, CASES, FINAL, NEXT, THINK
from tests.support.turns import Stage

ASKED = ToolCall("call_1", "python", "6*7")


def told(item: Item) -> tuple[object, ...]:
    """An item, less what nobody stores."""
    text = item.text if item.name != "error" else ""
    marks = tuple(name for name in ("cut", "error", "answered", "steers") if getattr(item, name))
    what = (item.kind, item.turn, item.name, item.arguments, text, item.tokens, item.attached, item.attachments)
    return (*what, item.state, marks)


def lasting(transcript: Transcript) -> list[tuple[object, ...]]:
    """The items that a stored session has too."""
    return [told(item) for item in transcript.items if item.kind != "note" or item.name]


def seen(events: list[Event], transcript: Transcript | None = None) -> Transcript:
    transcript = transcript or Transcript()
    for event in events:
        transcript.see(event)
    return transcript


def call(text: str, channel: str = "analysis") -> Message:
    return Message("assistant", (text,), recipient="python", channel=channel)


@pytest.mark.parametrize("name", CASES)
def test_live_and_loaded_are_the_same(name: str, etude_tokenizer: Tokenizer) -> None:
    case = CASES[name]
    stage = Stage(etude_tokenizer, case.steps, rules=case.rules)
    live = seen(stage.play(limits=case.limits))
    stored, _ = session_from_json(json.loads(dump_session(stage.session)))
    assert lasting(live) == lasting(Transcript.of(stored)) == lasting(Transcript.of(stage.session))
    assert all(item.state == "done" for item in live.items)


def test_live_and_loaded_are_the_same_over_turns(etude_tokenizer: Tokenizer) -> None:
    """Turns of all kinds on one session: the events of each find their own items."""
    session, live, failed = Session(), Transcript(), 0
    for name, case in CASES.items():
        stage = Stage(etude_tokenizer, case.steps, rules=case.rules, session=session, context_tokens=65536)
        seen(stage.play(name, limits=case.limits), live)
        failed += session.ends[-1] != "answered"
    assert lasting(live) == lasting(Transcript.of(session))
    assert sum(item.kind == "user" for item in live.items) == len(CASES)
    assert [item.turn for item in live.items] == sorted(item.turn for item in live.items)
    assert failed > 3


def test_what_was_said_within_a_turn_begins_none(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL, FINAL))
    for text in ("Use y.", "And be quick."):
        stage.control.steer(text)
    live = seen(stage.play("one"))
    seen(stage.play("two"), live)
    assert lasting(live) == lasting(Transcript.of(stage.session))
    said = [(item.text, item.turn, item.steers) for item in live.items if item.kind == "user"]
    assert said == [("one", 0, False), ("Use y.", 0, True), ("And be quick.", 0, True), ("two", 1, False)]
    rules = [section.source for item in live.items for section in sections(item, Switches(), opened=False)]
    assert [text for text in rules if text.startswith("──")] == ["── 1", "── 2"]


@pytest.mark.parametrize("at", range(1, 16))
def test_a_stop_anywhere(at: int, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (THINK + NEXT + CALL, FINAL, FINAL))
    live = Transcript()
    for number, event in enumerate(stage.turn("one"), 1):
        live.see(event)
        if number == at:
            stage.control.stop()
    assert all(item.state == "done" for item in live.items)
    assert lasting(live) == lasting(Transcript.of(stage.session))
    stage = Stage(etude_tokenizer, (FINAL,), session=stage.session)
    seen(stage.play("two"), live)
    assert lasting(live) == lasting(Transcript.of(stage.session))
    assert live.items[-1].text == "Done."


def test_a_turn_as_it_comes(etude_tokenizer: Tokenizer) -> None:
    """Each event changes what there is at once: text grows, the call waits, runs, is done."""
    now = [10.0]
    transcript = Transcript(clock=lambda: now[0])
    stories = []
    for event in Stage(etude_tokenizer, (THINK + NEXT + CALL, FINAL)).turn("go"):
        before = transcript.version
        now[0] += 0.5
        transcript.see(event)
        last = transcript.items[-1]
        if transcript.version != before:
            what = last.arguments if last.kind == "call" and not last.text else last.text
            stories.append(f"{last.kind} {last.state} {what!r}" + (f" {last.output!r}" if last.output else ""))
    assert list(dict.fromkeys(stories)) == [
        "user done 'go'",
        "thinking open ''",
        "thinking open 'H'",
        "thinking open 'Hm'",
        "thinking open 'Hm.'",
        "call open ''",
        "call open 'x'",
        "call open 'x='",
        "call open 'x=1'",
        "call running 'x=1'",
        "call running 'x=1' '1\\n'",
        "call running 'x=1' '1\\n2\\n'",
        "call done 'ran x=1'",
        "answer open ''",
        "answer open 'D'",
        "answer open 'Done'",
        "answer open 'Done.'",
        "answer done 'Done.'",
    ]
    thinking, ran = transcript.items[1:3]
    assert thinking.seconds is not None and thinking.seconds > 1 and thinking.tokens == 3
    assert (ran.name, ran.arguments, ran.text, ran.answered, ran.output) == ("python", "x=1", "ran x=1", True, "")
    assert ran.ms is not None and not ran.error
    assert transcript.calls() == [ran]
    assert transcript.last_answer() == "Done."


def test_a_question_a_change_by_the_user_and_an_error() -> None:
    transcript = seen([MessageAdded(Message("user", ("hi",))), MessageAdded(call("6*7"))])
    (item,) = transcript.calls()
    transcript.see(ApprovalAsked(replace(ASKED, name="python"), Preview("run python"), "it runs code"))
    assert (item.state, item.id, item.ran) == ("asked", "call_1", None)
    transcript.see(ToolStarted(replace(ASKED, arguments="6*8")))
    assert (item.state, item.arguments, item.ran) == ("running", "6*7", "6*8")
    picture = Attachment(Path("/tmp/plot.png"), "image/png")
    transcript.see(ToolFinished(ASKED, ToolResult("no", error=True, attachments=(picture,)), 1200))
    assert (item.state, item.text, item.error, item.ms, item.attachments) == ("done", "no", True, 1200, (picture,))
    transcript.see(MessageAdded(Message("tool", ("no\nEnough.",), name="python", channel="analysis")))
    assert (item.text, item.answered, len(transcript.items)) == ("no\nEnough.", True, 2)


def test_output_keeps_its_end() -> None:
    transcript = seen([ToolStarted(ASKED)])  # nothing asked for it: run by hand
    for number in range(3_000):
        transcript.see(ToolOutput("call_1", f"{'a line ' * 5}{number}\n"))
    (item,) = transcript.items
    assert (item.name, item.arguments) == ("python", "6*7")
    assert len(item.output) == TAIL_CHARS and item.output.endswith("line 2999\n")


def test_what_was_typed_and_what_was_attached() -> None:
    session = Session()
    session.open_turn(UserText("Read this.\n\n[file a.txt]\nsome text", typed="Read this."))
    session.open_turn("All of it.")
    live = Transcript()
    live.add_user("Read this.")
    live.add_note("attached: a.txt")
    live.see(MessageAdded(session.messages[0]))
    live.see(TurnEnded("error", EngineFailed("out of\nmemory")))
    live.see(MessageAdded(session.messages[1]))
    assert [(item.kind, item.text) for item in live.items] == [
        ("note", "attached: a.txt"),
        ("user", "Read this."),
        ("note", "out of memory"),
        ("user", "All of it."),
    ]
    assert live.items[1].attached == "[file a.txt]\nsome text"
    loaded = Transcript.of(session)
    assert [told(item) for item in loaded.items if item.kind == "user"] == [told(live.items[1]), told(live.items[3])]
    assert loaded.items[1].name == "closed"  # a turn without an end, that isn't under way


def test_the_results_of_an_imported_session_find_their_calls() -> None:
    """Two calls before their results, a result without a call, a result of a call that was never answered."""
    first = Message("assistant", ("{}",), recipient="functions.a", channel="commentary")
    second = replace(first, recipient="functions.b")
    results = [Message("tool", (f"of {name}",), name=f"functions.{name}", channel="commentary") for name in "bac"]
    messages = [Message("system", ("Be brief.",)), Message("user", ("hi",)), first, second, *results]
    transcript = Transcript.of(Session(entries=[Entry(message, 0) for message in messages], ends=["answered"]))
    assert [(item.name, item.text) for item in transcript.calls()] == [
        ("functions.a", "of a"),
        ("functions.b", "of b"),
        ("functions.c", "of c"),
    ]
    assert [(item.kind, item.text) for item in transcript.items[:2]] == [("note", "Be brief."), ("user", "hi")]


def test_a_summary_stands_before_the_turns_it_leaves(etude_tokenizer: Tokenizer) -> None:
    session, live = Session(), Transcript()
    for number in range(4):
        seen(Stage(etude_tokenizer, (FINAL,), session=session).play(f"question {number}"), live)
    for turns in (1, 3):  # a newer one takes the older one's place
        live.see(ContextTrimmed(900, 400, "the context is nearly full", turns=turns, summary=f"so far: {turns}"))
        session.summarise(Summary(f"so far: {turns}", turns))
    kinds = [f"{item.kind} {item.text}" for item in live.items if item.kind in ("user", "summary")]
    assert kinds == ["user question 0", "user question 1", "user question 2", "summary so far: 3", "user question 3"]
    assert lasting(live) == lasting(Transcript.of(session))
    session.cut_back(3)
    live.cut_back(3)
    assert lasting(live) == lasting(Transcript.of(session))
    session.cut_back(2)  # one of the turns that the summary stands for: it goes, too
    live.cut_back(2)
    assert lasting(live) == lasting(Transcript.of(session))
    assert [item.text for item in live.items if item.kind == "user"] == ["question 0", "question 1"]
    seen(Stage(etude_tokenizer, (FINAL,), session=session).play("another"), live)
    assert lasting(live) == lasting(Transcript.of(session))


def test_growing_costs_the_piece() -> None:
    """20,000 pieces, read now and then: joined once for each look, and one string in the end."""
    transcript = Transcript()
    pieces = [f"word{number} " for number in range(20_000)]
    for number, piece in enumerate(pieces):
        transcript.see(Delta(0, piece, channel="final"))
        if number % 1_000 == 0:
            assert transcript.items[0].text.endswith(piece)
    (item,) = transcript.items
    assert item.text == "".join(pieces) and item.tokens == 20_000
    whole = "".join(pieces)
    transcript.see(MessageAdded(Message("assistant", (whole,), channel="final")))
    assert item.text is whole


@pytest.mark.parametrize(
    ("end", "cut", "lost"),
    [
        ("stopped", True, "not called (stopped)"),
        ("tokens", True, "not called (the token limit was reached)"),
        ("answered", True, "not called (cut)"),
        (None, False, "no result (unfinished: the program was closed)"),
    ],
)
def test_a_call_without_a_result_says_why(end: TurnEnd | None, cut: bool, lost: str) -> None:
    entries = [Entry(Message("user", ("hi",)), 0), Entry(call('{"path":'), 0, cut)]
    (made,) = Transcript.of(Session(entries=entries, ends=[end])).calls()
    assert made.lost == lost
    done = made.finished()
    assert (done.call.arguments, done.result) == ("" if cut else '{"path":', ToolResult(lost, error=True))
    if not cut:  # the next turn answers it
        entries += [Entry(Message("tool", ("[ended]",), name="python"), 0), Entry(Message("user", ("so",)), 1)]
        (made,) = Transcript.of(Session(entries=entries, ends=[end, "answered"])).calls()
        assert made.finished().result == ToolResult("[ended]")


def test_last_answer() -> None:
    transcript = Transcript()
    assert transcript.last_answer() is None
    for text in ("one", "two", ""):
        transcript.see(Delta(0, text, channel="final"))
        transcript.see(Stats.__new__(Stats))
        transcript.see(MessageAdded(Message("assistant", (text,), channel="final")))
    assert transcript.last_answer() == "two"


def test_what_the_model_wrote_and_nobody_added_goes() -> None:
    """Messages after a call, and empty ones that were cut, are in no session."""
    transcript = seen([Delta(0, "", channel="analysis"), Stats.__new__(Stats), Delta(0, "x", channel="final")])
    assert [(item.kind, item.text) for item in transcript.items] == [("answer", "x")]
    transcript = seen([Delta(0, "a", channel="analysis"), Delta(1, "b", channel="analysis")])
    transcript.see(MessageAdded(Message("assistant", ("b",), channel="analysis")))
    assert [item.text for item in transcript.items] == ["b"]
    transcript = seen([Delta(0, "x", recipient="python", channel="analysis"), Delta(1, "y", channel="final")])
    transcript.see(MessageAdded(call("x")))
    transcript.see(ToolStarted(ASKED))
    assert [item.kind for item in transcript.items] == ["call"]


def test_a_result_that_the_model_made_up_answers_no_call() -> None:
    transcript = seen([MessageAdded(Message("user", ("hi",))), MessageAdded(call("x"), cut=True)])
    for role in ("tool", "user"):
        made_up = Message(role, ("42",), sampled=Sampled((1, 2), "end"))
        transcript.see(MessageAdded(made_up))
    assert [item.kind for item in transcript.items] == ["user", "call", "note", "note"]
    assert not transcript.calls()[0].answered
    assert {item.turn for item in transcript.items} == {0}
    assert [item.text for item in transcript.items[2:]] == [
        "the model wrote this as the tool: 42",
        "the model wrote this as the user: 42",
    ]


def test_a_call_that_was_never_answered_keeps_its_place() -> None:
    old = Session(entries=[Entry(Message("user", ("hi",)), 0), Entry(call("old"), 0)], ends=["answered"])
    transcript = Transcript.of(old)
    transcript.see(MessageAdded(call("new")))
    transcript.see(ToolStarted(ASKED))
    transcript.see(ToolFinished(ASKED, ToolResult("42"), 5))
    transcript.see(MessageAdded(Message("tool", ("42",), name="python")))
    assert [(item.arguments, item.text) for item in transcript.calls()] == [("old", ""), ("new", "42")]
