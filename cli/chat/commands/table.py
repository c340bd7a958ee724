"""The commands of the chat: `/effort high`. One table; `/help` and completion are made from it.

A line that begins with `/` is a command, `//` sends a text that begins with a slash. The modules beside this one carry
the commands out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ossia.cli.chat.commands import (
    documents,
    inspect,
    models,
    rewind,
    rules,
    sessions,
    settings,
    skills,
    tools,
    turns,
)
from ossia.cli.chat.commands.common import Block, Choice, CommandError
from ossia.cli.clean import one_line
from ossia.cli.exits import exit_code
from ossia.cli.mentions import begins_with_path, of_dropped

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

_USAGE_CHARS = 26
_SHOWN_SKILLS = 8
_WIDE_COLUMNS = 78
_PATH = "a path is no command: @ before it attaches it, one more / sends it as text"
_DROPPED = "a path is no command: it is in the input again, with the @ that attaches it"
_ELSEWHERE = {
    "compact": "context", "compress": "context", "usage": "stats", "cost": "stats", "config": "set", "settings": "set",
    "memory": "system", "mcp": "tools", "functions": "tools", "diff": "undo",
}  # fmt: skip
"""Commands of other programs, and ours that come nearest."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: `/name usage`, its help in at most 50 characters, and the function that carries it out.

    `between_turns`: it changes the conversation, so it can't run during a turn. `more`: further lines of `/help NAME`.
    `arguments`: completions of the text behind the command; None: paths.
    """

    name: str
    usage: str
    help: str
    act: Callable[[Chat, Face, str], None]
    between_turns: bool = False
    more: str = ""
    arguments: Callable[[Chat, str], Sequence[Choice] | None] = lambda talk, prefix: ()
    aliases: tuple[str, ...] = ()


def run_command(talk: Chat, face: Face, line: str, *, shown: str | None = None) -> None:
    """Carry out the command in `line`; `shown` is the line as it stood in the input, pastes as placeholders.

    An error is shown in one line. A line without a known command returns to the input.
    """
    shown = shown if shown is not None else line
    name = re.split(r"\s", line[1:], maxsplit=1)[0]
    argument = line[1 + len(name) :].strip()
    command = find(name)
    if command is None:
        mentioned = of_dropped(shown)
        restored = face.restore(mentioned or shown)
        if mentioned or begins_with_path(line):
            return face.note(_DROPPED if mentioned and restored else _PATH, "red")
        return face.note(f"{_unknown(talk, name)} To send it as text: /{_named(name)}", "red")
    if command.between_turns and talk.control is not None:
        return face.note(f"/{command.name} can't run during a turn: Ctrl-C stops it, Up brings the line back", "yellow")
    face.note(f"› {one_line(shown, 200)}", "dim bold")
    try:
        command.act(talk, face, argument)
    except Exception as error:
        talk.report(error, of=f"/{command.name}: ")
    return None


def find(name: str) -> Command | None:
    """The command with this name or alias: `find("exit").name` is `"quit"`."""
    wanted = name.lower()
    return next((one for one in _ALL if wanted == one.name or wanted in one.aliases), None)


def commands() -> Sequence[Choice]:
    """All commands, each with its help: `("/effort", "how long it thinks")`."""
    return [(f"/{one.name}", one.help) for one in _ALL]


def arguments(talk: Chat, command: str, prefix: str) -> Sequence[Choice] | None:
    """Completions of `prefix` behind a command; None: paths. `arguments(talk, "/effort", "h")`."""
    found = find(command.removeprefix("/"))
    if found is None:
        return ()
    try:
        return found.arguments(talk, prefix)
    except Exception as error:  # a damaged store: the command itself shows that
        if exit_code(error) is None and not isinstance(error, OSError):
            raise
        return ()


def help_(talk: Chat, face: Face, argument: str) -> None:
    """`/help [COMMAND]`."""
    if argument:
        return _help_on(talk, face, argument)
    block = Block(face)
    for title, group in GROUPS:
        block.row(title, "bold")
        for one in group:
            _help_row(face, block, f"/{one.name} {one.usage}".rstrip(), one.help)
    if own := skills.choices(talk):
        block.row("Skills", "bold")
        for call, text in own[:_SHOWN_SKILLS]:
            _help_row(face, block, call, text)
        if len(own) > _SHOWN_SKILLS:
            block.row(f"  /skills lists {len(own) - _SHOWN_SKILLS} more", "dim")
    block.row("Keys", "bold")
    for key, meaning in PLAIN_KEYS if face.plain else KEYS:
        _help_row(face, block, key, meaning)
    return block.show()


def _help_on(talk: Chat, face: Face, name: str) -> None:
    command = find(name.removeprefix("/"))
    if command is None:
        if (skill := talk.skills.find(name.removeprefix("/"))) is None:
            raise CommandError(_unknown(talk, name.removeprefix("/")))
        return skills.show(face, skill)
    block = Block(face, f"/{command.name} {command.usage}".rstrip())
    block.item(f"  {command.help}")
    for line in filter(None, command.more.split("\n")):
        block.item(f"  {line}", "dim")
    if command.aliases:
        block.item(f"  also: {', '.join(f'/{alias}' for alias in command.aliases)}", "dim")
    return block.show()


def _help_row(face: Face, block: Block, name: str, text: str) -> None:
    if face.painter.width >= _WIDE_COLUMNS:
        block.row(f"  {name:<{_USAGE_CHARS}} {text}")
    else:
        block.item(f"  {name}")
        block.item(f"    {text}", "dim")


def _unknown(talk: Chat, name: str) -> str:
    known = [word for one in _ALL for word in (one.name, *one.aliases)]
    known += [skill.name for skill in talk.skills if skill.for_user]
    near = [] if "/" in name else difflib.get_close_matches(name.lower(), known, n=1)
    if ours := find(_ELSEWHERE.get(name.lower(), "")):
        return f"no command {_named(name)} (/{ours.name}: {ours.help})."
    return f"no command {_named(name)}{f': did you mean /{near[0]}?' if near else ' (/help lists them).'}"


def _named(name: str) -> str:
    return f"/{one_line(name, 40)}"


_THINK = "Ctrl-T shows or hides it at any time; Ctrl-O shows the thinking of past turns."
_UNDO = """Files only: the conversation stays as it is.
list: what can be undone, latest first
force: restore files that were changed since then, too; skip: forget about files that can't be restored"""
_REWIND = """If files would change, it shows which, and asks; a file that anybody else changed is left as it is.
The conversation as it was stays as a fork: /sessions lists it."""
_TOOLS = """on, off: all tools; on NAME…, off NAME…: these tools, e.g. /tools off browser container.exec
web URL: search the web with your own SearXNG, or with a service: brave, exa, mojeek, serper, tavily, you
workspace DIR: work on the files of a folder; workspace off ends that; trust: count its files as your own
FILE.py: add the functions in a Python file of yours; FILE.py:NAME,NAME: only these"""

