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

MAX_CHARS = 10_000
"""Of output in one result."""
TIMED_OUT = 124
"""The returncode of what was ended for its time, as `timeout` gives it."""
_ENDED = re.compile(r"\[ERROR\] (?:timed out|interrupted|the command was ended)[^\n]*\n?\Z")
_FORM = re.compile(r"^<returncode>(-?\d+)</returncode>\n<output>\n(.*?)(?:\n)?</output>\ncwd: [^\n]*", re.DOTALL | re.M)


def formed(output: str, cwd: Path, *, status: int = 0) -> str:
    """The text of a result, as above."""
    end = "" if not output or output.endswith("\n") else "\n"
    return f"<returncode>{status}</returncode>\n<output>\n{output}{end}</output>\ncwd: {cwd}"


def for_people(text: str) -> str:
    """A result without its form: the output, then `[exit status 2]` where that isn't 0. Any other text stays."""
    found = _FORM.search(text)
    if found is None:
        return text
    told = found[1] == "0" or _ENDED.search(found[2])
    remark = "" if told else f"[exit status {found[1]}]"
    inner = "\n".join(part for part in (found[2], remark) if part)
    return f"{text[: found.start()]}{inner}{text[found.end() :]}"
