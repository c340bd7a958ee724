"""A session as one HTML file: no scripts, nothing loaded from elsewhere; all messages are text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.segment import Segment

from ossia.agent.citations import Footnote
from ossia.agent.sessions.session import Entry, Session
from ossia.agent.sessions.store import SessionInfo
from ossia.cli.clean import MAX_URL_CHARS, clean_url
from ossia.cli.export.parts import Part, replaced_parts, title_and_facts, turns_of
from ossia.cli.footnotes import lines
from ossia.cli.terminal.markdown._markdown import add_maths
from ossia.cli.terminal.markdown.code import code_lines
from ossia.cli.terminal.markdown.latex import readable
from ossia.tools.text import BROKEN, CONTROLS, REORDERS, TAGS

_IN_URL = "!#$%&'()*+,-./:;=?@[]_~"

# default-src 'none': a browser that finds something to load after all doesn't load it.
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --text: #1a1a1a; --page: #fff; --soft: #f2f2f4; --dim: #666; --line: #d8d8dc; --mark: #0b57a8 }}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #e4e4e6; --page: #16171a; --soft: #22242a; --dim: #9a9aa2; --line: #3a3d45; --mark: #8ab8f0 }}
}}
body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: var(--text); background: var(--page);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word }}
header p, .end, .who {{ color: var(--dim) }}
.who {{ margin: 1.5rem 0 .3rem; font-size: .85rem }}
.user {{ white-space: pre-wrap; background: var(--soft); border-radius: .6rem; padding: .6rem .9rem }}
.said, .user {{ unicode-bidi: isolate }}
pre {{ background: var(--soft); border: 1px solid var(--line); border-radius: .4rem; padding: .7rem .9rem;
  overflow-x: auto; font: .875rem/1.45 ui-monospace, monospace; tab-size: 4 }}
code {{ font-family: ui-monospace, monospace; font-size: .92em }}
pre code {{ font-size: 1em }}
details {{ margin: .5rem 0; border-left: 3px solid var(--line); padding-left: .8rem }}
summary {{ cursor: pointer; color: var(--dim) }}
.thinking {{ white-space: pre-wrap; color: var(--dim) }}
.failed summary {{ font-weight: 600 }}
table {{ border-collapse: collapse; display: block; overflow-x: auto }}
th, td {{ border: 1px solid var(--line); padding: .3rem .6rem }}
blockquote {{ margin-left: 0; border-left: 3px solid var(--line); padding-left: .9rem; color: var(--dim) }}
a {{ color: var(--mark) }}
.notes {{ font-size: .875rem; color: var(--dim); list-style: none; padding-left: 0 }}
{code}</style>
</head>
<body>
"""  # noqa: E501


def to_html(session: Session, info: SessionInfo | None, *, thinking: bool, replaced: Sequence[Entry] = ()) -> str:
    """The conversation as a page; calls, results and reasoning are folded."""
    title, facts = title_and_facts(session, info)
    shown: list[str] = []
    for turn in turns_of(session, thinking=thinking):
        shown += [*map(_part, turn.parts), *([f'<p class="end">({plain(turn.end)})</p>'] if turn.end else [])]
    if replaced:
        shown.append("<h2>Replaced by a retry or an edit</h2>")
        shown += [_part(part) for part in replaced_parts(replaced, thinking=thinking)]
    header = f'<header><h1 dir="auto">{plain(title)}</h1><p>{plain(facts)}</p></header>'
    head = _HEAD.format(title=plain(title), code=CODE_STYLE)
    return head + "\n".join([header, "<main>", *shown, "</main>"]) + "\n</body>\n</html>\n"


def _part(part: Part) -> str:
    who = f'<p class="who">{plain(part.model or "Assistant")}</p>\n' if part.first else ""
    return who + _body(part) + ('\n<p class="end">(cut here)</p>' if part.cut else "")


def _body(part: Part) -> str:
    match part.kind:
        case "user":
            return f'<p class="who">You</p>\n<div class="user" dir="auto">{linked(part.text)}</div>'
        case "answer" | "preamble":
            return f'<div class="said" dir="auto">\n{markdown(part.text)}</div>{_notes(part.notes)}'
        case "thinking":
            return _folded("Thinking", f'<div class="thinking" dir="auto">{plain(part.text)}</div>')
        case "call":
            return _folded(f"{part.said} · {part.name}", f"<pre><code>{code(part.text, part.language)}</code></pre>")
        case "result":
            files = "".join(f"<p>File: {plain(name)}</p>" for name in part.files)
            summary = "Failed" if part.failed else "Result"
            return _folded(summary, f"<pre>{plain(part.text)}</pre>{files}", failed=part.failed)
        case "other":
            return _folded(part.name or "Instructions", f"<pre>{plain(part.text)}</pre>")


def _folded(summary: str, inside: str, *, failed: bool = False) -> str:
    marked = ' class="failed"' if failed else ""
    return f"<details{marked}><summary>{plain(summary)}</summary>\n{inside}\n</details>"


def _notes(notes: Sequence[Footnote]) -> str:
    items = ""
    for note, line in zip(notes, lines(notes, links=False), strict=True):
        shown = plain(line)
        if GOOD_LINK.match(note.url):
            target = escape(quote(note.url.encode("utf-8", "replace"), safe=_IN_URL))
            shown = f'<a href="{target}" {REL}>{shown}</a>'
        items += f"<li>{shown}</li>"
    return f'\n<ul class="notes">{items}</ul>' if items else ""


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
