"""The events of a turn, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ossia.agent.engine.base import ConstraintDropped, Progress, StepStats
from ossia.agent.errors import AgentError
from ossia.harmony.messages import Delta, Message, Repaired
from ossia.tools.spec import ApprovalAsked, ApprovalDecided, Decision, ToolFinished, ToolOutput, ToolShown, ToolStarted

TurnEnd = Literal["answered", "silent", "called", "stopped", "tokens", "time", "steps", "context", "loop", "error"]
"""The end of a turn. answered: with a `final`; silent: the model ended it without a `final` that says anything.

called: with a call for a client to run (`ToolSpec.returned`); its result opens the turn again. stopped: by the user;
tokens, time, steps: at a limit; context: no room; loop: the model repeated itself; error: it broke.
"""


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message entered the session. `cut`: a stop or a limit ended it, not a token that closes it.

    `steers`: the user said it in the middle of the turn (`Turn.steer`).
    """

    message: Message
    cut: bool = False
    steers: bool = False


@dataclass(frozen=True, slots=True)
class ContextTrimmed:
    """From now on the prompt has older messages in a shorter form, so that the turn fits; the session keeps them whole.

    The token counts are the prompt's. `reason` is a line for people that says what was replaced, and how. `results` is
    how many results of tools were shortened. `turns` is how many turns, from the first on, `summary` stands for (0 and
    None: there is no new one).
    """

    tokens_before: int
    tokens_after: int
    reason: str
    results: int = 0
    turns: int = 0
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class SampledAgain:
    """A step is drawn once more, since nothing of it could be shown: `SampledAgain("its answer was empty")`."""

    reason: str


@dataclass(frozen=True, slots=True)
class ThinkingCut:
    """A step's reasoning reached its limit, `tokens`: the answer is opened."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of one step."""

    step: StepStats


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The last event of every turn. `error` is set when something broke, or when the prompt itself didn't fit."""

    end: TurnEnd
    error: AgentError | None = None


Event = (
    Delta
    | MessageAdded
    | ApprovalAsked
    | ApprovalDecided
    | ToolShown
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | Progress
    | Repaired
    | ConstraintDropped
    | ContextTrimmed
    | SampledAgain
    | ThinkingCut
    | Stats
    | TurnEnded
)

__all__ = [
    "ApprovalAsked",
    "ApprovalDecided",
    "ConstraintDropped",
    "ContextTrimmed",
    "Decision",
    "Delta",
    "Event",
    "MessageAdded",
    "Progress",
    "Repaired",
    "SampledAgain",
    "Stats",
    "ThinkingCut",
    "ToolFinished",
    "ToolOutput",
    "ToolShown",
    "ToolStarted",
    "TurnEnd",
    "TurnEnded",
]
