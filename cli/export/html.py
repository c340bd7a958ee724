"""A session as one HTML file: no scripts, nothing loaded from elsewhere; all messages are text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from markdown_it import MarkdownIt

from ossia.agent.citations import Footnote
from ossia.agent.sessions.session import Entry, Session
from ossia.agent.sessions.store import SessionInfo
from ossia.cli.export.parts import Part, replaced_parts, title_and_facts, turns_of
from ossia.cli.footnotes import lines
from ossia.tools.text import BROKEN, CONTROLS, REORDERS, TAGS

_UNSHOWN = re.compile(f"[{CONTROLS}{REORDERS}{TAGS}{BROKEN}]")
_GOOD_LINK = re.compile(r"(https?|mailto):", re.IGNORECASE)
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
</style>
</head>
<body>
"""  # noqa: E501


def to_html(session: Session, info: SessionInfo | None, *, thinking: bool, replaced: Sequence[Entry] = ()) -> str:
    """The conversation as a page; calls, results and reasoning are folded."""
    title, facts = title_and_facts(session, info)
    shown: list[str] = []
    for turn in turns_of(session, thinking=thinking):
        shown += [*map(_part, turn.parts), *([f'<p class="end">({_text(turn.end)})</p>'] if turn.end else [])]
    if replaced:
        shown.append("<h2>Replaced by a retry or an edit</h2>")
        shown += [_part(part) for part in replaced_parts(replaced, thinking=thinking)]
    header = f'<header><h1 dir="auto">{_text(title)}</h1><p>{_text(facts)}</p></header>'
    return _HEAD.format(title=_text(title)) + "\n".join([header, "<main>", *shown, "</main>"]) + "\n</body>\n</html>\n"


def _part(part: Part) -> str:
    who = f'<p class="who">{_text(part.model or "Assistant")}</p>\n' if part.first else ""
    return who + _body(part) + ('\n<p class="end">(cut here)</p>' if part.cut else "")


def _body(part: Part) -> str:
    match part.kind:
        case "user":
            return f'<p class="who">You</p>\n<div class="user" dir="auto">{_text(part.text)}</div>'
        case "answer" | "preamble":
            return f'<div class="said" dir="auto">\n{_markdown(part.text)}</div>{_notes(part.notes)}'
        case "thinking":
            return _folded("Thinking", f'<div class="thinking" dir="auto">{_text(part.text)}</div>')
        case "call":
            return _folded(f"Call of {part.name}", f"<pre><code>{_text(part.text)}</code></pre>")
        case "result":
            files = "".join(f"<p>File: {_text(name)}</p>" for name in part.files)
            summary = "Failed" if part.failed else "Result"
            return _folded(summary, f"<pre>{_text(part.text)}</pre>{files}", failed=part.failed)
        case "other":
            return _folded(part.name or "Instructions", f"<pre>{_text(part.text)}</pre>")


def _folded(summary: str, inside: str, *, failed: bool = False) -> str:
    marked = ' class="failed"' if failed else ""
    return f"<details{marked}><summary>{_text(summary)}</summary>\n{inside}\n</details>"


def _notes(notes: Sequence[Footnote]) -> str:
    items = ""
    for note, line in zip(notes, lines(notes, links=False), strict=True):
        shown = _text(line)
        if _GOOD_LINK.match(note.url):
            target = escape(quote(note.url.encode("utf-8", "replace"), safe=_IN_URL))
            shown = f'<a href="{target}" rel="noopener noreferrer">{shown}</a>'
        items += f"<li>{shown}</li>"
    return f'\n<ul class="notes">{items}</ul>' if items else ""


def _markdown(text: str) -> str:
    """Markdown without HTML and pictures, its links to the web only."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    markdown.validateLink = lambda url: bool(_GOOD_LINK.match(url))  # type: ignore[method-assign]
    tokens = markdown.parse(_seen(text))
    for token in tokens:
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noopener noreferrer")
    return _seen(str(markdown.renderer.render(tokens, markdown.options, {})))  # entities became characters by now


def _text(text: str) -> str:
    return escape(_seen(text))


def _seen(text: str) -> str:
    """The text without controls, reordering marks and hidden text: HTML can't hold them, or a browser would act."""
    return _UNSHOWN.sub("", text.replace("\r\n", "\n"))
