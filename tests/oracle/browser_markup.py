"""Random markup: tags that matter to the layout, closed or not, in each other, around texts that look like marks."""

from __future__ import annotations

import random

_TAGS = (
    *("p", "div", "br", "hr", "h1", "h2", "h7", "ul", "ol", "li", "li", "pre", "pre", "code", "tt", "kbd"),
    *("q", "a", "a", "b", "em", "del", "s", "strike", "blockquote", "blockquote", "dl", "dt", "dd", "table"),
    *("tr", "td", "th", "caption", "sup", "sub", "abbr", "img", "span", "section", "center", "script"),
    *("style", "head", "body", "title", "svg", "main", "noscript", "form", "input", "textarea", "select"),
    *("option", "details", "summary", "ruby", "rt", "iframe", "object"),
)
_TEXTS = (
    *("a", "b c", " ", "\n", "  x  ", "1. y", "- z", "+ w", "\\*", "&amp;", "&lt;b&gt;", "&nbsp;", "~", "a~"),
    *("\n\n", "foo.", "(x)", "2", "i-j", "†", "漢字", "—", "<!-- c -->", "<!--x>y-->", "\t", "“q”", "x\n y"),
    *("\n- k", "9. \n", "!", "#", "* i"),
)
_ATTRIBUTES = {
    "a": (" href=x", " href='/y'", " href='#f'", " href=http://b.test/q", " href=mailto:x", "", " name=n"),
    "ol": ("", " start=5", " start=x"),
    "img": (" alt=A", "", " title=T", " alt=''"),
}


def markup(source: random.Random) -> str:
    """Up to 25 pieces; half of them in a document, half as they are: `"<ul>a<li>- z</ul><pre>\\n\\n"`."""
    pieces: list[str] = []
    around: list[str] = []
    for _ in range(source.randint(1, 25)):
        kind = source.random()
        if kind < 0.42:
            pieces.append(source.choice(_TEXTS))
        elif kind < 0.75:
            tag = source.choice(_TAGS)
            pieces.append(f"<{tag}{source.choice(_ATTRIBUTES.get(tag, ('',)))}>")
            around.append(tag)
        elif around:
            pieces.append(f"</{around.pop() if source.random() < 0.85 else source.choice(around)}>")
    return ("<!DOCTYPE html><html><body>" if source.random() < 0.5 else "") + "".join(pieces)
