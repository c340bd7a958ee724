"""`ossia skills`: the skills of the user and of a workspace."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ossia.cli import paths
from ossia.cli.commands import Json, exit_error, group, writing
from ossia.cli.settings.table import option
from ossia.cli.streams import say, shown

if TYPE_CHECKING:
    from ossia.tools.skills import Skills

VERSION = 1
"""The version of what `--json` prints."""

_TEMPLATE = """---
name: {name}
description: Say in a line what it does. Use it when … (the model reads this line to choose).
argument-hint: "[file]"
# metadata:              # options of `ossia run -t {name}`
#   ossia-effort: low
#   ossia-tools: none
---

Write here what to do, step by step, and what the answer must look like.

It is about $ARGUMENTS.
"""

app = group(
    """List, show, make or edit skills.

    A skill has instructions for a kind of task, in a folder with a SKILL.md.

    Yours lie in ~/.agents/skills; those of a folder that you trust in its .agents/skills and
    .claude/skills (`--workspace DIR`).
    """
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `list` prints it.")]
Workspace = Annotated[str | None, option("workspace", help_="A folder with skills of its own.")]
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
    name: Name,
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


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and hyphens: code-review.")],
    workspace: Workspace = None,
) -> None:
    """Make a skill from a template: yours, or one of a workspace. Prints the path of its file."""
    path, there = _file("new", name, workspace)
    more = f" --workspace {shlex.quote(workspace)}" if workspace else ""
    if there:
        raise exit_error(f"skills new: {path} is there already: ossia skills edit {name}{more}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_TEMPLATE.format(name=name))
    print(shown(str(path)))
    say(f"write it: ossia skills edit {name}{more}; then use it: ossia run -t {name}{more} …")


@app.command()
def edit(name: Name, workspace: Workspace = None) -> None:
    """Open a skill in your editor ($VISUAL, $EDITOR), and check it afterwards."""
    from ossia.cli.runtime.skills import require_usable
    from ossia.cli.terminal.input.external import EditorFailed, edit_file
    from ossia.tools.import_path import environment_for
    from ossia.tools.skills import read_skill
    from ossia.tools.spec import ToolFailed

    path, there = _file("edit", name, workspace)
    if not there:
        raise exit_error(f"skills edit: {path} doesn't exist: `ossia skills list` shows yours, `new` makes one")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise exit_error(f"skills edit: there is no terminal for an editor: the file is {path}")
    try:
        edit_file(path, environ=environment_for(None, os.environ))
        require_usable(read_skill(path))
    except EditorFailed as error:
        raise exit_error(f"skills edit: {error}") from None
    except ToolFailed as error:
        raise exit_error(f"{path}: {error}") from None


def _file(of: str, name: str, workspace: str | None) -> tuple[Path, bool]:
    """The skill's file, links followed, and True if it exists. Raises ExitError, also for a link out of its folder."""
    from ossia.tools.safe_files import locate
    from ossia.tools.skills import FILE, OF_USER, OF_WORKSPACE, is_name
    from ossia.tools.spec import ToolFailed

    if not is_name(name):
        raise exit_error(f"skills {of}: must be small letters, digits and single hyphens, as code-review, not {name!r}")
    own = paths.host().home / OF_USER
    root, folders = (paths.expanded(workspace), OF_WORKSPACE) if workspace else (own, (".",))
    if not workspace:
        with writing(own):
            own.mkdir(parents=True, exist_ok=True)
    elif not paths.is_folder(root):
        raise exit_error(f"skills {of}: folder {root} doesn't exist")
    try:
        places = [locate(root.resolve(), f"{folder}/{name}/{FILE}") for folder in folders]
    except (ToolFailed, OSError) as error:
        raise exit_error(f"skills {of}: {str(error).removeprefix('Error: ').partition('. ')[0]}") from None
    place = next((place for place in places if place.kind != "missing"), places[0])
    return root.resolve() / place.name, place.kind != "missing"


def _found(workspace: str | None, trust: bool | None) -> Skills:
    from ossia.cli.runtime.skills import skills_of
    from ossia.cli.settings.workspace import resolve_with_folder

    resolved, folder = resolve_with_folder({"workspace": workspace, "trust": trust})
    for warning in resolved.warnings:
        say(warning)
    return skills_of(folder)
