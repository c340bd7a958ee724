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
from typing import NamedTuple

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


class Parts(NamedTuple):
    """A result in its form, taken apart: before it a line on a changed call, behind it remarks."""

    before: str
    status: int
    output: str
    folder: str
    after: str


def parts_of(text: str, name: str) -> Parts | None:
    """The parts of a result of the call `name`; None for any other text, whatever it looks like."""
    found, end = _BEGIN.match(text), text.rfind(_END)  # the last one: the output may hold others
    if found is None or end < found.end() or work_tool(name) is None:
        return None
    folder, line_end, after = text[end + len(_END) :].partition("\n")
    output = text[found.end() : end].removesuffix("\n")
    return Parts(found["before"] or "", int(found["status"]), output, folder, f"{line_end}{after}")


def for_people(text: str, name: str) -> str:
    """A result of the call `name` without its form: the output, then `[exit status 2]` where that isn't 0.

    Any other text stays, as a result of another tool does, whatever it looks like: a person sees what the model reads.
    """
    parts = parts_of(text, name)
    if parts is None:
        return text
    plain = not parts.status or ended_by(parts.output)
    more = f"cwd: {parts.folder}" if len(parts.folder.split()) > 1 else ""  # it may say more than where it ran
    shown = (parts.output, "" if plain else f"[exit status {parts.status}]", more)
    return f"{parts.before}{chr(10).join(filter(None, shown))}{parts.after}"


def ended_by(output: str) -> str:
    """The last line of an ended command, without its mark: `"timed out after 1 s: …"`; "" for any other."""
    found = _ENDED.search(output)
    return found[0].removeprefix("[ERROR] ").rstrip("\n") if found else ""
