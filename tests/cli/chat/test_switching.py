"""From one model to another: what is typed or changed until the new one answers."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.agent.engine.llama import LlamaEngine
from ossia.cli.chat.commands.table import arguments
from ossia.harmony.tokenizer import Tokenizer
from tests.support.command import write_script
from tests.support.remote import serve
from tests.support.screen import ChatScreen, chatting
from tests.support.served import Server
from tests.support.site import Reply, Site

SAID = "<|channel|>final<|message|>It is the server.<|return|>"
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
            assert stage.talk.loaded is not None
            policy = stage.talk.loaded.tools.policy
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
            assert talk.loaded is not None
            engine = talk.loaded.model.engine
            assert isinstance(engine, LlamaEngine)
            await _connect(stage, mute)
            await _says(stage, "/private", "private: nothing is stored from now on")
            await _says(stage, "/set max_tokens 900", "max_tokens 900")
            await _says(stage, "/plan off", "changes are possible")
            await _give_up(stage)
            settings = talk.settings
            assert (settings.private, settings.max_tokens, settings.plan) == (True, 900, False)
            assert (settings.engine, settings.model) == ("llama", "etude")
            await stage.until(lambda: engine.prompts is not None and not engine.prompts.writes)
            assert talk.loaded is not None and not talk.loaded.tools.policy.read_only

    chatting(case)


def test_a_chat_that_became_private_keeps_nothing_when_it_is_left_meanwhile(mute: Site) -> None:
    async def case() -> None:
        async with ChatScreen() as stage:
            assert stage.talk.loaded is not None
            assert isinstance(engine := stage.talk.loaded.model.engine, LlamaEngine)
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
            await stage.until(lambda: stage.talk.loaded is None)
            await _says(stage, "/private", "private: nothing is stored from now on")
            await asyncio.to_thread(pipe.write_text, "")
            await stage.until(lambda: "1 tool on: functions.double" in stage.rows)
            assert stage.talk.settings.private and stage.talk.settings.tools == (str(functions),)

    chatting(case)


# -- what is typed -----------------------------------------------------------------------------------------------------


def test_what_was_typed_for_a_server_that_fails_is_not_sent_to_another(etude_tokenizer: Tokenizer) -> None:
    fail = threading.Event()

    def props(_: object) -> Reply:
        fail.wait(20)
        return Reply(status=404)

    async def case() -> None:
        async with ChatScreen(engine=server.url()) as stage:
            await _says(stage, f"/model {broken.url()}", "switching to")
            await stage.type("only for the other\r")
            await stage.until(lambda: stage.talk.outbox.queue)
            fail.set()
            await stage.until(lambda: "goes on" in "\n".join(stage.rows))
            await stage.settle()
            assert stage.face.input_text == "only for the other"
            await stage.type("\r")  # now it is for this one
            await stage.until(lambda: "It is the server." in stage.rows)

    with Site() as broken, Site() as server:
        broken.route("/props", props)
        serve(server, etude_tokenizer, [SAID])
        chatting(case)


def test_what_is_typed_while_a_name_is_looked_up_waits_for_that_model(etude_tokenizer: Tokenizer) -> None:
    """The keys of one write are taken in together: the lines are there before the name is looked up."""

    async def case() -> None:
        async with ChatScreen(engine=server.url()) as stage:
            await _says(stage, "hello there", "It is the server.")
            await stage.settle()
            await stage.type("/model nothing\r/retry\rmy diary\r")
            await stage.until(lambda: "no model 'nothing'" in "\n".join(stage.rows))
            assert "/retry: the model is still loading: try again in a moment" in stage.rows
            assert stage.face.input_text == "my diary" and not stage.talk.outbox.queue
            await stage.type("\x03/model etude\rmy diary\r\x03")
            await stage.until(lambda: "gave up on etude" in stage.rows)
            assert stage.face.input_text == "my diary" and not stage.talk.model.lookup
            await stage.type("\x03/model etude\rWhat is 48*17?\r")
            await stage.until(lambda: "can't compute that" in "\n".join(stage.rows))
            asked = [json.loads(one.body)["prompt"] for one in server.requests if one.path == "/completion"]
            sent = "".join(map(etude_tokenizer.decode, asked))
            assert "hello there" in sent and "diary" not in sent and "48*17" not in sent

    with Site() as server:
        serve(server, etude_tokenizer, [SAID])
        chatting(case)


def test_the_last_model_that_was_wished_for_is_taken(mute: Site, etude_tokenizer: Tokenizer) -> None:
    async def case() -> None:
        async with ChatScreen() as stage:
            await _connect(stage, mute)
            await stage.type(f"/model {other.url()}\r/model {server.url()}\r")
            await stage.until(lambda: stage.talk.loaded and str(server.port) in stage.talk.loaded.model.name)
            await stage.settle()
            assert not other.requests and stage.talk.settings.engine == server.url()
            asked = len(mute.requests)
            await stage.type(f"/model {mute.url()}\rfor the mute one\r")
            await stage.until(lambda: len(mute.requests) > asked and stage.talk.outbox.queue)
            await stage.type("/model etude\r")
            await stage.until(lambda: stage.talk.loaded and stage.talk.loaded.model.name == "etude")
            assert stage.face.input_text == "for the mute one"

    with Site() as other, Site() as server:
        serve(server, etude_tokenizer, [SAID])
        chatting(case)


def test_a_line_that_waits_during_a_turn_is_not_said_to_the_next_model(tmp_path: Path) -> None:
    async def case() -> None:
        answer = "<|channel|>final<|message|>One." + " and on" * 60 + "<|return|>"
        async with ChatScreen(engine=write_script(tmp_path, answer, tokens_per_s=100)) as stage:
            await stage.type("hello there\r")
            await stage.until(lambda: stage.face.view.busy)
            await stage.type("for this one\r/model etude\r")
            await stage.until(lambda: "etude from the next turn" in stage.rows)
            assert stage.face.input_text == "for this one" and not stage.talk.outbox.queue
            await stage.until(lambda: stage.talk.loaded and stage.talk.loaded.model.name == "etude")

    chatting(case)


def test_a_name_that_the_server_and_this_machine_have() -> None:
    async def case() -> None:
        async with ChatScreen(engine=server.url(""), model="gpt-oss:20b", columns=120) as stage:

            async def switch(name: str, to: str) -> None:
                await stage.type(f"/model {name}\r")
                await stage.until(lambda: stage.talk.loaded and stage.talk.loaded.model.name == to)

            there = f"etude @ 127.0.0.1:{server.port}"
            await _says(stage, "/model", "/model llama MODEL uses one on this machine")
            await switch("etude", there)
            await switch("etude", "etude")  # not the one that answers already
            await switch(f"{server.url('')} etude", there)
            await switch(f"{server.url('')} gpt-oss:20b", f"gpt-oss:20b @ 127.0.0.1:{server.port}")
            await switch("llama etude", "etude")
            await switch(f"{server.url('')} etude", there)
            await switch("llama", "etude")
            assert "llama etude" in [value for value, _ in arguments(stage.talk, "/model", "llama ") or ()]
            await switch(f"{server.url('')} gpt-oss:20b", f"gpt-oss:20b @ 127.0.0.1:{server.port}")
            await _says(stage, "/model llama gpt-oss:120b", "no model 'gpt-oss:120b'")

    with Server("chat", []) as server:
        server.list_models("gpt-oss:20b", "gpt-oss:120b", "etude")
        chatting(case)
