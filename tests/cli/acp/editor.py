"""The protocol's Python client around one process of `ossia acp`, as an editor has it.

    with Editor("--engine", script) as editor:
        session = editor.new(folder)
        turn = editor.begin(session, "Write it.")
        editor.until(lambda: editor.questions)
        editor.cancel(session)
        assert editor.end(turn) == "cancelled"

On leaving, stdin is closed, the process must end by itself, and each of its messages must have followed the protocol.
"""

from __future__ import annotations

import asyncio
import json
import os
from asyncio import StreamReader, StreamReaderProtocol
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.cli.acp.checker import Checker, Message
from tests.support.command import start

_LONGEST = 1 << 24
WAIT_S = 60


class _Wire:
    """The library's transport: each line is checked before the library has it."""

    def __init__(self, stdin: IO[bytes], reader: StreamReader, checker: Checker, seen: asyncio.Event) -> None:
        self._stdin, self._reader, self._checker, self._seen = stdin, reader, checker, seen
        self.ended = False

    async def send(self, message: Message) -> None:
        self._checker.sent(message)
        self._stdin.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> Message | None:
        while line := await self._reader.readline():
            self._seen.set()
            message = self._checker.received(line)
            if message is not None:
                return message
        self._seen.set()
        self.ended = True
        return None

    async def close(self) -> None:
        self._stdin.close()


class _Client:
    """The editor's side. `answer`: the kind of option that is chosen; None: the question stays open."""

    def __init__(self, seen: asyncio.Event) -> None:
        self.answer: str | None = "cancelled"
        self.updates: dict[str, list[Any]] = {}
        self.questions: list[tuple[Any, Any]] = []
        self.left = asyncio.Event()
        self._seen = seen

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        self.updates.setdefault(session_id, []).append(update)
        self._seen.set()

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **meta: Any) -> Any:
        from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

        self.questions.append((tool_call, options))
        self._seen.set()
        if self.answer is None:
            await self.left.wait()
            self.left.clear()
        chosen = [option.option_id for option in options if option.kind == self.answer]
        if not chosen:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen[0]))


class Editor:
    """`updates`: what came for each session; `questions`: the call and the options of each."""

    def __init__(self, *flags: str, env: Mapping[str, str] | None = None) -> None:
        theirs, ours = os.pipe()
        self._process = start("acp", *flags, stdin=theirs, env=env)
        os.close(theirs)
        self._checker = Checker()
        self._runner = asyncio.Runner()
        self._runner.run(self._connect(os.fdopen(ours, "wb", 0)))
        self.greeting = self.run(self.connection.initialize(protocol_version=1))

    async def _connect(self, stdin: IO[bytes]) -> None:
        from acp.client.connection import ClientSideConnection

        loop = asyncio.get_running_loop()
        reader = StreamReader(limit=_LONGEST)
        self._pipe, _ = await loop.connect_read_pipe(lambda: StreamReaderProtocol(reader), self._process.stdout)
        self._seen = asyncio.Event()
        self.client: Any = _Client(self._seen)
        self._wire = _Wire(stdin, reader, self._checker, self._seen)
        self.connection = ClientSideConnection(self.client, self._wire)

    async def _leave(self) -> None:
        """Close its stdin, and have what it still writes."""
        await self.connection.close()
        while not self._wire.ended:
            await _in_time(self._wire.receive())
        self._pipe.close()

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._process.kill()
        self._runner.run(self._leave())
        self._runner.close()
        assert self._process.stderr is not None
        errors = self._process.stderr.read().decode()
        self._process.wait(WAIT_S)
        self._process.stderr.close()
        if kind is None:
            assert not self._checker.faults, self._checker.faults
            assert (self._process.returncode, "Traceback" in errors) == (0, False), errors

    @property
    def updates(self) -> dict[str, list[Any]]:
        return dict(self.client.updates)

    @property
    def questions(self) -> list[tuple[Any, Any]]:
        return list(self.client.questions)

    def run(self, request: Any) -> Any:
        """The response to a request."""
        return self._runner.run(_in_time(request))

    def request(self, method: str, **params: object) -> Any:
        """The result of a request for which the library has no function."""
        return self.run(self.connection._conn.send_request(method, params))

    def new(self, folder: Path, servers: Sequence[Any] = ()) -> Any:
        """A new session."""
        return self.run(self.connection.new_session(cwd=str(folder), mcp_servers=list(servers)))

    def ask(self, session: str, text: str) -> str:
        """Ask and wait for the end of the turn; the reason for it."""
        return self.end(self.begin(session, text))

    def begin(self, session: str, text: str) -> asyncio.Task[Any]:
        """Ask, without waiting."""
        from acp.schema import TextContentBlock

        async def prompt() -> Any:
            return await self.connection.prompt(session_id=session, prompt=[TextContentBlock(type="text", text=text)])

        return self._runner.run(_started(prompt()))

    def end(self, turn: asyncio.Task[Any]) -> str:
        return str(self.run(turn).stop_reason)

    def cancel(self, session: str) -> None:
        self.run(self.connection.cancel(session_id=session))

    def release(self) -> None:
        """Answer the open question with `client.answer`."""
        self.client.left.set()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until this holds. Raises TimeoutError."""

        async def wait() -> None:
            while not holds():
                self._seen.clear()
                await self._seen.wait()

        self.run(wait())

    def kinds(self, session: str) -> list[str]:
        """The kinds of a session's updates, each once, in the order in which they first came."""
        return list(dict.fromkeys(update.session_update for update in self.updates.get(session, ())))

    def text(self, session: str, kind: str = "agent_message_chunk") -> str:
        """The chunks of this kind as one text."""
        return "".join(one.content.text for one in self.updates.get(session, ()) if one.session_update == kind)

    def of(self, session: str, kind: str) -> list[Any]:
        """The updates of a kind."""
        return [one for one in self.updates.get(session, ()) if one.session_update == kind]


async def _started(prompt: Any) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(prompt)
    await asyncio.sleep(0)
    return task


async def _in_time(request: Any) -> Any:
    return await asyncio.wait_for(request, WAIT_S)
