"""Random id streams for the parser: well-formed ones, and some with everything that can go wrong."""

from __future__ import annotations

import random
import re

from ossia.harmony.messages import Role
from ossia.harmony.tokenizer import Tokenizer

ROLES: tuple[Role, ...] = ("system", "developer", "user", "assistant", "tool")
RECIPIENTS = ("functions.f", "python", "container.exec", "functions.web-search")
_MARKERS = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")
_WORDS = (
    *("assistant", "user", "tool", "system", "developer", "functions.f", "analysis", "commentary", "final", "json"),
    *(" to=functions.f", "to=python", " to=", " json", " code", " ", "\t", "\n", "\x0b", "\u00a0", "\x1c", "\u2003"),
    *(
        "<|channel|>",
        "<|constrain|>",
        "<|message|>",
        "<",
        "<|",
        ' "',
        "\\",
        "é",
        "नि",
        "한",
        "👩‍🚀",
        "\u200b",
        "\u0301",
    ),
    *(
        "assistantassistant",
        "commentary?",
        "to=assistant",
        "Hello",
        "\x00",
        "日本",
        "final\u00a0x",
        "'",
        "e\u0301",
        "\r\n",
    ),
    *(
        " to=final",
        " to=tool_f",
        " to=functions.f>q=1",
        "functions.Send Mail",
        "browser.search",
        "lamp.dim",
        "…?",
        "Well, ",
    ),
)
_BROKEN = (
    b"\xf0",
    b"\x9f",
    b"\x98",
    b"\x80",
    b"\xe3",
    b"\x81",
    b"\xc3",
    b"\xff",
    b"\xc0",
    b"\xed",
    b"\xa0",
    b"\xf4",
    b"\x90",
)


class Streams:
    """Streams in one vocabulary, a pure function of the generator handed in."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        control = tokenizer.vocabulary.control
        self._tokenizer = tokenizer
        self._markers = [control[name] for name in _MARKERS]
        self._other_control = [i for name, i in control.items() if name not in _MARKERS]
        self._size = max(control.values()) + 1
        self._broken = [i for i, piece in enumerate(tokenizer.vocabulary.tokens) if piece in _BROKEN]

    def hostile(self, rng: random.Random) -> list[int]:
        """Ids with nothing wrong, something wrong, or nothing right: headers, broken characters, unknown ids."""
        out: list[int] = []
        for _ in range(rng.randint(1, 5)):
            kind = rng.random()
            if kind < 0.6:
                out += self._nearly_a_message(rng)
            elif kind < 0.9:
                out += self._soup(rng, rng.randint(1, 12))
            else:
                out += [rng.choice(self._markers) for _ in range(rng.randint(1, 6))]
        return out

    def _nearly_a_message(self, rng: random.Random) -> list[int]:
        start, end, message, channel, constrain, return_, call = self._markers
        out = [start] if rng.random() < 0.9 else []
        out += self._text(rng.choice(ROLES)) if rng.random() < 0.8 else self._soup(rng, 2)
        if rng.random() < 0.4:
            out += self._text(rng.choice(_WORDS))
        if rng.random() < 0.7:
            out += [channel, *self._text(rng.choice(_WORDS))]
        if rng.random() < 0.4:
            out += self._text(rng.choice((" to=functions.f", " to=python code", " to=a b", " json")))
        if rng.random() < 0.3:
            out += [constrain, *self._text(rng.choice(_WORDS))]
        if rng.random() < 0.15:
            out += self._soup(rng, 2)
        if rng.random() < 0.93:
            out.append(message)
        out += self._soup(rng, rng.randint(0, 8), markers=0.05)
        if rng.random() < 0.9:
            out.append(rng.choice((end, return_, call)))
        return out

    def _soup(self, rng: random.Random, length: int, markers: float = 0.25) -> list[int]:
        out: list[int] = []
        while len(out) < length:
            kind = rng.random()
            if kind < markers:
                out.append(rng.choice(self._markers))
            elif kind < markers + 0.3:
                out += self._text(rng.choice(_WORDS))
            elif kind < markers + 0.5:
                out.append(rng.choice(self._broken))
            elif kind < markers + 0.53:
                out.append(rng.choice(self._other_control))
            elif kind < markers + 0.55:
                out.append(rng.choice((self._size, self._size + rng.randint(0, 10_000), 2**32 - 1)))
            else:
                out.append(rng.randrange(len(self._tokenizer.vocabulary.tokens)))
        return out

    def _text(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)

    def well_formed(self, rng: random.Random, *, completion: bool) -> list[int]:
        """Whole messages, as the model was trained to write them (recipient in either place).

        `completion`: all are the assistant's, and the first lacks its `<|start|>assistant`.
        """
        out: list[int] = []
        for i in range(rng.randint(1, 4)):
            out += self._message(rng, "assistant" if completion else rng.choice(ROLES), headless=completion and i == 0)
        return out

    def _message(self, rng: random.Random, role: Role, *, headless: bool) -> list[int]:
        start, end, message, channel, constrain, return_, call = self._markers
        out = [] if headless else [start, *self._text("functions.f" if role == "tool" else role)]
        to = self._text(" to=assistant") if role == "tool" else []
        if role == "assistant" and rng.random() < 0.5:
            to = self._text(" to=" + rng.choice(RECIPIENTS))
        in_role = role == "tool" or rng.random() < 0.5
        out += to if in_role else []
        channelled = (role in ("assistant", "tool") and rng.random() < 0.9) or bool(to and not in_role)
        out += [channel, *self._text(rng.choice(("analysis", "commentary", "final")))] if channelled else []
        out += [] if in_role else to
        if to and role == "assistant":
            out += rng.choice(
                ([], [*self._text(" "), constrain, *self._text("json")], self._text(" code"), self._text(" json"))
            )
        out += [message, *self._content(rng)]
        return [
            *out,
            call if to and role == "assistant" else rng.choice((end, end, return_) if role == "assistant" else (end,)),
        ]

    def _content(self, rng: random.Random) -> list[int]:
        out: list[int] = []
        for _ in range(rng.randint(0, 10)):
            if rng.random() < 0.2:
                out.append(rng.choice(self._broken))
            elif rng.random() < 0.5:
                out += self._text(rng.choice(_WORDS))
            else:
                out.append(rng.randrange(len(self._tokenizer.vocabulary.tokens) - 2000))
        return out


def harmony_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of Harmony as one reads it: `<|channel|>final<|message|>Hi`, control tokens where they are spelled."""
    control = tokenizer.vocabulary.control
    pieces = re.split(r"(<\|[a-z]+\|>)", text)
    return [i for piece in pieces for i in ([control[piece]] if piece in control else tokenizer.encode(piece))]
