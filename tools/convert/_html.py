"""HTML → a document: the text of a page with its links; a note for a page without a text of its own.

It runs in a worker process with its own limits, so it imports little: lxml and the values of a document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from urllib.parse import urljoin, urlsplit

from lxml import etree
from lxml import html as lxml_html

from ossia.tools.browser.document import Document, fewer_signs, one_line, printable
from ossia.tools.convert._flow import Flow
from ossia.tools.convert._stream import Links, Piece, flatten, resolve
from ossia.tools.decoding import Text, decode_page

EMPTY = "(empty page)"
TOO_DEEP = "[The rest of this page is missing: it stands in more than 255 elements, one in the other.]"

_MAX_GROWTH = 4_000_000  # characters of text beyond 8 for each of the page: indentation of lists in lists
_DECLARATION = re.compile(r"^\s*<\?xml\b[^>]*>")
_MAX_DEPTH = 255  # libxml2 stops reading a page at 256
_SURROGATES = re.compile("[\ud800-\udfff]")
_BLANK_LINE = re.compile(r"^\s+$", re.MULTILINE)
_GAP = re.compile(r"\n(\s*\n)+")


def document_from_html(html: str | bytes, url: str, *, charset: str | None = None, refresh: str = "") -> Document:
    """The page as a document: `text` with links as `【0†About】`, the title, the links' URLs.

    `charset` is the server's word ("iso-8859-1"), `refresh` its header of that name. A page with nothing to read has
    the text "(empty page)"; one that only forwards, shows frames or is made by scripts says so in its last line.
    Control characters are dropped. Raises `TooLong`.

        document_from_html("<title>T</title><p>See <a href=/x>this</a>", "http://a.test/")
        Document("T", "http://a.test/", "See 【0†this】", {0: "http://a.test/x"})
    """
    read = decode_page(html, charset) if isinstance(html, bytes) else Text(_SURROGATES.sub("\ufffd", html))
    html = fewer_signs(_DECLARATION.sub("", read.shown.removeprefix("\ufeff"), count=1))
    try:
        root = lxml_html.fromstring(html)
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
    """The base of relative links: the page's <base href>, if it has one."""
    base = root.find(".//base[@href]")
    if base is None:
        return url
    try:
        return urljoin(url, str(base.get("href")).strip())
    except ValueError:
        return url


# -- pages without a text of their own: they forward, show others in frames, or are made by scripts --------------------

SHORT = 300  # characters of text, as "You are being redirected. Click here …" has them
_WAITING = 100
_MAX_SCRIPT = 2_000  # characters of all scripts: in longer ones, an address isn't all that they do
_MAX_TARGETS = 20

_HIDDEN = frozenset({"head", "title", "script", "style", "noscript", "noframes", "template"})
_FRAMES = {"frame": "src", "iframe": "src", "embed": "src", "object": "data"}
_REFRESH = re.compile(
    r"""\s*[\d.]+(?:\s*[;,]\s*|\s+)(?:url\s*=\s*)?(?:"(?P<double>[^"]*)|'(?P<single>[^']*)|(?P<bare>.+))""",
    re.IGNORECASE | re.DOTALL,
)
_COMMENTS = re.compile(r"/\*.*?\*/|(?<!\S)//[^\n]*", re.DOTALL)
_GOES_TO = re.compile(
    r"""(?<![\w.$])(?<!var\s)(?<!let\s)(?<!const\s)(?:(?:window|document|self|top|parent|globalThis)\s*\.\s*)*location\s*"""
    r"""(?:(?:\.\s*href|\[\s*["']href["']\s*\])\s*)?(?:=|\.\s*(?:replace|assign)\s*\()\s*"""
    r"""(?P<quote>["'`])(?P<target>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)\s*?(?=[;,)}"'\n]|\Z)"""
)
_NUMBERED = re.compile(r"\\x([0-9a-fA-F]{2})")
_ESCAPED = re.compile(r"\\([^u])")
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LOADING = re.compile(
    r"\W*(?:(?:now |page |app |still )?loading|please wait|initiali[sz]ing|redirecting|laden|wird geladen|chargement"
    r"|cargando|carregando|caricamento|загрузка|加载中|読み込み中)",
    re.IGNORECASE,
)
_CHECK = re.compile(
    r"just a moment|attention required|checking (?:your|the) browser|ddos[- ]guard|one moment, please"
    r"|(?:you are|you're|you’re) (?:a )?human|(?:are you|you're not|you’re not|not) a (?:ro)?bot"
    r"|(?:robot|security|human) (?:check|verification|challenge)|pardon our interruption|client challenge",
    re.IGNORECASE,
)


