"""A turn followed on the terminal's thread, event by event; meanwhile the live line is drawn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from ossia.agent.events import ApprovalAsked, Decision, Delta, Event
from ossia.agent.turn import Tapped, Turn
from ossia.cli.interrupts import hold
from ossia.cli.runtime.progress import Display

_TICK_S = 0.05
FRAME_S = 0.03
"""The time between two draws of streamed text. Waking this thread for each token would make tokens take 1 % longer: the
decoding threads use all the processors, and each of them waits for the slowest."""


class Answerer(Protocol):
    """Answers the questions of a turn."""

    def decide(self, asked: ApprovalAsked, *, given_up: Callable[[], bool]) -> Decision | None:
        """The answer; None when the turn ended meanwhile (`given_up`): a refusal."""


def follow(
    turn: Turn,
    display: Display,
    see: Callable[[Event | Tapped], object],
    *,
    asker: Answerer | None,
    tick: Callable[[], None] = lambda: None,
    frame_s: float = FRAME_S,
    grace_s: float = 0.6,
) -> None:
    """Show `see` every event of a turn, to its end. `asker` answers what is asked, None: the answer is no.

    `tick` is called all the while, as the live line is drawn. `frame_s`: the rest after a piece of text, 0: none.

    On Ctrl-C the turn is stopped; what still comes within `grace_s` is shown, then KeyboardInterrupt is raised. (A run
    has to be over within a second.) Raises the error of a bug.
    """

    def step() -> None:
        with hold():  # an event that was taken is shown
            event = turn.next(_TICK_S)
            if event is not None:
                see(event)
        if isinstance(event, ApprovalAsked):
            turn.answer(asker.decide(event, given_up=lambda: turn.control.stopped) if asker else None)
            return
        tick()
        display.line.tick()
        if frame_s and isinstance(event, Delta):
            turn.rest(frame_s)

    try:
        while not turn.over:
            step()
    except KeyboardInterrupt:
        turn.stop()
        give_up_at = time.monotonic() + grace_s
        while not turn.over and time.monotonic() < give_up_at:
            step()
        raise
    turn.result()
