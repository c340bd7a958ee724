"""The keys of the chat and what goes along with a message, in this process; and how a turn looks on any width."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from tests.support.command import write_script
from tests.support.documents import answer, counted, thought
from tests.support.screen import ChatScreen, Clock, chatting
from tests.support.site import Site
from tests.support.work_calls import writes

PGUP, PGDN = "\x1b[5~", "\x1b[6~"
CTRL_C, CTRL_D, CTRL_O, CTRL_T, ALT_ENTER, UP, ESC = "\x03", "\x04", "\x0f", "\x14", "\x1b\r", "\x1b[A", "\x1b"
LONG = thought(counted("so it goes ", 100)) + answer("The end.")
PREAMBLE = "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant"
ON_THE_ALTERNATE_SCREEN, BACK = "\x1b[?1049h", "\x1b[?1049l"


def call(name: str, **arguments: str) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"


def shown(stage: ChatScreen) -> str:
    return "\n".join(stage.terminal.display)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_what_waits_is_taken_back_changed_and_sent(tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, LONG, answer("Both."), tokens_per_s=200)
        async with ChatScreen(engine=script) as stage:
            await stage.type("one\r")
            await stage.until(lambda: re.search(r"thinking · \d", shown(stage)))
            await stage.type(f"two{ALT_ENTER}three\r")
            await stage.until(lambda: "queued: two" in shown(stage))
            await stage.type(f"{UP} and four")
            await stage.until(lambda: stage.face.editor.text == "two\nthree and four")
            await stage.until(lambda: "queued" not in shown(stage))
            await stage.type("\r")
            await stage.type(CTRL_C)  # it goes back into the input once more
            await stage.settle()
            await stage.type("\r")
            await stage.until(lambda: "Both." in stage.rows)
            await stage.settle()
            typed = [entry.typed for entry in stage.talk.session.entries if entry.typed]
            assert typed == ["one", "two\nthree and four"]

    chatting(case)


def test_a_line_within_a_turn_steers_it(tmp_path: Path) -> None:
    """Behind the next tool result; the next one, by Ctrl-X Enter, waits for the turn's end. Up takes a line back."""

    async def case() -> None:
        typed = tmp_path / "typed"  # `look` waits for it, so that all is typed before its result
        (tmp_path / "own.py").write_text(
            "import pathlib, time\n\ndef look() -> str:\n"
            f"    while not pathlib.Path({str(typed)!r}).exists():\n        time.sleep(0.01)\n"
            "    return 'seen'\n"
        )
        script = write_script(tmp_path, call("look"), answer("Done."), answer("Then this."))
        async with ChatScreen(engine=script, no_tools=None, tools=(str(tmp_path / "own.py"),)) as stage:
            await stage.type("Look.\r")
            await stage.until(lambda: stage.talk.turn.calls_tools)
            await stage.type("not this\r")
            await stage.until(lambda: "after the next result: not this" in shown(stage))
            await stage.type(UP)
            await stage.until(lambda: stage.face.editor.text == "not this")
            await stage.type("\x15only b\rand then\x18\r")
            await stage.until(lambda: "after the next result: only b" in shown(stage))
            assert "queued: and then" in shown(stage)
            typed.touch()
            await stage.until(lambda: "Then this." in stage.rows)
            await stage.settle()
            said = [(one.turn, one.message.text) for one in stage.talk.session.entries if one.message.role == "user"]
            assert said == [(0, "Look."), (0, "only b"), (1, "and then")]
            shown_rows = [row for row in stage.rows if row.startswith(("› ", "> ", "❯ "))]
            assert [row[2:] for row in shown_rows] == ["Look.", "only b", "and then"], stage.rows
            turns = [item.turn for item in stage.talk.transcript.items if item.kind == "user"]
            assert turns == [0, 0, 1]

    chatting(case)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the call waits for a pipe")
