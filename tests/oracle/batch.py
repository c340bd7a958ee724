"""`ossia batch` killed and gone on with, and its memory: `python -m tests.oracle.batch [--kills 20] [--lines 10000]`.

The model is étude, which always answers the same. A batch in several lanes is killed (SIGKILL) at random moments and
begun again until it is done, some questions with python. Every whole line that a kill left must stand in the end as it
was, byte by byte (it holds times: asked again, it would differ), and all must be the answers of a run that nobody
killed. Then many lines are answered by a script, and by étude; the memory at the end is compared with that after a
fifth. The first difference ends it, with 1.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.command import OSSIA, write_script

_TIMES = ("usage",)
_MOST_GROWTH = 8 << 20  # bytes between a fifth and the end
_FINAL = "<|channel|>final<|message|>Yes.<|return|>"


class Difference(AssertionError):
    """The output isn't what it must be; the message says where."""


def _asks(path: Path, count: int, source: random.Random) -> Path:
    words = ("What is {}*{}?", "Hello, I am {} and you are {}.", "Name {} colours and {} animals.")
    texts = (source.choice(words).format(source.randint(2, 99), source.randint(2, 99)) for _ in range(count))
    path.write_text("".join(f"{json.dumps({'id': n, 'prompt': text})}\n" for n, text in enumerate(texts)))
    return path


def _begin(asked: Path, out: Path, *flags: str) -> subprocess.Popen[bytes]:
    command = [str(OSSIA), "batch", str(asked), "-o", str(out), *flags]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _whole_lines(path: Path) -> list[bytes]:
    """The whole lines of the output, or of what waits beside it."""
    return (
        [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")] if path.exists() else []
    )


def _answers(lines: list[bytes]) -> list[dict[str, Any]]:
    return [{key: value for key, value in json.loads(line).items() if key not in _TIMES} for line in lines]


def kill(folder: Path, kills: int, questions: int, lanes: int, source: random.Random) -> str:
    """Kill so many runs; what was seen, in a line. Raises `Difference`."""
    asked, flags = _asks(folder / "in.jsonl", questions, source), ("--model", "etude", "--parallel", str(lanes))
    began = time.monotonic()
    if _begin(asked, folder / "whole.jsonl", *flags).wait():
        raise Difference("the run that nobody killed failed")
    whole_s, whole = time.monotonic() - began, _answers(_whole_lines(folder / "whole.jsonl"))
    killed = finished = ahead = torn = 0
    out, left = folder / "out.jsonl", list[bytes]()
    part = folder / "out.jsonl.part"
    while killed < kills or left:
        running = _begin(asked, out, *flags)
        try:
            code = running.wait(source.uniform(0.3, 1.0) * whole_s if killed < kills else None)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            killed += 1
            now = _whole_lines(out)
            torn += out.exists() and not out.read_bytes().endswith(b"\n") and bool(now)
            waits = _whole_lines(part)
            ahead += bool(waits)
            left = _kept(left, now, waits, killed)
            if _answers(now) != whole[: len(now)]:
                raise Difference(f"after kill {killed}: the {len(now)} lines so far are others") from None
            continue
        lines = _whole_lines(out)
        _kept(left, lines, [], killed)
        if code or _answers(lines) != whole or part.exists():
            raise Difference(f"after kill {killed}: exit {code}, {len(lines)} lines, other answers or a rest")
        out.unlink()
        left, finished = [], finished + 1
    return (
        f"{killed} kills of {questions} questions in {lanes} lanes ({whole_s:.1f} s), {finished} times to the end: "
        f"nothing twice, nothing lost, the same answers; {ahead} kills left answers ahead, {torn} half a line"
    )


def _kept(left: list[bytes], lines: list[bytes], waits: list[bytes], killed: int) -> list[bytes]:
    """All whole lines that are there now. Raises `Difference` if one of before is gone, or has been written anew."""
    now = {*lines, *waits}
    if missing := [line for line in left if line not in now]:
        raise Difference(f"after kill {killed}: an answer is gone: {missing[0][:80]!r}")
    if len({json.loads(line)["line"] for line in lines}) != len(lines):
        raise Difference(f"after kill {killed}: a question has two answers")
    return [*now]


def flat(folder: Path, count: int, lanes: int, *flags: str) -> str:
    """Answer so many lines; the memory, in a line. Raises `Difference` if it grows."""
    asked, out = _asks(folder / "many.jsonl", count, random.Random(1)), folder / "many.out.jsonl"
    out.unlink(missing_ok=True)
    began, sizes = time.monotonic(), dict[int, int]()
    running = _begin(asked, out, "--no-tools", "--parallel", str(lanes), *flags)
    lines, at = 0, 0
    while running.poll() is None:
        time.sleep(0.1)
        if out.exists():
            with out.open("rb") as file:
                file.seek(at)
                new = file.read()
            at, lines = at + len(new), lines + new.count(b"\n")
        status = Path(f"/proc/{running.pid}/status")
        found = (
            [line for line in status.read_text().splitlines() if line.startswith("VmRSS")] if status.exists() else []
        )
        if found:
            sizes[lines] = int(found[0].split()[1]) << 10
    seconds, written = time.monotonic() - began, len(_whole_lines(out))
    if running.returncode or written != count:
        raise Difference(f"exit {running.returncode}, {written} of {count} lines: {running.stderr}")
    early = next(size for lines, size in sorted(sizes.items()) if lines >= count // 5)
    late = sizes[max(sizes)]
    sizes_text = f"{early >> 20} MiB after a fifth, {late >> 20} MiB at the end"
    line = f"{count:,} lines in {lanes} lanes, {flags[1]}: {seconds:.0f} s, {sizes_text}"
    if late - early > _MOST_GROWTH:
        raise Difference(line)
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--questions", type=int, default=60, help="of a run that is killed")
    parser.add_argument("--lines", type=int, default=10_000, help="to measure memory; 0: don't")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            if given.kills:
                print(kill(folder, given.kills, given.questions, given.lanes, random.Random(given.seed)), flush=True)
            if given.lines:
                script = write_script(folder, *(_FINAL for _ in range(given.lines)))
                print(flat(folder, given.lines, given.lanes, "--engine", script), flush=True)
                print(flat(folder, given.lines // 10, given.lanes, "--model", "etude"), flush=True)
        except Difference as difference:
            print(difference, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
