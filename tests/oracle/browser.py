"""Compare pages, finds and search pages with the reference browser, on real HTML files:

    python -m tests.oracle.browser --pages /usr/share/doc --count 500 --seed 1 --oracle VENV/bin/python

The reference is the package gpt-oss 0.0.9 in a Python >= 3.12 of its own; without `--oracle` one is made in `--cache`.
For each file: the whole text, the links, the first view, three more (some loc, some loc with a number of lines, one
behind the end) and three finds must be the same, letter by letter. What is meant to differ has a name (`DIFFERENCES`);
a file that meets one is compared with the reference mended in just that point. Prints the counts, and every file that
differs in another way; exits 1 if there is one. Files that the reference takes too long for are counted as such.

Two oddities of the reference are imitated nowhere; random markup showed them, no real page: `<sup class=x></sup>word`
in another <sup> becomes an index, and the text of a <script> in an <abbr title> becomes part of what is abbreviated.
`--write-golden` writes what the reference makes of `tests/golden/browser/*.html` beside them.
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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiktoken

from ossia.tools.browser.document import Hit
from ossia.tools.browser.page import Page, find_page, search_page, wrap
from ossia.tools.convert._html import TOO_DEEP, document_from_html
from ossia.tools.decoding import decode_page
from ossia.tools.spec import ToolFailed
from tests.oracle.browser_markup import markup
from tests.support.vocabularies import o200k_in_environment, write_o200k

GOLDEN = Path(__file__).parents[1] / "golden" / "browser"

DIFFERENCES = {
    "declaration": "a page that begins with an XML declaration is read; the reference refuses it",
    "empty": "a page with nothing to read has the text '(empty page)'; the reference refuses it or shows nothing",
    "web": "only http and https links get ids; the reference gives them to file:, data:, ftp: and ' javascript:' too",
    "base": "relative links follow the page's <base href>, and blanks around an address go",
    "formula": "what follows a <math> element stays; the reference drops it with the formula",
    "brackets": "【】 written as entities and † in a host can't forge a link either",
    "controls": "no control characters (\\r in <pre> among them), no bidi controls, no U+FFFD for a control",
    "title": "a title is one line with single blanks",
    "deep": "a page nested deeper than the parser reads (255 elements) says at its end that the rest is missing",
    "ar5iv": "only a link's host is turned from arxiv.org into ar5iv.org, not its path or query",
    "find": "a wrapped host name in a link doesn't shift the line numbers of what is found after it",
    "view": "a token that holds a part of a character isn't counted as a character: a view in such a script is shorter",
}


class Reference:
    """The reference browser, in a process of its own."""

    def __init__(self, python: str, tokens: Path) -> None:
        script = Path(__file__).with_name("browser_reference.py")
        self._process = subprocess.Popen(
            [python, "-I", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={"TIKTOKEN_CACHE_DIR": str(tokens), "PATH": os.environ.get("PATH", "")},
        )

    def ask(self, **request: object) -> dict[str, Any]:
        """What the reference shows, or {"error": …}."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One page, and what is asked of it."""

    html: str
    url: str
    views: tuple[tuple[int, int], ...]
    finds: tuple[str, ...]


def wanted(html: str, url: str, source: random.Random) -> Wanted:
    """What to ask of a page: views and finds drawn from the text that it has."""
    page = Page.of(document_from_html(html, url))
    last = page.total_lines - 1
    views = ((source.randint(0, last), -1), (source.randint(0, last), source.randint(1, 40)), (last + 1, -1))
    words = re.findall(r"\w{3,}", page.text)
    finds = [source.choice(words) for _ in range(2) if words]
    return Wanted(html, url, views, (*finds, "no such word zq"))


def ours(page: Wanted, count_tokens: Callable[[str], int]) -> dict[str, Any]:
    """What our browser shows, in the form of the reference's answer."""
    document = document_from_html(page.html, page.url)
    shown = Page.of(document)
    cursor = 0

    def view(what: Page, loc: int = 0, num_lines: int = -1) -> str:
        nonlocal cursor
        try:
            text = what.show(cursor, count_tokens=count_tokens, loc=loc, num_lines=num_lines)
        except ToolFailed as error:
            return str(error)
        cursor += 1
        return text

    views = [view(shown), *(view(shown, loc, num_lines) for loc, num_lines in page.views)]
    return {
        "title": shown.title,
        "text": shown.text,
        "links": {str(number): url for number, url in shown.links.items()},
        "views": views,
        "finds": [view(find_page(shown, pattern)) for pattern in page.finds],
    }


