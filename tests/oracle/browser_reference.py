"""Runs in the reference's own Python: reads pages as JSON lines, answers with what the reference browser shows.

It needs the package gpt-oss 0.0.9 and nothing of ours. `mend` in a request names the faults of the reference that are
repaired for it (`tests.oracle.browser` lists them), so that a page that meets one can still be compared by the letter.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from typing import Any
from urllib.parse import urljoin, urlparse

from gpt_oss.tools.simple_browser import backend, page_contents, simple_browser_tool

_ORIGINAL = {
    "get_domain": page_contents.get_domain,
    "_remove_math": page_contents._remove_math,
    "urljoin": page_contents.urljoin,
    "arxiv_to_ar5iv": page_contents.arxiv_to_ar5iv,
}
_TOOL = {"strip_links": simple_browser_tool.strip_links, "get_tokens": simple_browser_tool.get_tokens}
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f\ufffd]"
)


def _only_web(url: str) -> str:
    link = "http" not in url or urlparse(url).scheme in ("http", "https")
    return _ORIGINAL["get_domain"](url) if link and not re.match(r"\s*(?!https?:)[a-z][a-z0-9+.-]*:", url, re.I) else ""


def _remove_formulas_only(root: Any) -> None:
    for node in root.findall(".//math"):
        page_contents.replace_node_with_text(node, "")


def _host_to_ar5iv(url: str) -> str:
    parts = urlparse(url)
    return url if "arxiv.org" not in parts.netloc else url.replace("arxiv.org", "ar5iv.org", 1)


def _strip_links_not_lines(text: str) -> str:
    return re.sub(r"【\d+†([^†】]+)((?:†[^†】]+)?】)", lambda link: link[1] + "\n" * link[2].count("\n"), text)


def _tokens_with_offsets(text: str, name: str) -> Any:
    encoding = simple_browser_tool.tiktoken.get_encoding(name)
    tokens = encoding.encode(text, disallowed_special=())
    return simple_browser_tool.Tokens(tokens=tokens, tok2idx=encoding.decode_with_offsets(tokens)[1])


class _Files:
    """A backend: the page of the request, whatever URL is asked for; its hits, whatever is searched."""

    source = "web"

    async def fetch(self, url: str, session: object) -> Any:
        return _page(_request)

    async def search(self, query: str, topn: int, session: object) -> Any:
        asked = _request["hits"]
        answer = {"results": [{"title": title, "url": url, "summary": text} for title, url, text in asked]}

        async def post(*_: object) -> Any:
            return answer

        backend.ExaBackend._post = post
        return await backend.ExaBackend(source="web").search(query, topn, session)


def _mended(mend: list[str], html: str) -> str:
    for name, original in _ORIGINAL.items():
        setattr(page_contents, name, original)
    for name, original in _TOOL.items():
        setattr(simple_browser_tool, name, original)
    if "declaration" in mend:
        html = re.sub(r"^\ufeff?\s*<\?xml\b[^>]*>", "", html)
    if "web" in mend:
        page_contents.get_domain = _only_web
    if "formula" in mend:
        page_contents._remove_math = _remove_formulas_only
    if "base" in mend:
        base = re.search(r"<base[^>]*\bhref\s*=\s*[\"']?([^\"'\s>]+)", html, re.I)
        page_contents.urljoin = lambda url, link: urljoin(urljoin(url, base[1]) if base else url, link.strip())
    if "brackets" in mend:
        asked = page_contents.get_domain
        page_contents.get_domain = lambda url: asked(url).replace("†", "‡")
        html = re.sub(r"&#(?:12304|x3010);", "〖", html, flags=re.I)
        html = re.sub(r"&#(?:12305|x3011);", "〗", html, flags=re.I)
    if "ar5iv" in mend:
        page_contents.arxiv_to_ar5iv = _host_to_ar5iv
    if "find" in mend:
        simple_browser_tool.strip_links = _strip_links_not_lines
    if "view" in mend:
        simple_browser_tool.get_tokens = _tokens_with_offsets
    return html


def _page(request: dict[str, Any]) -> Any:
    mend = request["mend"]
    page = page_contents.process_html(_mended(mend, request["html"]), request["url"], None, display_urls=True)
    if "title" in mend:
        page.title = " ".join(page.title.split())
    if "controls" in mend:
        page.text, page.title = _CONTROLS.sub("", page.text), _CONTROLS.sub("", page.title)
    if "deep" in mend:
        notice = "[The rest of this page is missing: it stands in more than 255 elements, one in the other.]"
        page.text = page.text.rstrip("\n") + f"\n\n{notice}"
    if "empty" in mend and page.text == f"\nURL: {request['url']}\n":
        page.text += "(empty page)"
    return page


async def _last(messages: Any) -> str:
    texts = [message.content[0].text async for message in messages]
    return str(texts[-1])


async def _answer(request: dict[str, Any]) -> dict[str, Any]:
    tool = simple_browser_tool.SimpleBrowserTool(backend=_Files())
    if "hits" in request:
        _mended(request["mend"], "")
        return {"search": await _last(tool.search(query=request["query"]))}
    page = _page(request)
    views = [await _last(tool.open(id=request["url"]))]
    for loc, num_lines in request["views"]:
        views.append(await _last(tool.open(cursor=0, loc=loc, num_lines=num_lines)))
    finds = [await _last(tool.find(pattern=pattern, cursor=0)) for pattern in request["finds"]]
    return {"title": page.title, "text": page.text, "links": page.urls, "views": views, "finds": finds}


def _too_long(*_: object) -> None:
    raise TimeoutError("the reference took too long")


_request: dict[str, Any] = {}


def main() -> None:
    global _request
    signal.signal(signal.SIGALRM, _too_long)
    for line in sys.stdin:
        _request = json.loads(line)
        signal.alarm(int(_request.get("timeout_s", 20)))
        try:
            answer = asyncio.run(_answer(_request))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        finally:
            signal.alarm(0)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
