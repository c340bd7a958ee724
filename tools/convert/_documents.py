"""Bytes to text by kind: what the worker does with each document. Pure: no files, no network."""

from __future__ import annotations

import codecs
import json
import re
import time
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from tools.browser._text import one_line, plain
from tools.browser.document import Document
from tools.convert._flow import TooLong

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

SourceKind = Literal["html", "pdf", "text"]

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
         (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_CHARACTER_SETS = re.compile("utf-(8|16|32)|ascii|iso|cp|koi8|mac|gb|big5|hz|euc|shift|johab|tis|ptcp|kz")
_SNIFFED_BYTES = 2048
_PDF_TIME_SHARE = 0.7
"""The part of the time limit for a PDF's pages: those done by then are better than nothing."""
_PASSWORD_NEEDED = 4
"""FPDF_ERR_PASSWORD of pdfium's fpdfview.h."""
_NOTE_BYTES = 200
"""The most that a note about a cut takes."""

_MANY_LINKS = "page too complex: its links take too much room"
_MUCH_MEMORY = "page too complex: it takes more memory than a page may"
_LONG_TEXT = "page too complex: its text is many times longer than the page"
_NO_SOURCE = "a PDF has no source that could be read"
_ENCRYPTED = "the PDF is encrypted: it opens with a password only"
_DAMAGED = "the PDF is damaged"
_PICTURES = "the PDF holds no text: its pages are pictures"
REASONS = frozenset({_MANY_LINKS, _MUCH_MEMORY, _LONG_TEXT, _NO_SOURCE, _ENCRYPTED, _DAMAGED, _PICTURES})
"""All that a worker may say about a failure. An error counts as free of outside text, so it can't choose words."""


def kind_of(media_type: str, body: bytes) -> SourceKind:
    """How to read a body. A PDF is recognised by its first bytes, XHTML sent as XML by its first tag."""
    if body[:1024].lstrip().startswith(b"%PDF-") or media_type == "application/pdf":
        return "pdf"
    if media_type in ("text/html", "application/xhtml+xml"):
        return "html"
    xml = media_type in ("text/xml", "application/xml") or media_type.endswith("+xml")
    return "html" if xml and b"<html" in body[:_SNIFFED_BYTES].lower() else "text"


def convert(body: bytes, meta: dict[str, Any], limits: dict[str, Any]) -> tuple[bytes, bytes]:
    """The answer to a request: JSON (`title` and `links`, or `failed`: a reason) and the text as UTF-8.

    `limits` as `ConvertLimits`; both parts together have at most `max_result_bytes`.
    """
    try:
        document = _convert(body, meta["kind"], meta["url"], meta["charset"], meta["source"], limits)
        links = {str(number): url for number, url in document.links.items()}
        head = json.dumps({"title": document.title, "links": links}, ensure_ascii=False).encode("utf-8", "replace")
        room = limits["max_result_bytes"] - len(head) - _NOTE_BYTES
        if room < min(len(document.text), limits["max_result_bytes"] // 8):
            return _failed(_MANY_LINKS)
        return head, bounded(document.text, room)
    except (MemoryError, RecursionError):
        return _failed(_MUCH_MEMORY)
    except TooLong:
        return _failed(_LONG_TEXT)
    except Unreadable as error:
        return _failed(str(error))


def _failed(reason: str) -> tuple[bytes, bytes]:
    return json.dumps({"failed": reason}).encode(), b""


def bounded(text: str, max_bytes: int) -> bytes:
    """The text as UTF-8. If it is longer than that, it is cut at a line, and a last line says so."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data
    kept = data[:max_bytes].decode("utf-8", "ignore")
    kept = kept[: kept.rfind("\n") + 1] or kept + "\n"
    return f"{kept}[cut here: {len(text) - len(kept)} more characters are left out]".encode("utf-8", "replace")


def _convert(
    body: bytes, kind: SourceKind, url: str, charset: str | None, source: bool, limits: dict[str, Any]
) -> Document:
    from tools.convert._html import decode, document_from_html

    if kind == "pdf":
        if source:
            raise Unreadable(_NO_SOURCE)
        return _from_pdf(body, url, limits)
    if kind == "html":
        if not source:
            return document_from_html(body, url, charset=charset)
        return Document(_name(url), url, plain(decode(body, charset)))
    return from_text(body, url, charset)


class Unreadable(Exception):
    """No text can be extracted from this document; the message is one of `REASONS`."""


# -- text --------------------------------------------------------------------------------------------------------------


def from_text(body: bytes, url: str, charset: str | None) -> Document:
    """Text as it is, except for what a page can't hold. Its title is the file's name."""
    from tools.convert._html import EMPTY

    text = plain(decoded(body, charset).replace("\r\n", "\n").replace("\r", "\n"))
    return Document(_name(url), url, text if text.strip() else EMPTY)


def _name(url: str) -> str:
    parts = urlsplit(url)
    return one_line(unquote(parts.path).rstrip("/").rpartition("/")[2]) or parts.hostname or ""


def decoded(body: bytes, charset: str | None) -> str:
    """Bytes as text: by a byte order mark, as `charset` says, as UTF-8, else as Windows' Western encoding."""
    for mark, marked in _BOMS:
        if body.startswith(mark):
            return body.decode(marked, "replace")
    for encoding in (_known(charset), "utf-8"):
        try:
            return body.decode(encoding)
        except UnicodeDecodeError:
            continue
    # A few broken bytes, or a file cut in the middle of one, are still UTF-8
    text = body.decode("utf-8", "replace")
    return text if text.count("\ufffd") * 20 < len(text) else body.decode("cp1252", "replace")


def _known(charset: str | None) -> str:
    """Python's codecs are more than character sets: zip, punycode (quadratic), unicode_escape. UTF-8 for those."""
    try:
        name = codecs.lookup(charset or "utf-8").name
    except (LookupError, ValueError):
        return "utf-8"
    return name if _CHARACTER_SETS.match(name) else "utf-8"


# -- PDF ---------------------------------------------------------------------------------------------------------------


def _from_pdf(body: bytes, url: str, limits: dict[str, Any]) -> Document:
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(body) as pdf:
            title = one_line(pdf.get_metadata_value("Title") or "") or _name(url)
            return Document(title, url, _pages(pdf, limits))
    except pypdfium2.PdfiumError as error:
        password = getattr(error, "err_code", None) == _PASSWORD_NEEDED
        raise Unreadable(_ENCRYPTED if password else _DAMAGED) from None


def _pages(pdf: PdfDocument, limits: dict[str, Any]) -> str:
    started, count = time.monotonic(), len(pdf)
    room = limits["max_result_bytes"] - _NOTE_BYTES
    parts: list[str] = []
    for number in range(count):
        slow = time.monotonic() - started > limits["timeout_s"] * _PDF_TIME_SHARE
        if slow or room < 0 or number >= limits["max_pages"]:
            why = "they take too long" if slow else "it is too long"
            parts.append(f"[cut here: pages {number + 1} to {count} are left out, {why}]")
            break
        text = _page_text(pdf, number)
        room -= len(text.encode("utf-8", "replace"))
        parts.append(f"Page {number + 1}\n\n{text}\n")
    if not any(part.partition("\n")[2].strip() for part in parts):
        raise Unreadable(_PICTURES)
    return "\n".join(parts)


def _page_text(pdf: PdfDocument, number: int) -> str:
    import pypdfium2

    try:
        page = pdf[number]
        shown = page.get_textpage()
        text = shown.get_text_range() if shown.count_chars() else ""
    except pypdfium2.PdfiumError:
        return "[this page is damaged]"
    shown.close()
    page.close()
    # U+FFFE and U+0002 are pdfium's marks for a hyphen at the end of a line: the word goes on
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for mark in ("\ufffe\n", "\x02\n", "\ufffe", "\x02"):
        text = text.replace(mark, "")
    return plain(text).strip()
