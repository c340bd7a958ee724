"""A session made of messages that came from elsewhere: openai-harmony's conversation, or our own JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from ossia.agent.errors import SessionInvalid
from ossia.agent.events import TurnEnd
from ossia.agent.kinds import is_answer, says_nothing
from ossia.agent.sessions.json import as_outside, session_from_json
from ossia.agent.sessions.session import Entry, Options, Session
from ossia.harmony.conversation import conversation_from_json
from ossia.harmony.errors import HarmonyError
from ossia.harmony.messages import DeveloperPrompt, Message, SystemPrompt

Source = Literal["json", "harmony"]


def import_session(text: str, *, trusted: bool = False) -> tuple[Session, str]:
    """The session that a JSON text holds, in either form, and its title ("" without one).

    Unless it is `trusted`, everything in it counts as outside text, and nothing as typed by the user; the sampled ids
    in our own form are left out. Raises `SessionInvalid`, one line.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SessionInvalid(f"not JSON: {error}") from None
    form = form_of(data)
    if form == "json":
        session, title = session_from_json(data, trusted=trusted)
    else:
        try:
            messages = conversation_from_json(data)
        except (HarmonyError, RecursionError) as error:
            raise SessionInvalid(f"not a conversation (read as {form}): {error}") from None
        session, title = session_of(messages), ""
        session = session if trusted else as_outside(session)
    if not session.entries:
        raise SessionInvalid("the conversation has no message in it")
    return session, title


def form_of(data: object) -> Source:
    """The form of a value from `json.loads`."""
    return "json" if isinstance(data, dict) and "entries" in data else "harmony"


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
