"""Trains the étude: `python -m tests.etude.train OUT.pt --minutes 95 --seed 1 [--start MODEL.gguf] [--resume]`.

Two processes of one thread each (two threads in one process were a third slower), each with its own dialogues; their
gradients are averaged. Experts are rounded to MXFP4 from the first step on, so that training knows what will be
shipped. Matrices learn by Muon, the rest by AdamW; what is shipped is a moving average of the weights. Minutes are
those of running: a stopped process (`kill -STOP`, a pause) costs nothing. A checkpoint holds all that is needed to go
on with `--resume`. With `--start` it begins with the weights of a finished model, under today's vocabulary.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.etude import tokenizer
from tests.etude.dialogues import make_dialogue
from tests.etude.export import read_tokens
from tests.etude.initial import citation_marks, initial_weights
from tests.etude.learner import PROCESSES, Learner, Plan, Team
from tests.etude.lessons import Lessons, sheet_of
from tests.etude.network import Weights, compile_small_parts, logits, prepared
from tests.etude.prompts import make_prefix
from tests.etude.shape import Shape
from tests.etude.start import started, vocabulary_of
from tests.etude.words.values import Values

# Big buffers come from the heap, in huge pages, and stay there: page faults were a quarter of a step.
ALLOCATOR = ":".join(
    ("glibc.malloc.hugetlb=1", "glibc.malloc.mmap_threshold=33554432", "glibc.malloc.trim_threshold=8589934592",
     "glibc.malloc.top_pad=268435456")
)  # fmt: skip


class Clock:
    """Seconds of running: a stretch of more than five between two looks is a pause, and isn't counted.

    So compiling isn't either, and on a machine that needs more than five for a step the run would never end.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self.spent, self._last = spent, time.monotonic()

    def look(self) -> float:
        now = time.monotonic()
        passed, self._last = now - self._last, now
        self.spent += passed if passed < 5 else 0.0
        return self.spent


@torch.no_grad()
def examine(weights: Weights, shape: Shape, prompts: int = 18, dialogues: int = 10) -> str:
    """How many dialogues about unseen values are right in every token, teacher-forced: `"exact 0.77 tokens 0.99 …"`."""
    values = Values(77, "values")
    ready = prepared(weights)
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    tokens = correct = 0
    for index in range(prompts):
        prefix = make_prefix(values, "structured" if index % 6 == 0 else None)
        made = [make_dialogue(values, prefix) for _ in range(dialogues)]
        sheet = sheet_of(prefix, made)
        good = logits(ready, shape, sheet).argmax(-1) == sheet.targets
        real = sheet.owners >= 0
        tokens += int(real.sum())
        correct += int(good[real].sum())
        wrong = set(sheet.owners[real & ~good].tolist())
        for owner, dialogue in enumerate(made):
            asked[dialogue.skill] += 1
            right[dialogue.skill] += owner not in wrong
    parts = " ".join(f"{skill} {right[skill]}/{asked[skill]}" for skill in sorted(asked))
    return f"exact {right.total() / asked.total():.3f} tokens {correct / tokens:.4f} {parts}"


