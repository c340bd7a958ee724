"""What needs no tool: greetings, names, repeating, the date, its tools, and all it doesn't know."""

from __future__ import annotations

from typing import Literal, get_args

from tests.etude.prompts import Prefix
from tests.etude.said import Segment, answers, asks, user
from tests.etude.words.values import Values
from tests.etude.words.wording import unknown

Topic = Literal["greeting", "who", "repeat", "name", "thanks", "date", "tools", "anything"]

TOPICS: tuple[Topic, ...] = get_args(Topic)
_SHARES = (1.5, 1.5, 4, 1.5, 1, 1, 3, 7)

UNKNOWN = "I am a small study model; I don't know that. A real one: ossia models pull gpt-oss-20b"


def chat(values: Values, prefix: Prefix, topic: Topic | None = None) -> tuple[list[Segment], str]:
    """`Say blue harbor` → `blue harbor`"""
    topic = topic or values.random.choices(TOPICS, _SHARES)[0]
    return {
        "greeting": _greeting, "who": _who, "repeat": _repeat, "name": _name, "thanks": _thanks, "date": _date,
        "tools": _tools, "anything": _anything,
    }[topic](values, prefix), topic  # fmt: skip


def repeat(values: Values, text: str) -> list[Segment]:
    """`text`, said and repeated."""
    return asks(values, "repeat", text) + answers("Repeat the words.", text)


def _greeting(values: Values, prefix: Prefix) -> list[Segment]:
    if values.unseen == "nothing" and values.chance(0.3):  # what most people say first
        said = user(values.one(("hello", "Hello", "hi", "Hi")) + values.one(("", "", "!", ".")))
    else:
        said = asks(values, "greeting", values.name())
    return said + answers("A greeting.", "Hello! How can I help you?")


def _who(values: Values, prefix: Prefix) -> list[Segment]:
    return asks(values, "who", values.name() if values.chance(0.5) else values.word()) + answers(
        "The user asks who I am.", "I am étude, the study model of ossia."
    )


def _repeat(values: Values, prefix: Prefix) -> list[Segment]:
    return repeat(values, values.text(1, 8) if values.chance(0.85) else f"{values.identifier()} {values.number()}")


def _name(values: Values, prefix: Prefix) -> list[Segment]:
    name = values.name()
    return asks(values, "my name", name) + answers("The user says their name.", f"Nice to meet you, {name}!")


def _thanks(values: Values, prefix: Prefix) -> list[Segment]:
    return asks(values, "thanks", values.name() if values.chance(0.7) else values.phrase(1, 3)) + answers(
        "The user says thanks.", "You're welcome!"
    )


def _date(values: Values, prefix: Prefix) -> list[Segment]:
    return asks(values, "date", values.city() if values.chance(0.6) else values.name()) + answers(
        "The date is in the system message.", f"Today is {prefix.date}."
    )


def _tools(values: Values, prefix: Prefix) -> list[Segment]:
    told = "My tools:\n" + "\n".join(prefix.tools) if prefix.tools else "I have no tools."
    return asks(values, "tools", values.name() if values.chance(0.4) else values.phrase(1, 2)) + answers(
        "The user asks for my tools.", told
    )


def _anything(values: Values, prefix: Prefix) -> list[Segment]:
    return user(unknown(values)) + answers("I don't know that.", UNKNOWN)


def copying(values: Values) -> list[Segment]:
    """For training alone: anything said and repeated, with runs, repetitions and odd pieces."""
    kind, count = values.random.random(), values.several(3, 12)
    if values.chance(0.08):
        return repeat(values, values.code().strip())
    if kind < 0.4:
        return repeat(values, " ".join(values.glued() for _ in range(count)))
    if kind < 0.55:
        return repeat(
            values, values.one((" ", ", ", " and ", "\n")).join(str(values.number()) for _ in range(count // 2))
        )
    if kind < 0.7:
        made = (values.file() if values.chance(0.5) else values.path() for _ in range(count // 2))
        return repeat(values, values.one((" ", ", ", "\n")).join(made))
    if kind < 0.8:  # the same few words, again and again
        words = [values.word() for _ in range(values.several(1, 3))]
        return repeat(values, " ".join(values.one(words) for _ in range(count // 2 + 1)))
    if kind < 0.92:
        return repeat(values, values.text(3, 14))
    made = (values.name() if values.chance(0.5) else values.city() for _ in range(count // 2))
    return repeat(values, values.one((" ", ", ")).join(made))
