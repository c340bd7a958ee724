"""The tools of an agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.vocabulary import TokenCounter
from ossia.api.host import report
from ossia.errors import ArgumentError
from ossia.tools.approval.grants import Grants
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import is_about, may_allow
from ossia.tools.build import Toolset, toolset
from ossia.tools.calls.names import BUILT_IN
from ossia.tools.import_path import remove_from_sys_path

if TYPE_CHECKING:
    from ossia.api.parts import Given, Parts
    from ossia.harmony.tokenizer import Tokenizer
    from ossia.tools.host import Host
    from ossia.tools.spec import Tool


def functions_of(given: Given) -> tuple[Tool, ...]:
    """The program's functions as tools. Raises FunctionsInvalid."""
    if not given.functions:
        return ()
    from ossia.tools.functions.user import tools_of  # imports pydantic

    return tools_of(given.functions)


def toolset_of(given: Given, parts: Parts, host: Host, tokenizer: Tokenizer, functions: Sequence[Tool]) -> Toolset:
    """The tools, put together. Raises FunctionsError, and ArgumentError for a named one that can't be used here."""
    folder = parts.tools.folder
    grants = None if given.config else Grants(Path(os.devnull))  # nothing is stored there
    with _behind(folder.workspace.root if folder else None):
        tools = toolset(parts.tools, host, report, TokenCounter(tokenizer, host), grants=grants, extra=functions)
    try:
        for name in given.names:
            if name in tools.off:
                raise ArgumentError(f"tools: {name} can't be used here: {tools.off[name]}")
        specs = tools.toolbox.every_spec
        for rule in given.rules():
            about = [name for name in BUILT_IN if is_about(rule.name, name)]
            holds = about if rule.action == "deny" else [name for name in about if may_allow(rule.name, name)]
            if not holds and Policy([rule]).unused(specs):
                meant = f": did you mean {' or '.join(about)}?" if about else ""
                raise ArgumentError(f"{rule.action}: {str(rule)!r}: no tool of that name is on{meant}")
    except BaseException:
        tools.close()
        raise
    return tools


@contextmanager
def _behind(root: Path | None) -> Iterator[None]:
    """Have the entries of `sys.path` in the workspace behind all others, from now on.

    The model may write there: an installed package is found before a file of its name. They are no parts of ossia.
    """
    before = list(sys.path)
    if root is not None:
        remove_from_sys_path(root)
    try:
        yield
    finally:
        sys.path.extend(entry for entry in before if entry not in sys.path)
