"""When the browser is offered. Its text takes 428 ids of each prompt: a minute at the first question of a day."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.settings.table import Settings
from ossia.harmony.messages import is_call

if TYPE_CHECKING:
    from ossia.agent.sessions.session import Session

NOTHING = "there is nothing to browse: no document is indexed, --web isn't set, and no address was typed"

_ADDRESS = re.compile(
    r"""https?://\w | \bwww\.\w
    | (?<![\w@./\\-]) (?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+
      (?:com|org|net|edu|gov|int|info|io|dev|eu|uk|de|fr|it|nl|es|ch|at|se|pl|jp|cn|kr|br|ca|au) (?![\w-]|\.\w)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Domains without `http://` end in one of the usual names, none of which ends a file's (`setup.py`, `node.js`)."""


def has_address(text: str) -> bool:
    """Is there a web address in it? In `see example.org/a` there is, in `me@example.org` and `setup.py` there isn't."""
    return _ADDRESS.search(text) is not None


def can_browse(settings: Settings) -> bool:
    """Do the settings, or the documents that are indexed, give the browser something to do?"""
    from ossia.tools.library.library import Library, LibraryError

    if settings.web or settings.allow_host or "browser" in (settings.tools or ()):
        return True
    try:
        return bool(Library(paths.library_file()).roots())
    except LibraryError:
        return True  # the model's search will say what is wrong with it


def has_browsed(session: Session) -> bool:
    """Was an address typed in this conversation, or the browser used?"""
    calls = (message.recipient or "" for message in session.messages if is_call(message))
    return has_address(session.said) or any(name.startswith("browser.") for name in calls)
