"""Bytes of tokens → text, when a token may end in the middle of a character."""

from __future__ import annotations

REPLACEMENT = "\ufffd"


class ReferenceUtf8:
    """Decodes as the reference's streaming parser does, which holds back more than it must.

    At an invalid sequence it gives the text before that and one U+FFFD, and holds the rest back until the next token (a
    plain incremental decoder gives it at once). The texts of all `feed` calls and of `flush`, joined, are the same as
    `b"".join(pieces).decode("utf-8", "replace")`.

        utf8 = ReferenceUtf8()
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
                text += REPLACEMENT
            return text
        self._held = b""
        return text

    def flush(self) -> str:
        """The bytes held back, at the end of a message: each broken sequence is one U+FFFD."""
        held, self._held = self._held, b""
        return held.decode("utf-8", "replace")