GROUPS: Sequence[tuple[str, Sequence[Command]]] = (
    (
        "Talk",
        (
            Command("answer", "", "stop thinking and answer now (Ctrl-G)", turns.answer),
            Command("retry", "", "ask the last question again", turns.retry, True, aliases=("regenerate",)),
            Command("edit", "[TURN]", "edit an earlier message; a fork keeps the rest", turns.edit, True,
                    "The message goes into the input line; nothing is removed until you send it.\n"
                    "Later turns stay in a fork of the conversation: /sessions lists it.", turns.turns),
            Command("rewind", "[TURN]", "back to before a turn, with the files; alone: list", rewind.rewind, True,
                    _REWIND, turns.turns),
            Command("plan", "[TEXT|off]", "make a plan; nothing can be changed until /go", turns.plan, True,
                    "Commands can only read the workspace; no rule or answer overrides that.",
                    lambda talk, prefix: turns.PLANS if "off".startswith(prefix) else None),
            Command("go", "[TEXT]", "carry out the plan", turns.go, True, arguments=lambda talk, prefix: None),
            Command("undo", "[list|force|skip]", "restore the files that the last turn changed", turns.undo, True,
                    _UNDO, lambda talk, prefix: turns.UNDOS),
            Command("copy", "[code|thinking|TURN]", "copy an answer to the clipboard, as Markdown", turns.copy,
                    arguments=lambda talk, prefix: turns.COPIES),
            Command("image", "[FILE]", "show a picture, or the last one a tool made", inspect.image,
                    more="The model can't see pictures: gpt-oss reads only text.", arguments=lambda talk, prefix: None),
            Command("quit", "", "leave (Ctrl-D)", turns.quit_, aliases=("exit", "bye", "q")),
        ),
    ),
    (
        "Conversations",
        (
            Command("new", "", "start a new conversation", sessions.new, True, aliases=("clear", "reset")),
            Command("sessions", "[N]", "list the stored conversations", sessions.sessions, aliases=("history",)),
            Command("resume", "[ID|TEXT]", "continue a stored conversation", sessions.resume, True,
                    arguments=sessions.stored_sessions, aliases=("load",)),
            Command("search", "TEXT", "find stored conversations by what was said", sessions.search),
            Command("title", "[TEXT]", "show or set this conversation's title", sessions.title, aliases=("rename",)),
            Command("fork", "[TURN]", "copy this conversation up to now, or up to TURN", sessions.fork, True,
                    "The original stays as it is.", turns.turns),
            Command("save", "FILE", "save it as .md, .html or .json", sessions.save,
                    arguments=lambda talk, prefix: None),
            Command("export", "[FORMAT] [FILE]", "same as /save; add `thinking` to include it", sessions.export_,
                    more="FORMAT is md, html, json, harmony or chat; json and harmony always include the thinking.",
                    arguments=sessions.forms),
            Command("private", "[off]", "store nothing from now on", sessions.private, True,
                    "off stores it again; what was said in private is included only if you say so.",
                    lambda talk, prefix: (("off", "store it again"),)),
        ),
    ),
    (
        "How it answers (from the next turn)",
        (
            Command("model", "[NAME|pull NAME]", "switch models; alone: list them", models.model,
                    more="The conversation continues. NAME can be the path of a GGUF file, or a server: "
                    "http://HOST:PORT, or the NAME of an [engines.NAME]. "
                    "/model SERVER MODEL uses one of a server's models, /model llama MODEL one on this machine.",
                    arguments=models.names, aliases=("models",)),
            Command("effort", "[low|medium|high]", "how long it thinks", settings.effort,
                    arguments=lambda talk, prefix: settings.EFFORTS),
            Command("think", "[on|off|peek]", "show the thinking, hide it, or peek at its end", settings.think,
                    more=_THINK, arguments=lambda talk, prefix: settings.THINKS),
            Command("system", "[TEXT|off|edit]", "your instructions to the model", settings.system,
                    more="@FILE reads them from a file; a workspace's own instructions still apply.",
                    arguments=lambda talk, prefix: settings.SYSTEMS),
            Command("schema", "[FILE|LINE|off]", "answer in JSON that matches a schema", settings.schema, True,
                    "LINE: name, age int, tags[]; or JSON. It applies to the answer, not to the thinking.",
                    lambda talk, prefix: settings.SCHEMAS if "off".startswith(prefix) else None),
            Command("temp", "[VALUE]", "temperature; 0 always picks the likeliest token", settings.temperature,
                    aliases=("temperature",)),
            Command("set", "[NAME VALUE]", "change a setting; alone: show them all", settings.set_,
                    arguments=settings.values),
        ),
    ),
    (
        "Tools",
        (
            Command("tools", "[on|off NAME…]", "list the tools, turn them on or off", tools.tools,
                    more=_TOOLS, arguments=tools.words),
            Command("calls", "[N]", "list the tool calls; N: show one in full", inspect.calls,
                    arguments=inspect.numbered),
            Command("allow", "[RULE|remove RULE]", "allow calls without asking, in this chat", rules.allow,
                    more="container.exec:git status*, repo_browser.apply_patch:docs/**, browser.open:https://docs.python.org/*",
                    arguments=rules.rules, aliases=("approvals", "permissions")),
            Command("skills", "", "list the skills: instructions for kinds of tasks", skills.skills,
                    more="/NAME ARGUMENTS calls one. They lie in ~/.agents/skills, and in a workspace's own."),
            Command("docs", "[add PLACE]", "your documents, for the model to search", documents.docs,
                    more="PLACE is a folder, a file or a web page; `add` alone updates them all.",
                    arguments=documents.words),
        ),
    ),
    (
        "Look inside",
        (
            Command("context", "", "how full the context is, part by part", inspect.context),
            Command("stats", "[FILE.svg]", "tokens, speeds and times; as a picture", inspect.stats,
                    aliases=("status",), arguments=lambda talk, prefix: None),
            Command("raw", "", "the last prompt and reply, as Harmony", inspect.raw),
            Command("help", "[COMMAND]", "this list, or more about one command", help_, aliases=("?", "h"),
                    arguments=lambda talk, prefix: [(one.name, one.help) for one in _ALL]),
        ),
    ),
)  # fmt: skip
"""Every command, in the order of `/help`."""

KEYS: Sequence[Choice] = (
    ("Ctrl-C", "stop; twice: leave"),
    ("Ctrl-T, Ctrl-O", "show the thinking; read the whole conversation"),
    ("Ctrl-G", "stop thinking, answer now"),
    ("Ctrl-X Enter", "send it after the turn, not behind a tool result"),
    ("Alt-Enter, Ctrl-X Ctrl-E", "new line; write in your editor"),
    ("@FILE, !COMMAND", "include a file or a command's output"),
)

PLAIN_KEYS: Sequence[Choice] = (
    KEYS[0],
    ('"""', "starts and ends a text of several lines"),
    KEYS[-1],
)
"""On a terminal without keys."""

_ALL: Sequence[Command] = tuple(one for _, group in GROUPS for one in group)
