"""The suite `chain`: each call needs what the last one returned, 4 to 8 of them. Judged: the answer, and the calls."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ossia.cli.eval.task import Call, Function, Judge, Task, Verdict, arguments_of
from ossia.tools.spec import Tool, ToolFailed

if TYPE_CHECKING:
    from ossia.agent.stream.account import Account


@dataclass(frozen=True, slots=True)
class Step:
    """One function: `Step("find_reader", "name", "reader_id", "R")` gives a reader's id, such as R412, for a name."""

    name: str
    takes: str
    gives: str
    prefix: str
    about: str


_LIBRARY = (
    Step("find_reader", "name", "reader_id", "R", "The id of a reader."),
    Step("last_loan", "reader_id", "loan_id", "L", "A reader's last loan."),
    Step("get_loan", "loan_id", "copy_id", "C", "Which copy was lent."),
    Step("get_copy", "copy_id", "shelf", "S", "On which shelf a copy stands."),
    Step("get_shelf", "shelf", "room", "M", "In which room a shelf is."),
    Step("get_room", "room", "keeper_id", "K", "Who looks after a room."),
    Step("get_keeper", "keeper_id", "desk", "D", "At which desk somebody works."),
    Step("get_desk", "desk", "phone", "", "The phone number of a desk."),
)
_FREIGHT = (
    Step("find_order", "customer", "order_id", "O", "The open order of a customer."),
    Step("get_order", "order_id", "parcel_id", "P", "The parcel of an order."),
    Step("get_parcel", "parcel_id", "truck", "T", "The truck that carries a parcel."),
    Step("get_truck", "truck", "route", "W", "The route of a truck."),
    Step("get_route", "route", "depot", "H", "The depot at the end of a route."),
    Step("get_depot", "depot", "gate", "G", "The gate of a depot."),
    Step("get_gate", "gate", "camera", "V", "The camera of a gate."),
    Step("get_camera", "camera", "code", "", "The code of a camera."),
)
_LENGTHS = ((_LIBRARY, (4, 5, 6, 7, 8)), (_FREIGHT, (4, 5, 6, 7, 8)))
_NAMES = ("Ada Lind", "Bo Marsh", "Cleo Hart", "Dov Stern", "Eve Quill", "Finn Roe", "Gus Ward", "Hana Berg",
          "Ivo Kern", "Jun Sato")  # fmt: skip


def tasks(seed: int) -> list[Task]:
    """`chain/library-4`, …: the number is that of the calls."""
    chance = random.Random(f"chain {seed}")
    names = chance.sample(_NAMES, len(_NAMES))
    found = []
    for title, (steps, lengths) in zip(("library", "freight"), _LENGTHS, strict=True):
        found += [_task(f"chain/{title}-{length}", steps[:length], names.pop(), chance) for length in lengths]
    return found


def _task(name: str, steps: Sequence[Step], start: str, chance: random.Random) -> Task:
    keys = [start, *(f"{step.prefix}{number}" for step, number in
                     zip(steps, chance.sample(range(1000, 9999), len(steps)), strict=True))]  # fmt: skip
    calls: tuple[Call, ...] = tuple(
        (f"functions.{step.name}", {step.takes: key}) for step, key in zip(steps, keys, strict=False)
    )
    others = chance.sample(range(100, 999), len(steps))
    wanted = steps[-1].gives.replace("_", " ")
    prompt = (
        f"Start with the {steps[0].takes} {start!r} and follow the functions, one call after another, until you have "
        f"the {wanted} ({steps[-1].about.rstrip('.').lower()}). What is it? Answer with it alone."
    )

    def functions() -> Sequence[Tool]:
        made = zip(steps, keys, keys[1:], others, strict=False)
        tools = [_function(step, key, gives, other) for step, key, gives, other in made]
        return tools[1::2] + tools[::2]  # in another order than they are needed

    return Task(name, prompt, _judge(keys[-1], calls), functions, calls=calls, answer=keys[-1])


def _function(step: Step, key: str, gives: str, other: int) -> Tool:
    def answer(args: dict[str, Any]) -> str:
        if str(args[step.takes]).strip().lower() != key.lower():
            raise ToolFailed(f"Error: there is no {step.takes} {args[step.takes]!r}")
        return json.dumps({step.takes: key, "note": f"checked {other}", step.gives: gives})

    return Function(step.name, step.about, {step.takes: {"type": "string"}}, answer)


def _judge(answer: str, calls: Sequence[Call]) -> Judge:
    def judge(report: Account) -> Verdict:
        said = report.answer or ""
        made = [(done.call.name, arguments_of(done)) for done in report.calls]
        passed = answer.lower() in said.lower()
        return Verdict(passed, "" if passed else f"the answer isn't {answer}", f1(made, calls))

    return judge


def f1(made: Sequence[Call], right: Sequence[Call]) -> float:
    """The fit of the calls: the harmonic mean of precision and recall of those that match, in order.

    f1([a, b, x], [a, b, c])    # 2 of 3 were right, 2 of 3 were made: 0.67
    """
    lengths = [[0] * (len(right) + 1) for _ in range(len(made) + 1)]
    for i, one in enumerate(made):
        for j, other in enumerate(right):
            longer = lengths[i][j] + 1 if _same(one, other) else 0
            lengths[i + 1][j + 1] = max(longer, lengths[i][j + 1], lengths[i + 1][j])
    return 2 * lengths[-1][-1] / (len(made) + len(right)) if made or right else 1.0


def _same(one: Call, other: Call) -> bool:
    return one[0].removeprefix("functions.") == other[0].removeprefix("functions.") and one[1] == other[1]
