"""The next steps for the user after a failed call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ossia.cli.runtime.failures import Fixes
from ossia.cli.settings.table import Settings
from ossia.tools.spec import Fault, FaultKind, ToolCall, ToolFinished, ToolResult, ToolSpec


def failed(name: str, kind: FaultKind | None = None, subject: str = "") -> ToolFinished:
    fault = Fault(kind, subject) if kind else None
    return ToolFinished(ToolCall("call_1", name, "{}"), ToolResult("Error: no", error=True, fault=fault), 0)


def missing(name: str) -> ToolFinished:
    return failed(name, "missing")


SERVED = {"functions.db__ask": ToolSpec("functions.db__ask", "", provenance="mcp", origin="db")}
HERE = Fixes(Settings(), SERVED)


@pytest.mark.parametrize(
    ("fixes", "done", "fix"),
    [
        (HERE, missing("repo_browser.apply_patch"), "--workspace DIR gives it a folder to work in"),
        (replace(HERE, chat=True), missing("shell"), "/tools workspace DIR gives it a folder to work in"),
        (HERE, missing("functions.read_file"), "--workspace DIR gives it a folder to work in"),
        (HERE, missing("container.exec"), "--workspace DIR gives it a folder to work in"),
        (replace(HERE, folder=True, off={"container.exec": "no bubblewrap"}), missing("container.exec"),
         "container.exec is off: no bubblewrap"),
        (replace(HERE, folder=True, off={"container.exec": "no bubblewrap"}), missing("functions.shell"),
         "container.exec is off: no bubblewrap"),
        (replace(HERE, off={"python": "bubblewrap isn't installed; --unconfined runs it"}), missing("python"),
         "python is off: bubblewrap isn't installed; --unconfined runs it"),
        (replace(HERE, settings=Settings(no_tools=True)), missing("browser.open"),
         "all tools are off: --no-tools is set, here or in the config"),
        (replace(HERE, settings=Settings(tools=("browser",))), missing("python"),
         "--tools python turns it on: name it beside the other --tools"),
        (replace(HERE, turned_off=lambda name: name == "browser.open"), missing("browser.open"),
         "/tools on browser turns it on"),
        (replace(HERE, off={"mcp my files": "it ended"}), missing("functions.my_files__read"),
         "ossia mcp test my files says why that server is off"),
        (HERE, missing("functions.nobody_knows"), ""),
        (HERE, failed("functions.db__ask", "server"), "ossia mcp test db tries that server alone, and says more"),
        (HERE, failed("functions.db__ask"), ""),
        (HERE, failed("browser.search", "search"),
         "--web URL searches the web: a SearXNG's address, or brave, exa, … with a key"),
        (replace(HERE, settings=Settings(web="brave")), failed("browser.search", "search"), ""),
        (replace(HERE, settings=Settings(web="brave")), failed("browser.search", "key"),
         "--web-key NAME names the variable that holds the key"),
        (HERE, failed("python", "module", "cv2"),
         "ossia python setup opencv-python installs it for the model's Python, if that is the package you want"),
        (replace(HERE, settings=Settings(python="/opt/py")), failed("python", "module", "numpy"),
         "numpy must be installed in /opt/py, which --python names"),
        (HERE, failed("repo_browser.apply_patch", "refused"), ""),
        (HERE, failed("container.exec", "workspace"), "--workspace DIR takes another folder"),
        (HERE, ToolFinished(ToolCall("call_1", "browser.search", "{}"), ToolResult("found"), 5), ""),
    ],
)  # fmt: skip
def test_what_the_user_can_do(fixes: Fixes, done: ToolFinished, fix: str) -> None:
    """The model is never told: it would tell people flags."""
    assert fixes.of(done) == fix
