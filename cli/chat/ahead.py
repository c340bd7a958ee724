"""When a chat reads ahead, and for which date."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ossia.agent.respond import LocalResponder
from ossia.cli.chat.idleness import Idleness

if TYPE_CHECKING:
    from ossia.cli.chat.owner import Owner
    from ossia.cli.chat.titles import Titles

_DATE_EVERY_S = 30.0


class ReadingAhead:
    """Has the next prompt read while nothing else goes on; then a title may be written."""

    def __init__(self, chat: Owner, titles: Titles) -> None:
        self._chat, self._titles = chat, titles
        self._idleness: Idleness | None = None
        ahead = chat.conversation.ahead
        ahead.on_change, ahead.on_fault = lambda: chat.face.wake(), self._fail

    def begin(self) -> None:
        """Read ahead for the session as it stands, whenever the worker has nothing to do. Between turns."""
        chat, conversation = self._chat, self._chat.conversation
        loaded, mode = chat.loaded, chat.settings.prefill_ahead
        conversation.ahead.end()
        if chat.control is not None or chat.queue or loaded is None or mode == "off":
            return
        responder = loaded.model.responder
        if "prefill" not in loaded.model.engine.capabilities or not isinstance(responder, LocalResponder):
            return
        if mode == "auto" and self._idleness is None:
            from ossia.agent.engine.threads import default_threads

            self._idleness = Idleness(chat.settings.threads or default_threads())
        idle = self._idleness.now if mode == "auto" and self._idleness else None
        request = chat.session.request_ahead(loaded.tools.toolbox.specs)
        conversation.ahead.begin(request, responder, idle=idle, then=self._titles.writer(request, responder))

    def watch_the_date(self) -> None:
        """Notice a new day from now on: the prompt with its date is read ahead, too. On the loop's thread."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(_DATE_EVERY_S)
                self.new_day()

        self._chat.background.task(watch())

    def new_day(self) -> None:
        """Look whether the date has changed; where it matters, the prompt is read anew."""
        if self._chat.control is None and self._chat.conversation.take_date():
            self._chat.measure()

    def _fail(self, error: Exception) -> None:
        """A bug of ours becomes a traceback on the loop's thread."""

        def fail() -> None:
            raise error

        self._chat.background.on_loop(fail)
