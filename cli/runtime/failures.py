"""A failed call on the screen: the whole reason, and the next step for the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ossia.cli.clean import clean, fitted, one_line
from ossia.cli.runtime.call_line import LEAST_MS, said_line, seconds
from ossia.cli.settings.table import Settings
from ossia.cli.terminal.fold import hanging
from ossia.cli.words import count
from ossia.harmony.builtins import TRAINED_NAMES
from ossia.tools.build import TRAINED
from ossia.tools.calls.names import resolve_name, work_tool
from ossia.tools.functions.naming import plain_name
from ossia.tools.outcome import Outcome
from ossia.tools.spec import ToolCall, ToolFinished, ToolSpec

MAX_ROWS = 6
_MAX_CHARS = 4_000  # of a reason: more than the rows hold
_LEAST_CELLS = 30
_PACKAGES = {"PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python", "sklearn": "scikit-learn",
             "yaml": "pyyaml"}  # fmt: skip
"""Packages of other names than their modules."""


def failure_rows(outcome: Outcome, ms: int, width: int) -> list[str]:
    """The rows about a call that failed for a reason, clean and of at most `width` columns.

    The words for the call take half of a row at the most; of the reason, what doesn't fit into `MAX_ROWS` is counted.

        ✗ Open https://a.test/x · the name a.test isn't known
    """
    said = fitted(said_line(outcome.said), max(width // 2, _LEAST_CELLS))
    took = f" · {seconds(ms)}" if ms >= LEAST_MS else ""
    return _wrapped(f"✗ {said} · {one_line(outcome.reason)}{took}", width)


def fix_rows(fix: str, width: int) -> list[str]:
    """The rows of the user's next step; none for ""."""
    return _wrapped(f"  → {fix}", width) if fix else []


def _wrapped(text: str, width: int) -> list[str]:
    """The text in rows; the rest is counted."""
    text = clean(text)
    rows = hanging(text[:_MAX_CHARS], width)
    if len(rows) > MAX_ROWS or len(text) > _MAX_CHARS:
        rows = rows[: MAX_ROWS - 1]
        said = " ".join(row.strip() for row in rows)
        rows.append(fitted(f"  … {count(len(text) - len(said), 'more character')}", width))
    return rows


@dataclass(frozen=True, slots=True)
class Fixes:
    """The next steps for the user, not the model, after failed calls: the model never reads them.

    `chat`: name the chat's own commands where there are any. `specs` are the tools on offer, by name; `off` says why
    others aren't (`Toolset.off`), `turned_off` whether the user turned one off. `folder`: there is a workspace.
    """

    settings: Settings
    specs: Mapping[str, ToolSpec]
    off: Mapping[str, str] = field(default_factory=dict)
    folder: bool = False
    chat: bool = False
    turned_off: Callable[[str], bool] = lambda name: False

    def of(self, done: ToolFinished) -> str:
        """One line, unclean; "" when nothing is known."""
        fault, call = done.result.fault, done.call
        match fault.kind if fault else "":
            case "missing":
                return self._of_missing(call)
            case "server" if spec := self.specs.get(call.name):
                return f"ossia mcp test {spec.origin} tries that server alone, and says more"
            case "module" if fault:
                return self._of_module(fault.subject)
            case "key":
                return "--web-key NAME names the variable that holds the key"
            case "search" | "source" if not self.settings.web:
                way = self._flag("--web URL", "/tools web URL")
                return f"{way} searches the web: a SearXNG's address, or brave, exa, … with a key"
            case "workspace":
                return f"{self._flag('--workspace DIR', '/tools workspace DIR')} takes another folder"
        return ""

    def _flag(self, flag: str, command: str) -> str:
        return command if self.chat else flag

    def _of_missing(self, call: ToolCall) -> str:
        """For a tool that isn't on, by the model's name for it."""
        name = call.name.removeprefix("functions.")
        meant = resolve_name(call.name, TRAINED_NAMES) or f"functions.{name}"
        family = meant.partition(".")[0]
        whole = family if family in TRAINED else meant
        if any(map(self.turned_off, (call.name, whole))):
            return f"/tools on {whole} turns it on"
        if why := self.off.get(whole):
            return f"{whole} is off: {why}"
        if family in TRAINED and self.settings.no_tools:
            return "all tools are off: --no-tools is set, here or in the config"
        if family in TRAINED:
            return f"--tools {family} turns it on: name it beside the other --tools" if self.settings.tools else ""
        if work_tool(meant) and not self.folder:
            return f"{self._flag('--workspace DIR', '/tools workspace DIR')} gives it a folder to work in"
        return self._of_server(name)

    def _of_server(self, name: str) -> str:
        """For a tool of an unavailable MCP server."""
        servers = (key.removeprefix("mcp ") for key in self.off if key.startswith("mcp "))
        server = next((server for server in servers if name.startswith(f"{plain_name(server)}__")), "")
        return f"ossia mcp test {server} says why that server is off" if server else ""

    def _of_module(self, module: str) -> str:
        package = _PACKAGES.get(module, module)
        if self.settings.python:
            return f"{package} must be installed in {self.settings.python}, which --python names"
        return f"ossia python setup {package} installs it for the model's Python, if that is the package you want"
