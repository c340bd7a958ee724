"""A loaded model, shared by agents."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ossia.api.parts import require_number
from ossia.errors import AgentClosed, ArgumentError

if TYPE_CHECKING:
    from types import TracebackType

    from ossia.agent.models.spec import ModelSpec
    from ossia.api.load import Load
    from ossia.tools.host import Host

_SCRIPT = "script:"
END_S = 2.0
"""The wait for the end of a model or an agent, if nobody closed it."""


class Model:
    """A model, loaded once, that several agents share. `parallel` of their turns run at once, the others in order.

    Each of those takes the memory of a context; a turn alone is as fast as ever, and several together read the weights
    once for all of them.

    `name`: as `ossia models list` shows it, or the path of a GGUF file; None: the best one on this machine. `engine`:
    the address of a server that runs it instead, such as `"http://127.0.0.1:8080"`: prompts, files and results go
    there; or `"script:FILE"`, for tests: what a model would write (docs/formats.md). `context`: in tokens, None: what
    fits. `data`: a folder for all that is stored (models, sessions, caches, the log), None: the user's own places.

        with Model("gpt-oss-20b") as model, Agent(model) as one, Agent(model, effort="high") as other:
            print(one.ask("What is 48*17?").text, other.ask("And 48*18?").text)     # 816 864
    """

    def __init__(
        self,
        name: str | os.PathLike[str] | None = None,
        *,
        engine: str = "llama",
        context: int | None = None,
        threads: int | None = None,
        gpu_layers: int | None = None,
        parallel: int = 1,
        data: str | os.PathLike[str] | None = None,
    ) -> None:
        if engine != "llama" and not engine.startswith((_SCRIPT, "http://", "https://")):
            raise ArgumentError(f'engine: must be "llama", http://HOST:PORT or script:FILE, not {engine!r}')
        if not isinstance(name, str | os.PathLike | None):
            raise ArgumentError(f"model: must be a name, the path of a GGUF file or a Model, not {name!r:.80}")
        for key, number in (("context", context), ("threads", threads), ("parallel", parallel)):
            require_number(key, number, 1)
        require_number("gpu_layers", gpu_layers, 0)
        self.name, self.data, self._engine = None if name is None else os.fspath(name), data, engine
        self.context, self._threads, self._gpu_layers, self._lanes = context, threads, gpu_layers, parallel
        self._weights = Weights()  # for the agents of this folder, as `_spec` is
        weakref.finalize(self, self._weights.close, END_S)

    def load(self) -> None:
        """Load it now instead of with the first question. Raises ModelError, DoesNotFit, EngineFailed and the like."""
        from ossia.api.host import host_of

        self._weights.begin(self._spec, host_of(self.data)).built.result()

    def close(self) -> None:
        """Free its memory once the turns under way have ended. May be called more than once."""
        self._weights.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._weights.close(patience(kind))

    def _spec(self) -> ModelSpec:
        """The model as it is loaded. Raises AddressUnusable."""
        from pathlib import Path

        from ossia.agent.models.spec import ModelSpec

        spec = ModelSpec(self.name, context=self.context, lanes=self._lanes)
        if self._engine.startswith(_SCRIPT):
            return replace(spec, script=Path(self._engine.removeprefix(_SCRIPT)))
        if self._engine == "llama":
            return replace(spec, threads=self._threads, gpu_layers=self._gpu_layers)
        from ossia.agent.engine.remote.address import parse_url

        return replace(spec, server=parse_url(self._engine, where="engine"))


def patience(kind: type[BaseException] | None) -> float | None:
    """The seconds that leaving a `with` may take: none after Ctrl-C, else what it needs (None)."""
    return 0.0 if kind is not None and issubclass(kind, KeyboardInterrupt) else None


class Weights:
    """The weights of a `Model`, for its agents. `owned`: the last of them closes it."""

    def __init__(self) -> None:
        self._lock, self._process = threading.Lock(), os.getpid()
        self._load: Load | None = None
        self.closed = False
        self._agents = 0
        self.owned = False

    def require_open(self) -> None:
        """Raise AgentClosed if it is closed, or in a forked process."""
        if self.closed:
            raise AgentClosed("the model is closed: make another one, Model(…)")
        if not self.here:
            raise AgentClosed("the model belongs to the process that this one was forked from: make another one here")

    @property
    def here(self) -> bool:
        """False in a forked process: threads and tools are its parent's."""
        return os.getpid() == self._process

    def begin(self, spec: Callable[[], ModelSpec], host: Host) -> Load:
        """Begin to load, unless that was done. A load that failed is tried again. Raises AgentClosed."""
        with self._lock:
            self.require_open()
            if self._load is None or self._load.failed:
                from ossia.api.load import Load

                self._load = Load(spec(), host)
            return self._load

    def enter(self) -> None:
        """Count one more agent."""
        with self._lock:
            self._agents += 1

    def leave(self, wait_s: float | None = None) -> None:
        """Count one less."""
        with self._lock:
            self._agents -= 1
            last = self.owned and not self._agents
        if last:
            self.close(wait_s)

    def close(self, wait_s: float | None = None) -> None:
        """Free them once no turn is under way. Wait at most so long for that; None: as long as it takes."""
        if not self.here:
            return
        with self._lock:
            self.closed, load, self._load = True, self._load, None
        if load:
            load.close(wait_s)
