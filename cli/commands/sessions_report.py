"""What `ossia sessions` prints: exact into a pipe, harmless on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ossia.agent.sessions.store import SessionHit, SessionInfo
from ossia.cli.clean import clean, one_line
from ossia.cli.exits import ExitError
from ossia.cli.streams import shown
from ossia.cli.terminal.keyboard import plain_keys
from ossia.cli.words import json_line, when

VERSION = 1
"""The version of what `--json` prints."""

_MAX_BYTES = 256 << 20


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


def read_text(name: str) -> str:
    """A file, or with `-` standard input. Raises ExitError."""
    from ossia.cli.paths import expanded

    try:
        if name == "-":
            with plain_keys():
                data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(expanded(name)).open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ExitError(f"{name}: larger than {_MAX_BYTES >> 20} MB")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ExitError(f"can't read {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ExitError(f"{name}: not UTF-8 text") from None
