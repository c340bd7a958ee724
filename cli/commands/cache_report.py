"""What `ossia cache` finds and prints."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ossia.agent.engine.prompts import stored_in, unfinished_in
from ossia.agent.engine.stored import delete, inspect
from ossia.agent.models.memory import size_text
from ossia.cli import paths
from ossia.cli.clean import clean, one_line
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.words import count, when

VERSION = 1
"""The version of what `--json` prints."""


@dataclass(frozen=True, slots=True)
class KeptCache:
    """A kept KV cache. `tokens`, `model` and `personal` are None where it can't be read; `used` is in Unix seconds.

    `personal`: it has texts of the user's in it: what was said, instructions, AGENTS.md, their functions or servers.
    """

    kind: Literal["prompt", "session"]
    id: str
    tokens: int | None
    bytes: int
    used: float
    personal: bool | None
    model: str | None


def kept() -> list[KeptCache]:
    """All kept caches, the last used first."""
    found = []
    for used, size, folder in _folders():
        about = inspect(folder)
        prompt = folder.name.startswith("prompt-")
        found.append(
            KeptCache(
                kind="prompt" if prompt else "session",
                id=folder.name,
                tokens=about and about[1],
                bytes=size,
                used=used,
                personal=about and about[0].personal,
                model=about and about[0].model,
            )
        )
    return found


def remove() -> tuple[int, int]:
    """Remove all of them, and what a crash left; returns how many, and their bytes. Raises ExitError if one stays."""
    folders = _folders()
    for _, _, folder in folders:
        delete(folder)
    for folder in unfinished_in(paths.host().kv):
        delete(folder)
    left = _folders()
    if left:
        raise ExitError(f"can't remove {left[0][2]}", ExitCode.FAILED)
    return len(folders), sum(size for _, size, _ in folders)


def print_kept(found: Sequence[KeptCache], *, json: bool) -> None:
    """One line for each, and one for all of them."""
    if json:
        print(json_module.dumps({"version": VERSION, "kept": [asdict(one) for one in found]}))
        return
    if not found:
        print("ossia: no KV cache is kept yet", file=sys.stderr)
        return
    print(f"{'KIND':<7}  {'ID':<14}  {'TOKENS':>7}  {'SIZE':>8}  {'LAST USED':<16}  {'YOURS':<5}  MODEL")
    for one in found:
        tokens = "?" if one.tokens is None else f"{one.tokens:,}"
        personal = {True: "yes", False: "no", None: "?"}[one.personal]
        print(
            f"{one.kind:<7}  {_short(one.id):<14}  {tokens:>7}  {size_text(one.bytes):>8}  {when(one.used):<16}  "
            f"{personal:<5}  {clean(one_line(one.model or '?'))}"
        )
    print(f"ossia: {_many(len(found), sum(one.bytes for one in found))}, in {paths.host().kv}", file=sys.stderr)


def print_removed(removed: tuple[int, int]) -> None:
    """One line."""
    print(f"removed {_many(*removed)}" if removed[0] else "nothing was kept")


def _folders() -> list[tuple[float, int, Path]]:
    folder = paths.host().kv
    return sorted([*stored_in(folder, prompts=True), *stored_in(folder, prompts=False)], reverse=True)


def _many(number: int, size: int) -> str:
    return f"{count(number, 'kept cache')}, {size_text(size)}"


def _short(name: str) -> str:
    """Of `prompt-633-4be2…`, the beginning of the digest: the number of tokens has a column of its own."""
    return clean(one_line(name.rpartition("-")[2]))[:14]
