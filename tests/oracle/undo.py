"""Undo gives back the first tree: `python -m tests.oracle.undo [--turns 50] [--seed 1] [--confinement bwrap]`.

In a git work tree of its own, each turn makes a few random calls of apply_patch and of container.exec through
the toolbox, among them ones that fail. Then undo is repeated, and after each one the tree must be what it was at the
beginning of that turn: bytes, modes, links, empty folders, and the repository's settings and hooks, but for what git
ignores. (Its history goes on: the commands are given git.) The first difference ends it, with 1.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from ossia.tools import sandbox
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import ApprovalAsked, Decision, NoStop, ToolCall, ToolContext, ToolEvent
from ossia.tools.toolbox import Toolbox
from ossia.tools.undo.journal import Journal
from ossia.tools.work.apply_patch import ApplyPatch
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.support.kernels import NO_BWRAP, count_tokens
from tests.support.trees import snapshot
from tests.support.work_calls import patch

COMMANDS = (
    "echo {word} >> {file}", "rm -f {file}", "rm -rf {folder}", "mv {file} {folder}/{word}",
    "mkdir -p {folder}/{word}/x", "chmod {mode} {file}",
    "chmod 7{mode} {folder}; chmod u+rwx {folder}", "ln -sf ../{word} {folder}/l-{word}",
    "ln {file} {folder}/h-{word}", "cp -r {folder} {folder}-{word}", "sed -i s/a/b/ {file}", "printf x > {file}; false",
    "find . -name '*{digit}*' -not -path './.git*' -delete", "git checkout -- . ; git stash; git clean -fdx",
    "rm -f {file}; mkdir -p {file}/{word}", "rm -rf {folder}; echo {word} > {folder}", "touch {file}",
    "head -c 200000 /dev/urandom > {folder}/{word}.bin", "mkfifo {folder}/{word}.fifo", "mv {folder} {word}",
    "for i in 1 2 3 4 5; do echo {word}$i > {folder}/n$i.txt; done; chmod 500 {folder}", "tar cf {word}.tar {folder}",
    "printf '%s' {word} 1<> {file}", "mkdir {word}; chmod 000 {word}", "git init -q {folder}/{word}; rm -rf .git",
    "echo {word} > {folder}/AGENTS.md", "echo {word} >> AGENTS.md", "mv {folder} .idea",
    "rm -rf .vscode; mv {folder} .vscode",
    "echo {word} > out/{word}; rm -rf out/deep; cp {file} out", "echo '*' > .gitignore; rm -rf {folder}; rm .gitignore",
    "mkdir -p {folder}/.vscode/{word}; echo {word} | tee .vscode/settings.json > {folder}/.vscode/{word}/x",
)  # fmt: skip


@dataclass
class Report:
    """What was played."""

    turns: int = 0
    calls: collections.Counter[str] = field(default_factory=collections.Counter)
    failed: int = 0
    undone: int = 0


class Difference(AssertionError):
    """The tree isn't what it was; the message says where."""


def play(turns: int, seed: int, *, program: str | None = None) -> Report:
    """Play and undo; raises `Difference`. `program` is bubblewrap's, None for the one on PATH."""
    source, report = random.Random(seed), Report()
    with tempfile.TemporaryDirectory(prefix="ossia-undo-") as folder:
        root, data = Path(folder, "tree").resolve(), Path(folder, "data")
        _make_tree(root, source)
        journal = Journal(data, root)
        tools = [ApplyPatch(), Exec(confinement=sandbox.choose(bwrap=program))]
        context = ToolContext(NoStop(), Workspace(root, True, journal), data, count_tokens)
        toolbox = Toolbox(tools, policy=Policy([Rule("*", "allow")]), context=context)
        states = []
        for number in range(turns):
            states.append((number, _kept(root)))
            journal.begin_turn(f"turn {number}")
            for _ in range(source.randint(1, 4)):
                _call(toolbox, root, source, report)
            journal.end_turn()
            report.turns += 1
        _undo_all(journal, root, states, report)
        subprocess.run(["chmod", "-R", "u+rwX", str(root)], check=False)
    return report


def _undo_all(journal: Journal, root: Path, states: list[tuple[int, dict[str, object]]], report: Report) -> None:
    _compare(_kept(root), _kept(root), "at the end")
    for number, state in reversed(states):
        labels = [turn.label for turn in journal.turns()[:1]]
        if labels == [f"turn {number}"]:
            undone = journal.undo()
            assert undone is not None
            report.undone += 1
            if undone.skipped:
                raise Difference(f"turn {number}: skipped {undone.skipped}")
        _compare(state, _kept(root), f"before turn {number}")
    if journal.turns():
        raise Difference(f"left: {journal.turns()}")


_KEPT_OF_GIT = (".git/config", ".git/hooks", ".git/info", ".git/description")


def _kept(root: Path) -> dict[str, object]:
    """The tree without what git ignores, and without the history."""
    left_out = ("out", ".git")
    return {path: state for path, state in snapshot(root).items()
            if path.partition("/")[0] not in left_out or path.startswith(_KEPT_OF_GIT)}  # fmt: skip


def _compare(wanted: dict[str, object], found: dict[str, object], where: str) -> None:
    wrong = [path for path in sorted(wanted.keys() | found.keys()) if wanted.get(path) != found.get(path)]
    if wrong:
        lines = [f"{path}: {str(wanted.get(path))[:80]} became {str(found.get(path))[:80]}" for path in wrong[:10]]
        raise Difference(f"{where}: {len(wrong)} paths differ\n" + "\n".join(lines))


