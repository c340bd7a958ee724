"""The account of a run: its exit code, `--json`'s line, stderr's last one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ossia.agent.events import TurnEnd
from ossia.agent.stream.account import Account
from ossia.cli.clean import one_line
from ossia.cli.code_blocks import Extract, code_blocks
from ossia.cli.exits import ExitCode, ExitError, exit_code
from ossia.cli.oneshot.ask import NOBODY, PLANNING, Unasked, refused_line
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.engines import is_server
from ossia.cli.settings.table import Settings
from ossia.cli.words import speed_of
from ossia.harmony.conversation import message_to_json

if TYPE_CHECKING:
    from ossia.agent.models.plan import Plan

VERSION = 1
_COUNTS = ("prompt_tokens", "reused_tokens", "evaluated_tokens", "lost_tokens", "completion_tokens", "forced_tokens")
_CODES: dict[TurnEnd, ExitCode] = {
    "answered": ExitCode.ANSWERED,
    "silent": ExitCode.SILENT,
    "stopped": ExitCode.INTERRUPTED,
    "tokens": ExitCode.CUT,
    "time": ExitCode.CUT,
    "context": ExitCode.CUT,
    "loop": ExitCode.CUT,
    "steps": ExitCode.STEPS,
    "error": ExitCode.FAILED,
}

_CUT: dict[TurnEnd, str] = {
    "tokens": "the answer is cut: --max-tokens was reached",
    "time": "the answer is cut: --timeout was reached",
    "context": "the answer is cut: the context is full; ask for less, or use a larger --context, up to the model's own",
    "loop": "the answer is cut: the model repeated itself; ask again in other words",
    "steps": "the step limit was reached: the answer is from what was found until then",
}
_UNBOUND: dict[TurnEnd, str] = {
    "loop": "the answer is cut: the model repeated itself",
    "context": "the answer is cut: the context is full",
}
_BOUND = "; a bound in the schema (maximum, maxLength, maxItems) or --max-tokens stops it sooner"
"""Said of an answer by a schema: the guide lets a number, a text or a list without a bound grow to the end."""
_SILENT = "no answer came: the model ended its turn without one; ask again, or use another --seed"
_NOT_WHOLE = "; nothing is printed, since half an answer doesn't follow the schema"
_NO_CODE = "; nothing is printed, since the code may be cut, too"
_WHOLE: tuple[TurnEnd, ...] = ("answered", "steps")
WRITTEN = (ExitCode.ANSWERED, ExitCode.STEPS, ExitCode.UNASKED)
"""The codes with which `-o` writes its file."""


@dataclass(slots=True)
class Report(Account):
    """The account of a run's turn. `load_s` and `plan` are set by whoever loads the model.

    `refused`: the calls about which nobody could be asked; `strict`: an answer with such calls has its own exit code.
    `extract`: the code blocks that alone are printed.
    """

    load_s: float = 0.0
    plan: Plan | None = None  # how it was loaded
    refused: list[Unasked] = field(default_factory=list)
    strict: bool = False
    extract: Extract | None = None

    @property
    def extracted(self) -> str | None:
        """The code that `-x` asks for; None: the answer has none, or isn't whole."""
        if self.extract is None or self.answer is None or self.end not in _WHOLE:
            return None
        return self.extract.of(self.answer)

    @property
    def _fault(self) -> str | None:
        """The reason that a whole answer isn't printed; None: it is."""
        if self.misfit:
            return f"doesn't follow the schema: {self.misfit}"
        if self.extract is None or self.answer is None or self.extracted is not None:
            return None
        where = "" if self.extract.language is None else f" in {one_line(self.extract.language, 40)}"
        there = ", ".join(dict.fromkeys(one.language or "one without a name" for one in code_blocks(self.answer)))
        return f"has no code block{where}{there and f': it has {one_line(there, 100)}'}"

    @property
    def code(self) -> ExitCode:
        """The exit code of the process."""
        if self.error is not None and self.end != "stopped":
            return exit_code(self.error) or ExitCode.FAILED
        if self.end in _WHOLE and self._fault:
            return ExitCode.MISFIT
        unasked = self.end == "answered" and self.strict and self.refused
        return ExitCode.UNASKED if unasked else _CODES[self.end]

    def raise_error(self, *, printed: bool) -> None:
        """Raise what the user must read, if the run failed or has no answer. `printed`: something is on stdout."""
        if isinstance(self.error, Exception):
            raise self.error
        if self.end == "silent":
            raise ExitError(_SILENT, ExitCode.SILENT)
        if self.code == ExitCode.MISFIT:
            fault, colon, why = (self._fault or "").partition(": ")
            nothing = "" if printed else ", so nothing is printed"
            raise ExitError(f"the answer {fault}{nothing}{colon}{why}", ExitCode.MISFIT)

    def to_json(self) -> dict[str, object]:
        """The object of `ossia run --json` (version 1; docs/formats.md)."""
        answer, notes = self.cited_answer
        speed = self.sums.tokens_per_s
        return {
            "version": VERSION,
            "model": self.model,
            "answer": answer,
            **({} if self.extract is None else {"extracted": self.extracted}),
            "citations": [note.to_json() for note in notes],
            "messages": [message_to_json(message) for message in self.messages],
            "calls": [
                {
                    "id": done.call.id,
                    "name": done.call.name,
                    "arguments": done.call.arguments,
                    "result": done.result.text,
                    "notices": list(done.result.notices),
                    "error": done.result.error,
                    "ms": done.ms,
                }
                for done in self.calls
            ],
            "refused": [one.to_json() for one in self.refused],
            "usage": {name: sum(getattr(step, name) for step in self.steps) for name in _COUNTS},
            "steps": [
                {name: getattr(step, name) for name in _COUNTS}
                | {"prefill_s": round(step.prefill_s, 4), "decode_s": round(step.decode_s, 4), "end": step.end}
                for step in self.steps
            ],
            "memory": self.plan and {**asdict(self.plan.needs), "total": self.plan.needs.total},
            "timings": {
                "load_s": round(self.load_s, 4),
                "prefill_s": round(self.sums.prefill_s, 4),
                "decode_s": round(self.sums.decode_s, 4),
                "tokens_per_s": speed and round(speed, 2),
            },
            "repairs": [{"code": repair.code, "message": repair.message} for repair in self.repairs],
            "sampled_again": [again.reason for again in self.sampled_again],
            "let_go": [asdict(one) for one in self.dropped],
            "trimmed": [asdict(trim) for trim in self.trimmed],
            "end": self.end,
            "error": self.error_line or (f"the answer {self._fault}" if self.code == ExitCode.MISFIT else None),
            "exit": int(self.code),
        }


