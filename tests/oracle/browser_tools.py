"""Compare the browser's tools with the reference tool, call by call:

    python -m tests.oracle.browser_tools --count 2000 --seed 1 --oracle VENV/bin/python

The reference is the package gpt-oss 0.0.9 in a Python >= 3.12 of its own; without `--oracle` one is made in `--cache`.
Both get the same pages and the same random runs of calls. A run is compared up to the first text that differs; if that
difference is one that is meant (they are listed in `MEANT`), it is counted, else printed, and the command exits 1.
`--write-golden` keeps a few runs on small pages, with what the reference gave, for the test in the suite.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiktoken

from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Hit
from ossia.tools.browser.page import Page
from ossia.tools.convert._html import document_from_html
from ossia.tools.spec import NoStop, ToolCall, ToolContext, ToolResult
from ossia.tools.toolbox import Toolbox
from tests.oracle.browser import make_environment
from tests.support.pages import Pages, Results
from tests.support.vocabularies import o200k_in_environment, write_o200k

GOLDEN = Path(__file__).parents[1] / "golden" / "browser_tools.json"
Call = tuple[str, str]
"""A function and the text of its arguments."""

MEANT: Mapping[str, str] = {
    "earlier search": "a cursor shows the search that it showed, not the newest one (spec §1.2, 1)",
    "raised": "arguments that make the reference raise are answered (§1.2, 3)",
    "number": 'a link "3" or 3.0, a cursor 3.0 are 3; true is told by the toolbox (§1.2, 4)',
    "source": "view_source is not shown the page itself (§1.2, 5)",
    "empty pattern": "an empty pattern is refused (§1.2, 6)",
    "negative cursor": "a cursor below -1 is out of range (§1.2, 7)",
    "match line": "a match's line is counted where a link is broken into two lines (§1.2, 2)",
    "toolbox": "names and arguments that can't be read are told in the toolbox's words",
}

_BROKEN_LINK = re.compile("【\\d+†[^†】]+†[^†】]*\n[^†】]*】")
_WORDS = [
    *("capybara", "water", "the", "largest", "rodent", "swims", "near", "Wasser", "水", "émigré", "x-ray", "of", "and"),
    *("long-haired", "its", "http://a.b"),
]
_URLS = tuple(f"http://{host}/{page}" for host in ("a.test", "b.test") for page in ("", "one", "two.html", "three?x=1"))
_WIDE = "http://a.very-long-domain-name.of-many-parts.example-of-a-test.test/wide"
_QUERIES = ("capybara", "two words", "nothing found", "fails")


def html_page(source: random.Random, *, sizes: Sequence[int]) -> str:
    """A page with links to the others, lists, code, and lines that must be wrapped."""

    def words(most: int) -> str:
        return " ".join(source.choices(_WORDS, k=source.randrange(1, most)))

    def link() -> str:
        url = source.choice([*_URLS, "/one", "#part", "mailto:x@a.test", _WIDE])
        return f'<a href="{url}">{words(6)}</a>'

    def block() -> str:
        inside = " ".join(source.choice((words(40), link())) for _ in range(source.randrange(1, 6)))
        shape = source.choice(("<p>{}</p>", "<h2>{}</h2>", "<ul><li>{}<li>x</ul>", "<div>{}</div>", "<p>{}<br>x</p>"))
        return shape.format(inside)

    blocks = "\n".join(block() for _ in range(source.choice(sizes)))
    return f"<html><head><title>{words(8)}</title></head><body>{blocks}</body></html>"


def run_of_calls(source: random.Random) -> list[Call]:
    """Up to ten calls; most of them make sense."""

    def cursor() -> dict[str, object]:
        if source.random() < 0.6:
            return {}
        return {"cursor": source.choice((-1, 0, 0, 0, 1, 1, 2, 3, 5, 77, -3, "1", 1.0))}

    def place() -> dict[str, object]:
        place: dict[str, object] = {}
        if source.random() < 0.3:
            place["loc"] = source.choice((-1, 0, 3, 3, 20, 20, 50, 99999, "3"))
        if source.random() < 0.2:
            place["num_lines"] = source.choice((-1, 0, 1, 7, 500))
        return place

    def call() -> tuple[str, object]:
        match source.randrange(9):
            case 0:
                more = source.choice(({}, {"topn": 5}, {"source": "web"}))
                return "search", {"query": source.choice(_QUERIES), **more}
            case 1:
                return "open", {"id": source.choice((*_URLS, "http://a.test/none", _WIDE)), **place()}
            case 2 | 3 | 4:
                link = source.choice((*range(12), *range(12), 99, "1", 1.0, True))
                return "open", {"id": link, **cursor(), **place()}
            case 5:
                return "open", {**cursor(), **place()}
            case 6 | 7:
                return "find", {"pattern": source.choice(("capy", "WATER", "a", "zzz", "水", "x-ray", "")), **cursor()}
            case _:
                return source.choice(
                    [("open", {"view_source": True}), ("open", []), ("open", "{"), ("search", {}), ("find", {"x": 1}),
                     ("open", {"line": 3}), ("click", {}), ("open", "")]
                )  # fmt: skip

    first: list[tuple[str, object]] = [("search", {"query": "capybara"}), ("open", {"id": source.choice(_URLS)})]
    calls = [source.choice(first)]
    for _ in range(source.randrange(2, 10)):
        after_find = calls[-1][0] == "find" and source.random() < 0.5
        calls.append(("open", {"id": source.choice((0, 1, 3))}) if after_find else call())
    return [(name, args if isinstance(args, str) else json.dumps(args)) for name, args in calls]


def walk(url: str, pattern: str) -> list[Call]:
    """A page, a find in it, and the first places that were found."""
    calls: list[tuple[str, object]] = [("open", {"id": url, "num_lines": 3}), ("find", {"pattern": pattern})]
    calls += [("open", {"id": number, "cursor": 1, "num_lines": 4}) for number in (0, 1, 2)]
    return [(name, json.dumps(args)) for name, args in calls]


@dataclass(frozen=True, slots=True)
class Task:
    """What both get."""

    pages: dict[str, str]
    hits: dict[str, list[tuple[str, str, str]]]
    runs: list[list[Call]]


def make_task(*, count: int, seed: int, sizes: Sequence[int] = (1, 5, 60)) -> Task:
    """`sizes`: how many blocks a page may have."""
    source = random.Random(seed)
    pages = {url: html_page(source, sizes=sizes) for url in (*_URLS, _WIDE)}
    hits = {
        query: [(" ".join(source.choices(_WORDS[:-1], k=3)), url, "Some text.") for url in source.sample(_URLS, k=size)]
        for query, size in (("capybara", 5), ("two words", 3), ("nothing found", 0))
    }
    walks = [walk(url, pattern) for url in _URLS[:3] for pattern in ("a", "capy", "water")]
    return Task(pages, hits, [*walks, *(run_of_calls(source) for _ in range(count))])


def reference_answers(python: str, task: Task, o200k: Path) -> list[list[Any]]:
    """What the reference gives, in a process of its environment."""
    script = Path(__file__).with_name("_browser_tools_reference.py")
    done = subprocess.run(
        [python, "-I", script],
        input=json.dumps({"pages": task.pages, "hits": task.hits, "runs": task.runs}),
        capture_output=True,
        text=True,
        timeout=1800,
        env={**os.environ, "TIKTOKEN_CACHE_DIR": str(o200k)},
    )
    if done.returncode:
        raise SystemExit(f"the reference failed:\n{done.stderr[-4000:]}")
    answers: list[list[Any]] = json.loads(done.stdout)
    return answers


@dataclass(frozen=True, slots=True)
class Answer:
    """Our answer.

    `broken`: it is of a find in a page that has a link with its host name broken into two lines. `searched`: the call
    is about search results, or a find in them.
    """

    text: str
    broken: bool
    searched: bool


class Ours:
    """Our tools over the same pages."""

    def __init__(self, task: Task, encoding: tiktoken.Encoding) -> None:
        self._pages = Pages({url: document_from_html(page, url) for url, page in task.pages.items()}, task.pages)
        self._hits = {query: tuple(Hit(*row) for row in rows) for query, rows in task.hits.items()}
        self._count = lambda text: len(encoding.encode_ordinary(text))

    def answers(self, calls: list[Call]) -> Iterator[Answer]:
        """What our tools give, one answer for each call."""
        states: list[Mapping[str, Any]] = []  # each with its page
        web = Results("web", self._hits)
        browser = Browser([web], {"http": self._pages, "https": self._pages}, count_view_tokens=self._count)
        context = ToolContext(stop=NoStop(), workspace=None, data_dir=Path(), count_tokens=len)
        toolbox = Toolbox(
            browser.tools, policy=Policy([Rule("*", "allow")]), context=context, max_result_tokens=10_000_000
        )
        for name, arguments in calls:
            running = toolbox.run(ToolCall("c", f"browser.{name}", arguments), stop=NoStop())
            about = _is_about_search(arguments, states)
            while True:
                try:
                    next(running)
                except StopIteration as stop:
                    result: ToolResult = stop.value
                    break
            if result.state is None:
                yield Answer(result.text, False, about)
                continue
            state = result.state
            states.append(states[_int(state["same_as"])] if "same_as" in state else state)
            searched = states[_int(state["found_in"])] if "found_in" in state else None
            broken = bool(searched and _BROKEN_LINK.search("\n".join(Page.from_json(searched["page"]).lines)))
            yield Answer(result.text, broken, about)


def _is_about_search(arguments: str, states: list[Mapping[str, Any]]) -> bool:
    """Does a call's cursor show search results, or a find in them?"""
    try:
        cursor = json.loads(arguments or "{}").get("cursor", -1)
        state = states[cursor]
    except (ValueError, AttributeError, TypeError, IndexError):
        return False
    if "found_in" in state:
        state = states[_int(state["found_in"])]
    return bool(state["page"]["kind"] == "search")


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def meant(call: Call, ours: Answer, theirs: Any) -> str | None:
    """Which difference of `MEANT` a call shows where the answers differ; None: none."""
    name, text = call
    try:
        args = json.loads(text or "{}")
    except ValueError:
        args = None
    if not isinstance(args, dict) or name == "click":
        return "toolbox"
    if isinstance(theirs, dict) or isinstance(args.get("loc"), str):
        return "raised"
    number, cursor = args.get("id"), args.get("cursor", -1)
    if number is True or number in ("1",) or isinstance(number, float) or isinstance(cursor, float):
        return "number"
    if isinstance(cursor, int) and cursor < -1:
        return "negative cursor"
    if args.get("view_source"):
        return "source"
    if name == "find" and (not args.get("pattern") or ours.broken):
        return "match line" if args.get("pattern") else "empty pattern"
    return "earlier search" if ours.searched else None


