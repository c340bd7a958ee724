"""The bytes of a file → a document: its kind, its text, its title."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from ossia.tools.browser.document import Document, one_line, plain
from ossia.tools.decoding import decode, universal, wide
from ossia.tools.library.walk import SECRET
from ossia.tools.spec import Stop

if TYPE_CHECKING:
    from ossia.tools.convert.converter import Converter

MAKER: Final = 3
"""The version of documents. A higher number makes the next indexing redo everything."""

MAX_TEXT_BYTES: Final = 4_000_000
MAX_HTML_BYTES: Final = 3_000_000  # this and the next one are the worker's limits
MAX_PDF_BYTES: Final = 20_000_000
_HEAD_BYTES: Final = 8_192
_TITLE_CHARS: Final = 200
_TITLE_LINES: Final = 200

DocumentKind = Literal["text", "markdown", "html", "pdf", "notebook"]
_LIMITS: Final = {"html": MAX_HTML_BYTES, "pdf": MAX_PDF_BYTES}
_KINDS: Final[dict[str, DocumentKind]] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd", ".rst"), "markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".pdf": "pdf",
    ".ipynb": "notebook",
}
_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY")
_LOOKS_HTML: Final = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html[\s>])", re.I | re.S)
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class NotADocument(Exception):
    """The file is skipped; the message says why: `NotADocument("binary")`."""


def kind_of(name: str, data: bytes) -> DocumentKind:
    """The kind of a file, by its name and its bytes. Raises `NotADocument`."""
    kind = _KINDS.get(PurePath(name).suffix.lower(), "text")
    if data.startswith(b"%PDF-"):
        kind = "pdf"
    elif kind == "text" and not PurePath(name).suffix and _LOOKS_HTML.match(data[:_HEAD_BYTES]):
        kind = "html"
    limit = _LIMITS.get(kind, MAX_TEXT_BYTES)
    if len(data) > limit:
        raise NotADocument(f"larger than {limit // 1_000_000} MB")
    if kind == "pdf":
        if not data.startswith(b"%PDF-"):
            raise NotADocument("not a PDF, despite its name")
        return kind
    head = data[:_HEAD_BYTES]
    if _KEY.search(head):
        raise NotADocument(SECRET)
    if not wide(head) and (b"\x00" in head or len(_CONTROLS.findall(head)) > 2 + len(head) // 100):
        raise NotADocument("binary")
    return kind


def document(name: str, data: bytes, *, url: str, converter: Converter, stop: Stop) -> Document:
    """The page of a file. `name`, its path below the root, is its title if it has no other.

    Only HTML and PDF need `converter`. Raises `NotADocument` and `ConversionFailed`.
    """
    kind = kind_of(name, data)
    if not data.strip():
        raise NotADocument("empty")
    if kind in ("html", "pdf"):
        media_type = "text/html" if kind == "html" else "application/pdf"
        made = converter.convert(data, media_type, url=url, charset=None, stop=stop)
        untitled = made.title in (url, urlsplit(url).hostname) or made.title.lower() == "untitled"
        title = "" if untitled else made.title
        return Document(_title(title, name), url, made.text, made.links, guessed=made.guessed)
    read = decode(data)
    if read is None:
        raise NotADocument("binary")
    text = universal(read.shown)
    text = plain(_notebook(text) if kind == "notebook" else text)
    heading = _heading(text) if kind in ("markdown", "notebook") else ""
    text = f"{text}\n[{read.remark}]" if read.remark else text
    return Document(_title(heading, name), url, text, guessed=read.guess)


def _title(title: str, name: str) -> str:
    return one_line(title)[:_TITLE_CHARS].strip() or one_line(name)[-_TITLE_CHARS:]


# -- titles of Markdown and of reStructuredText ------------------------------------------------------------------------

_FRONT: Final = re.compile(r"\s*(---|\+\+\+)[ \t]*\n(.*?\n)\1[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE: Final = re.compile(r"^title\s*[:=]\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE)
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}\s+(.+?)\s*#*\s*$")
_UNDERLINE: Final = re.compile(r"([=~-])\1{2,}\s*$")


def _heading(text: str) -> str:
    """The title of the front matter, or the first heading; "" without one."""
    front = _FRONT.match(text[:20_000])
    if front:
        named = _FRONT_TITLE.search(front[2])
        if named:
            return named[1].strip("\"'")
        text = text[front.end() :]
    fenced, before = False, ""
    for line in text.split("\n", _TITLE_LINES)[:_TITLE_LINES]:
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        if found:
            return re.sub(r"[*_`]", "", found[1])
        if not fenced and before.strip() and _UNDERLINE.match(line) and not _UNDERLINE.match(before):
            return before
        before = line
    return ""


def _notebook(text: str) -> str:
    """The Markdown and the code of a Jupyter notebook, without its outputs (they hold whole pictures)."""
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NotADocument("not a notebook, despite its name") from None
    return "\n\n".join(sources)
