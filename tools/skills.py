"""Skills: folders with a SKILL.md, instructions for a kind of task, in the format of agentskills.io.

Those of a workspace count once the user trusts it, as it was then; the user's own lie in `~/.agents/skills`. The prompt
names them, the model or the user reads the rest when it is needed. A field that would permit something
(`allowed-tools`) or run something permits and runs nothing; `metadata: ossia-…` are options of `ossia run --skill`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ossia.tools.names import escaped
from ossia.tools.safe_files import locate, opened_folder, read_bytes
from ossia.tools.spec import ToolFailed
from ossia.tools.text import one_line, readable

if TYPE_CHECKING:
    from ossia.tools.approval.trust import Offer

FILE = "SKILL.md"
OF_WORKSPACE = (".agents/skills", ".claude/skills")
"""Their folders in a workspace; of two skills with one name the first one counts."""
OF_USER = ".agents/skills"
"""Their folder in the user's home."""
READER = "repo_browser.open_file"
MAX_TOKENS, SHARE = 1_500, 0.02
"""The most that the prompt says about skills: tokens, and of the context."""

_MAX_FILE_BYTES, _MAX_BYTES, _MAX_FOLDERS = 64 << 10, 4 << 20, 1_000
_MAX_FRONT_CHARS = 8_192
_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONT = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_PLAIN_VALUE = re.compile(r"^([ \t]*[\w-]+):[ \t]+([^\s\"'>|\[{&*!].*)$", re.MULTILINE)
_HEAD = (
    "Skills are the user's own instructions for some tasks. Before a task that one fits, read its file with "
    f"{READER} and follow it, although a tool shows it; paths in it are relative to its folder:"
)
_CALLED = "Follow the skill"
_GIVEN = re.compile(r"\$(ARGUMENTS|input)(?![A-Za-z0-9_])")
_OPTION = "ossia-"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. `name` is its folder's, `description` one clean line.

    `path`: of its file, as the model opens it, `".agents/skills/pdf/SKILL.md"`; absolute if it is the `user`'s own.
    `body` is the text behind the front matter, `hint` the arguments in words. `for_user`: the user may call it;
    `for_model`: the prompt may name it. `options`: those in its `metadata`, unchecked: `{"effort": "high"}`.
    """

    name: str
    description: str
    path: str
    body: str
    of: Literal["workspace", "user"] = "workspace"
    hint: str = ""
    for_user: bool = True
    for_model: bool = True
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The folder of its file."""
        return self.path[: -len(FILE) - 1]

    @property
    def takes_input(self) -> bool:
        """True if its text has a place for what is piped in, `$input`."""
        return "input" in _GIVEN.findall(self.body)

    def called(self, arguments: str, piped: str = "") -> str:
        """The text for the model, to stand behind the user's `/pdf arguments`. What is filled in stays as it is."""
        given = {"ARGUMENTS": arguments, "input": piped}
        body = _GIVEN.sub(lambda found: given[found[1]], self.body)
        more = f"\n\nARGUMENTS: {arguments}" if arguments and "ARGUMENTS" not in _GIVEN.findall(self.body) else ""
        return f"{_CALLED} {self.name}; paths in it are relative to {self.folder}:\n\n{body}{more}"

    @staticmethod
    def is_called(text: str, typed: str) -> bool:
        """True for a message that begins with the user's `typed` call of a skill."""
        return text.removeprefix(typed).startswith(f"\n\n{_CALLED} ")


