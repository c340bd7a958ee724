"""The outcome of a call for people, from the result that the model reads; also of a call that was recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ossia.tools.calls.names import work_tool
from ossia.tools.calls.results import BECAUSE, REFUSED, REFUSED_AGAIN, UNASKED, UNASKED_PARTS
from ossia.tools.saying import saying
from ossia.tools.spec import CHANGED, INTERRUPTED, ToolFinished
from ossia.tools.verdict import failed
from ossia.tools.work.result import Parts, ended_by, for_people, parts_of

MAX_LINES = 5
"""Of what a command printed, below its row."""
_UNITS = {
    "repo_browser.open_file": "line",
    "repo_browser.list_dir": "entry",
    "repo_browser.print_tree": "entry",
    "repo_browser.search": "hit",
}
_LOOKS_REMARK = re.compile(
    r"\[(?:lines [\d-]+ of [\d,]+ are left out|[\d,]+ more characters of line|the first [\d,]+ of|more than [\d,]+ "
    r"|no regular expression|stopped|not UTF-8|skipped \(|\.\.\. [\d,]+ characters omitted).*\]\Z"
    r"|No matches in [\d,]+ files?\.\Z|\(empty folder\)\Z"
)
"""Our own lines among those of a look at files."""
_OMITTED = re.compile(r"^\[\.\.\. [\d,]+ characters omitted\]$", re.MULTILINE)
_PAGE = re.compile(r"\[\d+\] (.*)\n\*\*viewing lines \[(\d+) - (\d+)\] of (\d+)\*\*")
_HIT = re.compile(r"^L\d+:   \* |^L\d+: # 【\d+†match at L\d+】", re.MULTILINE)
_LED = re.compile(r"(?:Error(?: fetching URL `.*?`| during search for `.*?`)?: |\[ERROR\] )", re.DOTALL)
_FOR_MODEL = re.compile(
    r"\. (?:repo_browser\.|The tools are: |(?:Add|Answer|Ask|Call|Choose|Leave|List|Look|Name|Narrow|Open|Put|Read it"
    r"|Say|Search|Send|Split|Use) ).*\Z",
    re.DOTALL,
)
"""The next step for the model, behind the reason."""
_REMARK = re.compile(r"\[(.*)\]")
_END = re.compile(r"\[exit status -?\d+\]|\[ERROR\] .+")
"""The end of a command, in words for people; more remarks may follow, for the model: `[ran with network]`."""
_WARNING = re.compile(r"\A\[WARN\] (?:this is a new kernel|the kernel died|No output available).*\n?")
"""Python's warning to the model, before a result or instead of one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A call and what came of it, in words; all of it as it came.

    `said`: the call. `words`: what it brought, in a few parts. `printed`: the number of lines that a command or code
    printed, the last of which, but for rules and dots, are `lines`; `cut`: more that aren't counted. `kind`: calls of
    one kind (`"Read"`, with which `said` begins) are said together, their `count` of `unit`s added up; "": not this
    one. `reason`: of a failure that isn't a command's own. `diff`: what it changed in files, perhaps cut.

        Outcome("ran pytest -q", ("exit 1",), failed=True, printed=34, lines=("1 failed in 0.1s",))
    """

    said: str
    words: tuple[str, ...] = ()
    failed: bool = False
    reason: str = ""
    printed: int = 0
    lines: tuple[str, ...] = ()
    kind: str = ""
    count: int = 0
    unit: str = ""
    diff: str = ""
    cut: bool = False

    @property
    def size(self) -> str:
        """The length of what it printed: `"34 lines"`, `"over 300 lines"`."""
        return f"{'over ' if self.cut else ''}{count_of(self.printed, 'line')}" if self.printed else ""


def outcome_of(done: ToolFinished, said: str = "") -> Outcome:
    """The outcome of a call, also of a recorded one. `said`: the summary of its preview, if any."""
    call, text, state = done.call, done.result.text, done.result.state or {}
    change, rest = text.partition("\n")[::2] if text.startswith(CHANGED) else ("", text)
    tool = work_tool(call.name) or call.name
    if change and not said:
        name, _, arguments = change.removeprefix(CHANGED).strip().partition(" ")
        said, tool = saying(name, arguments), work_tool(name) or name
    if done.result.error and tool == "repo_browser.apply_patch":
        said = ""  # its preview may only have looked for the place that doesn't fit
    recorded = state.get("said")
    if isinstance(recorded, str):  # of a patch, perhaps one that was written for a shell
        return Outcome(recorded, diff=diff_in(state))
    said = said or saying(call.name, call.arguments)
    parts = parts_of(rest, tool)
    if tool == "container.exec" and parts:
        return _of_command(said, parts)
    if done.result.error:
        return Outcome(said, failed=True, reason=reason_of(done))
    output = parts.output if parts else _WARNING.sub("", rest).strip("\n")
    if tool in _UNITS:
        return _of_look(said, tool, output)
    if tool == "repo_browser.apply_patch":
        return Outcome(said)
    if tool == "python":
        return _of_output(said, (), output)
    if tool.startswith("browser."):
        return _of_page(said, tool, output)
    lines = _lines(output)
    words = (lines[0] if len(lines) == 1 else count_of(len(lines), "line"),) if lines else ()
    return Outcome(_past(said), words)


def diff_in(state: Mapping[str, object] | None) -> str:
    """The diff stored with a result; "" without one."""
    diff = (state or {}).get("diff")
    return diff if isinstance(diff, str) else ""


def count_of(number: int, unit: str) -> str:
    """`"1 line"`, `"12 hits"`, `"no hits"`, `"1,204 entries"`."""
    many = f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"
    return f"{number or 'no':{',' if number else ''}} {unit if number == 1 else many}"


def _past(said: str) -> str:
    """`"ran pytest -q"` of `"Run pytest -q"`."""
    return f"ran {said.removeprefix('Run ')}" if said.startswith("Run ") else said


def _of_command(said: str, parts: Parts) -> Outcome:
    ended = ended_by(parts.output)
    output = parts.output.removesuffix(f"[ERROR] {ended}") if ended else parts.output
    status = for_user(ended.partition(": the command and all")[0]) if ended else f"exit {parts.status}"
    bad = bool(ended) or failed(said.removeprefix("Run "), parts.status, output)
    status += ", but failed" if bad and not ended and not parts.status else ""  # a pipe hid it
    return _of_output(said, (status,), output, failed=bad)


def _of_output(said: str, words: tuple[str, ...], output: str, *, failed: bool = False) -> Outcome:
    lines = _lines(output)
    cut = _OMITTED.search(output) is not None
    telling = [line for line in lines if any(map(str.isalnum, line))] or lines  # no rules and rows of dots
    return Outcome(_past(said), words, failed, printed=len(lines), lines=tuple(telling[-MAX_LINES:]), cut=cut)


def _of_look(said: str, tool: str, output: str) -> Outcome:
    """A look at files: the number of lines, entries or hits."""
    unit = _UNITS[tool]
    lines = [line for line in output.split("\n") if not _LOOKS_REMARK.match(line)] if output else []
    lines = lines if unit == "line" else [line for line in lines if line.strip()]
    return Outcome(said, (count_of(len(lines), unit),), kind=said.split(" ")[0], count=len(lines), unit=unit)


def _of_page(said: str, tool: str, text: str) -> Outcome:
    """A page of the browser: the hits on it, or its title and site."""
    if tool != "browser.open":
        return Outcome(said, (count_of(len(_HIT.findall(text)), "hit"),))
    found = _PAGE.match(text)
    if found is None:
        return Outcome(said)
    title, _, url = found[1].removesuffix(")").rpartition(" (")
    host = urlsplit(url).netloc if "://" in url else ""
    return Outcome(f"Read {title or found[1]}", (*filter(None, (host,)), f"lines {found[2]}–{found[3]} of {found[4]}"))


def _lines(output: str) -> list[str]:
    """The lines with something on them."""
    return [line.rstrip() for line in output.split("\n") if line.strip()]


def reason_of(done: ToolFinished) -> str:
    r"""The reason of a failed call, without what leads up to it. Its lines are as they came, two of them at most.

    A recorded result has no `fault`: its text alone says that the call was refused.

        "Error fetching URL `https://a.test/x`: the name …"             →  "the name …"
        "Error: there is no file 'a'. List the folder …"                →  "there is no file 'a'"
        "Traceback (most recent call last):\n …\nKeyError: 'x'"         →  "KeyError: 'x'"
        "ls: no such file\n[exit status 2]"                             →  "exit status 2: ls: no such file"
    """
    text, fault = done.result.text, done.result.fault
    if text.startswith(CHANGED):
        text = text.partition("\n")[2]
    text = for_people(text, done.call.name).strip()
    if text.startswith(BECAUSE):
        return f"refused: {text.removeprefix(BECAUSE)}"
    if fault.kind in ("refused", "unasked") if fault else text in (REFUSED, REFUSED_AGAIN, UNASKED, UNASKED_PARTS):
        return "refused"
    led = _LED.match(text)
    if led or text.startswith("Error"):
        reason = _FOR_MODEL.sub("", text[led.end() :] if led else text)
        return reason.removeprefix(f"{done.call.name}: ").removeprefix(f"{done.call.name} is ")
    lines = [line for line in text.splitlines() if line.strip()]
    end = max((at for at, line in enumerate(lines) if _END.fullmatch(line)), default=len(lines))
    lines = lines[: end + 1]
    last = lines[-1] if lines else "it failed without a message"
    remark = _REMARK.fullmatch(last.strip())
    if remark is None:
        return for_user(last.removeprefix("[ERROR] "))
    return ": ".join([for_user(remark[1]), *lines[-2:-1]])


def for_user(reason: str) -> str:
    """The reason in words for the user: `you stopped it` for the model's `interrupted by the user`."""
    return re.sub(f"^{INTERRUPTED['user']}", "you stopped it", reason, flags=re.IGNORECASE)
