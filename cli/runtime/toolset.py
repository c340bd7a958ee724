"""The tools of a run, put together from the settings, and the rules about them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli import paths
from cli.exits import ExitCode, ExitError
from cli.own import as_it_was, environment_for, own_parts, take_off
from cli.runtime.progress import Display
from cli.runtime.vocabulary import ViewCounter
from cli.settings.config import Resolved
from cli.settings.rules import about_nothing, rules_of
from cli.settings.table import Settings
from cli.settings.workspace import Folder
from cli.streams import give_stdout_to_others
from tools.approval.policy import Policy, Rule, parse_rule
from tools.approval.trust import Grants
from tools.spec import NoStop, Taint, Tool, ToolContext, ToolSpec
from tools.toolbox import Toolbox

if TYPE_CHECKING:
    from cli.runtime.browser import PageLoader
    from cli.runtime.failures import Fixes
    from harmony.tokenizer import Tokenizer
    from tools.browser import Browser
    from tools.functions.naming import Loaded
    from tools.mcp.config import McpConfig
    from tools.own import Own
    from tools.python.tool import PythonTool

TRAINED = ("python", "browser")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `--tools` asks for: trained tools by name, files of functions, packages that offer some."""

    trained: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    packages: tuple[str, ...] = ()


class Counter:
    """Counts tokens in the vocabulary of the model in use, which a chat may change."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: str) -> int:
        """The number of tokens of `text`."""
        return len(self.tokenizer.encode(text))


@dataclass(slots=True)
class Toolset:
    """The tools that are on, and what belongs to them. `folder` is the workspace, None without one.

    `off`: what was wanted and can't be had, and why: `{"python": "bubblewrap isn't …", "mcp files": "it did not …"}`.
    """

    toolbox: Toolbox
    policy: Policy
    grants: Grants
    folder: Folder | None = None
    python: PythonTool | None = None
    browser: Browser | None = None
    pages: PageLoader | None = None
    view: ViewCounter | None = None
    counter: Counter | None = None
    closers: list[Callable[[], None]] = field(default_factory=list)
    off: Mapping[str, str] = field(default_factory=dict)

    @property
    def notes(self) -> str | None:
        """What the workspace's AGENTS.md says; it belongs to the instructions."""
        return self.folder.notes if self.folder else None

    @property
    def brings(self) -> frozenset[Taint]:
        """What kinds of text `notes` are."""
        return self.folder.workspace.brings if self.folder and self.folder.notes else frozenset()

    def view_warning(self) -> str | None:
        """What to tell the user, once, about how pages were measured."""
        return self.view.warning() if self.view else None

    def origin(self, url: str) -> str | None:
        """Where a document of the local library comes from: a file's path or a URL; None for another page."""
        if not url.startswith("doc:"):
            return None
        from tools.library.library import Library, LibraryError

        try:
            return Library(paths.library_file()).origin(url)
        except LibraryError:
            return None

    def fixes(
        self, settings: Settings, *, chat: bool = False, turned_off: Callable[[str], bool] = lambda name: False
    ) -> Fixes:
        """What a user can do about calls that fail."""
        from cli.runtime.failures import Fixes

        specs, folder = self.toolbox.by_name, self.folder is not None
        return Fixes(settings, specs, self.off, folder=folder, chat=chat, turned_off=turned_off)

    def begin_turn(self, label: str) -> None:
        """What is written from now on is undone together."""
        if self.folder:
            self.folder.journal.begin_turn(label)

    def end_turn(self) -> None:
        """The turn is over: what the user changes from now on is no part of it."""
        with suppress(OSError):  # a full disk: the answer is worth more than the note
            if self.folder:
                self.folder.journal.end_turn()

    def rules_about(self, spec: ToolSpec) -> tuple[Rule, ...]:
        """The rules that name this tool, with or without a pattern."""
        return tuple(rule for rule in self.policy.rules if not Policy([rule]).unused([spec]))

    @property
    def hint(self) -> str:
        """What helps where a question can't be asked."""
        untrusted = self.folder is not None and not self.folder.workspace.trusted
        return "start with --trust if the files of the workspace are your own" if untrusted else ""

    def store(self, rules: Sequence[str]) -> None:
        """Keep the rules of an "always", for this workspace or, without one, for all runs that have none."""
        self.grants.add(rules, workspace=self.folder.workspace.root if self.folder else None)
        stored = [parse_rule(rule, "allow", origin="stored") for rule in rules]
        self.policy.rules = (*self.policy.rules, *(rule for rule in stored if rule not in self.policy.rules))

    def close(self) -> None:
        """End what the tools have running."""
        self.toolbox.close()
        self.end_turn()
        for close in self.closers:
            close()


