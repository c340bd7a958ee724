"""The output: a line for each question, in their order. After a kill it goes on where it ended.

An answer that is ahead of its turn waits in FILE.part, which is gone once all are written; so do those behind a line
that failed and is asked again.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

from ossia.cli.batch.questions import Line
from ossia.cli.clean import one_line
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.streams import stdout
from ossia.tools.files import cannot
from ossia.tools.locks import file_lock

_BEGIN = b'{"line": '  # of each answer


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer from before: to which line, by which model and settings, with which exit code and reason."""

    number: int
    digest: str
    model: str
    settings: str
    exit: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an answer in FILE.part, in bytes. `of`: it is from before."""

    offset: int
    length: int
    of: Answered | None = None


class Answers:
    """The answers in `path`; None: on stdout. While it is open, no other process may write there.

    `goes_on`: a later run can go on from what is written; a pipe or a device can't be read again. `retry`: what failed
    is asked again.

        with Answers(Path("out.jsonl")) as answers:
            done = sum(1 for _ in answers.from_before())   # 12
            answers.expect(line)                           # None: it must be asked
            answers.add(line.number, '{"line": 13, …}')
    """

    def __init__(self, path: Path | None, *, retry: bool = False) -> None:
        self.path, self.retry = path, retry
        self.goes_on = path is not None and (not path.exists() or stat.S_ISREG(path.stat().st_mode))
        self._order: deque[int] = deque()  # lines that were asked, and aren't written yet
        self._ahead: dict[int, _Place] = {}  # the answers that wait in FILE.part
        self.compared = 0  # the last line in the output that `compare` saw
        self._broken = False
        self._after = ExitStack()
        self._out: IO[bytes]
        self._part: IO[bytes]

    def __enter__(self) -> Answers:
        """Open the files. Raises ExitError if that can't be done, or another process has them."""
        try:
            self._open()
        except TimeoutError:
            self._after.close()
            raise ExitError(f"{self.path}: another `ossia batch` is writing it: wait, or give another file") from None
        except OSError as error:
            self._after.close()
            raise ExitError(f"{error.filename or self.path}: {cannot(error, 'written')}") from None
        return self

    def __exit__(self, *_: object) -> None:
        """Close them. What waits stays in FILE.part, if a later run can go on from it."""
        self._part.close()
        if self.goes_on and not self._ahead:
            self._beside("part").unlink(missing_ok=True)
        self._after.close()
        if self.goes_on:
            self._beside("lock").unlink(missing_ok=True)

    def _open(self) -> None:
        after = self._after
        if self.path is None:
            stream = stdout()
            stream.flush()
            self._out = getattr(stream.buffer, "raw", stream.buffer)
        elif self.goes_on:
            is_new = not self.path.exists()
            self._out = after.enter_context(self.path.open("a+b", buffering=0))
            after.enter_context(file_lock(self._beside("lock"), wait_s=0))
            self._part = after.enter_context(self._beside("part").open("a+b", buffering=0))
            if is_new:  # someone has removed the answers, to begin anew
                self._part.truncate(0)
            return
        else:
            self._out = after.enter_context(self.path.open("wb", buffering=0))
        self._part = after.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115

    def _beside(self, kind: str) -> Path:
        assert self.path is not None
        return self.path.with_name(f"{self.path.name}.{kind}")

    # -- from before ---------------------------------------------------------------------------------------------------

    def from_before(self) -> Iterator[Answered]:
        """The answers that are written already, to their end; half a line, as a kill leaves it, is cut off.

        Raises ExitError for a file of something else.
        """
        last = 0
        for number, (_, data) in enumerate(_whole_lines(self._out) if self.goes_on else (), 1):
            answered = _answered(data)
            if answered is None:
                raise ExitError(f"{self.path}: line {number} isn't an answer of `ossia batch`: give another -o FILE")
            last = answered.number
            yield answered
        for offset, data in _whole_lines(self._part):
            waits = _answered(data)
            if waits and waits.number > last and not (self.retry and waits.exit):
                self._ahead[waits.number] = _Place(offset, len(data), waits)

    def compare(self, lines: Iterator[Line], see: Callable[[Answered], object]) -> Iterator[Line]:
        """The lines from the first that must be asked; `see` gets each answer that stays.

        Raises ExitError if a line with such an answer isn't the same any more.
        """
        again = list[Line]()
        for one in self.from_before():
            self.compared = one.number
            line = next(lines, None)
            while self.retry and line and line.number < one.number:
                again.append(line)
                line = next(lines, None)
            if self.retry and one.exit and line and line.number == one.number:
                again.append(line)
                continue
            if line is None or (line.number, line.digest) != (one.number, one.digest):
                raise self._differs(line, one)
            again += [replace(line, data=b"")] if again else []
            see(one)
        return chain(again, lines)

    def _differs(self, line: Line | None, one: Answered) -> ExitError:
        if line and line.number < one.number:
            return ExitError(f"{self.path} has no answer to line {line.number}: --retry asks what is missing")
        changed = line is not None and line.number == one.number
        now = f"line {one.number} is another question now" if changed else f"it has no line {one.number} any more"
        way = "--retry asks it again" if changed and one.exit else "give another -o FILE"
        return ExitError(f"the input has changed since its answers were written: {now}; {way}")

    def reopen(self, number: int) -> None:
        """Take the answers from line `number` on out of the output: those that didn't fail wait for their turn.

        Raises ExitError for a full disk, and nothing has changed.
        """
        end = None
        for offset, data in _whole_lines(self._out):
            answered = _answered(data)
            if answered and answered.number >= number:
                end = offset if end is None else end
                if not answered.exit:
                    self._keep(answered.number, data, answered)
        if end is not None:
            self._out.truncate(end)

    # -- of this run ---------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of lines from the first one that isn't written to the last one that was asked."""
        return len(self._order)

    def expect(self, line: Line) -> Answered | None:
        """The next line: None if it must be asked, else its answer from before."""
        self._order.append(line.number)
        place = self._ahead.get(line.number)
        if place and place.of and place.of.digest == line.digest:
            self._write_due()
            return place.of
        self._ahead.pop(line.number, None)
        return None

    def add(self, number: int, answer: str) -> None:
        """Write the answer to a line, or keep it until those before it are there. Raises ExitError for a full disk."""
        data = f"{answer}\n".encode("utf-8", "replace")
        if self._broken:  # half a line is its end now
            return
        if self._order[0] == number:
            self._write(self._out, data)
            self._order.popleft()
            self._write_due()
        else:
            self._keep(number, data)

    def _keep(self, number: int, data: bytes, of: Answered | None = None) -> None:
        offset = self._part.seek(0, os.SEEK_END)
        self._write(self._part, data)
        self._ahead[number] = _Place(offset, len(data), of)

    def _write_due(self) -> None:
        if not self._ahead:
            return
        while self._order and (place := self._ahead.get(self._order[0])):
            self._part.seek(place.offset)
            self._write(self._out, self._part.read(place.length))
            del self._ahead[self._order.popleft()]
        if not self._ahead:
            self._part.truncate(0)

    def _write(self, file: IO[bytes], data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) or 0 :]
        except OSError as error:
            self._broken = True
            if isinstance(error, BrokenPipeError):
                raise
            raise ExitError(f"{self.path or 'the output'}: {cannot(error, 'written')}", ExitCode.FAILED) from None


def reason_of(answer: Mapping[str, Any]) -> str:
    """The reason of an answer that failed: its error, or `end: tokens`."""
    return one_line(str(answer.get("error") or f"end: {answer.get('end')}"), 200)


def _answered(data: bytes) -> Answered | None:
    try:
        value: Any = json.loads(data)
        line, digest = value["line"], value["digest"]
        return Answered(line, digest, value["model"], value["settings"], value["exit"], reason_of(value))
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def _whole_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The offset and the bytes of each line; the beginning of an answer behind the last one is cut off."""
    end = 0
    with open(file.fileno(), "rb", closefd=False) as reader:
        reader.seek(0)
        for data in reader:
            if not data.endswith(b"\n") and _BEGIN.startswith(data[: len(_BEGIN)]):
                break
            yield end, data
            end += len(data)
    file.truncate(end)
