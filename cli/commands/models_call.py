"""`ossia models rm`, `default` and `pull`: what they do."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from cli.commands import exit_error, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.models.catalog import CatalogModel
    from agent.models.find import Found
    from agent.models.transfer import PullProgress

_T = TypeVar("_T")
_IN_REPOSITORY = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<file>.+))?", re.ASCII)


def remove(model: str, *, yes: bool) -> None:
    """Remove a model that ossia downloaded, after asking. Another program's is left where it is.

    Raises ExitError with the command that removes it there.
    """
    from agent.errors import ModelMissing
    from agent.models.catalog import download_of
    from agent.models.memory import size_text
    from agent.models.pull import parts_kept
    from agent.models.resolve import locate
    from cli import paths
    from cli.runtime.models import locations

    known = download_of(model)
    kept = parts_kept(known, paths.data_dir()) if known else []
    try:
        found = locate(model, locations=locations())
    except ModelMissing:
        if not kept:
            raise
        found = ()
    own = [one for one in found if one.origin == "ossia" and one.path.suffix in (".gguf", ".part")]
    if not own and not kept:
        raise exit_error(f"rm: {_elsewhere(found[0])}")
    files = [*(path for one in own for path in one.parts), *kept]
    size = size_text(sum(path.lstat().st_size for path in files))
    if not yes and not _asked(files, size):
        print("ossia: nothing was changed", file=sys.stderr)
        return
    for path in files:
        with writing(path):
            path.unlink()
        _say(f"removed {path}")
    for one in found:
        if one not in own:
            _say(f"{one.path} is still there: {_elsewhere(one)}")


def _asked(files: Sequence[Path], size: str) -> bool:
    from cli.clean import clean

    for path in files:
        print(clean(str(path)), file=sys.stderr)
    if not sys.stdin.isatty():
        raise exit_error("rm: there is no terminal to ask on: --yes removes without asking")
    print(f"Remove {size}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _elsewhere(one: Found) -> str:
    """Whose file it is, and what removes it there."""
    from agent.models.ollama import called_there

    path = shlex.quote(str(one.path))
    match one.origin:
        case "built-in":
            return "étude is a part of ossia, and stays"
        case "huggingface":
            parts = (*one.path.parts, *one.path.resolve().parts)  # it may be a link into the cache
            folder = next((part for part in parts if part.startswith("models--")), "")
            repo = folder.removeprefix("models--").replace("--", "/")
            return f"{one.path} is in Hugging Face's cache; `hf cache rm model/{repo}` removes it there"
        case "ollama":
            called = called_there(one.path)
            how = " and ".join(f"`ollama rm {name}`" for name in called) or "Ollama"
            return f"{one.path} is Ollama's; {how} removes it there"
        case "lm-studio":
            return f"{one.path} is LM Studio's; remove it there, under My Models"
        case "llama.cpp":
            return f"{one.path} is in llama.cpp's cache; `rm {path}` removes it there"
    return f"{one.path} is no model that ossia downloaded; `rm {path}` removes it"


def set_default(model: str) -> None:
    """Write `model` into the config file, after a look at whether it can be used."""
    import json

    from agent.models.memory import read_memory
    from agent.models.resolve import resolve
    from cli.runtime.models import locations
    from cli.settings.config import config_path
    from cli.settings.config_file import set_value
    from cli.settings.table import SETTINGS

    resolve(model, locations=locations(), memory=read_memory())
    here = Path(model)
    stored = str(here.absolute()) if not here.is_absolute() and here.is_file() else model
    with writing(config_path(os.environ)) as path:
        set_value(os.environ, "model", [stored])
    one = SETTINGS["model"]
    wins = f"; {one.variable} is set and overrides it" if os.environ.get(one.variable) else ""
    _say(f"{path}: model = {json.dumps(stored, ensure_ascii=False)}{wins}")


def pull_model(name: str) -> None:
    """Download what `name` names, and print its path. A file that is no usable gpt-oss stays, and is exit code 3.

    Raises DownloadFailed, ModelMissing, SettingRefused, ModelUnusable.
    """
    from agent.models.catalog import DOWNLOADS, ETUDE, ETUDE_PATH, download_of
    from agent.models.pull import on_the_hub
    from cli import paths

    if name == ETUDE:
        print(ETUDE_PATH)
        return
    if "://" in name:
        _from_address(name)
        return
    model, found = download_of(name), _IN_REPOSITORY.fullmatch(name)
    if model is None and found is None:
        choices = ", ".join(download.name for download in DOWNLOADS)
        raise typer.BadParameter(
            f"must be {choices}, ORG/REPO[:FILE] or https://….gguf, not {name!r}", param_hint="NAME"
        )
    if model is None:
        assert found is not None
        model = on_the_hub(found["repo"], found["file"], paths.data_dir())
    _from_hub(name, model)


def _from_hub(name: str, model: CatalogModel) -> None:
    from agent.models.pull import parts_kept, pull
    from cli import paths

    data = paths.data_dir()

    def download(show: Callable[[PullProgress], None]) -> Path:
        return pull(model, data, on_progress=show)

    path = _shown(name, f"`ossia models pull {name}`", download, lambda: bool(parts_kept(model, data)))
    _checked(path)


def _from_address(url: str) -> None:
    from agent.models.pull_url import pull_url
    from cli import paths
    from cli.clean import clean

    label = url.partition("?")[0].rsplit("/", 1)[-1]
    pulled = _shown(
        label, "the same command", lambda show: pull_url(url, paths.data_dir(), on_progress=show), lambda: True
    )
    print(clean(f"ossia: sha256 {pulled.sha256}"), file=sys.stderr)
    _checked(pulled.path)


def _shown(
    label: str, again: str, download: Callable[[Callable[[PullProgress], None]], _T], kept: Callable[[], bool]
) -> _T:
    """What `download` returns, with its progress on a line of a terminal.

    After an interrupt it says what is `kept`, and that `again` resumes it.
    """
    from cli.clean import clean, one_line
    from cli.runtime.models import download_line
    from cli.runtime.progress import LiveLine

    line = LiveLine(sys.stderr, shown=sys.stderr.isatty())
    try:
        return download(download_line(line, clean(one_line(label, 60))))
    except KeyboardInterrupt:
        line.erase()
        more = f"; partial download kept, {clean(again)} resumes it" if kept() else ""
        print(f"ossia: stopped{more}", file=sys.stderr)
        raise
    finally:
        line.erase()


def _checked(path: Path) -> None:
    """Print the path of a usable model. Raises ModelUnusable, which names it, for another file."""
    from agent.models.model import open_model
    from cli.streams import shown

    open_model(path).vocabulary()
    print(shown(str(path)))


def _say(text: str) -> None:
    from cli.clean import clean

    print(clean(f"ossia: {text}"), file=sys.stderr)
