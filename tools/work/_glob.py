"""Patterns for paths, such as `*.py` and `src/**/*.{ts,tsx}`."""

from __future__ import annotations

import re

from tools.spec import ToolFailed

_MAX_CHARS = 500


def as_expression(glob: str) -> str:
    r"""A regular expression to search a path for (`"src/a.py"`).

    `*` and `?` don't match `/`, `**` does; `[ab]` and `{a,b}` work, too. A pattern without a `/` is for the name alone,
    wherever the file lies; with a `!` in front it excludes what it matches. Raises `ToolFailed`.
    """
    if len(glob) > _MAX_CHARS:
        raise ToolFailed(f"Error: the glob has more than {_MAX_CHARS} characters. Send a shorter one.")
    out, body = glob.startswith("!"), glob.removeprefix("!").removeprefix("./")
    front = "^" if "/" in body.rstrip("/") else "(?:^|/)"
    body = body.lstrip("/")
    end = "/" if body.endswith("/") else "(?:/|$)"  # a folder's name stands for all below it
    expression = f"{front}{_translated(body.rstrip('/'))}{end}"
    return f"^(?!.*{expression})" if out and front != "^" else f"^(?!{expression[1:]})" if out else expression


def _translated(glob: str) -> str:
    pieces, at, depth = [], 0, 0
    while at < len(glob):
        char = glob[at]
        closing = glob.find("]", at + 2)
        at += 1
        if glob.startswith("**/", at - 1):
            pieces.append("(?:[^/]+/)*")
            at += 2
        elif char == "*":
            many = glob.startswith("*", at)
            while glob.startswith("*", at):
                at += 1
            pieces.append(".*" if many else "[^/]*")
        elif char == "?":
            pieces.append("[^/]")
        elif char == "[" and closing > 0:
            inner = glob[at:closing].replace("\\", "\\\\").replace("[", "\\[")
            pieces.append(f"[^{inner[1:]}]" if inner.startswith(("!", "^")) else f"[{inner}]")
            at = closing + 1
        elif char == "{" and "}" in glob[at:]:
            pieces.append("(?:")
            depth += 1
        elif char in ",}" and depth:
            pieces.append("|" if char == "," else ")")
            depth -= char == "}"
        else:
            pieces.append(re.escape(char))
    return "".join(pieces) + ")" * depth
