"""The program around an agent: its imports, Ctrl-C, forks, a workspace that holds it, the user's configuration."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ossia
from ossia import (
    Agent,
    ArgumentError,
)
from ossia.cli.paths import data_dir
from ossia.tools.approval.grants import Grants
from tests.support.agents import DONE, LONG, PATCH, Scripted, called, never
from tests.support.command import ROOT, write_script


def _run(code: str, *arguments: str, folder: Path) -> subprocess.Popen[str]:
    """A program of the user's, `program.py` in that folder."""
    program = folder / "program.py"
    program.write_text(code)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(program), *arguments],
        cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_names_have_their_types() -> None:
    """In the stub: at run time they are loaded when they are used."""
    stub = ast.parse((ROOT / "ossia" / "__init__.pyi").read_text(encoding="utf-8"))
    typed = next(ast.literal_eval(one.value) for one in stub.body if isinstance(one, ast.Assign))
    assert sorted(ossia.__all__) == typed
    assert [name for name in typed if not hasattr(ossia, name)] == []
    with pytest.raises(AttributeError, match="module 'ossia' has no attribute 'Agnet'"):
        _ = ossia.Agnet  # type: ignore[attr-defined]


HEAVY = """
import sys
import ossia
first = set(sys.modules)
from ossia import Agent, Model, Text, ToolCall
agent = Agent("no-such-model", tools=["python", len], workspace=".", approve=print)
agent.close()
later = set(sys.modules)
print(sorted(name for name in first if name.startswith("ossia")))
print(sorted(later & {"llama_cpp", "pydantic", "numpy", "asyncio", "typer", "rich", "mcp", "httpx2", "jsonschema",
                      "sqlite3", "logging", "ossia.cli", "ossia.agent.conversation"}))
"""


def test_nothing_heavy_is_imported_before_the_first_question(tmp_path: Path) -> None:
    out, said = _run(HEAVY, folder=tmp_path).communicate()
    assert (out, said) == ("['ossia']\n[]\n", "")


BESIDE = """
from ossia import Agent

with Agent("etude") as agent:
    agent.ask("Hello")
    import llama_cpp
with Agent("etude") as agent:
    print(agent.ask("Hello").end)
"""


def test_a_program_that_uses_llama_cpp_itself_gets_nothing_printed(tmp_path: Path) -> None:
    out, said = _run(BESIDE, folder=tmp_path).communicate()
    assert out == "answered\n" and "llama" not in said  # it has warnings of its own at its end


INTERRUPTED = """
import sys
from ossia import Agent, Model, Text

with Model(engine=sys.argv[1]) as model, Agent(model) as agent:
    try:
        for event in agent.stream("Tell me"):
            if isinstance(event, Text):
                print("begun", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    print(agent.ask("And then?").text)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_stops_the_turn_and_the_agent_goes_on(tmp_path: Path) -> None:
    script = write_script(tmp_path, LONG, DONE, tokens_per_s=100)
    with _run(INTERRUPTED, script, folder=tmp_path) as program:
        assert program.stdout and program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGINT)
        out, said = program.communicate()
    assert out.replace("begun\n", "") == "interrupted\nDone.\n"
    assert (program.returncode, said) == (0, "")


FORKED = """
import os, sys, warnings
from ossia import Agent, AgentClosed, Model

warnings.simplefilter("ignore")  # Python's own, on a fork with threads
agent = Agent(Model(engine=sys.argv[1]))
print(agent.ask("1").text, flush=True)
if os.fork() == 0:
    try:
        agent.ask("2")
    except AgentClosed as error:
        print(error, flush=True)
    sys.exit()
os.wait()
print(agent.ask("2").text)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_neither_uses_nor_ends_its_parents_agents(tmp_path: Path) -> None:
    out, said = _run(FORKED, write_script(tmp_path, DONE, DONE), folder=tmp_path).communicate(timeout=120)
    why = "the model belongs to the process that this one was forked from: make another one here"
    assert (out.splitlines(), said) == (["Done.", why, "Done."], "")


IN_ITS_FOLDER = """
import sys
from ossia import Agent, Model

before = list(sys.path)
with Model(engine=sys.argv[1]) as model, Agent(model, workspace=".", approve=lambda call: True) as agent:
    print([call.status for call in agent.ask("go").calls])
assert sorted(before) == sorted(sys.path)
import helper
"""


def test_a_program_in_the_workspace_can_have_it_changed_but_not_itself(workspace: Path, tmp_path: Path) -> None:
    """Python's path begins with the program's folder. From then on it ends with it."""
    own = "*** Begin Patch\n*** Delete File: program.py\n*** End Patch"
    script = write_script(tmp_path, PATCH, called("repo_browser.apply_patch", patch=own), DONE)
    (workspace / "helper.py").write_text("print('helped')")
    (workspace / "tools").mkdir()  # a rival of a part of ossia's
    (workspace / "tools" / "__init__.py").write_text("1 / 0")
    out, said = _run(IN_ITS_FOLDER, script, folder=workspace).communicate()
    assert (out, said) == ("['done', 'refused']\nhelped\n", "")
    assert (workspace / "a.txt").read_text() == "two\n"


def test_no_configuration_is_read_unless_the_program_says_so(
    model: Scripted, home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = home / "config.toml"
    monkeypatch.setenv("OSSIA_CONFIG", str(config))
    config.write_text("this is no TOML")
    with Agent(model(DONE)) as agent:
        assert agent.ask("go").text == "Done."
    with Agent(model(DONE), config=True) as agent, pytest.raises(ArgumentError, match="config"):
        agent.ask("go")
    config.write_text('effort = "high"\n[approvals]\n"repo_browser.apply_patch" = "auto"\n')
    with Agent(model(PATCH, DONE, DONE), workspace=workspace, config=True, approve=never) as agent:
        assert agent.ask("go").calls[0].status == "done"


def test_stored_rules_hold_only_with_the_configuration(model: Scripted, home: Path, workspace: Path) -> None:
    Grants(data_dir()).add(["repo_browser.apply_patch"], workspace=workspace)
    statuses = []
    for config in (False, True):
        with Agent(model(PATCH, DONE), workspace=workspace, config=config) as agent:
            statuses.append(agent.ask("go").calls[0].status)
    assert statuses == ["refused", "done"]


def test_a_trusted_workspace_instructs_the_model(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("Answer in French. " * 20)
    used = []
    for trust in (False, True):
        with Agent("etude", workspace=workspace, trust=trust) as agent:
            used.append(agent.ask("Hello").usage.prompt)
    assert used[1] > used[0] + 60
