"""A chat with a model on a server: `/model` offers those of the config, and the status line names the host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ossia.agent.engine.llama import LlamaEngine
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.cli import paths
from ossia.cli.chat.commands.table import arguments
from ossia.cli.terminal.question import QUIET_S
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.grants import Hosts
from tests.support.command import write_script
from tests.support.dialects import chat, tool_call
from tests.support.remote import serve
from tests.support.screen import ChatScreen, Clock, chatting
from tests.support.served import Server
from tests.support.site import Site

FINAL = "<|channel|>final<|message|>Hi.<|return|>"


def test_a_server_takes_the_conversation_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etude_tokenizer: Tokenizer
) -> None:
    async def case() -> None:
        clock = Clock()
        async with ChatScreen(engine=write_script(tmp_path, FINAL), clock=clock) as stage:
            talk = stage.talk

            async def say(line: str, told: str) -> None:
                await stage.type(f"{line}\r")
                await stage.until(lambda: told in "\n".join(stage.rows))

            def on_team() -> bool:
                return talk.loaded is not None and talk.loaded.model.name == f"etude @ 127.0.0.1:{site.port}"

            assert "team" in [value for value, _ in arguments(talk, "/model", "") or ()]
            await say("hello there", "Hi.")
            await say("/model nosuch://x", "must be like http://HOST:PORT")
            await stage.type("/model far\r")
            await stage.until(lambda: stage.face.question.open and "[y] yes" in "\n".join(stage.terminal.display))
            assert "prompts, files and results will be sent to gpu.test" in "\n".join(stage.terminal.display)
            clock.now += 2 * QUIET_S
            await stage.type("n")
            await stage.until(lambda: "nothing was sent to gpu.test" in "\n".join(stage.rows))
            assert not Hosts(paths.data_dir()).listed()
            await say("/model team", "switching to team")
            await stage.until(on_team)
            await say("And now?", "It is the server.")
            assert stage.rows[-1].strip().startswith(f"etude @ 127.0.0.1:{site.port}")
            await say("/model", f"› team  {site.url()}")
            await say(f"/model {other.url()}", "has neither /v1/responses")
            await stage.until(on_team)
            assert f"etude @ 127.0.0.1:{site.port} goes on" in "\n".join(stage.rows)

    with Site() as site, Site() as other:
        serve(site, etude_tokenizer, ["<|channel|>final<|message|>It is the server.<|return|>"])
        config = tmp_path / "config.toml"
        config.write_text(f'[engines.team]\nurl = "{site.url()}"\n[engines.far]\nurl = "https://gpu.test"\n')
        monkeypatch.setenv("OSSIA_CONFIG", str(config))
        chatting(case)


def test_a_server_that_was_agreed_to_is_kept_and_switched_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a proxy that can't be, so that nothing is sent, and the engine before goes on."""
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://127.0.0.1:9")

    async def case() -> None:
        clock = Clock()
        async with ChatScreen(engine=write_script(tmp_path, FINAL), clock=clock) as stage:
            await stage.type("/model https://nowhere.invalid\r")
            await stage.until(lambda: stage.face.question.open and "[y] yes" in "\n".join(stage.terminal.display))
            clock.now += 2 * QUIET_S
            await stage.type("y")
            await stage.until(lambda: "nowhere.invalid: the proxy" in "\n".join(stage.rows))
            await stage.until(lambda: stage.talk.loaded is not None)
            assert Hosts(paths.data_dir()).holds("https://nowhere.invalid")

    chatting(case)


def test_what_answers_is_kept_until_the_server_has_proved_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etude_tokenizer: Tokenizer
) -> None:
    """Ctrl-C gives a mute server up, and one that isn't there; what was typed meanwhile is in the input again."""

    async def case() -> None:
        async with ChatScreen() as stage:
            before, asking = stage.talk.loaded, "asking the server"

            async def switch(to: str) -> None:
                await stage.type(f"/model {to}\r")
                await stage.until(lambda: stage.talk.loaded is None)

            async def goes_on(times: int) -> None:
                await stage.until(lambda: "\n".join(stage.rows).count("etude goes on") == times)
                assert before and stage.talk.loaded and stage.talk.loaded.model.engine is before.model.engine
                assert asking not in "\n".join(stage.terminal.display)

            await switch("mute")
            await stage.until(lambda: bool(mute.requests) and asking in "\n".join(stage.terminal.display))
            await stage.type("hello there\r")
            await stage.until(lambda: stage.talk.outbox.queue)
            await stage.type("\x03")
            await goes_on(1)
            assert stage.face.input_text == "hello there" and "gave up on mute" in "\n".join(stage.rows)
            await stage.type("\x03")
            await switch("gone")
            await stage.until(lambda: "can't be reached: asking again" in "\n".join(stage.rows))
            await stage.type("\x03")
            await goes_on(2)
            await stage.type("What is 48*17?\r")  # it is still loaded
            await stage.until(lambda: "can't compute that" in "\n".join(stage.rows))
            await stage.settle()
            await switch("mute")
            await stage.type("/model team\r")  # in its place, and not once it answers
            await stage.until(lambda: stage.talk.loaded and "etude @" in stage.talk.loaded.model.name)
            engine = before.model.engine if before else None
            await stage.until(lambda: isinstance(engine, LlamaEngine) and not engine.native.is_open)

    with Site() as mute, Site() as team:
        mute.silent("/props")
        serve(team, etude_tokenizer)
        config = tmp_path / "config.toml"
        places = {"mute": mute.url(), "team": team.url(), "gone": "http://127.0.0.1:9"}
        config.write_text("".join(f'[engines.{name}]\nurl = "{url}"\n' for name, url in places.items()))
        monkeypatch.setenv("OSSIA_CONFIG", str(config))
        chatting(case)


