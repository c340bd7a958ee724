"""The look of an item of the transcript: pieces of at most a few thousand characters, painted when looked at.

A cut depends only on the text before it: when a text grows, only its last piece changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from ossia.cli.chat.pager.items import Item, Shown, headline, shown_arguments, style_of
from ossia.cli.clean import clean_flat
from ossia.cli.terminal.diff_rows import diff_rows
from ossia.cli.terminal.fold import folded
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Chunk, Segmenter
from ossia.cli.visible import seen_line, visible
from ossia.cli.words import count
from ossia.tools.text import clean as drawn

if TYPE_CHECKING:
    from ossia.agent.citations import Cited

Page: TypeAlias = "Callable[[int], Cited | None]"

FOLD_LINES = 12
"""The lines of a long result, or of long arguments, that a fold leaves."""
MAX_RESULT_ROWS = 200
"""The limit of `call_rows`."""
_FOLD_CHARS = 2_000
_SAID_CHARS = 60  # of a call, in its headline: what it was made with stands below
_CUT_CHARS = 1_500  # Markdown longer than this is cut at the next blank line
_MUST_CHARS = 10_000  # and longer than this, at any line's end
_LINE_CHARS = 4_000  # a plain line that is longer is cut into pieces
_PLAIN_LINES = 60
_RULE = "─" * 400
_TAB = 4

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_CONTINUES = re.compile(r"[ \t>|]|[-+*]\s|\d{1,9}[.)]\s")


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of an item. `look`: the way it is drawn; a fold is a line where Enter opens or closes.

    `style` is that of plain text and of a line; `language` that of code. `gap`: an empty row goes before it.
    `begins_inside`, `ends_inside`: Markdown that was cut inside a fence, which is the same one for the reader.
    """

    look: Literal["markdown", "plain", "code", "line", "rule", "fold"]
    source: str
    style: str = ""
    language: str = ""
    gap: bool = False
    begins_inside: bool = False
    ends_inside: bool = False

    def rows(self, painter: Painter) -> list[Row]:
        """Its rows, none longer than the painter's width."""
        rows = [[], *self._rows(painter)] if self.gap else self._rows(painter)
        return folded(rows, painter.width)

    def _rows(self, painter: Painter) -> list[Row]:
        match self.look:
            case "markdown":
                segmenter = Segmenter()
                chunks = [*segmenter.feed(clean_flat(self.source)), *segmenter.finish()]
                if self.begins_inside:
                    chunks[:1] = [replace(chunk, begins=False) for chunk in chunks[:1]]
                if self.ends_inside:
                    chunks[-1:] = [replace(chunk, ends=False) for chunk in chunks[-1:]]
                return [row for chunk in chunks for row in painter.chunk(chunk)]
            case "code" if self.language == "diff":
                return diff_rows(self.source, painter.width)
            case "code":
                return painter.chunk(Chunk("code", clean_flat(self.source) or "\n", gap=False, info=self.language))
            case "rule":
                return painter.text(f"{self.source} {_RULE}"[: painter.width], self.style)
            case _:
                return painter.text(clean_flat(self.source).removesuffix("\n"), self.style)


@dataclass(frozen=True, slots=True)
class Switches:
    """The parts that the reader wants to see: the thinking, the arguments and results of calls."""

    thinking: bool = True
    output: bool = True


def sections(item: Item, switches: Switches, *, opened: bool, page: Page | None = None) -> list[Section]:
    """All pieces of an item, in order. `opened`: nothing of it is hidden, whatever the switches say.

    `page` gives the page behind a cursor of the browser: with it, an answer's citations are numbered footnotes.
    """
    if item.kind == "answer" and page and "【" in item.text:
        return _cited(item, page)
    done = _sections(item, switches, opened=opened)
    if opened and foldable(item, switches):
        done.append(Section("fold", "Enter closes", "dim"))
    return done


def _sections(item: Item, switches: Switches, *, opened: bool) -> list[Section]:
    match item.kind:
        case "user":
            return _user(item, opened=opened)
        case "thinking":
            return _thinking(item, shown=opened or switches.thinking)
        case "call":
            opened = opened or item.state == "asked"  # all that is agreed to
            return _call(item, shown=opened or switches.output, opened=opened)
        case "note":
            return [Section("plain", item.text or " ", "dim yellow" if item.name else "dim", gap=True)]
        case "summary":
            head = f"summary: replaces the {item.turn + 1} turns above in the prompt"
            return [Section("line", head, "cyan", gap=True), *_markdown(item.text)]
        case _:
            return [*_markdown(item.text, first_gap=True), *_cut_mark(item)]