# -- the tree and the calls --------------------------------------------------------------------------------------------


def _make_tree(root: Path, source: random.Random) -> None:
    for folder in ("src", "docs", "src/deep/deeper", "empty/folder", "odd name"):
        (root / folder).mkdir(parents=True)
    for number in range(30):
        path = root / source.choice(("", "src", "docs", "src/deep", "odd name")) / f"file{number}.txt"
        end = source.choice(("\n", "\r\n"))
        path.write_bytes("".join(f"line {n} a{source.random()}{end}" for n in range(source.randint(0, 40))).encode())
        path.chmod(source.choice((0o644, 0o600, 0o755, 0o444)))
    (root / "binary.bin").write_bytes(source.randbytes(5000))
    (root / ".vscode").mkdir()
    for name in ("AGENTS.md", ".vscode/settings.json"):
        (root / name).write_text("as it was\n")
    (root / "out/deep").mkdir(parents=True)
    for name in ("out/x.bin", "out/deep/y.bin"):
        (root / name).write_bytes(source.randbytes(5000))
    (root / ".gitignore").write_text("/out/\n")
    (root / "link").symlink_to("src")
    (root / "dangling").symlink_to("nowhere/at/all")
    as_somebody = ("-c", "user.name=x", "-c", "user.email=x@x")
    for arguments in (["init", "-q"], ["add", "-A"], [*as_somebody, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(root), *arguments], check=True, stdout=subprocess.DEVNULL)


def _call(toolbox: Toolbox, root: Path, source: random.Random, report: Report) -> None:
    make = source.choice((_write, _patch, _command, _command))
    name, arguments = "container.exec" if make is _command else "repo_browser.apply_patch", make(root, source)
    call = ToolCall("call_1", name, json.dumps(arguments))
    running, decision = toolbox.run(call, stop=NoStop()), None
    while True:
        try:
            event: ToolEvent = running.send(decision)
        except StopIteration as end:
            report.calls[name] += 1
            report.failed += end.value.error
            return
        decision = Decision(call.id, True) if isinstance(event, ApprovalAsked) else None


def _places(root: Path, source: random.Random) -> tuple[str, str]:
    """A file and a folder that are there now, where there are any."""
    skipped = ("-path", "./.git", "-prune", "-o", "-path", "./out", "-prune", "-o")
    listed = subprocess.run(["find", ".", *skipped, "-printf", "%y %P\\0"], cwd=root, capture_output=True,
                            check=False).stdout.decode(errors="replace").split("\0")  # fmt: skip
    files = sorted(line[2:] for line in listed if line.startswith("f ") and "�" not in line)
    folders = sorted(line[2:] for line in listed if line.startswith("d ") and line[2:])
    return source.choice(files or ["new.txt"]), source.choice(folders or ["made"])


def _word(source: random.Random) -> str:
    return "w" + "".join(source.choice("abc0123") for _ in range(5))


def _write(root: Path, source: random.Random) -> dict[str, object]:
    file, folder = _places(root, source)
    path = source.choice((file, f"{folder}/{_word(source)}.txt", f"{_word(source)}/{_word(source)}/new.md"))
    before = (root / path).read_text(errors="replace") if (root / path).is_file() else None
    return {"patch": patch(path, f"{_word(source)}\n" * source.randint(0, 20), before=before)}


def _patch(root: Path, source: random.Random) -> dict[str, object]:
    file, folder = _places(root, source)
    sections = [f"*** Add File: {folder}/{_word(source)}.md\n+{_word(source)}\n"]
    lines = (root / file).read_text(errors="replace").splitlines() if (root / file).is_file() else []
    if lines and source.random() < 0.7:
        line = source.choice(lines)
        move = f"*** Move to: {folder}/{_word(source)}.txt\n" if source.random() < 0.4 else ""
        sections.append(f"*** Update File: {file}\n{move}@@\n-{line}\n+{_word(source)}\n")
    elif source.random() < 0.7:
        sections.append(f"*** Delete File: {file}\n")
    return {"patch": "*** Begin Patch\n" + "".join(sections) + "*** End Patch"}


def _command(root: Path, source: random.Random) -> dict[str, object]:
    file, folder = _places(root, source)
    values = {"file": f"'{file}'", "folder": f"'{folder}'", "word": _word(source), "digit": source.choice("0123456789"),
              "mode": source.choice(("644", "600", "755", "444", "400"))}  # fmt: skip
    command = "; ".join(source.choice(COMMANDS).format(**values) for _ in range(source.randint(1, 2)))
    return {"command": ["bash", "-lc", command]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1, help="this many seeds, from --seed on")
    parser.add_argument("--confinement", choices=("bwrap", "landlock"), default="bwrap")
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.runs):
        started = time.monotonic()
        try:
            report = play(options.turns, seed, program=NO_BWRAP if options.confinement == "landlock" else None)
        except Difference as error:
            print(f"seed {seed}: {error}")
            return 1
        calls = ", ".join(f"{count} {name}" for name, count in sorted(report.calls.items()))
        print(f"seed {seed}: {report.turns} turns, {calls} ({report.failed} with an error or an exit status); "
              f"{report.undone} turns undone, the first tree is back; {time.monotonic() - started:.1f} s")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
