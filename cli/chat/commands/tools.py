"""/tools, /calls, /image: what the model can use, and what it used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.chat.commands.common import Block, Choice, CommandError, must_be, path_of
from ossia.cli.chat.commands.tool_changes import functions, trust, turn_off, turn_on, web, workspace
from ossia.cli.runtime.assembly import trained_tools
from ossia.cli.terminal.pictures import FORMATS
from ossia.cli.words import listed
from ossia.tools.build import TRAINED

if TYPE_CHECKING:
    from pathlib import Path

    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

_OTHER_ROWS = 6  # beside a picture

WORDS: Sequence[Choice] = (
    ("on", "turn all on again; on NAME…: these"),
    ("off", "turn all off; off NAME…: these"),
    ("web", "search the web with a SearXNG's URL, or brave, exa, …"),
    ("workspace", "work on the files of a folder"),
    ("trust", "count the workspace's files as your own"),
)


def tools(talk: Chat, face: Face, argument: str) -> None:
    """`/tools [on|off [NAME…]|web URL|workspace DIR|trust|FILE.py]`; alone: what is on, how to turn on what is off."""
    word, _, rest = argument.partition(" ")
    names = rest.replace(",", " ").split()
    if not argument:
        return _show(talk, face)
    if word == "off":
        return turn_off(talk, face, names)
    if word == "on":
        return turn_on(talk, face, names)
    if word == "web":
        return web(talk, face, rest.strip())
    if word == "workspace":
        return workspace(talk, face, rest.strip())
    if argument == "trust":
        return trust(talk, face)
    if not argument.endswith(".py"):
        must_be("on, off, web, workspace, trust or a FILE.py", argument, "/tools alone lists the tools")
    return functions(talk, face, path_of(argument))


def calls(talk: Chat, face: Face, argument: str) -> None:
    """`/calls [N]`: the calls of this conversation; N: one of them, whole."""
    from ossia.cli.chat.pager.items import calls_rows
    from ossia.cli.chat.pager.sections import call_rows

    items = talk.transcript.calls()
    if not argument:
        return face.show(calls_rows(items, face.painter))
    if not items:
        raise CommandError("there are no calls yet")
    if not argument.isdecimal() or not 1 <= int(argument) <= len(items):
        must_be(f"a call from 1 to {len(items)}", argument)
    return face.show(call_rows(items[int(argument) - 1], face.painter))


def image(talk: Chat, face: Face, argument: str) -> None:
    """`/image [FILE]`: show a picture file, or the last picture that a call made. The model sees no pictures."""
    path = path_of(argument).resolve() if argument else _last_picture(talk)
    if not path.is_file():
        raise CommandError(f"file {path} doesn't exist")
    if not face.pictures.knows(path):
        raise CommandError(f"must be a picture ({', '.join(FORMATS)}), not {path}")
    room = max(4, face.rows - _OTHER_ROWS)
    talk.background.run(lambda: face.pictures.rows(path, face.painter, room), face.show)


def words(talk: Chat, prefix: str) -> Sequence[Choice] | None:
    """What `/tools` can be completed with; None: paths."""
    word, blank, rest = prefix.partition(" ")
    if word == "workspace" and blank:
        return None if rest else [(f"{word} off", "leave the workspace")]
    if not blank:
        return WORDS
    every = talk.loaded.tools.toolbox.every_spec if talk.loaded else ()
    names = {spec.name for spec in every if (spec.name in talk.conversation.tools_off) == (word == "on")}
    return [(f"{word} {name}", "") for name in sorted(names)] if word in ("on", "off") else ()


def numbered(talk: Chat, prefix: str) -> Sequence[Choice]:
    """What `/calls` can be completed with."""
    found = list(enumerate(talk.transcript.calls(), 1))[-50:]
    return [(str(number), item.name) for number, item in reversed(found)]


def _last_picture(talk: Chat) -> Path:
    made = [one for item in talk.transcript.calls() for one in item.attachments if one.media_type.startswith("image/")]
    if not made:
        raise CommandError("no tool has made a picture yet: /image FILE shows one of yours (the model can't see it)")
    return made[-1].path


# -- what there is -----------------------------------------------------------------------------------------------------


def _show(talk: Chat, face: Face) -> None:
    assembly = talk.loaded
    specs = assembly.tools.toolbox.specs if assembly else ()
    block = Block(face, "Tools that are on")
    if assembly is None:
        block.row("  still loading", "dim")
    elif not specs:
        block.row("  none", "dim")
    width = max((len(spec.name) for spec in specs), default=0)
    for spec in specs:
        assert assembly is not None
        effects = f", can {listed(sorted(spec.effects))}" if spec.effects else ""
        block.item(f"  {spec.name:<{width}}  {spec.source}{effects}, {_ASKED[assembly.tools.approval_of(spec)]}")
    off = _what_is_off(talk)
    if off:
        block.row("Off", "bold")
        width = max(len(name) for name, _, _ in off)
        for name, command, why in off:
            block.item(f"  {name:<{width}}  {command}{f'  ({why})' if why else ''}")
    block.show()


_ASKED = {"auto": "runs without asking", "ask": "asks first", "never": "denied"}


def _what_is_off(talk: Chat) -> list[tuple[str, str, str]]:
    """What could be on: `("web search", "/tools web URL", "or brave, exa, … with a key")`."""
    from ossia.tools.python.choice import own_environment

    settings = talk.settings
    names = talk.conversation.tools_off
    families = {name if name.startswith("functions.") else name.partition(".")[0] for name in names}
    off = [(name, f"/tools on {name}", "") for name in sorted(families)]
    not_there = talk.loaded.tools.missing if talk.loaded else {}
    trained = trained_tools(settings)
    off += [(name, f"/tools on {name}", "") for name in TRAINED if name not in trained]
    if "browser" in not_there:
        off.append(("browser", "/tools on browser", "joins once there is something: documents, the web, an address"))
    if "python" in not_there:
        off.append(("python", not_there["python"], ""))  # it says what to do about it
    for what, why in not_there.items():
        if what.startswith("mcp "):
            off.append((what, f"ossia mcp test {what.removeprefix('mcp ')}", why))
    if not settings.web:
        off.append(("web search", "/tools web URL", "a SearXNG; or brave, exa, … with a key"))
    if talk.folder is None:
        off.append(("work in a folder", "/tools workspace DIR", ""))
    elif "container.exec" in not_there:
        off.append(("commands", not_there["container.exec"], ""))
    if not _has_documents():
        off.append(("your documents", "/docs add FOLDER", ""))
    if not any(name.endswith(".py") for name in settings.tools or ()):
        off.append(("your functions", "/tools FILE.py", ""))
    if not settings.python and own_environment(paths.host()).executable is None:
        off.append(("numpy, pandas, …", "ossia python setup", "for python; in another terminal"))
    return off


def _has_documents() -> bool:
    from ossia.tools.library.library import Library, LibraryError

    try:
        return bool(Library(paths.library_file()).roots())
    except LibraryError:
        return True  # /docs says what is wrong with it
