"""One dialogue put to a model: what it should say, what it says, and how far that is the same.

    examiner = Examiner(load_engine(Path("etude.gguf")))
    outcome = examiner.examine(make_case(prefix.text, dialogue), Sampling(temperature=0))
    outcome.exact, outcome.verdicts[0].got       # True, "<|channel|>analysis<|message|>Use python.<|end|>…"

The model runs as `ossia run` runs it: our engine, our tokenizer, our parser. After each completion comes the dialogue's
own tool result. What a tool would have said to another call plays no part: a dialogue ends at its first wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ossia.agent.control import Control
from ossia.agent.engine.base import Engine, Prompt, Sampling, Task
from ossia.harmony.messages import ANALYSIS, COMMENTARY, FINAL, Message
from ossia.harmony.parse import StreamParser
from ossia.harmony.tokenizer import Tokenizer
from tests.etude.dialogues import Dialogue
from tests.etude.exam.failures import ONLY_WORDS, calls, failure, parsed
from tests.support.streams import harmony_ids

_LEAST_ROOM = 160  # tokens: a wrong completion may be longer than the right one, and well-formed


@dataclass(frozen=True, slots=True)
class Step:
    """`given`: what stands before a completion, from the last one on; `wanted`: the completion with its stop token."""

    given: str
    wanted: str

    @property
    def wants_call(self) -> bool:
        return self.wanted.endswith("<|call|>")


@dataclass(frozen=True, slots=True)
class Case:
    """A dialogue as an examination takes it."""

    skill: str
    kind: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One completion. `exact`: the same ids, not only the same text.

    `same`: the same call with the same arguments, or the same answer, whatever was thought before.
    `well_formed`: our parser repairs nothing in it, it ends by itself, in an answer or in a call whose arguments are
    JSON where they should be. `failure`: which of `failures.FAILURES` it is, "" for one that is exact.
    """

    step: Step
    got: str
    exact: bool
    same: bool
    well_formed: bool
    failure: str

    @property
    def calls(self) -> bool:
        """Whether it is a call; one that is malformed is, where a call was wanted."""
        return self.got.endswith("<|call|>") or (self.step.wants_call and not self.well_formed)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case with a verdict on each completion up to the first that isn't the same."""

    case: Case
    verdicts: tuple[Verdict, ...]

    @property
    def exact(self) -> bool:
        return len(self.verdicts) == len(self.case.steps) and all(one.exact for one in self.verdicts)

    @property
    def same(self) -> bool:
        return len(self.verdicts) == len(self.case.steps) and all(one.same for one in self.verdicts)

    @property
    def failed(self) -> Verdict | None:
        """The verdict that tells of it: the first that isn't the same, or else the first that isn't exact."""
        wrong = [one for one in self.verdicts if not one.exact]
        return next((one for one in wrong if not one.same), wrong[0] if wrong else None)


def make_case(prefix: str, dialogue: Dialogue) -> Case:
    """`prefix` is the text of the prompt's static part."""
    steps: list[Step] = []
    given, wanted = prefix, ""
    for text, said in (*dialogue.segments, ("", False)):
        if said:
            wanted += text
            continue
        if wanted:
            steps.append(Step(given, wanted))
            given, wanted = "", ""
        given += text
    return Case(dialogue.skill, dialogue.kind, tuple(steps))


class Examiner:
    """Puts dialogues to an engine, which stays the caller's."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.tokenizer = Tokenizer(engine.vocabulary)

    def examine(self, case: Case, sampling: Sampling) -> Outcome:
        """Let the model say its part of the dialogue, up to the first completion that means something else."""
        ids: list[int] = []
        verdicts: list[Verdict] = []
        for step in case.steps:
            ids += harmony_ids(self.tokenizer, step.given)
            wanted = harmony_ids(self.tokenizer, step.wanted)
            got = self.complete(ids, sampling, max(_LEAST_ROOM, 2 * len(wanted)))
            ids += got
            verdicts.append(self._judge(case, step, wanted, got))
            if not verdicts[-1].same:
                break
        return Outcome(case, tuple(verdicts))

    def complete(self, ids: Sequence[int], sampling: Sampling, max_tokens: int) -> list[int]:
        """What the model says after these ids, with its stop token."""
        generation = self._engine.generate(
            Task(
                Prompt(tuple(ids)),
                stops=self.tokenizer.control.generation_stops,
                max_tokens=max_tokens,
                sampling=sampling,
            ),
            control=Control(),
        )
        return [item for item in generation if isinstance(item, int)]

    def _judge(self, case: Case, step: Step, wanted: Sequence[int], got: Sequence[int]) -> Verdict:
        said, exact = self.read(got), list(got) == list(wanted)
        reference = self.read(wanted)
        assert reference is not None
        wrong = failure(case.steps[0].given, reference, said)
        told = wrong or ("" if exact else ONLY_WORDS)
        return Verdict(step, self.tokenizer.decode(got), exact, not wrong, said is not None, told)

    def read(self, ids: Sequence[int]) -> tuple[Message, ...] | None:
        """The messages of a completion. None: something in it was repaired, or it isn't whole."""
        parser = StreamParser(self.tokenizer)
        for token in ids:
            parser.push(token)
        parser.flush()
        return parser.messages if parser.messages and not parser.repairs and _is_whole(parser.messages) else None


def _is_whole(messages: Sequence[Message]) -> bool:
    """Thoughts or preambles, then an answer that returns or a call that calls."""
    *before, last = messages
    if any(one.channel not in (ANALYSIS, COMMENTARY) or calls(one) for one in before):
        return False
    closed_by = last.sampled.closed_by if last.sampled else None
    if not calls(last):
        return last.channel == FINAL and closed_by == "return"
    named = (last.recipient or "").partition(".")
    if last.channel not in (ANALYSIS, COMMENTARY) or closed_by != "call":
        return False
    return last.recipient == "python" or (bool(named[2]) and isinstance(parsed(last.text), dict))
