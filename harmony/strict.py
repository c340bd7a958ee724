"""The reference's parser, state by state: it accepts, rejects and remembers exactly what that one does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ossia.harmony.assembly import Assembly
from ossia.harmony.errors import ParseError
from ossia.harmony.header import Header, parse_header
from ossia.harmony.messages import ClosedBy, Delta, Role
from ossia.harmony.tokenizer import Tokenizer

State = Literal["ExpectStart", "Header", "Content"]


class StrictMachine:
    """The twin of openai_harmony's `StreamableParser(strict=True)`: `push` is its `process`, `flush` its `process_eos`.

    After an error the state is what it is in the reference, oddities included: a header that failed leaves the role of
    the prompt in force, so the next header that names a role of its own takes that name for a recipient.
    """

    def __init__(self, tokenizer: Tokenizer, role: Role | None, prefix: Sequence[int]) -> None:
        control = tokenizer.control
        self.assembly = Assembly(prefix)
        self.state: State = "ExpectStart" if role is None else "Header"
        self.last_content_delta: str | None = None
        self._bytes = tokenizer.token_bytes
        self._start, self._message = control.start, control.message
        self._ends: dict[int, ClosedBy] = {control.end: "end", control.return_: "return", control.call: "call"}
        self._next_role = role
        self._header_ids: list[int] = []
        self._first = 0
        self._utf8 = _ReferenceUtf8()
        self._lost = False

    @property
    def role(self) -> Role | None:
        """The open message's; before its content, the one that the prompt gave."""
        header = self.assembly.header
        return self._next_role if header is None else header.role

    def push(self, token: int) -> tuple[Delta, ...]:
        self.assembly.tokens.append(token)
        self.last_content_delta = None
        if self.state == "Content":
            if token in self._ends:
                return self._close(self._ends[token])
            return self._add(token)
        if self.state == "ExpectStart":
            if token != self._start:
                raise ParseError(f"Unexpected token {token} while expecting start token {self._start}")
            self.state, self._header_ids = "Header", []
            self._first = len(self.assembly.tokens) - 1
            return ()
        if token != self._message:
            self._header_ids.append(token)
            return ()
        self.state = "ExpectStart"
        header = self._read_header()
        self.state, self._next_role, self._lost = "Content", None, False
        return (self.assembly.open(header, self._first),)

    def flush(self) -> tuple[Delta, ...]:
        self.last_content_delta = None
        if self.state == "Header":
            raise ParseError("Unexpected EOS while waiting for message header to complete")
        return self._close(None) if self.state == "Content" else ()

    def begin_after_opening(self) -> None:
        self.assembly.begin_after_opening()
        self._first = 0

    def _read_header(self) -> Header:
        pieces = [self._bytes(token) for token in self._header_ids]
        known = [piece for piece in pieces if piece is not None]
        try:
            text = b"".join(known).decode()
        except UnicodeDecodeError:
            text = None
        if text is None or len(known) < len(pieces):
            raise ParseError("could not decode header")
        return parse_header(text, self._next_role)

    def _add(self, token: int) -> tuple[Delta, ...]:
        piece = self._bytes(token)
        if piece is None or self._lost:  # from an unknown id on, the rest of the message is one U+FFFD
            self._lost = True
            return ()
        text = self._utf8.feed(piece)
        if not text:
            return ()
        self.last_content_delta = text
        return (self.assembly.add(text),)

    def _close(self, closed_by: ClosedBy | None) -> tuple[Delta, ...]:
        held = self._utf8.flush()
        if self._lost:
            held = "\ufffd" + held  # the reference puts the bytes it holds back behind, though they came before
        deltas = (self.assembly.add(held),) if held else ()
        self.assembly.close(closed_by, len(self.assembly.tokens))
        self.state = "ExpectStart"
        return deltas


class _ReferenceUtf8:
    """Decodes as the reference's streaming parser does, which holds back more than it must.

    At an invalid sequence it gives the text before that and one U+FFFD, and holds the rest back until the next token (a
    plain incremental decoder gives it at once). The texts of all `feed` calls and of `flush`, joined, are the same as
    `b"".join(pieces).decode("utf-8", "replace")`.

        utf8 = _ReferenceUtf8()
        utf8.feed(b"caf\\xc3")  # "caf"
        utf8.feed(b"\\xa9")     # "é"
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> str:
        """The text that `piece` completes; "" when it ends inside a character and brings none before it."""
        data = self._held + piece if self._held else piece
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            text = data[: error.start].decode()
            if error.reason == "unexpected end of data":
                self._held = data[error.start :]
            else:
                self._held = data[error.end :]
                text += "\ufffd"
            return text
        self._held = b""
        return text

    def flush(self) -> str:
        """The bytes held back, at the end of a message: each broken sequence is one U+FFFD."""
        held, self._held = self._held, b""
        return held.decode("utf-8", "replace")
