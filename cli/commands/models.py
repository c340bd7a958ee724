"""`ossia models`: what is on this machine, and how to get more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands import group

if TYPE_CHECKING:
    from agent.models.find import Found
    from agent.models.memory import Memory

app = group("List the models on this machine, or download one.")


@app.command("list")
def list_() -> None:
    """Print the models that were found. Name, size, whether it fits into memory, where it is from, its path.

    Looks into ossia's own folder and the caches of Hugging Face, llama.cpp and LM Studio.
    """
    from agent.engine.llama import gpu_free_bytes
    from agent.models.catalog import DOWNLOADS
    from agent.models.find import find_models
    from agent.models.memory import read_memory
    from cli.runtime.models import locations
    from cli.streams import shown

    found, memory = find_models(locations()), read_memory(gpu_free_bytes())
    rows = [("NAME", "SIZE", "FITS", "FROM", "PATH"), *(_row(one, memory) for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)]
        print(shown("  ".join(cells)))
    if not any(one.name == download.name for one in found for download in DOWNLOADS):
        print("ossia: no gpt-oss model yet; get one: ossia models pull gpt-oss-20b", file=sys.stderr)


@app.command()
def pull(
    name: Annotated[str, typer.Argument(metavar="NAME", help="gpt-oss-20b (12 GB) or gpt-oss-120b (63 GB).")],
) -> None:
    """Download a model into ossia's folder, or resume a partial download. Prints its path."""
    from agent.models.catalog import DOWNLOADS, ETUDE, ETUDE_PATH, download_of
    from agent.models.pull import keeps_part
    from agent.models.pull import pull as download
    from cli import paths
    from cli.runtime.models import download_line
    from cli.runtime.progress import LiveLine

    if name == ETUDE:
        print(ETUDE_PATH)
        return
    model = download_of(name)
    if model is None:
        choices = " or ".join(download.name for download in DOWNLOADS)
        raise typer.BadParameter(f"must be {choices}, not {name!r}", param_hint="NAME")
    line = LiveLine(sys.stderr, shown=sys.stderr.isatty())
    try:
        path = download(model, paths.data_dir(), on_progress=download_line(line, name))
    except KeyboardInterrupt:
        line.erase()
        kept = keeps_part(model, paths.data_dir())
        more = f"; partial download kept, `ossia models pull {name}` resumes it" if kept else ""
        print(f"ossia: stopped{more}", file=sys.stderr)
        raise
    finally:
        line.erase()
    print(path)


def _row(found: Found, memory: Memory) -> tuple[str, str, str, str, str]:
    from agent.errors import ModelError
    from agent.models.memory import size_text
    from agent.models.model import open_model
    from agent.models.needs import fits

    try:
        fit = "yes" if fits(open_model(found.path, origin=found.origin), memory) else "no"
    except ModelError as error:
        return found.name, size_text(found.file_bytes), "unusable", found.origin, str(error)
    return found.name, size_text(found.file_bytes), fit, found.origin, str(found.path)
