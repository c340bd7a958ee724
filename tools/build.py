"""The tools of a conversation, put together from a `ToolsSpec`, and the rules about them."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ossia.tools.approval.grants import Grants
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import ACTION_WORDS, Rule, parse_rule
from ossia.tools.folder import Folder
from ossia.tools.functions.naming import PREFIX, Loaded, offered_name, without_duplicates
from ossia.tools.host import Host, Loading, Notice, Report
from ossia.tools.import_path import environment_for, remove_from_sys_path, restored_sys_path
from ossia.tools.own import Own, own_parts
from ossia.tools.pages import PageLoader, Web, has_address
from ossia.tools.python.choice import python_tool
from ossia.tools.sandbox.job import Toolchains
from ossia.tools.skills import NO_SKILLS, OF_USER, Skills
from ossia.tools.spec import NoStop, Preview, Stop, Tool, ToolContext, ToolSpec
from ossia.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from ossia.tools.browser.browser import Browser
    from ossia.tools.mcp.config import McpConfig
    from ossia.tools.mcp.servers import McpServers
    from ossia.tools.mcp.status import McpStatus
    from ossia.tools.python.tool import PythonTool

TRAINED = ("python", "browser")
NOTHING_TO_BROWSE = "there is nothing to browse: no document is indexed, --web isn't set, and no address was typed"
_REPORT_AFTER_S = 1.5  # connecting to MCP servers takes less where they run

Skippable = Callable[[], AbstractContextManager[tuple[Stop, str]]]
"""Its block gets what stops the wait for servers, and the key for that in words: `"Ctrl-C goes on without"`, ""."""


@dataclass(frozen=True, slots=True)
class ToolsSpec:
    """The tools that are asked for. `ToolsSpec()`: python, confined, and the browser once there is something to browse.

    `trained`: of `TRAINED`; `files`: of functions, each with the names of those to offer, () for all; `packages`: that
    offer functions, by their entry points, likewise; `servers`: of MCP. `always_browse`: offer the browser even where
    there is nothing to browse yet. `python`: the Python of the model's code, None: the usual one. `configs`: the user's
    files that configure us, which no call may change. `skills`: those that the prompt may name. `only`: of all these
    tools, offer those with such a name or namespace, `("python", "repo_browser")`; None: all.
    """

    trained: tuple[str, ...] = TRAINED
    files: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    servers: tuple[McpConfig, ...] = ()
    folder: Folder | None = None
    rules: tuple[Rule, ...] = ()
    web: Web = field(default_factory=Web)
    always_browse: bool = False
    python: str | None = None
    unconfined: bool = False
    planning: bool = False
    dry_run: bool = False
    private: bool = False
    configs: tuple[Path, ...] = ()
    skills: Skills = NO_SKILLS
    readable: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None

    def offers(self, name: str) -> bool:
        """True unless `only` leaves out the tool."""
        return self.only is None or name in self.only or name.partition(".")[0] in self.only


class TokenCount(Protocol):
    """Counts tokens. `tokenizer` is the model's, which a chat may change; pages are counted in gpt-oss's vocabulary."""

    tokenizer: Any

    def __call__(self, text: str) -> int:
        """The tokens of `text` in the model's vocabulary."""

    def pages(self, text: str) -> int:
        """The tokens of `text` in gpt-oss's vocabulary."""

    def warning(self) -> str | None:
        """A line for the user, once, if pages had to be counted otherwise."""


