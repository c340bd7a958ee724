"""Signs that the end of a body never came, where HTTP takes it for whole."""

from __future__ import annotations

import re

from ossia.tools.fetch._exchange import Answer

_LOOK_BYTES = 4096
_BEGIN = re.compile(rb"<(?:html|body)[\s>]", re.IGNORECASE)
_END = re.compile(rb"</(?:html|body)\s*>", re.IGNORECASE)
_CLOSING = {b"{": b"}", b"[": b"]", b"<": b">"}


def why_cut(answer: Answer, media_type: str, body: bytes) -> str:
    """Why the end of this whole `body` may be missing; "" if nothing speaks for that.

    A compressed body and one in chunks have an end of their own, without which they are an error. A length can be too
    small; without one, the end of the connection is the end of the body, whatever ended it.
    """
    if "content-range" in answer.headers:  # we ask for no part, and this one is none by its status
        return "the server calls it a part"
    if answer.encoding or "transfer-encoding" in answer.headers:
        return ""
    if "content-length" in answer.headers:
        more = not answer.connection.last.endswith(body[-64:])
        return "the server announced less than it sent" if more else ""
    has_end = _has_end(media_type, body)
    if has_end is False:
        return "the server doesn't say how long the page is, and it stops in the middle"
    return "the connection broke off" if answer.connection.broke_off and has_end is None else ""


def _has_end(media_type: str, body: bytes) -> bool | None:
    """Does it end as its kind does? None: its kind has no end, as text."""
    if "html" in media_type:
        begins, ends = _BEGIN.search(body[:_LOOK_BYTES]), _END.search(body[-_LOOK_BYTES:])
        return True if ends else False if begins else None
    if media_type.endswith(("json", "xml")) and (closing := _CLOSING.get(body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1])):
        return body.rstrip().endswith(closing)
    return None
