"""Trains the étude: `python -m tests.etude.train OUT.pt --minutes 95 --seed 1 [--resume]`.

Two processes of one thread each (two threads in one process were a third slower), each with its own dialogues; their
gradients are averaged. Experts are rounded to MXFP4 from the first step on, so that training knows what will be shipped.
Matrices learn by Muon, the rest by AdamW; what is shipped is a moving average of the weights. Minutes are those of running:
a stopped process (`kill -STOP`, a pause) costs nothing. A checkpoint holds all that is needed to go on with `--resume`.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from tokenizers import Tokenizer
from torch import Tensor

from tests.etude import tokenizer
from tests.etude.dialogues import Dialogue, make_dialogue
from tests.etude.initial import Marks, initial_weights
from tests.etude.network import Sheet, Weights, compile_small_parts, lay_out, logits, prepared
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.shape import Shape, is_expert
from tests.etude.values import Values

PROCESSES = 2
# Big buffers come from the heap, in huge pages, and stay there: page faults were a quarter of a step.
ALLOCATOR = ":".join(
    ("glibc.malloc.hugetlb=1", "glibc.malloc.mmap_threshold=33554432", "glibc.malloc.trim_threshold=8589934592",
     "glibc.malloc.top_pad=268435456")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run goes. Rates are constant until `decay_from` of the time, then fall in a line to `last_rate` of them."""

    minutes: float
    seed: int
    prompts: int = 2  # a step, of each process
    tokens: int = 1500  # of dialogues under a prompt
    muon_rate: float = 0.015
    adam_rate: float = 3e-3
    decay_from: float = 0.38
    last_rate: float = 0.01
    warm_steps: int = 40
    average: float = 0.998
    checkpoint_minutes: float = 3.0
    exam_minutes: float = 6.0


# --- dialogues ------------------------------------------------------------------------------------------------------


