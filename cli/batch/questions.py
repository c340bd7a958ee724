"""The questions: a line of JSON each, read as they are needed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from ossia.cli.clean import one_line
from ossia.cli.exits import MAX_TEXT_BYTES, ExitError
from ossia.cli.runtime.schema import read_schema
from ossia.cli.settings.config import checked
from ossia.cli.settings.table import SETTINGS, Settings
from ossia.harmony.messages import ResponseFormat

MAX_BYTES = 2 * MAX_TEXT_BYTES
"""The longest line: JSON may write one character in several bytes."""
OPTIONS = tuple(key for key, one in SETTINGS.items() if one.in_chat and one.in_chat.part != "screen")
"""The settings that a line may change for its question: `("effort", "max_tokens", "temperature", "seed", …)`."""
_KEYS = ("id", "prompt", "instructions", "schema", *OPTIONS)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the input: its `number`, from 1; its bytes, None if there are more than MAX_BYTES; their digest."""

    number: int
    data: bytes | None
    digest: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question, with the settings that hold for it. `instructions` None: those of the command line."""

    prompt: str
    settings: Settings
    instructions: str | None = None
    schema: ResponseFormat | None = None


@contextmanager
def opened(source: str, out: str | None) -> Iterator[IO[bytes]]:
    """The file of the questions, "-" for stdin. Raises ExitError, also if `out` is the same file."""
    if source == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115
    except OSError as error:
        raise ExitError(f"{source}: can't be read: {error.strerror}") from None
    with file:
        if out is not None and Path(out).exists() and os.path.samestat(os.fstat(file.fileno()), Path(out).stat()):
            raise ExitError(f"{out} has the questions: give another file for the answers, -o FILE")
        yield file


def number_of(file: IO[bytes]) -> int | None:
    """The number of questions in a file; None for a pipe, which can only be read once."""
    if not file.seekable():
        return None
    at = file.tell()
    total = sum(1 for _ in lines_of(file))
    file.seek(at)
    return total


def lines_of(file: IO[bytes]) -> Iterator[Line]:
    """The lines that aren't blank. The file is read no further than the last one that was taken."""
    number = 0
    while data := file.readline(MAX_BYTES + 1):
        number += 1
        whole = len(data) <= MAX_BYTES
        data = (data.removeprefix(_BOM) if number == 1 else data).strip() if whole else data
        digest = hashlib.sha256(data)
        while not whole and not data.endswith(b"\n") and (data := file.readline(MAX_BYTES)):
            digest.update(data)
        if data or not whole:
            yield Line(number, data if whole else None, digest.hexdigest()[:16])


def value_of(line: Line) -> Mapping[str, Any]:
    """The line as an object: `"Why?"` is `{"prompt": "Why?"}`. Raises ExitError, with what was expected."""
    if line.data is None:
        raise ExitError(f"the line has more than {MAX_BYTES:,} bytes: ask about a part of it")
    try:
        value = json.loads(line.data)
    except UnicodeDecodeError as error:
        raise ExitError(f"the line isn't UTF-8 text (byte {error.start}): convert it first") from None
    except (ValueError, RecursionError) as error:
        fault = one_line(str(error), 100)
        raise ExitError(f'the line isn\'t JSON ({fault}): a question is "text" or {{"prompt": "text"}}') from None
    value = {"prompt": value} if isinstance(value, str) else value
    if not isinstance(value, dict):
        raise ExitError(f'a question is "text" or {{"prompt": "text"}}, not {one_line(json.dumps(value), 60)}')
    return value


def id_of(value: Mapping[str, Any]) -> str | int | None:
    """The line's own `id`, a text or a whole number; None: it has no such id."""
    found = value.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def question_of(
    value: Mapping[str, Any], settings: Settings, schema: ResponseFormat | None, warn: Callable[[str], object]
) -> Question:
    """The question of a line, over the command line's `settings` and `schema`. Raises ExitError, also for a bad key."""
    unknown = next((key for key in value if key not in _KEYS), None)
    if unknown is not None:
        raise ExitError(f"{one_line(unknown, 60)!r} isn't known: a question has {', '.join(_KEYS)}")
    given = {key: one for key, one in value.items() if one is not None}
    if given.get("id") is not None and id_of(value) is None:
        raise ExitError("id: must be a text or a whole number")
    prompt, instructions = (_text(given, key) for key in ("prompt", "instructions"))
    if prompt is None or not prompt.strip():
        raise ExitError('there is no "prompt"')
    if "schema" in given:
        if not isinstance(given["schema"], dict):
            raise ExitError("schema: must be a JSON Schema, which is an object")
        schema = _schema(json.dumps(given["schema"]), warn)
    changed: Any = {key: checked(key, given[key], key) for key in OPTIONS if key in given}
    return Question(prompt, replace(settings, **changed), instructions, schema)


def _text(given: Mapping[str, Any], key: str) -> str | None:
    text = given.get(key)
    if text is not None and not isinstance(text, str):
        raise ExitError(f"{key}: must be a text, not {one_line(json.dumps(text), 60)}")
    return text


@lru_cache(maxsize=16)
def _schema(text: str, warn: Callable[[str], object]) -> ResponseFormat:
    """The schema, read once for the questions that share it."""
    return read_schema(text, of="schema", warn=warn)