def test_an_address_within_a_turn_waits_for_the_browser(tmp_path: Path) -> None:
    """It joins only between turns. What spells a control token is warned about; what a /retry loses is said."""

    async def case() -> None:
        code = "from pathlib import Path\ndef look() -> str:\n    return Path({!r}).read_text()\n"
        (tmp_path / "own.py").write_text(code.format(str(tmp_path / "pipe")))
        os.mkfifo(tmp_path / "pipe")
        script = write_script(tmp_path, call("look"), answer("Done."), answer("Then this."), answer("Again."))
        async with ChatScreen(engine=script, no_tools=None, tools=(str(tmp_path / "own.py"),)) as stage:
            await stage.type("Look.\r")
            await stage.until(lambda: stage.talk.turn.calls_tools)
            await stage.type("<|end|>\rhttps://a.example/b\rand then\r")
            await stage.until(lambda: "queued: and then" in shown(stage))
            await asyncio.to_thread((tmp_path / "pipe").write_text, "seen")
            await stage.until(lambda: "Again." in stage.rows)
            await stage.settle()
            said = [(one.turn, one.message.text) for one in stage.talk.session.entries if one.message.role == "user"]
            assert said == [(0, "Look."), (0, "<|end|>"), (1, "https://a.example/b"), (2, "and then")]
            text = shown(stage)
            assert text.index("your text spells <|end|>") < text.index("the browser is on") < text.index("Then this.")
            await stage.type("/edit 1\r")
            await stage.until(lambda: "what you sent during turn 1 is removed, too" in shown(stage))

    chatting(case)


def test_ctrl_c_empties_the_input_and_ctrl_d_leaves_when_it_is_empty() -> None:
    clock = Clock()

    async def case() -> None:
        async with ChatScreen(clock=clock) as stage:
            await stage.type(f"half a line{CTRL_D}")
            await stage.until(lambda: stage.face.editor.text == "half a line")
            await stage.type(CTRL_C)
            await stage.until(lambda: stage.face.editor.text == "")
            await stage.until(lambda: "Up brings back what you typed" in stage.rows)
            await stage.type(UP)
            await stage.until(lambda: stage.face.editor.text == "half a line")
            await stage.type(f"\x15 {CTRL_C}")  # of blanks nothing is kept
            await stage.until(lambda: stage.face.editor.text == "")
            clock.now += 2
            await stage.type(CTRL_C)
            await stage.until(lambda: "press Ctrl-C again to leave" in stage.rows)
            clock.now += 2
            await stage.type(CTRL_C)  # too late to be the second of two
            await stage.until(lambda: stage.rows.count("press Ctrl-C again to leave") == 2)
            assert stage.rows.count("Up brings back what you typed") == 1
            assert stage.face.screen.app.is_running
            await stage.type(CTRL_D)
            await stage.until(lambda: not stage.face.screen.app.is_running)

    chatting(case)


def test_ctrl_o_shows_all_of_it_while_the_turn_goes_on(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, LONG, tokens_per_s=600)) as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: re.search(r"thinking · \d", shown(stage)))
            await stage.type(CTRL_O)
            await stage.until(lambda: "so it goes" in shown(stage))
            await stage.until(lambda: "The end." in shown(stage))  # it follows
            await stage.until(lambda: stage.talk.control is None)
            await stage.type("t")
            await stage.until(lambda: "so it goes" not in shown(stage))
            await stage.type("q")
            await stage.until(lambda: not stage.face.screen.away)
            await stage.settle()
            before, pager = "".join(stage.terminal.sent).split(ON_THE_ALTERNATE_SCREEN)
            pager, after = pager.split(BACK)
            assert "so it goes" not in before + after
            assert "The end." not in before and after.count("The end.") == 1

    chatting(case)


@pytest.mark.parametrize("draft", ["", "half a line"])
@pytest.mark.parametrize("vi", [False, True])
def test_page_up_shows_the_conversation_and_the_line_stays(tmp_path: Path, draft: str, vi: bool) -> None:
    async def case() -> None:
        script = write_script(tmp_path, answer("".join(f"- row {number}\n" for number in range(60))))
        async with ChatScreen(engine=script, vi=vi) as stage:
            await stage.type("one\r")
            await stage.settle()
            for key in (PGDN, PGUP):
                await stage.type(draft if key == PGDN else "")
                await stage.type(key)
                await stage.until(lambda: stage.face.screen.settled)
                assert stage.face.editor.text == draft
            await stage.until(lambda: "q leaves" in shown(stage) and "• row 59" in shown(stage))
            await stage.type(PGUP)
            await stage.until(lambda: "• row 59" not in shown(stage))
            await stage.type("qand on")  # what is typed at once with the key that leaves is the line's
            await stage.until(lambda: not stage.face.screen.away)
            await stage.until(lambda: stage.face.editor.text == f"{draft}and on")

    chatting(case)


