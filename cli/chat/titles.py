"""A title by the model, once the chat is at rest and all is read ahead: it must cost the conversation nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ossia.agent.errors import AgentError
from ossia.agent.titles import written_title

if TYPE_CHECKING:
    from ossia.agent.control import Control
    from ossia.agent.request import Request, Responder
    from ossia.agent.sessions.store import SessionStore
    from ossia.cli.chat.owner import Owner

_REST_S = 4.0
"""The chat is at rest when nobody has pressed a key for so long."""


class Titles:
    """Asks once for each conversation; if nothing usable comes, what was asked stays its title."""

    def __init__(self, chat: Owner, *, clock: Callable[[], float]) -> None:
        self._chat, self._clock = chat, clock
        self._touched_at = clock()
        self._writing: Control | None = None
        self._asked: set[str] = set()  # ids of sessions

    def touched(self) -> None:
        """A key was pressed: the title that is being written is given up, and tried again at the next rest."""
        self._touched_at = self._clock()
        if (control := self._writing) is not None:
            control.stop()

    def writer(self, request: Request, responder: Responder) -> Callable[[Control], float | None] | None:
        """The job that writes the title, for `Worker.when_idle`; None: this conversation needs none. Between turns."""
        chat, store, session_id = self._chat, self._chat.store, self._chat.opened.session_id
        if chat.settings.titles != "model" or store is None or session_id is None or session_id in self._asked:
            return None
        if request.response_format or chat.session.ends[-1:] != ("answered",):
            return None
        try:
            if not store.wants_title(session_id):
                return None
        except AgentError:  # the chat says elsewhere that nothing can be stored
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
            if not store.wants_title(session_id):  # the user has given it one meanwhile
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
        """In how many seconds the chat can be at rest; 0: it is."""
        chat, face = self._chat, self._chat.face
        if face.input_text or face.asks or face.screen.away or chat.control or chat.background.job:
            return _REST_S
        return max(0.0, self._touched_at + _REST_S - self._clock())

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    def _store(self, title: str, store: SessionStore, session_id: str) -> None:
        if self._chat.store is store:  # else it has become private meanwhile
            with suppress(AgentError):
                store.entitle(session_id, title)