def write_golden(python: str, *, seed: int) -> None:
    """Keep 30 runs and what the reference gave."""
    task = make_task(count=30, seed=seed, sizes=(1, 12, 12))
    with tempfile.TemporaryDirectory() as folder:
        theirs = reference_answers(python, task, write_o200k(Path(folder)))
    kept = {"pages": task.pages, "hits": task.hits, "runs": task.runs, "answers": theirs}
    GOLDEN.write_text(json.dumps(kept, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2_000, help="runs of up to ten calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--oracle", help="a Python that has the reference")
    parser.add_argument("--cache", type=Path, help="a folder for a Python with the reference, made if it isn't there")
    parser.add_argument("--write-golden", action="store_true")
    options = parser.parse_args()
    if not options.oracle and not options.cache:
        parser.error("give --oracle PYTHON or --cache FOLDER")
    python = options.oracle or make_environment(options.cache)
    if options.write_golden:
        write_golden(python, seed=options.seed)
        return 0
    started = time.monotonic()
    task = make_task(count=options.count, seed=options.seed)
    with tempfile.TemporaryDirectory() as folder:
        o200k = write_o200k(Path(folder))
        theirs = reference_answers(python, task, o200k)
        with o200k_in_environment(o200k):
            encoding = tiktoken.get_encoding("o200k_base")
    equal, counted, wrong = compare(Ours(task, encoding), task.runs, theirs)
    print(f"{len(task.runs)} runs, {equal} texts equal, {time.monotonic() - started:.1f} s")
    for name, number in sorted(counted.items()):
        print(f"{number:6} runs end at: {name}: {MEANT[name]}")
    print(f"{len(wrong):6} differences that are not meant", *wrong[:1], sep="\n")
    return 1 if wrong else 0


def compare(ours: Ours, runs: list[list[Call]], theirs: list[list[Any]]) -> tuple[int, Counter[str], list[str]]:
    """How many texts are equal, how many runs end at each difference that is meant, and the other differences."""
    equal, counted, wrong = 0, Counter[str](), []
    for calls, expected in zip(runs, theirs, strict=True):
        for call, our, their in zip(calls, ours.answers(calls), expected, strict=False):
            if our.text == their:
                equal += 1
                continue
            name = meant(call, our, their)
            if name is None:
                wrong.append(f"{json.dumps(calls)}\nat {call}\n--- ours\n{our.text}\n--- theirs\n{their}")
            else:
                counted[name] += 1
            break
    return equal, counted, wrong


if __name__ == "__main__":
    sys.exit(main())