def _cited(item: Item, page: Page) -> list[Section]:
    from ossia.agent.citations import cite
    from ossia.cli.footnotes import lines

    text, notes = cite(item.text, page)
    footnotes = "\n".join(lines(notes, links=False))
    return [*_markdown(text, first_gap=True), *_cut_mark(item), *_plain(footnotes, "dim", gap=True)]


def _cut_mark(item: Item) -> list[Section]:
    return [Section("line", "cut here", "dim yellow")] if item.cut else []


def remembering(page: Page) -> Page:
    """The same lookup, with a memory of the pages found: asking reads all that the browser stored."""
    known: dict[int, Cited] = {}

    def look(cursor: int) -> Cited | None:
        if cursor not in known and (found := page(cursor)):
            known[cursor] = found
        return known.get(cursor)

    return look


def foldable(item: Item, switches: Switches) -> bool:
    """True if opening it would show more."""
    if item.kind == "thinking":
        return not switches.thinking and bool(item.text.strip())
    if item.kind == "user":
        return bool(item.attached)
    if item.kind != "call":
        return False
    if item.state == "asked":
        return False
    whole = (item.diff or item.arguments, item.text or item.output)
    return any(map(_is_long, whole)) or (not switches.output and any(map(str.strip, whole)))


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _user(item: Item, *, opened: bool) -> list[Section]:
    begins = [] if item.steers else [Section("rule", f"── {item.turn + 1}", "dim", gap=True)]
    shown = item.text.expandtabs(_TAB).replace("\n", "\n  ")  # below the first line, as it was typed
    done = [*begins, *_plain(f"› {shown}", "bold", gap=item.steers)]
    if item.attached and opened:
        done += _plain(item.attached, "dim", gap=True)
    elif item.attached:
        done.append(Section("fold", f"+ {len(item.attached):,} characters attached · Enter opens", "dim"))
    return done


def _thinking(item: Item, *, shown: bool) -> list[Section]:
    parts = ["thinking" if item.state == "open" else "thought"]
    if item.seconds is not None:
        parts.append(f"{item.seconds:.0f} s")
    if item.tokens:
        parts.append(f"{item.tokens:,} tokens")
    line, body = " · ".join([*parts, *(["cut"] if item.cut else [])]), item.text.strip("\n")
    if not body.strip():
        return [Section("line", line, "dim italic", gap=True)]
    head = Section("line" if shown else "fold", line, "dim italic", gap=True)
    return [head, *(_plain(body, "dim") if shown else ())]


def _call(item: Item, *, shown: bool, opened: bool) -> list[Section]:
    if not shown:
        return [Section("fold", headline(item, _SAID_CHARS), style_of(item), gap=True)]
    return [*_called(item, opened=opened), *_result(item, opened=opened), *_files(item)]


def call_rows(item: Item, painter: Painter) -> list[Row]:
    """A call outside the pager: its name, its arguments, the beginning of the result, the files it made."""

    def rows(sections: list[Section]) -> list[Row]:
        return [row for section in sections for row in section.rows(painter)]

    gap, *result = rows(_result(item, opened=True)) or [[]]
    more = len(result) - MAX_RESULT_ROWS
    left_out = [Section("line", f"… {more:,} more rows of the result: Ctrl-O shows them", "dim")] if more > 0 else []
    shown = [gap, *result[:MAX_RESULT_ROWS]] if result else []
    return [*rows(_called(item, opened=True))[1:], *shown, *rows([*left_out, *_files(item)])]


def _called(item: Item, *, opened: bool) -> list[Section]:
    done = [Section("line", headline(item, _SAID_CHARS), style_of(item), gap=True)]
    diff = Shown(item.diff, "diff") if item.diff else None
    if item.ran is not None:
        done += _arguments(shown_arguments(item), opened=opened)
        done.append(Section("line", "you changed it before it ran:", "dim"))
    return [*done, *_arguments(diff or shown_arguments(item, item.ran), opened=opened)]


def _files(item: Item) -> list[Section]:
    return [Section("line", seen_line(str(attachment.path)), "dim") for attachment in item.attachments]


def _arguments(shown: Shown, *, opened: bool) -> list[Section]:
    text = visible(shown.text, shown.language)[0].strip("\n")
    if not text.strip():
        return []
    head, more = (text, 0) if opened else _head(text)
    parts = [head] if shown.language == "diff" else _pieces(head)  # its lines are numbered
    pieces = [Section("code" if shown.language else "plain", part, "", shown.language) for part in parts]
    return [*pieces, *_folded(more)]


