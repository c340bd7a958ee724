"""The tools of a run, put together from the settings, and the rules about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.runtime.browsing import NOTHING, can_browse, has_address, has_browsed
from ossia.cli.runtime.families import ToolMaker, chosen_tools
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.vocabulary import ViewCounter
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.rules import ACTION_WORDS, rules_of, unknown_rules_of_folder, unmatched_rules
from ossia.cli.settings.table import Settings
from ossia.cli.settings.workspace import Folder
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule, parse_rule
from ossia.tools.approval.trust import Grants
from ossia.tools.spec import NoStop, Preview, ToolContext, ToolSpec
from ossia.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from ossia.agent.sessions.session import Session
    from ossia.cli.runtime.browser import PageLoader
    from ossia.cli.runtime.failures import Fixes
    from ossia.harmony.tokenizer import Tokenizer
    from ossia.tools.browser import Browser
    from ossia.tools.python.tool import PythonTool


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

    `off`: what was asked for and isn't there, and why: `{"python": "bubblewrap isn't …", "mcp files": "it did not …"}`.
    `browses`: the browser is offered; else it waits until there is something to browse.
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
    browses: bool = True
    _turned_off: Collection[str] = ()

    def offer(self, *, but: Collection[str]) -> None:
        """Offer all tools but these, and but the browser while that waits. Only between turns."""
        self._turned_off = but
        waits = [tool.spec.name for tool in self.browser.tools] if self.browser and not self.browses else []
        self.toolbox.turn_off({*but, *waits})

    def browse_for(self, session: Session, settings: Settings, typed: str = "") -> bool:
        """Offer the browser from now on if this conversation can need it. True: it waited until now."""
        if self.browser is None or self.browses:
            return False
        self.browses = has_address(typed) or has_browsed(session) or can_browse(settings)
        self.offer(but=self._turned_off)
        return self.browses

    @property
    def missing(self) -> Mapping[str, str]:
        """`off`, with the browser while that waits."""
        waits = self.browser is not None and not self.browses
        return {**self.off, "browser": NOTHING} if waits else self.off

    def view_warning(self) -> str | None:
        """What to tell the user, once, about how pages were measured."""
        return self.view.warning() if self.view else None

    def origin(self, url: str) -> str | None:
        """Where a document of the local library comes from: a file's path or a URL; None for another page."""
        if not url.startswith("doc:"):
            return None
        from ossia.tools.library.library import Library, LibraryError

        try:
            return Library(paths.library_file()).origin(url)
        except LibraryError:
            return None

    def fixes(
        self, settings: Settings, *, chat: bool = False, turned_off: Callable[[str], bool] = lambda name: False
    ) -> Fixes:
        """What a user can do about calls that fail."""
        from ossia.cli.runtime.failures import Fixes

        specs, folder = self.toolbox.by_name, self.folder is not None
        return Fixes(settings, specs, self.missing, folder=folder, chat=chat, turned_off=turned_off)

    def begin_turn(self, label: str) -> None:
        """What is written from now on is undone together, and what was refused may be asked again."""
        self.toolbox.forget_refusals()
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


def collect(resolved: Resolved, folder: Folder | None, display: Display, tokenizer: Tokenizer) -> Toolset:
    """The tools that the settings ask for. Raises ExitError or FunctionsError for one that isn't available."""
    settings, chosen = resolved.settings, chosen_tools(resolved.settings)
    grants = Grants(paths.data_dir())
    if grants.problem:
        display.warn(grants.problem)
    policy = Policy(rules_of(resolved, grants, folder))
    policy.read_only = settings.plan
    made = ToolMaker(settings, folder, display, tokenizer)
    try:
        made.all(chosen)
    except BaseException:
        made.close()  # on Ctrl-C, too: a server that hangs would go on without us
        raise
    counter = Counter(tokenizer)
    if folder:
        folder = replace(folder, workspace=replace(folder.workspace, own=made.own(folder.workspace.root)))
    workspace = folder.workspace if folder else None
    context = ToolContext(stop=NoStop(), workspace=workspace, data_dir=paths.data_dir(), count_tokens=counter)
    toolbox = Toolbox(made.unique(), policy=policy, context=context, dry_run=settings.dry_run)
    for line in unmatched_rules(resolved, toolbox.specs):
        display.warn(line)
    if not any(name.startswith("mcp ") for name in made.off):  # a server that is away may have such a tool
        for where, rule in unknown_rules_of_folder(resolved, toolbox.specs):
            display.warn(f"{where} {rule!r}: no tool of that name is on")
    toolset = Toolset(
        toolbox,
        policy,
        grants,
        folder,
        made.python_tool,
        made.browser_tools,
        made.pages,
        made.view,
        counter,
        made.closers,
        made.off,
        browses=can_browse(settings),
    )
    toolset.offer(but=())
    return toolset
