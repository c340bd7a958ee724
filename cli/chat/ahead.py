"""Work of a chat at rest: the next prompt is read ahead, then a title is written. It must cost nobody anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ossia.agent.errors import AgentError
from ossia.agent.titles import written_title
from ossia.cli.runtime.idleness import read_ahead

if TYPE_CHECKING:
    from ossia.agent.control import Control
    from ossia.agent.request import Request, Responder
    from ossia.agent.sessions.store import SessionStore
    from ossia.cli.chat.owner import Owner

_DATE_EVERY_S = 30.0
_REST_S = 4.0
"""The chat is at rest after so long without a key."""


class ReadingAhead:
    """Has the next prompt read during idle times, then a title written."""

    def __init__(self, chat: Owner, titles: Titles) -> None:
        self._chat, self._titles = chat, titles
        ahead = chat.conversation.ahead
        ahead.on_change, ahead.on_fault = lambda: chat.face.wake(), self._fail

    def begin(self) -> None:
        """Read ahead for the session whenever the worker is idle. Between turns."""
        chat, conversation = self._chat, self._chat.conversation
        conversation.ahead.end()
        if chat.control is None and not chat.outbox.queue and chat.loaded:
            read_ahead(conversation, chat.settings, self._titles.writer)

    def watch_the_date(self) -> None:
        """Check the date now and then. On the loop's thread."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(_DATE_EVERY_S)
                self.new_day()

        self._chat.background.task(watch())

    def new_day(self) -> None:
        """Read the prompt ahead with a new date, if it has changed."""
        if self._chat.control is None and self._chat.conversation.take_date():
            self._chat.measure()

    def _fail(self, error: Exception) -> None:
        """Raise a bug on the loop's thread: a traceback."""

        def fail() -> None:
            raise error

        self._chat.background.on_loop(fail)


class Titles:
    """Asks the model for a title, once for each conversation; without a usable one the question remains the title."""

    def __init__(self, chat: Owner, *, clock: Callable[[], float]) -> None:
        self._chat, self._clock = chat, clock
        self._touched_at = clock()
        self._writing: Control | None = None
        self._asked: set[str] = set()  # ids of sessions

    def touched(self) -> None:
        """A key was pressed: a title under way stops until the next rest."""
        self._touched_at = self._clock()
        if (control := self._writing) is not None:
            control.stop()

    def writer(self, request: Request, responder: Responder) -> Callable[[Control], float | None] | None:
        """The title's job for `Worker.when_idle`; None: no title is needed. Between turns."""
        conversation = self._chat.conversation
        store, session_id = conversation.store, conversation.opened.session_id
        if self._chat.settings.titles != "model" or store is None or session_id is None or session_id in self._asked:
            return None
        if request.response_format or conversation.session.ends[-1:] != ("answered",):
            return None
        try:
            if not store.wants_title(session_id):
                return None
        except AgentError:  # the chat reports elsewhere that nothing can be stored
            return None
        self._touched_at = self._clock()
        return lambda control: self._write(request, responder, store, session_id, control)

    # -- on the worker's thread ----------------------------------------------------------------------------------------

    def _write(
        self, request: Request, responder: Responder, store: SessionStore, session_id: str, control: Control
    ) -> float | None:
        self._writing = control
        try:
            if (rest_s := self._rest_in_s()) > 0:
                return rest_s
            if not store.wants_title(session_id):  # the user has set one meanwhile
                return None
            title = written_title(request, responder, control=control)
        except AgentError:
            title = ""
        finally:
            self._writing = None
        if control.stopped:
            return _REST_S
        self._asked.add(session_id)
        if title:
            self._chat.background.on_loop(lambda: self._store(title, store, session_id))
        return None

    def _rest_in_s(self) -> float:
        """Seconds until the chat may be at rest; 0: it is."""
        chat, face = self._chat, self._chat.face
        if face.input_text or face.asks or face.screen.away or chat.control or chat.background.job:
            return _REST_S
        return max(0.0, self._touched_at + _REST_S - self._clock())

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    def _store(self, title: str, store: SessionStore, session_id: str) -> None:
        if self._chat.conversation.store is store:  # it may have become private meanwhile
            with suppress(AgentError):
                store.entitle(session_id, title)
