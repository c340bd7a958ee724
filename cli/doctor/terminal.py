"""What the terminal can show, as far as the environment tells: it isn't asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ossia.cli import streams
from ossia.cli.doctor.check import Finding, Machine

_NARROW = 60
"""Columns below which diffs and tables are hard to read."""


def terminal(machine: Machine) -> Iterator[Finding]:
    """Is there one? Its characters, colours, links, pictures and keys."""
    from ossia.cli.terminal.links import knows_links
    from ossia.cli.terminal.pictures import way_of
    from ossia.cli.terminal.vt import terminal_size

    out, environ = streams.stdout(), machine.environ
    if (out.encoding or "").lower().replace("-", "") not in ("utf8", "utf8sig"):
        text = f"output is encoded as {out.encoding}: what that lacks becomes `?`"
        yield Finding("warning", text, "use a UTF-8 locale", "export LANG=C.UTF-8")
    if not (sys.stdin.isatty() and out.isatty()):
        text = "stdin or stdout isn't a terminal: there, `ossia` alone is `ossia run`"
        yield Finding("ok", text)
        return
    term, size = environ.get("TERM", ""), terminal_size()
    if term == "dumb":
        text = "TERM is dumb: the chat prints plain lines"
        yield Finding("ok", text, "set TERM to your terminal's name if it can do more")
        return
    if size.columns < _NARROW:
        text = f"the terminal has {size.columns} columns: diffs and tables are hard to read"
        yield Finding("warning", text, f"make it at least {_NARROW} columns wide")
    parts = [
        f"{term or 'no TERM'}, {size.columns} by {size.rows}",
        "no colours (NO_COLOR)" if environ.get("NO_COLOR") else "colours",
        "links" if knows_links(environ) else "links only if the terminal says so itself",
        {"off": "no pictures", "blocks": "pictures as blocks", "kitty": "pictures (kitty)"}[way_of(environ)],
        "the keys of vi" if machine.settings.vi else "the keys of Emacs",
    ]
    yield Finding("ok", "; ".join(parts))
