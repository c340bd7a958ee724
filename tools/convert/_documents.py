"""Bytes to text by kind, in the worker. Pure: no files, no network."""

from __future__ import annotations

import json
import time
from html import escape
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from ossia.tools.browser.document import Document, one_line, plain
from ossia.tools.convert._flow import TooLong
from ossia.tools.decoding import decode_page, universal

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

SourceKind = Literal["html", "pdf", "text"]

_SNIFFED_BYTES = 2048
_PDF_TIME_SHARE = 0.7
"""The part of the time limit for a PDF's pages; the later ones are left out."""
_PASSWORD_NEEDED = 4
"""FPDF_ERR_PASSWORD of pdfium's fpdfview.h."""
_PDF_END, CUT_PDF = b"%%EOF", "[the end of this PDF's file is missing: pages may be, too]"
_NOTE_BYTES = 200
"""The most bytes of a note about a cut."""

_MANY_LINKS = "page too complex: its links take too much room"
_MUCH_MEMORY = "page too complex: it takes more memory than a page may"
_LONG_TEXT = "page too complex: its text is many times longer than the page"
_NO_SOURCE = "a PDF has no source that could be read"
_ENCRYPTED = "the PDF is encrypted: it opens with a password only"
_DAMAGED = "the PDF is damaged"
_PICTURES = "the PDF holds no text: its pages are pictures"
REASONS = frozenset({_MANY_LINKS, _MUCH_MEMORY, _LONG_TEXT, _NO_SOURCE, _ENCRYPTED, _DAMAGED, _PICTURES})
"""All reasons of a worker. An error counts as free of outside text, so a worker can't choose its words."""


def kind_of(media_type: str, body: bytes) -> SourceKind:
    """The way to read a body. A PDF is recognised by its first bytes, XHTML sent as XML by its first tag."""
    if body[:1024].lstrip().startswith(b"%PDF-") or media_type == "application/pdf":
        return "pdf"
    if media_type in ("text/html", "application/xhtml+xml"):
        return "html"
    xml = media_type in ("text/xml", "application/xml") or media_type.endswith("+xml")
    return "html" if xml and b"<html" in body[:_SNIFFED_BYTES].lower() else "text"


def convert(body: bytes, meta: dict[str, Any], limits: dict[str, Any]) -> tuple[bytes, bytes]:
    """The answer to a request: JSON (`title`, `links`, `guessed`, or `failed`: a reason) and the text as UTF-8.

    Both parts together have at most `max_result_bytes`; `limits` are those of `ConvertLimits`.
    """
    try:
        document = _convert(body, meta, limits)
        links = {str(number): url for number, url in document.links.items()}
        said = {"title": document.title, "links": links, "guessed": document.guessed}
        head = json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")
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
    """The text as UTF-8. A longer one is cut at a line, and a last line says so."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data
    kept = data[:max_bytes].decode("utf-8", "ignore")
    kept = kept[: kept.rfind("\n") + 1] or kept + "\n"
    return f"{kept}[cut here: {len(text) - len(kept)} more characters are left out]".encode("utf-8", "replace")


def _convert(body: bytes, meta: dict[str, Any], limits: dict[str, Any]) -> Document:
    from ossia.tools.convert._html import SHORT, document_from_html

    kind, url, charset, source, refresh = (meta[name] for name in ("kind", "url", "charset", "source", "refresh"))
    if kind == "pdf":
        if source:
            raise Unreadable(_NO_SOURCE)
        return _from_pdf(body, url, limits)
    if kind == "html" and not source:
        return document_from_html(body, url, charset=charset, refresh=refresh)
    text = from_text(body, url, charset)
    if refresh and not source and len(text.text) <= SHORT:
        html = f"<title>{escape(text.title)}</title><pre>{escape(text.text)}</pre>"
        return document_from_html(html, url, refresh=refresh)
    return text


class Unreadable(Exception):
    """No text can be extracted from this document; the message is one of `REASONS`."""


# -- text --------------------------------------------------------------------------------------------------------------


def from_text(body: bytes, url: str, charset: str | None) -> Document:
    """The page of a plain text, titled by its file's name."""
    from ossia.tools.convert._html import EMPTY

    read = decode_page(body, charset)
    text = plain(universal(read.shown))
    if read.remark:
        text = f"{text}\n[{read.remark}]"
    return Document(_name(url), url, text if text.strip() else EMPTY, guessed=read.guess)


def _name(url: str) -> str:
    parts = urlsplit(url)
    return one_line(unquote(parts.path).rstrip("/").rpartition("/")[2]) or parts.hostname or ""


# -- PDF ---------------------------------------------------------------------------------------------------------------


def _from_pdf(body: bytes, url: str, limits: dict[str, Any]) -> Document:
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(body) as pdf:
            title = one_line(pdf.get_metadata_value("Title") or "") or _name(url)
            cut = "" if _PDF_END in body[-2048:] else f"\n\n{CUT_PDF}"
            return Document(title, url, _pages(pdf, limits) + cut)
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
