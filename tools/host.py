"""The machine as one process uses it, and what building something on it reports.

Only `cli/` and the public face `ossia` read the environment and the platform's folders, to make a `Host`; everything
below is given one.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Host:
    """Folders, environment and clock. No folder need exist: whoever writes into one makes it.

    `data` must not be lost (`~/.local/share/ossia`), `cache` may be (`~/.cache/ossia`); `log` is llama.cpp's file.
    `now` gives the local time.

        Host(Path("/home/me/.local/share/ossia"), Path("/home/me/.cache/ossia"),
             Path("/home/me/.local/state/ossia/log/ossia.log"), Path("/home/me"), os.environ, datetime.now)
    """

    data: Path
    cache: Path
    log: Path
    home: Path
    environ: Mapping[str, str] = field(repr=False)  # it holds secrets
    now: Callable[[], datetime.datetime]

    @property
    def library(self) -> Path:
        """The user's indexed documents."""
        return self.data / "library.sqlite"

    @property
    def sessions(self) -> Path:
        """The stored sessions, in a folder of their own."""
        return self.data / "sessions" / "sessions.sqlite"

    @property
    def kv(self) -> Path:
        """The KV caches on disk."""
        return self.cache / "kv"


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for people: `Notice("warning", "python is off: bubblewrap isn't installed")`. May hold outside text.

    "waiting": it is out of date soon, so it is only for those who aren't shown each `Loading`.
    """

    level: Literal["detail", "note", "warning", "waiting"]
    text: str


@dataclass(frozen=True, slots=True)
class Loading:
    """What is waited for: `Loading("reading the model", 0.43, 7)`; `Loading("")`: nothing any more.

    `share`: how much is done, 0 to 1; `left_s`: seconds that it will still take; None: unknown.
    """

    what: str
    share: float | None = None
    left_s: int | None = None


Report = Callable[[Notice | Loading], None]
"""Called on the thread that builds, some ten times a second while something is waited for, or on its worker's: must be
quick."""


def silent(_: Notice | Loading) -> None:
    """The `Report` of those who want to hear nothing."""
