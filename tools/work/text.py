"""A file's bytes as text, and back to the same bytes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

from tools.spec import ToolFailed

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]

_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_KINDS = (
    (b"\x89PNG", "a PNG picture"), (b"\xff\xd8\xff", "a JPEG picture"), (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF"), (b"PK\x03\x04", "a ZIP archive"), (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"), (b"SQLite format 3\0", "an SQLite database"), (b"GGUF", "a GGUF model"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    """A text and its file's encoding (a byte order mark belongs to the encoding, not to the text)."""

    text: str
    encoding: Encoding = "utf-8"

    def encode(self, name: str) -> bytes:
        """The bytes of the file called `name`. Raises `ToolFailed` for a character that its encoding lacks."""
        mark = b"" if self.encoding == "utf-8-sig" else next((m for m, e in _BOMS if e == self.encoding), b"")
        try:
            return mark + self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = self.text[error.start]
            raise ToolFailed(
                f"Error: {name} is written in {self.encoding}, which has no {character!r}. Use another character."
            ) from None


def decode(data: bytes) -> Text | None:
    r"""The text of a file, or None for a binary one.

    UTF-8 and UTF-16 are recognised by their byte order marks. Without one it is UTF-8; what isn't valid UTF-8 is read
    as Latin-1, which has a character for every byte: `decode(b"caf\xe9")` is `Text("café", "latin-1")`.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                return Text(data[len(mark) :].decode("utf-8" if encoding == "utf-8-sig" else encoding), encoding)
            except UnicodeDecodeError:
                return None
    if b"\0" in data or data.startswith(tuple(start for start, _ in _KINDS)):
        return None
    try:
        return Text(data.decode())
    except UnicodeDecodeError:
        return Text(data.decode("latin-1"), "latin-1")


def describe(data: bytes) -> str:
    """What a binary file is, for people: `"a PNG picture, 12.3 kB"`."""
    kind = next((kind for start, kind in _KINDS if data.startswith(start)), "a binary file")
    return f"{kind}, {len(data) / 1e3:.1f} kB"