class Lessons:
    """An endless source of sheets. Both processes draw the same kinds of prompts, so that they take equally long."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self._plan = plan
        self._values = Values(1000 + plan.seed + 7919 * rank, "nothing", tokenizer.pieces())
        self._kinds = random.Random(55 + plan.seed)

    def next(self, progress: float) -> Sheet:
        """A prompt with as many dialogues as make up the tokens; at first mostly short prompts and bare copying."""
        draw, early = self._kinds.random(), progress < 0.03 and self._kinds.random() < 0.5
        kind = "bare" if early else "structured" if draw < 0.12 else None
        prefix = make_prefix(self._values, kind)
        dialogues: list[Dialogue] = []
        tokens = 0
        while tokens < self._plan.tokens:
            dialogue = make_dialogue(self._values, prefix, "copying" if early else None)
            dialogues.append(dialogue)
            tokens += sum(len(text) for text, _ in dialogue.segments) // 4
        return sheet_of(prefix, dialogues)

    @property
    def state(self) -> tuple[Any, Any]:
        return self._values.random.getstate(), self._kinds.getstate()

    @state.setter
    def state(self, state: tuple[Any, Any]) -> None:
        self._values.random.setstate(state[0])
        self._kinds.setstate(state[1])


def sheet_of(prefix: Prefix, dialogues: list[Dialogue]) -> Sheet:
    """The ids of a prompt and its dialogues, segment by segment as they were written."""
    texts = [text for dialogue in dialogues for text, _ in dialogue.segments]
    encoded = iter(tokenizer.load().encode_batch([prefix.text, *texts]))
    prompt = next(encoded).ids
    rows: list[tuple[list[int], list[bool]]] = []
    for dialogue in dialogues:
        ids: list[int] = []
        trained: list[bool] = []
        for _, said in dialogue.segments:
            part = next(encoded).ids
            ids += part
            trained += [said] * len(part)
        rows.append((ids, trained))
    return lay_out(prompt, rows)


def marks(vocabulary: Tokenizer) -> Marks:
    """The ids that the citation circuit is about."""
    return Marks(vocabulary.token_to_id("L"), vocabulary.encode(" 【").ids[0])


# --- learning -------------------------------------------------------------------------------------------------------


def orthogonalised(matrices: Tensor) -> Tensor:
    """Matrices with their singular values brought near one, by four Newton-Schulz steps with fitted coefficients."""
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8366, -3.0525, 1.2012)):
        square = x @ x.mT
        x = a * x + (b * square + c * (square @ square)) @ x
    return (x.mT if tall else x).float()


class Learner:
    """Weights, their moving average, and what the two optimisers remember."""

    def __init__(self, weights: Weights, plan: Plan) -> None:
        self.plan, self.weights = plan, weights
        self.average = {name: value.clone() for name, value in weights.items()}
        self.matrices = [name for name in weights if name.endswith((".qkv", ".out")) or is_expert(name)]
        self.others = [name for name in weights if name not in self.matrices]
        self.momentum = {name: torch.zeros_like(weights[name]) for name in self.matrices}
        plain = [weights[name] for name in self.others if weights[name].dim() == 1]
        decayed = [weights[name] for name in self.others if weights[name].dim() > 1]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=plan.adam_rate, betas=(0.9, 0.95), eps=1e-8)
        self.step = 0

    def learn(self, gradients: Weights, progress: float, team: Team) -> None:
        """One step by averaged gradients."""
        plan = self.plan
        fall = (1 - progress) / (1 - plan.decay_from)
        rate = min(1.0, (self.step + 1) / plan.warm_steps) * min(1.0, max(plan.last_rate, fall))
        for name in self.others:
            self.weights[name].grad = gradients[name]
        torch.nn.utils.clip_grad_norm_([self.weights[name] for name in self.others], 1.0)
        for group in self.adam.param_groups:
            group["lr"] = plan.adam_rate * rate
        self.adam.step()
        self._muon(gradients, plan.muon_rate * rate, team)
        self.step += 1
        names = list(self.weights)
        keep = min(plan.average, (self.step + 1) / (self.step + 20))
        torch._foreach_lerp_([self.average[name] for name in names], [self.weights[name] for name in names], 1 - keep)

    def _muon(self, gradients: Weights, rate: float, team: Team) -> None:
        """Each process orthogonalises its share of the matrices; then the updates are shared."""
        updates = {name: torch.zeros_like(self.weights[name]) for name in self.matrices}
        for index, name in enumerate(self.matrices):
            self.momentum[name].mul_(0.95).add_(gradients[name])
            if index // 4 % PROCESSES == team.rank or team.alone:  # four matrices a layer
                updates[name] = self._update(name, gradients[name].add(self.momentum[name], alpha=0.95))
        team.add_up(list(updates.values()))
        for name, update in updates.items():
            self.weights[name].mul_(1 - rate * 0.02).add_(update, alpha=-rate * 0.5)

    @staticmethod
    def _update(name: str, direction: Tensor) -> Tensor:
        if name.endswith(".up"):  # gate and up are two matrices
            return torch.cat([orthogonalised(half) for half in direction.chunk(2, 1)], 1)
        rows, columns = direction.shape[-2:]
        return orthogonalised(direction) * max(1.0, rows / columns) ** 0.5

    def state(self) -> dict[str, Any]:
        return {"weights": self.weights, "average": self.average, "momentum": self.momentum, "adam": self.adam.state_dict(),
                "step": self.step}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        for mine, theirs in ((self.weights, "weights"), (self.average, "average"), (self.momentum, "momentum")):
            for name, value in mine.items():
                value.copy_(state[theirs][name])
        self.adam.load_state_dict(state["adam"])
        self.step = state["step"]


class Team:
    """The processes of a run: tensors summed over all of them, through a file in memory that both have mapped."""

    def __init__(self, rank: int, alone: bool) -> None:
        self.rank, self.alone = rank, alone
        if not alone:
            torch.distributed.init_process_group("gloo")

    def add_up(self, tensors: list[Tensor]) -> None:
        """In place, the sums over all processes."""
        if self.alone:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        torch.distributed.all_reduce(flat)
        for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))


class Clock:
    """Seconds of running: a stretch of more than five between two looks is a pause, and isn't counted."""

    def __init__(self, spent: float = 0.0) -> None:
        self.spent, self._last = spent, time.monotonic()

    def look(self, longest: float = 5.0) -> float:
        now = time.monotonic()
        passed, self._last = now - self._last, now
        self.spent += passed if passed < longest else 0.0
        return self.spent


# --- examination ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def examine(weights: Weights, shape: Shape, prompts: int = 18, dialogues: int = 10) -> str:
    """How many dialogues about unseen values are right in every token, teacher-forced: `"0.77, arithmetic 21/22, …"`."""
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


# --- the run ----------------------------------------------------------------------------------------------------------


