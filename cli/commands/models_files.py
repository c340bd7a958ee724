"""The files of `ossia models`: finding, removing and downloading them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from ossia.agent.build import free_memory
from ossia.agent.errors import ModelNotFound
from ossia.agent.models.catalog import DOWNLOADS, ETUDE, ETUDE_PATH, CatalogModel, download_of, part_of, part_path
from ossia.agent.models.find import (
    MODELS_FOLDER,
    Found,
    Locations,
    called_there,
    files_of,
    find_models,
    found_at,
    in_repository,
    locations,
    model_stem,
)
from ossia.agent.models.memory import size_text
from ossia.agent.models.resolve import locate, resolve
from ossia.cli import paths
from ossia.cli.commands import exit_error, writing
from ossia.cli.settings.engines import is_server
from ossia.cli.settings.table import Settings
from ossia.cli.streams import say, shown
from ossia.cli.terminal.keyboard import plain_keys


def located(model: str | None) -> Found:
    """The file that `model` names, the first one of that name; None: the one that a run without --model uses."""
    where = locations_here()
    if model is None:
        settings = settings_with()
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


def first_file(found: Found) -> Found:
    """The first file of the split model that `found` is part of. Raises ModelNotFound if it isn't there."""
    part = part_of(found.path)
    if part is None or part[0] == 1:
        return found
    first = part_path(found.path, 1, part[1])
    if not first.is_file():
        raise ModelNotFound(f"{found.path} is part of a split model, but {first} is missing: download all its files")
    return replace(found, path=first)


def say_more(model: str, found: Sequence[Found]) -> None:
    """On stderr: the first of the files with this name is meant, and there are more."""
    if len(found) > 1:
        say(f"{len(found) - 1} more called {model}: {found[0].path} is used; for another one give its path")


def say_engine(settings: Settings) -> None:
    """On stderr: a server answers, by the settings, so that no local model is used."""
    if settings.engine != "llama":
        say(f"the engine is {settings.engine}: a local model is used with --engine llama only")


def settings_with(**given: object) -> Settings:
    """The settings in force with these flags. Raises ConfigError."""
    from ossia.cli.settings.config import resolve

    return resolve(given, environ=os.environ).settings


def locations_here() -> Locations:
    """The folders of models on this machine."""
    return locations(paths.host())


# -- removing ----------------------------------------------------------------------------------------------------------


def remove(model: str, *, yes: bool) -> None:
    """Remove one model that ossia downloaded, or its partial download, after asking.

    Another program's stays. Raises ExitError with the command that removes it there, and DownloadFailed
    while another ossia downloads it.
    """
    from ossia.agent.models.transfer import only_one

    files, others = _own_files(model)
    if not files:
        raise exit_error(f"rm: {_elsewhere(others[0])}")
    folder, stem = _the_one(model, files)
    with writing(folder), only_one(folder, stem):
        size = size_text(sum(path.lstat().st_size for path in files))
        if not yes and not _asked(files, size):
            print("ossia: nothing was changed", file=sys.stderr)
            return
        for path in files:
            with writing(path):
                path.unlink()
            say(f"removed {path}")
    _remove_empty(folder)
    for one in others:
        say(f"{one.path} is still there: {_elsewhere(one)}")
    _say_default_gone()


def _say_default_gone() -> None:
    from ossia.cli.settings.config import ConfigError

    try:
        settings = settings_with()
    except ConfigError:  # another command says so
        return
    try:
        if settings.model is not None and not is_server(settings.engine):  # a server's model is another thing
            locate(settings.model, locations=locations_here())
    except ModelNotFound:
        say(f"the settings' model is {settings.model}, which is gone: `ossia config unset model` removes the setting")


def _own_files(model: str) -> tuple[list[Path], list[Found]]:
    """The files of `model` that ossia stored, the first part last since a split model is found by it; others' files.

    Raises ModelNotFound if there is neither.
    """
    where = locations_here()
    is_path = download_of(model) is None and os.path.lexists(model)
    pulled = [] if is_path else [found_at(path, where) for path in files_of(model, where.data)]
    try:
        found = locate(model, locations=where)
    except ModelNotFound:
        if not pulled:
            raise
        found = tuple(pulled)
    own = [one for one in (*found, *pulled) if one.origin == "ossia" and one.path.suffix in (".gguf", ".part")]
    files = sorted({path for one in own for path in one.files}, reverse=True)
    return files, [one for one in found if one not in own or not files]


