"""Getting pages from the network: the addresses that may be reached (`guard`), the clients, and the browser's loader.

`loader` isn't named here: it imports the browser's pages.
"""

from __future__ import annotations

from ossia.tools.fetch._exchange import FetchFailed, FetchLimits
from ossia.tools.fetch.client import Fetched, Fetcher, JsonClient
from ossia.tools.fetch.guard import HostPort

__all__ = [
    "FetchFailed",
    "FetchLimits",
    "Fetched",
    "Fetcher",
    "HostPort",
    "JsonClient",
]
