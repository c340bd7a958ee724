"""`ossia acp` through pipes, a JSON value a line, without a library of the protocol: for hostile lines and for times.

with Lines("--engine", script) as agent:
    session = agent.opened(folder)
    agent.send({"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": …})
    answer = agent.answer(7)
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.command import start

Message = dict[str, Any]
WAIT_S = 60


class Lines:
    """One process of `ossia acp`. `messages`: what it wrote, with the moment each line was read; `torn`: no JSON.

    Its stderr is read to its end, so that it never waits for us.
    """

    def __init__(self, *flags: str, env: Mapping[str, str] | None = None, started: bool = False) -> None:
        theirs, ours = os.pipe()
        self.process = start("acp", *flags, stdin=theirs, env=env, started=started)
        os.close(theirs)
        self._stdin = os.fdopen(ours, "wb", 0)
        self._come: queue.Queue[tuple[Message | None, float]] = queue.Queue()
        self._ids = itertools.count(1_000_000)  # no id that a test sends itself
        self.messages: list[Message] = []
        self.at_s: list[float] = []
        self.torn: list[bytes] = []
        self._errors: list[bytes] = []
        self._readers = [threading.Thread(target=target, daemon=True) for target in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def errors(self) -> str:
        """What stands on stderr so far."""
        return b"".join(self._errors).decode(errors="replace")

    def write(self, line: bytes) -> None:
        """Send bytes as they are. Raises BrokenPipeError when the process has ended."""
        rest = memoryview(line)
        while rest:
            rest = rest[self._stdin.write(rest) or 0 :]

    def send(self, *messages: object) -> None:
        """Send these as lines, in one write."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def request(self, method: str, **params: object) -> Message:
        """Send a request and wait for its answer."""
        number = self.ask(method, **params)
        return self.answer(number)

    def ask(self, method: str, **params: object) -> int:
        """Send a request; its id."""
        number = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def answer(self, number: object) -> Message:
        """The answer to a request, perhaps read before."""
        return self.until(lambda message: "method" not in message and message.get("id") == number)

    def update(self, kind: str) -> Message:
        """The first `session/update` of a kind, perhaps read before."""
        return self.until(lambda message: update_of(message).get("sessionUpdate") == kind)

    def until(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message of this sort. Raises TimeoutError, and EOFError when the process has ended before."""
        for message in self.messages:
            if wanted(message):
                return message
        end_s = time.monotonic() + WAIT_S
        while True:
            message = self.next(end_s - time.monotonic())
            if wanted(message):
                return message

    def next(self, timeout_s: float = WAIT_S) -> Message:
        """The next message. Raises TimeoutError, and EOFError at the end."""
        try:
            message, at_s = self._come.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            raise TimeoutError(f"nothing came from ossia acp in {WAIT_S} s; stderr: {self.errors[-2000:]}") from None
        if message is None:
            self._come.put((None, at_s))
            raise EOFError(f"ossia acp has ended; stderr: {self.errors[-2000:]}")
        self.messages.append(message)
        self.at_s.append(at_s)
        return message

    def opened(self, folder: Path) -> str:
        """Shake hands and open a session in a folder; its id."""
        greeting = self.request("initialize", protocolVersion=1, clientCapabilities={})
        assert greeting["result"]["protocolVersion"] == 1, greeting
        made = self.request("session/new", cwd=str(folder), mcpServers=[])
        return str(made["result"]["sessionId"])

    def prompt(self, session: str, text: str = "Go on.") -> int:
        """Send a prompt; the id of the request."""
        return self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def close(self) -> int:
        """End it as a client does, by closing its stdin; its exit code. What it wrote until then is in `messages`."""
        if not self._stdin.closed:
            self._stdin.close()
        try:
            code = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for reader in self._readers:
            reader.join(WAIT_S)
        while (message := self._come.get()[0]) is not None:
            self.messages.append(message)
        self._come.put((None, 0.0))
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at_s = time.perf_counter()
            try:
                message = json.loads(line)
            except ValueError:
                self.torn.append(line)
                continue
            if isinstance(message, dict):
                self._come.put((message, at_s))
            else:
                self.torn.append(line)
        self._come.put((None, time.perf_counter()))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)


def update_of(message: Message) -> Message:
    """The update in a `session/update`; empty: it is another message."""
    return dict(message["params"]["update"]) if message.get("method") == "session/update" else {}
