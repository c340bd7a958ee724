"""The outcome of a call for people: the result that the model reads, without what only the model needs."""

from __future__ import annotations

import re

from ossia.tools.calls.results import REFUSED, REFUSED_AGAIN, UNASKED, UNASKED_PARTS
from ossia.tools.spec import CHANGED, INTERRUPTED, ToolFinished
from ossia.tools.work.result import for_people

_LED = re.compile(r"(?:Error(?: fetching URL `.*?`| during search for `.*?`)?: |\[ERROR\] )", re.DOTALL)
_REMARK = re.compile(r"\[(.*)\]")
_END = re.compile(r"\[exit status -?\d+\]|\[ERROR\] .+")
"""The end of a command, in words for people; more remarks may follow, for the model: `[ran with network]`."""
_WARNING = re.compile(r"\A\[WARN\] (?:this is a new kernel|the kernel died|No output available).*\n?")
"""Python's warning to the model, before a result or instead of one."""


def outcome_of(done: ToolFinished) -> str:
    """The result of a call that succeeded, without its form and python's warnings; "" where it printed nothing."""
    return for_people(_WARNING.sub("", done.result.text), done.call.name)


def reason_of(done: ToolFinished) -> str:
    r"""The reason of a failed call, without what leads up to it. Its lines are as they came, two of them at most.

    A recorded result has no `fault`: its text alone says that the call was refused.

        "Error fetching URL `https://a.test/x`: the name …"             →  "the name …"
        "Traceback (most recent call last):\n …\nKeyError: 'x'"         →  "KeyError: 'x'"
        "ls: no such file\n[exit status 2]"                             →  "exit status 2: ls: no such file"
    """
    text, fault = done.result.text, done.result.fault
    if text.startswith(CHANGED):
        text = text.partition("\n")[2]
    text = for_people(text, done.call.name).strip()
    if fault.kind in ("refused", "unasked") if fault else text in (REFUSED, REFUSED_AGAIN, UNASKED, UNASKED_PARTS):
        return "refused"
    led = _LED.match(text)
    if led or text.startswith("Error"):
        return text[led.end() :] if led else text
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
