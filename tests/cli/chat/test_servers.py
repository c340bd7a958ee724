"""A chat with a model on a server: `/model` offers those of the config, and the status line names the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli import paths
from cli.chat.commands.table import arguments
from cli.terminal.question import QUIET_S
from harmony.tokenizer import Tokenizer
from tests.support.command import write_script
from tests.support.remote import serve
from tests.support.screen import ChatScreen, Clock, chatting
from tests.support.served import Server, chat, tool_call
from tests.support.site import Site
from tools.approval.trust import Hosts

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
                return talk.assembly is not None and talk.assembly.engine.name == f"etude @ 127.0.0.1:{site.port}"

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
            await say("/model", "team: a server")
            await say(f"/model {other.url()}", "can't be used")
            await stage.until(on_team)

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
            await stage.until(lambda: "nowhere.invalid can't be used" in "\n".join(stage.rows))
            await stage.until(lambda: stage.talk.assembly is not None)
            assert Hosts(paths.data_dir()).holds("https://nowhere.invalid")

    chatting(case)


def test_a_server_without_ids_says_so_once_and_a_call_is_made(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(
            engine=server.url(), model="openai/gpt-oss-20b", tools=(str(functions),), yes=True
        ) as stage:

            async def say(line: str, told: str) -> None:
                await stage.type(f"{line}\r")
                await stage.until(lambda: told in "\n".join(stage.rows))

            await stage.until(lambda: "no replayed ids" in "\n".join(stage.rows))
            await say("hello there", "It is 816.")
            assert stage.rows[-1].strip().startswith(f"gpt-oss-20b @ 127.0.0.1:{server.port}")
            await say("And now?", "Still 816.")
            assert "\n".join(stage.rows).count("no replayed ids") == 1

    functions = tmp_path / "own.py"
    functions.write_text('def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n')
    first = chat({"reasoning": "Double it."}, tool_call("double", '{"n": 408}', id="x"), finish="tool_calls")
    with Server("chat", [first, chat({"content": "It is 816."}), chat({"content": "Still 816."})]) as server:
        server.list_models("openai/gpt-oss-20b")
        chatting(case)
    assert ["Double it." in str(asked) for asked in server.asked] == [False, True, False]
