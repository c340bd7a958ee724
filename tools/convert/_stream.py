"""A tree of lxml → a flat stream of tags and texts, with links, images and indices as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, urldefrag, urljoin, urlsplit

from lxml import etree

from ossia.tools.browser.document import one_line, without_brackets

_INDEX = re.compile(r"[\w\-]+")
_INDEX_SIGNS = {"sup": "^", "sub": "_"}
_KEPT = {"a": ("href",), "img": ("alt", "title"), "abbr": ("title",), "ol": ("start",), "ul": ("start",)}
_NOTHING: Mapping[str, str] = {}
_TAGS_IN_A_COMMENT = re.compile(r"(?:<[^>]*>)+(?=\w)")
_BLANKS = re.compile(r"\s+")
_MAX_NAMED = 200  # characters of an address


Piece = tuple[Literal["open", "close", "comment", "text"], str, Mapping[str, str]]
"""A start tag, an end tag, a comment, or a text: its kind, the tag's name or the text itself, the tag's attributes.

Bare tuples: a page may have a million of them.
"""


@dataclass(slots=True)
class _Anchor:
    """An `<a href>`, the place of its end tag in the stream, and the marks around its text."""

    href: str
    end: int = -1
    has_text: bool = False
    around: tuple[str, str] | None = None


class Links:
    """The links of a page at `url`, relative ones joined to `base`: `urls` by id, in order, one id for each URL."""

    def __init__(self, url: str, base: str) -> None:
        self.urls: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._page = url.partition("#")[0]
        self._host = _split(url).netloc
        self._base = base

    def around(self, href: str) -> tuple[str, str] | None:
        """The marks around the text of a link: `("【0†", "】")`, `("【3†", "†en.wikipedia.org】")`.

        `("", "")` for a fragment; None for an address that isn't of the web.
        """
        if href.startswith("#"):
            return "", ""
        address, host = self._join(href.strip())
        if address is None:
            return None
        number = self._ids.setdefault(address, len(self._ids))
        self.urls[number] = address
        if host == self._host:
            return f"【{number}†", "】"
        return f"【{number}†", f"†{without_brackets(host).replace('†', '‡')}】"

    def named(self, href: str) -> str:
        """A link with its address as text: `"【0†http://a.test/x】"`; "" for this page, or one not of the web."""
        address, _ = self._join(href.strip())
        if address is None or urldefrag(address)[0] == self._page:
            return ""
        around = self.around(address)
        assert around is not None
        return one_line(without_brackets(address)[:_MAX_NAMED]).replace("†", "‡").join(around)

    def _join(self, href: str) -> tuple[str | None, str]:
        """The URL (None outside the web) and its host."""
        try:
            address = urljoin(self._base, href)
            parts = urlsplit(address)
        except ValueError:  # http://[
            return None, ""
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return None, ""
        if "arxiv.org" in parts.netloc:  # ar5iv has the same papers as HTML; the page shows the name it had
            address = parts._replace(netloc=parts.netloc.replace("arxiv.org", "ar5iv.org")).geturl()
        return address, parts.netloc


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def flatten(root: etree._Element) -> tuple[list[Piece], int]:
    """The tree in document order, and its depth in elements. Brackets from entities can't forge a link."""
    pieces: list[Piece] = []
    depth = 0
    around: list[etree._Element] = []
    # Not `iterwalk`: it is quadratic in comments that stand side by side (lxml 6.1: 160,000 of them took it 3 s).
    for node in root.iter():
        parent = node.getparent()
        while around and around[-1] is not parent:
            _close(pieces, around.pop())
        tag = node.tag
        if isinstance(tag, str):
            kept = _KEPT.get(tag)
            attributes: Mapping[str, str] = _NOTHING
            if kept is not None:
                attributes = {name: without_brackets(value) for name in kept if (value := node.get(name)) is not None}
            pieces.append(("open", tag, attributes))
            _text(pieces, node.text)
            depth = max(depth, len(around))
            around.append(node)
        else:
            pieces.append(("comment", node.text or "", _NOTHING))
            _text(pieces, node.tail)
    while around:
        _close(pieces, around.pop())
    return pieces, depth


def _close(pieces: list[Piece], node: etree._Element) -> None:
    pieces.append(("close", node.tag, _NOTHING))
    _text(pieces, node.tail)


