"""How many links of a site may be followed unasked once private text is there: which ones they are can tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tools.fetch.guard import Refused, as_address, parse_url

MAX_LINKS = 3
"""Of a site, in a conversation. A page made for it may show tens of thousands of links, 16 bits in the choice of one:
three tell six letters. Three are also a page, a page behind it, and one more."""

_NUMBERS = "addresses in numbers"


def site_of(url: str) -> str:
    """Whose servers a URL leads to, named no finer than names can be registered: `"b.test"` of `https://x.a.b.test/c`.

    The last two labels of its host, so that a `co.uk` is one site as a whole: too much asks, too little leaks. All
    hosts that are numbers are one, since whoever has an IPv6 network has 2**64 of them. What isn't on the web is a
    site of its own (`"doc:17"`).
    """
    try:
        host = parse_url(url).host
    except Refused:
        return url
    return _NUMBERS if as_address(host) else ".".join(host.split(".")[-2:])


class LinkBudget:
    """The links that were followed unasked while private text was in the conversation, by site."""

    def __init__(self) -> None:
        self._followed: Counter[str] = Counter()

    def exhausted(self, sites: Iterable[str]) -> str:
        """The first of these sites of which no more links may be followed; "" when they all have some left."""
        return next((site for site in sorted(sites) if self._followed[site] >= MAX_LINKS), "")

    def spend(self, sites: Iterable[str]) -> dict[str, object]:
        """Take one from each of these sites; returns the state from which `restore` knows it."""
        taken = sorted(sites)
        self._followed.update(taken)
        return {"followed": taken}

    def restore(self, states: Iterable[Mapping[str, object]]) -> None:
        """Have spent what left these states, and nothing else."""
        self._followed.clear()
        for state in states:
            followed = state.get("followed")
            if isinstance(followed, list):
                self._followed.update(site for site in followed if isinstance(site, str))
