"""The browser of a run: what can be searched, how pages are loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.settings.table import Settings
from ossia.tools.browser import Browser, Document, Source, web_source
from ossia.tools.spec import Stop

if TYPE_CHECKING:
    from ossia.tools.convert import Converter
    from ossia.tools.fetch.loader import WebLoader

_KEYS: Mapping[str, str] = {
    "brave": "BRAVE_API_KEY",
    "exa": "EXA_API_KEY",
    "mojeek": "MOJEEK_API_KEY",
    "serper": "SERPER_API_KEY",
    "tavily": "TAVILY_API_KEY",
    "you": "YDC_API_KEY",
}
"""The variable that usually holds a service's key: looked at when `--web-key` names no other."""


def make_browser(settings: Settings, count: Callable[[str], int]) -> tuple[Browser, PageLoader]:
    """The browser, and the loader of its pages, to be closed in the end. Raises ExitError for unusable settings."""
    from ossia.tools.library.library import Library

    library, web = Library(paths.library_file()), PageLoader(settings)
    sources: list[Source] = [library]
    if settings.web:
        sources.append(_web(settings))
    return Browser(sources, {"doc": library, "http": web, "https": web}, count_view_tokens=count), web


def _web(settings: Settings) -> Source:
    """The web search that `--web` names: an address means a SearXNG."""
    from ossia.tools.browser.web import KINDS
    from ossia.tools.fetch import JsonClient

    assert settings.web is not None
    shown = settings.web if "@" not in settings.web else "…"  # an address may hold a password
    is_address = settings.web.lower().startswith(("http://", "https://"))
    if not is_address and settings.web not in KINDS:
        names = ", ".join(kind for kind in KINDS if kind != "searxng")
        raise ExitError(f"--web {shown}: must be a SearXNG's address (http://…) or one of {names}")
    kind, url = ("searxng", settings.web) if is_address else (settings.web, settings.web_url)
    variable = settings.web_key or _KEYS.get(kind, "")
    key = os.environ.get(variable) if variable else None
    try:
        return web_source(kind, url=url, key=key, client=lambda base: JsonClient(base, proxy=settings.proxy))
    except ValueError as error:
        hint = f" (--web-key; {variable} is not set)" if variable and not key else ""
        raise ExitError(f"--web {shown}: {error}{hint}") from None


class PageLoader:
    """Loads pages from the web. Its parts take a tenth of a second to import: they wait until a page is wanted.

    Raises ExitError for settings that can't be used. `load` may be called from any thread, one at a time. While it is
    `private`, no page is kept on disk.
    """

    def __init__(self, settings: Settings) -> None:
        from ossia.tools.fetch.guard import parse_allow_host, parse_proxy

        self.private = settings.private
        self._proxy = settings.proxy
        self._converter: Converter | None = None
        self._loaders: dict[bool, WebLoader] = {}
        try:
            self._hosts = tuple(host for text in settings.allow_host for host in parse_allow_host(text))
        except ValueError as error:
            raise ExitError(f"--allow-host: {error}") from None
        try:
            if settings.proxy:
                parse_proxy(settings.proxy)
        except ValueError as error:
            raise ExitError(f"--proxy: {error}") from None

    def load(self, url: str, *, refresh: bool, stop: Stop) -> Document:
        return self._ready().load(url, refresh=refresh, stop=stop)

    def load_source(self, url: str, *, refresh: bool, stop: Stop) -> Document:
        return self._ready().load_source(url, refresh=refresh, stop=stop)

    def kept(self, url: str, *, source: bool) -> Document | None:
        return self._ready().kept(url, source=source)

    def close(self) -> None:
        """End the worker that converts pages."""
        if self._converter:
            self._converter.close()

    def _ready(self) -> WebLoader:
        if not self._loaders:
            from ossia.tools.convert import Converter
            from ossia.tools.fetch import Fetcher
            from ossia.tools.fetch.loader import PageCache, WebLoader

            self._converter = Converter()
            fetcher = Fetcher(allow_hosts=self._hosts, proxy=self._proxy)
            self._loaders[False] = WebLoader(fetcher, self._converter, PageCache(paths.cache_dir() / "pages"))
            self._loaders[True] = WebLoader(fetcher, self._converter)
        return self._loaders[self.private]
