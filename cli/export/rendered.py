"""Markdown and code as HTML that can't act: no HTML of others, no pictures, links to the web only, code coloured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.segment import Segment

from ossia.cli.clean import MAX_URL_CHARS, clean_url
from ossia.cli.terminal.markdown.code import code_lines
from ossia.cli.terminal.markdown.latex import readable
from ossia.cli.terminal.markdown.maths import add_maths
from ossia.tools.text import BROKEN, CONTROLS, REORDERS, TAGS

GOOD_LINK = re.compile(r"(https?|mailto):", re.IGNORECASE)
REL = 'rel="noopener noreferrer"'
CODE_STYLE = """
:root { --magenta: #8b2a8b; --cyan: #0b6a75; --green: #256b2f; --red: #a8261f }
@media (prefers-color-scheme: dark) { :root { --magenta: #d79be8; --cyan: #6fc9d4; --green: #8fd19a; --red: #f0938c } }
.magenta { color: var(--magenta) } .cyan { color: var(--cyan) } .green { color: var(--green) }
.red { color: var(--red) } .dim { color: var(--dim) } .bold { font-weight: 600 } .italic { font-style: italic }
.maths { white-space: pre-wrap }
"""
"""The styles of the classes in what `code` and `markdown` give; `--dim` is the page's."""

_UNSHOWN = re.compile(f"[{CONTROLS}{REORDERS}{TAGS}{BROKEN}]")
_ADDRESS = re.compile(r"(?<!\w)https?://[^\s<>\"'`{}|\\^「」『』【】〈〉《》、。，；：！？（）]+", re.IGNORECASE)
_PIECE_LINES, _CONTEXT_LINES = 40, 80  # as on the screen: a lexer gets no more at once


def seen(text: str) -> str:
    """The text without controls, reordering marks and hidden text: HTML can't hold them, or a browser would act."""
    return _UNSHOWN.sub("", text.replace("\r\n", "\n"))


def plain(text: str) -> str:
    """Text, escaped."""
    return escape(seen(text))


def linked(text: str) -> str:
    """Text, escaped, its addresses as links: `see <a href="https://a.test/">https://a.test/</a>`."""
    return "".join(
        f'<a href="{escape(address)}" {REL}>{plain(part)}</a>' if address else plain(part)
        for part, address in _split(seen(text))
    )


def code(source: str, info: str) -> str:
    """Code, escaped, in `<span class="…">`; `info` begins with its language."""
    lines = seen(source).removesuffix("\n").split("\n")
    shown: list[str] = []
    for at in range(0, len(lines), _PIECE_LINES):
        context = "\n".join(lines[max(0, at - _CONTEXT_LINES) : at])
        piece = code_lines("\n".join(lines[at : at + _PIECE_LINES]), info, context=context, unknown="")
        shown += ["".join(map(_span, Segment.simplify(Segment(*span) for span in line if span[0]))) for line in piece]
    return "\n".join(shown)


def markdown(text: str) -> str:
    """Markdown as HTML; formulas are text as in the chat."""
    parser = _parser()
    tokens = parser.parse(seen(text))
    for token in tokens:
        if token.children:
            token.children = list(_children(token.children))
    return seen(str(parser.renderer.render(tokens, parser.options, {})))  # entities became characters by now


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    parser.validateLink = lambda url: bool(GOOD_LINK.match(url))  # type: ignore[method-assign]
    add_maths(parser)
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _code_block)
    for name, tag in (("maths_inline", "span"), ("maths_block", "p")):
        parser.add_render_rule(name, _maths(tag))
    return parser


def _code_block(renderer: object, tokens: Sequence[Token], at: int, *others: object) -> str:
    token = tokens[at]
    return f"<pre><code>{code(token.content, token.info)}\n</code></pre>\n"


def _maths(tag: str) -> Callable[..., str]:
    def render(renderer: object, tokens: Sequence[Token], at: int, *others: object) -> str:
        return f'<{tag} class="maths">{plain(readable(tokens[at].content).removesuffix(chr(10)))}</{tag}>'

    return render


def _span(segment: Segment) -> str:
    text, look = escape(segment.text), segment.style
    names = [name for name in ("bold", "italic", "dim") if getattr(look, name)]
    names += [look.color.name] if look and look.color else []
    return f'<span class="{" ".join(names)}">{text}</span>' if names else text


def _children(tokens: Sequence[Token]) -> Iterator[Token]:
    """The contents of a paragraph, with its bare addresses as links."""
    inside = False
    for token in tokens:
        inside = token.type == "link_open" or (inside and token.type != "link_close")
        if token.type == "link_open":
            token.attrSet("rel", "noopener noreferrer")
        if token.type != "text" or inside:
            yield token
            continue
        for part, address in _split(token.content):
            attrs = {"href": address, "rel": "noopener noreferrer"}
            yield from [Token("link_open", "a", 1, attrs=attrs)] if address else []  # type: ignore[arg-type]
            yield Token("text", "", 0, content=part)
            yield from [Token("link_close", "a", -1)] if address else []


def _split(text: str) -> Iterator[tuple[str, str]]:
    """The parts of the text, addresses with their targets: `("https://a.test/ä", "https://…")`."""
    at = 0
    for found in _ADDRESS.finditer(text):
        if len(found[0]) > MAX_URL_CHARS:
            continue  # never a link; and a long row of brackets would be counted for each of them
        shown = found[0].rstrip(".,;:!?*_~")
        while shown.endswith((")", "]")) and shown.count(shown[-1]) > shown.count("([" [")]".index(shown[-1])]):
            shown = shown[:-1].rstrip(".,;:!?*_~")
        if address := clean_url(shown):
            yield text[at : found.start()], ""
            yield shown, address
            at = found.start() + len(shown)
    yield text[at:], ""