def test_a_page_that_never_comes_is_named_and_can_be_stopped(tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        script = write_script(tmp_path, answer("Yes."))
        async with ChatScreen(engine=script, allow_host=[f"127.0.0.1:{site.port}"]) as stage:
            await stage.type(f"what says @{site.url('/slow')} ?\r")
            await stage.until(lambda: f"reading {site.url('/slow')}" in shown(stage))
            await stage.type(CTRL_C)
            await stage.until(lambda: stage.face.editor.text == f"what says @{site.url('/slow')} ?")
            await stage.settle()
            assert "not attached: you stopped it" in shown(stage)
            assert "reading http" not in shown(stage) and not stage.talk.session.entries

    with Site() as site:
        site.drip("/slow")
        chatting(lambda: case(site))


@pytest.mark.parametrize("key", ["y", "n", "\x03"])
def test_a_link_out_of_the_folder_is_asked_about(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "id_ed25519").write_text("PRIVATE")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "README.md").symlink_to("../id_ed25519")
    monkeypatch.chdir(tmp_path / "work")

    async def case() -> None:
        clock = Clock()
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes.")), columns=200, clock=clock) as stage:
            line = "What is in @README.md ?"
            await stage.type(f"{line}\r")
            await stage.until(lambda: "Attach @README.md?" in shown(stage))
            assert f"it leads to {tmp_path / 'id_ed25519'}, and that often holds secrets" in shown(stage)
            clock.now += 10
            await stage.type(key)
            if key == "y":
                await stage.until(lambda: "Yes." in stage.rows)
                assert "PRIVATE" in stage.talk.session.messages[0].text
                return
            await stage.until(lambda: stage.face.editor.text == line)
            assert not stage.talk.session.entries and not stage.face.asks

    chatting(case)


def test_a_dropped_file_is_attached_and_secrets_are_asked_about(tmp_path: Path) -> None:
    (tmp_path / "my notes.md").write_text("NOTES")
    (tmp_path / "id_rsa").write_text("PRIVATE")

    async def case() -> None:
        clock = Clock()
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes.")), columns=200, clock=clock) as stage:
            await stage.type(f"What is this? \x1b[200~'{tmp_path}/my notes.md' {tmp_path}/id_rsa\x1b[201~\r")
            await stage.until(lambda: f"Attach @{tmp_path}/id_rsa?" in shown(stage))
            assert "what was dropped will be attached" in shown(stage) and not stage.talk.session.entries
            clock.now += 10
            await stage.type("y")
            await stage.until(lambda: "Yes." in stage.rows)
            text = stage.talk.session.messages[0].text
            assert "NOTES" in text and "PRIVATE" in text

    chatting(case)


