"""Limits how many links of a site are followed unasked once private text is there: the choice of links can leak it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ossia.tools.fetch.guard import Refused, as_address, parse_url

MAX_LINKS = 3
"""For each site, in a conversation. A malicious page may show tens of thousands of links: choosing one tells 16 bits,
three tell six letters. Three are also enough for a page, a page that it links to, and one more."""

_NUMBERS = "addresses in numbers"


def site_of(url: str) -> str:
    """The site of a URL, as coarse as a domain that one owner can register: `"b.test"` for `https://x.a.b.test/c`.

    It is the last two labels of the host, so all of `co.uk` is one site: too coarse asks too often, too fine leaks. All
    numeric addresses are one site, since the owner of an IPv6 network has 2**64 of them. What isn't on the web is a
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
        """The first of these sites whose links are used up; "" if all have some left."""
        return next((site for site in sorted(sites) if self._followed[site] >= MAX_LINKS), "")

    def spend(self, sites: Iterable[str]) -> dict[str, object]:
        """Use up one link of each of these sites; returns the state for `restore`."""
        taken = sorted(sites)
        self._followed.update(taken)
        return {"followed": taken}

    def restore(self, states: Iterable[Mapping[str, object]]) -> None:
        """Set what was spent to what these states say, and nothing else."""
        self._followed.clear()
        for state in states:
            followed = state.get("followed")
            if isinstance(followed, list):
                self._followed.update(site for site in followed if isinstance(site, str))
