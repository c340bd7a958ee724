"""`ossia models`: the models on this machine. `models_files` removes and downloads them."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ossia.cli.commands import Json, group
from ossia.cli.exits import ExitCode
from ossia.cli.paths import data_dir
from ossia.cli.settings.table import option
from ossia.cli.streams import say, shown, stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ossia.agent.models.describe import Description
    from ossia.agent.models.find import Found
    from ossia.agent.models.memory import Memory
    from ossia.agent.models.model import ModelFile
    from ossia.agent.models.plan import Plan

    Row = tuple[str, str]

VERSION = 1
"""The version of what `--json` prints."""
_NETWORK = (
    {"layers": "{:,} layers", "embedding": " of {:,}"},
    {"experts": "{:,} experts", "experts_used": ", {:,} for a token"},
    {"heads": "{:,} heads", "head_size": " of {:,}", "kv_heads": ", {:,} for keys and values"},
)
"""The parts of a network in words, by our names of the numbers; the first number of each is needed."""

app = group("Find, get or remove models: list, show, plan, pull, rm.")


def _named(model: str | None) -> str | None:
    if model == "":
        raise typer.BadParameter("must not be empty: give a name as `ossia models list` prints it, or a GGUF file")
    return model


Model = Annotated[
    str,
    typer.Argument(metavar="NAME|PATH", help="A name as `list` prints it, or a GGUF file.", callback=_named),
]
MaybeModel = Annotated[
    str | None,
    typer.Argument(metavar="[NAME|PATH]", help="As `list` prints it. [default: the model in use]", callback=_named),
]


@app.command("list")
def list_() -> None:
    """Print the models found here: name, size, whether it fits, source, path.

    Looks into ossia's own folder and those of Hugging Face, llama.cpp, LM Studio and Ollama.
    """
    from ossia.agent.build import free_memory
    from ossia.agent.models.catalog import DOWNLOADS
    from ossia.agent.models.find import find_models, unfinished
    from ossia.agent.models.memory import size_text
    from ossia.cli.clean import one_line
    from ossia.cli.commands.models_files import locations_here

    found, memory = find_models(locations_here()), free_memory()
    rows = [("NAME", "SIZE", "FITS", "FROM", "PATH"), *(_row(one, memory) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(map(one_line, row), [*widths, 0], strict=True)]
        print(shown("  ".join(cells)))
    for path in unfinished(data_dir()):
        how = f"`ossia models rm {shlex.quote(str(path))}` removes it"
        say(f"left over from a download, {size_text(path.stat().st_size)}; {how}")
    if not any(one.name == download.name for one in found for download in DOWNLOADS):
        say("no gpt-oss model yet; get one: ossia models pull gpt-oss-20b")


@app.command()
def show(model: MaybeModel = None, json: Json = False) -> None:
    """Describe a model, and say whether it can be used.

    Its architecture, experts, context, and the types of its tensors. If it can't be used, the exit code is 3.
    """
    from ossia.agent.errors import ModelError
    from ossia.agent.models.describe import describe, unreadable
    from ossia.cli.commands.models_files import located

    found = located(model)
    try:
        described = describe(found.path, origin=found.origin)
    except ModelError as error:
        if not json:
            raise
        described = unreadable(found, error)
    if json:
        _print_json(_document(found.name, described))
    else:
        _print_rows(found.name, described.path, _rows(described))
    if described.problem is not None:
        raise typer.Exit(ExitCode.MODEL)


@app.command()
def plan(
    model: MaybeModel = None,
    context: Annotated[str | None, option("context")] = None,
    gpu_layers: Annotated[str | None, option("gpu_layers")] = None,
    n_cpu_moe: Annotated[str | None, option("n_cpu_moe")] = None,
    kv_type: Annotated[str | None, option("kv_type")] = None,
    repack: Annotated[str | None, option("repack")] = None,
    parallel: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Plan for N answers at once, as of serve and batch.")
    ] = 1,
    json: Json = False,
) -> None:
    """Print how a chat would load a model here: context, GPU, memory. Nothing is loaded."""
    from ossia.agent.build import free_memory
    from ossia.agent.engine.llama import processor_features
    from ossia.agent.models.plan import plan
    from ossia.agent.models.resolve import locate, resolve
    from ossia.cli.commands.models_files import locations_here, say_engine, say_more, settings_with
    from ossia.cli.runtime.assembly import local_spec

    settings = settings_with(
        model=model, context=context, gpu_layers=gpu_layers, n_cpu_moe=n_cpu_moe, kv_type=kv_type, repack=repack
    )
    if not model:
        say_engine(settings)
    if settings.model:
        say_more(settings.model, locate(settings.model, locations=locations_here()))
    memory = free_memory()
    file = resolve(settings.model, locations=locations_here(), memory=memory)
    options = replace(local_spec(settings, stays=True), lanes=parallel).load_options(file.temperature)
    planned = plan(file, memory=memory, options=options, processor=processor_features())
    if json:
        _print_json(_plan_document(file, memory, planned))
        return
    for note in (*file.notes, *planned.warnings):
        say(f"warning: {note}")
    _print_rows(file.name, file.path, _figures(file, memory, planned))


@app.command()
def path(model: MaybeModel = None, json: Json = False) -> None:
    """Print the path of a model's (first) file."""
    from ossia.cli.commands.models_files import first_file, located

    found = first_file(located(model))
    if json:
        _print_json({"model": found.name, "path": str(found.path), "from": found.origin, "bytes": found.file_bytes})
    else:
        print(shown(str(found.path)))


