"""Mutated headers through `ossia models show`: none may crash it, take a second or 200 MB.

    python -m tests.oracle.model_headers [--files 10000] [--seed 0]

Some headers as large as they may be come first; of the others, one in thirty has gpt-oss's own 201,088 tokens. All of
them go through one process, whose peak of memory is told at the end. Exit 1 if a file crashed the command, took more
than a second of processor time, or the process took more than 200 MB; such a file is kept and named.
"""

from __future__ import annotations

import argparse
import random
import shutil
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from ossia.agent.models.gguf import MAX_STRINGS
from tests.oracle.gguf_fuzz import mutants
from tests.support.command import ossia_here
from tests.support.gguf_edit import ARRAY, I32, STRING, GgufEdit, text
from tests.support.toy_gguf import write_toy_gguf

MOST_S: Final = 1.0
MOST_BYTES: Final = 200_000_000
_SMALL_TO_LARGE: Final = 15  # pairs of small ones; with the real vocabulary a mutant takes half a second
CODES: Final = (0, 3)
"""Usable, or not; anything else is a crash or a wrong usage."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one file came to; `wrong`: why it shouldn't have. "": nothing."""

    path: Path
    what: str
    code: int
    took_s: float
    wrong: str


def show(count: int, seed: int, folder: Path, *, large: bool = False) -> Iterator[Shown]:
    """`count` mutants of small models, each shown as text or JSON; a file is gone when the next one comes.

    `large`: some with very many texts come first, and some of the others have gpt-oss's own vocabulary.
    """
    files = _made_aside(folder, seed) if large else _files(folder, seed)
    for number, (path, what) in enumerate(files):
        if number == count:
            return
        begun = time.process_time()
        done = ossia_here("models", "show", str(path), *(["--json"] if number % 2 else []))
        took_s, wrong = time.process_time() - begun, ""
        said = done.stderr.decode()
        if done.returncode not in CODES or "Traceback" in said:
            wrong = f"exit code {done.returncode}: {said.strip().splitlines()[-1:]}"
        elif bool(done.stdout) == bool(said) or said.count("\n") > 1:
            wrong = "it must say something once: a description, or a line of an error"
        elif took_s > MOST_S:
            wrong = f"it took {took_s:.1f} s"
        yield Shown(path, what, done.returncode, took_s, wrong)


def _files(folder: Path, seed: int, *, large: bool = False) -> Iterator[tuple[Path, str]]:
    bases = [write_toy_gguf(folder / "toy.gguf"), write_toy_gguf(folder / "f32.gguf", quantized=False)]
    if large:
        yield from _large(bases[0], folder)
        real = write_toy_gguf(folder / "real.gguf", vocabulary="real", layers=1, embd=32)
        yield real, "gpt-oss's own tokens"
        bases = [*bases * _SMALL_TO_LARGE, real]
    yield from mutants(bases, folder, random.Random(seed))


def _made_aside(folder: Path, seed: int) -> Iterator[tuple[Path, str]]:
    """All of them, made in a process of its own: what this one takes is the command's."""
    with ProcessPoolExecutor(1, get_context("spawn"), _begin, (folder, seed)) as maker:
        while True:
            yield maker.submit(_next).result()


_making: Iterator[tuple[Path, str]]
"""In that process."""


def _begin(folder: Path, seed: int) -> None:
    global _making
    _making = _files(folder, seed, large=True)


def _next() -> tuple[Path, str]:
    return next(_making)


def _large(base: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    """Headers near the bounds: arrays of very many texts, and vocabularies far larger than gpt-oss's."""

    def many(count: int, repeated: Iterable[bytes]) -> tuple[int, bytes]:
        return ARRAY, struct.pack("<IQ", STRING, count) + b"".join(repeated)

    for length, arrays in ((0, 3), (1, 3), (30, 1)):
        edit = GgufEdit.of(base)
        for at in range(arrays):
            edit.entries[f"a{at}"] = many(MAX_STRINGS, [text("x" * length) * MAX_STRINGS])
        yield edit.write(folder / "large.gguf"), f"{arrays} arrays of texts of {length} bytes"
    edit, tokens = GgufEdit.of(base), 1 << 18
    for key, form in (("tokens", "%06x"), ("merges", "%06x x")):
        edit.entries[f"tokenizer.ggml.{key}"] = many(tokens, (text(form % at) for at in range(tokens)))
    edit.entries["tokenizer.ggml.token_type"] = (ARRAY, struct.pack("<IQ", I32, tokens) + bytes(4 * tokens))
    yield edit.write(folder / "large.gguf"), f"{tokens} tokens"


def _peak_bytes() -> int:
    """The most memory that this process has had. 0: unknown."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> int:
    """Show them all; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.model_headers", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    codes, faults, slowest_s = Counter[int](), 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        for one in show(chosen.files, chosen.seed, Path(name), large=True):
            codes[one.code] += 1
            slowest_s = max(slowest_s, one.took_s)
            if one.wrong:
                faults += 1
                kept = Path(tempfile.gettempdir()) / f"model-headers-{chosen.seed}-{faults}.gguf"
                shutil.copy(one.path, kept)
                print(f"{one.wrong}\n  {one.what}\n  kept as {kept}", flush=True)
    peak = _peak_bytes()
    print(f"{codes.total()} files: {codes[0]} usable, {codes[3]} not, {faults} faults")
    print(f"at most {slowest_s:.2f} s of processor time for one, {peak / 1e6:.0f} MB for all")
    return int(faults > 0 or peak > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
