"""The greeting: the model, its fit, the keys, the session. Three lines at most.

Then come warnings, and the last turns of a resumed session. No model is loaded yet: names and sizes of files and the
system's tables must do, without llama.cpp and the free memory of a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia import __version__
from ossia.agent.models.catalog import DOWNLOADS, ETUDE, download_of, name_of
from ossia.agent.models.memory import Memory, read_memory, size_text
from ossia.cli.clean import clean, one_line
from ossia.cli.runtime.session import ELSEWHERE, moved_from
from ossia.cli.words import count

if TYPE_CHECKING:
    from ossia.agent.models.find import Found, Locations
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.cli.settings.table import Settings

KEYS = "/help · Ctrl-T thinking · Ctrl-O transcript · Ctrl-C stop"
PLAIN_KEYS = "/help · Ctrl-C stop · Ctrl-D leave"  # where lines are read, no keys

_MORE_BYTES = 700_000_000
"""A model's memory beside its weights with the shortest context of `agent.models.needs`, rounded up (gpt-oss-20b: 560
MB, 120b: 680 MB)."""
_LINE_BITS_PER_S = 100_000_000
_GPU_FILES = ("/dev/nvidia0", "/dev/kfd")  # there may be memory that the system's tables don't count
_TITLE_CHARS, _NAME_CHARS = 40, 60


def greet(talk: Chat, face: Face) -> None:
    """Show the lines."""
    _show(talk, face, _lines(talk, face))


def recall(talk: Chat, face: Face, turns: int = 2) -> None:
    """Show the last turns of the session."""
    first = len(talk.session.ends) - turns
    face.view.recall(item for item in talk.transcript.items if item.turn >= first)
    if first > 0:
        earlier = count(first, "earlier turn")
        face.note(f"/save FILE writes all, {earlier} included" if face.plain else f"Ctrl-O shows {earlier}")


def still_planning(talk: Chat, face: Face) -> None:
    """Note that nothing can be changed, if so: a resumed session may be planning."""
    if talk.settings.plan:
        face.note("a plan is being made: nothing can be changed until /go (/plan off ends planning)")


def _lines(talk: Chat, face: Face) -> list[str]:
    opened, turns, title = talk.opened, len(talk.session.ends), None
    if opened.resumed:
        title = opened.title if opened.store else "a private copy"
    folder = talk.folder.workspace.root if talk.folder else None
    facts = gather(talk.settings, workspace=folder, title=title, turns=turns)
    return greeting(facts, keys=PLAIN_KEYS if face.plain else KEYS)


def _show(talk: Chat, face: Face, lines: list[str]) -> None:
    for line in lines:
        face.note(line)
    of_folder = talk.folder.warnings if talk.folder else ()
    others = [warning for warning in talk.resolved.warnings if warning not in of_folder]
    moved = moved_from(talk.opened.worked_in, talk.folder, chat=True)
    for warning in (*others, *filter(None, [talk.opened.problem, moved])):
        face.note(warning, "yellow")
    if talk.folder:
        from ossia.cli.chat.commands.trust import enter  # with prompt_toolkit

        enter(talk, face)
    if talk.session.options.response_format:
        face.note("answers are JSON that matches this session's schema: /schema off ends that")
    if talk.opened.resumed:
        if talk.opened.elsewhere:
            face.note(ELSEWHERE)
        still_planning(talk, face)
        recall(talk, face)


# -- the lines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offer:
    """A better model than the one that answers. `here`: on this machine, but too large for it now."""

    name: str
    bytes: int
    here: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of the greeting. `model` will answer; `bytes` is its size, 0 if unknown.

    `built_in`: it is the study model. `free_bytes`: of memory, None if unknown. `title` and `turns`: of a resumed
    session; `workspace`: a folder.
    """

    version: str
    model: str
    built_in: bool = False
    bytes: int = 0
    free_bytes: int | None = None
    offer: Offer | None = None
    workspace: str | None = None
    title: str | None = None
    turns: int = 0


