"""The responses on disk: a stored session for each conversation, and a list of the responses in them."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ossia.agent.conversation import OpenSession
from ossia.agent.errors import SessionsError
from ossia.agent.serving.history import Start
from ossia.agent.serving.memory import Given
from ossia.agent.sessions.store import SessionStore
from ossia.tools.files import cannot, make_private_file
from ossia.tools.host import Host, Notice, Report

_MAX_LISTED = 10_000


class Stored:
    """The stored conversations of a server's clients. Thread-safe.

    A line of the list (`serve/responses.jsonl` in `host.data`) names the session that holds a response, and how many of
    its entries and turns there were by then: another request may go on from there. `report` gets a warning, once, about
    what can't be written.
    """

    def __init__(self, host: Host, report: Report) -> None:
        self._report, self._warned = report, False
        self._store = SessionStore(host.sessions, now=lambda: host.now().timestamp())
        self._path = host.data / "serve" / "responses.jsonl"
        self._lock = threading.Lock()
        self._lines: dict[str, Mapping[str, Any]] = {}
        self._by_digest: dict[str, str] = {}
        try:
            make_private_file(self._path)
        except OSError as error:
            self.warn(f"{self._path}: {cannot(error, 'written')}")
        with suppress(OSError), self._path.open(encoding="utf-8") as file:
            for line in deque(file, _MAX_LISTED):
                with suppress(ValueError):  # half a line: the process was killed
                    self._note(json.loads(line))

    def of(self, mark: str) -> Given | None:
        """The response with this mark, as it is stored; None: it isn't."""
        with self._lock:
            line = self._lines.get(mark)
        return self._given(line) if line is not None else None

    def with_digest(self, digest: bytes) -> Given | None:
        """The last response of a conversation with this digest; None: it isn't stored."""
        with self._lock:
            mark = self._by_digest.get(digest.hex())
        return self.of(mark) if mark is not None else None

    def open(self, start: Start, workspace: str | None) -> OpenSession:
        """The session of a conversation, which is stored as it grows; a copy if it has gone on another way already.

        `close` it. Raises SessionsError.
        """
        if start.session_id is not None:
            with suppress(SessionsError):  # it was deleted, or another turn goes on with it now
                session = self._store.resume(start.session_id)
                if len(session.entries) == start.known:
                    session.extend(start.entries[start.known :], start.ends)
                    return OpenSession(session, self._store, start.session_id, resumed=True)
                self._store.release(session)
        session = start.session()
        return OpenSession(session, self._store, self._store.keep(session, workspace=workspace))

    def close(self, opened: OpenSession, given: Given) -> None:
        """Give the session back after its turn, and list the response."""
        if problem := self._store.problem:
            self.warn(problem)
        self._store.release(opened.session)
        line = {
            "mark": given.mark, "session": opened.session_id, "entries": len(given.entries), "turns": len(given.ends),
            "begins": given.begins, "key": given.key, "lead": given.lead, "call": given.call,
            "digest": given.digest.hex(),
        }  # fmt: skip
        with self._lock:
            self._note(line)
            with suppress(OSError):  # a full disk: it can be continued in this process
                make_private_file(self._path)
                with self._path.open("ab") as file:
                    file.write(json.dumps(line).encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())

    def warn(self, why: str) -> None:
        """Report, once, that something isn't stored."""
        if not self._warned:
            self._warned = True
            self._report(Notice("warning", f"conversations aren't stored: {why}"))

    def _note(self, line: Mapping[str, Any]) -> None:
        self._lines[line["mark"]] = line
        self._by_digest[line["digest"]] = line["mark"]

    def _given(self, line: Mapping[str, Any]) -> Given | None:
        try:
            session = self._store.load(line["session"])
        except SessionsError:  # it was deleted
            return None
        entries, ends = session.entries[: line["entries"]], session.ends[: line["turns"]]
        ended = (*ends[:-1], "called") if line["call"] else ends
        summary = session.summary if session.summary and session.summary.turns < line["turns"] else None
        return Given(
            line["mark"], line["key"], session.options.date, tuple(line["lead"]), entries, ended, summary,
            line["begins"], (), bytes.fromhex(line["digest"]), line["call"], True, line["session"],
        )  # fmt: skip
