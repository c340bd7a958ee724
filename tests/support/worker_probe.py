"""Imported by a conversion worker in place of nothing: from then on it answers with what its confinement lets it do.

The conversion worker imports this before it gives up its rights, and each "document" is the Python text of an attempt;
the answer's text is what came of it. So a test sees what code that took over the worker could do.
"""

from __future__ import annotations

from typing import Any

from ossia.tools.convert import _documents


def _attempt(body: bytes, meta: dict[str, Any], limits: dict[str, Any]) -> tuple[bytes, bytes]:
    names: dict[str, object] = {}
    try:
        exec(body.decode(), names)
        told = f"done: {names.get('result')}"
    except BaseException as error:
        told = f"{type(error).__name__}: {error}"
    return b"{}", told.encode()


_documents.convert = _attempt
