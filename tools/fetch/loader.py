"""The browser's loader for http and https: cache, fetch, conversion."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urldefrag

from ossia.tools.browser.document import Document
from ossia.tools.convert import ConversionFailed, Converter
from ossia.tools.convert._documents import CUT_PDF
from ossia.tools.fetch.cache import PageCache
from ossia.tools.fetch.client import Fetched, Fetcher, FetchFailed
from ossia.tools.fetch.guard import Refused, parse_url
from ossia.tools.spec import Stop, ToolFailed


class WebLoader:
    """A `Loader` and `SourceLoader`. `cache` None: every page is fetched.

    Pages of hosts that only `--allow-host` opens are not kept: in a later session that host may be closed again.
    """

    def __init__(self, fetcher: Fetcher, converter: Converter, cache: PageCache | None = None) -> None:
        self._fetcher, self._converter, self._cache = fetcher, converter, cache

    def load(self, url: str, *, refresh: bool, stop: Stop) -> Document:
        """The page as text with links; its `url` is where it was found, without a fragment.

        From the cache unless `refresh`, which renews it. Raises `ToolFailed("Error: <reason>")`, in which no text of
        the page stands.
        """
        return self._load(url, source=False, refresh=refresh, stop=stop)

    def load_source(self, url: str, *, refresh: bool, stop: Stop) -> Document:
        """The page as it was sent (HTML, Markdown, JSON…), decoded and free of control characters, without links.

        Its title is the last part of the URL. Otherwise as `load`; fails for a PDF.
        """
        return self._load(url, source=True, refresh=refresh, stop=stop)

    def kept(self, url: str, *, source: bool) -> Document | None:
        """What the cache has of it."""
        key = _key(url, source)
        return self._cache.get(key) if self._cache and key else None

    def _load(self, url: str, *, source: bool, refresh: bool, stop: Stop) -> Document:
        key = _key(url, source)
        kept = None if refresh else self.kept(url, source=source)
        if kept is not None:
            return kept
        self._converter.prepare()
        try:
            fetched = self._fetcher.fetch(url, stop=stop)
            document = self._converted(fetched, source, stop)
        except (FetchFailed, ConversionFailed) as error:
            raise ToolFailed(f"Error: {error.reason}", taints=frozenset()) from error
        whole = not fetched.remark and not document.text.endswith(CUT_PDF)
        if self._cache and key and whole and not fetched.private:
            self._cache.put(key, document)
        return document

    def _converted(self, fetched: Fetched, source: bool, stop: Stop) -> Document:
        url = urldefrag(fetched.url)[0]
        document = self._converter.convert(
            fetched.body,
            fetched.media_type,
            url=url,
            charset=fetched.charset,
            stop=stop,
            source=source,
            refresh=fetched.refresh,
        )
        remarks = [f"[{fetched.remark}]"] if fetched.remark else []
        if fetched.truncated:
            remarks.append(f"[cut here: the page is larger than {len(fetched.body) / 1e6:g} MB]")
        return replace(document, text="\n\n".join([document.text, *remarks]))


def _key(url: str, source: bool) -> str:
    """What the cache knows it by; empty for a URL that the fetcher is going to refuse."""
    try:
        return f"{'source ' if source else ''}{parse_url(url)}"
    except Refused:
        return ""