def wanted(settings: Settings) -> Wanted:
    """What `--tools` and `--no-tools` ask for. Raises ExitError for a file that isn't there."""
    if settings.no_tools:
        return Wanted()
    names = settings.tools or ()
    files = tuple(Path(name) for name in names if name.endswith(".py"))
    missing = next((path for path in files if not path.is_file()), None)
    if missing is not None:
        raise ExitError(f"--tools: expected a file of functions, there is no {missing}", ExitCode.USAGE)
    trained = tuple(name for name in names if name in TRAINED) or TRAINED
    packages = tuple(name for name in names if name not in TRAINED and not name.endswith(".py"))
    if packages:
        _require_packages(packages)
    return Wanted(trained, files, packages)


def _require_packages(names: Sequence[str]) -> None:
    from importlib.metadata import entry_points

    from tools.functions.user import ENTRY_POINTS

    installed = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    missing = next((name for name in names if name not in installed), None)
    if missing is not None:
        packages = f" ({', '.join(installed)})" if installed else ", of which none is installed"
        expected = f"python, browser, a file (FILE.py) or a package with tools{packages}"
        raise ExitError(f"--tools: expected {expected}, got {missing!r}", ExitCode.USAGE)


def collect(resolved: Resolved, folder: Folder | None, display: Display, tokenizer: Tokenizer) -> Toolset:
    """The tools that the settings ask for. Raises ExitError or FunctionsError for what can't be had."""
    settings, wish = resolved.settings, wanted(resolved.settings)
    grants = Grants(paths.data_dir())
    if grants.problem:
        display.warn(grants.problem)
    policy = Policy(rules_of(resolved, grants, folder))
    built = _Builder(settings, folder, display, tokenizer)
    try:
        built.all(wish)
    except BaseException:
        built.close()  # a Ctrl-C, too: a server that hangs would go on without us
        raise
    counter = Counter(tokenizer)
    if folder:
        folder = replace(folder, workspace=replace(folder.workspace, own=built.own(folder.workspace.root)))
    context = ToolContext(
        stop=NoStop(),
        workspace=folder.workspace if folder else None,
        data_dir=paths.data_dir(),
        count_tokens=counter,
    )
    toolbox = Toolbox(built.unique(), policy=policy, context=context, dry_run=settings.dry_run)
    for flag, rule in about_nothing(resolved, toolbox.specs):
        display.warn(f"{flag} {rule!r}: no tool of that name is on")
    return Toolset(
        toolbox,
        policy,
        grants,
        folder,
        built.python_tool,
        built.browser_tools,
        built.pages,
        built.view,
        counter,
        built.closers,
        built.off,
    )


