"""A session as one HTML file: no scripts, nothing loaded from elsewhere; all messages are text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from ossia.agent.citations import Footnote
from ossia.agent.sessions.session import Entry, Session
from ossia.agent.sessions.store import SessionInfo
from ossia.cli.export.parts import Part, replaced_parts, title_and_facts, turns_of
from ossia.cli.export.rendered import CODE_STYLE, GOOD_LINK, REL, code, linked, markdown, plain
from ossia.cli.footnotes import lines

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