@dataclass(slots=True)
class Toolset:
    """The tools that are on, and what belongs to them. `folder` is the workspace, None without one.

    `off`: what was asked for and isn't on, and why, as it was reported: `{"python": "bubblewrap isn't …"}`.
    `browses`: the browser is offered; else it waits until there is something to browse. `servers`: those of MCP, and
    `connected` how each of them answered.
    """

    toolbox: Toolbox
    policy: Policy
    grants: Grants
    counter: TokenCount
    folder: Folder | None = None
    python: PythonTool | None = None
    browser: Browser | None = None
    pages: PageLoader | None = None
    off: Mapping[str, str] = field(default_factory=dict)
    browses: bool = True
    library: Path | None = None
    skills: Skills = NO_SKILLS
    servers: McpServers | None = None
    connected: Sequence[McpStatus] = ()
    _closers: Sequence[Callable[[], None]] = ()
    _turned_off: Collection[str] = ()

    def offer(self, *, but: Collection[str]) -> None:
        """Offer all tools but these, and but the browser while that waits. Only between turns."""
        self._turned_off = but
        waits = [tool.spec.name for tool in self.browser.tools] if self.browser and not self.browses else []
        self.toolbox.turn_off({*but, *waits})

    def browse_for(self, said: str, called: Iterable[str]) -> bool:
        """Offer the browser from now on if the conversation needs it: by what the user said, by the tools called.

        True: it waited until now.
        """
        if self.browser is None or self.browses:
            return False
        used = any(name.startswith("browser.") for name in called)
        self.browses = used or has_address(said) or _has_documents(self.library)
        self.offer(but=self._turned_off)
        return self.browses

    def browser_joins_for(self, said: str) -> bool:
        """True if the browser waits for an address, and this text has one."""
        return self.browser is not None and not self.browses and has_address(said)

    @property
    def missing(self) -> Mapping[str, str]:
        """`off`, with the browser while that waits."""
        waits = self.browser is not None and not self.browses
        return {**self.off, "browser": NOTHING_TO_BROWSE} if waits else self.off

    def origin(self, url: str) -> str | None:
        """The file's path or the URL that a document of the local library comes from; None for another page."""
        if not url.startswith("doc:") or self.library is None:
            return None
        from ossia.tools.library.library import Library, LibraryError

        try:
            return Library(self.library).origin(url)
        except LibraryError:
            return None

    def begin_turn(self, label: str, mark: str = "") -> None:
        """What is written from now on is undone together, and what was refused may be asked again. See `Journal`."""
        self.toolbox.forget_refusals()
        if self.folder:
            self.folder.journal.begin_turn(label, mark)

    def end_turn(self) -> None:
        """The turn is over: what the user changes from now on is no part of it."""
        with suppress(OSError):  # a full disk: the answer is worth more than the note
            if self.folder:
                self.folder.journal.end_turn()

    def rules_about(self, spec: ToolSpec) -> tuple[Rule, ...]:
        """The rules that name this tool, with or without a pattern."""
        return tuple(rule for rule in self.policy.rules if not Policy([rule]).unused([spec]))

    def approval_of(self, spec: ToolSpec) -> str:
        """`auto`, `ask` or `never`: for a call that no rule with a pattern is about, in an untainted conversation."""
        general = Policy(rule for rule in self.policy.rules if rule.pattern is None)
        return ACTION_WORDS[general.rule_on(spec, Preview("")).action]

    @property
    def hint(self) -> str:
        """What helps where a question can't be asked."""
        untrusted = self.folder is not None and not self.folder.workspace.trusted
        return "start with --trust if the files of the workspace are your own" if untrusted else ""

    def store(self, rules: Sequence[str]) -> None:
        """Store the rules of an "always", for this workspace or, without one, for all conversations that have none."""
        self.grants.add(rules, workspace=self.folder.workspace.root if self.folder else None)
        stored = [parse_rule(rule, "allow", origin="stored") for rule in rules]
        self.policy.rules = (*self.policy.rules, *(rule for rule in stored if rule not in self.policy.rules))

    def close(self) -> None:
        """End what the tools have running."""
        self.toolbox.close()
        self.end_turn()
        for close in self._closers:
            close()


