"""A page as the model reads it, in wrapped, numbered lines; the pages of search and find results."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from ossia.tools.browser.document import Document, Hit, fewer_signs, one_line, plain
from ossia.tools.spec import ToolFailed

PageKind = Literal["page", "search", "find"]
VIEW_TOKENS = 1024
"""The tokens of numbered text in a view, unless the call gives a number of lines."""
_MAX_URL = 1024
_MAX_MATCHES = 50
_FIND_LINES = 4  # a match and the three lines after it
_FIND_ABOVE = 4  # a link of a find page lands this many lines above its match
_LINK = re.compile(r"【\d+†([^†】]+)((?:†[^†】]+)?】)")
WIDTH = 80
_WRAPPER = textwrap.TextWrapper(WIDTH, replace_whitespace=False, drop_whitespace=False)
_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class Page:
    """A page under a cursor. Made by `Page.of`, `search_page`, `find_page` or `Page.from_json`.

    `text` isn't wrapped, `lines` are. `links` are URLs by id. `landings`, on a find page: for each link id, the line of
    the searched page to show.
    """

    kind: PageKind
    title: str
    url: str
    text: str
    links: Mapping[int, str] = field(default_factory=dict)
    landings: Mapping[int, int] = field(default_factory=dict)
    lines: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", wrap(self.text))

    @classmethod
    def of(cls, document: Document) -> Page:
        r"""The page of a document: its title on one line, its text under `\nURL: …\n`."""
        text = f"\nURL: {plain(document.url)}\n{document.text}"
        return cls("page", one_line(document.title), document.url, text, document.links)

    @property
    def total_lines(self) -> int:
        """The number of lines; at least 1."""
        return len(self.lines)

    def show(
        self,
        cursor: int,
        *,
        count_tokens: Callable[[str], int],
        loc: int = 0,
        num_lines: int = -1,
        view_tokens: int = VIEW_TOKENS,
    ) -> str:
        r"""The text for the model: a header, and the numbered lines from `loc` on (below 0: from the first).

        `num_lines` > 0: that many. Else as many as begin in the first `view_tokens` tokens of the numbered text, or all
        if the text has no more than that many characters. Raises `ToolFailed` for a `loc` after the last line.

            page.show(1, count_tokens=count)
            '[1] Capy (http://a.test/capy)\n**viewing lines [0 - 2] of 2**\n\nL0: \nL1: URL: http://a.test/capy\nL2: Hi'
        """
        loc = max(loc, 0)
        last = self.total_lines - 1
        if loc > last:
            raise ToolFailed(f"Invalid location parameter: `{loc}`. Cannot exceed page maximum of {last}.")
        end = loc + num_lines if num_lines > 0 else _end_of_view(self.lines, loc, count_tokens, view_tokens)
        end = min(end, self.total_lines)
        body = "\n".join(_numbered(self.lines[loc:end], loc))
        return f"[{cursor}] {self._heading()}\n**viewing lines [{loc} - {end - 1}] of {last}**\n\n{body}"

    def to_json(self) -> dict[str, object]:
        """JSON-like data, to be stored with a message; `from_json` makes the same page of it."""
        data: dict[str, object] = {"kind": self.kind, "title": self.title, "url": self.url, "text": self.text}
        if self.links:
            data["links"] = {str(number): url for number, url in self.links.items()}
        if self.landings:
            data["landings"] = {str(number): line for number, line in self.landings.items()}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Page:
        """A page from `to_json`. Raises ValueError for anything else."""
        kind, title, url, text = (data.get(name) for name in ("kind", "title", "url", "text"))
        links, landings = data.get("links", {}), data.get("landings", {})
        if not (isinstance(title, str) and isinstance(url, str) and isinstance(text, str)):
            raise ValueError("a stored page without a title, a URL or a text")
        if kind not in ("page", "search", "find") or not (isinstance(links, Mapping) and isinstance(landings, Mapping)):
            raise ValueError("not a stored page")
        targets = {int(number): str(target) for number, target in links.items()}
        return cls(kind, title, url, text, targets, {int(number): int(line) for number, line in landings.items()})

    def _heading(self) -> str:
        # A URL is shown unquoted, and a decoded %0A or %E3%80%90 must not break the header or forge a link.
        url = one_line(unquote(self.url))
        if len(url) > _MAX_URL:
            url = url[: _MAX_URL - 3] + "..."
        return f"{self.title} ({url})" if url else self.title


def find_page(page: Page, pattern: str) -> Page:
    """The page of the matches of `pattern`: a link for each of the first 50, or a line that there are none.

    Case is ignored, links are read as their texts, nothing is a wildcard: `"a.b"` finds `a.b` only. The lines shown for
    a match aren't searched again. Not for another find page: the caller checks `page.kind`.
    """
    shown = one_line(pattern.lower())
    matches = list(islice(_matches(page.lines, pattern.lower()), _MAX_MATCHES))
    blocks = [f"# 【{number}†match at L{line}】\n{snippet}" for number, (line, snippet) in enumerate(matches)]
    return Page(
        "find",
        one_line(f"Find results for text: `{shown}` in `{page.title}`"),
        f"{page.url}/find?pattern={quote(pattern.lower(), errors='replace')}",
        "\n\n".join(blocks) or f"No `find` results for pattern: `{shown}`",
        dict.fromkeys(range(len(matches)), page.url),
        {number: line - _FIND_ABOVE if line > _FIND_ABOVE else line for number, (line, _) in enumerate(matches)},
    )


def _matches(lines: Sequence[str], wanted: str) -> Iterator[tuple[int, str]]:
    """The line number of each match, and the text shown: that line and the three after it."""
    # A long host name may have been wrapped: its newline must stay, or later lines get other numbers.
    lines = _LINK.sub(lambda link: link[1] + "\n" * link[2].count("\n"), "\n".join(lines)).split("\n")
    number = 0
    while number < len(lines):
        if wanted in lines[number].lower():
            yield number, "\n".join(lines[number : number + _FIND_LINES])
            number += _FIND_LINES
        else:
            number += 1


def search_page(query: str, hits: Sequence[Hit], *, note: str = "") -> Page:
    """The page of search results: a line for each hit, with its link, and our own `note`. It has no URL.

    The texts are plain text, so `<script>` is shown as it is. Only http, https and doc URLs get a link.
    """
    ids: dict[str, int] = {}
    rows = [_row(hit, ids) for hit in hits]
    body = "\n\n".join(part for part in ("# Search Results", "\n".join(rows), note) if part)
    links = {number: url for url, number in ids.items()}
    return Page("search", one_line(query), "", f"\nURL: \n{body}", links)


def _row(hit: Hit, ids: dict[str, int]) -> str:
    title = one_line(fewer_signs(hit.title)).replace("†", "‡") or one_line(hit.url)
    try:
        parts = urlsplit(hit.url)
    except ValueError:  # "http://[": not a valid URL
        parts = urlsplit("")
    if parts.scheme in ("http", "https", "doc"):
        number = ids.setdefault(hit.url, len(ids))
        place = f"†{one_line(parts.netloc).replace('†', '‡')}" if parts.netloc else ""
        title = f"【{number}†{title}{place}】"
    return f"  * {title} {one_line(fewer_signs(hit.snippet))}".rstrip()


def _numbered(lines: Sequence[str], first: int) -> Iterator[str]:
    return (f"L{number}: {line}" for number, line in enumerate(lines, first))


def _end_of_view(lines: Sequence[str], loc: int, count_tokens: Callable[[str], int], view_tokens: int) -> int:
    """The line after the last one that begins in the first `view_tokens` tokens.

    Counting line by line gives the same as counting the whole text: no token of o200k spans a newline that a letter
    follows, and each line begins with its "L".
    """
    characters = -1
    for line in _numbered(lines[loc:], loc):
        characters += len(line) + 1
        if characters > view_tokens:
            break
    else:
        return len(lines)
    tokens = 0
    for number, line in enumerate(_numbered(lines[loc:], loc), loc):
        tokens += count_tokens(line + "\n")
        if tokens > view_tokens:
            return number + 1
    return len(lines)


def wrap(text: str) -> tuple[str, ...]:
    """The lines of a text, of at most 80 characters, wrapped as the reference browser wraps them. Blank lines stay.

    `textwrap` copies the rest of a long word for every line (4 MB without a blank take it 9 s), so it gets at most
    100,000 characters at once.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= WIDTH and "\t" not in line:
            lines.append(line)
        else:
            for begin in range(0, len(line), _AT_ONCE):
                lines += _WRAPPER.wrap(line[begin : begin + _AT_ONCE])
    return tuple(lines)
