"""The tools of MCP servers: `functions.SERVER__TOOL`. The library is imported when the first server is connected to.

A server's descriptions of its tools are a stranger's text that the model reads: they are cut, put on one line, and
pinned once the user has seen them. Until then they count as text from outside, with a warning. A tool that is new or
changed later is off until the user accepts it. Results count as text from outside and as private.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.tools.functions import McpConfigInvalid
from ossia.tools.functions.naming import MAX_NAME_CHARS, PREFIX, plain_name
from ossia.tools.functions.schema import flatten
from ossia.tools.mcp._content import as_result
from ossia.tools.mcp._faults import hidden
from ossia.tools.mcp._input import Questions, put
from ossia.tools.mcp._stored import Logins, Pins, fingerprint
from ossia.tools.mcp._thread import LoopThread
from ossia.tools.mcp.config import CONNECT_TIMEOUT_S, URL_TIMEOUT_S, McpConfig, child_environment, expanded
from ossia.tools.mcp.status import McpStatus, McpToolStatus, RemoteTool, ServerFailed, ToolState
from ossia.tools.saying import mcp_line
from ossia.tools.spec import (
    ApprovalAsked,
    Decision,
    Effect,
    Fault,
    NoStop,
    Preview,
    Stop,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    ToolResult,
    ToolSpec,
    interrupted,
)
from ossia.tools.text import one_line

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from ossia.tools.mcp._server import Connection, Server

MAX_DESCRIPTION_CHARS = 1_000
_ALL_EFFECTS: frozenset[Effect] = frozenset({"read", "write", "run", "send"})
_LOOKS: frozenset[Effect] = frozenset({"read", "send"})
_GUARD_S = 5.0
_TICK_S = 0.05
_CLOSE_S = 8.0  # how long the library takes to end a server that resists: 2 s each for stdin, SIGTERM, SIGKILL


class McpServers:
    """All servers of a session. `data_dir` keeps accepted tools and logins, `log_dir` the servers' stderr.

    `environ` gives the values of `${VAR}`, and the part that programs inherit (`child_environment`). `show`: called on
    another thread with the address of a login; None: no login.

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
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._configs = tuple(config for config in configs if config.enabled)
        self._log_dir, self._environ, self._connect_timeout_s = log_dir, dict(environ), connect_timeout_s
        self.pictures = data_dir / "mcp" / "pictures"
        self.logins, self._show = Logins(data_dir / "mcp" / "logins.json"), show
        self.pins = Pins(data_dir / "mcp" / "pins.json")
        self._thread: LoopThread | None = None
        self._servers: list[Server] = []
        self._open: dict[str, Connection] = {}
        self._lock = threading.Lock()

    def connect(
        self, *, stop: Stop | None = None, waiting: Callable[[Sequence[str]], None] = lambda names: None
    ) -> tuple[McpStatus, ...]:
        """Connect to all servers at the same time. A server that fails is a status with an `error`.

        `waiting` is called now and then meanwhile, on this thread, with the names of those that haven't answered. After
        a stop, servers not yet connected have an error. Raises `PinsUnusable`.
        """
        if not self._configs:
            return ()
        self._log_dir.mkdir(parents=True, exist_ok=True)
        with self._lock:
            thread = self._thread = self._thread or LoopThread(self._log_dir / "mcp.log", self._hidden)
        begun = time.monotonic()
        futures = [thread.submit(self._connected(config)) for config in self._configs]

        def cancel() -> None:
            for future in futures:
                future.cancel()

        forget = (stop or NoStop()).on_stop(cancel)
        each = list(zip(self._configs, futures, strict=True))
        try:
            while late := [config.name for config, future in each if not future.done()]:
                if time.monotonic() - begun > self._connect_timeout_s + _GUARD_S:
                    break
                waiting(late)
                wait(futures, _TICK_S)
        finally:
            forget()
        return tuple(self._status(config, future, begun) for config, future in each)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are on, of all connected servers."""
        return tuple(
            McpTool(self, connected, tool, offered)
            for connected in self._open.values()
            for tool, offered in zip(connected.server.tools, connected.offered, strict=True)
            if connected.accepted.get(tool.name) == fingerprint(tool)
        )

    def accept(self, name: str) -> None:
        """Accept all tools of the connected server `name`. Raises `PinsUnusable`."""
        connected = self._open[name]
        connected.accepted = {tool.name: fingerprint(tool) for tool in connected.server.tools}
        connected.is_new = False
        self.pins.accept(name, connected.accepted)

    def close(self) -> None:
        """End the connections and the started programs. May be called more than once."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        closing = [thread.submit(server.close()) for server in self._servers]  # also those that failed: they may linger
        deadline = time.monotonic() + _CLOSE_S
        wait(closing, _CLOSE_S)
        thread.close(max(1.0, deadline - time.monotonic()))

    # -- connecting ---------------------------------------------------------------------------------------------------

    async def _connected(self, config: McpConfig) -> Connection | McpStatus:
        """The connection, or a status with the error."""
        from ossia.tools.mcp._server import Connection, Server

        begun = time.monotonic()
        try:
            ready = self.logins.completed(expanded(config, self._environ))
            server = Server(
                ready,
                environ=child_environment(ready, self._environ),
                cwd=Path(self._environ.get("HOME") or self._environ.get("USERPROFILE") or self._log_dir),
                log=self._log_dir / f"mcp-{plain_name(config.name)}.log",
                logins=self.logins,
                show=self._show,
            )
            self._servers.append(server)
            await server.open(self._timeout_s(config))
        except (ServerFailed, McpConfigInvalid) as error:
            return McpStatus(config.name, config.target, _ms_since(begun), error=str(error))
        return Connection(config, server, _ms_since(begun), _offered_names(config.name, server.tools))

    def _status(self, config: McpConfig, future: Future[Connection | McpStatus], begun: float) -> McpStatus:
        try:
            outcome = future.result(0)
        except CancelledError:
            return McpStatus(config.name, config.target, _ms_since(begun), error="interrupted")
        except TimeoutError:
            future.cancel()
            late = f"it did not answer within {self._connect_timeout_s + _GUARD_S:g} seconds"
            return McpStatus(config.name, config.target, _ms_since(begun), error=late)
        if isinstance(outcome, McpStatus):
            return outcome
        self._open[config.name] = outcome
        return self._judged(outcome)

    def _hidden(self, text: str) -> str:
        for server in self._servers:
            text = hidden(text, server.config)
        return text

    def _judged(self, connected: Connection) -> McpStatus:
        """The status of a connected server. The tools of a new one are on, too."""
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
        left_out = tuple(server.left_out.items())
        return McpStatus(config.name, config.target, connected.ms, server.title, tools, server.more_tools, left_out)

    def submit_call(
        self, connected: Connection, tool: RemoteTool, args: Mapping[str, object], questions: Questions
    ) -> Future[CallToolResult]:
        """The call, running on MCP's thread. Raises `ServerFailed` if that is closed."""
        with self._lock:
            if self._thread is None:
                raise ServerFailed("it is closed")
            return self._thread.submit(connected.call(tool, args, self._timeout_s(connected.config), questions))

    def _timeout_s(self, config: McpConfig) -> float:
        """The time for connecting."""
        is_quick = config.url is not None and self._show is None
        return min(self._connect_timeout_s, URL_TIMEOUT_S) if is_quick else self._connect_timeout_s


