"""Requests of the two APIs, answered by `agent.serving` and written as they ask for it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ossia import __version__
from ossia.agent.control import Control
from ossia.agent.serving import chat_in, responses_in
from ossia.agent.serving import models as served
from ossia.agent.serving.chat_out import ChatWriter
from ossia.agent.serving.hosting import Owner
from ossia.agent.serving.responses_out import ResponsesWriter
from ossia.agent.serving.talks import Begun, Event, See, Talks, Waiting
from ossia.agent.stream.events import Loading, Result
from ossia.cli import paths
from ossia.cli.runtime.assembly import limits_of
from ossia.cli.runtime.session import fresh_options
from ossia.cli.serve.faults import ending, refusal_of
from ossia.cli.serve.outlet import Outlet, Start

if TYPE_CHECKING:
    from ossia.agent.lanes import Lanes
    from ossia.agent.serving.asked import Api, Asked
    from ossia.cli.runtime.progress import Display
    from ossia.cli.serve.answer import Door
    from ossia.cli.serve.models import Models
    from ossia.cli.settings.config import Resolved
    from ossia.tools.build import ToolsSpec


class Service:
    """The two APIs over one model. Called on any thread.

    `only_look`: no tool writes, runs or sends, whatever the rules say. `save`: conversations are stored on disk.
    """

    def __init__(
        self,
        models: Models,
        resolved: Resolved,
        spec: ToolsSpec,
        display: Display,
        door: Door,
        *,
        only_look: bool,
        save: bool,
    ) -> None:
        settings = resolved.settings
        self._models, self._door, self._began = models, door, int(time.time())
        # Tools that are named are for every request; the others for those that ask for such a tool.
        owner = Owner(spec, yes=settings.yes, always=settings.tools is not None, only_look=only_look)
        self._talks = Talks(
            self._lanes,
            paths.host(),
            owner,
            model=models.name,
            options=fresh_options(resolved, None),  # the workspace's are for those that may look at it
            limits=partial(limits_of, settings),
            save=save,
            report=display.report,
        )
        models.before_unload = self._talks.save_caches

    def answer(
        self, api: Api, request: Mapping[str, Any], outlet: Outlet, stop: Control, *, openais: bool = False
    ) -> None:
        """Answer a request: `Start`, then the parts. Raises BadRequest, and the errors of a model and of a bug."""
        asked = replace((chat_in if api == "chat" else responses_in).asked_of(request), openais=openais)
        served.require(asked.model, self._models.name)
        answer = _Answer(asked, outlet, stop, self._door, self._ahead)
        try:
            self._talks.answer(asked, stop, answer.see)
        except Exception as error:
            answer.fail(error)
        answer.end()

    def models(self) -> Mapping[str, Any]:
        """The body of `GET /v1/models`."""
        return served.listed(self._models.name, context_tokens=self._models.context_tokens, created=self._began)

    def model(self, name: str) -> object:
        """The body of `GET /v1/models/{name}`. Raises BadRequest for another model."""
        served.require(name, self._models.name)
        return self.models()["data"][0]

    def health(self) -> Mapping[str, Any]:
        """The body of `GET /health`, for anyone: `{"status": "ok", "model": "loading"}`; "ending": the server ends."""
        return {"status": "ending" if self._door.closed else "ok", "model": self._models.state}

    def close(self) -> None:
        """End the tools."""
        self._talks.close()

    @property
    def _ahead(self) -> int:
        """The place in the queue of a turn that comes now: 0, it begins at once."""
        if lanes := self._models.loaded:
            return lanes.waiting + 1 if lanes.busy == len(lanes) else 0
        return max(0, self._door.inside - self._models.lanes)  # it is inside, too

    @contextmanager
    def _lanes(self, stop: Control, see: See) -> Iterator[Lanes]:
        with self._models.use(stop, on_wait=lambda: see(Waiting(self._ahead))) as lanes:
            yield lanes


class _Answer:
    """One answer as its client asked for it."""

    def __init__(self, asked: Asked, outlet: Outlet, stop: Control, door: Door, ahead: int) -> None:
        self._asked, self._outlet, self._stop, self._door, self._ahead = asked, outlet, stop, door, ahead
        self._writer: ResponsesWriter | ChatWriter | None = None
        self._refused: BaseException | None = None

    def see(self, event: Event) -> None:
        """Send an event, or keep it for the whole answer."""
        match event:
            case Begun():
                self._writer = self._writer_of(event)
                if self._asked.stream:
                    self._outlet.put(Start(streamed=True, headers=self._headers))
                    self._send(self._writer.begin())
            case Waiting():
                if self._door.closed:  # it would begin only now
                    self._refused = ending()
                    self._stop.stop()
            case _ if not isinstance(event, Loading):
                if isinstance(event, Result) and (used := event.usage).prompt:
                    read = f"{used.prompt - used.reused:,} of {used.prompt:,} tokens read"
                    self._outlet.cost = f", {read}, {used.completion:,} written"
                assert self._writer is not None
                self._send(self._writer.see(event))

    def fail(self, error: Exception) -> None:
        """The turn broke: a stream says so by its own means, otherwise the error is the answer."""
        if self._writer is None or not self._asked.stream:
            raise error
        self._send(self._writer.see(Result("error", error=str(refusal_of(error)))))

    def end(self) -> None:
        """Send what is still to be sent."""
        writer = self._writer
        assert writer is not None
        if self._asked.stream:
            self._outlet.put(b"data: [DONE]\n\n")
            return
        if error := self._refused or writer.failure:
            raise error
        whole = writer.response() if isinstance(writer, ResponsesWriter) else writer.completion()
        self._outlet.put(Start(streamed=False, headers=self._headers))
        self._outlet.put(json.dumps(whole).encode() + b"\n")

    @property
    def _headers(self) -> Mapping[str, str]:
        return {"ossia-queue": str(self._ahead)}

    def _writer_of(self, begun: Begun) -> ResponsesWriter | ChatWriter:
        asked = self._asked
        if asked.api == "chat":
            name, by = f"chatcmpl-{begun.mark}", f"ossia-{__version__}"
            return ChatWriter(asked, id=name, created=begun.created, model=begun.model, fingerprint=by)
        return ResponsesWriter(
            asked,
            id=begun.id,
            mark=begun.mark,
            created_at=begun.created,
            model=begun.model,
            now=lambda: int(time.time()),
        )

    def _send(self, events: Iterator[Mapping[str, Any]]) -> None:
        for event in events:
            if self._asked.stream:
                named = f"event: {event['type']}\n" if self._asked.api == "responses" else ""
                self._outlet.put(f"{named}data: {json.dumps(event)}\n\n".encode())
