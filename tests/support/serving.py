"""A server's conversations without HTTP, on scripted models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ossia.agent.build import Model, models
from ossia.agent.control import Control
from ossia.agent.engine.base import Engine, Generation, Prompt, Task
from ossia.agent.lanes import Lanes
from ossia.agent.models.spec import ModelSpec
from ossia.agent.serving.asked import Asked
from ossia.agent.serving.hosting import Owner
from ossia.agent.serving.talks import Begun, Event, See, Talks
from ossia.agent.stream.events import Result
from ossia.tools.build import ToolsSpec
from ossia.tools.host import Host
from tests.support.command import write_script
from tests.support.host import host_in

FINAL = "<|channel|>final<|message|>{}<|return|>"
CALL = (
    "<|channel|>analysis<|message|>{}<|end|>"
    "<|start|>assistant<|channel|>commentary to={} <|constrain|>json<|message|>{}<|call|>"
)


@dataclass
class Recording:
    """A scripted engine that takes note of the prompts that it is given."""

    engine: Engine
    noted: list[Prompt]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def generate(self, task: Task, *, control: Control) -> Generation:
        self.noted.append(task.prompt)
        return self.engine.generate(task, control=control)


class Serving:
    """The conversations of clients over `models`, a lane each. `prompts`: those that were read, in order."""

    def __init__(self, models: tuple[Model, ...], host: Host, owner: Owner, **rest: Any) -> None:
        self.models, self.host, self.lanes = models, host, Lanes(models)
        self.talks = Talks(self._loaded, host, owner, model="gpt-oss-20b", **rest)
        self.prompts: list[Prompt] = []
        self.events: list[Event] = []
        for one in models:
            one.engine = one.responder.engine = cast("Engine", Recording(one.engine, self.prompts))  # type: ignore[union-attr]

    def _loaded(self, stop: Control, see: See) -> AbstractContextManager[Lanes]:
        return nullcontext(self.lanes)

    def text(self, prompt: int = -1) -> str:
        """A prompt as text."""
        return self.models[0].tokenizer.decode(self.prompts[prompt].ids)

    def answer(self, asked: Asked, stop: Control | None = None) -> tuple[Begun, Result]:
        """The first and the last event of the answer; `events` has all."""
        self.events = []
        result = self.talks.answer(asked, stop or Control(), self.events.append)
        begun = self.events[0]
        assert isinstance(begun, Begun) and self.events[-1] is result
        return begun, result


@contextmanager
def serving(
    folder: Path, *steps: str, owner: Owner | None = None, lanes: int = 1, etude: bool = False, **rest: Any
) -> Iterator[Serving]:
    """Conversations whose model writes these steps. `etude`: the built-in model instead."""
    host = host_in(folder)
    script = Path(write_script(folder, *steps).removeprefix("script:"))
    spec = ModelSpec("etude", context=4096) if etude else ModelSpec(script=script)
    made = Serving(models(spec, host, lanes=lanes), host, owner or Owner(ToolsSpec(trained=())), **rest)
    try:
        yield made
    finally:
        made.talks.close()
        made.lanes.close()
