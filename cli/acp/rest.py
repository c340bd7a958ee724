"""A session at rest: the next prompt is read ahead, then a title is written. It must cost nobody anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ossia.agent.errors import AgentError
from ossia.cli.acp.history import info_update
from ossia.cli.runtime.idleness import read_ahead

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ossia.agent.control import Control
    from ossia.agent.request import ContextUse, Request, Responder
    from ossia.agent.worker import Idle
    from ossia.cli.acp.options import Owner

_AGAIN_S = 4.0


def begin(session: Owner) -> None:
    """Read the next prompt ahead whenever the worker and the machine are idle. Between turns, with a model in use."""
    read_ahead(session.talk, session.resolved.settings, lambda *asked: _title(session, *asked))


def send_usage(session: Owner) -> None:
    """Measure the context and send how full it is. With a model in use."""

    def send(future: Future[ContextUse]) -> None:
        if not future.exception():
            use = future.result()
            session.update({"sessionUpdate": "usage_update", "used": use.used_tokens, "size": use.total_tokens})

    session.talk.measure().add_done_callback(send)


def _title(session: Owner, request: Request, responder: Responder) -> Idle | None:
    """The title's job for `Worker.when_idle`; None: no title is needed. The first question is one until then."""
    talk, store, session_id = session.talk, session.talk.store, session.talk.opened.session_id
    if session.resolved.settings.titles != "model" or store is None or session_id is None or session.titled:
        return None
    if request.response_format or talk.session.ends[-1:] != ("answered",):
        return None

    def write(control: Control) -> float | None:
        from ossia.agent.titles import written_title

        try:
            title = written_title(request, responder, control=control) if store.wants_title(session_id) else ""
            if control.stopped:
                return _AGAIN_S
            session.titled = True
            if title:
                store.entitle(session_id, title)
                if update := info_update(talk):
                    session.update(update)
        except AgentError:  # nothing can be stored, or the engine failed: the next turn says so
            session.titled = True
        return None

    return write
