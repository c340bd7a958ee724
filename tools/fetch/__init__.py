"""Getting pages from the network: which addresses may be reached, the fetch itself.

`tools.fetch.loader.WebLoader` and `tools.fetch.cache.PageCache` are not named here: they import the browser's pages.
"""

from __future__ import annotations

from ossia.tools.fetch._exchange import FetchLimits
from ossia.tools.fetch.client import Fetched, Fetcher, FetchFailed
from ossia.tools.fetch.guard import HostPort
from ossia.tools.fetch.service import JsonClient, ServiceFailed

__all__ = [
    "FetchFailed",
    "FetchLimits",
    "Fetched",
    "Fetcher",
    "HostPort",
    "JsonClient",
    "ServiceFailed",
]
