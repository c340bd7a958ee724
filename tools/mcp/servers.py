"""The tools of MCP servers: `functions.SERVER__TOOL`. The library is imported when the first server is connected to.

What a server says of its tools is text of a stranger that the model reads: it is cut, made one line, and pinned once
the user has seen it. Until then it counts as text from outside (which is told to the user); a tool that is new or
different later is off until the user accepts it. Its results count as text from outside and as private.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from tools.functions.errors import McpConfigInvalid
from tools.functions.naming import MAX_NAME_CHARS, PREFIX, plain_name
from tools.functions.schema import flatten, one_line
from tools.mcp import _server
from tools.mcp._content import as_result
from tools.mcp._pins import Pins, fingerprint
from tools.mcp._server import RemoteTool, Server, ServerFailed
from tools.mcp._thread import LoopThread
from tools.mcp.config import CONNECT_TIMEOUT_S, McpConfig, child_environment, expanded
from tools.spec import Effect, NoStop, Preview, Stop, Tool, ToolContext, ToolOutput, ToolResult, ToolSpec, interrupted

if TYPE_CHECKING:
    from mcp.types import CallToolResult

MAX_DESCRIPTION_CHARS = 1_000
_ALL_EFFECTS: frozenset[Effect] = frozenset({"read", "write", "run", "send"})
_GUARD_S = 5.0
_TICK_S = 0.05
_CLOSE_S = 8.0  # what the library takes to end a server that doesn't want to: 2 s each for stdin, SIGTERM, SIGKILL
_MAX_RECONNECTIONS = 3

_Value = TypeVar("_Value")

ToolState = Literal["accepted", "first", "new", "changed"]
"""accepted: as it was accepted; first: nothing of its server was accepted so far, so what it says counts as text from

outside; new, changed: off until it is accepted.
"""


@dataclass(frozen=True, slots=True)
class McpToolStatus:
    """One tool of a server. `name` is the server's, `offered` the one the model calls; `description` is cleaned.

    `parameters` are those of its `ToolSpec`.
    """

    name: str
    offered: str
    description: str
    state: ToolState
    read_only: bool
    parameters: Mapping[str, object] | None = None

    @property
    def is_on(self) -> bool:
        return self.state in ("accepted", "first")


@dataclass(frozen=True, slots=True)
class McpStatus:
    """How connecting to one server went. `error` is one line, None when it is connected; `ms` is how long it took.

    `title` is what the server calls itself: `"files 1.2.0, protocol 2026-07-28"`. `more_tools`: it has more than 100,
    and the others are left out.
    """

    name: str
    target: str
    ms: int
    title: str = ""
    tools: tuple[McpToolStatus, ...] = ()
    more_tools: bool = False
    error: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should be told, a line each: a failure, a server that is new, what is off."""
        if self.error is not None:
            return (f"mcp {self.name}: off: {self.error}: `ossia mcp test {self.name}` tries it alone",)
        lines = []
        first = [tool.name for tool in self.tools if tool.state == "first"]
        if first:
            shown = f"counts as text from outside until `ossia mcp test {self.name}` has shown it to you"
            lines.append(f"mcp {self.name} is new: what it says of its tools ({_listed(first)}) {shown}")
        for state, word in (("new", "new"), ("changed", "changed since they were accepted")):
            off = [tool.name for tool in self.tools if tool.state == state]
            if off:
                look = f"look at them with `ossia mcp test {self.name}`, then --accept"
                lines.append(f"mcp {self.name}: off, because {word}: {_listed(off)}: {look}")
        if self.more_tools:
            lines.append(f"mcp {self.name}: it has more than {_server.MAX_TOOLS} tools: the others are left out")
        return tuple(lines)


