"""`ossia models`: what is on this machine, and how to get more."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from ossia.cli.commands import exit_error, group
from ossia.cli.settings.flags import option

if TYPE_CHECKING:
    from ossia.agent.models.find import Found
    from ossia.agent.models.memory import Memory

app = group("Look at models, get or remove them: list, show, plan, pull, rm, default, path.")


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
    typer.Argument(metavar="[NAME|PATH]", help="As `list` prints it. [default: the one that is used]", callback=_named),
]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


@app.command("list")
def list_() -> None:
    """Print the models that were found. Name, size, whether it fits into memory, where it is from, its path.

    Looks into ossia's own folder and those of Hugging Face, llama.cpp, LM Studio and Ollama.
    """
    from ossia.agent.models.catalog import DOWNLOADS
    from ossia.agent.models.find import find_models, locations, unfinished
    from ossia.agent.models.memory import size_text
    from ossia.cli import paths
    from ossia.cli.clean import one_line
    from ossia.cli.paths import data_dir
    from ossia.cli.runtime.models import free_memory
    from ossia.cli.streams import say, shown

    found, memory = find_models(locations(paths.host())), free_memory()
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
    """Print what a model is, and whether it can be used.

    Its architecture, experts, context, and how its tensors are stored. If it can't be used, the exit code is 3.
    """
    from ossia.agent.errors import ModelError
    from ossia.agent.models.describe import describe, unreadable
    from ossia.cli.commands.models_report import print_description
    from ossia.cli.exits import ExitCode

    found = _located(model)
    try:
        told = describe(found.path, origin=found.origin)
    except ModelError as error:
        if not json:
            raise
        told = unreadable(found, error)
    print_description(found.name, told, as_json=json)
    if told.problem is not None:
        raise typer.Exit(ExitCode.MODEL)


@app.command()
def plan(
    model: MaybeModel = None,
    context: Annotated[str | None, option("context")] = None,
    gpu_layers: Annotated[str | None, option("gpu_layers")] = None,
    n_cpu_moe: Annotated[str | None, option("n_cpu_moe")] = None,
    kv_type: Annotated[str | None, option("kv_type")] = None,
    repack: Annotated[str | None, option("repack")] = None,
    json: Json = False,
) -> None:
    """Print how a chat would load a model here.

    What goes to the GPU, what doesn't, and why. Nothing is loaded.
    """
    from ossia.cli.commands.models_report import print_plan

    given = {"model": model, "context": context, "gpu_layers": gpu_layers, "n_cpu_moe": n_cpu_moe, "kv_type": kv_type}
    print_plan(given | {"repack": repack}, as_json=json)


@app.command()
def path(model: MaybeModel = None, json: Json = False) -> None:
    """Print where a model's (first) file is."""
    from ossia.cli.commands.models_report import print_path

    print_path(_first_file(_located(model)), as_json=json)


@app.command()
def default(model: Model) -> None:
    """Use this model from now on.

    As `ossia config set model`, but only if it can be used.
    """
    from ossia.cli.commands.models_call import set_default

    set_default(model)


@app.command()
def rm(model: Model, yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False) -> None:
    """Remove a model that ossia downloaded.

    Or a partial download. Models of other programs stay.
    """
    from ossia.cli.commands.models_call import remove

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
    """Download a model, or resume its download.

    It goes into ossia's folder, and its path is printed.
    """
    from ossia.cli.commands.models_call import pull_model

    pull_model(name)


def _located(model: str | None) -> Found:
    """The file that `model` names, the first one of that name; None: the one that a run without --model uses."""
    import os

    from ossia.agent.models.find import found_at, locations
    from ossia.agent.models.resolve import locate, resolve
    from ossia.cli import paths
    from ossia.cli.commands.models_call import say_engine, say_more
    from ossia.cli.runtime.models import free_memory
    from ossia.cli.settings.config import resolve as resolve_settings

    where = locations(paths.host())
    if model is None:
        settings = resolve_settings({}, environ=os.environ).settings
        say_engine(settings)
        model = settings.model
    if model is None:
        return found_at(resolve(None, locations=where, memory=free_memory()).path, where)
    files = locate(model, locations=where)
    say_more(model, files)
    found = files[0]
    if found.path.is_dir():
        raise exit_error(f"{found.path}: is a directory; name a GGUF file in it")
    return found


def _first_file(found: Found) -> Found:
    """The first file of the split model that `found` is part of. Raises ModelMissing if it isn't there."""
    from dataclasses import replace

    from ossia.agent.errors import ModelMissing
    from ossia.agent.models.catalog import part_of, part_path

    part = part_of(found.path)
    if part is None or part[0] == 1:
        return found
    first = part_path(found.path, 1, part[1])
    if not first.is_file():
        raise ModelMissing(f"{found.path} is part of a split model, but {first} is missing: download all its files")
    return replace(found, path=first)


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
