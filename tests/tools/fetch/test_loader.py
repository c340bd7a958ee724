"""The browser's loader for the web: fetch, convert, keep; and the cache of pages on disk."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.tools.browser.document import Document, Loader
from ossia.tools.convert.converter import Converter
from ossia.tools.fetch.client import Fetcher
from ossia.tools.fetch.exchange import FetchLimits
from ossia.tools.fetch.loader import PageCache, WebLoader
from ossia.tools.spec import NoStop, ToolFailed
from tests.support.pdfs import pdf
from tests.support.site import Names, Reply, Site, wait_until

ROOT = Path(__file__).parents[3]
CAPY = Document("Capy", "http://a.test/capy", "See 【0†about】 ü", {0: "http://a.test/about"})


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    made = Converter()
    yield made
    made.close()


@pytest.fixture
def cache(tmp_path: Path) -> PageCache:
    return PageCache(tmp_path / "cache")


def loader(site: Site, converter: Converter, cache: PageCache | None = None, **limits: float) -> WebLoader:
    made = WebLoader(Fetcher(allow_hosts=[site.at()], limits=FetchLimits(**limits)), converter, cache)  # type: ignore[arg-type]
    as_loader: Loader = made
    assert as_loader is made
    return made


def load(made: WebLoader, url: str, *, refresh: bool = False) -> Document:
    return made.load(url, refresh=refresh, stop=NoStop())


# -- the loader --------------------------------------------------------------------------------------------------------


def test_a_page_is_fetched_and_made_text(site: Site, converter: Converter) -> None:
    site.page("/capy", "<title>Capy</title><p>See <a href='/about'>about</a> \x1b]52;c;x\x07 【9†fake】")
    site.redirect("/old", "/capy#part")
    text = "See 【0†about】 ]52;c;x 〖9†fake〗"
    page = Document("Capy", site.url("/capy"), text, {0: site.url("/about")})
    assert load(loader(site, converter), site.url("/old#x")) == page


def test_other_kinds_and_their_sources(site: Site, converter: Converter) -> None:
    site.page("/notes.md", "# Notes\n\ntext", type="text/markdown")
    site.page("/paper.pdf", pdf(["Capybaras swim."], title="Paper"), type="application/octet-stream")
    site.page("/", "<p>Hello <b>you</b>")
    made = loader(site, converter)
    assert load(made, site.url("/notes.md")) == Document("notes.md", site.url("/notes.md"), "# Notes\n\ntext")
    assert load(made, site.url("/paper.pdf")).text == "Page 1\n\nCapybaras swim.\n"
    source = made.load(site.url("/"), source=True, refresh=False, stop=NoStop())
    assert source == Document("127.0.0.1", site.url("/"), "<p>Hello <b>you</b>")
    with pytest.raises(ToolFailed, match=r"^Error: a PDF has no source that could be read$"):
        made.load(site.url("/paper.pdf"), source=True, refresh=False, stop=NoStop())


def test_a_page_that_forwards_by_its_header_says_where_to(site: Site, converter: Converter) -> None:
    site.page("/none", "", Refresh="0; url=/there")
    site.page("/short", "<title>T</title><p>Wait <a href=/a>here</a>", Refresh="5;URL='/there'")
    site.page("/text", "a < b", type="text/plain", Refresh="0;/there")
    site.page("/long", "<p>" + "word " * 100, Refresh="0; url=/there")
    site.page("/itself", "news", Refresh="60")
    site.page("/script", "x", Refresh="0; url=javascript:alert(1)")
    pages = {path: load(loader(site, converter), site.url(f"/{path}")) for path in ("none", "short", "text")}
    note = f"[This page only forwards, to 【0†{site.url('/there')}】]"
    assert {path: (page.title, page.text) for path, page in pages.items()} == {
        "none": (f"127.0.0.1:{site.port}", note),
        "short": ("T", f"Wait 【0†here】\n\n{note.replace('0†', '1†')}"),
        "text": ("text", f"a < b\n\n{note}"),
    }
    assert pages["short"].links == {0: site.url("/a"), 1: site.url("/there")}
    others = [load(loader(site, converter), site.url(path)) for path in ("/long", "/itself", "/script")]
    assert [page.text[-4:] for page in others] == ["word", "news", "x"]
    source = loader(site, converter).load(site.url("/text"), source=True, refresh=False, stop=NoStop())
    assert source.text == "a < b"


def test_a_page_that_was_cut_says_so(site: Site, converter: Converter) -> None:
    site.page("/", "<p>" + "word " * 1000)
    text = load(loader(site, converter, max_bytes=2000), site.url("/")).text
    assert text.endswith("word wo\n\n[cut here: the page is larger than 0.002 MB]")


def test_a_failure_is_one_line_that_brings_nothing_in(site: Site, converter: Converter) -> None:
    site.page("/broken.pdf", b"%PDF-1.7 but no more", type="application/pdf")
    for url, told in {
        site.url("/none"): "Error: HTTP status 404 Not Found",
        site.url("/broken.pdf"): "Error: the PDF is damaged",
        "file:///etc/passwd": "Error: only http:// and https:// URLs can be opened",
    }.items():
        with pytest.raises(ToolFailed) as caught:
            load(loader(site, converter), url)
        assert (str(caught.value), caught.value.taints) == (told, frozenset())


def test_a_stop_while_a_page_loads_ends_it(site: Site, converter: Converter) -> None:
    site.drip("/")
    control, told = Control(), []

    def run() -> None:
        with pytest.raises(ToolFailed) as caught:
            loader(site, converter).load(site.url("/"), refresh=False, stop=control)
        told.append(str(caught.value))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: bool(site.requests))
    control.stop()
    thread.join(5)
    assert told == ["Error: interrupted by the user"]


def test_pages_of_hosts_that_only_the_user_opened_are_not_kept(
    site: Site, converter: Converter, cache: PageCache
) -> None:
    made = loader(site, converter, cache)
    url = site.url("/capy?q=1")
    cache.put(url, CAPY)
    assert load(made, f"{url}#part") == CAPY
    assert site.connections == 0
    site.page("/capy", "<p>new")
    assert load(made, url, refresh=True).text == "new"
    assert load(made, url) == CAPY  # the new one wasn't put there: the host may be closed the next time
    assert made.load(url, source=True, refresh=False, stop=NoStop()).text == "<p>new"
    assert site.connections == 2


def test_public_pages_are_kept(site: Site, converter: Converter, cache: PageCache) -> None:
    """Through a proxy: the one way to a public name that stays on this machine."""
    site.page("/capy", "<title>Capy</title><p>public")
    made = WebLoader(Fetcher(proxy=site.url(), resolver=Names()), converter, cache)
    first = load(made, "http://capy.example/capy")
    assert (first.text, load(made, "http://CAPY.example:80/capy#x"), site.connections) == ("public", first, 1)
    source = [made.load("http://capy.example/capy", source=True, refresh=False, stop=NoStop()) for _ in range(2)]
    assert ([document.text for document in source], site.connections) == (["<title>Capy</title><p>public"] * 2, 2)
    assert (load(made, "http://capy.example/capy", refresh=True), site.connections) == (first, 3)


def test_a_page_whose_end_may_be_missing_is_not_kept(site: Site, converter: Converter, cache: PageCache) -> None:
    sent = iter([b"<html><p>cut he", b"<html><p>whole</html>"])
    site.route("/", lambda _: Reply(iter([next(sent)]), headers={"Content-Type": "text/html"}))
    made = WebLoader(Fetcher(proxy=site.url(), resolver=Names()), converter, cache)
    texts = [load(made, "http://capy.example/").text for _ in range(3)]
    assert texts[0].startswith("cut he\n\n[the end of this page may be missing: ")
    assert (texts[1:], site.connections) == (["whole"] * 2, 2)


# -- the cache ---------------------------------------------------------------------------------------------------------


def test_what_is_kept_comes_back_and_is_private(cache: PageCache, tmp_path: Path) -> None:
    assert cache.get("http://a.test/capy") is None
    cache.put("http://a.test/capy", CAPY)
    assert cache.get("http://a.test/capy") == CAPY
    assert PageCache(tmp_path / "cache").get("http://a.test/capy") == CAPY
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    files = [path for path in (tmp_path / "cache").iterdir() if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert not any("a.test" in path.name for path in files)


def test_a_page_grows_old(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    PageCache(folder).put("k", CAPY)
    (file,) = folder.glob("*.json")
    before = file.stat().st_mtime - 3601
    os.utime(file, (before, before))
    assert PageCache(folder).get("k") is None
    assert PageCache(folder, max_age_s=7200).get("k") == CAPY
    assert PageCache(folder, max_age_s=None).get("k") == CAPY
    assert file.stat().st_mtime == pytest.approx(before)  # reading doesn't make it younger


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b'{"key": "other"}', b'{"key": "k", "title": 1}', b"[" * 100_000,
     b'{"key": "k", "title": "", "url": "", "text": "", "links": {"x": ""}}'],
)  # fmt: skip
def test_a_damaged_entry_is_dropped(cache: PageCache, tmp_path: Path, content: bytes) -> None:
    cache.put("k", CAPY)
    (file,) = (tmp_path / "cache").glob("*.json")
    file.write_bytes(content)
    assert cache.get("k") is None
    assert not file.exists()


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "cache", max_bytes=50_000)
    page = Document("t", "u", "x" * 9_000)
    for number in range(5):
        cache.put(str(number), page)
        for file in (tmp_path / "cache").glob("*.json"):  # older by ten seconds, whatever the clock's steps are
            status = file.stat()
            os.utime(file, (status.st_atime - 10, status.st_mtime))
    assert cache.get("0") == page
    cache.put("5", page)
    assert [number for number in range(6) if cache.get(str(number))] == [0, 3, 4, 5]  # down to nine tenths
    assert sum(file.stat().st_size for file in (tmp_path / "cache").iterdir()) <= 50_000


def test_a_page_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "cache", max_bytes=1000)
    cache.put("k", Document("t", "u", "x" * 2000))
    assert cache.get("k") is None


def test_a_folder_that_cannot_be_written_fails_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = PageCache(tmp_path / "file" / "cache")
    cache.put("k", CAPY)
    assert cache.get("k") is None


def test_text_that_has_no_encoding_is_kept_without_it(cache: PageCache) -> None:
    cache.put("k", Document("\ud800", "u", "t"))
    assert cache.get("k") == Document("?", "u", "t")


def test_two_processes_at_once_do_no_harm(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ossia.tools.browser.document import Document\n"
        "from ossia.tools.fetch.loader import PageCache\n"
        "cache = PageCache(Path(sys.argv[1]), max_bytes=40_000)\n"
        "for n in range(300):\n"
        "    key = str(n % 7)\n"
        "    cache.put(key, Document(key, key, key * 5000))\n"
        "    got = cache.get(str((n + 3) % 7))\n"
        "    assert got is None or got.text == got.title * 5000\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "cache")]
    children = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
    left = list((tmp_path / "cache").glob("*"))
    assert not [path for path in left if path.name.startswith(".new-")]
    assert all(json.loads(path.read_bytes())["key"] for path in left if path.suffix == ".json")