@pytest.mark.parametrize("mention", ["@missing.md", "@http://127.0.0.1:9/page", "@a.png"])
def test_what_can_not_be_attached_keeps_the_line(mention: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent; the same line once more goes without it."""
    monkeypatch.chdir(tmp_path)
    Path("a.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes.")), columns=120) as stage:
            await stage.type("!echo hi\r")
            await stage.until(lambda: stage.talk.outbox.attaching.pending)
            await stage.type(f"{mention} \x1b[200~{'word ' * 300}\x1b[201~ what is this?\r")
            line = f"{mention} [paste 1: 1,500 characters] what is this?"
            await stage.until(lambda: stage.face.editor.text == line)
            await stage.settle()
            assert stage.face.editor.buffer.cursor_position == len(line)
            assert f"{mention}: not attached: " in shown(stage)
            assert "not sent: send the line again to go without it" in stage.rows
            assert not stage.talk.session.entries and len(stage.talk.outbox.attaching.pending) == 1
            await stage.type("\r")
            await stage.until(lambda: "Yes." in stage.rows)
            sent = stage.talk.session.messages[0].text
            assert sent.startswith(f"{mention} word word ") and "echo hi" in sent
            assert not stage.talk.outbox.attaching.pending

    chatting(case)


def test_a_line_typed_ahead_that_can_not_be_sent_leaves_the_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def case() -> None:
        script = write_script(tmp_path, LONG, answer("Two."), tokens_per_s=600)
        async with ChatScreen(engine=script) as stage:
            await stage.type("one\r@missing.md two\rthree\rand then")
            await stage.until(lambda: stage.face.editor.text == "@missing.md two\nthree\nand then")
            await stage.settle()
            assert stage.talk.session.ends == ("answered",)
            (tmp_path / "missing.md").write_text("here it is")
            await stage.type("\r")
            await stage.until(lambda: "Two." in stage.rows)
            await stage.settle()
            assert "here it is" in stage.talk.session.messages[-2].text

    chatting(case)


def test_a_command_that_has_to_wait_keeps_its_line(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes."))) as stage:
            await stage.type("!sleep 600\r")
            await stage.until(lambda: stage.talk.outbox.attaching.running)
            await stage.type("!echo hi\r")
            await stage.until(lambda: "is still running: Ctrl-C ends it" in shown(stage))
            assert stage.face.editor.text == "!echo hi"

    chatting(case)


def test_ctrl_c_that_stops_or_drops_something_does_not_count_towards_leaving(tmp_path: Path) -> None:
    clock = Clock()

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes.")), clock=clock) as stage:
            await stage.type("!sleep 600\r")
            await stage.until(lambda: stage.talk.outbox.attaching.running)
            await stage.type(CTRL_C)
            await stage.until(lambda: "will be sent with your next" in shown(stage))
            await stage.type(CTRL_C)
            await stage.until(lambda: "attachments dropped" in shown(stage))
            await stage.type(CTRL_C)
            await stage.until(lambda: "press Ctrl-C again to leave" in stage.rows)
            assert stage.face.screen.app.is_running
            await stage.type(CTRL_C)
            await stage.until(lambda: not stage.face.screen.app.is_running)

    chatting(case)


def test_a_peek_is_three_rows_that_go(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, LONG, tokens_per_s=600), think="peek") as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: stage.face.view.tokens > 200)  # a good five rows of it
            assert len([row for row in stage.face.view.live(20) if row]) == 3
            await stage.type(CTRL_T)
            await stage.until(lambda: "so it goes" not in shown(stage))
            await stage.settle()
            assert "so it goes" not in "\n".join(stage.rows) and "The end." in stage.rows

    chatting(case)


def test_vi_keys_in_the_chat(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes.")), vi=True) as stage:
            await stage.type(f"ello{ESC}")
            await stage.until(lambda: stage.face.screen.app.vi_state.input_mode.value == "vi-navigation")
            await stage.type("0iH")
            await stage.until(lambda: stage.face.editor.text == "Hello")
            await stage.type("\r")
            await stage.until(lambda: "Yes." in stage.rows)
            assert "› Hello" in stage.rows

    chatting(case)


@pytest.mark.parametrize(("bell", "rings"), [(20.0, False), (5.0, True), (0.0, False)])
def test_it_rings_after_long_turns(bell: float, rings: bool, tmp_path: Path) -> None:
    clock = Clock()

    async def case() -> None:
        script = write_script(tmp_path, LONG, tokens_per_s=2000)
        async with ChatScreen(engine=script, bell=bell, clock=clock) as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: stage.face.view.busy)
            clock.now += 10
            await stage.settle()
            sent = re.sub("\x1b\\][^\x07]*\x07", "", "".join(stage.terminal.sent))  # a title ends in one, too
            assert ("\x07" in sent) == rings

    chatting(case)


def test_questions_are_answered_by_deliberate_keys_alone(tmp_path: Path) -> None:
    clock, folder = Clock(), tmp_path / "work"
    folder.mkdir()
    steps = [writes(f"{name}.txt") for name in "aabcc"]

    async def case() -> None:
        script = write_script(tmp_path, *steps, answer("Done."))
        async with ChatScreen(
            engine=script, workspace=str(folder), trust=True, no_tools=None, rows=40, clock=clock
        ) as stage:

            async def asked(name: str, key: str) -> None:
                await stage.until(lambda: stage.face.question.open and f"New {name}.txt" in shown(stage))
                await stage.until(lambda: "[y] yes" in shown(stage))
                clock.now += 0.6
                await stage.type(key)

            await stage.type("Write.\r")
            await stage.until(lambda: "[y] yes" in shown(stage))
            await stage.type("yes, ")  # the question has just come: this goes on with what was being typed
            await stage.until(lambda: stage.face.editor.text == "yes, ")
            assert stage.face.question.open
            await stage.type("\x15")  # while the line holds text, letters belong to it
            await asked("a", "?")
            await stage.until(lambda: "Asked because: " in shown(stage))
            await asked("a", "n\r")  # the same call again isn't asked about: it was refused
            await asked("b", "y")
            await asked("c", "s")  # the same call again isn't asked about: it was allowed
            await stage.until(lambda: "Done." in stage.rows)
            await stage.settle()
            assert sorted(path.name for path in folder.iterdir() if path.is_file()) == ["b.txt", "c.txt"]
            assert stage.face.editor.text == "" and stage.terminal.title == "ossia: idle"

    chatting(case)


# -- what goes along ---------------------------------------------------------------------------------------------------


def test_files_and_commands_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("Llamas hum.\n")

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("They hum."), answer("Yes."))) as stage:
            await stage.type("!echo looked at\r")
            await stage.until(lambda: "attached: !echo" in shown(stage))
            await stage.type(CTRL_C)
            await stage.until(lambda: "attachments dropped" in shown(stage))
            await stage.type("!echo a command of mine\r")
            await stage.until(lambda: "attached: !echo" in shown(stage))
            assert "a command of mine" in stage.rows
            await stage.type("What is in @notes.md?\r")
            await stage.until(lambda: "They hum." in stage.rows)
            await stage.settle()
            assert "  @notes.md · 12 bytes" in stage.rows and "attached:" not in shown(stage)
            message = stage.talk.session.entries[0].message.text
            assert message.startswith("What is in @notes.md?\n") and "looked at" not in message
            assert "\nLlamas hum.\n" in message and "\na command of mine\n" in message
            assert stage.talk.session.entries[0].typed == "What is in @notes.md?"

    chatting(case)


# -- how it looks ------------------------------------------------------------------------------------------------------

TURN = (
    thought("Hm. I should look at what is in there, and then say why.") + PREAMBLE + call("none", path="a.txt"),
    answer(
        "It **hums**, for `three` reasons:\n\n1. it is a llama, and llamas hum when they are content\n2. 漢字 🙂\n\n"
        "```python\nprint('a line of code is that line, however long it may be')\n```\n\n"
        "| a | b |\n|---|--:|\n| 1 | 20 |\n"
    ),
)

# What a colour says, marks say where there is none: `code` and **bold** stay as they were written.
NARROW = """
› Why does it hum?

thought · 20 tokens · Ctrl-O shows it

I will look.

✗ none(path="a.txt") · there is no
  tool 'functions.none'. No tools are
  on: answer without one.

It hums, for three reasons:

1. it is a llama, and llamas hum when
   they are content
2. 漢字 🙂

── python ──
print('a line of code is that line, howe
ver long it may be')
────────────

a │  b
──┼───
1 │ 20

›
  script · medium
"""

WIDE = """
› Why does it hum?

thought · 20 tokens · Ctrl-O shows it

I will look.

✗ none(path="a.txt") · there is no tool 'functions.none'. No tools are on: answer without one.

It hums, for three reasons:

1. it is a llama, and llamas hum when they are content
2. 漢字 🙂

── python ──
print('a line of code is that line, however long it may be')
────────────

a │  b
──┼───
1 │ 20

›
  script · medium · ▕        ▏ 308 of 131k · N tok/s
"""


@pytest.mark.parametrize(("columns", "expected"), [(40, NARROW), (200, WIDE)])
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_turn_on_any_width(
    columns: int, expected: str, no_color: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, *TURN), columns=columns, clock=Clock()) as stage:
            await stage.type("Why does it hum?\r")
            await stage.settle()
            await stage.until(lambda: columns == 40 or any(" 308 of" in row for row in stage.rows))  # measured last
            rows = stage.rows[stage.rows.index("› Why does it hum?") :]
            wanted = expected
            if no_color:
                wanted = wanted.replace("It hums, for three", "It **hums**, for `three`")
            assert re.sub(r"[\d,]+ tok/s", "N tok/s", "\n".join(rows)) == wanted.strip()
            colours = re.findall("\x1b\\[[0-9;]*?\\b(3[0-7]|9[0-7])(?:;[0-9;]*)?m", "".join(stage.terminal.sent))
            assert bool(colours) == (not no_color)

    chatting(case)
