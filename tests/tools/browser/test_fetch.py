"""Hostile rows 1 to 8 and 16 as the model meets them: `browser.open` through the toolbox, a real site and worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.tools.browser.browser import Browser
from ossia.tools.convert.converter import Converter, ConvertLimits
from ossia.tools.fetch.client import Fetcher
from ossia.tools.fetch.exchange import FetchLimits
from ossia.tools.fetch.loader import PageCache, WebLoader
from ossia.tools.toolbox import Toolbox
from tests.support.calls import call, toolbox_of
from tests.support.pdfs import pdf
from tests.support.site import Names, Site

NAMES = {"a.test": ["127.0.0.1"], "mixed.test": ["93.184.215.14", "10.0.0.1"], "evil.test": ["10.0.0.1"]}


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    made = Converter(ConvertLimits(max_pages=20))
    yield made
    made.close()


@pytest.fixture
def toolbox(site: Site, converter: Converter, tmp_path: Path) -> Iterator[Toolbox]:
    fetcher = Fetcher(
        allow_hosts=[site.at("a.test")], resolver=Names(NAMES), limits=FetchLimits(timeout_s=2, max_bytes=1_100_000)
    )
    loader = WebLoader(fetcher, converter, PageCache(tmp_path / "cache"))
    browser = Browser([], {"http": loader, "https": loader}, count_view_tokens=lambda text: len(text) // 4)
    made = toolbox_of(browser.tools, tmp_path)
    site.page("/first", "<p>the first page")
    assert "the first page" in open_page(made, tmp_path, site.url("/first", host="a.test"))
    site.connections = 0
    yield made
    made.close()


def open_page(toolbox: Toolbox, folder: Path, url: str) -> str:
    """The page, which the model sees under the next cursor."""
    called = call(toolbox, "browser.open", {"id": url}, folder=folder)
    assert not called.result.error, called.text
    return called.text


def refusal(toolbox: Toolbox, folder: Path, url: str) -> str:
    """Why it isn't opened: one line, nothing from outside in it, and nothing was pushed on the stack."""
    called = call(toolbox, "browser.open", {"id": url}, folder=folder)
    begin = f"Error fetching URL `{url}`: "
    assert called.result.error
    assert called.text.startswith(begin)
    assert "\n" not in called.text
    assert called.result.taints == frozenset()
    scroll = call(toolbox, "browser.open", {}, folder=folder)
    assert "the first page" in scroll.text
    return called.text.removeprefix(begin)


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "2130706433", "0x7f.1", "017700000001", "localhost", "127。0。0。1"),  # hostile row 1
        *("[::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[fe80::1]", "[fc00::1]"),  # hostile row 2
        *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fec0::1]"),
        *("169.254.169.254", "10.0.0.1", "100.64.0.1", "198.18.0.1", "224.0.0.1"),  # hostile row 3
        *("mixed.test", "evil.test"),  # hostile row 4
    ],
)
def test_what_is_not_public_is_refused_without_a_connection(
    toolbox: Toolbox, site: Site, tmp_path: Path, host: str
) -> None:
    """Hostile rows 1, 2, 3 and 4."""
    assert "isn't on the public internet" in refusal(toolbox, tmp_path, site.url("/x", host=host))
    assert site.connections == 0


@pytest.mark.parametrize("to", ["http://127.0.0.1:{next}/", "http://169.254.169.254/", "file:///etc/passwd", "/loop"])
def test_redirects_to_what_is_closed_and_in_circles(toolbox: Toolbox, site: Site, tmp_path: Path, to: str) -> None:
    """Hostile row 5."""
    site.redirect("/loop", to.format(next=site.port + 1))
    told = refusal(toolbox, tmp_path, site.url("/loop", host="a.test"))
    assert told == "too many redirects" if to == "/loop" else told.startswith("it redirects to a URL that can't be")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "data:text/html,x", "javascript:alert(1)", "gopher://a.test/"])
def test_other_schemes_are_refused(toolbox: Toolbox, tmp_path: Path, url: str) -> None:
    """Hostile row 6."""
    assert "http" in refusal(toolbox, tmp_path, url)


def test_userinfo_and_line_breaks_in_a_url_are_refused(toolbox: Toolbox, site: Site, tmp_path: Path) -> None:
    """Hostile row 6."""
    assert "user name" in refusal(toolbox, tmp_path, site.url("/", host="user:pw@a.test"))
    broken = site.url("/x\r\nX-Evil: 1", host="a.test")
    called = call(toolbox, "browser.open", {"id": broken}, folder=tmp_path)
    assert called.result.error
    assert called.text.endswith(": the URL holds a control character")
    assert site.connections == 0


def test_bombs_endless_bodies_drips_and_floods_of_headers(toolbox: Toolbox, site: Site, tmp_path: Path) -> None:
    """Hostile row 7."""
    site.bomb("/bomb", 100_000_000)
    site.endless("/endless")
    site.drip("/drip")
    site.many_headers("/headers")
    site.page("/br", b"\x0b\x02\x80x\x03", Content_Encoding="br")
    assert "L0:" in open_page(toolbox, tmp_path, site.url("/endless", host="a.test"))
    assert "(empty page)" in open_page(toolbox, tmp_path, site.url("/bomb", host="a.test"))
    open_page(toolbox, tmp_path, site.url("/first", host="a.test"))
    assert refusal(toolbox, tmp_path, site.url("/drip", host="a.test")) == "no whole answer within 2 s"
    assert "headers are too long" in refusal(toolbox, tmp_path, site.url("/headers", host="a.test"))
    assert "compressed in a way" in refusal(toolbox, tmp_path, site.url("/br", host="a.test"))


def test_pages_made_to_be_slow_are_text_or_too_complex(toolbox: Toolbox, site: Site, tmp_path: Path) -> None:
    """Hostile row 8; tests/tools/convert/test_convert.py has the larger ones."""
    site.page("/spaces", f"<p>a{' ' * 1_000_000}b")
    site.page("/nested", "<table><tr><td>" * 33_000 + "deep")
    for path in ("/spaces", "/nested"):
        assert "L0:" in open_page(toolbox, tmp_path, site.url(path, host="a.test"))
    assert "L0:" in open_page(toolbox, tmp_path, site.url("/first", host="a.test"))


def test_pdfs_that_cannot_be_read(toolbox: Toolbox, site: Site, tmp_path: Path) -> None:
    """Hostile row 16."""
    site.page("/locked.pdf", pdf(["secret"], encrypted=True), type="application/pdf")
    site.page("/broken.pdf", pdf(["x" * 500])[:300], type="application/pdf")
    site.page("/long.pdf", pdf([f"Number {n}" for n in range(10_000)]), type="application/pdf")
    assert "encrypted" in refusal(toolbox, tmp_path, site.url("/locked.pdf", host="a.test"))
    assert "damaged" in refusal(toolbox, tmp_path, site.url("/broken.pdf", host="a.test"))
    assert "Page 1" in open_page(toolbox, tmp_path, site.url("/long.pdf", host="a.test"))