def show_refused(report: Report, display: Display) -> None:
    """Name the calls that were refused, since nobody could be asked or a plan was made."""
    planned = (done.call.name for done in report.calls if (fault := done.result.fault) and fault.kind == "planning")
    for line in (refused_line((one.name for one in report.refused), NOBODY), refused_line(planned, PLANNING)):
        if line:
            display.note(f"ossia: {line}", "refused")


def show_last_line(report: Report, settings: Settings, display: Display, *, file: str | None = None) -> None:
    """Say why the answer is cut, or the figures of a whole one; an error has its own line. `file`: the one of `-o`."""
    if report.end in _CUT:
        plain = not (settings.raw or settings.json or settings.jsonl)
        half = plain and report.schema is not None and report.answer is None
        why = _servers_limit(report, settings) or _CUT[report.end]
        if half and report.end in _UNBOUND:
            why = _UNBOUND[report.end] + _BOUND
        lost = _NOT_WHOLE if half else _NO_CODE if plain and report.extract and report.end not in _WHOLE else ""
        if file and report.code not in WRITTEN:
            lost = f"; {file} isn't written"
        write = display.fault if report.code == ExitCode.CUT else display.note
        write(f"ossia: {why}{lost}")
    elif report.end == "answered":
        speed = f" · {speed_of(tokens_per_s)}" if (tokens_per_s := report.sums.tokens_per_s) else ""
        display.aside(f"{report.model} · {report.sums.completion} tokens{speed}")


def _servers_limit(report: Report, settings: Settings) -> str:
    """The line about a server's own limit that cut the answer; "" where it didn't."""
    if not is_server(settings.engine):
        return ""
    if report.end == "context":
        ours = " (or a larger --context)" if isinstance(settings.context, int) else ""
        return f"the answer is cut: the context is full; give the server a larger one{ours}"
    if report.end != "tokens":
        return ""
    if settings.max_tokens is None:
        return "the answer is cut at the server's own limit: give --max-tokens N, or the server a larger context"
    reached = report.sums.completion >= settings.max_tokens
    return "" if reached else "the answer is cut at the server's own limit, before --max-tokens"
