"""Questions of an exam whose tools can really be had: the files they are about, functions that give what they should.

question = make_question(prefix, dialogue, today)        # None: not to be had
flags = question.prepare(folder)                        # writes what it needs; ["--tools", "/tmp/…/functions.py"]
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.etude.dialogues import Dialogue
from tests.etude.exam.failures import parsed
from tests.etude.prompts import Prefix

_MESSAGE = re.compile(
    r"<\|channel\|>\w+(?: to=([\w.]+))?(?: code| <\|constrain\|>json)?<\|message\|>(.*?)<\|", re.DOTALL
)
_FORMED = re.compile(r"<returncode>0</returncode>\n<output>\n(.*?)\n?</output>\ncwd: .*", re.DOTALL)
_NEW_KERNEL = re.compile(r"\[WARN\] this is a new kernel[^\n]*\n")
_FAILED = ("The tool failed", "Python failed", "Error")
_TYPES = {str: "str", bool: "bool", int: "int", float: "float", list: "list[str]"}
_DEFAULTS = {"number": "int = 0", "boolean": "bool = False"}
_OPTIONAL = re.compile(r"^(\w+)\?: ([^,\n]+),", re.MULTILINE)
_AT_THE_START = ("/", "!", "-")
"""What a chat or a command line takes for something else than a question."""

Call = tuple[str, object]
"""Whom it is for, and its arguments: JSON by its value, code as it stands."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, which call should come, and the answer if the tool says `result`.

    `about` is what the prompt says of a function, `spare` its parameters that nobody has to give: `"format": '"c"'`.
    """

    skill: str
    text: str
    calls: tuple[Call, ...]
    result: str
    answer: str
    about: str = ""
    spare: Mapping[str, str] = field(default_factory=dict)

    def right_answer(self, result: str) -> str:
        """The answer that follows from what the tool really said."""
        said = payload(result)
        return self.answer.replace(self.result, said) if self.result and said else self.answer

    def prepare(self, folder: Path) -> list[str]:
        """Make what the call needs in this folder, and tell the flags that turn it on."""
        if not self.calls:
            return ["--no-tools"]
        name, arguments = self.calls[0]
        if name == "python":
            return ["--tools", "python"]
        assert isinstance(arguments, dict)
        if name.startswith("functions."):
            path = folder / "functions.py"
            path.write_text(self._source(name.removeprefix("functions."), arguments), encoding="utf-8")
            return ["--tools", str(path)]
        work = folder / "work"
        work.mkdir()
        _fill(work, name.removeprefix("repo_browser."), arguments, self.result)
        return ["--workspace", str(work), "--allow", "repo_browser.apply_patch"]

    def _source(self, name: str, arguments: dict[str, object]) -> str:
        given = [f"{one}: {_TYPES[type(value)]}" for one, value in arguments.items()]
        spare = [f"{one}: {kind}" for one, kind in self.spare.items() if one not in arguments]
        head = f"from typing import Literal\n\n\ndef {name}({', '.join([*given, *spare])}) -> str:"
        return f"{head}\n    {self.about!r}\n    return {self.result!r}\n"


def make_question(prefix: Prefix, dialogue: Dialogue, today: str) -> Question | None:
    """The dialogue's; None if its world can't be made, or if it has several turns or calls, or a tool that fails.

    Where the answer has the date of the prompt, it is to be today's.
    """
    said = [found for text, ours in dialogue.segments if ours for found in _MESSAGE.findall(text)]
    calls = tuple((name, arguments_of(name, text)) for name, text in said if name)
    results = [text for text, ours in dialogue.segments if not ours and " to=assistant<" in text]
    (_, answer), (turn, *more) = said[-1], dialogue.user_turns
    if more or len(calls) > 1 or len(results) != len(calls) or turn.startswith(_AT_THE_START) or "@" in turn:
        return None
    if "\n" in turn or answer.startswith(_FAILED) or dialogue.kind == "tools":
        return None
    result = payload(results[0].partition("<|message|>")[2].removesuffix("<|end|>")) if results else ""
    if calls and not _can_be_had(*calls[0], result):
        return None
    declared = _declared(prefix, calls[0][0]) if calls else ("", {})
    return Question(dialogue.skill, turn, calls, result, answer.replace(prefix.date, today), *declared)


def _declared(prefix: Prefix, name: str) -> tuple[str, dict[str, str]]:
    """What the prompt says of a function, and its optional parameters as Python has them."""
    name = re.escape(name.removeprefix("functions."))
    found = re.search(
        rf"((?:^//[^\n]*\n)*)type {name} = \((?:_: {{\n(.*?)^}})?\)", prefix.text, re.MULTILINE | re.DOTALL
    )
    if not found:
        return "", {}
    spare = {one: _optional(kind) for one, kind in _OPTIONAL.findall(found[2] or "") if one.isidentifier()}
    return found[1].replace("// ", "").strip(), spare


def _optional(kind: str) -> str:
    if kind.startswith('"'):
        first, *_ = choices = kind.split(" | ")
        return f"Literal[{', '.join(choices)}] = {first}"
    return _DEFAULTS.get(kind, "str = ''")


def payload(result: str) -> str:
    """What a tool said, without what stands around it: `<returncode>`, the word that a kernel is new."""
    formed = _FORMED.fullmatch(result)
    return formed[1] if formed else _NEW_KERNEL.sub("", result)


def arguments_of(name: str | None, text: str) -> object:
    """A call's: the code of `python`, or what the JSON says."""
    return text if name == "python" else parsed(text)


def _can_be_had(name: str, arguments: object, result: str) -> bool:
    family, _, function = name.partition(".")
    if family == "python":
        return not result.startswith("---")
    if not isinstance(arguments, dict) or result.startswith("<returncode>"):
        return False
    if family == "functions":
        return all(one.isidentifier() and not keyword.iskeyword(one) for one in (function, *arguments)) and all(
            type(value) in _TYPES for value in arguments.values()
        )
    path = PurePosixPath(str(arguments.get("path", "")))
    return family == "repo_browser" and not path.is_absolute() and ".." not in path.parts


def _fill(work: Path, function: str, arguments: dict[str, object], result: str) -> None:
    path, lines = work / str(arguments.get("path", "")), result.split("\n")
    if function == "open_file":
        _write(path, result + "\n")
    elif function == "search":
        _found(work, lines)
    elif function in ("list_dir", "print_tree"):
        path.mkdir(parents=True, exist_ok=True)
        _grow(path, lines)


def _grow(folder: Path, lines: Sequence[str]) -> None:
    """Files and folders as a listing has them; two blanks more are a level deeper."""
    above = [folder]
    for line in lines:
        name = line.strip()
        depth = (len(line) - len(line.lstrip())) // 2
        path = above[depth] / name
        above[depth + 1 :] = [path]
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        elif name:
            _write(path, "\n")


def _found(work: Path, lines: Iterable[str]) -> None:
    """Files that have these lines: `src/a.txt:3:blue harbor`."""
    texts: dict[str, dict[int, str]] = {}
    for line in lines:
        name, number, text = [*line.split(":", 2), "", ""][:3]
        if number.isdigit():
            texts.setdefault(name, {})[int(number)] = text
    for name, numbered in texts.items():
        _write(work / name, "".join(f"{numbered.get(at, '')}\n" for at in range(1, max(numbered) + 1)))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
