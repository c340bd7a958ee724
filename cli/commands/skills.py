"""`ossia skills`: the skills of the user and of a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ossia.cli.commands import Json, group
from ossia.cli.settings.table import option
from ossia.cli.streams import say, shown

if TYPE_CHECKING:
    from ossia.tools.skills import Skills

VERSION = 1
"""The version of what `--json` prints."""

app = group(
    """List and show skills: instructions for kinds of tasks, in folders with a SKILL.md.

    Yours lie in ~/.agents/skills; those of a folder that you trust in its .agents/skills and
    .claude/skills (`--workspace DIR`).
    """
)

Workspace = Annotated[str | None, option("workspace")]
Trust = Annotated[bool | None, option("trust")]


@app.command("list")
def list_(workspace: Workspace = None, trust: Trust = None, json: Json = False) -> None:
    """Print the skills, those of the workspace first: name, size, file, description."""
    from ossia.agent.models.memory import size_text
    from ossia.cli.clean import one_line
    from ossia.cli.words import bytes_of, json_line

    found = _found(workspace, trust)
    if json:
        every = [
            {"name": one.name, "description": one.description, "path": one.path, "from": one.of, "hint": one.hint,
             "user_invocable": one.for_user, "model_invocable": one.for_model, "bytes": bytes_of(one.body),
             "options": dict(one.options)}
            for one in found
        ]  # fmt: skip
        print(json_line({"version": VERSION, "skills": every, "skipped": list(found.skipped)}))
        return
    for line in found.skipped:
        say(line)
    if not found.every:
        say("there are no skills: yours go into ~/.agents/skills/NAME/SKILL.md; --workspace DIR reads a project's")
        return
    width = max(len(one.name) for one in found)
    for one in found:
        size = size_text(bytes_of(one.body))
        print(shown(f"{one.name:<{width}}  {size:>8}  {one.path}"))
        print(shown(f"{'':<{width}}  {one_line(one.description)}"))


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `list` prints it.")],
    workspace: Workspace = None,
    trust: Trust = None,
    json: Json = False,
) -> None:
    """Print the instructions of a skill."""
    from ossia.cli.clean import one_line
    from ossia.cli.runtime.skills import skill_named
    from ossia.cli.words import json_line

    skill = skill_named(name, _found(workspace, trust), of="skills show")
    if json:
        about = {"name": skill.name, "path": skill.path, "options": dict(skill.options), "text": skill.body}
        print(json_line({"version": VERSION, **about}))
        return
    print(shown(skill.body))
    say(f"{skill.path}: {skill.description}")
    for key, value in skill.options.items():
        say(one_line(f"ossia-{key}: {value}"))


def _found(workspace: str | None, trust: bool | None) -> Skills:
    from ossia.cli.runtime.skills import skills_of
    from ossia.cli.settings.workspace import resolve_with_folder

    resolved, folder = resolve_with_folder({"workspace": workspace, "trust": trust})
    for warning in resolved.warnings:
        say(warning)
    return skills_of(folder)
