"""A session as a file: versioned JSON, one object, written whole or not at all.

{"version": 1, "vocabulary": "<digest>", "options": {"effort": "medium", …}, "ends": ["answered", null],
 "entries": [{"message": {…the wheel's shape…}, "turn": 0, "cut": false,
              "sampled": {"ids": […], "closed_by": "return", "repaired": false, "headless": false},
              "brings": ["outside"], "state": {…what a tool left, e.g. a page…}, "typed": null}]}
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from agent.engine.base import Sampling
from agent.errors import SessionInvalid
from agent.events import TurnEnd
from agent.session import Entry, Options, Session
from harmony.conversation import conversation_from_json, message_to_json
from harmony.errors import HarmonyError
from harmony.messages import ResponseFormat, Sampled
from tools.files import write_whole
from tools.spec import Taint

VERSION = 1


def save_session(session: Session, path: Path, *, vocabulary: str) -> None:
    """Write `session` to `path`, mode 0600. `vocabulary` is the digest of the one its ids belong to."""
    data = {
        "version": VERSION,
        "vocabulary": vocabulary,
        "options": {**asdict(session.options), "brings": sorted(session.options.brings)},
        "ends": session.ends,
        "entries": [_entry_to_json(entry) for entry in session.entries],
    }
    write_whole(path, json.dumps(data, ensure_ascii=False))


def load_session(path: Path, *, vocabulary: str) -> Session:
    """Read a session back. Under another vocabulary its sampled ids are left out: it is rendered from its text.

    Raises `SessionInvalid` when the file is torn, newer than this program, or something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SessionInvalid(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SessionInvalid(f"{path}: expected a session in JSON: {error}") from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        found = data.get("version") if isinstance(data, dict) else type(data).__name__
        raise SessionInvalid(
            f"{path}: expected a session of version {VERSION}, got {found!r}: use the ossia that wrote it"
        )
    try:
        session = Session(
            _options(data["options"]), entries=[_entry(item) for item in data["entries"]], ends=_ends(data["ends"])
        )
    except (KeyError, TypeError, ValueError, HarmonyError) as error:
        raise SessionInvalid(f"{path}: not a whole session ({type(error).__name__}: {error})") from None
    return session if data.get("vocabulary") == vocabulary else _without_ids(session)


def _without_ids(session: Session) -> Session:
    """The same conversation for another vocabulary: its messages are rendered from their text from now on."""
    entries = [replace(entry, message=replace(entry.message, sampled=None)) for entry in session.entries]
    return Session(session.options, entries=entries, ends=session.ends)


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    sampled = entry.message.sampled
    return {
        "message": message_to_json(entry.message),
        "turn": entry.turn,
        "cut": entry.cut,
        "sampled": None if sampled is None else asdict(sampled),
        "brings": sorted(entry.brings),
        "state": entry.state,
        "typed": entry.typed,
    }


def _entry(data: dict[str, Any]) -> Entry:
    sampled = data["sampled"]
    (message,) = conversation_from_json([data["message"]])
    if sampled is not None:
        ids = tuple(int(token) for token in sampled["ids"])
        if not ids:
            raise ValueError("a sampled message without ids")
        message = replace(message, sampled=Sampled(**{**sampled, "ids": ids}))
    state, typed = data.get("state"), data.get("typed")
    if not isinstance(state, dict | None) or not isinstance(typed, str | None):
        raise ValueError("a state that is no object, or typed text that is none")
    return Entry(message, int(data["turn"]), bool(data["cut"]), _brings(data), state, typed)


def _options(data: dict[str, Any]) -> Options:
    formats = data["response_format"]
    return Options(
        **{
            **data,
            "brings": _brings(data),
            "sampling": Sampling(**data["sampling"]),
            "response_format": None if formats is None else ResponseFormat(**formats),
        }
    )


def _brings(data: dict[str, Any]) -> frozenset[Taint]:
    unknown = set(data.get("brings", ())) - set(get_args(Taint))
    if unknown:
        raise ValueError(f"unknown kind of text {min(unknown)!r}")
    return frozenset(data.get("brings", ()))


def _ends(data: list[Any]) -> list[TurnEnd | None]:
    unknown = [end for end in data if end is not None and end not in get_args(TurnEnd)]
    if unknown:
        raise ValueError(f"unknown end of a turn {unknown[0]!r}")
    return data
