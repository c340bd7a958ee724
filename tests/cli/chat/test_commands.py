"""Every command of the chat: in process, keys in, a terminal emulator out."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.engine.base import StepStats
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.memory import GpuMemory
from ossia.agent.sessions.session import Summary
from ossia.agent.sessions.store import SessionStore
from ossia.agent.sums import Sums
from ossia.cli import paths
from ossia.cli.chat.commands.table import GROUPS, arguments, commands, find, run_command
from ossia.cli.clipboard import MAX_TERMINAL_BYTES, copy_with_programs, copyable, fits_terminal
from ossia.cli.runtime.session import Resume
from ossia.cli.terminal.question import QUIET_S
from ossia.harmony.messages import ResponseFormat
from tests.support.command import write_script
from tests.support.documents import counted
from tests.support.gguf_edit import inflated_gguf
from tests.support.hub import Hub
from tests.support.screen import ChatScreen, Clock, chatting
from tests.support.toy_gguf import write_toy_gguf
from tests.support.work_calls import writes

THOUGHT = "<|channel|>analysis<|message|>Hm, llamas.<|end|><|start|>assistant"
LONG = THOUGHT.replace("llamas", "on and on, " * 60) + "<|channel|>final<|message|>One.<|return|>"
FENCE = "```"


def answer(text: str) -> str:
    """A step that thinks and answers."""
    return f"{THOUGHT}<|channel|>final<|message|>{text}<|return|>"


def call(name: str, arguments: str) -> str:
    return f"<|channel|>commentary to={name} <|constrain|>json<|message|>{arguments}<|call|>"


_seen: list[tuple[object, int, str]] = []


def text_of(stage: ChatScreen) -> str:
    """All rows as one line: what was wrapped can be looked for. The emulator is read only after a change."""
    written = len(stage.terminal.sent)
    if not _seen or _seen[0][:2] != (stage.terminal, written):
        _seen[:] = [(stage.terminal, written, " ".join(" ".join(stage.rows).split()))]
    return _seen[0][2]


async def send(stage: ChatScreen, *lines: str) -> None:
    """Send lines, each once what the one before did is over."""
    for line in lines:
        await stage.type(f"{line}\r")
        await stage.settle()


async def send_until(stage: ChatScreen, line: str, shown: str) -> None:
    """Send a line, and wait for what it shows: some work is done on a thread of its own."""
    assert shown not in text_of(stage)
    await stage.type(f"{line}\r")
    await stage.until(lambda: shown in text_of(stage))
    await stage.settle()


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table_is_sound() -> None:
    every = [one for _, group in GROUPS for one in group]
    names = [name for one in every for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names)) and all(re.fullmatch(r"[a-z]+|\?", name) for name in names)
    for one in every:
        assert len(f"/{one.name} {one.usage}") <= 26, one.name
        assert len(one.help) <= 50 and one.help[0].islower() and not one.help.endswith("."), one.name
        assert find(one.name) is one and one.act.__doc__ and f"/{one.name}" in one.act.__doc__, one.name
    assert find("EXIT") is find("quit") and find("nothing") is None
    assert [name for name, _ in commands()] == [f"/{one.name}" for one in every]


def test_help_fits_eighty_columns_and_forty(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send(stage, "/help")
            listed = [row for row in stage.rows if row.startswith("  /")]
            assert [row.split()[0] for row in listed] == [name for name, _ in commands()]
            assert max(map(len, stage.rows)) < 80 and not any("…" in row for row in listed if "NAME…" not in row)
            await send(stage, "/help tools", "/help plan", "/help undo")
            told = stage.rows[stage.rows.index("› /help tools") :]
            assert [row for row in told if row[:1].islower()] == [] and "--yes" not in " ".join(told)
            assert "skip: forget about files that can't be restored" in " ".join(" ".join(told).split())
            await send(stage, "/help export", "/? exit")
            assert "FORMAT is md, html, json, harmony or chat" in text_of(stage)
            assert "also: /exit, /bye, /q" in stage.rows[-4]
            await stage.resize(40, 24)
            await send(stage, "/help retry")
            await send(stage, "/help")
            assert {"    ask the last question again", "    new line; write in your editor"} <= set(stage.rows)

    chatting(case)


def test_a_command_of_other_programs_is_sent_and_ours_is_named(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Bye."), answer("An exit."))) as stage:
            await send(stage, "Exit", " exit")  # a blank in front: it is meant as it stands
            await stage.until(lambda: "An exit." in stage.rows)
            assert text_of(stage).count("/quit or Ctrl-D leaves") == 1 and "Bye." in stage.rows

    chatting(case)


def test_what_is_no_command_is_said_and_not_lost(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("A file."), answer("Yes."))) as stage:
            await send(stage, "/efort high")
            assert "no command /efort: did you mean /effort? To send it as text: //efort" in text_of(stage)
            assert stage.face.editor.text == "/efort high"
            await send(stage, "\x15/wibble")
            assert "no command /wibble (/help lists them). To send it as text: //wibble" in text_of(stage)
            assert stage.face.editor.text == "/wibble"
            await send(stage, "\x15/compact")
            assert "no command /compact (/context: how full the context is, part by part). To" in text_of(stage)
            stage.face.editor.clear()
            await send(stage, "/no/such is what?")
            assert "no command /no/such (/help lists them). To send it as text: //no/such" in text_of(stage)
            stage.face.editor.clear()
            (tmp_path / "a b.md").touch()
            dropped = f"{tmp_path}/a\\ b.md"  # as a terminal inserts it
            await send(stage, dropped)
            assert "a path is no command: it is in the input again, with the @ that" in text_of(stage)
            assert stage.face.editor.text == f'@"{tmp_path}/a b.md"'
            stage.face.editor.clear()
            await send(stage, "/etc/passwd is what?")
            assert stage.face.editor.text == "/etc/passwd is what?"
            await stage.type("\x01/")  # to its beginning, one more slash
            await send(stage, "")
            await stage.until(lambda: "A file." in stage.rows)
            await stage.settle()
            assert stage.talk.session.messages[0].text == "/etc/passwd is what?"
            assert "› /etc/passwd is what?" in stage.rows
            await send(stage, "/edit", "")  # it stays a text
            await stage.until(lambda: "Yes." in stage.rows)
            assert [message.text for message in stage.talk.session.messages if message.role == "user"] == [
                "/etc/passwd is what?"
            ]

    chatting(case)


def test_completion_knows_what_there_is(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send(stage, "What are llamas?")
            talk, session_id = stage.talk, stage.talk.opened.session_id
            assert [value for value, _ in arguments(talk, "/effort", "") or ()] == ["low", "medium", "high"]
            assert (arguments(talk, "/edit", "") or ())[0] == ("1", "What are llamas?")
            assert (arguments(talk, "/resume", "") or ())[0][0] == session_id
            assert arguments(talk, "/save", "x") is None  # paths
            assert ("think peek", "its last lines are shown") in (arguments(talk, "/set", "think ") or ())
            assert "etude" in [value for value, _ in arguments(talk, "/model", "") or ()]
            assert arguments(talk, "/nothing", "") == ()
            for name, _ in commands():
                arguments(talk, name, "")
                arguments(talk, name, "add \x1b[2J")

    chatting(case)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a model that doesn't come is a pipe that nobody writes into")
def test_every_command_works_while_the_model_loads(tmp_path: Path) -> None:
    pipe = tmp_path / "script.json"
    os.mkfifo(pipe)
    quiet = {"quit", "edit", "copy", "model", "docs"}

    async def case() -> None:
        async with ChatScreen(engine=f"script:{pipe}", loaded=False) as stage:
            assert stage.talk.loaded is None
            for name, _ in commands():
                if name[1:] not in quiet:
                    before = text_of(stage)
                    await send(stage, name)
                    assert f"› {name}" in text_of(stage).removeprefix(before), name
            await send(stage, "/effort high", "/edit", "/copy")
            await send_until(stage, "/docs", "no documents yet")
            await send_until(stage, "/model", "Models on this machine")
            assert "/retry: nothing has been said yet" in text_of(stage)
            assert "/context: the model is still loading: try again in a moment" in text_of(stage)
            assert "Traceback" not in text_of(stage)
            await stage.type("hello\r")
            script = {"version": 1, "steps": [answer("Here I am.")]}
            await asyncio.to_thread(pipe.write_text, json.dumps(script))
            await stage.until(lambda: "Here I am." in stage.rows)
            assert stage.talk.session.options.effort == "high"

    chatting(case)


def test_wrong_arguments_and_hostile_text_are_one_clean_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # /save takes any name

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send(stage, "hello")
            said = len(stage.terminal.sent)
            hostile = "x\x1b]52;c;ZXZpbA==\x07\u202ey\x9b2J" * 3
            for name, _ in commands():
                if name[1:] not in ("quit", "system", "title", "new", "model", "docs", "fork", "plan"):
                    run_command(stage.talk, stage.face, f"{name} {hostile}")
            await send(stage, "/new 1", "/fork 7", "/calls 3", "/set nothing 1", "/set top_p 2", "/undo all")
            sent = "".join(stage.terminal.sent[said:])
            assert "\x1b]52" not in sent and "\u202e" not in sent and "\x9b" not in sent
            text = text_of(stage)
            await send(stage, f"/save {'x' * 300}", f"/image {'x' * 300}", f"/docs add {'x' * 300}")
            assert text_of(stage).count(": File name too long") >= 2
            assert "/fork: must be 1, the only turn, not '7'" in text
            assert "/set: must be one of effort, temperature, top_p" in text
            assert "/set: must be a number above 0, up to 1, not '2': /set top_p default undoes it" in text
            await send(stage, "/temp 70", "/temp 0,7", "/temp nan", "/temp", "/set temp 1.5", "/temp default", "/temp")
            for wrong in ("70", "0,7", "nan"):
                assert f"/temp: must be a number from 0 to 2, not '{wrong}': /set temperature default" in text_of(stage)
            notes = re.findall(r"temperature (default|\d\S*)(?= |:)", text_of(stage).partition("not 'nan'")[2])
            assert notes == ["default", "default", "1.5", "default", "default"]
            assert "/undo: must be list, force, skip or nothing, not 'all'" in text

    chatting(case)


# -- how it answers ----------------------------------------------------------------------------------------------------


def test_settings_hold_from_the_next_turn(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text('def double(n: int) -> int:\n    "Doubles."\n    return 2 * n\n')

    async def case() -> None:
        script = write_script(tmp_path, LONG, answer("Two."), tokens_per_s=400)
        async with ChatScreen(engine=script) as stage:
            await stage.type("go\r")
            await stage.until(lambda: stage.face.view.busy and stage.face.view.tokens > 5)
            for line in ("/effort high", "/temp 0.5", "/set top_k 40", "/system Be kind.", "/set max_tokens 900"):
                await stage.type(f"{line}\r")
            await stage.type(f"/tools {tmp_path / 'own.py'}\r")
            await stage.until(lambda: "the tools change after this turn" in stage.rows)
            assert "max_tokens 900 from the next turn" in stage.rows
            assert stage.talk.control is not None
            during = stage.talk.session.options
            assert (during.effort, during.sampling.temperature, during.instructions) == ("medium", None, None)
            await stage.until(lambda: "One." in stage.rows)
            await stage.settle()
            after = stage.talk.session.options
            assert (after.effort, after.sampling.temperature, after.sampling.top_k) == ("high", 0.5, 40)
            assert after.instructions == "Be kind."
            await stage.until(lambda: "1 tool on: functions.double" in stage.rows)
            assert "effort high from the next turn" in stage.rows

    chatting(case)


def test_answers_by_a_schema(tmp_path: Path) -> None:
    schema = tmp_path / "person.json"
    schema.write_text('{"type": "object", "properties": {"name": {"type": "string"}}}')

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer('{"name":"Ann"}'))) as stage:
            talk = stage.talk
            await send(stage, "/schema", f"/schema {schema}", "/schema")
            assert talk.session.options.response_format == ResponseFormat(
                "answer", {"type": "object", "properties": {"name": {"type": "string"}}}
            )
            told = text_of(stage)
            assert "answers are free text: /schema FILE" in told and "answers are JSON that matches your schema" in told
            assert "the guide is off, so nothing enforces the schema" in told  # a script can't be held to anything
            assert any(row.strip() == '"name": {' for row in stage.rows)
            await send(stage, '/schema {"not": {}}')
            assert "/schema: this schema can't be used: the keyword 'not' can't be" in text_of(stage)
            await send(stage, "/schema ok bool, age int")
            asked = talk.session.options.response_format
            assert asked and isinstance(asked.schema, dict) and asked.schema["required"] == ["ok", "age"]
            await send(stage, "/schema off")
            assert talk.session.options.response_format is None
            os.mkfifo(tmp_path / "fifo")
            await stage.type(f"/schema {tmp_path / 'fifo'}\rhi\r")
            await stage.until(lambda: talk.outbox.queue)
            await stage.type("\x03")  # nobody writes into it: what was said goes back into the input
            await stage.settle()
            assert stage.face.editor.text == "hi" and not talk.session.entries

    chatting(case)


def test_values_are_shown_set_and_put_back(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("Speak of llamas.")

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            talk = stage.talk
            await send(stage, "/effort", "/effort LOW", "/set seed 7", "/set min-p 0.1", "/think peek", "/set bell")
            assert (talk.session.options.effort, stage.face.view.think) == ("low", "peek")
            assert replace(talk.session.options.sampling, temperature=0) == replace(
                talk.session.options.sampling, temperature=0, seed=7, min_p=0.1
            )
            await send(stage, "/set seed off", "/think default", "/set")
            await send(stage, "/set parameter temperature 0.3", "/set system Be brief.")  # habits of `ollama run`
            assert talk.session.options.sampling.temperature == 0.3
            assert talk.session.options.instructions == "Be brief."
            run_command(talk, stage.face, "/system First line.\nSecond line.")
            assert talk.session.options.instructions == "First line.\nSecond line."
            assert talk.session.options.sampling.seed is None and talk.settings.think == "off"
            assert any(row.split()[:2] == ["min_p", "0.1"] for row in stage.rows)
            await send(stage, f"/system @{note}", "/system")
            assert talk.session.options.instructions == "Speak of llamas."
            await send(stage, "/system @/nowhere-at-all/x.md", "/system")
            assert "/system: --instructions @/nowhere-at-all/x.md: can't read" in text_of(stage)
            assert talk.session.options.instructions == "Speak of llamas."
            await send(stage, "/new")
            assert talk.session.options.instructions == "Speak of llamas."
            assert talk.session.options.effort == "low"
            await send(stage, "/system off")
            assert talk.session.options.instructions is None

    chatting(case)


def test_instructions_are_written_in_the_users_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "write.sh"
    program.write_text('#!/bin/sh\nprintf "Be brief.\\n" > "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(program))
    monkeypatch.delenv("VISUAL", raising=False)

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send_until(stage, "/system edit", "your instructions are set")
            assert stage.talk.session.options.instructions == "Be brief."
            await send_until(stage, "/system edit", "instructions unchanged")

    chatting(case)


def test_another_model_takes_the_conversation_over_or_everything_stays(tmp_path: Path) -> None:
    broken, copied = tmp_path / "broken.gguf", tmp_path / "copied.gguf"
    broken.write_bytes(b"GGUF" + bytes(60))
    shutil.copyfile(ETUDE_PATH, copied)

    async def case() -> None:
        script = write_script(tmp_path, LONG, tokens_per_s=400)
        async with ChatScreen(engine=script) as stage:
            talk = stage.talk
            await send_until(stage, "/model nothing", "no model 'nothing': give the path of a GGUF file")
            await send_until(stage, "/model gpt-oss-20b", "get it (12.1 GB): /model pull gpt-oss-20b")
            await send_until(stage, f"/model {broken}", "a big-endian GGUF")
            await stage.type("hello\r")
            await stage.until(lambda: stage.face.view.busy and stage.face.view.tokens > 5)
            await stage.type(f"/model {copied}\r")
            await stage.until(lambda: "copied from the next turn" in stage.rows)
            copied.unlink()
            await stage.until(lambda: "back to script" in text_of(stage) and talk.loaded is not None)
            assert (talk.settings.engine, talk.settings.model) == (script, "etude")
            await send_until(stage, "/model etude", "switching to etude")
            await stage.until(lambda: talk.loaded is not None)
            assert talk.loaded is not None and talk.loaded.model.name == "etude"
            await send(stage, "What is 48*17?")
            assert talk.session.ends == ("answered", "answered")
            await send(stage, "/model pull llama-3")
            assert "/model: must be gpt-oss-20b or gpt-oss-120b, not 'llama-3'" in text_of(stage)

    chatting(case)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a file with holes")
def test_what_fits_only_with_the_gpu_is_listed_as_fitting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ossia.agent.engine.llama.gpu_memory", lambda: GpuMemory((10**12,)))
    large = paths.data_dir() / "models" / "gpt-oss-20b-mxfp4.gguf"
    large.parent.mkdir(parents=True)
    inflated_gguf(write_toy_gguf(tmp_path / "toy.gguf"), large)

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send_until(stage, "/model", "gpt-oss-20b 236.2 GB fits ")

    chatting(case)


def test_a_model_is_downloaded_and_a_download_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = threading.Event()
    repo, file = "ggml-org/gpt-oss-20b-GGUF", "gpt-oss-20b-mxfp4.gguf"

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send_until(stage, "/model pull gpt-oss-20b", "/model gpt-oss-20b uses it")
            await stage.type("/model gpt-oss-20b\r")
            loaded = "gpt-oss-20b"  # the bottom line names it before
            await stage.until(lambda: stage.talk.loaded and stage.talk.loaded.model.name == loaded)
            (paths.data_dir() / "models" / file).unlink()
            hub.cut_after = [1_500_000]
            await stage.type("/model pull gpt-oss-20b\r")
            await stage.until(lambda: " of 5.1 MB" in text_of(stage))
            await send(stage, "/model pull gpt-oss-120b", "/effort low")  # the chat goes on beside it
            assert "/model: another job is running: Ctrl-C ends it" in text_of(stage)
            await stage.type("\x03")
            await stage.until(lambda: "stopped; partial download kept" in text_of(stage))
            assert not stage.talk.background.job and stage.face.screen.app.is_running
            hold.set()

    with Hub({file: ETUDE_PATH.read_bytes()}, repo=repo, hold=hold) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        chatting(case)


def test_a_token_that_is_kept_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.test")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send_until(stage, "/model pull gpt-oss-20b", "no connection to the hub")
            assert "HF_ENDPOINT isn't https://: your token of Hugging Face isn't sent there" in text_of(stage)

    chatting(case)


# -- what was asked and answered ---------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize("output", [False, True])
def test_edit_tells_that_a_commands_output_does_not_go_along_again(tmp_path: Path, output: bool) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes."))) as stage:
            if output:
                await stage.type("!echo seen\r")
                await stage.until(lambda: stage.talk.outbox.attaching.pending)
            await send(stage, "Well?", "/edit")
            assert stage.face.editor.text == "Well?"
            assert ("the output of your command won't be attached again" in text_of(stage)) is output

    chatting(case)


def test_retry_and_edit_go_back(tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, *(answer(f"Answer {number}.") for number in range(1, 7)))
        async with ChatScreen(engine=script) as stage:
            talk = stage.talk
            await send(stage, "one", "two", "/retry")
            assert [message.text for message in talk.session.messages if message.channel == "final"] == [
                "Answer 1.",
                "Answer 3.",
            ]
            assert [row for row in stage.rows if row == "› two"] == ["› two", "› two"]
            await send(stage, "/edit 1")
            assert stage.face.editor.text == "one" and len(talk.session.ends) == 2
            assert "Enter replaces turn 1 and removes the turn after it · Esc cancels" in stage.rows
            await stage.type("\x1b")
            await stage.until(lambda: stage.face.editor.text == "")
            await stage.settle()
            assert stage.face.replaces is None and len(talk.session.ends) == 2
            await send(stage, "three")
            assert talk.session.ends == ("answered",) * 3
            await send(stage, "/edit 2")
            await stage.type(" and a half\r")
            await stage.until(lambda: "Answer 5." in stage.rows)
            await stage.settle()
            users = [message.text for message in talk.session.messages if message.role == "user"]
            assert users == ["one", "two and a half"]
            assert [item.text for item in talk.transcript.items if item.kind == "user"] == users
            await send(stage, "/edit 9")
            assert "/edit: must be a turn from 1 to 2, not '9'" in text_of(stage)

    chatting(case)


def test_what_changes_the_conversation_waits_for_the_turn(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, LONG, "Now.<|return|>", tokens_per_s=200)) as stage:
            await stage.type("go\r")
            await stage.until(lambda: stage.face.view.busy and stage.face.view.tokens > 5)
            session = stage.talk.session
            await stage.type("/new\r")
            later = "/new can't run during a turn: Ctrl-C stops it, Up brings the line back"
            await stage.until(lambda: later in stage.rows)
            assert stage.face.editor.text == "" and stage.talk.session is session
            await stage.type("\x1b[A")
            await stage.until(lambda: stage.face.editor.text == "/new")
            stage.face.editor.clear()
            await stage.type("/stats\r/context\r/calls\r/answer\r")
            await stage.until(lambda: "Now." in stage.rows)
            await stage.settle()
            assert "This turn so far" in stage.rows and "answering now" in stage.rows

    chatting(case)


def test_answers_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    async def case() -> None:
        code = f"So:\n\n{FENCE}python\nprint(1)\n{FENCE}\n\n- and\n\n  {FENCE}sh\n  ls\n  {FENCE}\n\x07Done."
        async with ChatScreen(engine=write_script(tmp_path, answer(code), answer("**Two**."))) as stage:
            await send(stage, "one", "/copy code", "/copy thinking", "two", "/copy", "/copy 1", "/copy everything")
            copied = re.findall(r"\x1b\]52;c;([^\x07]*)\x07", "".join(stage.terminal.sent))
            assert [base64.b64decode(text).decode() for text in copied] == [
                "ls\n",
                "Hm, llamas.",
                "**Two**.",
                code.replace("\x07", ""),
            ]
            await stage.until(lambda: "sent the answer to the terminal's clipboard: 8 characters" in text_of(stage))
            assert "/copy: must be code, thinking or a turn number, not 'everything'" in text_of(stage)

    chatting(case)


@pytest.mark.skipif(os.name != "posix" or os.uname().sysname == "Darwin", reason="which programs there are differs")
def test_the_desktops_program_gets_the_copy_too(tmp_path: Path) -> None:
    program, taken = tmp_path / "xclip", tmp_path / "taken"
    program.write_text(f'#!/bin/sh\n[ "$*" = "-selection clipboard -in" ] && cat > {taken}\n')
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DISPLAY": ":0"}
    assert copy_with_programs("löwe\n", environ) == ("xclip",)
    assert taken.read_text() == "löwe\n"
    assert copy_with_programs("x", {"PATH": str(tmp_path)}) == ()
    program.write_text("#!/bin/sh\nexit 1\n")
    assert copy_with_programs("x", environ) == ()
    assert fits_terminal("x" * MAX_TERMINAL_BYTES) and not fits_terminal("ä" * (MAX_TERMINAL_BYTES // 2 + 1))
    assert copyable("a\x1b[31mb\r\n\tc\x9b") == "a[31mb\n\tc"


# -- conversations -----------------------------------------------------------------------------------------------------


def test_conversations_are_listed_found_resumed_and_forked(tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, *(answer(f"Answer {number}.") for number in range(1, 6)))
        async with ChatScreen(engine=script) as stage:
            talk = stage.talk
            await send(stage, "About llamas", "And alpacas", "/title")
            first = talk.opened.session_id
            assert f"{first} is called 'About llamas'" in stage.rows
            await send(stage, "/title The \x1b[2J llama talk", "/new")
            assert f"new conversation · /resume {first} goes back" in stage.rows
            assert talk.session.entries == () and talk.transcript.items == []
            await send(stage, "About bread", "/sessions", "/search ALPACAS", "/search nothing-like-it")
            second = talk.opened.session_id
            listed = [row for row in stage.rows if str(first) in row or str(second) in row]
            assert any(row.startswith(f"› {second} ") and row.endswith("About bread") for row in listed)
            assert "user: And alpacas" in text_of(stage)
            assert "no stored session contains 'nothing-like-it'" in stage.rows
            await send(stage, "/resume llama talk")
            assert talk.opened.session_id == first and len(talk.session.ends) == 2
            assert stage.rows.count("› And alpacas") == 2  # once more, above the input
            await send(stage, f"/resume {first}", "/resume", "/resume zzzz")
            assert f"you are already in {first}" in text_of(stage)
            assert "/resume: no session is called 'zzzz': /sessions shows the stored ones" in text_of(stage)
            await send(stage, "/fork 1", "And now?")
            forked = talk.opened.session_id
            assert forked not in (first, second)
            users = [message.text for message in talk.session.messages if message.role == "user"]
            assert users == ["About llamas", "And now?"]
            await send(stage, f"/resume {first}")
            assert len(talk.session.ends) == 2
        async with ChatScreen(engine=script, resume=Resume(ref=forked)) as stage:
            assert len(stage.talk.session.ends) == 2

    chatting(case)


def test_private_stores_nothing_until_the_user_says_so(tmp_path: Path) -> None:
    clock = Clock()

    async def case() -> None:
        script = write_script(tmp_path, *(answer(f"Answer {number}.") for number in range(1, 6)))
        async with ChatScreen(engine=script, clock=clock) as stage:
            talk = stage.talk
            await send(stage, "open", "/private", "/private")
            assert talk.store is None and talk.session.recorder is None and stage.face.editor.history.private
            assert "this chat isn't stored: /private off stores it" in stage.rows
            await send(stage, "/private off")  # nothing was said meanwhile: it goes on where it was
            first = talk.opened.session_id
            assert first is not None and talk.session.recorder is not None
            await send(stage, "/private", "/effort high", "/private off")
            assert talk.session.options.effort == "high", "what was changed meanwhile holds"
            await send(stage, "/private", "secret", "/title x", "/fork", "/private off")
            assert "/fork: this chat isn't stored: /private off stores it" in text_of(stage)
            assert stage.face.question.open
            clock.now += QUIET_S  # a question listens only then
            await stage.type("n")
            await stage.until(lambda: "it stays private" in stage.rows)
            await send(stage, "/sessions")
            assert talk.store is None
            assert b"secret" not in paths.sessions_file().read_bytes()
            await send(stage, "/private off")
            clock.now += QUIET_S
            await stage.type("y")
            await stage.until(lambda: talk.store is not None)
            assert talk.opened.session_id not in (None, first)
            assert talk.store is not None and len(talk.store.list()) == 2

    chatting(case)


def test_private_off_when_the_stored_part_was_removed_meanwhile(tmp_path: Path) -> None:
    clock = Clock()

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("One.")), clock=clock) as stage:
            talk = stage.talk
            await send(stage, "open")
            stored = talk.opened.session_id
            await send(stage, "/private")
            assert stored is not None
            store = SessionStore(paths.sessions_file(), now=time.time)
            store.remove(stored)
            store.close()
            await send(stage, "/private off")
            assert stage.face.question.open
            clock.now += QUIET_S
            await stage.type("y")
            await stage.until(lambda: talk.store is not None)
            assert talk.opened.session_id not in (None, stored)

    chatting(case)


def test_a_conversation_is_written_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clock = Clock()

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("They are **kind**.")), clock=clock) as stage:
            await send(stage, "/save x.md", "Llamas, what?", "/save 'my talk.md'", "/save talk.html", "/export")
            assert "/save: nothing has been said yet" in stage.rows
            assert "They are **kind**." in Path("my talk.md").read_text()
            assert "Hm, llamas." not in Path("my talk.md").read_text()
            assert "<strong>kind</strong>" in Path("talk.html").read_text()
            assert "They are **kind**." in Path("llamas-what.md").read_text()
            await send(stage, "/export json all.json", "/export md thoughts.md thinking", "/export chat", "/export pdf")
            assert json.loads(Path("all.json").read_text())["title"] == "Llamas, what?"
            assert "Hm, llamas." in Path("thoughts.md").read_text()
            assert isinstance(json.loads(Path("llamas-what.json").read_text()), list | dict)
            assert "/export: must be chat, harmony, html, json, md or a file name, not 'pdf'" in text_of(stage)
            await send(stage, "/save talk.pdf", f"/save {tmp_path}", "/save talk.html/x.md")
            assert "must be a name that ends in .md, .html or .json, not 'talk.pdf'" in text_of(stage)
            assert f"{tmp_path} is a folder: give it a file name" in text_of(stage)
            assert "folder talk.html doesn't exist" in text_of(stage)
            Path("there.md").write_text("mine")
            await send(stage, "/save there.md")
            assert chat_asks(stage) and Path("there.md").read_text() == "mine"
            clock.now += QUIET_S
            await stage.type("y")
            await stage.until(lambda: Path("there.md").read_text() != "mine")

    chatting(case)


def chat_asks(stage: ChatScreen) -> bool:
    """Is a question open?"""
    return stage.face.question.open


# -- tools -------------------------------------------------------------------------------------------------------------


def test_tools_are_turned_on_and_off_without_loading_the_model_again(tmp_path: Path) -> None:
    halve = "def halve(n): ...\ndef third(n: int) -> int: ...\n"
    (tmp_path / "own.py").write_text(f'def double(n: int) -> int:\n    "Doubles."\n    return 2 * n\n{halve}')
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Write British English.")
    (folder / "a.txt").write_text("before\n")

    async def case() -> None:
        write = writes("a.txt", "after\n", before="before\n")
        script = write_script(tmp_path, call("functions.double", '{"n": 21}'), answer("42."), write, answer("Written."))
        async with ChatScreen(engine=script, trust=True, allow=["repo_browser.apply_patch"]) as stage:
            talk = stage.talk
            engine = talk.loaded.model.engine if talk.loaded else None
            await send(stage, "/tools")
            assert "web search /tools web URL (a SearXNG; or brave, exa, … with a key)" in text_of(stage)
            await send_until(stage, f"/tools {tmp_path / 'own.py'}", "2 tools on: functions.double, functions.third")
            await send_until(stage, "/tools", "functions.halve own.py line 4: the parameter 'n' has no type hint")
            await send_until(stage, f"/tools {tmp_path / 'own.py'}:double", "1 tool on: functions.double")
            await send(stage, "Double 21", "/calls", "/calls 1", "/calls 2")
            assert "▸ double(n=21) · 42 · functions.double" in text_of(stage)
            assert "a call from 1 to 1, not '2'" in text_of(stage)
            await send_until(stage, "/tools off double", "0 tools on")
            await send_until(stage, f"/tools workspace {folder}", "repo_browser.print_tree")
            assert talk.loaded is not None and talk.loaded.model.engine is engine
            assert "functions.double" not in talk.loaded.tools.toolbox.by_name
            assert "Write British English." in (talk.session.options.instructions or "")
            await send(stage, "Write it")
            assert (folder / "a.txt").read_text() == "after\n"
            await send_until(stage, "/undo list", "1 file Write it")
            await send_until(stage, "/undo", "restored a.txt")
            assert (folder / "a.txt").read_text() == "before\n"
            await send_until(stage, "/undo", "nothing to undo")
            await send_until(stage, "/tools workspace /nowhere-at-all", "/tools: folder /nowhere-at-all doesn't exist")
            await send_until(stage, "/tools web nothing-known", "must be a SearXNG's address")
            assert talk.folder is not None and talk.settings.web is None and talk.loaded.model.engine is engine
            await send_until(stage, "/tools off nothing", "/tools: must be a tool (browser.search")
            await send(stage, "/tools bogus", "/tools on")
            assert "functions.double" in talk.loaded.tools.toolbox.by_name

    chatting(case)


def test_tools_names_the_reasons_that_were_found_when_the_tools_were_made(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    async def case() -> None:
        script = write_script(tmp_path, answer("Hi."))
        async with ChatScreen(engine=script, workspace=str(tmp_path / "work"), no_tools=None) as stage:
            assert stage.talk.loaded is not None
            stage.talk.loaded.tools.off = {"python": "/data can't be written to", "container.exec": "nothing holds"}
            await send(stage, "/tools")
            assert "python /data can't be written to" in text_of(stage)
            assert "commands nothing holds" in text_of(stage)
            assert "--unconfined" not in text_of(stage), "it helps where nothing confines: the reason says so then"

    chatting(case)


@pytest.mark.needs_bwrap
def test_another_conversation_has_no_variables_of_this_one(tmp_path: Path) -> None:
    def code(text: str) -> str:
        return f"<|channel|>analysis to=python code<|message|>{text}<|call|>"

    async def case() -> None:
        steps = (code("x = 816"), answer("Set."), code("print('x' in dir())"), answer("No."), code("print(1)"))
        more = (answer("Lost."), code("y = 2"), answer("Set."), code("print(y)"), answer("2."))
        async with ChatScreen(engine=write_script(tmp_path, *steps, *more), no_tools=None) as stage:
            await send(stage, "Set it")
            first = stage.talk.opened.session_id
            await send(stage, "/new", "Is it there?")
            (is_there,) = [message for message in stage.talk.session.messages if message.role == "tool"]
            assert is_there.text == "False"  # and nothing about a kernel that this conversation never had
            await send(stage, f"/resume {first}", "And now?")
            result = [message for message in stage.talk.session.messages if message.role == "tool"][-1]
            assert result.text == "[WARN] this is a new kernel: variables lost, /mnt/data is empty\n1"
            await send(stage, "Set another", "/fork", "And that?")  # a copy goes on with what it had
            assert [message for message in stage.talk.session.messages if message.role == "tool"][-1].text == "2"

    chatting(case)


def test_rules_are_allowed_listed_and_removed(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            rule = "container.exec:git status"
            await send(stage, f"/allow {rule}", "/allow", "/allow container.exec:rm -rf * && x", "/allow :")
            assert "allowed in this chat: container.exec:git status; but no tool of that name is on" in text_of(stage)
            assert "auto   container.exec:git status" in "\n".join(stage.rows)
            assert "/allow: 'container.exec:rm -rf * && x' can never allow anything" in text_of(stage)
            await send(stage, f"/allow remove {rule}", f"/allow remove {rule}", "/allow list")
            assert "will ask again: container.exec:git status" in stage.rows
            assert "no such rule in this chat: 'container.exec:git status'" in text_of(stage)
            assert stage.talk.settings.allow == ()
            await send(stage, f"/allow {rule}")
            (paths.data_dir() / "trust.json").write_text("damaged")
            await send(stage, f"/allow remove {rule}")
            assert stage.talk.loaded and not stage.talk.loaded.tools.policy.rules
            assert f"will ask again in this chat: {rule}" in text_of(stage)

    chatting(case)


def test_what_is_always_allowed_is_listed_and_can_be_taken_back_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    first, *later = (writes("a.txt", new, before=old) for old, new in ((None, "1\n"), ("1\n", "2\n"), ("2\n", "3\n")))
    now = [1000.0]

    async def case() -> None:
        script = write_script(tmp_path, first, answer("One."), later[0], answer("Two."), later[1], answer("Three."))
        flags = {"engine": script, "workspace": str(folder), "trust": True, "no_tools": None}
        async with ChatScreen(**flags, clock=lambda: now[0]) as stage:
            for key, told in (
                ("a", "always allowed: repo_browser.apply_patch:a.txt · /allow remove RULE takes it back"),
                ("s", "allowed until ossia ends: repo_browser.apply_patch on a.txt"),
            ):
                await stage.type("write\r")
                await stage.until(lambda: chat_asks(stage) and "waiting for your answer" in text_of(stage))
                now[0] += 1  # the question listens after half a second
                await stage.type(key)
                await stage.until(lambda told=told: told in text_of(stage))  # type: ignore[misc]
                await stage.settle()
                if key == "a":
                    await send(stage, "/allow", "/allow remove repo_browser.apply_patch:a.txt")
                    assert 'auto   repo_browser.apply_patch:a.txt  (from an "always" answer)' in "\n".join(stage.rows)
            await stage.type("write\r")
            await stage.until(lambda: "Three." in text_of(stage))

    chatting(case)


def test_documents_are_indexed_from_the_chat(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_bytes("# Llamas\n\nThey “hum”.\n".encode("cp1252"))

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send_until(stage, "/docs add", "the library is empty: /docs add FOLDER")
            await send(stage, "/docs remove x", "/docs add /nowhere-at-all")
            assert "/docs: must be add PLACE, or nothing, not 'remove x'" in text_of(stage)
            assert "/docs: /nowhere-at-all: no such file or folder" in text_of(stage)
            await send_until(stage, f"/docs add {folder}", "documents: 1 added")
            assert "encoding guessed for 1 file: a.md (windows-1252)" in text_of(stage)
            await send_until(stage, "/docs", "/docs add updates them")
            assert any(re.fullmatch(r" +1 document +[0-9]+ bytes  /.*", row) for row in stage.rows)
            await send_until(stage, "/docs add", "documents: 1 unchanged")
            assert not stage.talk.background.job

    chatting(case)


# -- inside ------------------------------------------------------------------------------------------------------------


def test_the_prompt_its_parts_and_its_cost_can_be_seen(tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, answer("\x1b[31mOne."), answer(counted("Two ", 450) + "."))
        async with ChatScreen(engine=script, rows=40) as stage:
            await send(stage, "/raw", "/stats", "hi", "/context", "/stats")
            assert "/raw: nothing has been said yet" in stage.rows and "nothing has been answered yet" in stage.rows
            assert any(re.match(r"  w what you said +\d+  █*", row) for row in stage.rows)
            assert f"  ▕{'·' * 60}▏" in stage.rows  # of 131,072 tokens
            assert re.search(r"Context: \d+ of 131,072 tokens, 0 %", text_of(stage))
            assert "1 step, 0 calls (0.0 s in tools)" in text_of(stage)
            head = stage.rows.index("Where the time went, oldest turn first")
            assert re.fullmatch(r"  [░█▒·]+ +\d+\.\d s(  [\d,.]+ tok/s)?", stage.rows[head + 1])
            assert stage.rows[head + 2] == "  ░ reading █ writing ▒ tools · waiting"
            picture = tmp_path / "stats.svg"
            await send(stage, "/stats all", f"/stats {picture}")
            assert "/stats: must be a file name that ends in .svg, not 'all'" in text_of(stage)
            titles = "<title>Time of the last turns, oldest first, Their speed</title>"
            assert picture.read_text().startswith("<svg ") and titles in picture.read_text()
            await send_until(stage, "/raw", "What the model wrote,")
            text = text_of(stage)
            assert "<|start|>user<|message|>hi<|end|><|start|>assistant What the model wrote" in text
            assert "<|channel|>final<|message|>␛[31mOne.<|return|>" in text
            await send(stage, "again")
            stage.talk.session.summarise(Summary("They said \x1b[2J hi.", 1))
            await send(stage, "/context")
            assert "a summary replaces the first 1 turn: They said ␛[2J hi." in text_of(stage)
            await stage.type("/raw\r")  # too long for the screen: it is read aside
            await stage.until(lambda: stage.face.screen.away)
            await stage.until(lambda: any("The last prompt" in row for row in stage.terminal.display))
            await stage.type("q")
            await stage.until(lambda: not stage.face.screen.away)

    chatting(case)


def test_the_context_and_the_times_are_drawn_on_a_narrow_screen(tmp_path: Path) -> None:
    """The line over all of the context: 1,024 tokens; the last eight turns of nine."""
    clock = Clock()

    async def case() -> None:
        steps = [answer(counted("word ", 120)), *[answer("Yes.")] * 8]
        async with ChatScreen(
            engine=write_script(tmp_path, *steps, tokens_per_s=4000), context=4096, columns=40, rows=60, clock=clock
        ) as stage:
            for number in range(9):
                await stage.type(f"{number}\r")
                await stage.until(lambda: len(stage.talk.session.ends) > number)  # noqa: B023  # awaited in the loop
                await stage.settle()
            await send(stage, "/context", "/stats")
            (line,) = [row for row in stage.rows if row.startswith("  ▕")]
            assert re.fullmatch(r"  ▕s+t*w*a+h*·+▏", line) and len(line) == 39
            head = stage.rows.index("Where the time went, oldest turn first")
            drawn = [re.fullmatch(r"  [░█▒·]* +[\d,.]+ s  [\d,.]+ tok/s", row) for row in stage.rows[head + 1 :]]
            assert all(drawn[:8]) and not any(drawn[8:])
            assert all(len(row) <= 40 for row in stage.rows[stage.rows.index("› /context") :])

    chatting(case)


@pytest.mark.parametrize(
    ("own", "trust", "told"),
    [
        (None, None, "ossia's own for work in a folder (/system shows them)"),
        (None, True, "ossia's own for work in a folder, AGENTS.md (/system shows them)"),
        ("Be brief.", True, "yours, AGENTS.md (/system shows them)"),
        ("Be brief.", None, "yours (/system shows them)"),
    ],
)
def test_whose_the_instructions_are(own: str | None, trust: bool | None, told: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Use tabs.")

    async def case() -> None:
        flags = {"workspace": str(work), "no_tools": None, "trust": trust, "instructions": own}
        async with ChatScreen(engine=write_script(tmp_path, answer("One.")), rows=40, **flags) as stage:
            await send(stage, "/context")
            at = next(at for at, row in enumerate(stage.rows) if "  i instructions" in row)
            assert stage.rows[at + 1].strip() == told

    chatting(case)


def test_the_memory_and_what_was_read_of_a_prompt_can_be_seen() -> None:
    async def case() -> None:
        async with ChatScreen(model="etude", temperature=0.0, no_tools=True) as stage:
            await send_until(stage, "/context", "the rest")
            said = "  memory 71.9 MB, weights not repacked:"
            assert stage.rows[stage.rows.index(said) + 1] == "    weights 5.0 MB, KV cache 5.0 MB, the rest 61.9 MB"
            await send(stage, "Hello!", "Thanks!", "/stats")
            last = text_of(stage).rpartition("All 2 turns")[2]
            prompts, reused, read = (
                int(re.search(rf"{name} +([\d,]+) ", last)[1].replace(",", ""))  # type: ignore[index]
                for name in ("prompts", "reused", "read")
            )
            assert prompts == reused + read and reused > 0 and read > 0

    chatting(case)


def test_a_picture_is_shown_by_its_path(tmp_path: Path) -> None:
    from PIL import Image

    picture = tmp_path / "plot.png"
    Image.new("RGB", (8, 8), "red").save(picture)

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Hi."))) as stage:
            await send(stage, "/image", f"/image {tmp_path / 'nothing.png'}")
            assert "/image: no tool has made a picture yet" in text_of(stage)
            assert "nothing.pngdoesn'texist" in text_of(stage).replace(" ", ""), "wherever the long path is wrapped"
            (tmp_path / "notes.png").write_text("no picture")
            await send(stage, f"/image {tmp_path / 'notes.png'}")
            assert "must be a picture (PNG, JPEG, GIF, WEBP)" in text_of(stage)
            await send_until(stage, f"/image {picture}", f"[picture: {picture}]"[:60])

    chatting(case)


def test_sums_say_none_where_nothing_was() -> None:
    assert (Sums().tokens_per_s, Sums().prefill_per_s, Sums().reused_share) == (None, None, None)
    sums = Sums(prompt=100, reused=40, evaluated=60, completion=50, prefill_s=0.5, decode_s=2.0)
    assert (sums.tokens_per_s, sums.prefill_per_s, sums.reused_share) == (25.0, 120.0, 0.4)


def test_sums_of_steps_whose_server_told_no_cache_figures_are_kept_apart() -> None:
    sums = Sums(prompt=100, reused=40, evaluated=60, completion=50, prefill_s=0.5, decode_s=2.0)
    sums.add(StepStats(70, 0, 10, 3.0, 1.0, "stop", evaluated_tokens=70, cache_reported=False))
    assert (sums.prompt, sums.reused, sums.evaluated, sums.unreported) == (170, 40, 60, 70)
    assert (sums.prefill_s, sums.unreported_s) == (3.5, 3.0)
    assert (sums.prefill_per_s, sums.reused_share) == (120.0, 0.4)