def _the_one(model: str, files: Sequence[Path]) -> tuple[Path, str]:
    """The folder and the stem of the only model that these files are of. Raises ExitError if they are of several."""
    models = {(path.parent, model_stem(path)): path for path in files}
    if len(models) > 1:
        named = ", ".join(map(str, sorted(models.values())))
        raise exit_error(f"rm: {model} names {len(models)} models; give the path of one: {named}")
    return next(iter(models))


def _remove_empty(folder: Path) -> None:
    """Remove the folder, and those around it in ossia's own, as far as nothing is in them."""
    root = paths.data_dir() / MODELS_FOLDER
    while folder != root and folder.is_relative_to(root) and not any(folder.iterdir()):
        with writing(folder):
            folder.rmdir()
        folder = folder.parent


def _asked(files: Sequence[Path], size: str) -> bool:
    from ossia.cli.runtime.consent import confirmed
    from ossia.cli.visible import seen_line

    for path in files:
        print(seen_line(str(path)), file=sys.stderr)
    if not sys.stdin.isatty():
        raise exit_error("rm: there is no terminal to ask on: --yes removes without asking")
    return confirmed(f"Remove {size}?")


def _elsewhere(one: Found) -> str:
    """The owner of a file, and the command that removes it there."""
    named = str(one.path)
    path = shlex.quote(f"./{named}" if named.startswith("-") else named)
    match one.origin:
        case "built-in":
            return "étude is a part of ossia, and stays"
        case "huggingface":
            parts = (*one.path.parts, *Path(os.path.realpath(one.path)).parts)  # it may be a link into the cache
            folder = next((part for part in parts if part.startswith("models--")), "")
            repo = folder.removeprefix("models--").replace("--", "/")
            return (
                f"{one.path} is in Hugging Face's cache; `hf cache rm {shlex.quote(f'model/{repo}')}` removes it there"
            )
        case "ollama":
            called = called_there(one.path)
            how = f"`ollama rm {shlex.join(called)}`" if called else "Ollama"
            return f"{one.path} is Ollama's; {how} removes it there"
        case "lm-studio":
            return f"{one.path} is LM Studio's; remove it there, under My Models"
        case "llama.cpp":
            return f"{one.path} is in llama.cpp's cache; `rm {path}` removes it there"
    return f"{one.path} wasn't downloaded by ossia; `rm {path}` removes it"


# -- downloading -------------------------------------------------------------------------------------------------------


@plain_keys()
def pull_model(name: str) -> None:
    """Download what `name` names, and print its path. A file that is no usable gpt-oss stays, and is exit code 3.

    Raises DownloadFailed, ModelNotFound, SettingRefused, ModelUnusable.
    """
    from ossia.agent.models.model import open_model
    from ossia.agent.models.pull import on_the_hub
    from ossia.agent.models.transfer import token_kept_back

    if name == ETUDE:
        print(ETUDE_PATH)
        return
    if line := token_kept_back():
        say(line)
    model, found = download_of(name), in_repository(name)
    if found is not None and model is None:
        model = on_the_hub(*found, paths.data_dir())
        _say_same_size(name, model)
    if model is None:
        choices = ", ".join(download.name for download in DOWNLOADS)
        seen = "an address: download that with `curl -LOC -`, then --model FILE" if "://" in name else repr(name)
        raise typer.BadParameter(f"must be {choices} or ORG/REPO[:FILE], not {seen}", param_hint="NAME")
    path = _downloaded(name, model)
    open_model(path).vocabulary()
    print(shown(str(path)))


def _say_same_size(name: str, model: CatalogModel) -> None:
    """On stderr, before a download: a model here has the very size of this one, and so may be the same."""
    where = locations_here()
    if any(path.suffix == ".gguf" for path in files_of(name, where.data)):
        return
    for one in find_models(where):
        if one.file_bytes == model.download_bytes:
            say(f"{one.path} ({one.name}) has the same size: if it is the same model, Ctrl-C ends this download")
            return


def _downloaded(name: str, model: CatalogModel) -> Path:
    """Download a model, with its progress on a line of a terminal. An interrupt says what resumes it."""
    from ossia.agent.models.pull import parts_kept, pull
    from ossia.cli.clean import clean, one_line
    from ossia.cli.runtime.progress import LiveLine, download_line

    line, data = LiveLine(sys.stderr, shown=sys.stderr.isatty()), paths.data_dir()
    try:
        return pull(model, data, on_progress=download_line(line, clean(one_line(name, 60))))
    except KeyboardInterrupt:
        line.erase()
        resumes = f"; partial download kept, `ossia models pull {name}` resumes it"
        say(f"stopped{resumes if parts_kept(model, data) else ''}")
        raise
    finally:
        line.erase()
