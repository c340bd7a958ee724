"""The output of `ossia batch`: answers that come in any order, and an end at any byte."""

from __future__ import annotations

import json
import random
from pathlib import Path

from ossia.cli.batch.answers import Answers
from ossia.cli.batch.questions import Line

LINES = [Line(number, b"", f"digest {number}") for number in range(1, 9)]


def answer(line: Line, run: int, exit: int = 0) -> str:
    return json.dumps(
        {"line": line.number, "digest": line.digest, "model": "m", "settings": "s", "exit": exit, "run": run}
    )


def whole(*files: bytes) -> set[tuple[int, int]]:
    """Line and run of the whole answers in these files."""
    lines = [line for data in files for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
    return {(value["line"], value["run"]) for value in map(json.loads, lines)}


def test_a_kill_at_any_byte_loses_only_what_was_being_written(tmp_path: Path) -> None:
    """A seeded part of `python -m tests.oracle.batch`: in each run, the last write is cut as a kill would."""
    source, out, part = random.Random(7), tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    for _ in range(40):
        kept = set[tuple[int, int]]()
        for run in range(4):
            before = after = (out.read_bytes(), part.read_bytes()) if kept else (b"", b"")
            with Answers(out) as answers:
                done = len([*answers.from_before()])
                asked = [line for line in LINES[done:] if answers.expect(line) is None]
                assert {line.number for line in LINES} - {line.number for line in asked} == {line for line, _ in kept}
                source.shuffle(asked)
                for line in asked[: source.randrange(len(asked) + 1) if run < 3 else None]:
                    before = out.read_bytes(), part.read_bytes()
                    answers.add(line.number, answer(line, run))
                    after = out.read_bytes(), part.read_bytes()
            if run < 3:
                grown = len(after[0]) > len(before[0])  # else it went to the part
                ends = [
                    source.randint(len(old), max(len(old), len(new))) for old, new in zip(before, after, strict=True)
                ]
                out.write_bytes(after[0][: ends[0]])
                part.write_bytes(before[1] if grown else after[1][: ends[1]])
                kept = whole(out.read_bytes(), part.read_bytes())
        assert kept <= whole(out.read_bytes())
        assert [json.loads(line)["line"] for line in out.read_bytes().splitlines()] == [line.number for line in LINES]
        assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
        out.unlink()


def test_what_waits_for_a_removed_output_is_asked_again(tmp_path: Path) -> None:
    """Whoever removes the output begins anew."""
    out = tmp_path / "out.jsonl"
    with Answers(out) as answers:
        assert [*answers.from_before(), *map(answers.expect, LINES)] == [None] * 8
        answers.add(2, answer(LINES[1], 0))
    assert (tmp_path / "out.jsonl.part").exists()
    out.unlink()
    with Answers(out) as answers:
        assert [*answers.from_before(), *map(answers.expect, LINES)] == [None] * 8


def test_a_question_that_has_changed_is_asked_though_its_answer_waits(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with Answers(out) as answers:
        assert [*answers.from_before(), *map(answers.expect, LINES)] == [None] * 8
        answers.add(2, answer(LINES[1], 0))
        answers.add(3, answer(LINES[2], 0))
    with Answers(out) as answers:
        changed = [LINES[0], Line(2, b"", "another"), LINES[2]]
        assert [*answers.from_before(), *(answers.expect(line) is None for line in changed)] == [True, True, False]


def test_a_kill_while_failed_lines_are_asked_again_loses_nothing(tmp_path: Path) -> None:
    """Cut at each byte that is written beside the output, and once the output is cut, too."""
    out, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    fresh = "".join(f"{answer(line, 0, exit=2 * (line.number in (3, 6)))}\n" for line in LINES).encode()
    kept = {(number, 0) for number in (1, 2, 4, 5, 7, 8)}
    out.write_bytes(fresh)
    with Answers(out, retry=True) as answers:
        assert len([*answers.from_before()]) == 8
        answers.reopen(3)
        cut, beside = out.read_bytes(), part.read_bytes()
    assert whole(cut) == {(1, 0), (2, 0)} and whole(cut, beside) == kept
    for written, waits in [(cut, beside), *((fresh, beside[:size]) for size in range(0, len(beside) + 1, 7))]:
        out.write_bytes(written)
        part.write_bytes(waits)
        with Answers(out, retry=True) as answers:
            assert len([*answers.from_before()]) in (2, 8)
            answers.reopen(3)
            for line in LINES[2:]:
                if answers.expect(line) is None:
                    answers.add(line.number, answer(line, 1))
        lines = out.read_bytes().splitlines(keepends=True)
        assert whole(*lines) == kept | {(3, 1), (6, 1)} and len(lines) == 8
        assert [json.loads(line)["line"] for line in lines] == [line.number for line in LINES]
        assert not part.exists()
