"""Getting pages from the network: which addresses may be reached, the fetch itself, the cache of pages."""

from __future__ import annotations

from tools.fetch.cache import PageCache
from tools.fetch.client import Fetched, Fetcher, FetchFailed
from tools.fetch.guard import HostPort, parse_allow_host
from tools.fetch.limits import FetchLimits
from tools.fetch.loader import WebLoader
from tools.fetch.service import JsonClient, ServiceFailed

__all__ = [
    "FetchFailed",
    "FetchLimits",
    "Fetched",
    "Fetcher",
    "HostPort",
    "JsonClient",
    "PageCache",
    "ServiceFailed",
    "WebLoader",
    "parse_allow_host",
]
