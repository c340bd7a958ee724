"""Work in a folder, with the tools that gpt-oss was trained with or through other people's functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ossia.tools.work._folder import count
from ossia.tools.work.result import TIMED_OUT, formed
from tests.etude.declared import PURPOSES, Usual
from tests.etude.prompts import Prefix
from tests.etude.said import Segment, answers, asks, calls, compact, denied, failed, question, runs
from tests.etude.words.values import Values

Task = Literal["list", "tree", "read", "grep", "shell", "write"]

TASKS: tuple[Task, ...] = get_args(Task)
_HERE = "."
_FILE = re.compile(r"\b(file|read|cat|less|text|lines|words|says?)\b", re.IGNORECASE)
_TIMED_OUT = (
    "[ERROR] timed out after {} s: the command and all it started were ended; a longer `timeout` can be given, at most "
    "600000"
)
_REFUSALS: Mapping[Task, tuple[str, str]] = {
    "list": ("No file tool.", "I can't list files without a file tool."),
    "tree": ("No file tool.", "I can't show a tree without a file tool."),
    "read": ("No file tool.", "I can't read files without a file tool."),
    "grep": ("No file tool.", "I can't search files without a file tool."),
    "write": ("No file tool.", "I can't write files without a file tool."),
    "shell": ("No shell tool.", "I can't run commands without a shell tool."),
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is wanted of a trained tool. `subject`: the path, file or command; another's function takes that alone."""

    said: list[Segment]
    tool: str
    arguments: Mapping[str, object]
    subject: str
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Told:
    """What a tool gives, and what the assistant makes of it."""

    output: str
    thought: str
    answer: str
    status: int = 0


def files(values: Values, prefix: Prefix, task: Task | None = None) -> tuple[list[Segment], str]:
    """`Read notes.txt.` → the call → `The file says: …`, and the like for folders, searches, commands, new files."""
    chosen = values.one(TASKS) if task is None else task
    ask, tell = _LESSONS[chosen]
    asked = ask(values)
    usual = next((prefix.named[one] for one in PURPOSES if one == chosen and one in prefix.named), None)
    if prefix.has_shell if chosen == "shell" else prefix.has_files:
        made = _worked(values, asked, lambda: tell(values, asked))
    elif usual:
        made = _elsewhere(values, usual, asked, lambda: tell(values, asked))
    else:
        made = answers(*_REFUSALS[chosen])
    return asked.said + made, chosen


def _worked(values: Values, asked: _Asked, tell: Callable[[], _Told]) -> list[Segment]:
    """With a trained tool."""
    thought, arguments = f"Use {asked.tool}.", compact(asked.arguments)
    if values.chance(0.1):
        error = values.one((denied(values), *asked.errors, *asked.errors))
        return runs(thought, asked.tool, arguments, error) + failed(error)
    told = tell()
    result = formed(told.output, _root(values), status=told.status)
    return runs(thought, asked.tool, arguments, result) + answers(told.thought, told.answer)


def _elsewhere(values: Values, usual: Usual, asked: _Asked, tell: Callable[[], _Told]) -> list[Segment]:
    """Through a function, which says things in its own way."""
    thought, arguments = f"Use {usual.name}.", {usual.argument: asked.subject}
    if values.chance(0.1):
        error = values.one((
            denied(values), f"Error: no such file or directory: {asked.subject}", f"Error: {values.text(2, 6)}",
            json.dumps({"error": values.text(2, 6)}),
        ))  # fmt: skip
        return calls(thought, usual.name, arguments, error) + failed(error)
    told = tell()
    if told.status:
        output = "\n".join(part for part in (told.output, f"[exit status {told.status}]") if part)
        said = answers("The tool has the output.", f"The output is:\n{output}")
        return calls(thought, usual.name, arguments, output) + said
    nothing = told.output == ""
    output = values.one(("", "[no output]", "(empty)")) if nothing else told.output
    return calls(thought, usual.name, arguments, output) + answers(told.thought, told.answer)


# -- what is asked for -------------------------------------------------------------------------------------------------


def _ask_list(values: Values) -> _Asked:
    folder, said = _folder(values, "list")
    errors = _no_folder(folder)
    return _Asked(said, "repo_browser.list_dir", {"path": folder}, folder, errors)


def _ask_tree(values: Values) -> _Asked:
    folder, said = _folder(values, "tree")
    errors = _no_folder(folder)
    return _Asked(said, "repo_browser.print_tree", {"path": folder, "depth": 2}, folder, errors)


