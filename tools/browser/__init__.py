"""The trained built-in tool `browser`: search, open, find, over the web and a local library."""

from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Document, Hit, Loader, Source
from ossia.tools.browser.stack import read_states
from ossia.tools.browser.web import KINDS, web_source

__all__ = [
    "KINDS",
    "Browser",
    "Document",
    "Hit",
    "Loader",
    "Source",
    "read_states",
    "web_source",
]
