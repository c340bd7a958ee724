"""The one model of the process: loaded in the background, used by one session at a time, replaced between turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.agent.worker import WaitStopped, Worker, awaited, in_background
from ossia.cli.acp.rpc import INVALID_REQUEST, RpcError
from ossia.cli.runtime.assembly import begin_model, model_spec

if TYPE_CHECKING:
    from ossia.agent.build import Model
    from ossia.agent.models.spec import ModelSpec
    from ossia.cli.runtime.progress import Display
    from ossia.cli.settings.config import Resolved

_STEP_S, _SHORT_S = 0.05, 0.5


class Models:
    """Loads the model of a session's settings, unless it is loaded. `worker` runs all turns."""

    def __init__(self, display: Display) -> None:
        self.worker = Worker()
        self._display = display
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._spec: ModelSpec | None = None
        self._loading: Future[Model] | None = None

    @property
    def loaded(self) -> Model | None:
        """The model, if one is loaded."""
        loading = self._loading
        return loading.result() if loading and loading.done() and not loading.exception() else None

    def begin(self, resolved: Resolved) -> None:
        """Begin to load the model, unless there is another. `turn` raises the errors."""
        if self._loading is None:
            with suppress(Exception):
                self._load(resolved)

    @contextmanager
    def turn(
        self, resolved: Callable[[], Resolved], stop: Control, show: Callable[[str], object] = lambda said: None
    ) -> Iterator[Model]:
        """The model of a session's settings, for a turn: no other session's turn runs meanwhile.

        `resolved` gives them once it is the session's turn: while it waits, another model may be chosen.
        `show` is called all the while, with what is waited for: `"reading the model · 43 % · 7 s"`.
        Raises `WaitStopped`, and the errors of `begin_model` and `Begun.finish`.
        """
        while not self._turn.acquire(timeout=_STEP_S):
            show("waiting for another session's turn")
            if stop.stopped:
                raise WaitStopped
        try:
            yield awaited(self._load(resolved()), lambda: show(self._display.line.text), stop=stop)
        finally:
            self._turn.release()

    def wait(self, resolved: Resolved, stop: Control) -> bool:
        """Wait until the model of these settings is loaded, beside others' turns. False: another one is in use.

        Raises as `turn` does.
        """
        loading = self._loading
        if loading is None or self._spec != model_spec(resolved, stays=True):
            return False
        awaited(loading, stop=stop)
        return True

    def change(self, resolved: Resolved, *, back: Resolved, use: Callable[[Resolved], object]) -> None:
        """Load the model of these settings now, and `use` them; if that fails, go back to the settings `back`.

        Raises RpcError during a turn, and the errors of `turn`.
        """
        if not self._turn.acquire(timeout=_SHORT_S):
            raise RpcError(INVALID_REQUEST, "a turn is under way: change the model after it, or cancel it first")
        try:
            self._load(resolved).result()
            use(resolved)
        except Exception:
            with suppress(Exception):
                self._load(back)
            raise
        finally:
            self._turn.release()

    def store(self, seconds: float) -> None:
        """Store the static part of the last prompt for the next process, behind what sessions store. At the end."""
        from ossia.agent.kv_cache import save_prompt_cache

        if model := self.loaded:
            with suppress(Exception):  # it only saves time
                self.worker.submit(lambda: save_prompt_cache(model.engine)).result(seconds)

    def _load(self, resolved: Resolved) -> Future[Model]:
        spec = model_spec(resolved, stays=True)
        with self._lock:
            before = self._loading
            if before and spec == self._spec and not (before.done() and before.exception()):
                return before
            self._spec, self._loading = spec, in_background(lambda: self._work(resolved, before))
            return self._loading

    def _work(self, resolved: Resolved, before: Future[Model] | None) -> Model:
        if before:
            self.worker.when_idle(None)  # nothing is read ahead on a closed engine
            with suppress(Exception):  # then it was never loaded
                before.result().close().result()
        begun = begin_model(resolved, self._display, self.worker, stays=True)
        begun.note = ""
        return begun.finish()