@app.command()
def default(model: Model) -> None:
    """Use this model from now on, as `ossia config set model` does, but only if it can be used."""
    from ossia.agent.models.memory import read_memory
    from ossia.agent.models.resolve import locate, resolve
    from ossia.cli.commands.config import set_
    from ossia.cli.commands.models_files import locations_here, say_engine, say_more, settings_with

    resolve(model, locations=locations_here(), memory=read_memory())
    say_more(model, locate(model, locations=locations_here()))
    here = Path(model)
    set_("model", [str(here.absolute()) if not here.is_absolute() and here.is_file() else model])
    say_engine(settings_with())


@app.command()
def rm(model: Model, yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False) -> None:
    """Remove a model that ossia downloaded, or a partial download. Models of other programs stay."""
    from ossia.cli.commands.models_files import remove

    remove(model, yes=yes)


@app.command()
def pull(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|ORG/REPO[:FILE]|URL",
            help="gpt-oss-20b (12 GB), gpt-oss-120b (63 GB), or a repository on Hugging Face.",
        ),
    ],
) -> None:
    """Download a model into ossia's folder, or resume its download, and print its path."""
    from ossia.cli.commands.models_files import pull_model

    pull_model(name)


def _row(found: Found, memory: Memory) -> tuple[str, str, str, str, str]:
    from ossia.agent.errors import ModelError
    from ossia.agent.models.memory import size_text
    from ossia.agent.models.model import open_model
    from ossia.agent.models.needs import fits

    try:
        fit = "yes" if fits(open_model(found.path, origin=found.origin), memory) else "no"
    except ModelError as error:
        return found.name, size_text(found.file_bytes), "unusable", found.origin, str(error)
    return found.name, size_text(found.file_bytes), fit, found.origin, str(found.path)


# -- printing ----------------------------------------------------------------------------------------------------------


def _print_json(found: dict[str, object]) -> None:
    import json

    print(json.dumps({"version": VERSION, **found}))


