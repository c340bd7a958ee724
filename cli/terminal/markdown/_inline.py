"""The contents of a paragraph, a heading, a cell → lines of spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.style import Style

from ossia.cli.clean import clean, clean_parts, clean_url
from ossia.cli.terminal.markdown._rows import PLAIN, TAB, Span, style
from ossia.cli.terminal.markdown.code import UNKNOWN
from ossia.cli.terminal.markdown.latex import readable

if TYPE_CHECKING:
    from markdown_it.token import Token

_MAX_SHOWN_URL = 200  # characters of an address in the text; a picture's may hold the picture

_MARKS = {"strong": ("bold", "**"), "em": ("italic", "*"), "s": ("strike", "~~")}


@dataclass(frozen=True, slots=True)
class Look:
    """The look of inline marks. Without colour the marks stay as written; without links addresses are shown."""

    colour: bool
    links: bool

    def style(self, words: str) -> Style:
        """rich's style of these words, with colour."""
        return style(words) if self.colour else PLAIN


def inline_lines(tokens: Sequence[Token], look: Look, base: Style = PLAIN) -> list[list[Span]]:
    """The lines of the text. A line end in the source is one here, since a model that breaks a line means it."""
    lines: list[list[Span]] = [[]]
    styles = [base]
    links: list[tuple[str, int, int]] = []  # address, and where its text begins: line, span
    for token in tokens:
        name, _, edge = token.type.rpartition("_")
        if token.type in ("softbreak", "hardbreak"):
            lines.append([])
        elif name in _MARKS:
            words, mark = _MARKS[name]
            if not look.colour:
                lines[-1].append((mark, PLAIN))
            styles = [*styles, styles[-1] + style(words)] if edge == "open" else styles[:-1]
        elif token.type == "link_open":
            address = str(token.attrs.get("href", ""))
            links.append((address, len(lines) - 1, len(lines[-1])))
            styles.append(styles[-1] + _link_style(address, look))
        elif token.type == "link_close":
            styles.pop()
            _show_address(lines, links.pop(), look)
        elif token.type == "image":
            lines[-1] += _image(token, styles[-1], look)
        elif token.type == "code_inline":
            lines[-1] += _code(token, styles[-1], look)
        elif token.type == "maths_inline":
            _add(lines, readable(token.content), styles[-1])
        else:
            _add(lines, token.content, styles[-1])
    return lines


def _add(lines: list[list[Span]], text: str, look: Style) -> None:
    """Clean again: `&#x202e;` has become a character by now."""
    first, *more = clean_parts(text).expandtabs(TAB).split("\n")
    lines[-1].append((first, look))
    lines += [[(part, look)] for part in more]


def _code(token: Token, base: Style, look: Look) -> list[Span]:
    text = clean_parts(token.content).replace("\n", " ")
    return [(text, base + style(UNKNOWN))] if look.colour else [(f"{token.markup}{text}{token.markup}", PLAIN)]


def _link_style(address: str, look: Look) -> Style:
    url = clean_url(address) if look.links and look.colour else None
    return Style(underline=True, link=url) if url else look.style("underline")


def _show_address(lines: list[list[Span]], link: tuple[str, int, int], look: Look) -> None:
    """Add the address after the text, where it can't be clicked, or the text names another one."""
    address, line, span = link
    spans = [*lines[line][span:], *(one for more in lines[line + 1 :] for one in more)]
    text = "".join(text for text, _ in spans).strip()
    shown = shown_url(address)
    if not shown or text in (shown, shown.removeprefix("mailto:")) or text.rstrip("/") == shown.rstrip("/"):
        return
    clickable = look.colour and look.links and clean_url(address)
    if not clickable or "://" in text or text.startswith("www."):
        lines[-1].append((f" ({shown})", look.style("dim")))


def shown_url(address: str) -> str:
    """The address as text, cut when it is long."""
    shown = clean(clean_url(address) or address).replace("\n", " ")
    return shown if len(shown) <= _MAX_SHOWN_URL else f"{shown[: _MAX_SHOWN_URL - 1]}…"


def _image(token: Token, base: Style, look: Look) -> list[Span]:
    alt = "".join(child.content or " " for child in token.children or ()) or token.content or "picture"
    shown = shown_url(str(token.attrs.get("src", "")))
    spans: list[Span] = [(clean_parts(alt).replace("\n", " "), base)]
    return [*spans, (f" ({shown})", look.style("dim"))] if shown else spans
