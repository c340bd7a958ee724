"""`ossia models pull`: from the catalogue, a repository on the hub, or an address; what came is checked."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.models.catalog import CatalogModel
    from agent.models.transfer import PullProgress

_T = TypeVar("_T")
_IN_REPOSITORY = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<file>.+))?", re.ASCII)


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
