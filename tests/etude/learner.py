"""How the étude learns: Muon for the matrices, AdamW for the rest, and a moving average of the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tests.etude.network import Weights
from tests.etude.shape import is_expert

PROCESSES = 2


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
    softened: float = 1.7  # logits are divided by it in training: what it says at temperature 1 is as sure as 0.6
    warm_steps: int = 40
    average: float = 0.998
    checkpoint_minutes: float = 3.0
    exam_minutes: float = 6.0
    start: str | None = None  # a finished model's GGUF; None: weights set by hand and by chance
    hidden: int | None = None  # units of an expert; None: those of `start`, or `Shape`'s

    def going_on(self, start: str, rates: float = 0.8) -> Plan:
        """The same from a finished model: lower rates, so that what it knows isn't lost before it learns more."""
        muon, adam = rates * self.muon_rate, rates * self.adam_rate
        return replace(self, start=start, tokens=2000, muon_rate=muon, adam_rate=adam, warm_steps=20)


class Team:
    """The processes of a run, this one of rank `rank`: tensors are summed over all of them."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        torch.distributed.init_process_group("gloo")

    def add_up(self, tensors: list[Tensor]) -> None:
        """In place, the sums over all processes."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        torch.distributed.all_reduce(flat)
        for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))


_NEWTON_SCHULZ = (
    (4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8366, -3.0525, 1.2012),
)  # fmt: skip


def orthogonalised(matrices: Tensor) -> Tensor:
    """Matrices with their singular values brought near one, by four Newton-Schulz steps with fitted coefficients."""
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in _NEWTON_SCHULZ:
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
            if index // 4 % PROCESSES == team.rank:  # four matrices a layer
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
        """All that `restore` needs."""
        parts = {"weights": self.weights, "average": self.average, "momentum": self.momentum}
        return parts | {"adam": self.adam.state_dict(), "step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        for mine, theirs in ((self.weights, "weights"), (self.average, "average"), (self.momentum, "momentum")):
            for name, value in mine.items():
                value.copy_(state[theirs][name])
        self.adam.load_state_dict(state["adam"])
        self.step = state["step"]