def compare(reference: Reference, page: Wanted, count: Callable[[str], int]) -> tuple[dict[str, Any], set[str], bool]:
    """The reference's answer, the names of the differences that it was mended for, and whether ours is the same."""
    mine = ours(page, count)
    mend: set[str] = set()
    while True:
        answer = reference.ask(html=page.html, url=page.url, views=page.views, finds=page.finds, mend=sorted(mend))
        if answer == mine or "Timeout" in answer.get("error", ""):
            return answer, mend, answer == mine
        if answer.get("error", "").endswith("Document is empty"):
            return answer, mend | {"empty"}, mine["text"].endswith("\n(empty page)")
        more = _explanations(page, mine, answer) - mend
        if not more:
            return answer, mend, False
        mend |= more


def _explanations(page: Wanted, mine: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
    """Which of the named differences this page can meet."""
    if "error" in theirs:
        return {"declaration"} if re.match(r"\ufeff?\s*<\?xml", page.html) else set()
    signs = {
        "web": r"(?i)href\s*=\s*[\"']?(?:\s+\w|\s*(?!https?:|mailto:|javascript:)[a-z][a-z0-9+.-]*:)",
        "base": r"(?i)<base|href\s*=\s*[\"'](?:\s[^\"']*|[^\"']*\s)[\"']",
        "formula": r"(?i)<math",
        "ar5iv": r"(?i)href\s*=[^>]*[/?].*arxiv.org",
        "brackets": r"(?i)&#(?:1230[45]|x301[01]);",
        "controls": "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|&#|&[lr][rl][em];",
    }
    found = {name for name, sign in signs.items() if re.search(sign, page.html)}
    if mine["text"].endswith(TOO_DEEP):
        found.add("deep")
    if " ".join(theirs["title"].split()) != theirs["title"]:
        found.add("title")
    if theirs["text"] == f"\nURL: {page.url}\n":
        found.add("empty")
    if mine["text"] == theirs["text"]:
        if "title" in found:
            return {"title"}
        found = {"ar5iv", "base"} & found if mine["links"] != theirs["links"] else set()
        if mine["finds"] != theirs["finds"] and re.search(r"†[^†】]*\n[^†】]*】", "\n".join(wrap(mine["text"]))):
            found.add("find")
        if mine["views"] != theirs["views"] or mine["finds"] != theirs["finds"]:
            found.add("view")
    return found


def searches(reference: Reference, count: Callable[[str], int], *, number: int, seed: int) -> Iterator[str]:
    """One text for each of `number` search pages in which ours isn't theirs."""
    words = ["the", "capybara", "large", "—", "world’s", "2024", "(facts)", "水豚", "C++", "x_y", "“q”", "e.g.", "😀◼"]
    for case in range(seed, seed + number):
        source = random.Random(case)

        def some(most: int, source: random.Random = source) -> str:
            return " ".join(source.choices(words, k=source.randint(1, most)))

        places = ["http://a.test/", "https://en.wikipedia.org/wiki/Capybara", "https://b.test:8080/x?q=1&r=2"]
        hits = [(some(8), source.choice(places) + f"#{n}", some(40)) for n in range(source.randint(0, 20))]
        query = some(5)
        mine = search_page(query, [Hit(*hit) for hit in hits]).show(0, count_tokens=count)
        theirs = {mend: reference.ask(query=query, hits=hits, mend=[mend]).get("search") for mend in ("", "view")}
        if mine not in theirs.values():
            yield f"search page of seed {case}:\nours:   {mine!r}\ntheirs: {theirs['view']!r}"


def fuzz(reference: Reference, count: Callable[[str], int], *, number: int, seed: int) -> Iterator[str]:
    """One text for each of `number` pages of random markup in which ours isn't theirs."""
    for case in range(seed, seed + number):
        html = markup(random.Random(case))
        answer, _, same = compare(reference, Wanted(html, "http://docs.test/d/page.html", (), ()), count)
        if not same:
            mine = ours(Wanted(html, "http://docs.test/d/page.html", (), ()), count)
            yield f"markup of seed {case}: {html!r}: {_first_difference(mine, answer)}"


def make_environment(folder: Path) -> str:
    """A Python >= 3.12 with the reference in `folder`, made by uv if it isn't there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "--python", "3.12", str(folder)], check=True)
        subprocess.run(["uv", "pip", "install", "--python", str(python), "gpt-oss==0.0.9"], check=True)
    return str(python)


@contextmanager
def reference_and_counter(python: str) -> Iterator[tuple[Reference, Callable[[str], int]]]:
    with tempfile.TemporaryDirectory() as folder, o200k_in_environment(write_o200k(Path(folder))):
        encoding = tiktoken.get_encoding("o200k_base")
        reference = Reference(python, Path(folder))
        try:
            yield reference, lambda text: len(encoding.encode_ordinary(text))
        finally:
            reference.close()


def write_golden(reference: Reference, count: Callable[[str], int]) -> int:
    """Writes the reference's answers for our own fixture pages; the number of pages that differ without a name."""
    wrong = 0
    for file in sorted(GOLDEN.glob("*.html")):
        url = f"http://docs.test/pages/{file.name}"
        page = wanted(decode_page(file.read_bytes(), None).shown, url, random.Random(file.name))
        answer, names, same = compare(reference, page, count)
        wrong += not same
        print(f"{file.name}: {'same' if same else 'DIFFERS'} {' '.join(sorted(names))}")
        asked = {"url": url, "views": page.views, "finds": page.finds, "differences": sorted(names)}
        text = json.dumps({**asked, "reference": answer}, ensure_ascii=False, indent=1)
        file.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    return wrong


def _compare_files(files: list[Path], reference: Reference, count: Callable[[str], int], seed: int) -> int:
    counts: Counter[str] = Counter()
    for file in files:
        source = random.Random(f"{seed} {file}")
        page = wanted(decode_page(file.read_bytes(), None).shown, f"http://docs.test{file}", source)
        answer, names, same = compare(reference, page, count)
        kind = "the same" if same and not names else "named" if same else "too long" if "error" in answer else "DIFFERS"
        counts[kind] += 1
        counts.update(f"- {name}" for name in names if same)
        if kind == "DIFFERS" or (kind == "too long" and "Timeout" not in answer["error"]):
            print(f"{file}: {_first_difference(ours(page, count), answer)}", flush=True)
            counts["wrong"] += 1
    for name, number in sorted(counts.items()):
        print(f"{number:6} {name}{': ' + DIFFERENCES[name[2:]] if name.startswith('- ') else ''}")
    return counts["wrong"]


def _first_difference(mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    if "error" in theirs:
        return str(theirs["error"])
    part = next(name for name in ("title", "text", "links", "views", "finds") if mine[name] != theirs[name])
    a, b = (str(each[part]) for each in (mine, theirs))
    at = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"{part}\n  ours:   {a[max(at - 60, 0) : at + 60]!r}\n  theirs: {b[max(at - 60, 0) : at + 60]!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=Path, nargs="+", default=[], metavar="FOLDER")
    parser.add_argument("--count", type=int, default=500, help="how many files, drawn by the seed")
    parser.add_argument("--fuzz", type=int, default=500, help="how many pages of random markup")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-bytes", type=int, default=3_000_000, help="leave out larger files")
    parser.add_argument("--oracle", help="a Python that has the reference")
    parser.add_argument("--cache", type=Path, help="a folder for a Python with the reference, made if it isn't there")
    parser.add_argument("--write-golden", action="store_true")
    options = parser.parse_args()
    if not options.oracle and not options.cache:
        parser.error("give --oracle PYTHON or --cache FOLDER")
    found = {file for folder in options.pages for file in folder.rglob("*.htm*") if file.suffix in (".html", ".htm")}
    files = sorted(file for file in found if file.is_file() and file.stat().st_size <= options.max_bytes)
    files = sorted(random.Random(options.seed).sample(files, min(options.count, len(files))))
    with reference_and_counter(options.oracle or make_environment(options.cache)) as (reference, count):
        if options.write_golden:
            return 1 if write_golden(reference, count) else 0
        wrong = _compare_files(files, reference, count, options.seed)
        different = list(searches(reference, count, number=max(options.count // 5, 1), seed=options.seed))
        odd = list(fuzz(reference, count, number=options.fuzz, seed=options.seed))
    print(f"{len(files)} files: {wrong} differ; {max(options.count // 5, 1)} search pages: {len(different)} differ")
    print(f"{options.fuzz} pages of random markup: {len(odd)} differ")
    print(*different[:1], *odd[:3], sep="\n")
    return 1 if wrong or different or odd else 0


if __name__ == "__main__":
    sys.exit(main())