class _Builder:
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

    def all(self, wish: Wanted) -> None:
        """Every family that is wanted; the servers last, since they take longest to fail."""
        if "browser" in wish.trained:
            self.browser()
        if "python" in wish.trained:
            self.python()
        if self._folder:
            self.workspace(self._folder)
        self.functions(wish)
        if not self._settings.no_tools:
            self.mcp()

    def close(self) -> None:
        """End what was started."""
        for close in (*(tool.close for tool in self._tools), *self.closers):
            close()

    def browser(self) -> None:
        from cli.runtime.browser import make_browser

        self.view = ViewCounter(self._tokenizer)
        self.browser_tools, self.pages = make_browser(self._settings, self.view)
        self.closers.append(self.pages.close)
        self._tools += self.browser_tools.tools

    def python(self) -> None:
        from cli.runtime.python import make_python

        made = make_python(self._settings, self._display, search_path=self._environ.get("PATH"))
        if isinstance(made, str):
            self.off["python"] = made
            return
        self.python_tool = made
        self._tools.append(made)

    def workspace(self, folder: Folder) -> None:
        """The functions for work in a folder; the shell where something confines it."""
        from tools.sandbox import choose
        from tools.work import workspace_tools
        from tools.work.shell import ShellTool

        self._tools += workspace_tools()
        confinement = choose(unconfined=self._settings.unconfined, search_path=self._environ.get("PATH"))
        if confinement.name == "off":
            self.off["functions.shell"] = confinement.reason
            self._display.warn(f"functions.shell is off: {confinement.reason}")
            return
        if confinement.name == "unconfined":
            self._display.warn("commands run unconfined: they can do whatever you can")
        self._display.detail(confinement.describe())
        search_path = os.environ.get("PATH", "")
        self._tools.append(ShellTool(confinement=confinement, home=Path.home(), search_path=search_path))

    def functions(self, wish: Wanted) -> None:
        """The user's own."""
        if wish.files or wish.packages:
            from tools.functions.user import load_entry_points

            give_stdout_to_others()
            with as_it_was():
                for loaded in (*map(self._loaded, wish.files), load_entry_points(wish.packages)):
                    self._warn(loaded.warnings)
                    self._tools += loaded.tools
            if self._folder:
                take_off(self._folder.workspace.root)  # what the files themselves put there

    def _loaded(self, path: Path) -> Loaded:
        """The functions of a file. Of a workspace's no bytecode is read, since a command may have written it, and none

        is left there: it would be a change of what was trusted.
        """
        from tools.functions.user import load_functions

        root = self._folder.workspace.root if self._folder else None
        before = sys.dont_write_bytecode, sys.pycache_prefix
        if root is not None and path.resolve().is_relative_to(root):
            sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
        try:
            return load_functions(path)
        finally:
            sys.dont_write_bytecode, sys.pycache_prefix = before

    def mcp(self) -> None:
        """Those of the configured servers, and of a trusted workspace's. One that fails is only told."""
        from cli.settings.mcp import configured_servers

        trusted = self._folder.workspace.root if self._folder and self._folder.workspace.trusted else None
        configs = self._servers = configured_servers(os.environ, folder=trusted)
        if not configs:
            return
        from tools.mcp.servers import McpServers

        data, logs = paths.data_dir(), paths.log_file().parent
        servers = McpServers(configs, data_dir=data, log_dir=logs, environ=self._environ)
        self.closers.append(servers.close)
        line = self._display.line
        before = line.says
        line.set(f"connecting to MCP servers: {', '.join(config.name for config in configs if config.enabled)}")
        statuses = servers.connect(waiting=line.tick)
        line.set(before)
        line.erase()
        for status in statuses:
            self._warn(status.warnings)
            if status.error is not None:
                self.off[f"mcp {status.name}"] = status.error
        self._tools += servers.tools

    def own(self, root: Path) -> Own:
        """What of ossia lies in the workspace, once all is loaded."""
        own = own_parts(root, self._settings, environ=os.environ, servers=self._servers)
        if own.problem:
            self._display.warn(f"no confined command runs in this workspace: {own.problem}")
        return own

    def unique(self) -> tuple[Tool, ...]:
        """All of them, each name once."""
        from tools.functions.naming import without_duplicates

        kept = without_duplicates(self._tools)
        self._warn(kept.warnings)
        return kept.tools

    def _warn(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._display.warn(line)
