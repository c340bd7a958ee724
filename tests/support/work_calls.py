"""Calls of the tools for work in a folder, as gpt-oss writes them."""

from __future__ import annotations

import json


def wants(name: str, **arguments: object) -> str:
    """The step of a script that calls one: `wants("repo_browser.open_file", path="a.py")`."""
    return f"<|channel|>analysis to={name} code<|message|>{json.dumps(arguments)}<|call|>"


def runs(command: str) -> str:
    """The step that has a shell run it."""
    return wants("container.exec", command=["bash", "-lc", command])


def reads(path: str) -> str:
    """The step that opens a file."""
    return wants("repo_browser.open_file", path=path)


def writes(path: str, content: str = "new\n", *, before: str | None = None) -> str:
    """The step that makes a file, or changes one that holds `before`."""
    return wants("repo_browser.apply_patch", patch=patch(path, content, before=before))


def patch(path: str, content: str = "new\n", *, before: str | None = None) -> str:
    """A patch of one file, all of whose lines it replaces. `before` None: it makes the file."""
    verb = "Add" if before is None else "Update"
    lines = [] if before is None else ["@@", *(f"-{line}" for line in _lines(before))]
    lines += [f"+{line}" for line in _lines(content)]
    return "\n".join(["*** Begin Patch", f"*** {verb} File: {path}", *lines, "*** End Patch"])


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
