"""Questions to the person at the terminal: may this call run?

Asked on /dev/tty, so that stdin may be a pipe and stdout a file. Where nobody can be asked the answer is no, and stderr
says how to allow such a call.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from ossia.agent.events import ApprovalAsked, Decision
from ossia.cli.clean import widest
from ossia.cli.runtime.approval_text import WORDS, answers, decision_of, hint_on, reason_of, title_of
from ossia.cli.runtime.progress import Display, columns
from ossia.cli.terminal.fold import hanging
from ossia.cli.terminal.keyboard import Keyboard, plain_keys
from ossia.cli.visible import seen, seen_line
from ossia.cli.words import reason_in
from ossia.tools.approval.flags import flags_for
from ossia.tools.approval.policy import FROM_OUTSIDE
from ossia.tools.calls.results import RAN_ONCE

_SHOWN_LINES, _SHOWN_CHARS = 40, 1000
_PIECE_ROWS = 500  # terminals keep as many that have left the screen
_GREEN, _RED, _BOLD, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[1m", "\x1b[0m"

_WORDS = {"yes": "y", "session": "s", "always": "a", "no": "n", "": "n"}


@dataclass(frozen=True, slots=True)
class Unasked:
    """A call refused since nobody could be asked. `allow` are the flags that allow it."""

    call_id: str
    name: str
    reason: str
    allow: str

    def to_json(self) -> dict[str, str]:
        """`{"id": "call_1", "name": "container.exec", "reason": …, "allow": "--allow 'container.exec:make test'"}`."""
        return {"id": self.call_id, "name": self.name, "reason": self.reason, "allow": self.allow}


def unasked(asked: ApprovalAsked) -> Unasked:
    """The call of this question, if nobody can be asked."""
    return Unasked(asked.call.id, asked.call.name, asked.reason, flags_for(asked))


NOBODY, PLANNING = ", since nobody could be asked", " while a plan is made"
"""The causes, for `refused_line`."""


def refused_line(names: Iterable[str], cause: str) -> str:
    """`3 calls were refused, since nobody could be asked: container.exec (2), browser.open`; "" without names."""
    counts = Counter(names)
    calls = "1 call was" if counts.total() == 1 else f"{counts.total()} calls were"
    listed = ", ".join(name if number == 1 else f"{name} ({number})" for name, number in counts.items())
    return f"{calls} refused{cause}: {listed}" if counts else ""


class Asker:
    """Answers the questions of a turn: by `--yes`, by asking where stderr is a terminal, or with no.

    `store` keeps the rules of an "always" answer. `hint` says what else helps where nobody can be asked; the calls that
    were refused for that are added to `refused`.
    """

    def __init__(
        self,
        display: Display,
        *,
        yes: bool,
        store: Callable[[Sequence[str]], None],
        refused: list[Unasked],
        hint: str = "",
    ) -> None:
        self._display, self._yes, self._store, self._hint = display, yes, store, hint
        self._refused = refused
        self._colour = display.colour

    def decide(self, asked: ApprovalAsked, *, given_up: Callable[[], bool]) -> Decision | None:
        """The answer; None when the turn ended meanwhile (`given_up`): a refusal.

        Ctrl-C raises KeyboardInterrupt, as everywhere.
        """
        if self.agrees(asked):
            return Decision(asked.call.id, True)
        with plain_keys() if self._display.terminal else nullcontext() as keyboard:
            if keyboard is None:
                return self.refuse(asked)
            key, reason = ("y", "") if asked.fault else self._ask(asked, keyboard, given_up)
            if key == "y" and asked.form:
                values = self._filled(asked, asked.form, keyboard, given_up)
                return None if values is None else Decision(asked.call.id, True, arguments=values)
        return None if key is None else decision_of(asked, key, self._store, reason)

    def agrees(self, asked: ApprovalAsked) -> bool:
        """True if `--yes` answers it."""
        return self._yes and not asked.firm

    def refuse(self, asked: ApprovalAsked, nobody: str = "there is no terminal to ask on") -> Decision:
        """The answer where nobody can be asked; stderr says so, and which flag allows such a call."""
        why = "--yes doesn't answer that" if self._yes else nobody
        if asked.form is not None:
            self._display.note(f"ossia: {asked.call.name}: its server's question was declined: {why}", "declined")
        else:
            hint = hint_on(asked, self._hint)
            self._refused.append(unasked(asked))
            self._display.note(f"ossia: {_why_not(asked, why)}{hint and f', or {hint}'}", "unasked")
        return Decision(asked.call.id, False, unasked=True)

    def _filled(
        self, asked: ApprovalAsked, form: Mapping[str, str], keyboard: Keyboard, given_up: Callable[[], bool]
    ) -> str | None:
        """The values of a form, as JSON, field by field; an empty line takes the default or the earlier value."""
        from ossia.cli.terminal.input.ask import ask_line

        width = columns(sys.stderr) - 1
        if asked.fault:
            keyboard.write("".join(f"{row}\n" for row in hanging(seen_line(asked.fault), width)))
        before: Any = json.loads(asked.rejected) if asked.rejected else asked.arguments
        values = {}
        for name, hint in form.items():
            default = before[name]
            shown = "" if default is None else f" [{default if isinstance(default, str) else json.dumps(default)}]"
            prompt = "\n".join(hanging(seen_line(f"{name}, {hint}{shown}:"), width)) + " "
            typed = ask_line(keyboard, prompt, pastes=True, given_up=given_up)
            if typed is None:
                return None
            values[name] = typed.strip() or default
        return json.dumps(values)

    def _ask(self, asked: ApprovalAsked, keyboard: Keyboard, given_up: Callable[[], bool]) -> tuple[str | None, str]:
        """The key of the answer (None: the turn ended meanwhile), and the reason of a no."""
        from ossia.cli.terminal.input.ask import ask_line

        self._display.pause()
        detail = seen(asked.preview.detail, asked.preview.language).removesuffix("\n")
        lines = [f"  {line}" for line in detail.split("\n")] if detail else []
        title, why = title_of(asked), seen_line(f"({reason_of(asked)})")
        width = columns(sys.stderr) - 1
        lines = [] if widest(title) <= width and title.endswith(f" {detail}") else lines  # `Run ls -l`
        whole = f"{title} {why}"
        heads = [whole] if lines or widest(whole) <= width else [title, f"  {why}"]
        head = "\n".join(row for line in heads for row in hanging(line, width))
        keyboard.write(f"{_BOLD}{head}{_PLAIN}\n" if self._colour else f"{head}\n")
        shown = _cut(lines)
        keyboard.write(self._painted(shown, asked.preview.language))
        may = "Allow?" if asked.form is None else "Answer?"
        keys = answers(asked)
        prompt = f"{may} [y]es, [n]o" + (" (or n REASON)" if asked.form is None else "")
        prompt += ", for this [s]ession" if "s" in keys else ""
        prompt += f", [a]lways ({seen_line(', '.join(asked.rules))})" if "a" in keys else ""
        prompt += f", [p] always, any arguments ({seen_line(', '.join(asked.wider))})" if "p" in keys else ""
        prompt += ", [w] all edits, till the end" if "w" in keys else ""
        prompt += ", [?] show all (cut above):" if shown != lines else ":"
        prompt = "\n".join(hanging(prompt, width)) + " "
        pieces = cycle(_pieces(lines, width))
        while True:
            answer = ask_line(keyboard, prompt, given_up=given_up)
            if answer is None:
                return None, ""
            if reason := reason_in(answer) if asked.form is None else "":
                return "n", reason
            answer = answer.strip().lower()
            if answer == "?":
                keyboard.write(self._painted(next(pieces), asked.preview.language))
                continue
            key = _WORDS.get(answer, answer)
            if key in keys:
                return key, ""
            hint = hint_on(asked, self._hint)
            why = f": this is asked each time{hint and f'; {hint}'}" if asked.firm and key in WORDS else ""
            keyboard.write("".join(f"{row}\n" for row in hanging(f"answer {', '.join(keys)}{why}", width)))

    def _painted(self, lines: list[str], language: str) -> str:
        colours = {"+": _GREEN, "-": _RED} if self._colour and language == "diff" else {}
        painted = (f"{colours[line[2]]}{line}{_PLAIN}" if line[2:3] in colours else line for line in lines)
        return "".join(f"{line}\n" for line in painted)


def _cut(lines: list[str]) -> list[str]:
    """As much as a screen holds. What is left out is announced: nobody should agree to something unseen."""
    shown = lines if len(lines) <= _SHOWN_LINES else lines[: _SHOWN_LINES - 1]
    more = [f"  … {len(lines) - len(shown)} more lines"] if len(shown) < len(lines) else []
    return [*(_shortened(line) for line in shown), *more]


def _pieces(lines: list[str], width: int) -> list[list[str]]:
    """The lines in pieces for a terminal's history; each but the last announces the next."""
    most = _PIECE_ROWS * width // 2  # a character may take two columns
    pieces, used = [list[str]()], 0
    for line in lines:
        for at in range(0, len(line) or 1, most):
            part = line[at : at + most] if not at else f"  … {line[at : at + most]}"
            rows = widest(part) // width + 1
            if used + rows > _PIECE_ROWS and pieces[-1]:
                pieces.append([])
                used = 0
            pieces[-1].append(part)
            used += rows
    for number, piece in enumerate(pieces[:-1], 1):
        piece.append(f"  … part {number} of {len(pieces)}: [?] shows the next one")
    return pieces


def _shortened(line: str) -> str:
    left = len(line) - _SHOWN_CHARS
    return line if left <= 0 else f"{line[:_SHOWN_CHARS]} … {left} more characters"


def _why_not(asked: ApprovalAsked, nobody: str) -> str:
    """`container.exec was refused: …`, or that it wasn't run again, and how to allow it."""
    way = flags_for(asked)
    helps = f"{way} allows it" if way else "no flag allows what that rule may forbid"
    if asked.preview.needs and not way:
        helps = "a rule answers only for one simple command, without && and the like"
        helps = "no rule answers that here" if FROM_OUTSIDE in asked.reason else helps
    again = asked.reason.startswith(RAN_ONCE)
    what = "ran once, failed, and wasn't run again" if again else "was refused"
    return f"{asked.call.name} {what}: {asked.reason.removeprefix(f'{RAN_ONCE}; ')}, and {nobody}; {helps}"