def toolset(
    spec: ToolsSpec,
    host: Host,
    report: Report,
    counter: TokenCount,
    *,
    grants: Grants | None = None,
    extra: Sequence[Tool] = (),
    skippable: Skippable = lambda: nullcontext((NoStop(), "")),
) -> Toolset:
    """The tools of `spec`, and `extra` ones. Connects to MCP servers; one that fails is only reported.

    `grants` None: those in `host.data`; their rules hold besides the spec's. Raises FunctionsError (files of functions
    and settings that can't be used); then, and on an interrupt, everything that was started is ended.

        toolset(ToolsSpec(trained=()), host, silent, counter)    # only what the toolbox itself brings: no tools
    """
    if grants is None:
        grants = Grants(host.data)
        if grants.problem:
            report(Notice("warning", grants.problem))
    root = spec.folder.workspace.root if spec.folder else None
    policy = Policy([*spec.rules, *grants.rules(workspace=root)])
    policy.read_only = spec.planning
    builder = _Builder(spec, host, report, counter, skippable)
    try:
        builder.build()
    except BaseException:
        builder.close()  # on Ctrl-C, too: a server that hangs would go on without us
        raise
    folder = builder.folder()
    workspace = folder.workspace if folder else None
    context = ToolContext(stop=NoStop(), workspace=workspace, data_dir=host.data, count_tokens=counter)
    built = Toolset(
        Toolbox([*builder.unique(), *extra], policy=policy, context=context, dry_run=spec.dry_run),
        policy,
        grants,
        counter,
        folder,
        builder.python,
        builder.browser,
        builder.pages,
        builder.off,
        browses=spec.always_browse or bool(spec.web.search or spec.web.hosts) or _has_documents(host.library),
        library=host.library,
        skills=spec.skills,
        servers=builder.servers,
        connected=builder.connected,
        _closers=builder.closers,
    )
    built.offer(but=())
    return built


def _has_documents(library: Path | None) -> bool:
    from ossia.tools.library.library import Library, LibraryError

    try:
        return library is not None and bool(Library(library).roots())
    except LibraryError:
        return True  # the model's search will say what is wrong with it


