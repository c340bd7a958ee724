"""The chat reads ahead while nothing else goes on, and only time is changed by that. The étude, in this process."""

from __future__ import annotations

import asyncio
import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.engine.llama import LlamaEngine
from ossia.cli import paths
from ossia.cli.runtime.session import Resume
from ossia.harmony.tokenizer import Tokenizer
from tests.support.screen import ChatScreen, chatting

TODAY = datetime.date.today()  # as the settings have it
TOMORROW = TODAY + datetime.timedelta(1)


def _chat(**flags: Any) -> ChatScreen:
    flags = {"prefill_ahead": "on", "temperature": 0.0, "no_tools": None, "threads": 1, **flags}
    return ChatScreen(today=lambda: TODAY, **flags)


def _engine(stage: ChatScreen) -> LlamaEngine:
    assert stage.talk.loaded is not None
    engine = stage.talk.loaded.model.engine
    assert isinstance(engine, LlamaEngine)
    return engine


def _held(stage: ChatScreen) -> str:
    """What the model has read."""
    assert stage.talk.loaded is not None
    tokenizer = stage.talk.loaded.model.tokenizer
    return tokenizer.decode(_engine(stage).lane.cache.ids)


async def _ahead(stage: ChatScreen) -> None:
    await stage.settle()
    await stage.until(lambda: stage.talk.conversation.ahead.done)


async def _send(stage: ChatScreen, text: str) -> None:
    turns = stage.talk.tally.chat.turns
    await stage.type(f"{text}\r")
    await stage.until(lambda: stage.talk.tally.chat.turns > turns and stage.talk.control is None)
    await stage.settle()


def _kept(which: str = "prompt-*") -> list[dict[str, Any]]:
    """The headers of the prompts on disk, shortest first."""
    found = [one.read_bytes().split(b"\n")[1] for one in (paths.cache_dir() / "kv").glob(f"{which}/marks")]
    return sorted(map(json.loads, found), key=lambda header: len(header["ids"]))


def test_only_the_users_own_words_are_left_to_read() -> None:
    async def case() -> None:
        async with _chat() as stage:
            await _ahead(stage)
            assert _held(stage).endswith("<|end|><|start|>user<|message|>")
            static = len(_engine(stage).lane.cache)
            await _send(stage, "Who are you?")
            assert stage.talk.tally.turn.reused == static
            await _ahead(stage)
            held = _held(stage)
            assert held.count("<|start|>user<|message|>") == 2 and "<|channel|>final<|message|>" in held
            assert "<|channel|>analysis<|message|>" not in held  # the thoughts are gone, as the next turn has it
            settled = len(_engine(stage).lane.cache)
            await _send(stage, "Hello")
            assert stage.talk.tally.turn.reused == settled

    chatting(case)


def test_what_is_kept_is_the_static_part_and_read_by_the_next_chat() -> None:
    async def first() -> None:
        async with _chat() as stage:
            await _ahead(stage)
            await _send(stage, "Who are you?")

    async def second() -> None:
        async with _chat(prefill_ahead="off") as stage:
            await _send(stage, "Hello")
            static = stage.talk.use.static_tokens if stage.talk.use else 0
            assert stage.talk.tally.turn.reused == static == len(_kept()[-1]["ids"])

    chatting(first)
    kept = _kept()
    assert [header["personal"] for header in kept] == [False]
    chatting(second)
    assert _kept() == kept


def test_a_private_chat_leaves_nothing() -> None:
    async def case() -> None:
        async with _chat(private=True, instructions="Speak of llamas.") as stage:
            await _ahead(stage)
            await _send(stage, "Hello")

    chatting(case)
    assert not (paths.cache_dir() / "kv").exists()


def test_a_chat_that_becomes_private_writes_nothing_more() -> None:
    async def case() -> None:
        async with _chat() as stage:
            await _ahead(stage)
            await stage.type("/private\r")
            await stage.type("/system Speak of llamas.\r")
            await stage.settle()
            await _ahead(stage)
            assert "Speak of llamas." in _held(stage)

    chatting(case)
    assert [header["personal"] for header in _kept()] == [False]


@pytest.mark.parametrize("asked", [True, False])
def test_what_was_read_in_private_is_not_kept_once_that_is_over(asked: bool) -> None:
    """Neither what the prompt began with, nor for the session, which is stored again."""
    tokenizers: list[Tokenizer] = []

    async def case() -> None:
        async with _chat() as stage:
            await _ahead(stage)
            await _send(stage, "Hello")
            for line in ("/private", "/system Speak of llamas."):
                await stage.type(f"{line}\r")
                await stage.settle()
            await _ahead(stage)
            assert "Speak of llamas." in _held(stage)
            stage.talk.change_settings(prefill_ahead="off")
            if asked:
                await _send(stage, "Who are you?")
            for line in (*(("/new", "/system off") if asked else ()), "/private off"):
                await stage.type(f"{line}\r")
                await stage.settle()
            assert stage.talk.store is not None and stage.talk.loaded is not None
            tokenizers.append(stage.talk.loaded.model.tokenizer)

    chatting(case)
    texts = [tokenizers[0].decode(header["ids"]) for header in _kept("*")]
    assert texts and not any("llamas" in text for text in texts)


