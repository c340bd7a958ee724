"""One MCP server: started or connected to, asked for its tools, called, and started again if it ends.

Everything here runs on MCP's thread, where this module is loaded: it imports MCP's library.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

from anyio import CancelScope
from mcp import (
    Client,
    InputRequiredRoundsExceededError,
    MCPError,
    StdioServerParameters,
    UrlElicitationRequiredError,
    stdio_client,
)
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CONNECTION_CLOSED,
    URL_ELICITATION_REQUIRED,
    CallToolResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    Implementation,
)
from pydantic import ValidationError

from ossia import __version__
from ossia.tools.mcp._faults import CLOSED, fault_of, hidden
from ossia.tools.mcp._http import SESSION_GONE, http_client, oauth
from ossia.tools.mcp._input import Questions
from ossia.tools.mcp._mended import Mended, line_encoding
from ossia.tools.mcp._stored import Logins, fingerprint
from ossia.tools.mcp._thread import ErrorLog
from ossia.tools.mcp.config import McpConfig
from ossia.tools.mcp.status import MAX_TOOLS, RemoteTool, ServerFailed
from ossia.tools.text import one_line

_MAX_PAGES = 50
_MAX_EVENT_BYTES = 32 << 20
_MAX_ROUNDS = 10  # of questions in one call
_MAX_RECONNECTIONS = 3
_LAST_WORDS_S = 1.0
"""The wait for a program's last output: it never ends if a child process keeps the pipe open."""


