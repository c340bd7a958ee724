"""The form in which the tools for work in a folder answer: the one that gpt-oss's published scores were made with.

    <returncode>0</returncode>
    <output>
    what was printed, or the file's text
    </output>
    cwd: /home/user/project

(arXiv 2604.00362; its code is `borislavmavrin/harmonyagent`.) It is made here alone, so that another can be measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from ossia.tools.calls.names import work_tool
from ossia.tools.spec import CHANGED

MAX_CHARS = 10_000
"""Of output in one result."""
MAX_TOKENS = 7_500
"""Likewise. It leaves room below the toolbox's 8,000, so that nothing is cut a second time."""
TIMED_OUT = 124
"""The returncode of what was ended for its time, as `timeout` gives it."""
_ENDED = re.compile(r"\[ERROR\] (?:timed out|interrupted|the command was ended)[^\n]*\n?\Z")
_BEGIN = re.compile(
    rf"(?P<before>{re.escape(CHANGED)}[^\n]*\n)?<returncode>(?P<status>-?\d+)</returncode>\n<output>\n"
)
_END = "</output>\ncwd: "


def share(count_tokens: Callable[[str], int]) -> Callable[[str], int]:
    """Measures how much of the `MAX_CHARS` of a result a text takes: its characters, or its tokens if those take more.

    share(count_tokens)("7" * 2_000)                            →  2_000, or 2_667 if each digit is a token
    """

    def taken(text: str) -> int:
        if len(text) > MAX_CHARS:
            return len(text)
        return max(len(text), -(-count_tokens(text) * MAX_CHARS // MAX_TOKENS))

    return taken


def lines_that_fit(lines: Iterable[str], room: int, taken: Callable[[str], int]) -> int:
    """The number of lines, from the first on, that take no more than `room` as `taken` measures them."""
    number = 0
    for line in lines:
        room -= taken(line)
        if room < 0:
            break
        number += 1
    return number


def formed(output: str, cwd: Path, *, status: int = 0) -> str:
    """The text of a result, as above."""
    end = "" if not output or output.endswith("\n") else "\n"
    return f"<returncode>{status}</returncode>\n<output>\n{output}{end}</output>\ncwd: {cwd}"


def for_people(text: str, name: str) -> str:
    """A result of the call `name` without its form: the output, then `[exit status 2]` where that isn't 0.

    Any other text stays, as a result of another tool does, whatever it looks like: a person sees what the model reads.
    """
    found, end = _BEGIN.match(text), text.rfind(_END)  # the last one: the output may hold others
    if found is None or end < found.end() or work_tool(name) is None:
        return text
    output = text[found.end() : end].removesuffix("\n")
    plain = found["status"] == "0" or _ENDED.search(output)
    folder, line_end, after = text[end + len(_END) :].partition("\n")
    more = f"cwd: {folder}" if len(folder.split()) > 1 else ""  # it may say more than where it ran
    parts = (output, "" if plain else f"[exit status {found['status']}]", more)
    inner = "\n".join(part for part in parts if part)
    return f"{found['before'] or ''}{inner}{line_end}{after}"