def greeting(facts: Facts, *, keys: str = KEYS) -> list[str]:
    """The lines to show, clean, each without a line end; the first one is long where it offers a better model.

    ["ossia 0.1.0 · gpt-oss-20b found (12.1 GB), fits", "/help · Ctrl-T thinking · Ctrl-O transcript · Ctrl-C stop"]
    """
    where = [f"workspace {facts.workspace}"] if facts.workspace else []
    if facts.title is not None:
        where.append(f'resumed "{one_line(facts.title, _TITLE_CHARS)}" ({count(facts.turns, "turn")})')
    lines = [f"ossia {facts.version} · {_model(facts)}", keys, " · ".join(where)]
    return [clean(one_line(line)) for line in lines if line]


def _model(facts: Facts) -> str:
    name = one_line(facts.model, _NAME_CHARS)
    if facts.built_in:
        return _offered(facts)
    if not facts.bytes:
        return name
    fits = facts.free_bytes is None or facts.bytes + _MORE_BYTES <= facts.free_bytes
    fit = "fits" if fits else f"too large for the {size_text(facts.free_bytes or 0)} of free memory"
    return f"{name} found ({size_text(facts.bytes)}), {fit}"


def _offered(facts: Facts) -> str:
    """The line about étude and the way to a better model."""
    offer, study = facts.offer, "étude, a small study model, answers"
    if offer is None:
        return study
    needs = f"needs {needed_gb(offer.bytes)} GB of memory"
    free = f", {size_text(facts.free_bytes)} free" if facts.free_bytes is not None else ""
    if offer.here:
        return f"{study}; {offer.name} is here, but {needs}{free}: /model {offer.name} uses it anyway"
    minutes = round(offer.bytes * 8 / _LINE_BITS_PER_S / 60)
    get = f"{size_text(offer.bytes)}, about {minutes} min at 100 Mbit/s; {needs}{free}"
    return f"no gpt-oss model on this machine: {study}; the real one: /model pull {offer.name} ({get})"


def needed_gb(model_bytes: int) -> int:
    """The free memory for a model of this size, in whole GB: 13 for gpt-oss-20b."""
    return math.ceil((model_bytes + _MORE_BYTES) / 1e9)


# -- the facts ---------------------------------------------------------------------------------------------------------


def gather(settings: Settings, *, workspace: Path | None = None, title: str | None = None, turns: int = 0) -> Facts:
    """The facts of this machine, in some milliseconds: files are found by their names, none is opened."""
    from ossia.agent.models.find import locations
    from ossia.cli import paths

    gpu = any(Path(name).exists() for name in _GPU_FILES)
    facts = model_facts(settings, locations(paths.host()), read_memory(), gpu=gpu)
    return replace(facts, workspace=None if workspace is None else str(workspace), title=title, turns=turns)


def model_facts(settings: Settings, locations: Locations, memory: Memory, *, gpu: bool) -> Facts:
    """The model that `agent.models.resolve` will choose, and the free memory; with a `gpu` that isn't known."""
    from ossia.agent.models.find import find_models

    free = None if gpu else memory.all_free
    if settings.engine != "llama":
        is_script = settings.engine.startswith("script:")
        return Facts(__version__, "script" if is_script else settings.engine.partition("://")[2] or settings.engine)
    found = find_models(locations)
    if settings.model and settings.model != ETUDE:
        return Facts(__version__, *_named(settings.model, found), free_bytes=free)
    ours = [one for download in DOWNLOADS for one in found if one.name == download.name]
    best = next((one for one in ours if free is None or one.file_bytes + _MORE_BYTES <= free), None)
    if best is not None and not settings.model:
        return Facts(__version__, best.name, bytes=best.file_bytes, free_bytes=free)
    if settings.model:
        offer = None  # étude is what they want
    elif ours:
        offer = Offer(ours[0].name, ours[0].file_bytes, here=True)
    else:
        offer = Offer(DOWNLOADS[0].name, DOWNLOADS[0].download_bytes)
    return Facts(__version__, ETUDE, built_in=True, free_bytes=free, offer=offer)


def _named(model: str, found: Sequence[Found]) -> tuple[str, bool, int]:
    """The model behind `--model`: its name, not built in, and its size if a file of that name was found."""
    size = next((one.file_bytes for one in found if one.name == model), 0)
    return (model if size or download_of(model) else name_of(Path(model))), False, size
