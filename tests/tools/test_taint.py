"""Every end of every tool's calls counts as the text that the tool reads: here, in a workspace that isn't trusted."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from ossia.agent.control import Control
from ossia.tools import sandbox
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Document, Hit
from ossia.tools.functions.user import load_functions
from ossia.tools.python.tool import PythonTool
from ossia.tools.spec import NoStop, Taint, ToolCall, ToolContext, ToolFinished, ToolStarted
from ossia.tools.toolbox import Toolbox
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.support.calls import call
from tests.support.mcp_servers import hostile, servers
from tests.support.pages import Pages, Results, documents

PRIVATE: frozenset[Taint] = frozenset({"private"})
OUTSIDE: frozenset[Taint] = frozenset({"outside"})
BOTH = PRIVATE | OUTSIDE
FUNCTIONS = """
import sys, time

def good() -> str:
    "Fine."
    return "fine"

def bad() -> str:
    "It raises."
    raise ValueError("your mail")

def leaves() -> str:
    "It exits."
    sys.exit("your mail")

def slow() -> str:
    "It sleeps."
    time.sleep(30)
    return ""
"""
MISFIT = "*** Begin Patch\n*** Update File: a.txt\n@@\n-nothing like it\n+new\n*** End Patch"
FILES, PYTHON = "repo_browser.", "python"


def _runs(command: str, **more: object) -> dict[str, Any]:
    return {"command": ["bash", "-c", command], **more}


def test_every_end_of_every_call(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("words\n")
    code = tmp_path / "mine.py"
    code.write_text(FUNCTIONS)
    note = Document("Mine", "doc:1", "words")
    docs = Results("docs", {"mine": (Hit("Mine", "doc:1", ""),)}, taints=PRIVATE, sends=False)
    loader = Pages(documents(note), {})
    browser = Browser([docs], {"doc": loader, "http": loader}, count_view_tokens=len)
    unconfined = sandbox.choose(unconfined=True)
    table = {"half": hostile("half-json"), "silent": hostile("silent-call", timeout_s=0.3)}
    python = PythonTool(data_dir=tmp_path / "session", confinement=unconfined)
    text = {"text": "x"}
    rows: list[tuple[str, object, frozenset[Taint]]] = [
        ("container.exec", _runs("cat a.txt"), BOTH),
        ("container.exec", _runs("cat a.txt >&2; exit 3"), BOTH),
        ("container.exec", {"command": ["no-such-program"]}, BOTH),
        ("container.exec", _runs("cat a.txt; sleep 30", timeout=0.3), BOTH),
        ("container.exec", _runs("cat a.txt", workdir="nowhere"), BOTH),
        (FILES + "open_file", {"path": "a.txt"}, BOTH),
        (FILES + "open_file", {"path": "b.txt"}, BOTH),
        (FILES + "print_tree", {"path": ""}, BOTH),
        (FILES + "search", {"query": "("}, BOTH),
        (FILES + "apply_patch", {"patch": MISFIT}, BOTH),
        (PYTHON, "print(open('/etc/hostname').read())", PRIVATE),
        (PYTHON, "1/0", PRIVATE),
        ("browser.search", {"query": "mine", "source": "docs"}, PRIVATE),
        ("browser.open", {"id": 0}, PRIVATE),
        ("browser.find", {"pattern": "words"}, PRIVATE),
        ("browser.find", {"pattern": "nothing", "cursor": 1}, PRIVATE),
        ("browser.open", {"id": "http://a.test/"}, OUTSIDE),
        ("functions.good", {}, PRIVATE),
        ("functions.bad", {}, PRIVATE),
        ("functions.leaves", {}, PRIVATE),
        ("functions.slow", {}, PRIVATE),
        ("functions.half__echo", text, BOTH),
        ("functions.half__echo", text, BOTH),
        ("functions.silent__echo", text, BOTH),
    ]
    with closing(python), servers(tmp_path, table) as made:
        assert [status.error for status in made.connect()] == [None] * 2
        tools = [
            Exec(confinement=unconfined), *workspace_tools(), python, *browser.tools,
            *load_functions(code, timeout_s=0.3).tools, *made.tools,
        ]  # fmt: skip
        context = ToolContext(NoStop(), Workspace(work, trusted=False), tmp_path / "data", len)
        box = Toolbox(tools, policy=Policy([Rule("*", "allow")]), context=context)
        for name, arguments, taints in rows:
            result = call(box, name, arguments, folder=tmp_path).result
            assert result.taints >= taints, (name, arguments, result)
        for name, arguments, taints in (
            ("container.exec", _runs("cat a.txt; sleep 30"), BOTH), ("functions.slow", {}, PRIVATE),
            ("functions.silent__echo", text, BOTH),
        ):  # fmt: skip
            control = Control()
            written = arguments if isinstance(arguments, str) else json.dumps(arguments)
            for event in box.run(ToolCall("c", name, written), stop=control):
                if isinstance(event, ToolStarted):
                    control.stop()
                elif isinstance(event, ToolFinished):
                    assert event.result.error and event.result.taints >= taints, event
