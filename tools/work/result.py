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
from pathlib import Path

from tools.calls.names import work_tool
from tools.spec import CHANGED

MAX_CHARS = 10_000
"""Of output in one result."""
TIMED_OUT = 124
"""The returncode of what was ended for its time, as `timeout` gives it."""
_ENDED = re.compile(r"\[ERROR\] (?:timed out|interrupted|the command was ended)[^\n]*\n?\Z")
_BEGIN = re.compile(
    rf"(?P<before>{re.escape(CHANGED)}[^\n]*\n)?<returncode>(?P<status>-?\d+)</returncode>\n<output>\n"
)
_END = "</output>\ncwd: "


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
    told = found["status"] == "0" or _ENDED.search(output)
    folder, line_end, after = text[end + len(_END) :].partition("\n")
    more = f"cwd: {folder}" if len(folder.split()) > 1 else ""  # it may say more than where it ran
    parts = (output, "" if told else f"[exit status {found['status']}]", more)
    inner = "\n".join(part for part in parts if part)
    return f"{found['before'] or ''}{inner}{line_end}{after}"
