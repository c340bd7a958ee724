"""/model: the models there are, switching to one on this machine or of a server, and downloads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ossia.agent.build import free_memory
from ossia.agent.errors import ModelError, ModelNotFound
from ossia.agent.models.catalog import DOWNLOADS, download_of
from ossia.agent.models.memory import read_memory, size_text
from ossia.cli import paths
from ossia.cli.chat.commands.common import Block, Choice, CommandError, must_be
from ossia.cli.chat.model import GivenUp
from ossia.cli.clean import clean, one_line
from ossia.cli.runtime.consent import WHAT_GOES, is_agreed, store_yes
from ossia.cli.runtime.progress import download_line
from ossia.cli.settings.config import ConfigError
from ossia.cli.settings.engines import LLAMA, address_of, engine_entries, is_server, keys
from ossia.cli.settings.kinds import BARE_ADDRESS

if TYPE_CHECKING:
    from ossia.agent.models.transfer import PullProgress
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

_Row = tuple[str, str, str, str]
"""Name, size, fit, path."""
_LOOK_AGAIN_S = 30
_MOST_LISTED = 20  # of a server's models


def model(talk: Chat, face: Face, argument: str) -> None:
    """`/model [NAME|SERVER MODEL|llama MODEL|pull NAME]`: switch models, or download one; alone: list them."""
    word, _, name = argument.partition(" ")
    if not argument:
        return talk.background.run(_found, lambda found: _show(talk, face, found))
    if word == "pull":
        return _pull(talk, face, name.strip())
    return _switch(talk, face, argument)


def names(talk: Chat, prefix: str) -> Sequence[Choice]:
    """Completions of `/model`."""
    if prefix.startswith("pull "):
        return [(f"pull {one.name}", size_text(one.download_bytes)) for one in DOWNLOADS]
    engine, theirs = talk.settings.engine, _served(talk)
    here = _names(int(time.monotonic() / _LOOK_AGAIN_S))
    if prefix.startswith(f"{LLAMA} "):
        return [(f"{LLAMA} {one}", size) for one, size in here]
    if prefix.startswith(f"{engine} "):
        return [(f"{engine} {one}", "") for one in theirs]
    servers = [(name, one_line(clean(url), 60)) for name, url in _servers(talk).items()]
    listed = [(one, f"of {engine}") for one in theirs[:_MOST_LISTED]]
    return [*listed, *here, *servers, ("pull", "download one")]


def _servers(talk: Chat) -> Mapping[str, str]:
    """The addresses of the servers in the config file, and of the one in use.

    A config file that can't be read counts as empty here: whoever uses a server of it gets the error.
    """
    engine = talk.settings.engine
    used = {engine: engine} if "://" in engine else {}
    try:
        return {name: str(entry.get("url", "")) for name, entry in engine_entries(os.environ).items()} | used
    except ConfigError:
        return used


def _served(talk: Chat) -> Sequence[str]:
    """The names of the server's models, if it has several. Raw outside text."""
    listed = talk.loaded.model.served if talk.loaded else ()
    return listed if len(listed) > 1 else ()


def _is_in_use(talk: Chat, name: str) -> bool:
    """True if this model of the server answers now."""
    from ossia.agent.engine.remote.connect import short_name

    return talk.loaded is not None and talk.loaded.model.name.startswith(f"{short_name(name, keys(os.environ))} @ ")


@lru_cache(maxsize=1)
def _names(period: int) -> tuple[Choice, ...]:
    """The models on this machine, found once per period, not at each key: the caches may be large."""
    from ossia.agent.models.find import find_models, locations

    found = find_models(locations(paths.host()))
    return tuple((one.name, f"{size_text(one.file_bytes)}, {one.origin}") for one in found)


# -- the list ----------------------------------------------------------------------------------------------------------


def _found() -> list[_Row]:
    from ossia.agent.models.find import find_models, locations
    from ossia.agent.models.model import open_model
    from ossia.agent.models.needs import fits

    memory, rows = free_memory(), []
    for one in find_models(locations(paths.host())):
        try:
            fit = "fits" if fits(open_model(one.path, origin=one.origin), memory) else "too large now"
        except ModelError:
            fit = "unusable"
        rows.append((one.name, size_text(one.file_bytes), fit, str(one.path)))
    return rows


def _show(talk: Chat, face: Face, found: Sequence[_Row]) -> None:
    now = talk.loaded.model.name if talk.loaded else talk.settings.model
    block, theirs, servers = Block(face), _served(talk), _servers(talk)
    if theirs:
        block.item(f"Models of {talk.settings.engine}", "bold")
        for one in theirs[:_MOST_LISTED]:
            block.row(f"{'›' if _is_in_use(talk, one) else ' '} {one}")
        if len(theirs) > _MOST_LISTED:
            block.row(f"  and {len(theirs) - _MOST_LISTED:,} more: /model NAME uses one", "dim")
    block.item("Models on this machine", "bold")
    width = max(len(row[0]) for row in found)
    for name, size, fit, path in found:
        block.row(f"{'›' if name == now else ' '} {name:<{width}}  {size:>8}  {fit:<13}  {path}")
    for download in DOWNLOADS:
        if all(row[0] != download.name for row in found):
            block.row(f"  /model pull {download.name} downloads it, {size_text(download.download_bytes)}", "dim")
    if servers:
        block.item("Servers", "bold")
        width = max(len(one_line(clean(name))) for name in servers)
    for name, url in servers.items():
        mark = "›" if name == talk.settings.engine else " "
        block.row(f"{mark} {one_line(clean(name)):<{width}}  {url if url != name else ''}".rstrip())
    block.item("  /model NAME switches; NAME can be a GGUF file's path or http://HOST:PORT", "dim")
    if servers:
        block.item("  /model SERVER MODEL uses one of a server's models", "dim")
    if theirs:
        block.item("  /model llama MODEL uses one on this machine, even if the server has one of that name", "dim")
    block.show()