@pytest.mark.parametrize("command", ["/effort high", "/system Speak of llamas.", "/tools off python", "/new"])
def test_what_changes_the_prompt_is_read_at_once(command: str) -> None:
    async def case() -> None:
        async with _chat() as stage:
            await _send(stage, "Hello")
            await stage.type(f"{command}\r")
            await stage.settle()
            await _ahead(stage)
            await _send(stage, "Who are you?")
            assert stage.talk.loaded is not None
            own = len(stage.talk.loaded.model.tokenizer.encode("Who are you?"))
            assert stage.talk.tally.turn.prompt - stage.talk.tally.turn.reused == own + 3  # <|end|><|start|>assistant

    chatting(case)


def _answers(*lines: str, ahead: str, **flags: Any) -> tuple[list[str], list[int]]:
    """What is said and how much is reused in each turn, when each line is sent once all is there that can be."""
    said: list[str] = []
    reused: list[int] = []

    async def case() -> None:
        async with _chat(prefill_ahead=ahead, **flags) as stage:
            for line in lines:
                if ahead == "on":
                    await _ahead(stage)
                if line.startswith("/edit"):
                    await stage.type(f"{line}\r")
                    await stage.until(lambda: stage.face.editor.text)
                    line = ""  # Enter puts the same text in its place
                await _send(stage, line)
                said.append(stage.talk.session.messages[-1].text)
                reused.append(stage.talk.tally.turn.reused)

    chatting(case)
    return said, reused


@pytest.mark.parametrize("back", ["/retry", "/edit 1"])
def test_the_way_back_is_as_short_as_without(back: str) -> None:
    lines = ("What is 12*12?", "Who are you?", "What is 48*17?", back)
    with_it, without = _answers(*lines, ahead="on"), _answers(*lines, ahead="off")
    assert with_it[0] == without[0]
    assert all(more >= less for more, less in zip(with_it[1], without[1], strict=True))
    assert with_it[1][0] > without[1][0]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_a_send_in_the_middle_gets_the_same_answer(share: float) -> None:
    (expected,), _ = _answers("What is 48*17?", ahead="off")

    async def case() -> None:
        async with _chat() as stage:
            total = stage.talk.use.used_tokens if stage.talk.use else 0
            await stage.until(lambda: len(_engine(stage).lane.cache) >= share * total)
            await _send(stage, "What is 48*17?")
            assert stage.talk.session.messages[-1].text == expected

    chatting(case)


def test_a_resumed_conversation_is_read_ahead_where_its_cache_is_gone() -> None:
    async def first() -> None:
        async with _chat(prefill_ahead="off") as stage:
            await _send(stage, "Who are you?")

    async def second() -> None:
        async with _chat(resume=Resume(latest=True)) as stage:
            await _ahead(stage)
            held = len(_engine(stage).lane.cache)
            assert "Who are you?" in _held(stage)
            await _send(stage, "Hello")
            assert stage.talk.tally.turn.reused == held

    chatting(first)
    for file in (paths.cache_dir() / "kv").glob("*/state"):
        file.unlink()
    chatting(second)


def test_across_midnight_the_new_days_prompt_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ossia.cli.chat.ahead._DATE_EVERY_S", 0.05)
    days = [TODAY]

    async def case() -> None:
        async with ChatScreen(today=lambda: days[0], prefill_ahead="on", temperature=0.0) as stage:
            await _ahead(stage)
            days[0] = TODAY + datetime.timedelta(1)
            await stage.until(lambda: f"Current date: {TOMORROW}" in _held(stage))  # noticed by itself
            await _ahead(stage)
            held = len(_engine(stage).lane.cache)
            await _send(stage, "Hello")
            assert stage.talk.tally.turn.reused == held
            await _ahead(stage)
            days[0] += datetime.timedelta(1)
            stage.talk.ahead.new_day()  # a conversation keeps the date on which it began
            await _ahead(stage)
            assert f"Current date: {TOMORROW}" in _held(stage)

    chatting(case)


def test_a_chat_that_slept_through_midnight_says_the_right_date() -> None:
    days = [TODAY]

    async def case() -> None:
        async with ChatScreen(today=lambda: days[0], prefill_ahead="on", temperature=0.0) as stage:
            days[0] = TODAY + datetime.timedelta(1)
            await _send(stage, "Hello")
            assert stage.talk.session.options.date == str(TOMORROW)

    chatting(case)


def test_leaving_and_another_model_do_not_wait_for_it() -> None:
    """Each begins while it reads: at the end of the block everything must have been given back."""

    async def case() -> None:
        async with _chat() as stage:
            await stage.until(lambda: len(_engine(stage).lane.cache) > 0)
            engine = _engine(stage)
            await stage.type("/model etude\r")
            await stage.until(lambda: stage.talk.loaded is not None and _engine(stage) is not engine)
            assert not engine.native.is_open
            await stage.until(lambda: len(_engine(stage).lane.cache) > 0)
            last = _engine(stage)
        assert not last.native.is_open

    chatting(case)


def test_the_bottom_line_tells_of_it_and_the_title_does_not() -> None:
    async def case() -> None:
        async with _chat(prefill_ahead="off", no_tools=True) as stage:
            stage.talk.conversation.ahead.progress = (212, 633)
            stage.face.screen.wake()
            await stage.until(lambda: "reading ahead 212 of 633" in "\n".join(stage.terminal.display))
            assert stage.terminal.title == "ossia: idle"
            assert not stage.face.view.busy

    chatting(case)


def test_what_is_typed_meanwhile_stays(tmp_path: Path) -> None:
    async def case() -> None:
        async with _chat() as stage:
            await stage.type("What is")
            await _ahead(stage)
            assert stage.face.editor.text == "What is"
            await stage.type("\x03")
            await asyncio.sleep(0)
            assert stage.face.editor.text == "" and stage.talk.conversation.ahead.done

    chatting(case)