def _folder(values: Values, task: str) -> tuple[str, list[Segment]]:
    """A folder, or the one that the work is in, and the question."""
    here = values.unseen != "values" and values.chance(0.25)
    folder = _HERE if here else _path(values)
    unnamed = here and (values.unseen != "nothing" or values.chance(0.7))
    return folder, asks(values, f"{task} here") if unnamed else asks(values, task, folder)


def _no_folder(folder: str) -> tuple[str, ...]:
    if folder == _HERE:
        return ()
    return (
        f"Error: there is no folder {folder!r}. List one above it.",
        f"Error: {folder!r} is not a folder. Use repo_browser.open_file.",
    )


def _ask_read(values: Values) -> _Asked:
    file = _file(values)
    asked = asks(values, "read", file)
    while "." not in file.rpartition("/")[2] and not _FILE.search(question(asked).replace(file, "")):  # as a folder is
        asked = asks(values, "read", file)
    errors = (
        f"Error: there is no file {file!r}. repo_browser.list_dir shows what is there.",
        f"Error: {file!r} is a folder. Use repo_browser.list_dir.",
    )
    return _Asked(asked, "repo_browser.open_file", {"path": file}, file, errors)


def _ask_grep(values: Values) -> _Asked:
    query = values.identifier() if values.chance(0.7) else values.phrase(1, 2)
    folder = _HERE if values.chance(0.5) else _path(values)
    said = asks(values, "grep here", query) if folder == _HERE else asks(values, "grep", query, folder)
    errors = () if folder == _HERE else (f"Error: there is no {folder!r}. repo_browser.list_dir shows what is there.",)
    return _Asked(said, "repo_browser.search", {"path": folder, "query": query}, query, errors)


def _ask_shell(values: Values) -> _Asked:
    command = _command(values)
    said = asks(values, "shell", command)
    errors = (
        f"Error: the shell is off on this machine: {values.phrase(2, 5)}",
        f"Error: no commands run in this workspace: {values.phrase(2, 5)}. Choose another way",
    )
    return _Asked(said, "container.exec", {"command": ["bash", "-lc", command]}, command, errors)


def _ask_write(values: Values) -> _Asked:
    file, lines = _file(values), [_written(values) for _ in range(values.one((1, 1, 1, 1, 2)))]
    added = "".join(f"+{line}\n" for line in lines)
    patch = f"*** Begin Patch\n*** Add File: {file}\n{added}*** End Patch\n"
    error = f"Error: {file!r} is there already, and nothing was changed. Use '*** Update File:', or another path."
    said = asks(values, "write", file, "\n".join(lines))
    return _Asked(said, "repo_browser.apply_patch", {"patch": patch}, file, (error,))


# -- what comes of it --------------------------------------------------------------------------------------------------


def _tell_list(values: Values, asked: _Asked) -> _Told:
    if values.chance(0.04):
        return _Told("(empty folder)", "The directory is empty.", "There are no files.")
    names = "\n".join(_entries(values, values.several(1, 6)))
    return _Told(names, "The tool has the list.", f"The files are:\n{names}")


def _tell_tree(values: Values, asked: _Asked) -> _Told:
    if values.chance(0.04):
        return _Told("(empty folder)", "The directory is empty.", "There are no files.")
    lines: list[str] = []
    for name in _entries(values, values.several(1, 4)):
        below = _entries(values, values.several(0, 3)) if name.endswith("/") else []
        lines += [name, *(f"  {one}" for one in below)]
    tree = "\n".join(lines)
    return _Told(tree, "The tool has the tree.", f"The tree is:\n{tree}")


def _tell_read(values: Values, asked: _Asked) -> _Told:
    if values.chance(0.04):
        return _Told("", "The file is empty.", "The file is empty.")
    text = "".join(f"{_line(values)}\n" for _ in range(values.one((1, 1, 1, 2, 2, 3))))
    if values.chance(0.08):
        text = text.replace("\n", "\n\n", 1)
    return _Told(text, "The tool has the text.", f"The file says:\n{text}")


def _tell_grep(values: Values, asked: _Asked) -> _Told:
    if values.chance(0.15):
        number = values.several(0, 300)
        return _Told(f"No matches in {count(number, 'file')}.", "Nothing was found.", "Nothing was found.")
    folder = str(asked.arguments["path"])
    front = "" if folder == _HERE else f"{folder.removeprefix('./')}/"
    files = values.distinct(values.one((1, 1, 2, 2, 3, 4)), lambda: front + _file(values).removeprefix("./"))
    files.sort(key=lambda file: file.split("/"))
    found = "\n".join(f"{file}:{values.several(1, 400)}:{_around(values, asked.subject)}" for file in files)
    return _Told(found, "The tool has found it.", f"Found:\n{found}")