def _result(item: Item, *, opened: bool) -> list[Section]:
    running = not item.text
    text = (drawn(item.output if opened else item.output[-_FOLD_CHARS:]) if running else item.text).strip("\n")
    if not text.strip():
        return []
    if running and not opened:  # its last lines
        return [Section("plain", "\n".join(text.split("\n")[-FOLD_LINES:]), "dim", gap=True)]
    head, more = (text, 0) if opened else _head(text)
    return [*_plain(head, "", gap=True), *_folded(more)]


def _head(text: str) -> tuple[str, int]:
    """The first lines, and the number of those left out; the whole text and 0 if it isn't long."""
    if not _is_long(text):
        return text, 0
    lines = text[:_FOLD_CHARS].split("\n")[:FOLD_LINES]
    head = "\n".join(lines)
    return head, max(1, text.count("\n") + 1 - len(lines))


def _is_long(text: str) -> bool:
    text = text.strip("\n")
    return len(text) > _FOLD_CHARS or text.count("\n") > FOLD_LINES


def _folded(more: int) -> list[Section]:
    return [Section("fold", f"… {count(more, 'more line')} · Enter opens", "dim")] if more else []


# -- cutting -----------------------------------------------------------------------------------------------------------


def _plain(text: str, style: str, *, gap: bool = False) -> list[Section]:
    return [Section("plain", part, style, gap=gap and number == 0) for number, part in enumerate(_pieces(text))]


def _pieces(text: str) -> Iterator[str]:
    """Plain text, some lines at a time; a very long line is cut into pieces."""
    at = 0
    while at < len(text):
        stop, lines = at, 0
        while lines < _PLAIN_LINES and stop < len(text) and stop - at < _LINE_CHARS:
            end = text.find("\n", stop, at + _LINE_CHARS)
            stop, lines = (end + 1, lines + 1) if end >= 0 else (stop if lines else at + _LINE_CHARS, _PLAIN_LINES)
        if stop == at:
            stop = at + _LINE_CHARS
        yield text[at:stop]
        at = stop


def _markdown(text: str, *, first_gap: bool = False) -> list[Section]:
    parts = list(_cut_markdown(text.strip("\n")))
    return [
        Section("markdown", part, gap=gap if number else first_gap, begins_inside=begins, ends_inside=ends)
        for number, (part, gap, begins, ends) in enumerate(parts)
    ]


def _cut_markdown(text: str) -> Iterator[tuple[str, bool, bool, bool]]:
    """Pieces of Markdown that can be read alone, each with three flags: a blank line before it, its beginning inside a
    fence, its end inside a fence.

    Cut at a blank line where a new block begins; a fence that goes on is closed, and opened again in the next piece.
    """
    lines = text.split("\n")
    begin, chars, fence, gap = 0, 0, "", False
    opening: list[str] = []  # the first line of the fence that the piece begins in
    for number, line in enumerate(lines):
        chars += len(line) + 1
        fence_now = _fence(line, fence)
        last = number + 1 == len(lines)
        if fence_now and fence:
            if chars > _CUT_CHARS and not last and _fence(lines[number + 1], fence):
                yield "\n".join([*opening, *lines[begin : number + 1], _closing(fence)]), gap, bool(opening), True
                begin, chars, gap, opening = number + 1, 0, False, [fence]
        elif not last and not fence_now and _may_cut(line, lines[number + 1], chars):
            yield "\n".join([*opening, *lines[begin : number + 1]]), gap, bool(opening), False
            begin, chars, gap, opening = number + 1, 0, not line.strip(), []
        fence = fence_now
    yield "\n".join([*opening, *lines[begin:]]), gap, bool(opening), False


def _may_cut(line: str, following: str, chars: int) -> bool:
    blank = not line.strip() and bool(following.strip())
    return (chars > _CUT_CHARS and blank and not _CONTINUES.match(following)) or chars > _MUST_CHARS


def _fence(line: str, fence: str) -> str:
    """The opening line of the fence that the next line is in; "" outside."""
    found = _FENCE.match(line)
    if not found:
        return fence
    if not fence:
        return "" if found[1][0] == "`" and "`" in found[2] else line
    closes = found[1].startswith(_closing(fence)) and not found[2].strip()
    return "" if closes else fence


def _closing(fence: str) -> str:
    found = _FENCE.match(fence)
    return found[1] if found else "```"
