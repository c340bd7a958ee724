"""A search, the first page that is found, and an answer that cites the line it is from."""

from __future__ import annotations

from ossia.tools.browser.document import Document, Hit
from ossia.tools.browser.page import Page, search_page
from ossia.tools.library.library import EMPTY
from tests.etude.prompts import Prefix
from tests.etude.said import Segment, answers, asks, compact, failed, runs
from tests.etude.words.values import Values

_VERBS = ("is", "was", "means", "has")
NO_WEB = "No web search service is set up: `browser.open` of a URL works without one"
_TOP_LEVELS = (".com", ".org", ".net", ".io", ".test", ".md")


def browser(values: Values, prefix: Prefix) -> tuple[list[Segment], str]:
    """`Search the web for green harbor.` → search → open → `green harbor is … 【1†L4】`"""
    topic = values.phrase(1, 3) if values.chance(0.8) else values.name()
    asked = asks(values, "search", topic)
    if not prefix.has_browser:
        return asked + answers("No browser tool.", "I can't search the web without the browser tool."), "no browser"
    search = compact({"query": topic})
    if values.chance(0.08):
        error = f"Error during search for `{topic}`: {values.one((values.phrase(2, 5), EMPTY, f'{EMPTY}. {NO_WEB}'))}"
        return asked + runs("Search the web.", "browser.search", search, error) + failed(error), "search failed"
    if values.chance(0.05):
        note = values.one(("", f"Nothing found in {values.one(('docs', 'library', values.word()))}. {NO_WEB}"))
        nothing = runs(
            "Search the web.", "browser.search", search, search_page(topic, (), note=note).show(0, count_tokens=len)
        )
        return asked + nothing + answers("Nothing was found.", "Nothing was found."), "nothing found"
    cursor = values.one((0, 0, 0, 0, 1, 2, 3, 4, 6))
    title = values.one((topic, topic, topic.capitalize(), values.phrase(1, 3)))
    url = _site(values) + values.one(("/", "/", f"/{values.word()}", f"/{values.word()}/{values.word()}"))
    found = [Hit(title, url, values.phrase(1, 5))]
    found += [Hit(values.phrase(1, 3), _site(values), values.phrase(1, 5)) for _ in range(values.one((0, 0, 1, 1, 2)))]
    results = search_page(topic, found).show(cursor, count_tokens=len)
    searched = runs("Search the web.", "browser.search", search, results)
    if values.chance(0.05):
        error = f"Error fetching URL `{url}`: {values.phrase(1, 4)}"
        unopened = runs("Open the first result.", "browser.open", compact({"id": 0}), error)
        return asked + searched + unopened + failed(error), "opening failed"
    fact, page = _page(values, topic, title, url)
    shown = page.show(cursor + 1, count_tokens=len)
    opened = runs("Open the first result.", "browser.open", compact({"id": 0}), shown)
    cited = f"{fact} 【{cursor + 1}†L{page.lines.index(fact)}】"
    return asked + searched + opened + answers("The page has it.", cited), f"{len(page.lines) // 4 * 4}+ lines"


def _page(values: Values, topic: str, title: str, url: str) -> tuple[str, Page]:
    """The one line that is about the topic, and the page it stands on."""
    while True:
        fact = f"{_subject(values, topic)} {values.one(_VERBS)} {values.phrase(1, 5)}."
        lines = [_other(values, topic) for _ in range(values.one((0, 1, 2, 3, 4, 5)))]
        lines.insert(values.several(0, len(lines)), fact)
        if values.chance(0.5):  # as paragraphs
            lines = [part for line in lines for part in (line, "")][:-1]
        if values.chance(0.5):
            heading = f"# {title.capitalize()} "
            lines = [*values.one(([heading, ""], [heading], [""])), *lines]
        page = Page.of(Document(title, url, "\n".join(lines) + values.one(("", "", "\n"))))
        if page.lines.count(fact) == 1:  # a long one is wrapped
            return fact, page


def _subject(values: Values, topic: str) -> str:
    return values.one((topic, topic, f"The {topic}", topic[:1].upper() + topic[1:]))


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


def _site(values: Values) -> str:
    if values.chance(0.15):
        return f"http://127.0.0.1:{values.several(1024, 65535)}"
    return f"https://{values.word()}{values.one(_TOP_LEVELS)}"
