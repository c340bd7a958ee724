"""/skills, and `/NAME arguments`, which calls a skill."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ossia.cli.chat.commands.common import Block, Choice, no_argument
from ossia.cli.clean import one_line
from ossia.cli.terminal.input.typed import Typed
from ossia.cli.words import count
from ossia.tools.skills import OF_WORKSPACE, READER, Skill, room_for_skills

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

_HELP_CHARS = 50


def call(talk: Chat, typed: Typed) -> Typed | None:
    """The line with the text of its skill; None: it isn't a call of one."""
    name = re.split(r"\s", typed.shown[1:], maxsplit=1)[0]
    skill = next((one for one in _callable(talk) if one.name == name), None)
    return replace(typed, skill=skill.called(typed.text[1 + len(name) :].strip())) if skill else None


def choices(talk: Chat) -> Sequence[Choice]:
    """The calls of skills, each with what it does: `("/review", "[file] review the changes")`."""
    return [(f"/{one.name}", one_line(f"{one.hint} {one.description}", _HELP_CHARS)) for one in _callable(talk)]


def skills(talk: Chat, face: Face, argument: str) -> None:
    """`/skills`: all skills, their sizes, and the reason why one isn't in the prompt or can't be called."""
    no_argument(argument)
    talk.read_skills()
    found, callable_ = talk.skills, _callable(talk)
    block = Block(face, f"Skills: {_summary(talk)}" if found.every else "There are no skills")
    for skill in found:
        marks = [f"{talk.loaded.tools.counter(skill.body):,} tokens"] if talk.loaded else []
        block.item(f"  {'/' if skill in callable_ else ''}{skill.name} {skill.hint}".rstrip())
        block.item(f"    {', '.join([skill.path, *marks, *_remarks(talk, skill)])}", "dim")
        block.row(f"    {skill.description}", "dim")
    for line in found.skipped:
        block.item(f"  {line}", "yellow")
    if folder := _unread(talk):
        block.item(f"  the skills of {folder} aren't read until you trust it: /tools trust", "yellow")
    elif not found.every:
        block.item("  a skill is a folder with a SKILL.md, in ~/.agents/skills or a workspace's .agents/skills", "dim")
    block.show()


def show(face: Face, skill: Skill) -> None:
    """`/help NAME` for a skill."""
    block = Block(face, f"/{skill.name} {skill.hint}".rstrip())
    block.item(f"  {skill.description}")
    block.item(f"  {skill.path}", "dim")
    block.show()


# -- within ------------------------------------------------------------------------------------------------------------


def _callable(talk: Chat) -> list[Skill]:
    from ossia.cli.chat.commands.table import find

    return [skill for skill in talk.skills if skill.for_user and find(skill.name) is None]


def _summary(talk: Chat) -> str:
    every, named = talk.skills.every, [skill for skill in talk.skills if _is_named(talk, skill)]
    if not talk.loaded or not named:
        return f"{len(every)}; the prompt lists none of them"
    tokens = talk.loaded.tools.counter(talk.session.skills)
    most = room_for_skills(talk.loaded.model.engine.context_tokens)
    return f"{len(every)}; the prompt lists {len(named)} of them ({tokens:,} of at most {count(most, 'token')})"


def _unread(talk: Chat) -> str:
    """The name of a workspace with skills that isn't trusted; else ""."""
    work = talk.folder.workspace if talk.folder else None
    if work is None or work.trusted or not any((work.root / name).exists() for name in OF_WORKSPACE):
        return ""
    return work.root.name


def _is_named(talk: Chat, skill: Skill) -> bool:
    on = talk.loaded is not None and READER in talk.loaded.tools.toolbox.by_name
    return on and f" ({skill.path})" in talk.session.skills


def _remarks(talk: Chat, skill: Skill) -> list[str]:
    from ossia.cli.chat.commands.table import find

    remarks = []
    if not skill.for_model:
        remarks.append("only you call it")
    elif talk.folder and talk.loaded and not _is_named(talk, skill):
        remarks.append("no room in the prompt")
    if not skill.for_user:
        remarks.append("only the model uses it")
    elif find(skill.name):
        remarks.append(f"/{skill.name} is a command of the chat, which wins")
    return remarks
