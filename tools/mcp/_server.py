"""One MCP server: started or connected to, asked for its tools, called. Everything here runs on MCP's thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ossia.tools.mcp._faults import CLOSED, fault_of, hidden
from ossia.tools.mcp._http import SESSION_GONE, http_client
from ossia.tools.mcp._input import Questions
from ossia.tools.mcp._login import Logins, oauth
from ossia.tools.mcp._mended import Mended
from ossia.tools.mcp._streams import ErrorLog, line_encoding
from ossia.tools.mcp.config import McpConfig
from ossia.tools.text import one_line

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.types import CallToolResult, ElicitRequestParams, ElicitRequestURLParams, ElicitResult

MAX_TOOLS = 100
_MAX_PAGES = 50
_MAX_EVENT_BYTES = 32 << 20
_MAX_ROUNDS = 10  # as many as the library's own clients ask
_STATE_ONLY_WAIT_S = 0.25
_LAST_WORDS_S = 1.0
"""How long to wait for a program's last output: it never ends if a child process keeps the pipe open."""


class ServerFailed(Exception):
    """A server or a call failed: one line, which may quote the server.

    `lost`: it must be started again first. `undone`: the server said that it did nothing, so the call may be repeated.
    """

    def __init__(self, message: str, *, lost: bool = False, undone: bool = False) -> None:
        super().__init__(message)
        self.lost, self.undone = lost, undone


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """A tool as the server describes it: raw, unbounded, untrusted. `read_only` is only the server's claim."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool


class Server:
    """A connection to one server. `config` is already expanded; `log` gets the server's stderr.

    `show` is given the address to log in at; None: it isn't logged in to, only with what `logins` keep.
    """

    def __init__(
        self,
        config: McpConfig,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        log: Path,
        version: str,
        logins: Logins,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._logins, self._show = logins, show
        self.config, self._environ, self._cwd, self._log, self._version = config, environ, cwd, log, version
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._scope: Any = None
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
        """The tools that can't be used, each with the reason."""
        return self._mended.left_out

    async def open(self, timeout_s: float) -> None:
        """Connect and read the list of tools. Raises `ServerFailed`, after ending what was started."""
        from anyio import CancelScope

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

    async def _serve(self, scope: Any, ready: asyncio.Future[None]) -> None:
        """The connection's whole life, in one task, as anyio requires."""
        with scope, ExitStack() as stack:
            if self.config.command is not None:
                self._errors = stack.enter_context(closing(ErrorLog(self._log)))
            async with self._transport() as transport:
                from mcp import Client
                from mcp.types import Implementation

                info = Implementation(name="ossia", version=self._version)
                async with Client(
                    self._mended.around(transport),
                    client_info=info,
                    cache=None,
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
            from mcp.client.streamable_http import streamable_http_client

            async with oauth(config, self._logins, self._show) as auth, http_client(config, auth) as client:
                yield streamable_http_client(config.url, http_client=client, max_sse_event_size=_MAX_EVENT_BYTES)
            return
        from mcp import StdioServerParameters, stdio_client

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
        """The last line of its stderr, which often says what is missing, and where the rest is."""
        line = self._errors.last_line(timeout_s) if self._errors else ""
        return f"; its last words: {one_line(hidden(line, self.config), 200)!r} ({self._log})" if line else ""

    @property
    def is_lost(self) -> bool:
        """Has it ended, as far as we know? That is seen at once; for a server over HTTP only at a call."""
        if self._lost or self._client is None or self._task is None or self._task.done():
            return True
        dispatcher = getattr(self._client.session, "_dispatcher", None)  # no public API; without it, seen at a call
        return bool(getattr(dispatcher, "_closed", False))

    async def call(
        self, name: str, arguments: Mapping[str, object], timeout_s: float, questions: Questions
    ) -> CallToolResult:
        """Call a tool. What the server asks the user meanwhile goes to `questions`. Raises `ServerFailed`."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

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
        from mcp.types import ElicitResult

        action, values = await self._questions.ask(params) if self._questions else ("cancel", None)
        return ElicitResult(action=action, content=values)

    async def _answer(
        self, name: str, arguments: dict[str, object], timeout_s: float, questions: Questions
    ) -> CallToolResult:
        """The answer to a call. Raises TimeoutError, or what the library raises."""
        from mcp import MCPError
        from mcp.client.session import ClientRequestContext
        from mcp.types import (
            CallToolRequest,
            CallToolRequestParams,
            CallToolResult,
            ErrorData,
            InputRequiredResult,
            InputResponse,
        )
        from pydantic import TypeAdapter

        assert self._client is not None
        session = self._client.session
        either: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(InputRequiredResult | CallToolResult)
        params = CallToolRequestParams(name=name, arguments=arguments)
        async with asyncio.timeout(timeout_s) as questions.timer:
            for _ in range(_MAX_ROUNDS):
                # Not Client.call_tool: that checks the result against the server's own schema, in which a regular
                # expression can block the interpreter for ever.
                try:
                    result = await session.send_request(CallToolRequest(params=params), either)
                except MCPError as error:
                    for page in _pages_to_open(error):
                        if (await questions.ask(page))[0] != "accept":
                            raise ServerFailed("it wants a page to be opened first, which the user didn't do") from None
                    continue
                if isinstance(result, CallToolResult):
                    return result
                given: dict[str, InputResponse] = {}
                for key, asked in (result.input_requests or {}).items():
                    context = ClientRequestContext(session=session, request_id=key)
                    answer = await session.dispatch_input_request(context, asked)
                    if isinstance(answer, ErrorData):
                        raise ServerFailed("it asks for input that can't be given here")
                    given[key] = answer
                await asyncio.sleep(0 if given else _STATE_ONLY_WAIT_S)
                params = CallToolRequestParams(
                    name=name, arguments=arguments, input_responses=given or None, request_state=result.request_state
                )
        raise ServerFailed(f"it asked for input {_MAX_ROUNDS} times without an answer to the call")

    async def _unreadable(self, message: object) -> None:
        """A line of its output was no message. If it was meant as one, nothing says which call it answers."""
        from pydantic import ValidationError

        if not isinstance(message, ValidationError):
            return
        line = message.errors(include_url=False)[0].get("input")
        if isinstance(line, str) and '"jsonrpc"' in line:
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)

    async def _why(self, error: Exception) -> str:
        """Why a call failed; if the connection ended, what ended it."""
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
    """What the user is to open before the call is sent again. Raises any other error."""
    from mcp.shared.exceptions import UrlElicitationRequiredError
    from mcp.types import URL_ELICITATION_REQUIRED

    if error.code != URL_ELICITATION_REQUIRED:
        raise error
    return UrlElicitationRequiredError.from_error(error.error).elicitations