class McpServers:
    """All servers of a session. `data_dir` keeps what was accepted, `log_dir` what servers write to stderr.

    `environ` gives the values of `${VAR}`, and what programs are given of it (`child_environment`).

        servers = McpServers(configs, data_dir=…, log_dir=…, environ=os.environ)
        for status in servers.connect(): …    # one each, in the order of the configs
        toolbox = Toolbox([*servers.tools, …], …)
        servers.close()
    """

    def __init__(
        self,
        configs: Sequence[McpConfig],
        *,
        data_dir: Path,
        log_dir: Path,
        environ: Mapping[str, str],
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._configs = tuple(config for config in configs if config.enabled)
        self._log_dir, self._environ, self._connect_timeout_s = log_dir, dict(environ), connect_timeout_s
        self.pictures = data_dir / "mcp" / "pictures"
        self.pins = Pins(data_dir / "mcp" / "pins.json")
        self._thread: LoopThread | None = None
        self._servers: list[Server] = []
        self._open: dict[str, _Connected] = {}
        self._lock = threading.Lock()

    def connect(
        self, *, stop: Stop | None = None, waiting: Callable[[], None] = lambda: None
    ) -> tuple[McpStatus, ...]:
        """Connect to all servers at the same time. A server that fails is a status with an `error`.

        `waiting` is called every now and then meanwhile, on this thread: a server may take half a minute to fail.
        Raises `PinsUnusable` when what was accepted can't be read. After a stop, what isn't connected is an error.
        """
        if not self._configs:
            return ()
        self._log_dir.mkdir(parents=True, exist_ok=True)
        thread = self._started()
        begun = time.monotonic()
        futures = [thread.submit(self._connected(config)) for config in self._configs]

        def cancel() -> None:
            for future in futures:
                future.cancel()

        forget = (stop or NoStop()).on_stop(cancel)
        statuses = []
        try:
            for config, future in zip(self._configs, futures, strict=True):
                outcome = _outcome(future, self._connect_timeout_s + _GUARD_S, waiting)
                if isinstance(outcome, str):
                    statuses.append(McpStatus(config.name, config.target, _ms_since(begun), error=outcome))
                elif isinstance(outcome, McpStatus):
                    statuses.append(outcome)
                else:
                    self._open[config.name] = outcome
                    statuses.append(self._judged(outcome))
        finally:
            forget()
        return tuple(statuses)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are on, of all servers that are connected."""
        return tuple(
            McpTool(connected, tool, offered)
            for connected in self._open.values()
            for tool, offered in zip(connected.server.tools, connected.offered, strict=True)
            if connected.accepted.get(tool.name) == fingerprint(tool)
        )

    def accept(self, name: str) -> None:
        """Accept all that the connected server `name` offers now. Raises `PinsUnusable`."""
        connected = self._open[name]
        connected.accepted = {tool.name: fingerprint(tool) for tool in connected.server.tools}
        connected.is_new = False
        self.pins.accept(name, connected.accepted)

    def close(self) -> None:
        """End the connections, and the programs that were started. May be called more than once."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        closing = [thread.submit(server.close()) for server in self._servers]  # those that failed too: they may linger
        deadline = time.monotonic() + _CLOSE_S
        for future in closing:
            _outcome(future, max(0.1, deadline - time.monotonic()))
        thread.close(max(1.0, deadline - time.monotonic()))

    # -- connecting ---------------------------------------------------------------------------------------------------

    def _started(self) -> LoopThread:
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread(self._log_dir / "mcp.log")
            return self._thread

    async def _connected(self, config: McpConfig) -> _Connected | McpStatus:
        """The connection, or why there is none."""
        begun = time.monotonic()
        try:
            ready = expanded(config, self._environ)
            server = Server(
                ready,
                environ=child_environment(ready, self._environ),
                cwd=Path(self._environ.get("HOME") or self._environ.get("USERPROFILE") or self._log_dir),
                log=self._log_dir / f"mcp-{plain_name(config.name)}.log",
                version=_version(),
            )
            self._servers.append(server)
            await server.open(self._connect_timeout_s)
        except (ServerFailed, McpConfigInvalid) as error:
            return McpStatus(config.name, config.target, _ms_since(begun), error=str(error))
        return _Connected(self, config, server, _ms_since(begun), _offered_names(config.name, server.tools))

    def _judged(self, connected: _Connected) -> McpStatus:
        """The status of a connected server. The tools of one that is new are on, too."""
        config, server = connected.config, connected.server
        known = self.pins.of(config.name)
        hashes = {tool.name: fingerprint(tool) for tool in server.tools}
        connected.is_new = known is None
        connected.accepted = dict(hashes if known is None else known)
        tools = tuple(
            McpToolStatus(
                one_line(tool.name, 100),
                offered,
                one_line(tool.description, MAX_DESCRIPTION_CHARS),
                "first" if known is None else _state(known.get(tool.name), hashes[tool.name]),
                tool.read_only,
                flatten(tool.schema),
            )
            for tool, offered in zip(server.tools, connected.offered, strict=True)
        )
        return McpStatus(config.name, config.target, connected.ms, server.title, tools, server.more_tools)

    def submit_call(
        self, connected: _Connected, tool: RemoteTool, args: Mapping[str, object]
    ) -> Future[CallToolResult]:
        """The call, running on the thread of MCP. Raises `ServerFailed` when that is closed."""
        with self._lock:
            if self._thread is None:
                raise ServerFailed("it is closed")
            return self._thread.submit(connected.call(tool, args, self._connect_timeout_s))


class _Connected:
    """A server that was connected to, and its reconnections. `is_new`: nothing of it was accepted so far."""

    def __init__(
        self, servers: McpServers, config: McpConfig, server: Server, ms: int, offered: tuple[str, ...]
    ) -> None:
        self.servers, self.config, self.server, self.ms, self.offered = servers, config, server, ms, offered
        self.accepted: dict[str, str] = {}
        self.is_new = True
        self._failures = 0
        self._turn: asyncio.Lock | None = None

    async def call(self, tool: RemoteTool, args: Mapping[str, object], connect_timeout_s: float) -> CallToolResult:
        """Call it; first start the server again, once, if it has ended. Raises `ServerFailed`.

        A call during which the server ends is not sent again: it may have done what it was asked.
        """
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            if self.server.is_lost:
                await self._reconnect(tool, connect_timeout_s)
        try:
            return await self.server.call(tool.name, args, self.config.timeout_s)
        except ServerFailed as error:
            if not error.lost:
                raise
            again = "it may have done what it was asked; it is started again with the next call"
            raise ServerFailed(f"{error} during the call: {again}", lost=True) from None

    async def _reconnect(self, tool: RemoteTool, connect_timeout_s: float) -> None:
        if self._failures >= _MAX_RECONNECTIONS:
            raise ServerFailed(f"it ended, and could not be started again {self._failures} times")
        await self.server.close()
        try:
            await self.server.open(connect_timeout_s)
        except ServerFailed as error:
            self._failures += 1
            raise ServerFailed(f"it had ended, and starting it again failed: {error}", lost=True) from None
        self._failures = 0
        now = next((other for other in self.server.tools if other.name == tool.name), None)
        if now is None or fingerprint(now) != fingerprint(tool):
            self._failures = _MAX_RECONNECTIONS
            raise ServerFailed("it was started again and describes the tool differently now: off until it is accepted")


class McpTool:
    """One tool of a server, as a tool of ours."""

    def __init__(self, connected: _Connected, tool: RemoteTool, offered: str) -> None:
        self._connected, self._tool = connected, tool
        self.spec = ToolSpec(
            offered,
            one_line(tool.description, MAX_DESCRIPTION_CHARS),
            flatten(tool.schema),
            effects=_ALL_EFFECTS,
            provenance="mcp",
            origin=connected.config.name,
            brings=frozenset({"outside"} if connected.is_new else ()),
        )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        config = self._connected.config
        said = "\nThe server calls it read-only." if self._tool.read_only else ""
        detail = json.dumps(args, ensure_ascii=False, indent=2)
        name = one_line(self._tool.name, 100)
        where = f"{name} of the MCP server {config.name} ({one_line(config.target, 200)})"
        return Preview(f"{config.name}: {name}", f"{where}{said}\n{detail}")

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        yield from ()
        name, servers = self.spec.name, self._connected.servers
        ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        try:
            future = servers.submit_call(self._connected, self._tool, args if isinstance(args, dict) else {})
        except ServerFailed as error:
            return _failed(self.spec, error)
        future.add_done_callback(lambda _: ended.put("done"))
        forget = context.stop.on_stop(lambda: ended.put("stopped"))
        try:
            # The timeouts of a call and of connecting are kept on the other thread; this is for one that hangs itself.
            how = ended.get(timeout=self._connected.config.timeout_s + CONNECT_TIMEOUT_S + _CLOSE_S + _GUARD_S)
            if how == "stopped":
                return ToolResult(f"[{interrupted(context.stop)}]", error=True)
            return as_result(future.result(), name=name, folder=servers.pictures)
        except (ServerFailed, queue.Empty, CancelledError) as error:
            return _failed(self.spec, error)
        finally:
            forget()
            future.cancel()

    def close(self) -> None:
        """End all servers: the tools of a session are closed together."""
        self._connected.servers.close()


def _failed(spec: ToolSpec, error: BaseException) -> ToolResult:
    """What the model is told; the server may have written it."""
    why = str(error).rstrip(".") or "the call was given up"
    text = f"Error: {spec.name}: the MCP server {spec.origin}: {why}. Choose another way."
    return ToolResult(text, error=True, brings=frozenset({"outside"}))


def _outcome(
    future: Future[_Value], timeout_s: float, waiting: Callable[[], None] = lambda: None
) -> _Value | str:
    """What a coroutine gave, or why it didn't, in one line."""
    deadline = time.monotonic() + timeout_s
    while wait([future], min(_TICK_S, timeout_s)).not_done and time.monotonic() < deadline:
        waiting()
    try:
        return future.result(0)
    except CancelledError:
        return "interrupted"
    except TimeoutError:
        future.cancel()
        return f"it did not answer within {timeout_s:g} seconds"


def _state(accepted: str | None, now: str) -> ToolState:
    if accepted is None:
        return "new"
    return "accepted" if accepted == now else "changed"


def _offered_names(server: str, tools: Sequence[RemoteTool]) -> tuple[str, ...]:
    """`functions.files__read_file`, each once; one that is too long ends in a piece of a hash."""
    names: list[str] = []
    for tool in tools:
        name = f"{plain_name(server)}__{plain_name(tool.name)}"
        if len(name) > MAX_NAME_CHARS or PREFIX + name in names:
            name = f"{name[: MAX_NAME_CHARS - 7]}_{hashlib.sha256(tool.name.encode()).hexdigest()[:6]}"
        names.append(PREFIX + name)
    return tuple(names)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ossia")
    except PackageNotFoundError:
        return "0"


def _ms_since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