def _tell_shell(values: Values, asked: _Asked) -> _Told:
    if values.chance(0.1):
        return _Told("", "There is no output.", "The command printed nothing.")
    output = "\n".join(values.file() for _ in range(values.several(1, 4)))
    if values.chance(0.7):
        output = values.code() if values.chance(0.15) else values.text(1, 7)
    if values.chance(0.82):
        return _Told(output, "The tool has the output.", f"The output is:\n{output}")
    status = values.one((1, 1, 1, 2, 2, values.several(3, 127)))
    kind = values.random.random()
    if kind < 0.2:
        return _Told("", "The command failed.", f"The command failed with status {status}.", status)
    if kind < 0.3:
        ended = _TIMED_OUT.format(values.number(3))
        status, output = TIMED_OUT, values.one((ended, f"{output}\n{ended}"))
    elif kind < 0.45:
        status, output = 127, f"/bin/bash: line 1: {asked.subject.partition(' ')[0]}: command not found"
    return _Told(output, "The command failed.", f"The command failed with status {status}:\n{output}", status)


def _tell_write(values: Values, asked: _Asked) -> _Told:
    done = f"Success. Updated the following files:\nA {asked.subject.removeprefix('./')}"
    return _Told(done, "The file is written.", f"{asked.subject} is written.")


_LESSONS: Mapping[Task, tuple[Callable[[Values], _Asked], Callable[[Values, _Asked], _Told]]] = {
    "list": (_ask_list, _tell_list), "tree": (_ask_tree, _tell_tree), "read": (_ask_read, _tell_read),
    "grep": (_ask_grep, _tell_grep), "shell": (_ask_shell, _tell_shell), "write": (_ask_write, _tell_write),
}  # fmt: skip


def _root(values: Values) -> Path:
    """Where the folder is that the work is in."""
    above = values.one(("/home/{}", "/home/{}/work", "/Users/{}", "/work", "/srv", "/tmp"))
    return Path(above.format(values.name().lower()), values.word())


def _path(values: Values) -> str:
    """A folder below the one that the work is in."""
    return values.path().removeprefix("/")


def _file(values: Values) -> str:
    return values.file() if values.chance(0.65) else f"{_path(values)}/{values.file()}"


def _entries(values: Values, count: int) -> list[str]:
    """The names in a folder, in the order of the program."""
    names = values.distinct(count, lambda: values.file() if values.chance(0.8) else f"{values.identifier()}/")
    return sorted(names, key=lambda name: name.removesuffix("/"))


def _around(values: Values, query: str) -> str:
    """A line that has it."""
    if values.chance(0.2):
        return f"{values.code()} {query}"
    words = values.text(0, 5).split()
    words.insert(values.several(0, len(words)), query)
    return values.one(("", "", "    ")) + " ".join(words)


def _written(values: Values) -> str:
    return values.code().strip() if values.chance(0.15) else values.text(1, 6)


def _line(values: Values) -> str:
    if values.chance(0.3):
        return values.code()
    text = values.text(2, 9)
    kind = values.random.random()
    if kind < 0.4:
        return f"{text[:1].upper()}{text[1:]}."
    for bound, line in ((0.46, f"# {text}"), (0.52, f"- {text}"), (0.57, f"{values.word()} = {values.number(5)}")):
        if kind < bound:
            return line
    return f"    {text}" if kind < 0.63 else text


def _command(values: Values) -> str:
    if values.unseen == "nothing" and values.chance(0.2):
        return values.one(
            ("pwd", "git status", "ls -la", "git log --oneline", "date", "whoami", "git diff", "uname -a")
        )
    file, word = values.file(), values.word()
    return values.one((
        f"ls {values.path()}", f"cat {file}", f"echo {values.phrase(1, 3)}", f"python {file}", f"wc -l {file}",
        f"grep {word} {file}", f"mkdir {values.path()}", f"rm {file}",
        f"{word} -{values.one('abcdefgh')} {values.word()}",
        f"head -n {values.several(1, 20)} {file}", f"{word} --{values.word()}", f"cp {file} {values.path()}",
        f"make {word}", f"sort {file} | head", f'echo "{values.phrase(1, 3)}"', f"cd {values.path()} && {word}",
        f"grep -n '{word}' {file}", f"{word} {values.word()} > {file}",
    ))  # fmt: skip
