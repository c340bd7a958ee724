"""Several generations at once on one loaded model: a thread steps all lanes that wait, in one batch.

A step for several lanes reads the weights once, so it takes less time than a step for each: with a 0.8 GB model on one
busy core 8.5 ms for one lane, 42 ms for eight; where memory is slower than arithmetic, the gain is larger. Each lane's
generation runs on a thread of its own, as if it were alone; its decoder hands over what is to be decoded, and
waits for the step that does it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from ossia.agent.control import Control
from ossia.agent.engine._batch import Part
from ossia.agent.errors import EngineFailed

if TYPE_CHECKING:
    from ossia.agent.engine._native import Native
    from ossia.agent.engine.cache import Logits

_LEAST_PATIENCE_S, _MOST_PATIENCE_S = 0.002, 0.02
_SHARE_BESIDE = 4
"""While others write, a step takes a quarter of the ids of a prompt that it takes otherwise.

With a 0.8 GB model on one thread, reading 600 ids beside a lane that writes took 9.5 s in whole steps of 64 ids, 10.1 s
in quarters, 11.9 s in eighths; that lane's text stood still for up to 1.2, 0.45 and 0.26 s.
"""


class Scheduler:
    """Owns the context of `native`; `lanes` are its decoders, one for each sequence. Ends with the last lane closed."""

    def __init__(self, native: Native) -> None:
        self._native = native
        self._changed = threading.Condition()
        self._under_way: list[LaneDecoder] = []
        self._abort: Callable[[], None] = lambda: None
        self._patience_s = _LEAST_PATIENCE_S
        self._ended = 0.0  # the last step, in monotonic seconds
        self.lanes = tuple(LaneDecoder(self, native, number) for number in range(native.lanes))
        # It alone decodes: OpenMP makes a team of threads for each thread that does.
        self._thread = threading.Thread(target=self._work, name="ossia-steps", daemon=True)
        self._thread.start()

    # -- the lanes' side -----------------------------------------------------------------------------------------------

    def decode(self, lane: LaneDecoder, part: Part) -> bool:
        with self._changed:
            if lane.stopped:
                return False
            if lane.awaited:
                lane.quick = time.monotonic() - lane.served < self._patience_s
            lane.part, lane.awaited = part, False
            self._changed.notify()
        try:
            outcome = lane.outcomes.get()
        except BaseException:  # an interrupt
            self._withdraw(lane)
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def others_write(self, lane: LaneDecoder) -> bool:
        with self._changed:
            return any(one.is_writing for one in self.lanes if one is not lane)

    def open(self, lane: LaneDecoder, control: Control) -> Callable[[], None]:
        with self._changed:
            lane.opened = opened = object()
            lane.stopped, lane.reading, lane.quick = False, True, True
        forget = control.on_stop(lambda: self._stop(lane, opened))

        def end() -> None:
            forget()
            with self._changed:
                if lane.opened is opened:
                    lane.opened, lane.awaited, lane.stopped = None, False, False
                    self._changed.notify()

        return end

    def close(self, lane: LaneDecoder) -> None:
        with self._changed:
            lane.is_open = False
            last = not any(one.is_open for one in self.lanes)
            self._changed.notify()
        if last:
            self._thread.join()

    def _stop(self, lane: LaneDecoder, opened: object) -> None:
        """A step of others goes on, and its end is the end for this lane, too.

        It takes as long as they need: a token's time while one writes, and seconds for a whole step of 20b's prompts.
        """
        with self._changed:
            if lane.opened is not opened:  # a late stop doesn't hit the next generation
                return
            lane.stopped = True
            if lane in self._under_way:
                if all(one.stopped for one in self._under_way):
                    self._abort()
            elif lane.part is not None:
                lane.part = None
                lane.outcomes.put(False)

    def _withdraw(self, lane: LaneDecoder) -> None:
        with self._changed:
            if lane not in self._under_way and lane.part is not None:
                lane.part = None
                return
        lane.outcomes.get()

    # -- the thread that decodes ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        while chosen := self._next():
            self._step(chosen)
        self._native.close()

    def _next(self) -> list[LaneDecoder]:
        """Wait for the lanes of the next step. Empty: all are closed.

        A lane that got logits a moment ago is drawing an id, and gets that moment: otherwise it would miss this step,
        the others the next one, and each step would be for half of them. That is, unless it took too long last time:
        its reader is slow.
        """
        with self._changed:
            while any(lane.is_open for lane in self.lanes):
                waiting = [lane for lane in self.lanes if lane.part is not None]
                drawing = [lane for lane in self.lanes if lane.awaited and lane.quick]
                left = self._ended + self._patience_s - time.monotonic() if drawing else 0.0
                if waiting and left <= 0:
                    for lane in drawing:
                        lane.quick = False
                    self._under_way = self._choose(waiting)
                    return self._under_way
                self._changed.wait(left if waiting else None)
        return []

    def _choose(self, waiting: Sequence[LaneDecoder]) -> list[LaneDecoder]:
        """Those who write, then those who read a prompt, as far as there is room; who was served last comes last."""
        in_turn = sorted(waiting, key=lambda lane: (lane.reading, lane.served))
        room, chosen = self._native.batch_tokens, list[LaneDecoder]()
        writing = any(lane.is_writing for lane in self.lanes)
        read, most = 0, self._native.step_tokens // (_SHARE_BESIDE if writing else 1)
        for lane in in_turn:
            assert lane.part is not None
            size = len(lane.part.ids)
            if size > room or (lane.reading and read and read + size > most):
                continue
            chosen.append(lane)
            room -= size
            read += size if lane.reading else 0
        return chosen

    def _step(self, chosen: Sequence[LaneDecoder]) -> None:
        outcome: bool | Exception
        parts = [lane.part for lane in chosen if lane.part is not None]
        began = time.monotonic()
        try:
            with self._native.gate:
                with self._changed:
                    self._abort = self._native.new_abort_flag()
                    if all(lane.stopped for lane in chosen):
                        self._abort()
                    self._native.may_use_fewer_threads = all(lane.may_use_fewer_threads for lane in chosen)
                logits = self._native.step(parts)
            outcome = logits is not None
            if logits is not None:
                for lane, row in zip(chosen, logits, strict=True):
                    lane.keep(row)
        except Exception as error:
            outcome = error
        with self._changed:
            self._ended = time.monotonic()
            self._patience_s = min(max(self._ended - began, _LEAST_PATIENCE_S), _MOST_PATIENCE_S)
            self._under_way = []
            for lane, part in zip(chosen, parts, strict=True):
                lane.part, lane.awaited, lane.served = None, lane.opened is not None, self._ended
                lane.reading = lane.reading and not part.logits
                # Each lane raises an error of its own: a traceback belongs to one thread.
                lane.outcomes.put(EngineFailed(str(outcome)) if isinstance(outcome, EngineFailed) else outcome)


class LaneDecoder:
    """The decoder of one lane (`agent.engine.generation.Decoder`), for one thread.

    `step_tokens`: fewer while another lane writes, so that its text doesn't come in bursts.
    """

    def __init__(self, scheduler: Scheduler, native: Native, number: int) -> None:
        self.number, self.batch_tokens = number, native.batch_tokens
        self.may_use_fewer_threads = False
        self.is_open = True
        self._scheduler = scheduler
        # Beside a whole step of a prompt there is room for an id of each other lane: those who write come first, and
        # it would wait for the end of their answers.
        self._step_tokens = min(native.step_tokens, max(1, native.batch_tokens - native.lanes + 1))
        self._logits: Logits = np.empty(native.vocabulary_size, np.float32)
        # The scheduler's, which has a lock for them.
        self.outcomes = SimpleQueue[bool | Exception]()  # one for each part
        self.part: Part | None = None  # to be decoded
        self.opened: object = None  # the generation or the prefill that is open
        self.reading = self.stopped = False
        self.awaited = False  # it got a result
        self.quick = True  # it came back in time after the one before
        self.served = 0.0

    @property
    def is_writing(self) -> bool:
        """True between two ids of an answer; not for a reader who is slow to fetch them."""
        return self.opened is not None and not self.reading and (self.part is not None or self.quick)

    @property
    def step_tokens(self) -> int:
        share = _SHARE_BESIDE if self._scheduler.others_write(self) else 1
        return max(1, self._step_tokens // share)

    def open(self, control: Control) -> Callable[[], None]:
        """From now on a stop ends a decode; returns a function to end this."""
        return self._scheduler.open(self, control)

    def decode(self, start: int, ids: Sequence[int], *, logits: bool = True) -> bool:
        return self._scheduler.decode(self, Part(self.number, start, ids, logits))

    def logits(self) -> Logits:
        return self._logits

    def keep(self, row: Logits) -> None:
        """Copy the logits of a step: the next one is of others, and overwrites them."""
        if row.size:
            np.copyto(self._logits, row)

    def close(self) -> None:
        """Give the lane back. The model goes with the last one."""
        if self.is_open:
            self._scheduler.close(self)
