"""/tools: the tools of the model, and their changes between turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ossia.cli import paths
from ossia.cli.chat.commands import trust
from ossia.cli.chat.commands.common import Block, Choice, CommandError, must_be, path_of
from ossia.cli.runtime.assembly import trained_tools
from ossia.cli.runtime.session import following
from ossia.cli.settings.config import THIS_CHAT, Resolved
from ossia.cli.settings.kinds import source_and_function
from ossia.cli.settings.table import SETTINGS, Settings
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.words import count, listed
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.build import TRAINED, Toolset
from ossia.tools.folder import Folder
from ossia.tools.python.choice import own_environment
from ossia.tools.spec import ToolSpec

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

WORDS: Sequence[Choice] = (
    ("on", "turn all on again; on NAME…: these"),
    ("off", "turn all off; off NAME…: these"),
    ("web", "search the web with a SearXNG's URL, or brave, exa, …"),
    ("workspace", "work on the files of a folder"),
    ("trust", "count the workspace's files as your own"),
)


def tools(talk: Chat, face: Face, argument: str) -> None:
    """`/tools [on|off [NAME…]|web URL|workspace DIR|trust|FILE.py[:NAME,NAME]]`; alone: list them."""
    word, _, rest = argument.partition(" ")
    names = rest.replace(",", " ").split()
    if not argument:
        return _show(talk, face)
    if word == "off":
        return _turn_off(talk, face, names)
    if word == "on":
        return _turn_on(talk, face, names)
    if word == "web":
        return _web(talk, face, rest.strip())
    if word == "workspace":
        return _workspace(talk, face, rest.strip())
    if argument == "trust":
        return trust.ask(talk, face)
    file, _ = _file_and_functions(argument)
    if not file.endswith(".py"):
        must_be("on, off, web, workspace, trust or a FILE.py", argument, "/tools alone lists the tools")
    return _functions(talk, face, argument)


def words(talk: Chat, prefix: str) -> Sequence[Choice] | None:
    """Completions of `/tools`; None: paths."""
    word, blank, rest = prefix.partition(" ")
    if word == "workspace" and blank:
        return None if rest else [(f"{word} off", "leave the workspace")]
    if not blank:
        return WORDS
    every = talk.loaded.tools.toolbox.every_spec if talk.loaded else ()
    names = {spec.name for spec in every if (spec.name in talk.conversation.tools_off) == (word == "on")}
    return [(f"{word} {name}", "") for name in sorted(names)] if word in ("on", "off") else ()


# -- the list ----------------------------------------------------------------------------------------------------------


def _show(talk: Chat, face: Face) -> None:
    block = Block(face, "Tools that are on")
    if talk.loaded:
        _on_rows(block, talk.loaded.tools)
    else:
        block.row("  still loading", "dim")
    if off := _off(talk):
        block.row("Off", "bold")
        width = max(len(name) for name, _, _ in off)
        for name, command, why in off:
            block.item(f"  {name:<{width}}  {command}{f'  ({why})' if why else ''}")
    block.show()


def _on_rows(block: Block, tools: Toolset) -> None:
    specs = tools.toolbox.specs
    if not specs:
        block.row("  none", "dim")
    width = max((len(spec.name) for spec in specs), default=0)
    for spec in specs:
        effects = f", can {listed(sorted(spec.effects))}" if spec.effects else ""
        block.item(f"  {spec.name:<{width}}  {spec.source}{effects}, {_ASKED[tools.approval_of(spec)]}")


_ASKED = {"auto": "runs without asking", "ask": "asks first", "never": "denied"}


def _off(talk: Chat) -> list[tuple[str, str, str]]:
    """The tools that could be on: `("web search", "/tools web URL", "a SearXNG; or brave, exa, … with a key")`."""
    settings, missing = talk.settings, talk.loaded.tools.missing if talk.loaded else {}
    names = talk.conversation.tools_off
    groups = {name if name.startswith("functions.") else name.partition(".")[0] for name in names}
    never_loaded = [name for name in TRAINED if name not in trained_tools(settings)]
    off = [(name, f"/tools on {name}", "") for name in (*sorted(groups), *never_loaded)]
    if "browser" in missing:
        off.append(("browser", "/tools on browser", "comes on once there are documents, a web search or an address"))
    if "python" in missing:
        off.append(("python", missing["python"], ""))  # with the next step
    for name, why in missing.items():
        if name.startswith("mcp "):
            off.append((name, f"ossia mcp test {name.removeprefix('mcp ')}", why))
    if not settings.web:
        off.append(("web search", "/tools web URL", "a SearXNG; or brave, exa, … with a key"))
    if talk.folder is None:
        off.append(("work in a folder", "/tools workspace DIR", ""))
    elif "container.exec" in missing:
        off.append(("commands", missing["container.exec"], ""))
    if not _has_documents():
        off.append(("your documents", "/docs add FOLDER", ""))
    off += [(name, why, "") for name, why in missing.items() if name.startswith("functions.")]
    if not any(source_and_function(name)[0].endswith(".py") for name in settings.tools or ()):
        off.append(("your functions", "/tools FILE.py", ""))
    if not settings.python and own_environment(paths.host()).executable is None:
        off.append(("numpy, pandas, …", "ossia python setup", "for python; in another terminal"))
    return off


def _has_documents() -> bool:
    from ossia.tools.library.library import Library, LibraryError

    try:
        return bool(Library(paths.library_file()).roots())
    except LibraryError:
        return True  # /docs says how it is damaged


# -- changes -----------------------------------------------------------------------------------------------------------


def _turn_off(talk: Chat, face: Face, names: Sequence[str]) -> None:
    """Turn these tools off, or all; they stay loaded."""

    def act(every: Sequence[ToolSpec]) -> frozenset[str]:
        found = frozenset(spec.name for spec in every) if not names else _meant(names, every)
        return talk.conversation.tools_off | found

    _offer(talk, face, act)


def _turn_on(talk: Chat, face: Face, names: Sequence[str]) -> None:
    """Turn these tools on, or all; trained ones that were never loaded are collected."""
    settings = talk.settings
    fresh = [name for name in names if name in TRAINED and name not in trained_tools(settings)]
    if fresh or (settings.no_tools and not names):
        values = {"no_tools": False, "tools": _with_trained(settings, fresh) if names else settings.tools}

        def collected(tools: Toolset) -> None:
            every = tools.toolbox.every_spec
            on = [_matching(name, every) for name in names] if names else [talk.conversation.tools_off]
            talk.conversation.tools_off = talk.conversation.tools_off.difference(*on)

        return collect(talk, face, values, collected)

    def act(every: Sequence[ToolSpec]) -> frozenset[str]:
        meant = _meant(names, every) if names else talk.conversation.tools_off
        if names and talk.loaded and talk.control is None and any(name.startswith("browser.") for name in meant):
            talk.loaded.tools.browses = True  # even with nothing to browse
        return talk.conversation.tools_off - meant

    return _offer(talk, face, act)


def _web(talk: Chat, face: Face, value: str) -> None:
    """Search the web with this service, or end that."""
    if not value:
        state = f"web search goes to {talk.settings.web}" if talk.settings.web else "web search is off"
        return face.note(f"{state}: /tools web takes a SearXNG's URL, brave, exa, mojeek, serper, tavily, you, or off")
    if value == "off":
        return collect(talk, face, {"web": None})
    values = {"web": SETTINGS["web"].kind.check(value), "no_tools": False, "tools": talk.settings.tools}
    if "browser" not in trained_tools(talk.settings):
        values["tools"] = _with_trained(talk.settings, ["browser"])
    return collect(talk, face, values)


def _workspace(talk: Chat, face: Face, value: str) -> None:
    """Work in this folder, or in none."""
    if not value:
        if talk.folder:
            return face.note(f"the workspace is {talk.folder.workspace.root}: /tools workspace off leaves it")
        raise CommandError("needs a folder: /tools workspace DIR")
    folder = None if value == "off" else path_of(value).absolute()
    if folder is not None and not folder.is_dir():
        raise CommandError(f"{folder} is not a folder" if folder.exists() else f"folder {folder} doesn't exist")
    return collect(talk, face, {"workspace": folder and str(folder), "no_tools": False})


def _functions(talk: Chat, face: Face, argument: str) -> None:
    """Add the functions in a file, or those named behind it."""
    file, functions = _file_and_functions(argument)
    path = path_of(file)
    if not path.is_file():
        raise CommandError(f"file {path} doesn't exist")
    source = str(path.absolute())
    others = [name for name in talk.settings.tools or () if source_and_function(name)[0] != source]
    added = [f"{source}:{name}" for name in functions] or [source]
    collect(talk, face, {"tools": (*others, *added), "no_tools": False})


def _file_and_functions(argument: str) -> tuple[str, list[str]]:
    """`"weather.py:look, tell"` as `("weather.py", ["look", "tell"])`."""
    file, colon, functions = argument.rpartition(".py:")
    if argument.endswith(".py") or not colon:
        return argument, []
    return f"{file}.py", list(filter(None, map(str.strip, functions.split(","))))


def _with_trained(settings: Settings, names: Sequence[str]) -> tuple[str, ...]:
    """The value of `--tools` for the present tools and these."""
    others = [name for name in settings.tools or () if name not in TRAINED]
    return tuple(dict.fromkeys((*trained_tools(settings), *names, *([] if settings.no_tools else others))))


def _meant(names: Sequence[str], every: Sequence[ToolSpec]) -> frozenset[str]:
    """The tools behind `shell`, `browser`, `functions.*`. Raises CommandError for a name of none."""
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
    """Turn loaded tools off or on, between turns."""
    if talk.loaded:  # a wrong name is refused at once
        change(talk.loaded.tools.toolbox.every_spec)

    def act() -> None:
        assert talk.loaded is not None
        talk.conversation.tools_off = change(talk.loaded.tools.toolbox.every_spec)
        talk.model.enter()
        _note_tools(face, talk.loaded.tools)

    _between_turns(talk, face, act)


def collect(
    talk: Chat, face: Face, values: dict[str, Any], then: Callable[[Toolset], object] = lambda _: None
) -> None:
    """Collect the tools anew with these settings, between turns."""

    def act() -> None:
        before = talk.folder
        untrained = talk.settings.no_tools and not any(name in TRAINED for name in values.get("tools") or ())
        resolved, folder = _with_values(talk.resolved, values)

        def collected(tools: Toolset) -> None:
            if untrained:  # the trained tools that are collected, too, stay off
                talk.conversation.tools_off = frozenset(spec.name for spec in tools.toolbox.every_spec if spec.trained)
            then(tools)
            if moved:  # the instructions follow; taints of instructions that were never read don't count
                options = talk.session.options
                options = options if talk.session.entries else replace(options, taints=frozenset())
                talk.session.options = following(options, folder)
            tools.offer(but=talk.conversation.tools_off)
            _note_tools(face, tools)
            if moved:
                trust.enter(talk, face)

        was, now = ((one.workspace.root, one.workspace.trusted) if one else None for one in (before, folder))
        moved = was != now
        talk.model.reload_tools(resolved, folder, collected)

    _between_turns(talk, face, act)


def _with_values(resolved: Resolved, values: dict[str, Any]) -> tuple[Resolved, Folder | None]:
    """The settings with these values, and their workspace. Raises as `resolve_with_folder` does."""
    settings = replace(resolved.settings, **values)
    ours = {key for key, origin in resolved.origins.items() if origin == THIS_CHAT} | values.keys()
    given = {key for key, origin in resolved.origins.items() if origin.startswith("--")} | ours
    fresh, folder = resolve_with_folder({key: getattr(settings, key) for key in given})
    # A flag can't be None, but this chat may have set a value to None.
    settings = replace(fresh.settings, **{key: getattr(settings, key) for key in ours})
    origins = {**fresh.origins, **dict.fromkeys(ours, THIS_CHAT)}
    return replace(fresh, settings=settings, origins=origins), folder if settings.workspace is not None else None


def _between_turns(talk: Chat, face: Face, act: Callable[[], None]) -> None:
    if not talk.between_turns(act):
        during = talk.control is not None
        face.note("the tools change after this turn" if during else "the tools change once the model is loaded")


def _note_tools(face: Face, tools: Toolset) -> None:
    names = [spec.name for spec in tools.toolbox.specs]
    face.note(f"{count(len(names), 'tool')} on{': ' if names else ''}{', '.join(names)}")
