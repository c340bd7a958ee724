"""What `ossia cache warm` does: today's prompts are read before anybody asks something."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress
from ossia.agent.engine.prompts import stored_in
from ossia.agent.kv_cache import save_prompt_cache
from ossia.agent.respond import LocalResponder
from ossia.agent.sessions.session import Session
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.runtime.assemble import Assembly, begin
from ossia.cli.runtime.ending import end_now
from ossia.cli.runtime.options import fresh_options
from ossia.cli.runtime.pace import Reading
from ossia.cli.runtime.progress import Display, make_display
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.engines import LLAMA
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.terminal.keyboard import plain_keys
from ossia.tools.workspace import Folder

_GRACE_S = 0.6
"""How long an interrupted reading may take to end, and what was read whole to reach the disk."""


@plain_keys()
def warm(flags: Mapping[str, object]) -> None:
    """Read and keep what prompts begin with: without `--workspace`, and with it.

    Each model is loaded as a run does it, and as a chat does it, if that makes a second copy of the weights: its KV
    caches are its own then. Raises ExitError, and what `begin` and `finish` raise.
    """
    named = resolve_with_folder(flags)
    plain = resolve_with_folder({**flags, "workspace": None, "trust": None}) if flags["workspace"] else named
    settings = named[0].settings
    if settings.private:
        raise ExitError(f"cache warm: {named[0].origins['private']} keeps no cache: take that back first")
    if settings.engine != LLAMA:
        raise ExitError("cache warm: only a model that runs here has a KV cache to keep: leave out --engine")
    display, worker, control = make_display(settings), Worker(), Control()
    display.once = True  # each loading has the same to say
    for warning in (*plain[0].warnings, *named[0].warnings):
        display.warn(warning)
    try:
        for resolved, folder in [plain] if plain is named else [plain, named]:
            for stays in (False, True) if settings.repack == "auto" else (False,):
                _warm(resolved, folder, display, worker, control, stays=stays)
    except KeyboardInterrupt:
        control.stop()
        worker.close(_GRACE_S)
        if worker.busy:
            end_now(ExitCode.INTERRUPTED)  # a C call that loads doesn't notice
        raise
    worker.close()


def _warm(
    resolved: Resolved, folder: Folder | None, display: Display, worker: Worker, control: Control, *, stays: bool
) -> None:
    began = time.time()
    assembly = begin(resolved, folder, display, worker, display.wait, stays=stays).finish(tap=None)
    try:
        if stays and not (assembly.plan and assembly.plan.repack):
            return None  # as a run has it
        start = time.monotonic()
        static, kept = display.wait(worker.submit(lambda: _read(assembly, resolved, folder, display, control)))
        took_s = time.monotonic() - start
    finally:
        display.pause()
        assembly.close_tools()
        closed = worker.submit(assembly.engine.close)  # waits for what is being written
    display.wait(closed)
    name = f"{'chat' if stays else 'run'}{f' in {folder.workspace.root}' if folder else ''}"
    if kept >= static:
        return display.note(f"ossia: {name}: all {static:,} tokens were kept already")
    folder_kv = paths.host().kv
    stored = stored_in(folder_kv, prompts=True)
    if not any(used >= began and one.name.startswith(f"prompt-{static}-") for used, _, one in stored):
        raise ExitError(f"cache warm: {name}: {static:,} tokens can't be kept in {folder_kv}", ExitCode.FAILED)
    return display.note(f"ossia: {name}: {static - kept:,} of {static:,} tokens read in {took_s:.1f} s, and kept")


def _read(
    assembly: Assembly, resolved: Resolved, folder: Folder | None, display: Display, control: Control
) -> tuple[int, int]:
    """Read and keep, on the worker's thread. Returns how many tokens prompts begin with, and how many were kept."""
    responder, reading, kept = assembly.responder, Reading(), 0
    assert isinstance(responder, LocalResponder)
    request = Session(fresh_options(resolved, folder)).request_ahead(assembly.tools.toolbox.specs)

    def on_progress(progress: Progress) -> None:
        nonlocal kept
        kept = progress.reused
        reading.see(progress)

    display.line.set(reading.text)
    responder.prefill(request, control=control, on_progress=on_progress)
    save_prompt_cache(assembly.engine)
    return responder.measure(request).static_tokens, kept
