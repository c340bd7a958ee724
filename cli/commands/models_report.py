"""`ossia models show`, `plan` and `path`: in words, and as JSON."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ossia.agent.models.describe import Description, Stored
    from ossia.agent.models.find import Found
    from ossia.agent.models.memory import Memory
    from ossia.agent.models.model import ModelFile
    from ossia.agent.models.plan import Plan

Row = tuple[str, str]
VERSION = 1
"""Of the JSON."""


def print_description(name: str, told: Description, *, as_json: bool) -> None:
    """Print what the header says: rows of a label and a text, or JSON on one line."""
    if as_json:
        print(json.dumps(_document(name, told)))
        return
    _print_rows(name, told.path, _rows(told))


def print_path(one: Found, *, as_json: bool) -> None:
    """Print where a model's (first) file is."""
    from ossia.cli.streams import shown

    if as_json:
        found = {"version": VERSION, "model": one.name, "path": str(one.path), "from": one.origin}
        print(json.dumps(found | {"bytes": one.file_bytes}))
    else:
        print(shown(str(one.path)))


def print_plan(given: Mapping[str, object], *, as_json: bool) -> None:
    """Print the plan for the model and the settings that hold with these flags, as a chat would load it.

    Raises ModelError, DoesNotFit, SettingRefused, ConfigError.
    """
    from ossia.agent.models.find import locations
    from ossia.agent.models.resolve import locate
    from ossia.agent.models.resolve import resolve as resolve_model
    from ossia.cli import paths
    from ossia.cli.commands.models_call import say_engine, say_more
    from ossia.cli.runtime.models import free_memory
    from ossia.cli.runtime.planning import plan_for
    from ossia.cli.settings.config import resolve
    from ossia.cli.streams import say

    settings = resolve(given, environ=os.environ).settings
    if not given["model"]:
        say_engine(settings)
    if settings.model:
        say_more(settings.model, locate(settings.model, locations=locations(paths.host())))
    memory = free_memory()
    model = resolve_model(settings.model, locations=locations(paths.host()), memory=memory)
    planned = plan_for(settings, model, memory, stays=True)
    if as_json:
        print(json.dumps(_plan_document(model, memory, planned)))
        return
    for note in (*model.notes, *planned.warnings):
        say(f"warning: {note}")
    _print_rows(model.name, model.path, _figures(model, memory, planned))


def _figures(model: ModelFile, memory: Memory, planned: Plan) -> list[Row]:
    """`[("context", "32,768 of 131,072 tokens, KV cache 0.8 GB as f16"), ("GPU", …), ("memory", …)]`."""
    from ossia.agent.models.memory import size_text
    from ossia.cli.runtime.assemble import memory_lines
    from ossia.cli.runtime.planning import on_gpu

    own, put = model.architecture.context_tokens, planned.offload
    cache = f"KV cache {size_text(planned.needs.kv)} as {planned.kv_type}"
    each = zip(put.gpu_bytes or (0,) * len(memory.gpu_free), memory.gpu_free, strict=True)
    gpus = ", ".join(f"{size_text(used)} of {size_text(free)}" for used, free in each)
    free = "an unknown amount is" if memory.ram_free is None else f"{size_text(memory.ram_free)} are"
    _, parts = memory_lines(planned)
    copy = "" if planned.repack else "; not repacked"
    return [
        ("context", f"{planned.context_tokens:,} of {own:,} tokens, {cache}"),
        ("GPU", f"{on_gpu(planned)}: {gpus}" if gpus else "none that llama.cpp can use"),
        ("memory", f"{size_text(planned.ram_bytes)}, {free} free: {parts}{copy}"),
    ]


def _print_rows(name: str, path: Path, rows: Sequence[Row]) -> None:
    """The rows, wrapped on a terminal; in a pipe each is one line."""
    from ossia.cli.clean import one_line
    from ossia.cli.runtime.progress import columns
    from ossia.cli.streams import shown, stdout
    from ossia.cli.words import wrapped

    print(shown(f"{one_line(name)}  {one_line(str(path))}"))
    indent = max(len(label) for label, _ in rows) + 2
    for label, text in rows:
        first = f"{label:<{indent}}"
        whole = [f"{first}{one_line(text)}"]
        for line in wrapped(text, first, " " * indent, columns(stdout())) if stdout().isatty() else whole:
            print(shown(line))


def _rows(told: Description) -> list[tuple[str, str]]:
    from ossia.agent.models.memory import size_text

    parts = f" in {len(told.parts)} files" if len(told.parts) > 1 else ""
    rows = [
        ("usable", "yes" if told.problem is None else f"no: {told.problem}"),
        ("architecture", ", ".join([told.architecture or "not named", *_network(told.numbers)])),
        ("context", _context(told.numbers)),
        ("vocabulary", "none" if told.vocabulary is None else f"{told.vocabulary:,} tokens"),
        ("size", f"{size_text(told.file_bytes)}{parts}"),
        ("from", told.origin),
        *((group, _stored(rows)) for group, rows in _by_group(told.stored).items()),
    ]
    return rows if told.title is None else [("title", told.title), *rows]


def _network(numbers: dict[str, int]) -> list[str]:
    """`["24 layers of 2,880", "32 experts, 4 for a token", "64 heads of 64, 8 for keys and values"]`."""
    told = []
    if "layers" in numbers:
        width = f" of {numbers['embedding']:,}" if "embedding" in numbers else ""
        told.append(f"{numbers['layers']:,} layers{width}")
    if "experts" in numbers:
        used = f", {numbers['experts_used']:,} for a token" if "experts_used" in numbers else ""
        told.append(f"{numbers['experts']:,} experts{used}")
    if "heads" in numbers:
        size = f" of {numbers['head_size']:,}" if "head_size" in numbers else ""
        shared = f", {numbers['kv_heads']:,} for keys and values" if "kv_heads" in numbers else ""
        told.append(f"{numbers['heads']:,} heads{size}{shared}")
    return told


def _context(numbers: dict[str, int]) -> str:
    if "context" not in numbers:
        return "not given"
    window = f"; every other layer sees {numbers['window']:,}" if "window" in numbers else ""
    return f"{numbers['context']:,} tokens{window}"


def _by_group(stored: Sequence[Stored]) -> dict[str, list[Stored]]:
    groups: dict[str, list[Stored]] = {}
    for row in stored:
        groups.setdefault(row.group, []).append(row)
    return groups


def _stored(rows: Sequence[Stored]) -> str:
    from ossia.agent.models.memory import size_text

    return ", ".join(f"{row.kind} {size_text(row.bytes)}" for row in rows)


def _document(name: str, told: Description) -> dict[str, object]:
    return {
        "version": VERSION,
        "model": name,
        "path": str(told.path),
        "from": told.origin,
        "usable": told.problem is None,
        "problem": told.problem,
        "title": told.title,
        "architecture": told.architecture,
        **told.numbers,
        "vocabulary": told.vocabulary,
        "files": [str(part) for part in told.parts],
        "bytes": told.file_bytes,
        "tensors": [
            {"group": row.group, "type": row.kind, "count": row.tensors, "bytes": row.bytes} for row in told.stored
        ],
    }


def _plan_document(model: ModelFile, memory: Memory, planned: Plan) -> dict[str, object]:
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
        "warnings": [*model.notes, *planned.warnings],
    }