@dataclass(frozen=True, slots=True)
class Skills:
    """All skills, the workspace's first, by name. `skipped`: a clean line for each that isn't used, and why."""

    every: tuple[Skill, ...] = ()
    skipped: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.every)

    def find(self, name: str) -> Skill | None:
        """The skill of this name."""
        return next((skill for skill in self.every if skill.name == name), None)

    def in_prompt(self, count_tokens: Callable[[str], int], context_tokens: int) -> str:
        """The part of the prompt about skills, a line for each that has room, the others counted; "" for none."""
        room = most = room_for_skills(context_tokens)
        offered = [skill for skill in self.every if skill.for_model]
        lines: list[str] = []
        room -= count_tokens(_text([], len(offered)))
        for skill in offered:
            line = f"- {skill.name}: {skill.description} ({skill.path})"
            if (tokens := count_tokens(f"{line}\n")) <= room:
                lines.append(line)
                room -= tokens
        while lines and count_tokens(_text(lines, len(offered))) > most:  # lines together may take a token more
            lines.pop()
        return _text(lines, len(offered)) if lines else ""


NO_SKILLS = Skills()


def room_for_skills(context_tokens: int) -> int:
    """The most tokens that skills take in the prompt: 2 % of the context, and at most 1,500."""
    return min(MAX_TOKENS, int(SHARE * context_tokens))


def _text(lines: list[str], of: int) -> str:
    left = of - len(lines)
    more = [f"{left} more {'skill has' if left == 1 else 'skills have'} no room here; the user can call them."]
    return "\n".join([_HEAD, *lines, *(more if left else [])])


def find_skills(home: Path | None, brought: Offer | None) -> Skills:
    """The user's skills and those that a trusted workspace brought. Reads `~/.agents/skills`; nothing is run.

    find_skills(Path("/home/me"), None).find("pdf").path      # "/home/me/.agents/skills/pdf/SKILL.md"
    """
    skipped = list(brought.skipped) if brought else []
    found: dict[str, tuple[Skill, bytes]] = {}
    for shown, path, of, data in (*_of_workspace(brought), *_of_user(home, skipped)):
        name = shown.rsplit("/", 2)[1]
        if name not in found:
            try:
                found[name] = _parsed(name, path, data, of), data
            except _Broken as error:
                skipped.append(f"{shown}: {error}")
        elif found[name][1] != data:
            skipped.append(f"{shown}: {found[name][0].path} has the same name and is used")
    skills = sorted((skill for skill, _ in found.values()), key=lambda skill: (skill.of == "user", skill.name))
    return Skills(tuple(skills), tuple(f"skill not used: {one_line(line, 300)}" for line in skipped))


def read_skills(root: Path, folders: Sequence[str]) -> tuple[Mapping[str, bytes], list[str]]:
    """The bytes of each `FOLDER/*/SKILL.md` by name, and a raw line about each that can't be used.

    Links are followed inside `root`. At most 64 KiB of a file and 4 MiB in all are read.
    """
    files: dict[str, bytes] = {}
    problems: list[str] = []
    seen: set[str] = set()
    left = _MAX_BYTES
    for folder in folders:
        for name in _names(root, folder, seen, problems):
            file = f"{folder}/{name}/{FILE}".removeprefix("/")
            try:
                place = locate(root, file)
                if place.kind == "missing" or place.name in seen:
                    continue
                if not _NAME.fullmatch(name):
                    raise ToolFailed("its folder's name must be small letters, digits and single hyphens: code-review")
                seen.add(place.name)
                files[file] = read_bytes(root, place.name, max_bytes=min(_MAX_FILE_BYTES, left)).data
                left -= len(files[file])
            except (ToolFailed, OSError) as error:
                problems.append(f"{escaped(file)}: {_why(error, file)}")
    return files, problems


def is_name(name: str) -> bool:
    """True for what a skill may be called: `code-review`."""
    return _NAME.fullmatch(name) is not None


def read_skill(path: Path) -> Skill:
    """The skill in the user's file. Raises ToolFailed, in one sentence, for one that can't be used.

    read_skill(Path("/home/me/.agents/skills/pdf/SKILL.md")).name     # "pdf"
    """
    try:
        data = read_bytes(path.parent, FILE, max_bytes=_MAX_FILE_BYTES).data
        return _parsed(path.parent.name, str(path), data, "user")
    except (ToolFailed, OSError) as error:
        raise ToolFailed(_why(error, FILE)) from None
    except _Broken as error:
        raise ToolFailed(str(error)) from None


