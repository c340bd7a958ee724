"""What `ossia sessions` prints: exact into a pipe, harmless on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from ossia.agent.sessions.store import SessionHit, SessionInfo
from ossia.cli.clean import clean, one_line
from ossia.cli.streams import shown
from ossia.cli.words import json_line, when

VERSION = 1
"""The version of what `--json` prints."""


def print_list(infos: Sequence[SessionInfo], *, json: bool) -> None:
    """One line for each."""
    if json:
        print(json_line({"version": VERSION, "sessions": [asdict(info) for info in infos]}))
        return
    if not infos:
        print("ossia: no session is stored yet; a chat stores its own: start one with ossia", file=sys.stderr)
        return
    print(f"{'ID':<8}  {'LAST USED':<16}  {'TURNS':>5}  TITLE")
    for info in infos:
        print(shown(row_of(info)))


def row_of(info: SessionInfo) -> str:
    """`k7m2v9xq  2026-11-22 18:00      2  What is 48*17?`: a session in a list, unclean."""
    return f"{info.id:<8}  {when(info.updated):<16}  {info.turns:>5}  {one_line(info.title)}"


def print_hits(hits: Sequence[SessionHit], text: str, *, json: bool) -> None:
    """Two lines for each: the session, and the place."""
    if json:
        found = [{**asdict(hit.info), "kind": hit.kind, "snippet": hit.snippet, "matches": hit.matches} for hit in hits]
        print(json_line({"version": VERSION, "query": text, "results": found}))
        return
    if not hits:
        print("ossia: nothing found", file=sys.stderr)
    for hit in hits:
        print(f"{hit.info.id:<8}  {when(hit.info.updated):<16}  {shown(one_line(hit.info.title))}")
        more = f"  (+{hit.matches - 1})" if hit.matches > 1 else ""
        print(f"          {hit.kind}: {shown(one_line(hit.snippet))}{more}")


def print_one(info: SessionInfo) -> None:
    """The id on stdout, where a script reads it; the title beside it for people."""
    print(info.id)
    print(f"ossia: {clean(one_line(info.title))}; continue it with: ossia --resume {info.id}", file=sys.stderr)
