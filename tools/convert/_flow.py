"""A flat stream of tags and texts → the text of a page, laid out as the reference browser (gpt-oss 0.0.9) does it.

The reference uses html2text with links, images, emphasis and tables switched off. This was written from its output for
test pages (`python -m tests.oracle.browser`), not from its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_ENTITIES = re.compile(r"([&<>\r])")
_BLANKS = re.compile(r"\s+")
_BACKSLASH = re.compile(r"\\(?=[\\`*_{}\[\]()#+\-.!])")
# At a line's begin "1. ", "+ " and "- " would be read as a list's. Blanks but newlines: `^\s*` would be quadratic.
# A character written as an entity ends a text; a new one begins after it.
_LIKE_A_LIST = re.compile(r"(?:^|(?<=[&<>]))([^\S\n]*\d+(?=\.\s)|[^\S\n]*(?=\+\s|-[\s-]))", re.MULTILINE)
_AFTER_STRUCK = re.compile(r"[^][(){}\s.!?]")

_HIDDEN = frozenset({"head", "style", "script"})
_BLOCKS = frozenset({"p", "div"})
_CODE = frozenset({"code", "tt", "kbd"})
_STRUCK = frozenset({"del", "s", "strike"})
_HEADINGS = {f"h{level}": level for level in range(1, 10)}
_CLOSE_BY = frozenset({"a", "code", "pre", *_HEADINGS})  # text in these needs no blank after struck text


class TooLong(Exception):
    """The text grew beyond the limit: deeply nested lists indent each of their lines."""


@dataclass(slots=True)
class _List:
    """An open list; `number` is the last item's."""

    ordered: bool
    number: int


