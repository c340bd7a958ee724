"""Results as a person reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossia.tools.calls.results import REFUSED
from ossia.tools.outcome import Outcome, outcome_of, reason_of
from ossia.tools.spec import CHANGED, Fault, ToolCall, ToolFinished, ToolResult
from ossia.tools.work.result import formed


def _done(name: str, text: str, *, error: bool = False, fault: Fault | None = None) -> ToolFinished:
    return ToolFinished(ToolCall("call_1", name, ""), ToolResult(text, error=error, fault=fault), 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{CHANGED} container.exec {{}}\n{formed('no', Path('/w'), status=2)}", "exit status 2: no"),
        ("Error: there is no file 'a'. repo_browser.list_dir shows what is there.",
         "there is no file 'a'"),
        ("Error: there is no tool 'x'. The tools are: python, browser.open", "there is no tool 'x'"),
        ("Error: x: the MCP server y: no. Try at 5. Choose another way.", "x: the MCP server y: no. Try at 5"),
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
        ("The user refused: use pytest", "refused: use pytest"),
        ("Error: container.exec is not allowed here (a plan). Choose another way.", "not allowed here (a plan)"),
        (" \n", "it failed without a message"),
    ],
)  # fmt: skip
def test_the_reason(text: str, reason: str) -> None:
    assert " ".join(reason_of(_done("container.exec", text, error=True)).split()) == reason


def test_a_fault_says_that_a_call_was_refused_whatever_its_text() -> None:
    assert reason_of(_done("python", "Not now.", error=True, fault=Fault("refused"))) == "refused"
    assert reason_of(_done("python", REFUSED, error=True, fault=Fault("timeout"))) == REFUSED


def test_what_a_command_brought() -> None:
    """Its status, and the last lines; whether a pipe hides that it failed."""
    arguments = '{"command": ["bash", "-lc", "make 2>&1 | tail -9"]}'
    output = "".join(f"{number}\n" for number in range(8)) + "make: *** [Makefile:4: a.o] Error 1\n"
    result = ToolResult(f"{formed(output, Path('/w'))}\n[ran with network]")
    assert outcome_of(ToolFinished(ToolCall("call_1", "bash", arguments), result, 0)) == Outcome(
        "ran make 2>&1 | tail -9",
        ("exit 0, but failed",),
        failed=True,
        printed=9,
        lines=("4", "5", "6", "7", "make: *** [Makefile:4: a.o] Error 1"),
    )


def test_what_a_patch_changed_is_stored_with_its_result() -> None:
    call = ToolCall("call_1", "apply_patch", "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch")
    done = formed("Success.", Path("/w"))
    assert outcome_of(ToolFinished(call, ToolResult(done), 0)) == Outcome("Edit a")
    stored = ToolResult(done, state={"said": "Edit a +1 −1", "diff": "--- a/a"})
    assert outcome_of(ToolFinished(call, stored, 0)) == Outcome("Edit a +1 −1", diff="--- a/a")
    shell = ToolCall("call_1", "container.exec", '{"command": ["apply_patch", "…"]}')
    assert outcome_of(ToolFinished(shell, stored, 0)) == Outcome("Edit a +1 −1", diff="--- a/a")
    misfit = ToolResult("Error: it fits nowhere", error=True)
    refused = outcome_of(ToolFinished(call, misfit, 0), "Read a, which the patch doesn't fit")
    assert refused == Outcome("Edit a", failed=True, reason="it fits nowhere")


def test_a_changed_call_is_said_as_it_ran() -> None:
    call = ToolCall("call_1", "container.exec", '{"command": ["rm", "x"]}')
    text = f'{CHANGED} container.exec {{"command": ["ls"]}}\n{formed("a", Path("/w"))}'
    outcome = outcome_of(ToolFinished(call, ToolResult(text), 0))
    assert (outcome.said, outcome.words, outcome.lines) == ("ran ls", ("exit 0",), ("a",))


def test_a_warning_of_pythons_is_no_output() -> None:
    assert outcome_of(_done("python", "[WARN] this is a new kernel: its variables are gone\n4\n")).lines == ("4",)
