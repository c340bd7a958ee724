"""Results as a person reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossia.tools.calls.results import REFUSED
from ossia.tools.outcome import outcome_of, reason_of
from ossia.tools.spec import CHANGED, Fault, ToolCall, ToolFinished, ToolResult
from ossia.tools.work.result import formed


def _done(name: str, text: str, *, error: bool = False, fault: Fault | None = None) -> ToolFinished:
    return ToolFinished(ToolCall("call_1", name, ""), ToolResult(text, error=error, fault=fault), 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{CHANGED} container.exec {{}}\n{formed('no', Path('/w'), status=2)}", "exit status 2: no"),
        ("Error: there is no file 'a'. repo_browser.list_dir shows what is there.",
         "there is no file 'a'. repo_browser.list_dir shows what is there."),
        ("Error fetching URL `http://a.test/`b`: c`: the name a.test isn't known", "c`: the name a.test isn't known"),
        ("Error during search for `two\nlines`: ddgs: 403", "ddgs: 403"),
        ("Error: patch: no such line:\n  one\n  two", "patch: no such line: one two"),
        ("Traceback (most recent call last):\n  1/0\nZeroDivisionError: division by zero\n",
         "ZeroDivisionError: division by zero"),
        ("out\n[ERROR] Execution timed out after 2 seconds; state kept",
         "Execution timed out after 2 seconds; state kept"),
        ("one\nls: can't access 'x'\n[exit status 2]", "exit status 2: ls: can't access 'x'"),
        ("[exit status 1]", "exit status 1"),
        (formed("no", Path("/w"), status=1) + "\n[ran with network]\n[a remark]", "exit status 1: no"),
        (formed("one\nls: can't access 'x'\n", Path("/w"), status=2), "exit status 2: ls: can't access 'x'"),
        (formed("", Path("/w"), status=1), "exit status 1"),
        ("[interrupted by the user]", "you stopped it"),
        ("1\n[ERROR] Interrupted by the user; state kept", "you stopped it; state kept"),
        (f"{CHANGED} python 1\nError: no", "no"),
        (REFUSED, "refused"),
        (" \n", "it failed without a message"),
    ],
)  # fmt: skip
def test_the_reason(text: str, reason: str) -> None:
    assert " ".join(reason_of(_done("container.exec", text, error=True)).split()) == reason


def test_a_fault_says_that_a_call_was_refused_whatever_its_text() -> None:
    assert reason_of(_done("python", "Not now.", error=True, fault=Fault("refused"))) == "refused"
    assert reason_of(_done("python", REFUSED, error=True, fault=Fault("timeout"))) == REFUSED


@pytest.mark.parametrize(
    ("name", "text", "outcome"),
    [
        ("container.exec", formed("a\n", Path("/w")), "a"),
        ("python", "[WARN] this is a new kernel: its variables are gone\n4\n", "4\n"),
        ("python", formed("a", Path("/w")), formed("a", Path("/w"))),
    ],
)
def test_the_outcome_is_what_was_printed(name: str, text: str, outcome: str) -> None:
    assert outcome_of(_done(name, text)) == outcome
