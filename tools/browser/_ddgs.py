"""Web search without a key or a server: the `ddgs` package asks search engines as a browser would (an extra).

It has a network stack of its own: our fetch guard and proxy settings don't apply to it. It scrapes pages that are
made for people, so it may find nothing for hours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tools.browser.document import Hit
from tools.browser.web import Service, hit_of
from tools.spec import Stop, Taint, ToolFailed, interrupted

INSTALL = "ddgs isn't installed: run `uv sync --extra ddgs` or `uv tool install '.[ddgs]'` in ossia's clone"

_ANSWER = Service("", "", url=("href",), snippet=("body",))


@dataclass(frozen=True, slots=True)
class DdgsSource:
    """The source `web`, asked through ddgs in at most `timeout_s`. Raises `ValueError` if ddgs isn't installed."""

    timeout_s: float = 20.0
    name: str = field(default="web", init=False)
    brings: frozenset[Taint] = field(default=frozenset({"outside"}), init=False)
    sends: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if find_spec("ddgs") is None:
            raise ValueError(INSTALL)

    def search(self, query: str, *, limit: int, stop: Stop) -> tuple[Hit, ...]:
        ddgs: Any = import_module("ddgs")  # takes 0.2 s, so only when somebody searches

        def ask() -> list[dict[str, object]]:
            found: list[dict[str, object]] = ddgs.DDGS().text(query, max_results=limit)
            return found

        hits = (hit_of(_ANSWER, result) for result in _in_time(ask, self.timeout_s, stop))
        return tuple(hit for hit in hits if hit is not None)[:limit]


def _in_time(ask: Callable[[], list[dict[str, object]]], timeout_s: float, stop: Stop) -> list[dict[str, object]]:
    """What `ask` returns, run in a thread that is abandoned if it takes too long: ddgs can't be interrupted."""
    found: list[dict[str, object]] = []
    failed: list[Exception] = []
    over = threading.Event()

    def work() -> None:
        try:
            found.extend(ask())
        except Exception as error:  # whatever an engine's page makes it raise
            failed.append(error)
        over.set()

    forget = stop.on_stop(over.set)
    threading.Thread(target=work, name="ddgs", daemon=True).start()
    in_time = over.wait(timeout_s)
    forget()
    if stop.stopped:
        raise ToolFailed(interrupted(stop))
    if failed:
        raise ToolFailed(f"ddgs: {' '.join(str(failed[0]).split())[:200] or type(failed[0]).__name__}")
    if not in_time:
        raise ToolFailed(f"ddgs gave no answer within {timeout_s:g} s")
    return found
