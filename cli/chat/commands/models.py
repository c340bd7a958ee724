"""/model: which one answers, and how to get another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from cli import paths
from cli.chat.commands.common import Block, Choice, CommandError, Stopped, must_be
from cli.clean import clean, one_line
from cli.exits import exit_code

if TYPE_CHECKING:
    from agent.models.transfer import PullProgress
    from cli.chat.conversation import Conversation
    from cli.chat.face import Face

_Row = tuple[str, str, str, str]
"""Name, size, whether it fits, path."""
_LOOK_AGAIN_S = 30


def model(talk: Conversation, face: Face, argument: str) -> None:
    """`/model [NAME|pull NAME]`: another model for the same conversation; alone: those on this machine."""
    word, _, name = argument.partition(" ")
    if not argument:
        return talk.background.run(_found, lambda found: _show(talk, face, found))
    if word == "pull":
        return _pull(talk, face, name.strip())
    return _switch(talk, face, argument)


def names(talk: Conversation, prefix: str) -> Sequence[Choice]:
    """What `/model` can be completed with."""
    from agent.models.catalog import DOWNLOADS
    from agent.models.memory import size_text

    if prefix.startswith("pull "):
        return [(f"pull {one.name}", size_text(one.download_bytes)) for one in DOWNLOADS]
    servers = [(name, "a server") for name in _servers()]
    return [*_names(int(time.monotonic() / _LOOK_AGAIN_S)), *servers, ("pull", "download one")]


def _servers() -> Sequence[str]:
    """The servers that the config file names; none if it can't be read, which is told where it is used."""
    from cli.settings.config import ConfigError
    from cli.settings.engines import engine_names

    try:
        return engine_names(os.environ)
    except ConfigError:
        return ()


@lru_cache(maxsize=1)
def _names(period: int) -> tuple[Choice, ...]:
    """The models on this machine, looked for once per period and not at each key: the caches may be large."""
    from agent.models.find import find_models
    from agent.models.memory import size_text
    from cli.runtime.models import locations

    return tuple((one.name, f"{size_text(one.file_bytes)}, {one.origin}") for one in find_models(locations()))


# -- those there are ---------------------------------------------------------------------------------------------------


def _found() -> list[_Row]:
    from agent.errors import ModelError
    from agent.models.find import find_models
    from agent.models.memory import size_text
    from agent.models.model import open_model
    from agent.models.needs import fits
    from cli.runtime.models import free_memory, locations

    memory, rows = free_memory(), []
    for one in find_models(locations()):
        try:
            fit = "fits" if fits(open_model(one.path, origin=one.origin), memory) else "too large now"
        except ModelError:
            fit = "unusable"
        rows.append((one.name, size_text(one.file_bytes), fit, str(one.path)))
    return rows


def _show(talk: Conversation, face: Face, found: Sequence[_Row]) -> None:
    from agent.models.catalog import DOWNLOADS
    from agent.models.memory import size_text

    now = talk.assembly.engine.name if talk.assembly else talk.settings.model
    block, width = Block(face, "Models on this machine"), max(len(row[0]) for row in found)
    for name, size, fit, path in found:
        block.row(f"{'›' if name == now else ' '} {name:<{width}}  {size:>8}  {fit:<13}  {path}")
    for download in DOWNLOADS:
        if all(row[0] != download.name for row in found):
            block.row(f"  /model pull {download.name} downloads it, {size_text(download.download_bytes)}", "dim")
    for server in _servers():
        block.row(f"{'›' if server == talk.settings.engine else ' '} {one_line(clean(server))}: a server")
    block.row("  /model NAME switches to one; NAME can be the path of a GGUF file, or http://HOST:PORT", "dim")
    block.show()


# -- another one -------------------------------------------------------------------------------------------------------


def _switch(talk: Conversation, face: Face, name: str) -> None:
    def check() -> str:
        """What it is called. Raises ModelError, before the model in use is given up."""
        from agent.models.memory import read_memory
        from agent.models.resolve import resolve
        from cli.runtime.models import locations

        return resolve(name, locations=locations(), memory=read_memory()).name

    if "://" in name or name in _servers():
        return _switch_to_server(talk, face, name)
    return talk.background.run(check, lambda found: _load_next(talk, face, name, found, is_server=False))


def _switch_to_server(talk: Conversation, face: Face, name: str) -> None:
    """One on another machine is asked about first, once. Raises what is wrong with its address."""
    from cli.runtime.consent import WHAT_GOES, is_agreed, place_of, store_yes
    from cli.settings.engines import address_of
    from cli.terminal.question import Question

    address = address_of(name, os.environ)

    def answered(key: str) -> None:
        if key != "y":
            return face.note(f"nothing was sent to {place_of(address)}")
        store_yes(address)
        return _load_next(talk, face, name, address.name, is_server=True)

    if is_agreed(address, talk.settings):
        return _load_next(talk, face, name, address.name, is_server=True)
    return talk.ask(Question(f"Switch to {address.name}?", f"{WHAT_GOES} {place_of(address)}"), answered)


def _load_next(talk: Conversation, face: Face, name: str, found: str, *, is_server: bool) -> None:
    if not talk.between_turns(lambda: _load(talk, face, name, found, is_server=is_server)):
        face.note(f"{found} from the next turn")


def _load(talk: Conversation, face: Face, name: str, found: str, *, is_server: bool) -> None:
    """Give the loaded model up for another; when that can't be loaded, go back. Between turns."""
    before, resolved = talk.assembly, talk.resolved
    assert before is not None

    def failed(error: Exception) -> None:
        if exit_code(error) is None:
            raise error
        face.note(f"{found} can't be used: {error}; back to {before.engine.name}", "red")
        talk.use_settings(resolved, talk.folder)
        talk.model.load(tools=before.tools)

    talk.change_settings(model=None if is_server else name, engine=name if is_server else "llama")
    face.note(f"switching to {found}")
    talk.model.load(tools=before.tools, failed=failed)


def _pull(talk: Conversation, face: Face, name: str) -> None:
    from agent.models.catalog import DOWNLOADS, download_of
    from agent.models.pull import parts_kept
    from agent.models.transfer import token_kept_back

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
        from agent.models.pull import pull
        from cli.runtime.models import download_line

        show = download_line(talk.notices.line, name)

        def on_progress(progress: PullProgress) -> None:
            if stopped:
                raise Stopped
            show(progress)
            face.wake()

        return str(pull(wanted, paths.data_dir(), on_progress=on_progress, endpoint=endpoint))

    def over(tell: Callable[[], None]) -> None:
        if not stopped:
            talk.background.job = None
            talk.doing("")
            tell()

    def stop() -> None:
        """For the user it stops at once; the thread goes on until its next byte, which may take a while to come."""
        kept = parts_kept(wanted, paths.data_dir())
        more = f"; partial download kept, /model pull {name} continues it" if kept else ""
        over(lambda: face.note(f"stopped{more}"))
        stopped.append(True)

    talk.background.job = stop
    talk.doing(f"looking for {name}")
    talk.background.run(
        work,
        lambda path: over(lambda: face.note(f"downloaded to {path}: /model {name} uses it")),
        lambda error: over(lambda: talk.tell(error)),
    )
