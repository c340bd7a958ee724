"""HTML → a document: the text of a page with its links, in time linear in the page.

It runs in a worker process with its own limits, so it imports little: lxml and the values of a document.
"""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

from lxml import etree
from lxml import html as lxml_html

from ossia.tools.browser.document import Document, fewer_signs, one_line, printable
from ossia.tools.convert._flow import Flow
from ossia.tools.convert._shells import note_of
from ossia.tools.convert._stream import Links, Piece, flatten, resolve
from ossia.tools.decoding import Text, decode_page

EMPTY = "(empty page)"
TOO_DEEP = "[The rest of this page is missing: it stands in more than 255 elements, one in the other.]"

_MAX_GROWTH = 4_000_000  # characters of text beyond 8 for each of the page: indentation of lists in lists
_DECLARATION = re.compile(r"^\s*<\?xml\b[^>]*>")
# A start tag as HTML reads it. Possessive throughout, and a match takes the whole tag: linear whatever the page holds.
_TAG = re.compile(
    r"""<[a-zA-Z][^\s/>]*+((?:[\s/]++[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>]*+))?+)*+)"""
)
_ATTRIBUTE = re.compile(r"""[\s/]++[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>]*+))?+""")
_LONG_TAG = 8_000  # characters of attributes
_MAX_ATTRIBUTES = 1_000
_MAX_DEPTH = 255  # libxml2 stops reading a page at 256
_SURROGATES = re.compile("[\ud800-\udfff]")
_BLANK_LINE = re.compile(r"^\s+$", re.MULTILINE)
_GAP = re.compile(r"\n(\s*\n)+")


def document_from_html(html: str | bytes, url: str, *, charset: str | None = None, refresh: str = "") -> Document:
    """The page as a document: `text` with links as `【0†About】`, the title, the links' URLs.

    `url` is where the page was found. `charset` is what the server said ("iso-8859-1"); without it, and for bytes only,
    the page's own declaration counts, then UTF-8, then windows-1252. A page with nothing to read has the text "(empty
    page)"; one that only forwards, shows frames or is made by scripts says so in its last line. `refresh` is the header
    of that name, which forwards, too. Control characters are dropped. Raises `TooLong`.

        document_from_html("<title>T</title><p>See <a href=/x>this</a>", "http://a.test/")
        Document("T", "http://a.test/", "See 【0†this】", {0: "http://a.test/x"})
    """
    read = decode_page(html, charset) if isinstance(html, bytes) else Text(_SURROGATES.sub("\ufffd", html))
    html = fewer_signs(_DECLARATION.sub("", read.shown.removeprefix("\ufeff"), count=1))
    try:
        root = lxml_html.fromstring(_TAG.sub(_fewer_attributes, html))
    except etree.ParserError:  # nothing but blanks and comments
        root = lxml_html.fromstring("<html></html>")
    links = Links(url, _base(root, url))
    pieces, depth = flatten(root)
    text = _text(resolve(pieces, links), max_chars=8 * len(html) + _MAX_GROWTH)
    if note := note_of(root, pieces, links, refresh):
        text = f"{text}\n\n[{note}]".lstrip()
    if depth + sum(1 for _ in root.iterancestors()) >= _MAX_DEPTH:
        text = f"{text}\n\n{TOO_DEEP}".lstrip()
    if read.remark:
        text = f"{text}\n\n[{read.remark}]".lstrip()
    return Document(_title(root, url), url, text or EMPTY, links.urls, guessed=read.guess)


def _fewer_attributes(tag: re.Match[str]) -> str:
    # libxml2 searches all attributes of a tag for each one that it adds: 200,000 of them took it minutes.
    if len(tag[1]) < _LONG_TAG:
        return tag[0]
    end = 0
    for number, attribute in enumerate(_ATTRIBUTE.finditer(tag[1])):
        if number == _MAX_ATTRIBUTES:
            return tag[0][: tag.start(1) - tag.start() + end]
        end = attribute.end()
    return tag[0]


def _text(pieces: list[Piece], *, max_chars: int) -> str:
    flow = Flow(max_chars=max_chars)
    for kind, value, attributes in pieces:
        if kind == "text":
            flow.text(value)
        elif kind == "open":
            flow.open(value, attributes)
        elif kind == "close":
            flow.close(value)
    return printable(_GAP.sub("\n\n", _BLANK_LINE.sub("", flow.finish().strip())))


def _title(root: etree._Element, url: str) -> str:
    title = root.find(".//title")
    return one_line(title.text or "") if title is not None else _host(url)


def _host(url: str) -> str:
    try:
        return one_line(urlsplit(url).netloc)
    except ValueError:
        return ""


def _base(root: etree._Element, url: str) -> str:
    """What relative links are joined to: the page's own <base href>, if it has one."""
    base = root.find(".//base[@href]")
    if base is None:
        return url
    try:
        return urljoin(url, str(base.get("href")).strip())
    except ValueError:
        return url
