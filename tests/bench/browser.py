"""`python -m tests.bench.browser [FILE.html…]`: what a `browser.open` costs after the fetch.

Of a page of 100 kB made here, and of the files that are named: the fetch alone, the conversion in a worker that runs
(warm) and with its start (cold), and the whole call through the toolbox, from a site on loopback and from the cache.
"Processor" is this process and the worker together: what it would take on an idle machine at the least.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ossia.harmony.tokenizer import Tokenizer, vocabulary_from_byte_level
from ossia.tools.browser.browser import Browser
from ossia.tools.convert.converter import Converter
from ossia.tools.fetch.client import Fetcher
from ossia.tools.fetch.loader import PageCache, WebLoader
from ossia.tools.spec import NoStop
from tests.bench.report import Report, options
from tests.support.calls import call, toolbox_of
from tests.support.site import Names, Site
from tests.support.vocabularies import ETUDE, gguf_tokens

ROUNDS = 15
TARGET_MS = 150


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE.html")
    given = parser.parse_args(argv)
    report = Report("browser", "lxml", "pypdfium2")
    report.settings |= {"rounds": ROUNDS, "wanted_after_the_fetch_ms": TARGET_MS}
    pages = {"made here": made_page(100_000)} | {path.name: path.read_bytes() for path in given.files}
    for name, body in pages.items():
        _measure(report, f"{name}, {len(body) / 1000:.0f} kB", body)
    report.print(as_json=given.json)


def made_page(size: int) -> bytes:
    """HTML as an encyclopedia has it: sections, paragraphs with links, lists, a table."""
    parts = ["<!doctype html><html><head><title>Capybaras</title><style>p { color: red }</style></head><body>"]
    while sum(map(len, parts)) < size:
        n = len(parts)
        links = " ".join(f"<a href='/wiki/Animal_{n}_{k}' title='x'>animal {k}</a> and some words," for k in range(5))
        items = "".join(f"<li class=item><span>point {k}</span> of <i>many</i></li>" for k in range(5))
        cells = "".join(f"<tr><td>row {k}</td><td>{k * n}</td></tr>" for k in range(4))
        parts.append(f"<h2 id=s{n}>Section {n}</h2><p>The capybara {links}<sup>{n}</sup></p><ul>{items}</ul>"
                     f"<table>{cells}</table>")  # fmt: skip
    return "".join(parts).encode()


def _measure(report: Report, page: str, body: bytes) -> None:
    cold = _timed(lambda: _convert(Converter(), body, close=True), rounds=5)
    _tell(report, page, "conversion, cold", cold)
    converter = Converter()
    _convert(converter, body)
    started = _children_s()
    warm = [_wall_ms(lambda: _convert(converter, body)) for _ in range(ROUNDS)]
    converter.close()
    worker_ms = ((_children_s() - started) * 1000 - cold[1]) / ROUNDS
    _tell(report, page, "conversion, warm", (statistics.median(warm), worker_ms))
    with Site() as site, tempfile.TemporaryDirectory() as folder:
        site.page("/page", body)
        fetcher = Fetcher(proxy=site.url(), resolver=Names())  # by way of which a public name stays on this machine
        fetch = _timed(lambda: fetcher.fetch("http://capy.example/page", stop=NoStop()))
        _tell(report, page, "fetch on loopback", fetch)
        _open(WebLoader(fetcher, Converter(), PageCache(Path(folder) / "cache")), report, page, fetch[0])


def _open(loader: WebLoader, report: Report, page: str, fetch_ms: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _open_in(Path(folder), loader, report, page, fetch_ms)


def _open_in(folder: Path, loader: WebLoader, report: Report, page: str, fetch_ms: float) -> None:
    tokens, types = gguf_tokens(ETUDE)
    tokenizer = Tokenizer(vocabulary_from_byte_level(tokens, token_types=types))
    browser = Browser([], {"http": loader}, count_view_tokens=lambda text: len(tokenizer.encode(text)))
    toolbox = toolbox_of(browser.tools, folder)

    def again(arguments: dict[str, object]) -> None:
        called = call(toolbox, "browser.open", arguments, folder=folder)
        assert not called.result.error, called.text

    url = "http://capy.example/page"
    again({"id": url})
    whole = _timed(lambda: again({"id": url}))
    _tell(report, page, "browser.open of a URL, in all", whole)
    _tell(report, page, "of it after the fetch", (whole[0] - fetch_ms, 0.0))
    _tell(report, page, "a page from the cache", _timed(lambda: loader.load(url, refresh=False, stop=NoStop())))
    _tell(report, page, "a scroll", _timed(lambda: again({"loc": 100})))
    toolbox.close()


def _convert(converter: Converter, body: bytes, *, close: bool = False) -> None:
    converter.convert(body, "text/html", url="http://capy.example/page", charset=None, stop=NoStop())
    if close:
        converter.close()


def _timed(what: Callable[[], object], *, rounds: int = ROUNDS) -> tuple[float, float]:
    """Median wall milliseconds, and processor milliseconds of a round (those of a worker that ended, too)."""
    started = time.process_time() + _children_s()
    walls = [_wall_ms(what) for _ in range(rounds)]
    return statistics.median(walls), (time.process_time() + _children_s() - started) * 1000 / rounds


def _wall_ms(what: Callable[[], object]) -> float:
    started = time.perf_counter()
    what()
    return (time.perf_counter() - started) * 1000


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tell(report: Report, page: str, what: str, times: tuple[float, float]) -> None:
    wall_ms, cpu_ms = times
    report.row("medians", page=page, what=what, wall_ms=wall_ms, cpu_ms=cpu_ms if cpu_ms > 0 else None)


if __name__ == "__main__":
    main()
