"""`ossia models plan`: what would be chosen for a model on this machine, and why. Nothing is loaded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.models.explain import Row
    from agent.models.memory import Memory
    from agent.models.model import ModelFile
    from agent.models.plan import Plan

VERSION = 1
"""Of the JSON."""


def print_plan(given: Mapping[str, object], *, as_json: bool) -> None:
    """Print the plan for the model and the settings that hold with these flags, as a chat would load it.

    Raises ModelError, DoesNotFit, SettingRefused, ConfigError.
    """
    from agent.engine.llama import gpu_free_bytes, processor_features
    from agent.models.explain import explain
    from agent.models.memory import read_memory
    from agent.models.resolve import resolve as resolve_model
    from cli.runtime.models import locations
    from cli.runtime.planning import plan_for, wishes_of
    from cli.settings.config import resolve
    from cli.streams import shown

    settings = resolve(given, environ=os.environ).settings
    memory = read_memory(gpu_free_bytes())
    model = resolve_model(settings.model, locations=locations(), memory=memory)
    planned = plan_for(settings, model, memory, stays=True)
    rows = explain(model, memory, planned, wishes_of(settings, model, stays=True), processor_features())
    if as_json:
        print(json.dumps(_document(model, memory, planned, rows)))
        return
    for note in (*model.notes, *planned.warnings):
        print(shown(f"ossia: warning: {note}"), file=sys.stderr)
    print(shown(f"{model.name}  {model.path}"))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        print(shown(f"{label:<{width}}  {text}"))


def _document(model: ModelFile, memory: Memory, planned: Plan, rows: tuple[Row, ...]) -> dict[str, object]:
    put = planned.offload
    return {
        "version": VERSION,
        "model": model.name,
        "path": str(model.path),
        "context": planned.context_tokens,
        "gpu_layers": put.layers,
        "n_cpu_moe": put.cpu_moe,
        "gpu_split": put.split,
        "kv_type": planned.kv_type,
        "repack": planned.repack,
        "needs": {**asdict(planned.needs), "total": planned.needs.total},
        "ram": {"used": planned.ram_bytes, "free": memory.ram_free, "shared": memory.shared},
        "gpus": [
            {"used": used, "free": free}
            for used, free in zip(put.gpu_bytes or (0,) * len(memory.gpu_free), memory.gpu_free, strict=True)
        ],
        "why": dict(rows),
        "warnings": [*model.notes, *planned.warnings],
    }
