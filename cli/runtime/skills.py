"""The skills of a run or a chat, and the message that calls one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.clean import one_line
from ossia.cli.exits import ExitError
from ossia.cli.words import count
from ossia.tools.folder import Folder
from ossia.tools.skills import Skill, Skills, find_skills

_SHOWN = 8


def skills_of(folder: Folder | None) -> Skills:
    """The user's skills, and those of a trusted workspace."""
    return find_skills(paths.host().home, folder.brought if folder else None)


def skill_named(name: str, skills: Skills, *, of: str = "--skill") -> Skill:
    """The skill of this name. Raises ExitError with the nearest name, or the reason why it isn't used; `of` begins it.

    `--skill` takes only what the user may call.
    """
    if (skill := skills.find(name)) is not None:
        if of == "--skill" and not skill.for_user:
            raise ExitError(f"--skill {name}: only the model uses it (user-invocable: false in {skill.path})")
        return skill
    if why := next((line for line in skills.skipped if f"/{name}/" in line), ""):
        raise ExitError(f"{of}: {why}")
    known = [skill.name for skill in skills if skill.for_user or of != "--skill"]
    near = "".join(f": did you mean {one}?" for one in get_close_matches(name, known, n=1))
    names = f"{', '.join(known[:_SHOWN])}{', …' if len(known) > _SHOWN else ''}"
    names = names or "none here; --workspace DIR reads a project's"
    raise ExitError(f"{of}: there is no skill {one_line(name, 80)!r}{near} ({names}; `ossia skills list`)")


def with_skill(said: UserText, text: str) -> UserText:
    """The user's words with the skill's text behind what they typed, before anything attached."""
    whole = f"{said.typed}\n\n{text}{said.text.removeprefix(said.typed)}"
    return replace(said, text=whole, taints=said.taints | {"private"})


def few(lines: Iterable[str]) -> list[str]:
    """The first three lines, and how many more there are."""
    first, rest = [*lines][:3], [*lines][3:]
    return [*first, *([f"{count(len(rest), 'more skill')} not used: `ossia skills list` says why"] if rest else [])]
