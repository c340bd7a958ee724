"""Changes of what the model can use, between turns: tools off and on, a web search, a workspace, your functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ossia.cli import paths
from ossia.cli.chat.commands.common import CommandError, must_be, path_of
from ossia.cli.chat.welcome import enter
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.runtime.assembly import trained_tools
from ossia.cli.settings.config import THIS_CHAT, Resolved
from ossia.cli.settings.table import SETTINGS, Settings
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.terminal.question import Question
from ossia.cli.words import count
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.build import TRAINED, Toolset
from ossia.tools.folder import Folder
from ossia.tools.spec import ToolSpec

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

_LATER = "the tools change after this turn"


def turn_off(talk: Chat, face: Face, names: Sequence[str]) -> None:
    """Turn tools off by their names, all of them without one. They stay loaded."""

    def act(every: Sequence[ToolSpec]) -> frozenset[str]:
        found = frozenset(spec.name for spec in every) if not names else _meant(names, every)
        return talk.conversation.tools_off | found

    _offer(talk, face, act)


def turn_on(talk: Chat, face: Face, names: Sequence[str]) -> None:
    """Turn tools on again; trained ones that were never loaded are collected."""
    settings = talk.settings
    fresh = [name for name in names if name in TRAINED and name not in trained_tools(settings)]
    if fresh or (settings.no_tools and not names):
        values = {"no_tools": False, "tools": _with_trained(settings, fresh) if names else settings.tools}

        def on(tools: Toolset) -> None:
            every = tools.toolbox.every_spec
            meant = [_matching(name, every) for name in names] if names else [talk.conversation.tools_off]
            talk.conversation.tools_off = talk.conversation.tools_off.difference(*meant)

        return _collect(talk, face, values, on)

    def act(every: Sequence[ToolSpec]) -> frozenset[str]:
        meant = _meant(names, every) if names else talk.conversation.tools_off
        if names and talk.loaded and talk.control is None and any(name.startswith("browser.") for name in meant):
            talk.loaded.tools.browses = True  # from now on, whether there is something to browse or not
        return talk.conversation.tools_off - meant

    return _offer(talk, face, act)


def web(talk: Chat, face: Face, value: str) -> None:
    """Search the web with what `value` names; "off": no more."""
    if not value:
        state = f"web search goes to {talk.settings.web}" if talk.settings.web else "web search is off"
        return face.note(f"{state}: /tools web takes a SearXNG's URL, brave, exa, mojeek, serper, tavily, you, or off")
    if value == "off":
        return _collect(talk, face, {"web": None})
    values = {"web": SETTINGS["web"].kind.check(value), "no_tools": False, "tools": talk.settings.tools}
    if "browser" not in trained_tools(talk.settings):
        values["tools"] = _with_trained(talk.settings, ["browser"])
    return _collect(talk, face, values)


def workspace(talk: Chat, face: Face, value: str) -> None:
    """Work in the folder that `value` names; "off": in none."""
    if not value:
        if talk.folder:
            return face.note(f"the workspace is {talk.folder.workspace.root}: /tools workspace off leaves it")
        raise CommandError("needs a folder: /tools workspace DIR")
    folder = None if value == "off" else path_of(value).absolute()
    if folder is not None and not folder.is_dir():
        raise CommandError(f"{folder} is not a folder" if folder.exists() else f"folder {folder} doesn't exist")
    return _collect(talk, face, {"workspace": folder and str(folder), "no_tools": False})


def trust(talk: Chat, face: Face) -> None:
    """Show what would take effect in the workspace if it were trusted, and ask."""
    from ossia.cli.commands.trust import describe
    from ossia.tools.approval.trust import TrustError, TrustStore, look

    if talk.folder is None:
        raise CommandError("there is no workspace: /tools workspace DIR sets one")
    root, store = talk.folder.workspace.root, TrustStore(paths.data_dir())
    if talk.folder.workspace.trusted:
        return face.note(f"{root} is trusted")
    try:
        offer = look(root)  # what is shown is what is trusted
    except TrustError as error:
        raise CommandError(str(error)) from error

    def answered(key: str) -> None:
        if key != "y":
            return face.note("not trusted: nothing was changed")
        try:
            store.trust(root, offer)
        except TrustError as error:
            return face.note(str(error), "red")
        before = "; what was said so far still counts as somebody else's" if "outside" in talk.session.taint else ""
        face.note(f"{root} is trusted, until its .ossia or AGENTS.md changes{before if talk.session.entries else ''}")
        return _collect(talk, face, {})

    brings = "\n".join(describe(offer))
    return talk.ask(Question(f"Trust {root}?", "until its .ossia or AGENTS.md changes", brings), answered)


def functions(talk: Chat, face: Face, path: Path) -> None:
    """Offer the functions in a file."""
    if not path.is_file():
        raise CommandError(f"file {path} doesn't exist")
    names = (*(talk.settings.tools or ()), str(path.absolute()))
    _collect(talk, face, {"tools": tuple(dict.fromkeys(names)), "no_tools": False})


def _with_trained(settings: Settings, names: Sequence[str]) -> tuple[str, ...]:
    """What `--tools` would be for the tools that are on together with these."""
    others = [name for name in settings.tools or () if name not in TRAINED]
    return tuple(dict.fromkeys((*trained_tools(settings), *names, *([] if settings.no_tools else others))))


def _meant(names: Sequence[str], every: Sequence[ToolSpec]) -> frozenset[str]:
    """The tools that the user means: `shell`, `browser`, `functions.*`. CommandError for a name that means none."""
    found: set[str] = set()
    for name in names:
        matching = _matching(name, every)
        if not matching:
            must_be(f"a tool ({', '.join(spec.name for spec in every) or 'there is none'})", name)
        found.update(matching)
    return frozenset(found)


def _matching(name: str, every: Sequence[ToolSpec]) -> list[str]:
    return [spec.name for spec in every if not Policy([Rule(name, "deny")]).unused([spec])]


def _offer(talk: Chat, face: Face, change: Callable[[Sequence[ToolSpec]], frozenset[str]]) -> None:
    """Turn tools off or on that are loaded, as soon as no turn is under way."""
    if talk.loaded:  # a wrong name is told at once
        change(talk.loaded.tools.toolbox.every_spec)

    def act() -> None:
        assert talk.loaded is not None
        talk.conversation.tools_off = change(talk.loaded.tools.toolbox.every_spec)
        talk.model.enter()
        _tell(face, talk.loaded.tools)

    _between_turns(talk, face, act)


def _collect(
    talk: Chat, face: Face, values: dict[str, Any], then: Callable[[Toolset], object] = lambda _: None
) -> None:
    """Collect the tools anew with these settings, as soon as no turn is under way."""

    def act() -> None:
        before = talk.folder
        only = talk.settings.no_tools and not any(name in TRAINED for name in values.get("tools") or ())
        resolved, folder = with_values(talk.resolved, values)

        def collected(tools: Toolset) -> None:
            if only:  # there were no tools: trained ones that nobody asked for come along, and stay off
                talk.conversation.tools_off = frozenset(spec.name for spec in tools.toolbox.every_spec if spec.trained)
            then(tools)
            if moved:
                _follow_folder(talk, folder)
            tools.offer(but=talk.conversation.tools_off)
            _tell(face, tools)
            if moved:
                enter(face, folder)

        was, now = ((one.workspace.root, one.workspace.trusted) if one else None for one in (before, folder))
        moved = was != now
        talk.model.reload_tools(resolved, folder, collected)

    _between_turns(talk, face, act)


def with_values(resolved: Resolved, values: dict[str, Any]) -> tuple[Resolved, Folder | None]:
    """The settings with these values, and the workspace that follows. Raises as `resolve_with_folder` does."""
    origins = {**resolved.origins, **dict.fromkeys(values, THIS_CHAT)}
    settings = replace(resolved.settings, **values)
    ours = {key for key, origin in origins.items() if origin == THIS_CHAT}
    given = {key for key, origin in origins.items() if origin.startswith("--")} | ours
    again, folder = resolve_with_folder({key: getattr(settings, key) for key in given})
    # A flag can't be None: what this chat has set to None is put back here.
    kept = replace(again.settings, **{key: getattr(settings, key) for key in ours})
    return replace(again, settings=kept, origins={**again.origins, **dict.fromkeys(ours, THIS_CHAT)}), (
        folder if kept.workspace is not None else None
    )


def _follow_folder(talk: Chat, folder: Folder | None) -> None:
    """The instructions follow the workspace. What nobody has read yet has brought nothing in."""
    from ossia.cli.runtime.session import following

    options = talk.session.options
    talk.session.options = following(options if talk.session.entries else replace(options, taints=frozenset()), folder)


def _between_turns(talk: Chat, face: Face, act: Callable[[], None]) -> None:
    if talk.loaded and talk.control is None:
        return act()

    def safely() -> None:
        try:
            act()
        except CommandError as error:
            talk.tell(ExitError(str(error), ExitCode.USAGE))
        except Exception as error:
            talk.tell(error)

    talk.between_turns(safely)
    return face.note(_LATER if talk.control else "the tools change once the model is loaded")


def _tell(face: Face, tools: Toolset) -> None:
    names = [spec.name for spec in tools.toolbox.specs]
    face.note(f"{count(len(names), 'tool')} on{': ' if names else ''}{', '.join(names)}")