class McpTool:
    """One tool of a server, for a `Toolbox`."""

    def __init__(self, servers: McpServers, connected: Connection, tool: RemoteTool, offered: str) -> None:
        self._servers, self._connected, self._tool = servers, connected, tool
        self.spec = ToolSpec(
            offered,
            one_line(tool.description, MAX_DESCRIPTION_CHARS),
            flatten(tool.schema),
            effects=_LOOKS if tool.name in connected.config.read_only else _ALL_EFFECTS,
            provenance="mcp",
            origin=connected.config.name,
            taints=frozenset({"outside"} if connected.is_new else ()),
            result_taints=frozenset({"outside", "private"}),
        )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        config = self._connected.config
        said = "\nThe server calls it read-only." if self._tool.read_only else ""
        detail = json.dumps(args, ensure_ascii=False, indent=2)
        name = one_line(self._tool.name, 100)
        where = f"{name} of the MCP server {config.name} ({one_line(config.target, 200)})"
        return Preview(mcp_line(config.name, name, args), f"{where}{said}\n{detail}")

    def run(
        self, args: object, *, call_id: str, context: ToolContext
    ) -> Generator[ToolOutput | ApprovalAsked, Decision | None, ToolResult]:
        servers, stop, questions = self._servers, context.stop, Questions()
        notes: list[str] = []
        try:
            future = servers.submit_call(self._connected, self._tool, args if isinstance(args, dict) else {}, questions)
        except ServerFailed as error:
            return _failed(self.spec, error)

        def cancel() -> None:
            future.cancel()

        future.add_done_callback(lambda _: questions.no_more())
        forget = stop.on_stop(cancel)
        # The other thread enforces the timeouts of a call and of connecting; this is in case that thread hangs.
        guard_s = self._connected.config.timeout_s + CONNECT_TIMEOUT_S + _CLOSE_S + _GUARD_S
        try:
            while (asked := questions.next(guard_s)) is not None:
                notes.append((yield from put(asked, ToolCall(call_id, self.spec.name, ""), self.spec.origin, stop)))
            result = as_result(future.result(0), name=self.spec.name, folder=servers.pictures)
        except (ServerFailed, TimeoutError, CancelledError) as error:
            if stop.stopped:
                return ToolResult(f"[{interrupted(stop)}]", error=True)
            result = _failed(self.spec, error)
        finally:
            forget()
            cancel()
        return replace(result, text="\n".join([result.text, *notes]))

    def close(self) -> None:
        """End all servers: a session's tools are closed together."""
        self._servers.close()


def _failed(spec: ToolSpec, error: BaseException) -> ToolResult:
    """The result of a failed call, perhaps in the server's words."""
    why = str(error).rstrip(".") or "the call was given up"
    text = f"Error: {spec.name}: the MCP server {spec.origin}: {why}. Choose another way."
    return ToolResult(text, error=True, fault=Fault("server"))


def _state(accepted: str | None, now: str) -> ToolState:
    if accepted is None:
        return "new"
    return "accepted" if accepted == now else "changed"


def _offered_names(server: str, tools: Sequence[RemoteTool]) -> tuple[str, ...]:
    """`functions.files__read_file`, each once; a long name ends in part of a hash."""
    names: list[str] = []
    for tool in tools:
        name = f"{plain_name(server)}__{plain_name(tool.name)}"
        if len(name) > MAX_NAME_CHARS or PREFIX + name in names:
            name = f"{name[: MAX_NAME_CHARS - 7]}_{hashlib.sha256(tool.name.encode()).hexdigest()[:6]}"
        names.append(PREFIX + name)
    return tuple(names)


def _ms_since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
