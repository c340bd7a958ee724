"""Web search services, asked over loopback through the client that the program asks them through."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.tools.browser.document import Hit, Source
from ossia.tools.browser.web import KINDS, web_source
from ossia.tools.fetch.client import JsonClient
from ossia.tools.fetch.exchange import FetchLimits
from ossia.tools.spec import NoStop, ToolFailed
from tests.support.search_services import KEY, Services, search_services

SERVICES = tuple(kind for kind in KINDS if kind != "ddgs")
HITS = (
    Hit("Capybara facts", "http://a.test/capy", "The largest living rodent."),
    Hit("How <b> and <script> work", "http://b.test/x?a=1&b=2", ""),  # hostile row 13: text, whatever it spells
)


@pytest.fixture
def services() -> Iterator[Services]:
    with search_services() as serving:
        yield serving


def _source(services: Services, kind: str, *, timeout_s: float = 20.0) -> Source:
    def client(base: str) -> JsonClient:
        return JsonClient(base, limits=replace(FetchLimits(), timeout_s=timeout_s))

    return web_source(kind, url=services.url(kind), key=None if kind == "searxng" else f"{KEY}\n", client=client)


@pytest.mark.parametrize("kind", SERVICES)
def test_each_service_gives_hits(services: Services, kind: str) -> None:
    source = _source(services, kind)
    assert (source.name, source.taints, source.sends) == ("web", frozenset({"outside"}), True)
    assert source.search("capybara", limit=7, stop=NoStop()) == HITS
    assert source.search("capybara", limit=1, stop=NoStop()) == HITS[:1]


WANTED: dict[str, tuple[str, dict[str, object], dict[str, str]]] = {
    "searxng": ("GET", {"q": "ä & b", "format": "json"}, {}),
    "brave": ("GET", {"q": "ä & b", "count": "7"}, {"x-subscription-token": KEY}),
    "exa": (
        "POST",
        {"query": "ä & b", "numResults": 7, "contents": {"summary": True, "text": {"maxCharacters": 500}}},
        {"x-api-key": KEY},
    ),
    "mojeek": ("GET", {"q": "ä & b", "fmt": "json", "t": "7", "api_key": KEY}, {}),
    "serper": ("POST", {"q": "ä & b", "num": 7}, {"x-api-key": KEY}),
    "tavily": ("POST", {"query": "ä & b", "max_results": 7}, {"authorization": f"Bearer {KEY}"}),
    "you": ("GET", {"query": "ä & b", "count": "7"}, {"x-api-key": KEY}),
}


@pytest.mark.parametrize("kind", SERVICES)
def test_each_service_is_asked_in_its_own_way(services: Services, kind: str) -> None:
    _source(services, kind).search("ä & b", limit=7, stop=NoStop())
    (asked,) = services.asked
    method, fields, headers = WANTED[kind]
    assert asked.method == method
    assert (asked.params if method == "GET" else asked.body) == fields
    assert {name: asked.headers[name] for name in headers} == headers
    assert asked.headers["accept"] == "application/json"


def test_a_searxng_without_json_says_what_to_change(services: Services) -> None:
    services.status = 403
    with pytest.raises(ToolFailed, match=r"403.*enable json in settings\.yml search\.formats"):
        _source(services, "searxng").search("capybara", limit=5, stop=NoStop())


def test_a_searxng_has_no_key_to_speak_of(services: Services) -> None:
    services.status = 429
    with pytest.raises(ToolFailed, match=r"too many searches$"):
        _source(services, "searxng").search("capybara", limit=5, stop=NoStop())


@pytest.mark.parametrize(("status", "said"), [(401, "does not take the key"), (403, "does not take the key"),
                                              (429, "too many searches"), (500, "500")])  # fmt: skip
def test_what_a_service_refuses_is_one_line_without_the_key(services: Services, status: int, said: str) -> None:
    services.status, services.raw = status, f"no {KEY}\n for you".encode()
    for kind in SERVICES[1:]:
        source = _source(services, kind)
        with pytest.raises(ToolFailed, match=said) as failure:
            source.search("capybara", limit=5, stop=NoStop())
        told = str(failure.value)
        assert "\n" not in told and KEY not in told and str(status) in told
        assert KEY not in repr(source) and KEY not in repr(failure.value.__cause__)


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b'"x"', b"nul", b"\xff", b"[" * 100_000])
def test_an_answer_that_is_none(services: Services, raw: bytes) -> None:
    services.raw = raw
    with pytest.raises(ToolFailed, match="JSON") as failure:
        _source(services, "searxng").search("capybara", limit=5, stop=NoStop())
    assert "\n" not in str(failure.value)


def test_a_service_that_is_not_there() -> None:
    with search_services() as services:
        source = _source(services, "searxng")
    with pytest.raises(ToolFailed, match="gave no answer"):
        source.search("capybara", limit=5, stop=NoStop())


def test_a_service_that_is_slow_and_one_that_the_user_stops(services: Services) -> None:
    services.answers_after_s = 30
    with pytest.raises(ToolFailed, match="gave no answer"):
        _source(services, "searxng", timeout_s=0.2).search("capybara", limit=5, stop=NoStop())
    control = Control()
    control.stop()
    with pytest.raises(ToolFailed):
        _source(services, "searxng").search("capybara", limit=5, stop=control)


def test_results_that_are_junk_are_passed_by(services: Services) -> None:
    services.answers["/search"] = {
        "results": [
            None,
            "x",
            {},
            {"url": None, "title": "no URL"},
            {"url": "javascript:alert(1)", "title": "x"},
            {"url": "file:///etc/passwd", "title": "x"},
            {"url": "ftp://a.test/x", "title": "x"},
            {"url": "doc:17", "title": "not this one's to give"},
            {"url": "http://[::1", "title": "x"},
            {"url": "http://a.test/a b", "title": "x"},
            {"url": "http://a.test/" + "a" * 3000, "title": "x"},
            {"url": "http://a.test/1", "title": {"x": 1}, "content": {"a": 1}},
            {"url": "http://a.test/1", "title": "twice"},
        ]
    }
    assert _source(services, "searxng").search("x", limit=20, stop=NoStop()) == (
        Hit("http://a.test/1", "http://a.test/1", ""),
    )
    answers: tuple[dict[str, object], ...] = ({}, {"results": None}, {"results": {"a": 1}}, {"web": {"results": 1}})
    for answer in answers:
        services.answers["/search"] = services.answers["/res/v1/web/search"] = answer
        assert _source(services, "searxng").search("x", limit=20, stop=NoStop()) == ()
        assert _source(services, "brave").search("x", limit=20, stop=NoStop()) == ()


def test_controls_in_results_are_gone(services: Services) -> None:  # hostile row 10
    hostile = "a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\u202ed\x9be\r\nf"
    urls = ("http://a.test/\x1b[2J", "http://b.test/")
    services.answers["/search"] = {"results": [{"url": url, "title": hostile, "content": hostile} for url in urls]}
    text = "abc d e f"
    assert _source(services, "searxng").search("x", limit=20, stop=NoStop()) == (Hit(text, "http://b.test/", text),)


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        ("google", None, "unknown search service 'google': choose one of searxng, brave"),
        ("searxng", None, "searxng needs a url"),
        ("brave", None, "brave needs a key"),
        ("tavily", " \n", "tavily needs a key"),
        ("tavily", "a\nHost: evil.test", "tavily's key has spaces or other characters that a key can't have"),
        ("tavily", "schlüssel", "tavily's key has"),
    ],
)
def test_settings_that_lack_something(kind: str, key: str | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        web_source(kind, key=key, client=JsonClient)


def test_the_services_own_addresses() -> None:
    bases: list[str] = []

    def client(base: str) -> JsonClient:
        bases.append(base)
        return JsonClient(base)

    for kind in SERVICES[1:]:
        web_source(kind, key=KEY, client=client)
    assert bases == [
        "https://api.search.brave.com/res/v1/",
        "https://api.exa.ai/",
        "https://api.mojeek.com/",
        "https://google.serper.dev/",
        "https://api.tavily.com/",
        "https://api.ydc-index.io/",
    ]


# -- ddgs --------------------------------------------------------------------------------------------------------------

_PACKAGE = """
class DDGS:
    def text(self, query, max_results):
        if query == "raise":
            raise RuntimeError("no\\nanswer")
        if query == "wait":
            import time
            time.sleep(5)
        return [{"title": f"About {query}", "href": "http://a.test/", "body": "x\\x1b[2J"}, {"href": "data:x"}] * 3
"""


@pytest.mark.skipif(find_spec("ddgs") is not None, reason="ddgs is installed")
def test_ddgs_is_an_extra() -> None:
    with pytest.raises(ValueError, match=r"uv tool install '\.\[ddgs\]'"):
        web_source("ddgs", client=JsonClient)


def test_what_ddgs_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ddgs.py").write_text(_PACKAGE)  # the face of ddgs 9.16.1: it can't run without the internet
    monkeypatch.syspath_prepend(tmp_path)
    source = web_source("ddgs", client=JsonClient)
    try:
        hit = Hit("About capybaras", "http://a.test/", "x")
        assert source.search("capybaras", limit=2, stop=NoStop()) == (hit, hit)
        with pytest.raises(ToolFailed, match=r"^ddgs: no answer$"):
            source.search("raise", limit=2, stop=NoStop())
        with pytest.raises(ToolFailed, match="within"):
            replace(source, timeout_s=0.05).search("wait", limit=2, stop=NoStop())  # type: ignore[type-var]
        control = Control()
        control.stop()
        with pytest.raises(ToolFailed, match="interrupted"):
            source.search("wait", limit=2, stop=control)
    finally:
        sys.modules.pop("ddgs", None)