class Run:
    """One process of a run."""

    def __init__(self, out: Path, plan: Plan, rank: int, resume: bool) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(plan.seed)
        compile_small_parts()
        self.out, self.plan, self.team = out, plan, Team(rank)
        weights, self.shape = _saved(out) if resume else _first(plan)
        self.learner, self.clock = Learner(weights, plan), Clock()
        self.lessons = Lessons(plan.seed, rank, plan.tokens, begun=plan.start is not None)
        self.loss, self.tokens, self.dialogues = 0.0, 0, 0
        if resume:
            self._restore()

    def go(self) -> None:
        checkpoint = exam = shown = self.clock.look()
        while True:
            progress = self._shared_progress()
            if progress >= 1:
                break
            self._step(progress)
            spent = self.clock.spent
            if spent - shown > 20:
                shown = spent
                self._say(spent)
            if spent - checkpoint > 60 * self.plan.checkpoint_minutes:
                checkpoint = spent
                self._save()
            if spent - exam > 60 * self.plan.exam_minutes:
                exam = spent
                self._examine()
        self._save()
        self._examine()

    def _shared_progress(self) -> float:
        """Of the run, from 0 to 1: the mean, so that all processes do the same."""
        mine = torch.tensor([self.clock.look() / (60 * self.plan.minutes)], dtype=torch.float64)
        self.team.add_up([mine])
        return float(mine) / PROCESSES

    def _step(self, progress: float) -> None:
        ready = prepared(self.learner.weights)
        total = 0.0
        for _ in range(self.plan.prompts):
            sheet = self.lessons.next(progress)
            balance: list[Tensor] = []
            said = logits(ready, self.shape, sheet, balance) / self.plan.softened
            loss = functional.cross_entropy(said, sheet.targets)
            ((loss + 0.01 * sum(balance) / len(balance)) / self.plan.prompts).backward()
            total += loss.item() / self.plan.prompts
            self.tokens += len(sheet.real)
            self.dialogues += int(sheet.owners.max()) + 1
        gradients = {name: value.grad.float() for name, value in ready.items()}
        self.team.add_up(list(gradients.values()))
        torch._foreach_div_(list(gradients.values()), PROCESSES)
        self.learner.learn(gradients, progress, self.team)
        self.loss = total if self.learner.step == 1 else 0.97 * self.loss + 0.03 * total

    def _say(self, spent: float) -> None:
        if self.team.rank == 0:
            tokens = self.tokens * PROCESSES
            print(
                f"{spent / 60:.2f} min, step {self.learner.step}, loss {self.loss:.4f}, {tokens / 1e6:.2f} M tokens, "
                f"{tokens / spent:.0f} a second, {self.dialogues} dialogues of mine, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )

    def _examine(self) -> None:
        if self.team.rank == 0:
            print(f"EXAM {self.clock.spent / 60:.1f} min:", examine(self.learner.average, self.shape), flush=True)

    def _rank_path(self, rank: int) -> Path:
        return self.out.with_suffix(f".{rank}.pt")

    def _save(self) -> None:
        """Each process its own file; the first one also what `export` takes."""
        counts = (self.loss, self.tokens, self.dialogues)
        mine = {"learner": self.learner.state(), "lessons": self.lessons.state, "counts": counts}
        _write(self._rank_path(self.team.rank), mine | {"spent": self.clock.spent})
        if self.team.rank == 0:
            run = {"shape": asdict(self.shape), "plan": asdict(self.plan), "step": self.learner.step}
            _write(self.out, run | {"spent": self.clock.spent, "weights": self.learner.average})

    def _restore(self) -> None:
        """What is learnt comes from one file for all: by its own clock each may have saved after another step."""
        self.learner.restore(torch.load(self._rank_path(0), weights_only=False)["learner"])
        state = torch.load(self._rank_path(self.team.rank), weights_only=False)
        self.lessons.state = state["lessons"]
        self.clock = Clock(state["spent"])
        self.loss, self.tokens, self.dialogues = state["counts"]


def _first(plan: Plan) -> tuple[Weights, Shape]:
    """What a run begins with."""
    if plan.start is not None:
        arrays, shape = started(Path(plan.start), vocabulary_of(read_tokens()), plan.hidden, plan.seed)
        return {name: torch.from_numpy(value) for name, value in arrays.items()}, shape
    shape = Shape(tokenizer.load().get_vocab_size())
    shape = shape if plan.hidden is None else replace(shape, hidden=plan.hidden)
    return initial_weights(shape, plan.seed, tokenizer.twins(), citation_marks()), shape


def _saved(out: Path) -> tuple[Weights, Shape]:
    content = torch.load(out, weights_only=True)
    return content["weights"], Shape(**content["shape"])


def _write(path: Path, content: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    torch.save(content, part)
    part.replace(path)


def main() -> None:
    """Start the processes, or be one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.etude.train", description="Train the étude.")
    parser.add_argument("out", type=Path, help="the checkpoint: what tests.etude.export takes")
    parser.add_argument("--minutes", type=float, help="of running, pauses left out (default 95, or as begun)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", help="a GGUF whose weights to go on from, e.g. agent/models/etude.gguf")
    parser.add_argument("--rates", type=float, default=0.8, help="of the usual rates, from --start: %(default)s")
    parser.add_argument("--hidden", type=int, help="hidden units of an expert (default: those of --start, or 128)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints beside OUT, by their plan")
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        _start_all()
        return
    Run(arguments.out, _plan(arguments), int(os.environ["RANK"]), resume=arguments.resume).go()


def _plan(arguments: argparse.Namespace) -> Plan:
    if arguments.resume:
        plan = Plan(**torch.load(arguments.out, weights_only=True)["plan"])
        return plan if arguments.minutes is None else replace(plan, minutes=arguments.minutes)
    minutes = 95 if arguments.minutes is None else arguments.minutes
    plan = Plan(minutes, arguments.seed, hidden=arguments.hidden)
    return plan if arguments.start is None else plan.going_on(arguments.start, arguments.rates)


def _start_all() -> None:
    common = os.environ | {
        "GLIBC_TUNABLES": ALLOCATOR,
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "WORLD_SIZE": str(PROCESSES),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(random.randrange(20000, 32000)),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, "-m", "tests.etude.train", *sys.argv[1:]]
    started = [subprocess.Popen(command, env=common | {"RANK": str(rank)}) for rank in range(PROCESSES)]
    ends = [process.wait() for process in started]
    if any(ends):
        raise SystemExit("a process of the run failed: its message is above")


if __name__ == "__main__":
    main()
