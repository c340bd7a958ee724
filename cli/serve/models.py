"""The model of the server: found at the start, loaded behind it, unloaded when nobody asks, loaded again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal

from ossia.agent.lanes import Lanes
from ossia.agent.worker import Worker, awaited, in_background
from ossia.cli.runtime.assembly import begin_model

if TYPE_CHECKING:
    from ossia.agent.build import Begun
    from ossia.agent.control import Control
    from ossia.cli.runtime.progress import Display
    from ossia.cli.settings.config import Resolved

_STEP_S, _CUT_S, _END_S = 0.1, 1.0, 5.0


class Models:
    """The lanes of one model, `lanes` of them. It is unloaded after `idle_s` without a turn; 0: never. Thread-safe.

    Finds the model at once: raises the errors of `begin_model`.

        models = Models(resolved, display, lanes=4, idle_s=900)
        models.begin()
        with models.use(control) as lanes, lanes.lane("resp_1", stop=control) as model:
            …
    """

    def __init__(self, resolved: Resolved, display: Display, *, lanes: int, idle_s: float) -> None:
        self._resolved, self._display, self.lanes, self._idle_s = resolved, display, lanes, idle_s
        self._begun: Begun | None = self._find()
        self.name = self._begun.name
        self.context_tokens: int | None = None  # of each lane; None: the model was never loaded
        self.before_unload: Callable[[Lanes], object] = lambda lanes: None  # on another thread
        self._lock = threading.Lock()
        self._loading: Future[Lanes] | None = None
        self._freeing: Future[None] | None = None
        self._users, self._used_at = 0, time.monotonic()

    @property
    def loaded(self) -> Lanes | None:
        """The lanes, if the model is loaded."""
        loading = self._loading
        return loading.result() if loading and loading.done() and not loading.exception() else None

    @property
    def state(self) -> Literal["loaded", "loading", "unloaded"]:
        """The model's state; a load that failed leaves it unloaded."""
        loading = self._loading
        return "loading" if loading and not loading.done() else "loaded" if self.loaded else "unloaded"

    def begin(self) -> Future[Lanes]:
        """Load it, unless it is loaded or being loaded; a load that failed is tried again."""
        with self._lock:
            loading, self._used_at = self._loading, time.monotonic()
            if loading is None or (loading.done() and loading.exception()):
                before = self._freeing
                loading = self._loading = in_background(lambda: self._load(before))
            return loading

    @contextmanager
    def use(self, stop: Control, on_wait: Callable[[], object] = lambda: None) -> Iterator[Lanes]:
        """The lanes, for one turn. `on_wait` is called some ten times a second while the model is loaded.

        Raises WaitStopped once `stop` is stopped, and the errors of a load.
        """
        with self._lock:
            self._users += 1
        try:
            yield awaited(self.begin(), on_wait, stop=stop)
        finally:
            with self._lock:
                self._users -= 1
                self._used_at = time.monotonic()

    def look(self) -> None:
        """Unload the model if it is time to. Called often; returns at once."""
        with self._lock:
            idle = not self._users and time.monotonic() - self._used_at >= self._idle_s > 0
            if idle and (lanes := self.loaded) is not None:
                self._loading = None
                self._freeing = in_background(lambda: self._unload(lanes, None))
                with suppress(OSError):  # nobody reads it any more
                    self._display.detail(f"{self.name} is unloaded: nobody asked for {self._idle_s:g} s")

    def close(self, *, cut: bool = False) -> None:
        """Unload the model, at the end of the process. Each part that takes more than 5 s is given up.

        `cut`: turns were stopped; wait for the end of their tools instead, at most a second.
        """
        if self._freeing:
            wait([self._freeing], _END_S)
        if lanes := self.loaded:
            give_up_at = time.monotonic() + _CUT_S
            while cut and lanes.busy and time.monotonic() < give_up_at:
                time.sleep(_STEP_S)
            if not cut:
                self._unload(lanes, _END_S)

    def _unload(self, lanes: Lanes, wait_s: float | None) -> None:
        try:
            self.before_unload(lanes)
        finally:
            lanes.close(wait_s)

    def _find(self) -> Begun:
        self._worker = Worker()  # of the first lane
        return begin_model(self._resolved, self._display, self._worker, stays=True, lanes=self.lanes)

    def _load(self, before: Future[None] | None) -> Lanes:
        try:
            if before:
                wait([before])
            begun, self._begun = self._begun or self._find(), None
            models = begun.finish_lanes()
            self.context_tokens = models[0].engine.context_tokens
            return Lanes(models)
        except BaseException:
            self._worker.close(0)
            raise
