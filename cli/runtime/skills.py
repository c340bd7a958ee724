"""The skills of a run or a chat, and the message that calls one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.clean import one_line
from ossia.cli.exits import ExitError
from ossia.cli.runtime.schema import read_schema
from ossia.cli.settings.config import BY_SKILL, Resolved, checked
from ossia.cli.words import count
from ossia.tools.calls.names import BUILT_IN
from ossia.tools.folder import Folder
from ossia.tools.skills import FILE, OF_WORKSPACE, Skill, Skills, find_skills, is_name

_SHOWN = 8
_OPTIONS = ("effort", "model", "tools", "schema")
_FAMILIES = tuple(dict.fromkeys(name.partition(".")[0] for name in BUILT_IN))
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}(?<!\.gguf)", re.IGNORECASE)


def skills_of(folder: Folder | None) -> Skills:
    """The user's skills, and those of a trusted workspace."""
    return find_skills(paths.host().home, folder.brought if folder else None)


def skill_named(name: str, skills: Skills, *, of: str = "--skill", folder: Folder | None = None) -> Skill:
    """The skill of this name. Raises ExitError with the nearest name, or the reason why it isn't used; `of` begins it.

    `--skill` takes only what the user may call.
    """
    if (skill := skills.find(name)) is not None:
        if of == "--skill" and not skill.for_user:
            raise ExitError(f"--skill {name}: only the model uses it (user-invocable: false in {skill.path})")
        return skill
    if why := next((line for line in skills.skipped if f"/{name}/" in line), ""):
        raise ExitError(f"{of}: {why}")
    if folder and not folder.workspace.trusted and _has(folder.workspace.root, name):
        raise ExitError(f"{of} {name}: the skills of {folder.workspace.root} aren't read until you trust it: "
                        "`ossia trust DIR`, or --trust for this run")  # fmt: skip
    known = [skill.name for skill in skills if skill.for_user or of != "--skill"]
    near = "".join(f": did you mean {one}?" for one in get_close_matches(name, known, n=1))
    names = f"{', '.join(known[:_SHOWN])}{', …' if len(known) > _SHOWN else ''}"
    names = f"there are {names}" if names else "none here; --workspace DIR reads a project's"
    raise ExitError(f"{of}: there is no skill {one_line(name, 80)!r}{near} ({names}; `ossia skills list`)")


def _has(root: Path, name: str) -> bool:
    return is_name(name) and any((root / folder / name / FILE).exists() for folder in OF_WORKSPACE)


def with_options(resolved: Resolved, skill: Skill, *, schema: bool) -> tuple[Resolved, str]:
    """The settings with the skill's own options, and these in words: `"effort high, tools none"`.

    A flag or a variable wins over them, they win over the files. Tools are only taken away. `schema`: a flag names
    one; the skill's is read by `cli.runtime.schema`. Raises ExitError for a value that can't be used, or that names
    more than a skill may bring.
    """
    given = {key: _checked(key, value, option_of(skill, key)) for key, value in skill.options.items()}
    by_user = {key for key, by in resolved.origins.items() if by != "default" and not by.startswith("file ")}
    by_user |= {"tools"} if "no_tools" in by_user else set()
    by_user |= {"schema"} if schema else set()
    given = {key: value for key, value in given.items() if key not in by_user}
    made = {key: value for key, value in given.items() if key in ("effort", "model")}
    tools = given.get("tools")
    changed = replace(
        resolved,
        settings=replace(resolved.settings, **made),  # type: ignore[arg-type]
        origins={**resolved.origins, **dict.fromkeys(made, f"{BY_SKILL}{skill.name}")},
        only=None if tools is None else tuple(name for name in tools.split(", ") if name != "none"),
    )
    return changed, ", ".join("a schema" if key == "schema" else f"{key} {value}" for key, value in given.items())


def require_usable(skill: Skill) -> None:
    """Raises ExitError, one line, for a skill whose own options can't be used."""
    for key, value in skill.options.items():
        _checked(key, value, option_of(skill, key))
        if key == "schema":
            read_schema(value, of=option_of(skill, key), warn=lambda line: None, files=False)


def option_of(skill: Skill, key: str) -> str:
    """The place of an option, for errors: `"/home/me/.agents/skills/review/SKILL.md: metadata: ossia-effort"`."""
    return one_line(f"{skill.path}: metadata: ossia-{key}", 300)


def _checked(key: str, value: str, where: str) -> str:
    """The value as it is used. A model by a name that is also a file here would be that file."""
    match key:
        case "effort":
            return str(checked(key, one_line(value, 80), where))
        case "model" if _MODEL.fullmatch(value) and not Path(value).is_file():
            return value
        case "model":
            expected = "a model's name, as gpt-oss-20b, no file and no address"
        case "tools":
            names = [name.strip().removesuffix(".*") for name in value.split(",")]
            if names == ["none"] or all(name in (*_FAMILIES, *BUILT_IN) for name in names):
                return ", ".join(names)
            expected = f"none, or some of {', '.join(_FAMILIES)} and their tools (repo_browser.search)"
        case "schema" if value:
            return value
        case "schema":
            expected = "a JSON Schema behind `|`"
        case _:
            raise ExitError(f"{where}: isn't an option of a skill: these are ossia-{', ossia-'.join(_OPTIONS)}")
    raise ExitError(f"{where}: must be {expected}, not {one_line(value, 80)!r}")


def with_skill(said: UserText, text: str) -> UserText:
    """The user's words with the skill's text behind what they typed, before anything attached."""
    whole = f"{said.typed}\n\n{text}{said.text.removeprefix(said.typed)}"
    return replace(said, text=whole, taints=said.taints | {"private"})


def few(lines: Iterable[str]) -> list[str]:
    """The first three lines, and how many more there are."""
    first, rest = [*lines][:3], [*lines][3:]
    return [*first, *([f"{count(len(rest), 'more skill')} not used: `ossia skills list` says why"] if rest else [])]
