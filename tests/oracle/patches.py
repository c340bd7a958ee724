"""`python -m tests.oracle.patches --count 200 --seed 1`: patches of generated trees, applied exactly or refused.

Each case makes a tree and a list of edits, and from those both the tree that must come out and a V4A patch, written by
this module and not by the code under test. Many cases hold something that must be refused; then the tree must be
as it was. Nothing in between passes: every byte of every file is compared. It ends with status 1 if a case is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.support.folders import Folder

Expectation = Literal["apply", "refuse", "either"]

_WORDS = (
    *("alpha", "beta", "gamma", "delta", "return", "value", "if", "else", "for", "in", "print", "name", "self"),
    *("load", "save", "café", "naïve", "工具", "Ω", "“quoted”", "it’s", "a—b", "x–y"),
)
_TYPED = str.maketrans({"“": '"', "”": '"', "’": "'", "—": "-", "–": "-", "\u00a0": " "})
_NORMS: tuple[Callable[[str], str], ...] = (
    str, str.rstrip, str.strip, lambda line: line.translate(_TYPED).strip(),
)  # fmt: skip


@dataclass
class TextFile:
    """Lines without their ends; `ends` has as many, the last may be "" (no final line end)."""

    lines: list[str]
    ends: list[str]
    encoding: str = "utf-8"
    mark: bytes = b""

    @property
    def data(self) -> bytes:
        text = "".join(line + end for line, end in zip(self.lines, self.ends, strict=True))
        return self.mark + text.encode(self.encoding)


@dataclass
class Outcomes:
    """What came of the cases; `wrong` holds a report of each that is neither exact nor refused as it should be."""

    applied: int = 0
    refused: int = 0
    held: Counter[str] = field(default_factory=Counter)  # cases in which something occurred
    wrong: list[str] = field(default_factory=list)


@dataclass
class Case:
    """A tree, a patch of it, and the tree afterwards."""

    before: dict[str, bytes]
    after: dict[str, bytes]
    sections: list[list[str]]
    expect: Expectation
    holds: set[str]


class Maker:
    """Makes one case from a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.holds: set[str] = set()
        self.expect: Expectation = "apply"

    def case(self) -> Case:
        draw = self.draw
        names = draw.sample(["a.py", "src/b.py", "src/deep/c.txt", "docs/d.md", "e", "docs/ü.md"], draw.randint(2, 5))
        files = {name: self.file() for name in names}
        before = {name: file.data for name, file in files.items()}
        after, sections = dict(before), []
        for name in draw.sample(names, draw.randint(1, len(names))):
            kind = draw.choices(["update", "move", "delete"], [6, 2, 1])[0]
            self.holds.add(kind)
            if kind == "delete":
                sections.append([f"*** Delete File: {name}"])
                del after[name]
                continue
            changed, hunks = self.update(files[name], may_be_none=kind == "move")
            target = name
            section = [f"*** Update File: {name}"]
            if kind == "move":
                target = f"moved/{draw.randrange(9)}/{name}"
                section.append(f"*** Move to: {target}")
            del after[name]
            after[target] = changed.data
            sections.append(section + hunks)
        if draw.random() < 0.4:
            self.holds.add("add")
            lines = [self.line() for _ in range(draw.randrange(5))]
            sections.append(["*** Add File: new/f.txt", *(f"+{line}" for line in lines)])
            after["new/f.txt"] = "".join(f"{line}\n" for line in lines).encode()
        if draw.random() < 0.35:
            self.sabotage(names, after, sections)
        return Case(before, after, sections, self.expect, self.holds)

    # -- files --

    def line(self, indents: Sequence[str] = ("", "", "    ", "        ", "\t")) -> str:
        draw = self.draw
        indent = draw.choice(indents)
        return indent + " ".join(draw.choices(_WORDS, k=draw.randint(1, 6))) + draw.choice(["", "", "", "  "])

    def file(self) -> TextFile:
        draw = self.draw
        lines: list[str] = []
        while len(lines) < draw.randint(0, 40):
            indents = draw.choice([("", "    "), ("    ", "        "), ("\t", "\t\t"), ("", "\t", "  ")])
            block = [self.line(indents) if draw.random() < 0.85 else "" for _ in range(draw.randint(1, 6))]
            lines += block * draw.choice([1, 1, 2])  # blocks that stand twice
        kind = draw.choices(["lf", "crlf", "mixed"], [5, 3, 1])[0]
        ends = [{"lf": "\n", "crlf": "\r\n", "mixed": draw.choice(["\n", "\r\n"])}[kind] for _ in lines]
        if kind != "lf":
            self.holds.add(kind)
        if lines and draw.random() < 0.3:
            self.holds.add("no final line end")
            lines[-1], ends[-1] = lines[-1] or "last", ""
        mark = b"\xef\xbb\xbf" if draw.random() < 0.1 else b""
        if any(ord(char) > 127 for line in lines for char in line):
            self.holds.add("unicode")
        return TextFile(lines, ends, "utf-8", mark)

    # -- updates --

    def update(self, file: TextFile, *, may_be_none: bool) -> tuple[TextFile, list[str]]:
        """The file after some edits, and the hunks that say so."""
        draw = self.draw
        if may_be_none and draw.random() < 0.4:
            return file, []
        uniform = len(set(file.ends) - {""}) < 2
        size = len(file.lines)
        hunks: list[str] = []
        lines, ends = list(file.lines), list(file.ends)
        style = next((end for end in file.ends if end), "\n")
        edits: list[tuple[int, int, list[str]]] = []
        at = 0
        for _ in range(draw.randint(1, 3)):
            start = draw.randint(at, size)
            stop = min(size, start + draw.randint(0, 3))
            near = file.lines[start - 1] if start else ""
            indents = (near[: len(near) - len(near.lstrip())], "    ", "")
            new = [self.line(indents) for _ in range(draw.randint(0, 3))] if uniform else []
            if (start == stop and not new) or file.lines[start:stop] == new:
                continue
            edits.append((start, stop, new))
            at = stop + draw.randint(2, 9)
            if at > size:
                break
        if not edits:
            edits = [(0, min(size, 1), [*self.some_new(file)])]
        reached = 0
        for number, (start, stop, new) in enumerate(edits):
            limit = edits[number + 1][0] if number + 1 < len(edits) else size
            text, reached = self.hunk(file, start, stop, new, reached, limit)
            hunks += text
        for start, stop, new in reversed(edits):
            lines[start:stop] = new
            ends[start:stop] = [style] * len(new)
        if lines:
            open_end = bool(file.ends) and file.ends[-1] == ""
            ends = [end or style for end in ends[:-1]] + ["" if open_end else ends[-1] or style]
        return TextFile(lines, ends, file.encoding, file.mark), hunks

    def some_new(self, file: TextFile) -> list[str]:
        uniform = len(set(file.ends) - {""}) < 2
        return [f"new {self.draw.randrange(99)}"] if uniform or not file.lines else []

    def hunk(
        self, file: TextFile, start: int, stop: int, new: list[str], reached: int, limit: int
    ) -> tuple[list[str], int]:
        """The lines of one hunk and where its context ends; sets what is to be expected."""
        draw, lines = self.draw, file.lines
        short = draw.random() < 0.1  # of a model that shows too little
        for context in (1,) if short else (draw.randint(1, 3), 4, 8, 20):
            first, last = max(reached, start - context), min(limit, stop + context)
            old = lines[first:last]
            marks = [" "] * (start - first) + ["-"] * (stop - start) + [" "] * (last - stop)
            if old and _places(lines, old, reached, 0) == [first]:
                break
        anchors: list[str] = []
        anchored = [at for at in range(reached, first) if lines[at].strip() and _stands_once(lines, at)]
        if anchored and not short and draw.random() < 0.4:
            at = anchored[-1]
            found = [place for place in _places(lines, old, at + 1, 0) if place > at] if old else []
            if found and found[0] == first:
                anchors = [lines[at]]
                self.holds.add("anchor")
        shown, added = self.fuzzed(old, new)
        where = self.expected_at(lines, shown, reached, at_anchor=bool(anchors), first=first)
        pieces = [mark + line for mark, line in zip(marks, shown, strict=True)]
        middle = start - first
        text = [*pieces[: middle + stop - start], *(f"+{line}" for line in added), *pieces[middle + stop - start :]]
        head = [f"@@ {anchor}" for anchor in anchors] or ["@@"]
        if last == len(lines) and old and not anchors and draw.random() < 0.2:
            self.holds.add("end of file")
            where = "either" if where == "refuse" else where  # the end may be the one place
            text.append("*** End of File")
        if self.expect != "refuse" and where != "apply":
            self.expect = where
        return head + text, last

    def expected_at(
        self, lines: list[str], shown: list[str], reached: int, *, at_anchor: bool, first: int
    ) -> Expectation:
        if not shown:
            return "apply" if not lines else "refuse"
        for level in range(len(_NORMS)):
            places = _places(lines, shown, reached, level)
            if places and at_anchor:
                return "apply" if level == 0 else "either"
            if len(places) > 1:
                self.holds.add("ambiguous")
                return "refuse"
            if places:
                if places != [first]:
                    return "either"  # what was made less exact is another place's text now
                return "either" if "indentation" in self.holds else "apply"
        return "refuse"

    def fuzzed(self, old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
        """The hunk's lines as a model that isn't exact writes them."""
        kind = self.draw.choices(["exact", "blanks", "typography", "indentation"], [6, 1, 1, 2])[0]
        if kind == "blanks":
            changed = [line.rstrip() if line.endswith(" ") else line + "  " for line in old]
        elif kind == "typography":
            changed = [line.translate(_TYPED) for line in old]
        elif kind == "indentation" and any(line.strip() for line in old):  # else nothing tells it
            deep = [line for line in (*old, *new) if line.strip()]
            front = min((len(line) - len(line.lstrip()) for line in deep), default=0)
            if not front or len({line[:front] for line in deep}) != 1:
                return old, new
            changed = [line[front:] if line.strip() else line for line in old]
            new = [line[front:] if line.strip() else line for line in new]
        else:
            return old, new
        if changed != old:
            self.holds |= {"fuzzy", kind}
        return changed, new

    # -- what must be refused --

    def sabotage(self, names: Sequence[str], after: dict[str, bytes], sections: list[list[str]]) -> None:
        draw = self.draw
        kind = draw.choice(["add over", "move over", "out", "missing", "misfit", "misfit", "cut", "write fails"])
        touched = {section[0].partition(": ")[2] for section in sections}
        free = [name for name in names if name not in touched]
        bad: list[str] = []
        if kind == "add over":
            bad = [f"*** Add File: {draw.choice(names)}", "+over"]
        elif kind == "move over" and len(free) > 1:
            bad = [f"*** Update File: {free[0]}", f"*** Move to: {free[1]}"]
        elif kind == "out":
            bad = draw.choice([["*** Add File: ../evil", "+x"], ["*** Delete File: /etc/passwd"],
                               ["*** Update File: src/../../x", "@@", "-a", "+b"]])  # fmt: skip
        elif kind == "missing":
            bad = ["*** Update File: nowhere.txt", "@@", "-a", "+b"]
        elif kind == "misfit" and free:
            bad = [f"*** Update File: {free[0]}", "@@", " no such line anywhere", "-nor this one", "+new"]
        elif kind == "write fails":
            bad = ["*** Add File: folder", "+1", "*** Add File: folder/file", "+2"]
        elif kind == "cut":
            bad = [f"*** Update File: {names[0]}"]
        if not bad:
            return
        self.holds.add(f"refused: {kind}")
        self.expect = "refuse"
        sections.insert(draw.randint(1, len(sections)), bad)  # never first: what precedes it must be taken back


def _places(lines: list[str], old: list[str], start: int, level: int) -> list[int]:
    norm = _NORMS[level]
    wanted, all_lines = [norm(line) for line in old], [norm(line) for line in lines]
    return [at for at in range(max(0, start), len(lines) - len(old) + 1) if all_lines[at : at + len(old)] == wanted]


def _stands_once(lines: list[str], at: int) -> bool:
    return all(sum(norm(line) == norm(lines[at]) for line in lines) == 1 for norm in _NORMS)


def _written(case: Case, draw: random.Random) -> str:
    end = [] if "refused: cut" in case.holds else ["*** End Patch"]
    patch = "\n".join(["*** Begin Patch", *(line for section in case.sections for line in section), *end])
    wrapping = draw.randrange(8)
    if wrapping == 0:
        patch = f"```\n{patch}\n```"
    elif wrapping == 1:
        patch = f"apply_patch <<'EOF'\n{patch}\nEOF"
    return json.dumps({draw.choice(["patch", "patch", "input"]): patch})


def run_case(folder: Folder, seed: int, outcomes: Outcomes) -> None:
    """Applies one case in an empty folder and adds what came of it."""
    case = Maker(seed).case()
    for name, data in case.before.items():
        folder.write(name, data)
    arguments = _written(case, random.Random(seed))
    result = folder.send("apply_patch", arguments)
    found = {name: data for name, data in folder.tree().items() if data is not None}
    folders = {name for name, data in folder.tree().items() if data is None}
    expected = case.before if result.error else case.after
    wrong = "" if found == expected else "another tree than expected"
    if result.error and any(name not in {str(p) for n in case.before for p in Path(n).parents} for name in folders):
        wrong = wrong or "folders are left behind"
    if result.error and case.expect == "apply":
        wrong = wrong or "refused"
    if not result.error and case.expect == "refuse":
        wrong = wrong or "applied"
    outcomes.applied += not result.error
    outcomes.refused += result.error
    outcomes.held.update(case.holds)
    if wrong:
        report = f"seed {seed}: {wrong}, expected to {case.expect}\n{result.text}\n{json.loads(arguments)}\n"
        outcomes.wrong.append(report + f"before {case.before}\nafter  {case.after}\nfound  {found}")


def count_outcomes(place: Path, *, count: int, seed: int) -> Outcomes:
    """Runs `count` cases, each in a folder of its own below `place`."""
    outcomes = Outcomes()
    for number in range(seed, seed + count):
        run_case(Folder(place / f"case-{number}"), number, outcomes)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        outcomes = count_outcomes(Path(place), count=options.count, seed=options.seed)
    seconds = time.monotonic() - started
    print(
        f"{options.count} patches from seed {options.seed}: {outcomes.applied} applied exactly, "
        f"{outcomes.refused} refused with nothing changed, {len(outcomes.wrong)} wrong, {seconds:.1f} s"
    )
    print("in the cases:", ", ".join(f"{what} {number}" for what, number in sorted(outcomes.held.items())))
    print(*(report[:4000] for report in outcomes.wrong[:3]), sep="\n\n")
    return 1 if outcomes.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