class Flow:
    """Takes the tags and texts of a page in order; `finish` returns the text. Raises `TooLong` above `max_chars`."""

    def __init__(self, *, max_chars: int) -> None:
        self._written: list[str] = []
        self._room = max_chars
        self._line_ended = False  # the last thing written ended a line
        self._first = True  # at the beginning of the page or an item: no gap needed
        self._gap = 0  # line ends owed before the next text
        self._blank = False  # a blank owed
        self._row = ""  # written before those line ends: two blanks after a table's row
        self._quotes = 0
        self._lists: list[_List] = []
        self._after_list = False  # the last tag was a list's
        self._indent = 0  # the open item's indentation, for preformatted text in it
        self._hidden = 0
        self._code = False
        self._pre = False
        self._pre_begins = False
        self._tag = ""
        self._struck_begins = False
        self._after_struck = False
        self._last_text = ""
        self._short: list[str] | None = None  # the text of the <abbr> that is open
        self._meaning: str | None = None
        self._meanings: dict[str, str] = {}
        self._opened: dict[str, Callable[[Mapping[str, str]], None]] = {
            "br": lambda _: self._put("  \n> " if self._quotes else "  \n"),
            "hr": self._rule,
            "body": self._body,
            "blockquote": self._quote,
            "abbr": self._abbreviation,
            "li": self._item,
            "pre": self._preformatted,
            "ol": self._list,
            "ul": self._list,
            "dl": lambda _: self._space(2),
            "dd": lambda _: self._put("    "),
        }
        self._closed: dict[str, Callable[[], None]] = {
            "blockquote": self._quote_ends,
            "abbr": self._abbreviation_ends,
            "li": self._item_ends,
            "pre": self._preformatted_ends,
            "ol": self._list_ends,
            "ul": self._list_ends,
            "dt": lambda: self._space(1),
            "dd": lambda: self._space(1),
            "tr": self._row_ends,
        }

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        """A start tag: `flow.open("ol", {"start": "3"})`."""
        self._tag = tag
        if tag in self._opened:
            self._opened[tag](attributes)
        else:
            self._both(tag, opens=True)
        self._after_list = tag in ("ol", "ul")

    def close(self, tag: str) -> None:
        """An end tag."""
        self._tag = tag
        if tag in self._closed:
            self._closed[tag]()
        else:
            self._both(tag, opens=False)
        self._after_list = tag in ("ol", "ul")

    def text(self, text: str) -> None:
        """The text between two tags, whole."""
        if (self._struck_begins or self._after_struck or "\r" in text) and not self._hidden:
            for number, part in enumerate(_ENTITIES.split(text)):
                if part:
                    self._part(part, character=number % 2 == 1)
            return
        words = text.rstrip()
        if words != text and words.endswith(("&", "<", ">")):  # trailing blanks are owed, not written
            self._part(words)
            text = text[len(words) :]
        self._part(text)

    def finish(self) -> str:
        """The whole text, with the meanings of its abbreviations at the end."""
        if not self._hidden:
            self._write("\n")
            for short, meaning in self._meanings.items():
                self._write(f"  *[{short}]: {meaning}\n")
        return "".join(self._written)

    # -- texts

    def _part(self, part: str, *, character: bool = False) -> None:
        if self._struck_begins:
            part = part.strip()
            self._struck_begins, self._after_struck = False, True
        elif self._after_struck:
            if _AFTER_STRUCK.match(part) and self._tag not in _CLOSE_BY:
                part = " " + part
            self._after_struck = False
        if not (self._code or self._pre or character):
            part = _LIKE_A_LIST.sub(r"\1" + "\\\\", _BACKSLASH.sub(r"\\\\", part))  # "1. a" is "1\. a"
        self._last_text = part
        if self._hidden:
            return
        if self._short is not None:
            self._short.append(part)
        if not self._pre:
            part = _BLANKS.sub(" ", part)
            if part.startswith(" "):
                self._blank = True
                part = part[1:]
        self._write_text(part)

    def _put(self, text: str, *, quote: bool = False) -> None:
        """The text of a tag; `quote`: a quotation's own mark."""
        if self._short is not None:
            self._short.append(text)
        if not self._hidden:
            self._write_text(text, quote=quote)

    def _write_text(self, text: str, *, quote: bool = False) -> None:
        """Write `text`, after the white space due before it."""
        if not text:
            return
        if self._pre_begins:
            self._pre_begins = False
            if self._lists:
                text = text.lstrip("\n " if self._pre else "\n")
            elif not text.startswith(("\n", "\r\n")):
                text = "\n" + text
        margin = ">" * self._quotes + (" " if self._quotes and not (quote and text.startswith(">")) else "")
        if self._pre:
            margin += "    " + (" " * self._indent if self._lists else "")
            self._need(len(margin) * text.count("\n"))
            text = text.replace("\n", "\n" + margin)
        if self._first:
            self._first = self._blank = False
            self._gap = 0
        if self._gap:
            self._write(f"{self._row}\n{margin}" * self._gap)
            self._blank, self._row = False, ""
        if self._blank:
            if not self._line_ended:
                self._write(" ")
            self._blank = False
        self._gap = 0
        self._write(text)

    def _write(self, text: str) -> None:
        self._need(len(text))
        self._room -= len(text)
        self._written.append(text)
        if text:
            self._line_ended = text.endswith("\n")

    def _need(self, chars: int) -> None:
        if chars > self._room:
            raise TooLong

    def _space(self, lines: int) -> None:
        self._gap = 2 if lines == 2 else self._gap or 1

    # -- tags

    def _both(self, tag: str, *, opens: bool) -> None:
        if tag in _BLOCKS:
            self._space(2)
        elif tag in _HIDDEN:
            self._hidden += 1 if opens else -1
        elif tag in _HEADINGS:
            self._space(2)
            if opens:
                self._put("#" * _HEADINGS[tag] + " ")
        elif tag in _CODE:
            if not self._pre:
                self._put("`")
                self._code = not self._code
        elif tag == "q":
            self._put('"')
        elif tag in _STRUCK:
            self._strike(opens=opens)

    def _strike(self, *, opens: bool) -> None:
        if opens and self._last_text.endswith("~"):
            self._put(" ~~")
            self._last_text += " "
        else:
            self._put("~~")
        if opens:
            self._struck_begins = True

    def _rule(self, attributes: Mapping[str, str]) -> None:
        self._space(2)
        self._put("* * *")
        self._space(2)

    def _body(self, attributes: Mapping[str, str]) -> None:
        self._hidden = 0  # of a page that never closed its head

    def _quote(self, attributes: Mapping[str, str]) -> None:
        self._space(2)
        self._put("> ", quote=True)
        self._first = True
        self._quotes += 1

    def _quote_ends(self) -> None:
        self._quotes -= 1
        self._space(2)

    def _preformatted(self, attributes: Mapping[str, str]) -> None:
        self._pre = self._pre_begins = True
        self._space(2)

    def _preformatted_ends(self) -> None:
        self._pre = False
        self._space(2)

    def _row_ends(self) -> None:
        self._space(1)
        self._row = "  "

    def _abbreviation(self, attributes: Mapping[str, str]) -> None:
        self._short, self._meaning = [], attributes.get("title")

    def _abbreviation_ends(self) -> None:
        if self._short is not None and self._meaning is not None:
            self._meanings["".join(self._short)] = self._meaning
            self._short = self._meaning = None

    def _list(self, attributes: Mapping[str, str]) -> None:
        if not self._lists and not self._after_list:
            self._space(2)
        try:
            number = int(attributes.get("start", "1")) - 1
        except ValueError:
            number = 0
        self._lists.append(_List(self._tag == "ol", number))

    def _list_ends(self) -> None:
        if self._lists:
            self._lists.pop()
            if not self._lists:
                self._put("\n")

    def _item(self, attributes: Mapping[str, str]) -> None:
        self._space(1)
        self._indent = 0
        within = False  # in an ordered list: one in it stands three blanks in
        for each in self._lists:
            self._indent += 3 if within else 2
            self._put("   " if within else "  ")
            within = each.ordered
        if within:
            self._indent += 3
            self._lists[-1].number += 1
            self._put(f"{self._lists[-1].number}. ")
        else:
            self._indent += 2
            self._put("* ")
        self._first = True

    def _item_ends(self) -> None:
        self._space(1)
        self._indent = 0