_Found = tuple[str, str, Literal["workspace", "user"], bytes]
"""Its path for people, its path for the model, whose it is, its bytes."""


def _of_workspace(brought: Offer | None) -> Iterator[_Found]:
    files = brought.files if brought else {}
    for folder in OF_WORKSPACE:
        for name, data in files.items():
            if name.startswith(f"{folder}/") and name.endswith(f"/{FILE}"):
                yield name, name, "workspace", data


def _of_user(home: Path | None, problems: list[str]) -> Iterator[_Found]:
    own, shown = home and home / OF_USER, f"~/{OF_USER}"
    if own is None or not os.path.isdir(own):  # noqa: PTH112  # no error for a home that can't be looked into
        return
    read, found = read_skills(own := own.resolve(), ("",))
    problems += [f"{shown}/{problem}" for problem in found]
    for name, data in read.items():
        yield f"{shown}/{name}", str(own / name), "user", data


def _names(root: Path, folder: str, seen: set[str], problems: list[str]) -> list[str]:
    try:
        place = locate(root, folder)
        if place.kind != "folder" or place.name in seen:
            return []
        seen.add(place.name)
        with opened_folder(root, place.name) as descriptor:
            names = sorted(name for name in os.listdir(descriptor) if not name.startswith("."))  # noqa: PTH208
    except (ToolFailed, OSError) as error:
        problems.append(f"{folder}: {_why(error, folder)}")
        return []
    if len(names) > _MAX_FOLDERS:
        problems.append(f"{folder}: has {len(names):,} entries, and only the first {_MAX_FOLDERS:,} are looked at")
    return names[:_MAX_FOLDERS]


def _why(error: Exception, name: str) -> str:
    """The first sentence of an error about `name`: what follows it is advice for a model."""
    said = str(error).removeprefix("Error: ").removeprefix(f"{name!r} ")
    return said.partition(". ")[0].rstrip(".").replace("the workspace", "its folder")


class _Broken(Exception):
    """A file that isn't a skill. The message says why, and what is expected."""


def _parsed(name: str, path: str, data: bytes, of: Literal["workspace", "user"]) -> Skill:
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    front = _FRONT.match(text)
    if front is None or len(front[1]) > _MAX_FRONT_CHARS:
        raise _Broken(f"must begin with front matter between two lines of ---, at most {_MAX_FRONT_CHARS:,} characters")
    fields = _fields(front[1])
    described = fields.get("description")
    description = one_line(described, 1_024) if isinstance(described, str) else ""
    if not description:
        raise _Broken("its front matter must have a description: a line on what it does, and when to use it")
    hint = fields.get("argument-hint")
    return Skill(
        name,
        description,
        path,
        readable(text[front.end() :]).strip(),
        of,
        one_line(hint, 60) if isinstance(hint, str) else "",
        for_user=fields.get("user-invocable") != "false",
        for_model=fields.get("disable-model-invocation") != "true",
        options=_options(fields.get("metadata")),
    )


def _options(metadata: object) -> Mapping[str, str]:
    """The `ossia-…` of the metadata; "" for a value that is no text."""
    named = metadata.items() if isinstance(metadata, dict) else ()
    return {
        key.removeprefix(_OPTION): value.strip() if isinstance(value, str) else ""
        for key, value in named
        if isinstance(key, str) and key.startswith(_OPTION)
    }


def _fields(front: str) -> Mapping[str, Any]:
    """The front matter. Values with a colon but no quotes, which other agents' skills have, are taken as they stand."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # every scalar stays a string; no tag makes anything else
    quoted = _PLAIN_VALUE.sub(lambda found: f"{found[1]}: {json.dumps(found[2].rstrip(), ensure_ascii=False)}", front)
    for text in (front, quoted):
        with suppress(yaml.YAMLError, RecursionError):
            fields = yaml.load(text, Loader=loader)
            if isinstance(fields, dict):
                return fields
    raise _Broken("its front matter isn't YAML: one `key: value` in each line is expected")
