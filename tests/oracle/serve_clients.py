"""Programs of others against a real `ossia serve`: what they need is installed by hand, and named here.

    python -m tests.oracle.serve_clients compliance --bun BUN --suite FOLDER
    python -m tests.oracle.serve_clients agents --python PYTHON
    python -m tests.oracle.serve_clients llm --program LLM
    python -m tests.oracle.serve_clients codex --program CODEX

`compliance`: the test of Open Responses; FOLDER is a checkout of openresponses/openresponses with `zod` (npm), BUN the
program of npm's bun. `agents`: PYTHON has openai-agents: a loop of tools, a handoff and a stream, by both APIs. `llm`:
a question, its continuation, a function and a schema. `codex`: npm's @openai/codex reads a file and patches it, as a
script says; then étude is asked by two Codex at once, each in two turns. Prints what each said; exit 1 if something
isn't as it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.command import ossia, write_script
from tests.support.serve import Address, serving

TIMEOUT_S = 300
NOT_SERVED = {
    "image-input": "the model reads text only",
    "compact-response": "there is no compaction for clients: ossia makes room itself",
    "compact-missing-model": "the same",
    "websocket-": "there are no WebSockets",
}
"""Cases of the compliance test that can't pass, by how their names begin."""

_AGENTS = """
import asyncio, sys
from agents import Agent, Runner, function_tool, set_default_openai_api, set_default_openai_client, set_tracing_disabled
from openai import AsyncOpenAI

url, key, api = sys.argv[1:]
set_default_openai_client(AsyncOpenAI(base_url=url, api_key=key, max_retries=0), use_for_tracing=False)
set_default_openai_api(api)
set_tracing_disabled(True)

@function_tool
def set_lamp(room: str, level: int) -> str:
    "Sets a lamp to a level from 0 to 100."
    return f"the lamp of the {room} is at {level}"

async def main() -> None:
    lamp = Agent(name="Lamp", model="etude", tools=[set_lamp])
    asked = "Call set_lamp with room kitchen and level 40"
    done = await Runner.run(lamp, asked)
    print("tools:", [type(item).__name__ for item in done.new_items], done.final_output)
    assert "the lamp of the kitchen is at 40" in done.final_output
    doorman = Agent(name="Doorman", model="etude", handoffs=[lamp])
    done = await Runner.run(doorman, "Call transfer_to_lamp")
    print("handoff:", done.last_agent.name, [type(item).__name__ for item in done.new_items], done.final_output)
    assert done.last_agent.name == "Lamp"
    streamed, kinds = Runner.run_streamed(lamp, asked), {}
    async for event in streamed.stream_events():
        kinds[event.type] = kinds.get(event.type, 0) + 1
    print("stream:", kinds, streamed.final_output)
    assert "the lamp of the kitchen is at 40" in streamed.final_output

asyncio.run(main())
"""

_LAMP = """
def set_lamp(room: str, level: int) -> str:
    "Sets a lamp to a level from 0 to 100."
    return f"the lamp of the {room} is at {level}"
"""

_YEAR = json.dumps(
    {
        "type": "object",
        "properties": {"year": {"type": "integer", "minimum": 1000, "maximum": 2100}},
        "required": ["year"],
        "additionalProperties": False,
    }
)
_BRIEF = 'web_search = "disabled"\n{}\n[agents]\nenabled = false\n[features]\ngoals = false\n'
"""Around the settings of Codex: fewer tools, so that étude's context has room."""
_CALL = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{}<|call|>"
_PATCH = "*** Begin Patch\n*** Update File: hello.txt\n@@\n-two\n+zwei\n*** End Patch\n"
_STEPS = (
    _CALL.format("exec_command", json.dumps({"cmd": "cat hello.txt"})),
    _CALL.format("apply_patch", json.dumps({"input": _PATCH})),
    "<|channel|>final<|message|>The second line is zwei.<|return|>",
)


