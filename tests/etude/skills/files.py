"""Listing and reading files, running commands, through functions."""

from __future__ import annotations

from tests.etude.prompts import Prefix, Purpose
from tests.etude.said import Segment, answers, asks, calls
from tests.etude.values import Values


def files(values: Values, prefix: Prefix, purpose: Purpose | None = None) -> tuple[list[Segment], str]:
    """`Read notes.txt.` → the call → `The file says: …`, and the like for a folder and a command."""
    purpose = purpose or values.one(("list", "list", "read", "read", "shell"))
    return {"list": _list, "read": _read, "shell": _shell}[purpose](values, prefix), purpose


def _list(values: Values, prefix: Prefix) -> list[Segment]:
    here = values.unseen != "values" and values.chance(0.25)
    folder = "." if here else values.path()
    unnamed = here and (values.unseen != "nothing" or values.chance(0.7))
    asked = asks(values, "list here") if unnamed else asks(values, "list", folder)
    if "list" not in prefix.named:
        return asked + answers("No file tool.", "I can't list files without a file tool.")
    name, thought = prefix.named["list"], f"Use {prefix.named['list']}."
    if values.chance(0.07):
        error = f"Error: there is no folder '{folder}'. List one above it."
        if values.chance(0.4):
            error = values.one((f"Error: no such directory: {folder}", f"Error: {values.text(2, 6)}"))
        return asked + calls(thought, name, {"path": folder}, error) + answers("The tool failed.", error)
    if values.chance(0.04):
        empty = calls(thought, name, {"path": folder}, values.one(("", "(empty folder)", "(empty folder)")))
        return asked + empty + answers("The directory is empty.", "There are no files.")
    names = "\n".join(values.distinct(values.several(1, 6), lambda: _entry(values)))
    listed = calls(thought, name, {"path": folder}, names)
    return asked + listed + answers("The tool has the list.", f"The files are:\n{names}")


def _read(values: Values, prefix: Prefix) -> list[Segment]:
    file = values.file() if values.chance(0.65) else f"{values.path()}/{values.file()}"
    asked = asks(values, "read", file)
    if "read" not in prefix.named:
        return asked + answers("No file tool.", "I can't read files without a file tool.")
    name, thought = prefix.named["read"], f"Use {prefix.named['read']}."
    if values.chance(0.07):
        error = f"Error: there is no file '{file}'. list_dir shows what is there."
        if values.chance(0.4):
            error = values.one((f"Error: no such file: {file}", f"Error: {values.text(2, 6)}"))
        return asked + calls(thought, name, {"path": file}, error) + answers("The tool failed.", error)
    if values.chance(0.04):
        empty = calls(thought, name, {"path": file}, values.one(("", "(empty file)", "(empty file)")))
        return asked + empty + answers("The file is empty.", "The file is empty.")
    text = "\n".join(_line(values) for _ in range(values.one((1, 1, 1, 2, 2, 3)))) + values.one(("\n", "\n", "\n", ""))
    read = calls(thought, name, {"path": file}, text)
    return asked + read + answers("The tool has the text.", f"The file says:\n{text}")


def _shell(values: Values, prefix: Prefix) -> list[Segment]:
    command = _command(values)
    asked = asks(values, "shell", command)
    if "shell" not in prefix.named:
        return asked + answers("No shell tool.", "I can't run commands without a shell tool.")
    name, thought = prefix.named["shell"], f"Use {prefix.named['shell']}."
    if values.chance(0.08):
        silent = calls(thought, name, {"command": command}, values.one(("", "[no output]", "[no output]")))
        return asked + silent + answers("There is no output.", "The command printed nothing.")
    output = values.text(1, 7) if values.chance(0.65) else "\n".join(values.file() for _ in range(values.several(1, 4)))
    if values.chance(0.1):
        output += f"\n[exit status {values.several(1, 127)}]"
    called = calls(thought, name, {"command": command}, output)
    return asked + called + answers("The tool has the output.", f"The output is:\n{output}")


def _entry(values: Values) -> str:
    return values.file() if values.chance(0.8) else f"{values.identifier()}/"


def _line(values: Values) -> str:
    text = values.text(2, 9)
    kind = values.random.random()
    if kind < 0.4:
        return f"{text[:1].upper()}{text[1:]}."
    return (
        f"# {text}"
        if kind < 0.46
        else f"- {text}"
        if kind < 0.52
        else f"{values.word()} = {values.number(5)}"
        if kind < 0.57
        else text
    )


def _command(values: Values) -> str:
    if values.unseen == "nothing" and values.chance(0.25):
        return values.one(
            ("pwd", "git status", "ls -la", "git log --oneline", "date", "whoami", "git diff", "uname -a")
        )
    file, word = values.file(), values.word()
    return values.one((
        f"ls {values.path()}", f"cat {file}", f"echo {values.phrase(1, 3)}", f"python {file}", f"wc -l {file}",
        f"grep {word} {file}", f"mkdir {values.path()}", f"rm {file}",
        f"{word} -{values.one('abcdefgh')} {values.word()}",
        f"head -n {values.several(1, 20)} {file}", f"{word} --{values.word()}", f"cp {file} {values.path()}",
        f"make {word}", f"sort {file} | head",
    ))  # fmt: skip