class Run:
    """One process of a run."""

    def __init__(self, out: Path, plan: Plan, rank: int, alone: bool, resume: bool) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(plan.seed)
        compile_small_parts()
        self.out, self.plan, self.team = out, plan, Team(rank, alone)
        vocabulary = tokenizer.load()
        self.shape = Shape(vocabulary.get_vocab_size())
        weights = initial_weights(self.shape, plan.seed, tokenizer.twins(), marks(vocabulary))
        self.learner, self.lessons, self.clock = Learner(weights, plan), Lessons(plan, rank), Clock()
        self.loss, self.tokens, self.dialogues = 0.0, 0, 0
        if resume:
            self._restore(torch.load(self._rank_path(), weights_only=False))

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
        return mine.item() if self.team.alone else mine.item() / PROCESSES

    def _step(self, progress: float) -> None:
        ready = prepared(self.learner.weights)
        total = 0.0
        for _ in range(self.plan.prompts):
            sheet = self.lessons.next(progress)
            balance: list[Tensor] = []
            loss = functional.cross_entropy(logits(ready, self.shape, sheet, balance), sheet.targets)
            ((loss + 0.01 * sum(balance) / len(balance)) / self.plan.prompts).backward()
            total += loss.item() / self.plan.prompts
            self.tokens += len(sheet.real)
            self.dialogues += int(sheet.owners.max()) + 1
        gradients = {name: value.grad.float() for name, value in ready.items()}
        self.team.add_up(list(gradients.values()))
        if not self.team.alone:
            torch._foreach_div_(list(gradients.values()), PROCESSES)
        self.learner.learn(gradients, progress, self.team)
        self.loss = total if self.learner.step == 1 else 0.97 * self.loss + 0.03 * total

    def _say(self, spent: float) -> None:
        if self.team.rank == 0:
            tokens = self.tokens * (1 if self.team.alone else PROCESSES)
            print(
                f"{spent / 60:.2f} min, step {self.learner.step}, loss {self.loss:.4f}, {tokens / 1e6:.2f} M tokens, "
                f"{tokens / spent:.0f} a second, {self.dialogues} dialogues of mine, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )

    def _examine(self) -> None:
        if self.team.rank == 0:
            print(f"EXAM {self.clock.spent / 60:.1f} min:", examine(self.learner.average, self.shape), flush=True)

    def _rank_path(self) -> Path:
        return self.out.with_suffix(f".{self.team.rank}.pt")

    def _save(self) -> None:
        """Each process its own file; the first one also what `export` takes."""
        mine = {"learner": self.learner.state(), "lessons": self.lessons.state, "spent": self.clock.spent,
                "counts": (self.loss, self.tokens, self.dialogues)}  # fmt: skip
        _write(self._rank_path(), mine)
        if self.team.rank == 0:
            _write(self.out, {"shape": asdict(self.shape), "plan": asdict(self.plan), "weights": self.learner.average,
                              "step": self.learner.step, "spent": self.clock.spent})  # fmt: skip

    def _restore(self, state: dict[str, Any]) -> None:
        self.learner.restore(state["learner"])
        self.lessons.state = state["lessons"]
        self.clock = Clock(state["spent"])
        self.loss, self.tokens, self.dialogues = state["counts"]


def _write(path: Path, content: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    torch.save(content, part)
    part.replace(path)


def main() -> None:
    """Start the processes, or be one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.etude.train", description="Train the étude.")
    parser.add_argument("out", type=Path, help="the checkpoint: what tests.etude.export takes")
    parser.add_argument("--minutes", type=float, default=95, help="of running, pauses left out (default 95)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints beside OUT")
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        _start_all()
        return
    plan = Plan(arguments.minutes, arguments.seed)
    Run(arguments.out, plan, int(os.environ["RANK"]), alone=False, resume=arguments.resume).go()


def _start_all() -> None:
    common = os.environ | {
        "GLIBC_TUNABLES": ALLOCATOR, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(PROCESSES), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(random.randrange(20000, 32000)), "GLOO_SOCKET_IFNAME": "lo", "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.etude.train", *sys.argv[1:]]
    started = [subprocess.Popen(command, env=common | {"RANK": str(rank)}) for rank in range(PROCESSES)]
    if any([process.wait() for process in started]):
        raise SystemExit("a process of the run failed: its message is above")


if __name__ == "__main__":
    main()
