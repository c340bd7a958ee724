"""Makes the tools of a run, one family after another, in the order in which they are offered."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.own import as_it_was, environment_for, own_parts, take_off
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.vocabulary import ViewCounter
from ossia.cli.settings.table import Settings
from ossia.cli.settings.workspace import Folder
from ossia.cli.streams import give_stdout_to_others
from ossia.tools.spec import Tool

if TYPE_CHECKING:
    from ossia.cli.runtime.browser import PageLoader
    from ossia.harmony.tokenizer import Tokenizer
    from ossia.tools.browser import Browser
    from ossia.tools.functions.naming import Loaded
    from ossia.tools.mcp.config import McpConfig
    from ossia.tools.mcp.servers import McpServers
    from ossia.tools.mcp.status import McpStatus
    from ossia.tools.own import Own
    from ossia.tools.python.tool import PythonTool

TRAINED = ("python", "browser")
_TELL_S = 1.5  # connecting to servers that are there takes less


@dataclass(frozen=True, slots=True)
class ChosenTools:
    """What `--tools` asks for: trained tools by name, files of functions, packages that offer functions."""

    trained: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    packages: tuple[str, ...] = ()


def chosen_tools(settings: Settings) -> ChosenTools:
    """What `--tools` and `--no-tools` ask for. Raises ExitError for a file that isn't there."""
    if settings.no_tools:
        return ChosenTools()
    names = settings.tools or ()
    files = tuple(Path(name) for name in names if name.endswith(".py"))
    missing = next((path for path in files if paths.is_folder(path) or not path.is_file()), None)
    if missing is not None:
        raise ExitError(f"--tools: file {missing} doesn't exist")
    trained = tuple(name for name in names if name in TRAINED) or TRAINED
    packages = tuple(name for name in names if name not in TRAINED and not name.endswith(".py"))
    if packages:
        _require_packages(packages)
    return ChosenTools(trained, files, packages)


def _require_packages(names: Sequence[str]) -> None:
    from importlib.metadata import entry_points

    from ossia.tools.functions.user import ENTRY_POINTS

    installed = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    missing = next((name for name in names if name not in installed), None)
    if missing is not None:
        packages = f" ({', '.join(installed)})" if installed else ", of which none is installed"
        expected = f"python, browser, a file (FILE.py) or a package with tools{packages}"
        raise ExitError(f"--tools: must be {expected}, not {missing!r}")


