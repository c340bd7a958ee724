"""A session as JSON and back, without loss: what is exported, and the parts that the store keeps in its columns.

{"version": 1, "title": "…", "options": {"effort": "medium", …}, "summary": null or {"text", "turns"},
 "ends": ["answered", null],
 "entries": [{"message": {…as openai_harmony…}, "turn": 0, "cut": false,
              "sampled": null or {"ids": […], "closed_by": "return", "repaired": false, "headless": false},
              "vocabulary": "<digest>" or null, "model": "gpt-oss-20b" or null, "taints": ["outside"],
              "state": {…what a tool left, e.g. a page…}, "typed": null, "attachments": [{"path", "media_type"}],
              "shortened": null, "error": false, "mark": "", "said_at": null, "structured": false}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from ossia.agent.engine.base import Sampling
from ossia.agent.errors import SessionInvalid
from ossia.agent.events import TurnEnd
from ossia.agent.kinds import is_answer, says_nothing
from ossia.agent.sessions.session import Entry, Options, Session, Summary
from ossia.harmony.conversation import conversation_from_json, message_to_json
from ossia.harmony.errors import HarmonyError
from ossia.harmony.messages import DeveloperPrompt, Effort, Message, ResponseFormat, Sampled, SystemPrompt
from ossia.tools.spec import Attachment, Taint

VERSION = 1


def dump_session(session: Session, *, title: str = "") -> str:
    """The whole session as one JSON object, one line."""
    data = {
        "version": VERSION,
        "title": title,
        "options": options_to_json(session.options),
        "summary": None if session.summary is None else asdict(session.summary),
        "ends": session.ends,
        "entries": [entry_to_json(entry) for entry in session.entries],
    }
    return json.dumps(data, ensure_ascii=False)


def session_from_json(data: object, *, trusted: bool = True) -> tuple[Session, str]:
    """The session that `dump_session` wrote, and its title; `data` is what `json.loads` gave.

    Not `trusted`: somebody else may have written it. Then everything in it counts as outside text, and nothing as typed
    by the user; the sampled ids are left out, since they could spell any messages. Raises `SessionInvalid`, one line,
    if it isn't whole, is newer than this program, or is no session at all.
    """
    if not isinstance(data, dict) or data.get("version") != VERSION:
        found = data.get("version") if isinstance(data, dict) else type(data).__name__
        raise SessionInvalid(f"the session must be of version {VERSION}, not {found!r}: use the ossia that wrote it")
    try:
        session = _session(data)
        title = str(data.get("title") or "")
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, HarmonyError) as error:
        raise SessionInvalid(f"not a whole session ({type(error).__name__}: {error})") from None
    return (session if trusted else as_outside(session)), title


def as_outside(session: Session) -> Session:
    """The same conversation as one that somebody else may have made up."""
    entries = [_as_outside(entry) for entry in session.entries]
    options = replace(session.options, taints=session.options.taints | {"outside"})
    return Session(options, entries=entries, ends=session.ends, summary=session.summary)


def _as_outside(entry: Entry) -> Entry:
    return replace(
        entry,
        message=replace(entry.message, sampled=None),
        taints=entry.taints | {"outside"},
        typed="" if entry.message.role == "user" else None,
        attachments=(),
        vocabulary=None,
        mark="",
    )


def _session(data: Mapping[str, Any]) -> Session:
    entries = [entry_from_json(item) for item in data["entries"]]
    ends = [end_from_json(end) for end in data["ends"]]
    turns = [entry.turn for entry in entries]
    if turns != sorted(turns) or not all(0 <= turn < len(ends) for turn in turns):
        raise ValueError("turns that are out of order, or not in ends")
    summary = None if data.get("summary") is None else summary_from_json(data["summary"])
    if summary is not None and not 0 < summary.turns <= len(ends):
        raise ValueError("a summary of turns that aren't there")
    return Session(options_from_json(data["options"]), entries=entries, ends=ends, summary=summary)


# -- the parts ---------------------------------------------------------------------------------------------------------


def options_to_json(options: Options) -> dict[str, Any]:
    """`{"effort": "medium", "instructions": None, …}`."""
    return {**asdict(options), "taints": sorted(options.taints)}


def options_from_json(data: Mapping[str, Any]) -> Options:
    """The options. Raises TypeError or ValueError if `data` isn't any."""
    answer = data.get("response_format")
    if data["effort"] not in get_args(Effort):
        raise ValueError(f"unknown effort {data['effort']!r}")
    return Options(
        effort=data["effort"],
        instructions=_text(data.get("instructions")),
        date=_text(data.get("date")),
        response_format=None if answer is None else ResponseFormat(**answer),
        sampling=Sampling(**data["sampling"]),
        taints=taints_from_json(data.get("taints", ())),
        planning=data.get("planning") is True,
    )


def summary_from_json(data: Mapping[str, Any]) -> Summary:
    """The summary. Raises TypeError or ValueError if `data` isn't one."""
    return Summary(str(data["text"]), int(data["turns"]))


