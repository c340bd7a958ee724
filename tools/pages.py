"""What the browser reads: pages of the web, loaded when they are first wanted, and the sources that are searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Document, Source
from ossia.tools.browser.web import KINDS, web_source
from ossia.tools.fetch.guard import parse_allow_host, parse_proxy
from ossia.tools.functions import ToolSettingUnusable
from ossia.tools.host import Host
from ossia.tools.spec import Stop

if TYPE_CHECKING:
    from ossia.tools.convert.converter import Converter
    from ossia.tools.fetch.loader import WebLoader

_KEYS: Mapping[str, str] = {
    "brave": "BRAVE_API_KEY",
    "exa": "EXA_API_KEY",
    "mojeek": "MOJEEK_API_KEY",
    "serper": "SERPER_API_KEY",
    "tavily": "TAVILY_API_KEY",
    "you": "YDC_API_KEY",
}
"""The variable that usually holds a service's key: looked at where no other is named."""
_ADDRESS = re.compile(
    r"""https?://\w | \bwww\.\w
    | (?<![\w@./\\-]) (?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+
      (?:com|org|net|edu|gov|int|info|io|dev|eu|uk|de|fr|it|nl|es|ch|at|se|pl|jp|cn|kr|br|ca|au) (?![\w-]|\.\w)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Domains without `http://` end in one of the usual names, none of which ends a file's (`setup.py`, `node.js`)."""


@dataclass(frozen=True, slots=True)
class Web:
    """Use of the web: `Web("brave")`, `Web("http://127.0.0.1:8888")`; `Web()`: pages only, no search.

    `search`: a SearXNG's address or a service of `tools.browser.web.KINDS`; `url`: another address of that service;
    `key`: the name of the variable with its key. `hosts`: private hosts whose pages may be read; `proxy`: an address.
    """

    search: str | None = None
    url: str | None = None
    key: str | None = None
    hosts: tuple[str, ...] = ()
    proxy: str | None = None


def has_address(text: str) -> bool:
    """True for `see example.org/a`, False for `me@example.org` and `setup.py`."""
    return _ADDRESS.search(text) is not None


def browser(web: Web, host: Host, count_tokens: Callable[[str], int], *, private: bool) -> tuple[Browser, PageLoader]:
    """The browser, and the loader of its pages, to be closed in the end. Raises ToolSettingUnusable."""
    from ossia.tools.library.library import Library

    library, loader = Library(host.library), PageLoader(web, host, private=private)
    sources: list[Source] = [library]
    if web.search:
        sources.append(_search(web.search, web, host.environ))
    return Browser(sources, {"doc": library, "http": loader, "https": loader}, count_view_tokens=count_tokens), loader


def _search(search: str, web: Web, environ: Mapping[str, str]) -> Source:
    """The web search that `--web` names: an address means a SearXNG."""
    from ossia.tools.fetch.client import JsonClient

    shown = search if "@" not in search else "…"  # an address may hold a password
    is_address = search.lower().startswith(("http://", "https://"))
    if not is_address and search not in KINDS:
        names = ", ".join(kind for kind in KINDS if kind != "searxng")
        raise ToolSettingUnusable(f"--web {shown}: must be a SearXNG's address (http://…) or one of {names}")
    kind, url = ("searxng", search) if is_address else (search, web.url)
    variable = web.key or _KEYS.get(kind, "")
    key = environ.get(variable) if variable else None
    try:
        return web_source(kind, url=url, key=key, client=lambda base: JsonClient(base, proxy=web.proxy))
    except ValueError as error:
        hint = f" (--web-key; {variable} is not set)" if variable and not key else ""
        raise ToolSettingUnusable(f"--web {shown}: {error}{hint}") from None


class PageLoader:
    """Loads pages from the web. Its parts take a tenth of a second to import: they wait until a page is wanted.

    Raises ToolSettingUnusable. `load` may be called from any thread, one at a time. While it is `private`, no page is
    stored on disk.
    """

    def __init__(self, web: Web, host: Host, *, private: bool) -> None:
        self.private = private
        self._proxy, self._cache = web.proxy, host.cache / "pages"
        self._converter: Converter | None = None
        self._loaders: dict[bool, WebLoader] = {}
        try:
            self._hosts = tuple(name for text in web.hosts for name in parse_allow_host(text))
        except ValueError as error:
            raise ToolSettingUnusable(f"--allow-host: {error}") from None
        try:
            if web.proxy:
                parse_proxy(web.proxy)
        except ValueError as error:
            raise ToolSettingUnusable(f"--proxy: {error}") from None

    def load(self, url: str, *, source: bool = False, refresh: bool, stop: Stop) -> Document:
        return self._ready().load(url, source=source, refresh=refresh, stop=stop)

    def kept(self, url: str, *, source: bool) -> Document | None:
        return self._ready().kept(url, source=source)

    def close(self) -> None:
        """End the worker that converts pages."""
        if self._converter:
            self._converter.close()

    def _ready(self) -> WebLoader:
        if not self._loaders:
            from ossia.tools.convert.converter import Converter
            from ossia.tools.fetch.client import Fetcher
            from ossia.tools.fetch.loader import PageCache, WebLoader

            self._converter = Converter()
            fetcher = Fetcher(allow_hosts=self._hosts, proxy=self._proxy)
            self._loaders[False] = WebLoader(fetcher, self._converter, PageCache(self._cache))
            self._loaders[True] = WebLoader(fetcher, self._converter)
        return self._loaders[self.private]
