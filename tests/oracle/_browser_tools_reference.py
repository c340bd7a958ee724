"""Runs in the reference's own environment (gpt-oss 0.0.9, Python >= 3.12), as a plain script: no import of ours.

stdin: `{"pages": {URL: HTML}, "hits": {QUERY: [[TITLE, URL, SUMMARY], …]}, "runs": [[[FUNCTION, ARGUMENTS], …], …]}`.
stdout: for each run the texts that its calls gave; a call that raised gives `{"raised": "TypeError"}` and ends its run.
"""

import asyncio
import json
import logging
import sys

import structlog
from gpt_oss.tools.simple_browser.backend import BackendError
from gpt_oss.tools.simple_browser.page_contents import process_html
from gpt_oss.tools.simple_browser.simple_browser_tool import SimpleBrowserTool
from openai_harmony import Author, Message, Role, TextContent


class Fake:
    """A backend over pages in memory. What it makes of them is the reference's own code."""

    source = "web"

    def __init__(self, pages, hits):
        self._pages, self._hits = pages, hits

    async def search(self, query, topn, session):
        if query not in self._hits:
            raise BackendError("web.test gave no answer")
        rows = "".join(f"<li><a href='{url}'>{title}</a> {text}</li>" for title, url, text in self._hits[query])
        page = f"\n<html><body>\n<h1>Search Results</h1>\n<ul>\n{rows}\n</ul>\n</body></html>\n"
        return process_html(html=page, url="", title=query, display_urls=True, session=session)

    async def fetch(self, url, session):
        if url not in self._pages:
            raise BackendError("the server answered 404 Not Found")
        return process_html(html=self._pages[url], url=url, title=None, display_urls=True, session=session)


async def answers(tool, calls):
    given = []
    for function, arguments in calls:
        message = Message(
            author=Author(role=Role.ASSISTANT), content=[TextContent(text=arguments)], recipient=f"browser.{function}"
        )
        try:
            texts = [part.text async for answer in tool._process(message) for part in answer.content]
        except Exception as error:
            given.append({"raised": type(error).__name__})
            break
        given.append("".join(texts))
    return given


async def main():
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    task = json.load(sys.stdin)
    runs = [await answers(SimpleBrowserTool(Fake(task["pages"], task["hits"])), calls) for calls in task["runs"]]
    json.dump(runs, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
