"""How much one fetch may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds of one fetch, redirects included.

    `timeout_s` counts from the first name look-up to the last byte. `max_bytes` is what a body keeps after it was
    decompressed; a longer one is cut. A PDF is worth nothing when it is cut: one above `max_pdf_bytes` is refused.
    """

    timeout_s: float = 20.0
    max_bytes: int = 3_000_000
    max_pdf_bytes: int = 20_000_000
    redirects: int = 5