def note_of(root: etree._Element, pieces: list[Piece], links: Links, refresh: str = "") -> str:
    """One line about a page without a text of its own; "" for any other.

    `"This page only forwards, to 【0†http://a.test/new】"`; the link gets its id from `links`.
    """
    tree, seen = root.getroottree(), _seen(pieces)
    if len(seen) > SHORT:
        return ""
    if found := _named(_refreshes(tree, refresh), links):
        return f"This page only forwards, to {found}"
    frames = _named(_frames(tree), links)
    if frames and (not seen or tree.find(".//frameset") is not None):
        return f"This page only shows others, in frames: {frames}"
    scripts = [script for script in tree.iter("script") if "json" not in (script.get("type") or "").lower()]
    if found := _named(_script_targets(tree, scripts), links):
        return f"This page only forwards, by a script, to {found}"
    if scripts and _CHECK.search(f"{tree.findtext('.//title') or ''}\n{seen}"):
        return "This page seems to be a check against programs, not the page that was asked for"
    if scripts and _is_shell(tree, seen):
        return "This page is made by scripts, which don't run here; its source (`view_source`) may hold its data"
    return ""


def _named(addresses: Iterable[str], links: Links) -> str:
    """`【0†http://a.test/x】, 【1†…】`: the first addresses of the web, each once."""
    return ", ".join(dict.fromkeys(filter(None, map(links.named, islice(addresses, _MAX_TARGETS)))))


def _seen(pieces: list[Piece]) -> str:
    """The text shown before scripts run ("image" for an image); of a longer one its beginning."""
    hidden = length = 0
    words: list[str] = []
    for kind, value, _ in pieces:
        if kind == "text" or (kind, value) == ("open", "img"):
            if not hidden and (word := " ".join(value.split()) if kind == "text" else "image"):
                words.append(word)
                length += len(word) + 1
                if length > SHORT + 1:
                    break
        elif kind == "open" and value == "body":
            hidden = 0  # of a page that never closed its head
        elif kind != "comment" and value in _HIDDEN:
            hidden += 1 if kind == "open" else -1
    return " ".join(words)


def _refreshes(tree: etree._ElementTree, header: str) -> Iterator[str]:
    metas = (meta for meta in tree.iter("meta") if (meta.get("http-equiv") or "").strip().lower() == "refresh")
    for content in (header, *(meta.get("content") or "" for meta in metas)):
        if (found := _REFRESH.match(content[:4_000])) is not None:
            yield found["double"] or found["single"] or found["bare"] or ""
            return  # a browser follows the first


def _frames(tree: etree._ElementTree) -> Iterator[str]:
    for frame in tree.iter(*_FRAMES):
        sizes = {(frame.get(name) or "").strip().removesuffix("px") for name in ("width", "height")}
        if not sizes & {"0", "1"} and not _INVISIBLE.search((frame.get("style") or "")[:1_000]):
            yield frame.get(_FRAMES[frame.tag]) or ""


def _script_targets(tree: etree._ElementTree, scripts: list[etree._Element]) -> Iterator[str]:
    if any(True for _ in tree.iter("input", "button", "textarea", "select")):
        return
    onload = (element.get("onload", "") for element in tree.findall(".//*[@onload]"))
    written = [*(script.text or "" for script in scripts), *onload]
    if sum(map(len, written)) <= _MAX_SCRIPT:
        for found in _GOES_TO.finditer(_COMMENTS.sub("", "\n".join(written))):
            if not (found["quote"] == "`" and "${" in found["target"]):
                yield _unescaped(found["target"])


def _unescaped(text: str) -> str:
    r"""A string of a script: `"\/a\x26b\u0026"` is `"/a&b&"`."""
    text = _ESCAPED.sub(r"\1", _NUMBERED.sub(r"\\u00\1", text)).replace('"', "%22")
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return ""


def _is_shell(tree: etree._ElementTree, seen: str) -> bool:
    if not seen:
        return True
    if len(seen) > _WAITING:
        return False
    asks = ("".join(map(str, noscript.itertext())) for noscript in tree.iter("noscript"))
    return _LOADING.match(seen) is not None or any("javascript" in text.lower() for text in asks)
