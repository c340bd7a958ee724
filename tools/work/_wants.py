"""A failed command's wants, recognised in its output: only a reason to ask, since anybody may print such a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ossia.tools.spec import Need

_WANTS: Final[Mapping[Need, re.Pattern[str]]] = {
    "git": re.compile(
        r"Unable to create '[^'\n]*\.git/[^'\n]*\.lock': (?:Read-only file|Permission denied|Operation not permitted)"
        r"|insufficient permission for adding an object|could not lock config"
    ),
    "network": re.compile(r"Could not resolve host|Temporary failure in name resolution", re.IGNORECASE),
    "unconfined": re.compile(r"Cannot connect to the Docker daemon"),
}


def wanted(output: str) -> frozenset[Need]:
    """The needs that the output of a failed command shows."""
    return frozenset(need for need, pattern in _WANTS.items() if pattern.search(output))
