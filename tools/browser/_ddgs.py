"""Web search without a key or a server: the `ddgs` package asks search engines as a browser would (an extra).

It has a network stack of its own: our fetch guard and proxy settings don't apply to it. It scrapes pages that are
made for people, so it may find nothing for hours.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ossia.tools.browser.document import Hit
from ossia.tools.browser.web import Service, hit_of
from ossia.tools.spec import Stop, Taint, ToolFailed, interrupted

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
        from ossia.tools.fetch._network import WasCut, Watch, in_a_thread

        ddgs: Any = import_module("ddgs")  # takes 0.2 s, so only when somebody searches
        try:
            with closing(Watch(stop, self.timeout_s)) as watch:  # the thread is abandoned: ddgs can't be interrupted
                found = in_a_thread(lambda: list(ddgs.DDGS().text(query, max_results=limit)), watch)
        except WasCut:
            told = interrupted(stop) if stop.stopped else f"ddgs gave no answer within {self.timeout_s:g} s"
            raise ToolFailed(told) from None
        except Exception as error:  # whatever an engine's page makes it raise
            raise ToolFailed(f"ddgs: {' '.join(str(error).split())[:200] or type(error).__name__}") from None
        hits = (hit_of(_ANSWER, result) for result in found)
        return tuple(hit for hit in hits if hit is not None)[:limit]
