"""Slash commands in a prompt: the chat's that need no terminal, and a skill's `/NAME`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ossia.agent.sessions.session import UserText
from ossia.cli.clean import one_line
from ossia.cli.exits import ExitError
from ossia.cli.runtime.skills import with_skill
from ossia.cli.words import count, files_of, git_stays, listed, may_force, undone_or_not
from ossia.tools.spec import ToolFailed

if TYPE_CHECKING:
    from ossia.agent.conversation import Conversation
    from ossia.tools.build import Toolset
    from ossia.tools.skills import Skills

_LABEL_CHARS: Final = 60
_DESCRIPTION_CHARS: Final = 300
_STATES: Final = {"accepted": "accepted", "first": "new", "new": "new: off", "changed": "changed: off"}
_ASKED: Final = {"auto": "runs without asking", "ask": "asks first", "never": "denied"}


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its help, a hint at its argument ("": it takes none), and what answers it, in Markdown."""

    help: str
    hint: str
    answer: Callable[[Conversation, Toolset, str], Iterator[str]]


def available(skills: Skills) -> list[dict[str, object]]:
    """The commands as the protocol has them, and the skills that the user may call. Clients refuse any other `/`."""
    own = {one.name: (one.description, one.hint or "what to do") for one in skills if one.for_user}
    named = own | {name: (command.help, command.hint) for name, command in COMMANDS.items()}
    return [
        {"name": name, "description": text, **({"input": {"hint": hint}} if hint else {})}
        for name, (text, hint) in named.items()
    ]


def expanded(talk: Conversation, said: UserText) -> UserText | str:
    """The answer to a command, in Markdown; else the text for the model: that of a skill behind its call.

    Called with a model and tools in use, before the turn. An unknown command is a text like any other.
    """
    assert talk.tools is not None
    name, argument = _parts(said.typed)
    if command := COMMANDS.get(name):
        try:
            if argument and not command.hint:
                raise ExitError("takes no argument")
            return "\n".join(command.answer(talk, talk.tools, argument))
        except (ExitError, ToolFailed, OSError) as error:
            return f"/{name}: {one_line(str(error), 300)}"
    skill = talk.tools.skills.find(name)
    return with_skill(said, skill.called(argument)) if skill and skill.for_user else said


def _parts(typed: str) -> tuple[str, str]:
    """The name and the argument of `/name argument`; two empty texts for another text."""
    found = re.match(r"/(\S+)\s*(.*)", typed, re.DOTALL)
    return (found[1], found[2].strip()) if found else ("", "")


def _context(talk: Conversation, tools: Toolset, argument: str) -> Iterator[str]:
    use = talk.measure().result()
    yield f"Context: {use.used_tokens:,} of {use.total_tokens:,} tokens"
    yield ""
    yield from (f"- {part.name}: {part.tokens:,}" for part in use.parts if part.tokens)
    if summary := talk.session.summary:
        yield f"- a summary replaces the first {count(summary.turns, 'turn')}"


def _tools(talk: Conversation, tools: Toolset, argument: str) -> Iterator[str]:
    yield "Tools that are on:" if tools.toolbox.specs else "No tools are on."
    yield ""
    for spec in tools.toolbox.specs:
        effects = f", can {listed(sorted(spec.effects))}" if spec.effects else ""
        yield f"- `{spec.name}`: {one_line(spec.source)}{effects}, {_ASKED[tools.approval_of(spec)]}"
    yield from (f"- off: {name} ({one_line(why, 200)})" for name, why in tools.missing.items())


def _skills(talk: Conversation, tools: Toolset, argument: str) -> Iterator[str]:
    yield "Skills:" if tools.skills.every else "There are no skills."
    yield ""
    for skill in tools.skills:
        yield f"- `{'/' if skill.for_user else ''}{skill.name}`: {skill.description} ({skill.path})"
    yield from (f"- {line}" for line in tools.skills.skipped)


def _mcp(talk: Conversation, tools: Toolset, argument: str) -> Iterator[str]:
    verb, _, name = argument.partition(" ")
    found = [status for status in tools.connected if status.error is None]
    if not argument:
        yield from ("MCP servers and what they say of their tools:" if found else "No MCP server is connected.", "")
        for status in found:
            for tool in status.tools:
                said = one_line(tool.description, _DESCRIPTION_CHARS)
                yield f"- {status.name} `{one_line(tool.name, 100)}`: {said} ({_STATES[tool.state]})"
        return
    if verb != "accept" or name not in [status.name for status in found] or tools.servers is None:
        known = ", ".join(status.name for status in found) or "none is connected"
        raise ExitError(f"must be nothing, or accept and a server's name ({known}), not {one_line(argument, 80)!r}")
    tools.servers.accept(name)
    yield f"Accepted: the tools of {name}, from the next session on."


def _undo(talk: Conversation, tools: Toolset, argument: str) -> Iterator[str]:
    if argument not in ("", "list", "force", "skip"):
        raise ExitError(f"must be list, force, skip or nothing, not {one_line(argument, 80)!r}")
    if tools.folder is None:
        raise ExitError("there is no workspace")
    journal = tools.folder.journal
    if argument == "list":
        turns = journal.turns()
        yield "What can be undone, latest first:" if turns else "Nothing to undo."
        yield ""
        yield from (f"- {files_of(turn)}: {one_line(turn.label, _LABEL_CHARS)}" for turn in turns)
        return
    undone = journal.undo(force=argument == "force", skip=argument == "skip")
    if undone is None:
        yield "Nothing to undo."
        return
    yield f"{undone_or_not(undone, skipping=argument == 'skip').capitalize()}: {one_line(undone.label, _LABEL_CHARS)}"
    yield ""
    yield from (f"- restored `{path}`" for path in map(one_line, undone.restored))
    yield from (f"- removed `{path}`" for path in map(one_line, undone.removed))
    yield from (f"- left as it is: `{one_line(one.path)}` ({one.reason})" for one in undone.skipped)
    if undone.skipped and argument != "skip":
        yield ""
        yield f"{'/undo force overwrites them, ' if may_force(undone) else ''}/undo skip forgets about them"
    if undone.git:
        yield "\n".join(["", git_stays(undone), "", "```", *undone.git, "```"])


COMMANDS: Final[Mapping[str, Command]] = {
    "undo": Command("Restore the files that the last turn changed", "list, force or skip", _undo),
    "context": Command("How full the context is, part by part", "", _context),
    "tools": Command("The tools, and which of them ask first", "", _tools),
    "mcp": Command("The MCP servers, and what they say of their tools; accept them", "accept NAME", _mcp),
    "skills": Command("The skills: instructions for kinds of tasks", "", _skills),
}
