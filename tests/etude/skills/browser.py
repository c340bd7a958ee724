"""A search, the first page that is found, and an answer that cites the line it is from."""

from __future__ import annotations

from tests.etude.prompts import Prefix
from tests.etude.said import Segment, answers, asks, compact, runs
from tests.etude.values import Values

_VERBS = ("is", "was", "means", "has")
_TOP_LEVELS = (".com", ".org", ".net", ".io", ".test", ".md")


def browser(values: Values, prefix: Prefix) -> tuple[list[Segment], str]:
    """`Search the web for green harbor.` → search → open → `green harbor is … 【1†L4】`"""
    topic = values.phrase(1, 3) if values.chance(0.8) else values.name()
    asked = asks(values, "search", topic)
    if not prefix.has_browser:
        return asked + answers("No browser tool.", "I can't search the web without the browser tool."), "missing"
    search = compact({"query": topic})
    if values.chance(0.05):
        error = f"Error during search for `{topic}`: {values.phrase(2, 5)}"
        failed = runs("Search the web.", "browser.search", search, error)
        return asked + failed + answers("The search failed.", "The search failed."), "failed"
    cursor, site = values.one((0, 0, 0, 0, 1, 2, 3, 4, 6)), _site(values)
    title = values.one((topic, topic, topic.capitalize(), values.phrase(1, 3)))
    found = [(title, site)] + [(values.phrase(1, 3), _site(values)) for _ in range(values.one((0, 0, 1, 1, 2)))]
    results = [f"  * 【{place}†{name}†{where}】 {values.phrase(1, 5)}" for place, (name, where) in enumerate(found)]
    searched = runs(
        "Search the web.", "browser.search", search, _shown(cursor, topic, "", ["# Search Results", "", *results])
    )
    fact, lines = _page(values, topic)
    if values.chance(0.5):
        lines = [*values.one((["# " + title.capitalize() + " ", ""], ["# " + title.capitalize() + " "], [""])), *lines]
    url = f"https://{site}" + values.one(("", "/", f"/{values.word()}", f"/{values.word()}/{values.word()}"))
    opened = runs("Open the first result.", "browser.open", compact({"id": 0}), _shown(cursor + 1, title, url, lines))
    line = lines.index(fact) + 2
    return asked + searched + opened + answers(
        "The page has it.", f"{fact} 【{cursor + 1}†L{line}】"
    ), f"{len(lines)} lines"


def _page(values: Values, topic: str) -> tuple[str, list[str]]:
    """The one line that is about the topic, and all lines of the page."""
    subject = values.one((topic, topic, f"The {topic}", topic[:1].upper() + topic[1:]))
    fact = f"{subject} {values.one(_VERBS)} {values.phrase(1, 5)}."
    lines = [_other(values, topic) for _ in range(values.one((0, 1, 2, 3, 4, 5)))]
    lines.insert(values.several(0, len(lines)), fact)
    if values.chance(0.5):  # as paragraphs
        lines = [part for line in lines for part in (line, "")][:-1]
    return fact, lines + ([""] if values.chance(0.3) else [])


def _other(values: Values, topic: str) -> str:
    while True:
        if values.chance(0.6):
            line = f"{values.text(2, 7)}."
        elif values.chance(0.5):
            line = f"{values.phrase(1, 2)} {values.one(_VERBS)} {values.phrase(1, 4)}."
        else:
            line = f"  * {values.phrase(1, 4)}"
        if topic.lower() not in line.lower():
            return line


def _shown(cursor: int, title: str, url: str, lines: list[str]) -> str:
    """As browser tools show a page: its number, how much of it is shown, its lines with their numbers."""
    every = ["", f"URL: {url}", *lines]
    head = f"[{cursor}] {title} ({url})" if url else f"[{cursor}] {title}"
    last = len(every) - 1
    shown = "\n".join(f"L{number}: {line}" for number, line in enumerate(every))
    return f"{head}\n**viewing lines [0 - {last}] of {last}**\n\n{shown}\n"


def _site(values: Values) -> str:
    if values.chance(0.15):
        return f"127.0.0.1:{values.several(1024, 65535)}"
    return values.word() + values.one(_TOP_LEVELS)