def end_from_json(end: Any) -> TurnEnd | None:
    """The end of a turn, as it was written. Raises ValueError for anything else."""
    if end is None:
        return None
    if end not in get_args(TurnEnd):
        raise ValueError(f"unknown end of a turn {end!r}")
    known: TurnEnd = end
    return known


def taints_from_json(kinds: Sequence[Any]) -> frozenset[Taint]:
    """The kinds of text, as they were written. Raises ValueError for an unknown one."""
    unknown = set(kinds) - set(get_args(Taint))
    if unknown:
        raise ValueError(f"unknown kind of text {min(map(str, unknown))!r}")
    return frozenset(kinds)


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """One entry, in the form that this module's docstring shows."""
    sampled = entry.message.sampled
    return {
        "message": message_to_json(entry.message),
        "turn": entry.turn,
        "cut": entry.cut,
        "sampled": None if sampled is None else asdict(sampled),
        "vocabulary": entry.vocabulary,
        "model": entry.model,
        "taints": sorted(entry.taints),
        "state": entry.state,
        "typed": entry.typed,
        "attachments": [{"path": str(one.path), "media_type": one.media_type} for one in entry.attachments],
        "shortened": entry.shortened,
        "error": entry.error,
        "mark": entry.mark,
        "said_at": entry.said_at,
        "structured": entry.structured,
    }


def entry_from_json(data: Mapping[str, Any]) -> Entry:
    """The entry. Raises KeyError, TypeError, ValueError or HarmonyError if `data` isn't one."""
    (message,) = conversation_from_json([data["message"]])
    if data["sampled"] is not None:
        ids = tuple(int(token) for token in data["sampled"]["ids"])
        if not ids or not all(0 <= token < 1 << 32 for token in ids):
            raise ValueError("a sampled message without valid ids")
        message = replace(message, sampled=Sampled(**{**data["sampled"], "ids": ids}))
    state = data.get("state")
    if not isinstance(state, dict | None):
        raise ValueError(f"a state must be an object, not {type(state).__name__}")
    return Entry(
        message=message,
        turn=int(data["turn"]),
        cut=bool(data["cut"]),
        taints=taints_from_json(data.get("taints", ())),
        state=state,
        typed=_text(data.get("typed")),
        attachments=tuple(Attachment(Path(one["path"]), str(one["media_type"])) for one in data.get("attachments", ())),
        vocabulary=_text(data.get("vocabulary")),
        model=_text(data.get("model")),
        shortened=_text(data.get("shortened")),
        error=bool(data.get("error", False)),
        mark=str(data.get("mark") or ""),
        said_at=None if data.get("said_at") is None else float(data["said_at"]),
        structured=data.get("structured") is True,
    )


def _text(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise ValueError(f"must be a text or null, not {type(value).__name__}")
    return value


def import_session(text: str, *, trusted: bool = False) -> tuple[Session, str]:
    """The session in a JSON text, ours or openai-harmony's conversation, and its title ("" without one).

    Unless it is `trusted`, everything in it counts as outside text, and nothing as typed by the user; the sampled ids
    in our own form are left out. Raises `SessionInvalid`, one line.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SessionInvalid(f"not JSON: {error}") from None
    if isinstance(data, dict) and "entries" in data:
        session, title = session_from_json(data, trusted=trusted)
    else:
        try:
            session, title = session_of(conversation_from_json(data)), ""
        except (HarmonyError, RecursionError) as error:
            raise SessionInvalid(f"not a conversation (read as harmony): {error}") from None
        session = session if trusted else as_outside(session)
    if not session.entries:
        raise SessionInvalid("the conversation has no message in it")
    return session, title


def session_of(messages: Sequence[Message]) -> Session:
    """A session of these messages. System and developer messages at the beginning become its options.

    Each message of the user's begins a turn. A turn without an answer counts as stopped, one with an empty answer as
    silent. Declarations of functions are left out: the next turn has those of the tools that are on then.
    """
    prompts = next(
        (n for n, message in enumerate(messages) if message.role not in ("system", "developer")), len(messages)
    )
    entries: list[Entry] = []
    ends: list[TurnEnd | None] = []
    for message in messages[prompts:]:
        if message.role == "user" or not ends:
            ends.append("stopped")
        entries.append(Entry(message, len(ends) - 1))
        if is_answer(message):
            ends[-1] = "silent" if says_nothing(message) and ends[-1] != "answered" else "answered"
    return Session(_options(messages[:prompts]), entries=entries, ends=ends)


def _options(prompts: Sequence[Message]) -> Options:
    options, instructions = Options(), []
    for part in (part for message in prompts for part in message.content):
        if isinstance(part, SystemPrompt):
            options = Options(part.effort or options.effort, date=part.date or options.date)
        elif isinstance(part, DeveloperPrompt):
            instructions += [part.instructions] if part.instructions else []
        else:
            instructions.append(part)
    return Options(options.effort, "\n\n".join(instructions) or None, options.date)