def _text(pieces: list[Piece], text: str | None) -> None:
    if text:
        pieces.append(("text", without_brackets(text), _NOTHING))


def resolve(pieces: list[Piece], links: Links) -> list[Piece]:
    """The stream with links and images as text, without formulas, with adjacent texts joined.

    Links get their ids here, also one inside another link's text, which isn't shown. The tree's root stays.
    """
    anchors = _anchors(pieces)
    for anchor in anchors.values():
        anchor.around = links.around(anchor.href) if anchor.has_text else None
    result = _Joined()
    images = formulas = place = 0
    while place < len(pieces):
        kind, value, attributes = piece = pieces[place]
        if kind == "text":
            if not formulas:
                result.text(value)
        elif value == "img" and place:
            if kind == "open":
                if not formulas:
                    result.text(_image(images, attributes))
                images += 1
        elif value == "math" and (place if kind == "open" else formulas):
            formulas += 1 if kind == "open" else -1
        elif value == "a" and (link := anchors.get(place)) is not None and link.around is not None:
            if not formulas:
                result.text(_words(pieces[place : link.end]).join(link.around))
            place = link.end
        elif not formulas:
            result.tag(piece)
        place += 1
    return result.pieces()


def _image(number: int, attributes: Mapping[str, str]) -> str:
    name = attributes.get("alt", attributes.get("title"))
    return f"[Image {number}: {name}]" if name else f"[Image {number}]"


def _words(pieces: list[Piece]) -> str:
    text = " ".join([value for kind, value, _ in pieces if kind == "text"])
    return _BLANKS.sub(" ", text).replace("†", "‡")


def _anchors(pieces: list[Piece]) -> dict[int, _Anchor]:
    """The `<a href>` of the stream by the places of their start tags, in their order."""
    anchors: dict[int, _Anchor] = {}
    open_now: list[_Anchor | None] = []
    for place, (kind, value, attributes) in enumerate(pieces):
        if kind == "text":
            for anchor in reversed(open_now):
                if anchor is not None:
                    if anchor.has_text:  # and so have all around it
                        break
                    anchor.has_text = True
        elif value == "a" and kind == "open":
            href = attributes.get("href") if place else None
            open_now.append(None if href is None else anchors.setdefault(place, _Anchor(href)))
        elif value == "a" and kind == "close":
            anchor = open_now.pop()
            if anchor is not None:
                anchor.end = place
    return anchors


class _Joined:
    """Reassembles the stream: adjacent texts become one."""

    def __init__(self) -> None:
        self._pieces: list[Piece | list[str]] = []

    def text(self, text: str) -> None:
        if self._pieces and isinstance(last := self._pieces[-1], list):
            last.append(text)
        else:
            self._pieces.append([text])

    def tag(self, piece: Piece) -> None:
        if not (piece[0] == "close" and piece[1] in _INDEX_SIGNS and self._index(piece[1])):
            self._pieces.append(piece)

    def pieces(self) -> list[Piece]:
        """The stream, with a blank between words of two cells and the like."""
        ends_in_word: list[str] | None = None
        for piece in self._pieces:
            if isinstance(piece, list):
                if ends_in_word is not None and _is_word(piece[0][:1]):
                    ends_in_word.append(" ")
                ends_in_word = piece if _is_word(piece[-1][-1:]) else None
            elif piece[0] == "comment" and ">" in piece[1]:
                if ends_in_word is not None and _TAGS_IN_A_COMMENT.match(f"<!--{piece[1]}-->"):
                    ends_in_word.append(" ")
                ends_in_word = None
        return [("text", "".join(each), _NOTHING) if isinstance(each, list) else each for each in self._pieces]

    def _index(self, tag: str) -> bool:
        """Turn `<sup>word</sup>` into `^{word}`; False if it isn't one."""
        if len(self._pieces) < 2:
            return False
        begin, words = self._pieces[-2:]
        if begin[:2] != ("open", tag) or not isinstance(words, list):
            return False
        word = "".join(words)
        if not _INDEX.fullmatch(word):
            return False
        del self._pieces[-2:]
        self.text(f"{_INDEX_SIGNS[tag]}{{{word}}}")
        return True


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
