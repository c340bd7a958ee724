"""The places of the home that commands see, in words for people."""

from __future__ import annotations

from pathlib import Path

from ossia.tools.sandbox.job import Toolchains


def in_words(found: Toolchains, home: Path) -> str:
    """A line: `"commands may read, for PATH: ~/.cargo/bin; for rustup: ~/.rustup/toolchains"`; "" for no places."""
    reasons: dict[str, list[str]] = {}
    for place in found.places:
        reasons.setdefault(place.why.replace(str(home.resolve()), "~"), []).append(_short(place.path, home))
    seen = "; ".join(f"for {why}: {', '.join(places)}" for why, places in reasons.items())
    closed = ", ".join(_short(path, home) for path in found.closed)
    return f"commands may read, {seen}" + (f"; never {closed}" if closed else "") if seen else ""


def _short(path: Path, home: Path) -> str:
    return str(path).replace(f"{home.resolve()}/", "~/", 1)
