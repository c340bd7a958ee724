"""Do the tests bite? Eleven small faults are put into a copy of `harmony/`, one at a time: `python -m tests.mutations`.

Each fault is one that a careless edit would make. The test files beside it must fail. Prints a Markdown table; exits 1
if a fault goes unnoticed, or if the tests fail without one. Takes a few minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("ossia", "harmony", "tools", "agent", "cli", "tests", "docs", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Mutation:
    """`old`, which stands once in harmony/`module`.py, becomes `new`; tests/harmony/test_`tests`.py must fail."""

    module: str
    old: str
    new: str
    tests: str
    what: str


MUTATIONS = (
    Mutation(
        "typescript",
        "(index == 0 and shown) or text == description",
        "text == description",
        "typescript",
        "the first variant's description is shown although the property's own is",
    ),
    Mutation("typescript", ' and "null" not in text', "", "typescript", "`| null` a second time"),
    Mutation("_json", "0 < point <= 16", "0 < point <= 17", "typescript", "1e16 written out"),
    Mutation(
        "render",
        'message.role == "assistant" and message.recipient is not None',
        'message.recipient is not None and message.recipient != "all"',
        "render",
        "`<|call|>` after any message with a recipient",
    ),
    Mutation("render", 'line.removesuffix("\\r")', "line", "render", "a carriage return stays in a description"),
    Mutation(
        "render",
        'return message.role == "assistant" and message.channel == FINAL',
        "return message.channel == FINAL",
        "render",
        "a final of any role ends a turn",
    ),
    Mutation(
        "codec", "return message, id(message.sampled), False", "return message, 0, False", "codec", "replay by text"
    ),
    Mutation("tokenizer", "(?![\\r\\n])", "", "tokenizer", "a run that a newline ends is cut too"),
    Mutation(
        "mending", 'self._with_blanks(word.removeprefix("to="), left)', "word", "parse", "`to=` stays in a recipient"
    ),
    Mutation(
        "parse",
        'self._add(self._utf8.decode(b"", True))',
        'self._utf8.decode(b"", True)',
        "parse",
        "half a character at the end of a message vanishes",
    ),
    Mutation(
        "recipients",
        "return _END.split(text.lstrip(_AROUND), maxsplit=1)[0].strip(_AROUND)",
        "return text.strip(_AROUND)",
        "parse",
        "a channel that leaked into a recipient stays there",
    ),
)


def run_tests(copy: Path, names: list[str]) -> bool:
    """Whether the test files pass in `copy`."""
    files = [f"tests/harmony/test_{name}.py" for name in names]
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode not in (0, 1):  # 2 and more: the tests did not run
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def is_caught(mutation: Mutation, copy: Path) -> bool:
    """Put the fault in, run the tests, take it out again."""
    path = copy / "harmony" / f"{mutation.module}.py"
    source = path.read_text(encoding="utf-8")
    if source.count(mutation.old) != 1:
        raise ValueError(f"expected {mutation.old!r} once in {path.name}, found it {source.count(mutation.old)} times")
    path.write_text(source.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        return not run_tests(copy, [mutation.tests])
    finally:
        path.write_text(source, encoding="utf-8")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy / name, ignore=ignore) if source.is_dir() else shutil.copy(source, copy)
        if not run_tests(copy, sorted({mutation.tests for mutation in MUTATIONS})):
            print("the tests fail without any fault: nothing to learn from them", file=sys.stderr)
            return 1
        print("| module | fault | tests | result | s |\n|---|---|---|---|---|")
        missed = 0
        for mutation in MUTATIONS:
            started = time.monotonic()
            caught = is_caught(mutation, copy)
            missed += not caught
            seconds = time.monotonic() - started
            result = "caught" if caught else "**missed**"
            print(f"| {mutation.module} | {mutation.what} | {mutation.tests} | {result} | {seconds:.0f} |", flush=True)
    print(f"\n{len(MUTATIONS) - missed} of {len(MUTATIONS)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