def _figures(model: ModelFile, memory: Memory, planned: Plan) -> list[Row]:
    """`[("context", "32,768 of 131,072 tokens, KV cache 0.8 GB as f16"), ("GPU", …), ("memory", …)]`."""
    from ossia.agent.models.memory import size_text
    from ossia.agent.models.plan import memory_lines, on_gpu

    own, put = model.architecture.context_tokens, planned.offload
    cache = f"KV cache {size_text(planned.needs.kv)} as {planned.kv_type}"
    shares = zip(put.gpu_bytes or (0,) * len(memory.gpu_free), memory.gpu_free, strict=True)
    gpus = ", ".join(f"{size_text(used)} of {size_text(free)}" for used, free in shares)
    free = "an unknown amount is" if memory.ram_free is None else f"{size_text(memory.ram_free)} are"
    _, parts = memory_lines(planned)
    each = f" in each of {planned.lanes} lanes" if planned.lanes > 1 else ""
    copy = "" if planned.repack else "; not repacked"
    return [
        ("context", f"{planned.context_tokens:,} of {own:,} tokens{each}, {cache}"),
        ("GPU", f"{on_gpu(planned)}: {gpus}" if gpus else "none that llama.cpp can use"),
        ("memory", f"{size_text(planned.ram_bytes)}, {free} free: {parts}{copy}"),
    ]


def _print_rows(name: str, path: Path, rows: Sequence[Row]) -> None:
    """The rows, wrapped on a terminal; in a pipe each is one line."""
    from ossia.cli.clean import one_line
    from ossia.cli.runtime.progress import columns
    from ossia.cli.words import wrapped

    print(shown(f"{one_line(name)}  {one_line(str(path))}"))
    indent = max(len(label) for label, _ in rows) + 2
    for label, text in rows:
        first = f"{label:<{indent}}"
        whole = [f"{first}{one_line(text)}"]
        for line in wrapped(text, first, " " * indent, columns(stdout())) if stdout().isatty() else whole:
            print(shown(line))


def _rows(described: Description) -> list[Row]:
    from ossia.agent.models.memory import size_text

    numbers = described.numbers
    parts = f" in {len(described.parts)} files" if len(described.parts) > 1 else ""
    window = f"; every other layer sees {numbers['window']:,}" if "window" in numbers else ""
    return [
        *([] if described.title is None else [("title", described.title)]),
        ("usable", "yes" if described.problem is None else f"no: {described.problem}"),
        ("architecture", ", ".join([described.architecture or "not named", *_network(numbers)])),
        ("context", f"{numbers['context']:,} tokens{window}" if "context" in numbers else "not given"),
        ("vocabulary", "none" if described.vocabulary is None else f"{described.vocabulary:,} tokens"),
        ("size", f"{size_text(described.file_bytes)}{parts}"),
        ("from", described.origin),
        *(
            (group, ", ".join(f"{one.kind} {size_text(one.bytes)}" for one in stored))
            for group, stored in groupby(described.stored, lambda one: one.group)
        ),
    ]


def _network(numbers: dict[str, int]) -> list[str]:
    """`["24 layers of 2,880", "32 experts, 4 for a token", "64 heads of 64, 8 for keys and values"]`."""
    return [
        "".join(text.format(numbers[key]) for key, text in parts.items() if key in numbers)
        for parts in _NETWORK
        if next(iter(parts)) in numbers
    ]


def _document(name: str, described: Description) -> dict[str, object]:
    return {
        "model": name,
        "path": str(described.path),
        "from": described.origin,
        "usable": described.problem is None,
        "problem": described.problem,
        "title": described.title,
        "architecture": described.architecture,
        **described.numbers,
        "vocabulary": described.vocabulary,
        "files": [str(part) for part in described.parts],
        "bytes": described.file_bytes,
        "tensors": [
            {"group": row.group, "type": row.kind, "count": row.tensors, "bytes": row.bytes} for row in described.stored
        ],
    }


def _plan_document(model: ModelFile, memory: Memory, planned: Plan) -> dict[str, object]:
    put = planned.offload
    return {
        "model": model.name,
        "path": str(model.path),
        "context": planned.context_tokens,
        "parallel": planned.lanes,
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
