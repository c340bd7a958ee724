"""Reading ahead: while nothing else goes on, the model reads what the next prompt is sure to begin with.

That is the static part, and then what was said so far, as the next turn will see it: without the thinking of past
turns. During a turn nothing is read ahead: the worker's thread waits for the tool or the answer.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ossia.agent.errors import AgentError
from ossia.cli.chat.leisure import Leisure

if TYPE_CHECKING:
    from ossia.agent.control import Control
    from ossia.agent.engine.base import Progress
    from ossia.agent.request import Request
    from ossia.cli.chat.state import State
    from ossia.cli.chat.titles import Titles
    from ossia.cli.runtime.assemble import Assembly

_LOOK_AGAIN_S = 2.0
_DATE_EVERY_S = 30.0
_SHOWN_FROM = 64
"""Progress is shown from this many ids on: fewer are read before anybody could look."""


class ReadingAhead:
    """`progress`: how many ids of the next prompt have been read, and out of how many; None while nothing is read.

    `today` gives the date. On a new day, a conversation in which nothing was said yet takes the new date, and `changed`
    is called; one that has begun keeps its own. Once everything is read, `titles` may have a title written.
    """

    def __init__(
        self, chat: State, titles: Titles, *, today: Callable[[], datetime.date], changed: Callable[[], object]
    ) -> None:
        self._chat, self._titles, self._today, self._changed = chat, titles, today, changed
        self._leisure: Leisure | None = None
        self.progress: tuple[int, int] | None = None
        self._request: Request | None = None
        self.done = False
        """Has everything been read that can be?"""

    def begin(self, assembly: Assembly) -> None:
        """Read ahead for the session as it stands, whenever the worker has nothing to do. Between turns."""
        chat, mode = self._chat, self._chat.settings.prefill_ahead
        self.end()
        if chat.control is not None or chat.queue:
            return
        if mode == "off" or "prefill" not in assembly.model.engine.capabilities:
            return
        if mode == "auto" and self._leisure is None:
            from ossia.agent.engine.threads import default_threads

            self._leisure = Leisure(chat.settings.threads or default_threads())
        leisure = self._leisure if mode == "auto" else None
        self._request = request = chat.session.request_ahead(assembly.tools.toolbox.specs)
        title = self._titles.wish(request, assembly.model.responder)

        def idle(control: Control) -> float | None:
            try:
                again_s = self._read(assembly, request, leisure, control)
                return title(control) if title and again_s is None and self.done else again_s
            except AgentError:  # the turn itself will say what is wrong
                return None
            except Exception as error:
                self._tell(error)
                return None

        chat.worker.when_idle(idle)

    def end(self) -> None:
        """Read nothing from now on; what was read stays."""
        self.progress, self.done, self._request = None, False, None
        self._chat.worker.when_idle(None)

    # -- the date ------------------------------------------------------------------------------------------------------

    def watch_the_date(self) -> None:
        """Notice a new day from now on: the prompt with its date is read ahead, too. On the loop's thread."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(_DATE_EVERY_S)
                self.new_day()

        self._chat.background.task(watch())

    def new_day(self) -> None:
        """Look whether the date has changed; where it matters, the prompt is read anew."""
        if self._chat.control is None and self.date_it():
            self._changed()

    def date_it(self) -> bool:
        """Give today's date to a conversation in which nothing was said yet. True: it had another date."""
        session, today = self._chat.session, self._today().isoformat()
        if session.entries or session.options.date in (None, today):
            return False
        session.options = replace(session.options, date=today)
        return True

    # -- on the worker's thread ----------------------------------------------------------------------------------------

    def _read(self, assembly: Assembly, request: Request, leisure: Leisure | None, control: Control) -> float | None:
        """Read until done or stopped. Returns in how many seconds to go on; None: never."""
        if leisure and not leisure.now():
            return _LOOK_AGAIN_S
        waits = False

        def on_progress(progress: Progress) -> None:
            nonlocal waits
            if progress.total - progress.reused >= _SHOWN_FROM:
                self.progress = (progress.done, progress.total)
                self._chat.face.wake()
            if leisure and progress.done < progress.total and not leisure.now():
                waits = True
                control.stop()

        try:
            assembly.model.responder.prefill(request, control=control, on_progress=on_progress)
        finally:
            self.progress = None
            self._chat.face.wake()
        self.done = not control.stopped and request is self._request
        return _LOOK_AGAIN_S if waits else None

    def _tell(self, error: Exception) -> None:
        """A bug of ours becomes a traceback on the loop's thread."""

        def fail() -> None:
            raise error

        self._chat.background.on_loop(fail)
