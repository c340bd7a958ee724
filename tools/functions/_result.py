"""What a function returned, as the model reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from ossia.tools.text import without_middle

MAX_RESULT_CHARS = 400_000
_MAX_ITEMS = 1_000


def result_text(value: object) -> str:
    """A text as it is; anything else as JSON on one line, as models know it: `{"temperature": 10}`.

    Dataclasses, pydantic models, dates, sets and the like become JSON, too; an iterator becomes a list of its first
    1,000 items; what JSON can't express becomes its `repr`. Raises what the value's own methods raise.
    """
    if isinstance(value, str):
        return bounded(value)
    if isinstance(value, Iterator):
        value = list(islice(value, _MAX_ITEMS))
    return bounded(_json(value))


def bounded(text: str) -> str:
    """`text` without lone surrogates, and without its middle if it has more than 400,000 characters.

    That is far more than a model is shown, but it saves counting the tokens of 3 MB.
    """
    tail = MAX_RESULT_CHARS // 4
    text = without_middle(text, MAX_RESULT_CHARS - tail, tail)
    return text.encode("utf-8", "replace").decode("utf-8")


def _json(value: object) -> str:
    from pydantic_core import to_jsonable_python

    try:
        return json.dumps(to_jsonable_python(value, fallback=repr), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):  # it contains itself, or has a key that JSON can't express
        return repr(value)