def test_a_chat_whose_server_is_given_up_has_no_model(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    async def case() -> None:
        async with ChatScreen(engine=mute.url(), loaded=False) as stage:

            async def said(line: str, told: str) -> None:
                await stage.type(line)
                await stage.until(lambda: told in "\n".join(stage.rows))

            await stage.type("hello there\r")
            await stage.until(lambda: mute.requests and stage.talk.outbox.queue)
            await said("\x03", "gave up on http://127.0.0.1")
            assert stage.face.input_text == "hello there"
            await stage.until(lambda: stage.rows[-1].strip().startswith("no model"))
            await said("\r", "no model is loaded: /model NAME loads one, which then answers")
            await said("/context\r", "/context: no model is loaded: /model NAME loads one")
            await said(f"/model {mute.url('/nothing')}\r", "has neither /v1/responses")
            await stage.until(lambda: stage.talk.model.absent and stage.face.input_text == "hello there")
            await stage.type("\r")
            await said(f"/model {team.url()}\r", "It is the server.")

    with Site() as mute, Site() as team:
        mute.silent("/props")
        serve(team, etude_tokenizer, ["<|channel|>final<|message|>It is the server.<|return|>"])
        chatting(case)


def test_one_of_a_servers_models_is_chosen() -> None:
    async def case() -> None:
        async with ChatScreen(engine=None, columns=120) as stage:

            async def say(line: str, told: str) -> None:
                await stage.type(f"/model {line}\r")
                await stage.until(lambda: told in "\n".join(stage.rows))

            def completed(prefix: str) -> list[str]:
                return [value for value, _ in arguments(stage.talk, "/model", prefix) or ()]

            url, place = server.url(""), f"127.0.0.1:{server.port}"
            await say(url, f"{place} has gpt-oss:20b, gpt-oss:120b, etude: /model SERVER MODEL uses one")
            await stage.until(lambda: stage.talk.loaded)
            await say(f"{url} gpt-oss:20b", f"using gpt-oss:20b at {place}")
            await stage.until(lambda: stage.talk.loaded and stage.talk.loaded.model.served)
            assert "gpt-oss:120b" in completed("") and completed(f"{url} ")[0] == f"{url} gpt-oss:20b"
            await say("", f"› {url}")
            rows = [row.strip() for row in stage.rows]
            at = rows.index(f"Models of {url}")
            assert rows[at + 1 : at + 5] == ["› gpt-oss:20b", "gpt-oss:120b", "etude", "Models on this machine"]
            assert "/model SERVER MODEL uses one of a server's models" in rows
            for name, model in (("etude", "etude"), ("gpt-oss-20b", "gpt-oss:20b")):
                await say(name, f"switching to {name}")
                await stage.until(lambda: stage.talk.loaded)
                assert stage.talk.loaded and stage.talk.loaded.model.name == f"{model} @ {place}"
            await say(f"{url} nosuch", "serves no nosuch, only gpt-oss:20b, gpt-oss:120b, etude")
            await stage.until(lambda: stage.talk.loaded)
            await say(str(ETUDE_PATH), "switching to etude")
            await stage.until(lambda: stage.talk.loaded and stage.talk.loaded.model.name == "etude")

    with Server("chat", []) as server:
        server.list_models("gpt-oss:20b", "gpt-oss:120b", "etude")
        chatting(case)


def test_a_file_whose_name_looks_like_an_address_is_told_for_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine:2").write_text("no model")

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path)) as stage:
            await stage.type("/model mine:2\r")
            await stage.until(lambda: "GGUF" in "\n".join(stage.rows))
            assert "http://" not in "\n".join(stage.rows)

    chatting(case)


def test_a_server_without_ids_says_so_once_and_a_call_is_made(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(
            engine=server.url(), model="openai/gpt-oss-20b", tools=(str(functions),), yes=True
        ) as stage:

            async def say(line: str, told: str) -> None:
                await stage.type(f"{line}\r")
                await stage.until(lambda: told in "\n".join(stage.rows))

            await stage.until(lambda: "fewer guarantees" in "\n".join(stage.rows))
            await say("hello there", "It is 816.")
            assert stage.rows[-1].strip().startswith(f"gpt-oss-20b @ 127.0.0.1:{server.port}")
            await say("And now?", "Still 816.")
            assert "\n".join(stage.rows).count("fewer guarantees") == 1
            await stage.settle()  # what is shown isn't over yet
            await say("/stats", "the server doesn't report its cache")
            assert re.search(r"reused +\d+ from the cache", "\n".join(stage.rows)), "of the turn that was told"
            await say(f"/model 127.0.0.1:{server.port}", "for a server put http:// before its address")

    functions = tmp_path / "own.py"
    functions.write_text('def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n')
    first = chat({"reasoning": "Double it."}, tool_call("double", '{"n": 408}', id="x"), finish="tool_calls")
    untold = chat({"content": "Still 816."}, cached=None)
    with Server("chat", [first, chat({"content": "It is 816."}), untold]) as server:
        server.list_models("openai/gpt-oss-20b")
        chatting(case)
    assert ["Double it." in str(asked) for asked in server.asked] == [False, True, False]