class Server:
    """A connection to one server. `config` is already expanded; `log` gets the server's stderr.

    `show` is called with the address of a login; None: only stored `logins` are used.
    """

    def __init__(
        self,
        config: McpConfig,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        log: Path,
        logins: Logins,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._logins, self._show = logins, show
        self.config, self._environ, self._cwd, self._log = config, environ, cwd, log
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._scope = CancelScope()
        self._closing = asyncio.Event()
        self._lost = False
        self._errors: ErrorLog | None = None
        self._mended = Mended(lambda: self._client.protocol_version if self._client is not None else "2025-11-25")
        self._waiting: set[asyncio.Future[None]] = set()
        self._questions: Questions | None = None  # of the call that runs
        self.title = ""
        self.tools: tuple[RemoteTool, ...] = ()
        self.more_tools = False

    @property
    def left_out(self) -> Mapping[str, str]:
        """The unusable tools, each with the reason."""
        return self._mended.left_out

    async def open(self, timeout_s: float) -> None:
        """Connect and read the list of tools. Raises `ServerFailed`, after ending the program."""
        self._closing, self._lost, self._client = asyncio.Event(), False, None
        self._errors = None
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        scope = self._scope = CancelScope()
        self._task = asyncio.create_task(self._serve(scope, ready))
        try:
            await asyncio.wait({ready, self._task}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            scope.cancel()
            raise
        if ready.done() and not ready.cancelled():
            ready.result()
            return
        scope.cancel()  # not the task: the library cleans up in a shielded scope, which cancelling the task would break
        if self._task.done() and (fault := self._task.exception()) is not None:
            words = await asyncio.to_thread(self._last_words, _LAST_WORDS_S)
            raise ServerFailed(fault_of(fault, self.config) + words, lost=True)
        raise ServerFailed(f"it did not answer within {timeout_s:g} seconds{self._last_words(0)}", lost=True)

    async def _serve(self, scope: CancelScope, ready: asyncio.Future[None]) -> None:
        """The connection's whole life, in one task, as anyio requires."""
        with scope, ExitStack() as stack:
            if self.config.command is not None:
                self._errors = stack.enter_context(closing(ErrorLog(self._log)))
            async with self._transport() as transport, Client(
                self._mended.around(transport),
                client_info=Implementation(name="ossia", version=__version__),
                cache=None,
                input_required_max_rounds=_MAX_ROUNDS,
                message_handler=self._unreadable,
                elicitation_callback=self._elicited,
            ) as client:
                self._client = client
                self._mended.left_out.clear()
                self.tools, self.more_tools = await _list_tools(client)
                known = client.server_info
                name = f"{known.name} {known.version}".strip() if known is not None else self.config.name
                self.title = one_line(f"{name}, protocol {client.protocol_version}", 100)
                ready.set_result(None)
                await self._closing.wait()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        """The transport of a `Client`; its resources are closed afterwards."""
        config = self.config
        if config.url is not None:
            async with oauth(config, self._logins, self._show) as auth, http_client(config, auth) as client:
                yield streamable_http_client(config.url, http_client=client, max_sse_event_size=_MAX_EVENT_BYTES)
            return
        assert config.command is not None and self._errors is not None
        parameters = StdioServerParameters(
            command=config.command,
            args=list(config.args),
            env=dict(self._environ),
            cwd=config.cwd or self._cwd,
            encoding=line_encoding(),
            encoding_error_handler="replace",
        )
        yield stdio_client(parameters, errlog=self._errors.file)

    def _last_words(self, timeout_s: float) -> str:
        """The last line of its stderr, often the cause of a failure, with the place of the rest."""
        line = self._errors.last_line(timeout_s) if self._errors else ""
        return f"; its last words: {one_line(hidden(line, self.config), 200)!r} ({self._log})" if line else ""

    @property
    def is_lost(self) -> bool:
        """True once it has ended, as far as we know: at once; for a server over HTTP only at a call."""
        if self._lost or self._client is None or self._task is None or self._task.done():
            return True
        dispatcher = getattr(self._client.session, "_dispatcher", None)  # no public API; without it, seen at a call
        return bool(getattr(dispatcher, "_closed", False))

    async def call(
        self, name: str, arguments: Mapping[str, object], timeout_s: float, questions: Questions
    ) -> CallToolResult:
        """Call a tool. What the server asks the user meanwhile goes to `questions`. Raises `ServerFailed`."""
        unreadable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer = asyncio.create_task(self._answer(name, dict(arguments), timeout_s, questions))
        self._waiting.add(unreadable)
        self._questions, questions.open = questions, True
        try:
            await asyncio.wait((answer, unreadable), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ServerFailed("its answer is not valid JSON")
            return await answer
        except MCPError as error:
            undone = error.code == SESSION_GONE
            self._lost = undone or (error.code == CONNECTION_CLOSED and str(error) == CLOSED)
            raise ServerFailed(await self._why(error), lost=self._lost, undone=undone) from None
        except TimeoutError:
            raise ServerFailed(f"it did not answer within {timeout_s:g} seconds") from None
        except (asyncio.CancelledError, ServerFailed):
            raise
        except BaseException as error:
            raise ServerFailed(fault_of(error, self.config)) from None
        finally:
            self._waiting.discard(unreadable)
            questions.end()
            answer.cancel()

    async def _elicited(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        action, values = await self._questions.ask(params) if self._questions else ("cancel", None)
        return ElicitResult(action=action, content=values)

    async def _answer(
        self, name: str, arguments: dict[str, object], timeout_s: float, questions: Questions
    ) -> CallToolResult:
        """The answer to a call. Raises TimeoutError, or an error of the library's."""
        assert self._client is not None
        async with asyncio.timeout(timeout_s) as questions.timer:
            for _ in range(_MAX_ROUNDS):
                try:
                    return await self._client.call_tool(name, arguments)
                except InputRequiredRoundsExceededError:
                    break
                except MCPError as error:
                    for page in _pages_to_open(error):
                        if (await questions.ask(page))[0] != "accept":
                            raise ServerFailed("it wants a page to be opened first, which the user didn't do") from None
        raise ServerFailed(f"it asked for input {_MAX_ROUNDS} times without an answer to the call")

    async def _unreadable(self, message: object) -> None:
        """Fail all waiting calls at a broken message, since nothing says which call it answers."""
        if not isinstance(message, ValidationError):
            return
        line = message.errors(include_url=False)[0].get("input")
        if isinstance(line, str) and '"jsonrpc"' in line:
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)

    async def _why(self, error: Exception) -> str:
        """The cause of a failed call, or of the end of the connection."""
        if self._lost and self._task is not None and str(error) == CLOSED:
            await asyncio.wait({self._task}, timeout=_LAST_WORDS_S)
            if self._task.done() and not self._task.cancelled() and (cause := self._task.exception()) is not None:
                return fault_of(cause, self.config)
        return fault_of(error, self.config)

    async def close(self) -> None:
        """End the connection, and the server if we started it. Takes some seconds if it resists."""
        self._closing.set()
        if self._task is not None:
            if self._client is None:  # it never got ready
                self._scope.cancel()
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.exception()  # retrieved, so that asyncio doesn't report it


async def _list_tools(client: Client) -> tuple[tuple[RemoteTool, ...], bool]:
    tools: list[RemoteTool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
            description = tool.description or tool.title or ""
            tools.append(RemoteTool(tool.name, description, tool.input_schema, read_only))
        cursor = page.next_cursor
        if cursor is None or len(tools) > MAX_TOOLS:
            break
    return tuple(tools[:MAX_TOOLS]), cursor is not None or len(tools) > MAX_TOOLS


def _pages_to_open(error: MCPError) -> Sequence[ElicitRequestURLParams]:
    """The pages to open before the call is sent again. Raises any other error."""
    if error.code != URL_ELICITATION_REQUIRED:
        raise error
    return UrlElicitationRequiredError.from_error(error.error).elicitations


class Connection:
    """A connected server, reconnected when needed. `is_new`: none of its tools was ever accepted.

    `ms`: the time that connecting took; `offered`: the model's names of its tools, in their order.
    """

    def __init__(self, config: McpConfig, server: Server, ms: int, offered: tuple[str, ...]) -> None:
        self.config, self.server, self.ms, self.offered = config, server, ms, offered
        self.accepted: dict[str, str] = {}
        self.is_new = True
        self._failures = 0
        self._turn = asyncio.Lock()

    async def call(
        self, tool: RemoteTool, args: Mapping[str, object], connect_timeout_s: float, questions: Questions
    ) -> CallToolResult:
        """Call a tool; if the server has ended, start it again first, once. Raises `ServerFailed`.

        If the server ends during the call, it isn't sent again, since it may have had its effect. It is if the server
        only forgot the session.
        """
        for again_if_undone in (True, False):
            async with self._turn:
                if self.server.is_lost:
                    await self._reconnect(connect_timeout_s)
            now = next((other for other in self.server.tools if other.name == tool.name), None)
            if now is None or fingerprint(now) != fingerprint(tool):
                raise ServerFailed("started again, it describes the tool differently now: off until you accept it")
            try:
                return await self.server.call(tool.name, args, self.config.timeout_s, questions)
            except ServerFailed as error:
                if error.undone and again_if_undone:
                    continue
                if error.undone or not error.lost:
                    raise
                again = "it may have done what it was asked; it is started again with the next call"
                raise ServerFailed(f"{error} during the call: {again}", lost=True) from None
        raise AssertionError("unreachable")

    async def _reconnect(self, connect_timeout_s: float) -> None:
        if self._failures >= _MAX_RECONNECTIONS:
            raise ServerFailed(f"it ended, and could not be started again {self._failures} times")
        await self.server.close()
        try:
            await self.server.open(connect_timeout_s)
        except ServerFailed as error:
            self._failures += 1
            raise ServerFailed(f"it had ended, and starting it again failed: {error}", lost=True) from None
        self._failures = 0