def run(*command: str | Path, env: Mapping[str, str] = {}, cwd: Path | None = None) -> str:
    """The stdout of a program that ended with 0; it is printed, and so is stderr where it didn't."""
    done = subprocess.run(
        command, env={**os.environ, **env}, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
        encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    print(done.stdout, end="", flush=True)
    if done.returncode:
        print(done.stderr)
        raise AssertionError(f"{Path(command[0]).name} ended with {done.returncode}")
    return done.stdout


def compliance(given: argparse.Namespace, folder: Path) -> None:
    """The compliance test of Open Responses."""
    with serving("--model", "etude", "--parallel", "2", home=folder) as address:
        flags = ("-u", address.url, "-k", address.token, "-m", "etude", "--json")
        done = subprocess.run(
            [given.bun, "run", "bin/compliance-test.ts", *flags],
            cwd=given.suite, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    results = json.loads(done.stdout)
    wrong = []
    for one in sorted(results["results"], key=lambda one: (one["status"], one["id"])):
        why = next((text for name, text in NOT_SERVED.items() if one["id"].startswith(name)), "")
        errors = "" if one["status"] == "passed" else f": {why or str(one.get('errors'))[:300]}"
        print(f"{one['status']:8}{one['id']}{errors}")
        wrong += [one["id"]] if one["status"] != "passed" and not why else []
    print(results["summary"])
    assert not wrong, wrong


def agents(given: argparse.Namespace, folder: Path) -> None:
    """openai-agents, by both APIs."""
    with serving("--model", "etude", home=folder) as address:
        for api in ("responses", "chat_completions"):
            print(api)
            run(given.python, "-c", _AGENTS, address.url, address.token, api)


def llm(given: argparse.Namespace, folder: Path) -> None:
    """The command line program `llm`."""
    with serving("--model", "etude", home=folder / "server") as address:
        one: dict[str, Any] = {
            "model_id": "ossia",
            "model_name": "etude",
            "api_base": address.url,
            "api_key_name": "ossia",
        }
        one |= {"supports_tools": True, "supports_schema": True}
        (folder / "extra-openai-models.yaml").write_text(json.dumps([one]))
        (folder / "keys.json").write_text(json.dumps({"ossia": address.token}))
        env = {"LLM_USER_PATH": str(folder)}

        def ask(*words: str) -> str:
            return run(given.program, "-m", "ossia", *words, env=env)

        assert ask("What is 48*17?").strip()
        assert ask("-c", "And what is 2+2?").strip()
        said = ask("--functions", _LAMP, "--td", "Call set_lamp with room kitchen and level 40")
        assert "the lamp of the kitchen is at 40" in said
        assert json.loads(ask("--schema", _YEAR, "Ada Lovelace was born in 1815")) == {"year": 1815}


def codex(given: argparse.Namespace, folder: Path) -> None:
    """The Codex CLI: a task on a scripted model, and two conversations with étude at once."""
    with serving("--engine", write_script(folder, *_STEPS), home=folder / "script") as address:
        work = folder / "a" / "work"
        work.mkdir(parents=True)
        (work / "hello.txt").write_text("one\ntwo\n")
        _codex(given.program, address, folder / "a", "script", "Change two to zwei in hello.txt")
        assert (work / "hello.txt").read_text() == "one\nzwei\n", "Codex didn't patch the file"
    flags = ("--model", "etude", "--parallel", "2")
    with serving(*flags, home=folder / "etude") as address, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: _converse(given.program, address, folder / name), ("b", "c")))


def _converse(program: str, address: Address, folder: Path) -> None:
    """Two turns: the second reads only what is new."""
    (folder / "work").mkdir(parents=True)
    first = _usage(_codex(program, address, folder, "etude", "Hello"))
    both = _usage(_codex(program, address, folder, "etude", "resume", "--last", "What is the capital of France?"))
    size, known = (both[name] - first[name] for name in ("input_tokens", "cached_input_tokens"))
    print(f"{folder.name}: {size - known} of {size} ids were evaluated in the second turn")
    assert size - known < size / 10


def _usage(said: str) -> dict[str, int]:
    """The tokens of a thread so far."""
    (usage,) = [json.loads(line)["usage"] for line in said.splitlines() if '"turn.completed"' in line]
    assert isinstance(usage, dict)
    return usage


def _codex(program: str, address: Address, folder: Path, model: str, *words: str) -> str:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    given = ("--model", "etude", "--port", str(address.port), "--token", address.token)
    printed = ossia("serve", "--print", "codex", *given)
    assert printed.returncode == 0, printed.stderr
    (home / "config.toml").write_text(_BRIEF.format(printed.stdout.decode().replace('"etude"', f'"{model}"')))
    flags = ("--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox")
    own = {"CODEX_HOME": str(home), "TMPDIR": str(folder / "work")}  # it puts no helpers into a temporary folder
    return run(program, "exec", *words[:-1], *flags, words[-1], env=own, cwd=folder / "work")


def main(arguments: list[str] | None = None) -> int:
    """Run one client."""
    clients: dict[str, Callable[[argparse.Namespace, Path], None]] = {
        "compliance": compliance,
        "agents": agents,
        "llm": llm,
        "codex": codex,
    }
    parser = argparse.ArgumentParser(description="Programs of others against ossia serve.")
    parser.add_argument("client", choices=clients)
    parser.add_argument("--bun", default="bun")
    parser.add_argument("--suite", default=".", help="a checkout of openresponses/openresponses")
    parser.add_argument("--python", default=sys.executable, help="one that has openai-agents")
    parser.add_argument("--program", help="the client's program")
    given = parser.parse_args(arguments)
    given.program = given.program or given.client
    with tempfile.TemporaryDirectory() as folder:
        try:
            clients[given.client](given, Path(folder))
        except AssertionError as error:
            print(f"FAULT {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
