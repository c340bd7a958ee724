"""The id that ended an answer, where a server keeps it to itself."""

from __future__ import annotations

from collections.abc import Sequence

from ossia.harmony.tokenizer import Vocabulary


def withheld(ids: Sequence[int], vocabulary: Vocabulary, stop_id: int | None) -> int:
    """The id of `<|call|>` or `<|return|>` that must have ended `ids`: a prompt and what was generated after it.

    `stop_id` is what the server's stop reason names; without it, a message with a recipient ended as a call:

        withheld(ids_of("…<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}"), …, None)    # <|call|>
    """
    control = vocabulary.control
    if stop_id in (control["<|call|>"], control["<|return|>"], control["<|end|>"], control["<|endoftext|>"]):
        return stop_id
    return control["<|call|>"] if _is_addressed(ids, vocabulary) else control["<|return|>"]


def _is_addressed(ids: Sequence[int], vocabulary: Vocabulary) -> bool:
    """True if the last message's header names a recipient (`<|channel|>` may stand on either side of it)."""
    start, message = vocabulary.control["<|start|>"], vocabulary.control["<|message|>"]
    begins = next((at for at in range(len(ids) - 1, -1, -1) if ids[at] == start), 0)
    ends = next((at for at in range(begins, len(ids)) if ids[at] == message), len(ids))
    tokens = vocabulary.tokens
    header = b"".join(tokens[one] if one < len(tokens) else b"" for one in ids[begins:ends])
    return b" to=" in header