class _Builder:
    """Builds the tools of each kind, in the order in which they are offered."""

    def __init__(self, spec: ToolsSpec, host: Host, report: Report, counter: TokenCount, skippable: Skippable) -> None:
        self._spec, self._host, self._report, self._counter = spec, host, report, counter
        self._skippable = skippable
        self._tools: list[Tool] = []
        self.closers: list[Callable[[], None]] = []
        self.off: dict[str, str] = {}
        self.python: PythonTool | None = None
        self.browser: Browser | None = None
        self.pages: PageLoader | None = None
        self.servers: McpServers | None = None
        self.connected: Sequence[McpStatus] = ()
        self._root = spec.folder.workspace.root if spec.folder else None
        self._environ = environment_for(self._root, host.environ)

    def build(self) -> None:
        """Build every kind that is asked for; MCP servers last, since they take longest to fail."""
        if "browser" in self._spec.trained:
            self._add_browser()
        if "python" in self._spec.trained:
            self._add_python()
        if self._spec.folder:
            self._add_workspace()
        if self._spec.files or self._spec.packages:
            self._add_functions()
        if self._spec.servers:
            self._add_servers()

    def close(self) -> None:
        """End what was started."""
        for close in (*(tool.close for tool in self._tools), *self.closers):
            close()

    def unique(self) -> tuple[Tool, ...]:
        """All tools, each name once."""
        unique = without_duplicates([tool for tool in self._tools if self._spec.offers(tool.spec.name)])
        self._warn(unique.warnings)
        return unique.tools

    def folder(self) -> Folder | None:
        """The workspace with the parts of ossia in it. Called once all is loaded."""
        folder = self._spec.folder
        return folder and replace(folder, workspace=replace(folder.workspace, own=self._own(folder.workspace.root)))

    def _own(self, root: Path) -> Own:
        spec = self._spec
        own = own_parts(root, self._host, files=spec.configs, servers=spec.servers)
        if own.problem:
            self._warn([f"no confined command runs in this workspace: {own.problem}"])
        return own

    def _add_browser(self) -> None:
        from ossia.tools.pages import browser

        web, private = self._spec.web, self._spec.private
        self.browser, self.pages = browser(web, self._host, self._counter.pages, private=private)
        self.closers.append(self.pages.close)
        self._tools += self.browser.tools

    def _add_python(self) -> None:
        path, unconfined = self._environ.get("PATH"), self._spec.unconfined
        made = python_tool(self._spec.python, self._host, self._report, unconfined=unconfined, search_path=path)
        if isinstance(made, str):
            self.off["python"] = made
            return
        self.python = made
        self._tools.append(made)

    def _add_workspace(self) -> None:
        """The tools for work in a folder; commands where something confines them."""
        from ossia.tools.sandbox import choose
        from ossia.tools.toolchains import READABLE, in_words
        from ossia.tools.work import workspace_tools
        from ossia.tools.work.exec import NAME, Exec

        self._tools += workspace_tools(skills=self._host.home / OF_USER if self._spec.skills.every else None)
        confinement = choose(unconfined=self._spec.unconfined, search_path=self._environ.get("PATH"))
        if confinement.name == "off":
            self.off[NAME] = confinement.reason
            self._warn([f"{NAME} is off: {confinement.reason}"])
            return
        if confinement.name == "unconfined":
            self._warn(["commands run unconfined: they can do whatever you can"])
        self._report(Notice("detail", confinement.describe()))
        search_path = self._host.environ.get("PATH", "")
        find = Toolchains if confinement.name == "unconfined" else self._toolchains
        found = find()
        if line := in_words(found, self._host.home):
            self._report(Notice("detail", line))
        for line in found.refused:
            self._report(Notice("warning" if line.startswith(READABLE) else "detail", line))
        has, home = found.summary, self._host.home
        self._tools.append(
            Exec(confinement=confinement, home=home, search_path=search_path, toolchains=find, has=has)
        )

    def _toolchains(self) -> Toolchains:
        """The toolchains that commands see now."""
        from ossia.tools.toolchains import find_toolchains

        assert self._root is not None
        host, readable = self._host, self._spec.readable
        return find_toolchains(self._root, home=host.home, environ=host.environ, data=host.data, readable=readable)

    def _add_functions(self) -> None:
        from ossia.tools.functions.user import load_entry_point

        with restored_sys_path():
            for path, names in self._spec.files.items():
                self._take(self._loaded(path, names))
            for name, names in self._spec.packages.items():
                self._take(load_entry_point(name, names=names))
        if self._root:
            remove_from_sys_path(self._root)  # the files themselves may have put it there

    def _take(self, loaded: Loaded) -> None:
        self._warn(loaded.warnings)
        self._tools += loaded.tools
        self.off |= {f"{PREFIX}{offered_name(name)}": fault for name, fault in loaded.skipped.items()}

    def _loaded(self, path: Path, names: Sequence[str]) -> Loaded:
        """The functions of a file; those of a trusted workspace come from the bytes that were checked.

        For another file in the workspace no bytecode is read, since a command may have written it, nor written.
        """
        from ossia.tools.functions.user import load_functions

        offer = self._spec.folder.brought if self._spec.folder else None
        if offer and (name := offer.name_of(path)):
            files = {str(offer.root / other): data for other, data in offer.files.items()}
            return load_functions(offer.root / name, names=names, files=files)
        before = sys.dont_write_bytecode, sys.pycache_prefix
        if self._root is not None and path.resolve().is_relative_to(self._root):
            sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
        try:
            return load_functions(path, names=names)
        finally:
            sys.dont_write_bytecode, sys.pycache_prefix = before

    def _add_servers(self) -> None:
        """The tools of MCP servers. One that fails is only reported."""
        from ossia.tools.mcp.servers import McpServers

        host, configs = self._host, self._spec.servers
        servers = McpServers(configs, data_dir=host.data, log_dir=host.log.parent, environ=self._environ)
        self.closers.append(servers.close)
        self.servers, self.connected = servers, self._connected(servers)
        for status in self.connected:
            self._warn(status.warnings)
            if status.error is not None:
                self.off[f"mcp {status.name}"] = status.error
        self._tools += servers.tools

    def _connected(self, servers: McpServers) -> Sequence[McpStatus]:
        """Connect, and report what is waited for; whoever skips that goes on without those that haven't answered."""
        report_at = time.monotonic() + _REPORT_AFTER_S

        def waiting(names: Sequence[str]) -> None:
            nonlocal report_at
            what = f"waiting for MCP servers: {', '.join(names)}{key and f' ({key})'}"
            self._report(Loading(what))
            if time.monotonic() > report_at:
                report_at = math.inf
                self._report(Notice("waiting", what))

        with self._skippable() as (skip, key):
            statuses = servers.connect(stop=skip, waiting=waiting)
        self._report(Loading(""))
        return statuses

    def _warn(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._report(Notice("warning", line))
