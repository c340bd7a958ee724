"""Whole screens, compared with those in `tests/golden/screens`; `pytest --write-screens …` writes these anew."""

from __future__ import annotations

import difflib
import re
import time
from pathlib import Path

from tests.support.command import ROOT
from tests.support.pty import PtyChat

GOLDEN = ROOT / "tests" / "golden" / "screens"
_HEAD = "==== "
_CHANGING = [
    (r"^ossia \d\S*", "ossia 0.0.0"),
    (r"^  script · medium · .*", "  script · medium · …"),
    (r"^[⠀-⣿] ", "⠋ "),
    (r"^thought for [\d.]+ s", "thought"),
    (r"\b\d+(?:\.\d)? s\b", "0.0 s"),
    (r"^(▸ .*?) · 0\.0 s", r"\1"),
    (r"^(    Ran .*) in [\d.]+s$", r"\1"),
    (r"\b[2-9b-df-hj-np-tv-xz]{8}\b", "########"),
    (r"(?<=/tmp/ossia-)\w{8}\b", "########"),
    (r"\b[\d.,]+ (tok|documents)/s", r"0 \1/s"),
    (r" +(?:\d\d:\d\d|[A-Z][a-z]{2} \d{1,2})(?=  )", "  00:00"),
]
"""What is different each time: versions, the bottom line's figures, the spinner, seconds, ids, speeds, times of day."""


def settled(rows: list[str]) -> str:
    """The rows as one text, what changes taken out."""
    text = "\n".join(rows).rstrip()
    for pattern, steady in _CHANGING:
        text = re.sub(pattern, steady, text, flags=re.MULTILINE)
    return text


class Looks:
    """The screens of one file, by name, in the order in which they are looked at."""

    def __init__(self, name: str, *, write: bool) -> None:
        self._path = GOLDEN / f"{name}.txt"
        self._write = write
        self._expected = {} if write else _read(self._path)
        self._seen: dict[str, str] = {}

    def at(self, name: str, chat: PtyChat) -> None:
        """The screen is the one of this name, or becomes it; it fails once nothing has changed for a while."""
        assert name not in self._seen
        seen, expected = None, self._expected.get(name)
        still_s, since = (1.0 if self._write else 10.0), time.monotonic()
        while not _is(now := settled(chat.display), expected, chat) and time.monotonic() - since < still_s:
            if now != seen:
                seen, since = now, time.monotonic()
            chat.read()
        if not _is(now, expected, chat) and not self._write:
            compared = difflib.ndiff((expected or "").split("\n"), now.split("\n"))
            raise AssertionError("\n".join(compared) + f"\nin {name!r}")
        self._seen[name] = now

    def done(self) -> None:
        """That was all of them."""
        if self._write:
            self._path.write_text("".join(f"{_HEAD}{name}\n{rows}\n" for name, rows in self._seen.items()))
        assert self._write or list(self._seen) == list(self._expected)


def _is(now: str, expected: str | None, chat: PtyChat) -> bool:
    """On a busy machine the bottom may have a row more for a moment, and leave an empty one: all is higher then."""
    moved = expected is not None and expected.partition("\n")[2] == now and not chat.display[-1].strip()
    return now == expected or moved


def _read(path: Path) -> dict[str, str]:
    looks = path.read_text().split(_HEAD)[1:]
    return {name: rows.removesuffix("\n") for name, rows in (look.split("\n", 1) for look in looks)}
