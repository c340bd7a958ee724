"""/tools, /calls: what the model can use, and what it used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli import paths
from cli._kinds import KINDS
from cli.chat_commands.common import Block, Choice, CommandError, count, expected, path_of
from cli.config import THIS_CHAT, Resolved, Settings
from cli.exits import ExitCode, ExitError
from cli.folder import Folder, settle
from cli.toolset import TRAINED, Toolset, wanted
from tools.policy import Policy, Rule
from tools.spec import ToolSpec

if TYPE_CHECKING:
    from cli.chat import Chat

WORDS: Sequence[Choice] = (
    ("on", "all that were turned off; on NAME…: these"),
    ("off", "all of them; off NAME…: these"),
    ("web", "search the web: a SearXNG's address, or brave, exa, …"),
    ("workspace", "work on the files of a folder"),
)
_LATER = "the tools change after this turn"


@dataclass(frozen=True, slots=True)
class _Off:
    """Something that could be on: `_Off("web search", "/tools web URL", "or brave, exa, … with their key")`."""

    name: str
    command: str
    why: str = ""


def tools(chat: Chat, argument: str) -> None:
    """`/tools [on|off [NAME…]|web URL|workspace DIR|FILE.py]`; alone: what is on, and how to turn on what is off."""
    word, _, rest = argument.partition(" ")
    names = rest.replace(",", " ").split()
    if not argument:
        return _show(chat)
    if word == "off":
        return _turn_off(chat, names)
    if word == "on":
        return _turn_on(chat, names)
    if word == "web":
        return _web(chat, rest.strip())
    if word == "workspace":
        return _workspace(chat, rest.strip())
    if not argument.endswith(".py"):
        expected("on, off, web, workspace or a FILE.py", argument, "/tools alone shows what there is")
    return _functions(chat, path_of(argument))


def calls(chat: Chat, argument: str) -> None:
    """`/calls [N]`: the calls of this conversation; N: one of them, whole."""
    from cli.calls import call_rows, calls_rows

    items = chat.transcript.calls()
    if not argument:
        return chat.show(calls_rows(chat.transcript, chat.painter))
    if not argument.isdecimal() or not 1 <= int(argument) <= len(items):
        expected(f"a call from 1 to {len(items)}" if items else "no number: there are no calls yet", argument)
    return chat.show(call_rows(items[int(argument) - 1], chat.painter))


def words(chat: Chat, prefix: str) -> Sequence[Choice] | None:
    """What `/tools` can be completed with; None: paths."""
    word, blank, rest = prefix.partition(" ")
    if word == "workspace" and blank:
        return None if rest else [(f"{word} off", "no workspace any more")]
    if not blank:
        return WORDS
    every = chat.assembly.tools.toolbox.every_spec if chat.assembly else ()
    names = {spec.name for spec in every if (spec.name in chat.model.tools_off) == (word == "on")}
    return [(f"{word} {name}", "") for name in sorted(names)] if word in ("on", "off") else ()


def numbered(chat: Chat, prefix: str) -> Sequence[Choice]:
    """What `/calls` can be completed with."""
    found = list(enumerate(chat.transcript.calls(), 1))[-50:]
    return [(str(number), item.name) for number, item in reversed(found)]


# -- what there is -----------------------------------------------------------------------------------------------------


def _show(chat: Chat) -> None:
    from cli.tools_list import approval_of

    assembly = chat.assembly
    specs = assembly.tools.toolbox.specs if assembly else ()
    block = Block(chat, "Tools that are on")
    if assembly is None:
        block.row("  they are being collected", "dim")
    elif not specs:
        block.row("  none", "dim")
    width = max((len(spec.name) for spec in specs), default=0)
    for spec in specs:
        assert assembly is not None
        effects = f", can {' and '.join(sorted(spec.effects))}" if spec.effects else ""
        block.row(f"  {spec.name:<{width}}  {spec.source}{effects}, {_ASKED[approval_of(assembly.tools, spec)]}")
    off = _what_is_off(chat)
    if off:
        block.row("Off", "bold")
        width = max(len(one.name) for one in off)
        for one in off:
            block.row(f"  {one.name:<{width}}  {one.command}{f'  ({one.why})' if one.why else ''}")
    block.show()


_ASKED = {"auto": "not asked about", "ask": "asked about", "never": "denied"}


def _what_is_off(chat: Chat) -> list[_Off]:
    settings = chat.settings
    families = {name if name.startswith("functions.") else name.partition(".")[0] for name in chat.model.tools_off}
    off = [_Off(name, f"/tools on {name}") for name in sorted(families)]
    have = {spec.name for spec in chat.assembly.tools.toolbox.every_spec} if chat.assembly else set()
    trained = wanted(settings).trained
    off += [_Off(name, f"/tools on {name}") for name in TRAINED if name not in trained]
    if chat.assembly and "python" in trained and "python" not in have:
        off.append(_Off("python", "ossia run --unconfined", _why_no_python(chat)))
    if not settings.web:
        off.append(_Off("web search", "/tools web URL", "a SearXNG; or brave, exa, … with a key"))
    if chat.folder is None:
        off.append(_Off("work in a folder", "/tools workspace DIR"))
    elif chat.assembly and "functions.shell" not in have:
        off.append(_Off("commands", "ossia --unconfined", _why_no_shell(chat)))
    if not _has_documents():
        off.append(_Off("your documents", "/docs add FOLDER"))
    if not any(name.endswith(".py") for name in settings.tools or ()):
        off.append(_Off("your functions", "/tools FILE.py"))
    if not settings.python and not _python_is_set_up():
        off.append(_Off("numpy, pandas, …", "ossia python setup", "for python; in another terminal"))
    return off


def _why_no_python(chat: Chat) -> str:
    from tools.sandbox import choose, inspect

    return choose(inspect(), unconfined=chat.settings.unconfined).reason


def _why_no_shell(chat: Chat) -> str:
    from tools.shell_sandbox import choose

    return choose(unconfined=chat.settings.unconfined).reason


def _has_documents() -> bool:
    from tools.browser.library import Library, LibraryError

    try:
        return bool(Library(paths.library_file()).roots())
    except LibraryError:
        return True  # what is wrong with it, /docs says


def _python_is_set_up() -> bool:
    from cli.python_cmd import own_environment

    return own_environment().executable is not None


# -- changes -----------------------------------------------------------------------------------------------------------


def _turn_off(chat: Chat, names: Sequence[str]) -> None:
    def act(every: Sequence[ToolSpec]) -> frozenset[str]:
        found = frozenset(spec.name for spec in every) if not names else _meant(names, every)
        return chat.model.tools_off | found

    _offer(chat, act)


def _turn_on(chat: Chat, names: Sequence[str]) -> None:
    settings = chat.settings
    fresh = [name for name in names if name in TRAINED and name not in wanted(settings).trained]
    if fresh or (settings.no_tools and not names):
        values = {"no_tools": False, "tools": _with_trained(settings, fresh) if names else settings.tools}

        def on(tools: Toolset) -> None:
            every = tools.toolbox.every_spec
            meant = [_matching(name, every) for name in names] if names else [chat.model.tools_off]
            _set_off(chat, chat.model.tools_off.difference(*meant))

        return _collect(chat, values, on)

    def act(every: Sequence[ToolSpec]) -> frozenset[str]:
        return chat.model.tools_off - (_meant(names, every) if names else chat.model.tools_off)

    return _offer(chat, act)


def _web(chat: Chat, value: str) -> None:
    if not value:
        state = f"web search goes to {chat.settings.web}" if chat.settings.web else "web search is off"
        return chat.note(f"{state}: /tools web URL, of a SearXNG, or brave, exa, mojeek, serper, tavily, you; off")
    if value == "off":
        return _collect(chat, {"web": None})
    values = {"web": KINDS["web"].check(value), "no_tools": False, "tools": chat.settings.tools}
    if "browser" not in wanted(chat.settings).trained:
        values["tools"] = _with_trained(chat.settings, ["browser"])
    return _collect(chat, values)


def _workspace(chat: Chat, value: str) -> None:
    if not value:
        if chat.folder:
            return chat.note(f"the workspace is {chat.folder.workspace.root}: /tools workspace off leaves it")
        raise CommandError("expected a folder: /tools workspace DIR")
    folder = None if value == "off" else str(path_of(value).absolute())
    return _collect(chat, {"workspace": folder, "no_tools": False})


def _functions(chat: Chat, path: Path) -> None:
    if not path.is_file():
        raise CommandError(f"expected a file of functions, there is no {path}")
    names = (*(chat.settings.tools or ()), str(path.absolute()))
    _collect(chat, {"tools": tuple(dict.fromkeys(names)), "no_tools": False})


def _with_trained(settings: Settings, names: Sequence[str]) -> tuple[str, ...]:
    """What `--tools` would say of the tools that are on and these."""
    others = [name for name in settings.tools or () if name not in TRAINED]
    return tuple(dict.fromkeys((*wanted(settings).trained, *names, *([] if settings.no_tools else others))))


def _meant(names: Sequence[str], every: Sequence[ToolSpec]) -> frozenset[str]:
    """The tools that the user means: `shell`, `browser`, `functions.*`. Raises CommandError for none."""
    found: set[str] = set()
    for name in names:
        matching = _matching(name, every)
        if not matching:
            expected(f"a tool ({', '.join(spec.name for spec in every) or 'there is none'})", name)
        found.update(matching)
    return frozenset(found)


def _matching(name: str, every: Sequence[ToolSpec]) -> list[str]:
    return [spec.name for spec in every if not Policy([Rule(name, "deny")]).unused([spec])]


def _offer(chat: Chat, change: Callable[[Sequence[ToolSpec]], frozenset[str]]) -> None:
    """Turn tools off or on that are loaded, as soon as no turn is under way."""
    if chat.assembly:  # a wrong name is told at once
        change(chat.assembly.tools.toolbox.every_spec)

    def act() -> None:
        assert chat.assembly is not None
        _set_off(chat, change(chat.assembly.tools.toolbox.every_spec))
        chat.model.enter(chat.assembly)
        _tell(chat, chat.assembly.tools)

    _between_turns(chat, act)


def _set_off(chat: Chat, names: frozenset[str]) -> None:
    chat.model.tools_off = names


def _collect(chat: Chat, values: dict[str, Any], then: Callable[[Toolset], object] = lambda _: None) -> None:
    """Collect the tools anew with these settings, as soon as no turn is under way."""

    def act() -> None:
        before = chat.folder
        only = chat.settings.no_tools and not any(name in TRAINED for name in values.get("tools") or ())
        resolved, folder = settled(chat.resolved, values)

        def collected(tools: Toolset) -> None:
            if only:  # there were none: what comes along with what was asked for stays off
                _set_off(chat, frozenset(spec.name for spec in tools.toolbox.every_spec if spec.trained))
            then(tools)
            if moved:
                _follow_folder(chat, resolved, folder)
            tools.toolbox.turn_off(chat.model.tools_off)
            _tell(chat, tools)

        moved = (folder and folder.workspace.root) != (before and before.workspace.root)
        for warning in folder.warnings if folder and moved else ():
            chat.note(warning, "yellow")
        chat.model.reload_tools(resolved, folder, collected)

    _between_turns(chat, act)


def settled(resolved: Resolved, values: dict[str, Any]) -> tuple[Resolved, Folder | None]:
    """The settings with these values, and the workspace that follows. Raises as `cli.folder.settle` does."""
    origins = {**resolved.origins, **dict.fromkeys(values, THIS_CHAT)}
    settings = replace(resolved.settings, **values)
    ours = {key for key, origin in origins.items() if origin == THIS_CHAT}
    given = {key for key, origin in origins.items() if origin.startswith("--")} | ours
    again, folder = settle({key: getattr(settings, key) for key in given})
    # None is no value for a flag: what this chat has set to nothing is put back here.
    kept = replace(again.settings, **{key: getattr(settings, key) for key in ours})
    return replace(again, settings=kept, origins={**again.origins, **dict.fromkeys(ours, THIS_CHAT)}), (
        folder if kept.workspace is not None else None
    )


def _follow_folder(chat: Chat, resolved: Resolved, folder: Folder | None) -> None:
    """The notes of the workspace are a part of the instructions."""
    from cli.options import fresh_options

    fresh = fresh_options(resolved, folder)
    options = chat.session.options
    brings = options.brings | fresh.brings
    chat.session.options = replace(options, instructions=fresh.instructions, brings=brings)


def _between_turns(chat: Chat, act: Callable[[], None]) -> None:
    if chat.assembly and chat.control is None:
        return act()

    def safely() -> None:
        try:
            act()
        except CommandError as error:
            chat.tell(ExitError(str(error), ExitCode.USAGE))
        except Exception as error:
            chat.tell(error)

    chat.between_turns(safely)
    return chat.note(_LATER if chat.control else "the tools change once the model is loaded")


def _tell(chat: Chat, tools: Toolset) -> None:
    names = [spec.name for spec in tools.toolbox.specs]
    chat.note(f"{count(len(names), 'tool')} on{': ' if names else ''}{', '.join(names)}")
