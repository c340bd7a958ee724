"""An open session of the client: a conversation in a folder, with tools of its own, over the process's one model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ossia.agent.control import Control
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.worker import WaitStopped, awaited
from ossia.cli import paths
from ossia.cli.acp import commands, options, updates
from ossia.cli.acp.errors import note_bug
from ossia.cli.acp.models import Models
from ossia.cli.acp.prompt import text_of
from ossia.cli.acp.rpc import INVALID_REQUEST, Connection, RpcError
from ossia.cli.acp.waiting import Waiting
from ossia.cli.attach.mentioned import with_mentioned
from ossia.cli.runtime.assembly import collect, limits_of
from ossia.cli.runtime.progress import Display
from ossia.cli.visible import seen_line

if TYPE_CHECKING:
    from pathlib import Path

    from ossia.agent.build import Model
    from ossia.agent.sessions.session import UserText
    from ossia.cli.settings.config import Resolved
    from ossia.harmony.tokenizer import Tokenizer
    from ossia.tools.build import Toolset, ToolsSpec
    from ossia.tools.folder import Folder

_COLLECTED_S = 2.0
"""The patience with tools that are still being collected, when a session ends."""
_CANCELLED: Mapping[str, object] = {"stopReason": "cancelled"}


class Session:
    """A session that the client has open. `id` is its name in the protocol, and in the store.

    The client's thread calls the methods; a prompt is answered on a thread of its own.
    """

    def __init__(
        self,
        session_id: str,
        cwd: Path,
        opened: OpenSession,
        resolved: Resolved,
        folder: Folder | None,
        spec: ToolsSpec,
        *,
        models: Models,
        connection: Connection,
        display: Display,
    ) -> None:
        self.id, self.cwd, self.resolved, self.folder = session_id, cwd, resolved, folder
        self.talk = Conversation(opened, models.worker, paths.host(), private=resolved.settings.private)
        self.models, self._connection, self._display = models, connection, display
        self.spec, self.choices = spec, options.Choices(self.talk)
        self.notices: tuple[str, ...] | None = ()  # lines for the client; None: they are sent
        self.titled = False  # a title was asked for
        self.talk.ahead.on_fault = note_bug
        self._tools: Future[Toolset] = Future()
        self._lock = threading.Lock()
        self._control: Control | None = None  # of the prompt that is being answered
        self._later: list[Callable[[], object]] = []
        self._closed, self._using = False, threading.Lock()
        self._closing = Control()  # stops the wait for MCP servers
        self.leaving = False  # its turns are over, and its tools are being ended
        self.ended = threading.Event()
        """Set once it is closed: the stored session may be opened again."""

    # -- for the server and its options --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Load the model and collect the tools in the background; tell the client about the commands."""
        self.models.begin(self.resolved)
        threading.Thread(target=self._prepare, daemon=True).start()
        available = commands.available(self.spec.skills)
        self.update({"sessionUpdate": "available_commands_update", "availableCommands": available})

    def update(self, fields: updates.Update) -> None:
        """Send a `session/update`."""
        self._connection.notify("session/update", {"sessionId": self.id, "update": fields})

    def between_turns(self, do: Callable[[], object]) -> None:
        """Call it now, or after the prompt under way."""
        with self._lock:
            if self._control is not None:
                self._later.append(do)
                return
        do()

    def use_settings(self, resolved: Resolved) -> None:
        """Use these settings from the next turn on."""
        self.resolved = resolved

    @property
    def busy(self) -> bool:
        """True while a prompt is being answered."""
        return self._control is not None

    def prompt(self, blocks: object) -> Future[Mapping[str, object]]:
        """Answer a prompt: the future gets the response. Raises RpcError."""
        said = text_of(blocks, self.cwd, self.folder.workspace.taints if self.folder else frozenset({"private"}))
        control = Control()
        with self._lock:
            if self._closed:
                raise RpcError(INVALID_REQUEST, "this session is closed: session/load opens it again")
            if self._control is not None:
                raise RpcError(INVALID_REQUEST, "a prompt of this session is being answered: wait, or cancel it")
            self._control = control
        response: Future[Mapping[str, object]] = Future()
        threading.Thread(target=self._respond, args=(said, control, response), daemon=True).start()
        return response

    def cancel(self) -> None:
        """Stop the prompt under way; its response is `cancelled`."""
        if control := self._control:
            control.stop()

    def close(self, *, cache: bool = True) -> None:
        """Stop what it does, end its tools, give the stored session back; `cache`: store the engine's cache for it."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self.cancel()
            self._closing.stop()
            self.between_turns(lambda: self._end(cache=cache))

    # -- on the threads of a session -----------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Collect the tools; the counter's tokenizer is the model's, from the first turn on."""
        import_module("ossia.cli.acp.turn")  # the first prompt needn't wait for it
        try:
            tools = collect(self.spec, self.resolved, self._display, cast("Tokenizer", None), skip=self._closing)
        except BaseException as error:
            self._tools.set_exception(error)
            return
        self._tools.set_result(tools)

    def _prepare(self) -> None:
        """Collect the tools, then wait for the model, say how full the context is, and read the first prompt ahead."""
        self._collect()
        control = Control()
        try:
            if not self.models.wait(self.resolved, control):
                return
            with self.models.turn(lambda: self.resolved, control) as model, self._using:
                if not (self._closed or self.busy):
                    from ossia.cli.acp import rest

                    self._use(model, self._tools.result())
                    options.refresh(self)  # which model was chosen is known now
                    rest.send_usage(self)
                    rest.begin(self)
        except Exception as error:
            note_bug(error)  # the first prompt raises anything else

    def _use(self, model: Model, tools: Toolset) -> None:
        """Continue with this model and these tools, unless both are in use."""
        talk = self.talk
        if talk.model is model and talk.tools is tools:
            return
        talk.use(model, tools)
        self.choices.permit()
        if talk.opened.resumed:
            talk.forget_variables()
            talk.load_cache()

    def _respond(self, said: UserText, control: Control, response: Future[Mapping[str, object]]) -> None:
        """Answer a prompt. What waits for its end is done before the client hears of it."""
        error: BaseException | None = None
        result = _CANCELLED
        try:
            result = self._answer(said, control)
        except WaitStopped:
            pass
        except BaseException as wrong:
            error = wrong
        while later := self._taken():
            try:
                later()
            except Exception as wrong:
                error = error or wrong
        if error is not None and not control.stopped:
            response.set_exception(error)
        else:
            response.set_result(result)

    def _taken(self) -> Callable[[], object] | None:
        """Take the next job of `between_turns`; without one (None) another prompt may come."""
        with self._lock:
            if self._later:
                return self._later.pop(0)
            self._control = None
            return None

    def _answer(self, said: UserText, control: Control) -> Mapping[str, object]:
        if self._tools.done() and self._tools.exception():  # what was missing may be there now
            self._tools = Future()
            self._collect()
        with closing(Waiting(self.update)) as waiting:  # before its turn: a server may take 30 s, and others wait then
            tools = awaited(self._tools, lambda: waiting.show(self._display.line.text), stop=control)
            with self.models.turn(lambda: self.resolved, control, waiting.show) as model:
                waiting.close()
                self._use(model, tools)
                self._report_off(tools)
                return self._answer_with(said, control)

    def _answer_with(self, said: UserText, control: Control) -> Mapping[str, object]:
        """Answer with the model and the tools in use."""
        talk = self.talk
        answer = commands.expanded(talk, said)
        if isinstance(answer, str):
            self.update(updates.message(answer))
            return {"stopReason": "end_turn"}
        attached = with_mentioned(answer, self.resolved.settings, talk, self.cwd, control)
        for line in (*(one.shown for one in attached.attachments if one.cut), *attached.problems):
            self.update(updates.thought(f"{line}\n"))
        return self._say(attached.user_text, control)

    def _say(self, said: UserText, control: Control) -> Mapping[str, object]:
        from ossia.cli.acp import rest
        from ossia.cli.acp.history import info_update
        from ossia.cli.acp.turn import follow

        settings, talk = self.resolved.settings, self.talk
        self.choices.settle()
        turn = talk.say(said, limits=limits_of(settings, talk.options.effort))
        forget = control.on_stop(turn.stop)
        try:
            return follow(turn, talk, self.cwd, send=self.update, ask=self._ask, yes=settings.yes)
        finally:
            forget()
            options.refresh(self)
            if update := info_update(talk):
                self.update(update)
            rest.begin(self)

    def _ask(self, question: Mapping[str, object], answered: Callable[[object, bool], None]) -> Callable[[], None]:
        params = {"sessionId": self.id, **question}
        return self._connection.request("session/request_permission", params, answered)

    def _report_off(self, tools: Toolset) -> None:
        """Send a line about each tool that is off, each server without a connection or new; once."""
        if self.notices is None:
            return
        lines = [*self.notices]
        for name, why in tools.off.items():
            server = name.removeprefix("mcp ")
            off = f"{name} is off" if server == name else f"the MCP server {server} isn't connected"
            lines.append(f"{off}: {why}")
        lines += [f"the MCP server {one.name} is new: /mcp shows its tools, /mcp accept {one.name} accepts them"
                  for one in tools.connected if any(tool.state != "accepted" for tool in one.tools)]  # fmt: skip
        for line in lines:
            self.update(updates.thought(f"{seen_line(line)}\n"))
        self.notices = None

    def _end(self, *, cache: bool) -> None:
        self.leaving = True
        try:
            with self._using, suppress(Exception):
                if cache:
                    self.talk.save_cache()
                self.talk.close()
            with suppress(Exception):
                self._tools.exception(_COLLECTED_S)
            self._tools.add_done_callback(_close)
        finally:
            self.ended.set()


def _close(collected: Future[Toolset]) -> None:
    if not collected.exception():
        collected.result().close()
