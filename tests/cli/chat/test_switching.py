"""From one model to another: what is changed until the new one answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.engine.llama import LlamaEngine
from tests.support.screen import ChatScreen, chatting
from tests.support.site import Site

SLOW = """from pathlib import Path
Path({pipe!r}).read_text()
def double(n: int) -> int:
    "Doubles."
    return 2 * n
"""
PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="what doesn't come is a pipe that nobody writes into")


@pytest.fixture
def mute() -> Iterator[Site]:
    with Site() as site:
        site.silent("/props")
        yield site


async def _connect(stage: ChatScreen, site: Site) -> None:
    """As far as it goes: the site says nothing."""
    await stage.type(f"/model {site.url()}\r")
    await stage.until(lambda: site.requests)


async def _give_up(stage: ChatScreen) -> None:
    await stage.type("\x03")
    await stage.until(lambda: "etude goes on" in "\n".join(stage.rows))


async def _says(stage: ChatScreen, line: str, told: str) -> None:
    await stage.type(f"{line}\r")
    await stage.until(lambda: told in "\n".join(stage.rows))


# -- what is changed ---------------------------------------------------------------------------------------------------


def test_no_rule_is_changed_until_the_tools_are_there(mute: Site) -> None:
    async def case() -> None:
        async with ChatScreen(allow=("python",)) as stage:
            assert stage.talk.assembly is not None
            policy = stage.talk.assembly.tools.policy
            before = policy.rules
            await _connect(stage, mute)
            await _says(stage, "/allow remove python", "/allow: the model is still loading: try again in a moment")
            await stage.type("/allow container.exec\r")
            await stage.until(lambda: "\n".join(stage.rows).count("still loading") == 2)
            assert policy.rules == before and stage.talk.settings.allow == ("python",)
            await _give_up(stage)
            await _says(stage, "/allow remove python", "will ask again: python")
            assert not policy.rules

    chatting(case)


def test_what_is_set_while_a_server_is_connected_to_holds_when_it_is_given_up(mute: Site) -> None:
    async def case() -> None:
        async with ChatScreen(plan=True) as stage:
            talk = stage.talk
            assert talk.assembly is not None and isinstance(engine := talk.assembly.engine, LlamaEngine)
            await _connect(stage, mute)
            await _says(stage, "/private", "private: nothing is stored from now on")
            await _says(stage, "/set max_tokens 900", "max_tokens 900")
            await _says(stage, "/plan off", "changes are possible")
            await _give_up(stage)
            settings = talk.settings
            assert (settings.private, settings.max_tokens, settings.plan) == (True, 900, False)
            assert (settings.engine, settings.model) == ("llama", "etude")
            assert engine.prompts is not None and not engine.prompts.writes
            assert talk.assembly is not None and not talk.assembly.tools.policy.read_only

    chatting(case)


def test_a_chat_that_became_private_keeps_nothing_when_it_is_left_meanwhile(mute: Site) -> None:
    async def case() -> None:
        async with ChatScreen() as stage:
            assert stage.talk.assembly is not None and isinstance(engine := stage.talk.assembly.engine, LlamaEngine)
            await _connect(stage, mute)
            await _says(stage, "/private", "private: nothing is stored from now on")
        assert engine.prompts is not None and not engine.prompts.writes

    chatting(case)


@PIPES
def test_a_chat_that_becomes_private_while_tools_are_collected_stays_so(tmp_path: Path) -> None:
    pipe, functions = tmp_path / "pipe", tmp_path / "own.py"
    os.mkfifo(pipe)
    functions.write_text(SLOW.format(pipe=str(pipe)))

    async def case() -> None:
        async with ChatScreen() as stage:
            await stage.type(f"/tools {functions}\r")
            await stage.until(lambda: stage.talk.assembly is None)
            await _says(stage, "/private", "private: nothing is stored from now on")
            await asyncio.to_thread(pipe.write_text, "")
            await stage.until(lambda: "1 tool on: functions.double" in stage.rows)
            assert stage.talk.settings.private and stage.talk.settings.tools == (str(functions),)

    chatting(case)