class ToolMaker:
    """Makes the tools of each family, in the order in which they are offered."""

    def __init__(self, settings: Settings, folder: Folder | None, display: Display, tokenizer: Tokenizer) -> None:
        self._settings, self._folder, self._display, self._tokenizer = settings, folder, display, tokenizer
        self._tools: list[Tool] = []
        self.closers: list[Callable[[], None]] = []
        self.off: dict[str, str] = {}
        self.python_tool: PythonTool | None = None
        self.browser_tools: Browser | None = None
        self.pages: PageLoader | None = None
        self.view: ViewCounter | None = None
        self._servers: tuple[McpConfig, ...] = ()
        self._environ = environment_for(folder.workspace.root if folder else None, os.environ)

    def all(self, chosen: ChosenTools) -> None:
        """Make every family that is wanted; MCP servers last, since they take longest to fail."""
        if "browser" in chosen.trained:
            self._browser()
        if "python" in chosen.trained:
            self._python()
        if self._folder:
            self._workspace(self._folder)
        self._functions(chosen)
        if not self._settings.no_tools:
            self._mcp()

    def close(self) -> None:
        """End what was started."""
        for close in (*(tool.close for tool in self._tools), *self.closers):
            close()

    def _browser(self) -> None:
        from ossia.cli.runtime.browser import make_browser

        self.view = ViewCounter(self._tokenizer)
        self.browser_tools, self.pages = make_browser(self._settings, self.view)
        self.closers.append(self.pages.close)
        self._tools += self.browser_tools.tools

    def _python(self) -> None:
        from ossia.cli.runtime.python import make_python

        made = make_python(self._settings, self._display, search_path=self._environ.get("PATH"))
        if isinstance(made, str):
            self.off["python"] = made
            return
        self.python_tool = made
        self._tools.append(made)

    def _workspace(self, folder: Folder) -> None:
        """The tools for work in a folder; commands where something confines them."""
        from ossia.tools.sandbox import choose
        from ossia.tools.work import workspace_tools
        from ossia.tools.work.exec import NAME, Exec

        self._tools += workspace_tools()
        confinement = choose(unconfined=self._settings.unconfined, search_path=self._environ.get("PATH"))
        if confinement.name == "off":
            self.off[NAME] = confinement.reason
            self._display.warn(f"{NAME} is off: {confinement.reason}")
            return
        if confinement.name == "unconfined":
            self._display.warn("commands run unconfined: they can do whatever you can")
        self._display.detail(confinement.describe())
        search_path = os.environ.get("PATH", "")
        self._tools.append(Exec(confinement=confinement, home=Path.home(), search_path=search_path))

    def _functions(self, chosen: ChosenTools) -> None:
        if chosen.files or chosen.packages:
            from ossia.tools.functions.user import load_entry_points

            give_stdout_to_others()
            with as_it_was():
                for loaded in (*map(self._loaded, chosen.files), load_entry_points(chosen.packages)):
                    self._warn(loaded.warnings)
                    self._tools += loaded.tools
            if self._folder:
                take_off(self._folder.workspace.root)  # off sys.path, where the files themselves may have put it

    def _loaded(self, path: Path) -> Loaded:
        """The functions of a file; those of a trusted workspace come from the bytes that were checked.

        For another file in the workspace no bytecode is read, since a command may have written it, nor written.
        """
        from ossia.tools.functions.user import load_functions

        brought = self._folder.brought if self._folder else None
        if brought and (name := brought.name_of(path)):
            return load_functions(
                brought.root / name, files={str(brought.root / other): data for other, data in brought.files.items()}
            )
        root = self._folder.workspace.root if self._folder else None
        before = sys.dont_write_bytecode, sys.pycache_prefix
        if root is not None and path.resolve().is_relative_to(root):
            sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
        try:
            return load_functions(path)
        finally:
            sys.dont_write_bytecode, sys.pycache_prefix = before

    def _mcp(self) -> None:
        """The tools of the configured servers, and of a trusted workspace's. One that fails is only reported."""
        from ossia.cli.settings.mcp import configured_servers

        brought = self._folder.brought if self._folder else None
        configs = self._servers = configured_servers(os.environ, folder=brought)
        if not configs:
            return
        from ossia.tools.mcp.servers import McpServers

        data, logs = paths.data_dir(), paths.log_file().parent
        servers = McpServers(configs, data_dir=data, log_dir=logs, environ=self._environ)
        self.closers.append(servers.close)
        statuses = self._connected(servers)
        for status in statuses:
            self._warn(status.warnings)
            if status.error is not None:
                self.off[f"mcp {status.name}"] = status.error
        self._tools += servers.tools

    def _connected(self, servers: McpServers) -> Sequence[McpStatus]:
        """Connect, and say what is waited for; a chat's Ctrl-C goes on without those that haven't answered."""
        display, control = self._display, Control()
        line, before, tell_at = display.line, display.line.says, time.monotonic() + _TELL_S

        def waiting(names: Sequence[str]) -> None:
            nonlocal tell_at
            line.set(f"connecting to MCP servers: {', '.join(names)}")
            line.tick()
            if time.monotonic() > tell_at:
                tell_at = math.inf
                display.note(f"ossia: waiting for MCP servers: {', '.join(names)}{way and f' ({way})'}")

        with display.skippable(control.stop) as way:
            statuses = servers.connect(stop=control, waiting=waiting)
        line.set(before)
        line.erase()
        return statuses

    def own(self, root: Path) -> Own:
        """The parts of ossia that lie in the workspace. Called once all is loaded."""
        own = own_parts(root, self._settings, environ=os.environ, servers=self._servers)
        if own.problem:
            self._display.warn(f"no confined command runs in this workspace: {own.problem}")
        return own

    def unique(self) -> tuple[Tool, ...]:
        """All tools, each name once."""
        from ossia.tools.functions.naming import without_duplicates

        kept = without_duplicates(self._tools)
        self._warn(kept.warnings)
        return kept.tools

    def _warn(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._display.warn(line)