# -- a switch ----------------------------------------------------------------------------------------------------------


def _switch(talk: Chat, face: Face, name: str) -> None:
    """Switch to a server, to another model of the server in use, or to a model on this machine."""
    servers = _servers(talk)
    engine, _, its = name.partition(" ")
    if not talk.model.absent:  # waiting lines were meant for the model before
        talk.outbox.take_back()
    here, theirs, server = engine == LLAMA, _served(talk), talk.settings.engine
    if not here and ("://" in engine or engine in servers):
        return _switch_to_server(talk, face, engine, its.strip() or None)
    if not here and name in theirs and not _is_in_use(talk, name):
        return _load_next(talk, face, server, name, name)
    wanted = (its.strip() or None) if here else name

    def look() -> tuple[str, str | None, str]:
        """The engine, its model, and the name to show. Raises ModelError, before the model in use is closed."""
        from ossia.agent.models.find import locations
        from ossia.agent.models.resolve import resolve

        try:
            return LLAMA, wanted, resolve(wanted, locations=locations(paths.host()), memory=read_memory()).name
        except ModelNotFound:
            from ossia.agent.engine.remote.connect import called

            if here or not (name in theirs or called(name, theirs)):
                raise
            return server, name, name

    def not_here(error: Exception) -> None:
        if isinstance(error, GivenUp):
            return face.note(f"gave up on {name}")
        if isinstance(error, ModelNotFound) and BARE_ADDRESS.match(engine):
            error = ModelNotFound(f"no model {one_line(clean(engine))!r}; for a server put http:// before its address")
        return talk.report(error)

    return talk.model.look_for(look, lambda found: _load_next(talk, face, *found), not_here)


def _switch_to_server(talk: Chat, face: Face, name: str, its: str | None) -> None:
    """Switch to a server, after a question if it is on another machine. Raises for an unusable address."""
    from ossia.cli.terminal.question import Question

    address = address_of(name, os.environ)

    def answered(key: str) -> None:
        if key != "y":
            return face.note(f"nothing was sent to {address.shown}")
        store_yes(address)
        return _load_next(talk, face, name, its, address.name)

    if is_agreed(address, talk.settings):
        return _load_next(talk, face, name, its, address.name)
    return talk.ask(Question(f"Switch to {address.name}?", f"{WHAT_GOES} {address.shown}"), answered)


def _load_next(talk: Chat, face: Face, engine: str, its: str | None, found: str) -> None:
    """Load at once if no model answers, even while a server connects; else after the turn."""

    def act() -> None:
        _load(talk, face, engine, its, found)

    soon = talk.model.request(act)
    if not talk.between_turns(talk.model.take) and not soon:
        face.note(f"{found} from the next turn")


def _load(talk: Chat, face: Face, engine: str, its: str | None, found: str) -> None:
    """Switch to this model. Between turns."""
    before, settings = talk.loaded, talk.settings

    def failed(error: Exception) -> None:
        talk.change_settings(model=settings.model, engine=settings.engine)
        if isinstance(error, GivenUp):
            face.note(f"gave up on {found}")
        else:
            talk.report(error, of="" if str(error).startswith(found) else f"{found} can't be used: ")
        if before:
            face.note(f"{before.model.name} goes on" if is_server(engine) else f"back to {before.model.name}")

    talk.change_settings(model=its, engine=engine)
    face.note(f"switching to {found}")
    talk.model.load(tools=before.tools if before else None, failed=failed)


def _pull(talk: Chat, face: Face, name: str) -> None:
    from ossia.agent.models.pull import parts_kept
    from ossia.agent.models.transfer import token_kept_back

    wanted = download_of(name)
    if wanted is None:
        must_be(" or ".join(one.name for one in DOWNLOADS), name)
    if talk.background.job:
        raise CommandError("another job is running: Ctrl-C ends it")
    endpoint = os.environ.get("HF_ENDPOINT") or None
    if endpoint and (line := token_kept_back(endpoint)):  # without one the hub's library needn't be loaded yet
        face.note(line)
    stopped: list[bool] = []

    def work() -> str:
        from ossia.agent.models.pull import pull

        show = download_line(talk.notices.line, name)

        def on_progress(progress: PullProgress) -> None:
            if stopped:
                raise GivenUp
            show(progress)
            face.wake()

        return str(pull(wanted, paths.data_dir(), on_progress=on_progress, endpoint=endpoint))

    def over(report: Callable[[], None]) -> None:
        if not stopped:
            talk.set_activity("")
            report()

    def stop() -> None:
        """Free the chat at once; the thread ends with its next byte, which may take a while."""
        kept = parts_kept(wanted, paths.data_dir())
        more = f"; partial download kept, /model pull {name} continues it" if kept else ""
        over(lambda: face.note(f"stopped{more}"))
        stopped.append(True)
        talk.background.job = None

    talk.set_activity(f"looking for {name}")
    talk.background.run(
        work,
        lambda path: over(lambda: face.note(f"downloaded to {path}: /model {name} uses it")),
        lambda error: over(lambda: talk.report(error)),
        stop=stop,
    )
