"""A whole Markdown text as rows, through the parts that draw it on the screen while it streams."""

from __future__ import annotations

from ossia.cli.clean import clean
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Segmenter


def render_markdown(text: str, *, width: int, colour: bool, links: bool = True) -> list[Row]:
    """All rows of a text: what the same text would leave on the screen if it came in pieces."""
    segmenter, painter = Segmenter(), Painter(width, colour=colour, links=links)
    chunks = [*segmenter.feed(clean(text)), *segmenter.finish()]
    return [row for chunk in chunks for row in painter.chunk(chunk)]
