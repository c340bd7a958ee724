"""`ossia cache`: the KV caches on disk, which spare a model from reading the same text again."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

from ossia.cli import paths
from ossia.cli.commands import Json, exit_error, group
from ossia.cli.exits import ExitCode
from ossia.cli.settings.table import option
from ossia.cli.streams import say
from ossia.cli.terminal.keyboard import plain_keys

if TYPE_CHECKING:
    from pathlib import Path

    from ossia.agent.build import Model
    from ossia.agent.control import Control
    from ossia.agent.engine.base import Progress
    from ossia.agent.request import Request
    from ossia.agent.worker import Worker
    from ossia.cli.runtime.progress import Display
    from ossia.cli.settings.config import Resolved
    from ossia.tools.folder import Folder

VERSION = 1
"""The version of what `--json` prints."""
_GRACE_S = 0.6
"""The time for an interrupted reading to end, and for its whole parts to reach the disk."""


def show(json: Json = False) -> None:
    """List the stored caches: kind, tokens, size, last use, whether they hold your own text, model."""
    from json import dumps

    from ossia.agent.engine.stored import inspect
    from ossia.agent.models.memory import size_text
    from ossia.cli.clean import clean, one_line
    from ossia.cli.words import when

    found = [(used, size, folder, inspect(folder)) for used, size, folder in _folders()]
    kinds = ["prompt" if folder.name.startswith("prompt-") else "session" for _, _, folder, _ in found]
    if json:
        entries = [
            {"kind": kind, "id": folder.name, "tokens": about and about[1], "bytes": size, "used": used,
             "personal": about and about[0].personal, "model": about and about[0].model}
            for kind, (used, size, folder, about) in zip(kinds, found, strict=True)
        ]  # fmt: skip
        print(dumps({"version": VERSION, "kept": entries}))
        return
    if not found:
        say("no KV cache is stored yet")
        return
    print(f"{'KIND':<7}  {'ID':<14}  {'TOKENS':>7}  {'SIZE':>8}  {'LAST USED':<16}  {'YOURS':<5}  MODEL")
    for kind, (used, size, folder, about) in zip(kinds, found, strict=True):
        digest = clean(one_line(folder.name.rpartition("-")[2]))[:14]  # of `prompt-633-4be2…`: tokens have a column
        tokens, yours, model = "?", "?", "?"
        if about:
            tokens, yours, model = f"{about[1]:,}", "yes" if about[0].personal else "no", about[0].model or "?"
        print(
            f"{kind:<7}  {digest:<14}  {tokens:>7}  {size_text(size):>8}  {when(used):<16}  {yours:<5}  "
            f"{clean(one_line(model))}"
        )
    say(f"{_total([size for _, size, _, _ in found])}, in {paths.host().kv}")


app = group(
    """Show, remove or prepare stored KV caches: show, rm, warm.

    A KV cache holds what a model computed from the text it read. ossia stores those of sessions and of the beginnings
    of prompts, so that the model needn't read the text again. Only you can read them. --private stores none.
    """,
    alone=show,
)
app.command()(show)


@app.command()
def rm() -> None:
    """Remove all stored caches. Sessions stay; the model reads their text once more."""
    from ossia.agent.engine.prompts import unfinished_in
    from ossia.agent.engine.stored import delete

    found = _folders()
    for folder in [*(folder for _, _, folder in found), *unfinished_in(paths.host().kv)]:
        delete(folder)
    if left := _folders():
        raise exit_error(f"can't remove {left[0][2]}", "FAILED")
    print(f"removed {_total([size for _, size, _ in found])}" if found else "no cache was stored")


@app.command()
def warm(
    workspace: Annotated[str | None, option("workspace")] = None,
    trust: Annotated[bool | None, option("trust")] = None,
    model: Annotated[str | None, option("model")] = None,
    tools: Annotated[list[str] | None, option("tools")] = None,
    no_tools: Annotated[bool | None, option("no_tools")] = None,
    web: Annotated[str | None, option("web")] = None,
    effort: Annotated[str | None, option("effort")] = None,
    instructions: Annotated[str | None, option("instructions")] = None,
    private: Annotated[bool | None, option("private")] = None,
    quiet: Annotated[bool | None, option("quiet")] = None,
) -> None:
    """Read and store the beginnings of today's prompts, at low priority: for a timer or a login.

    Prepares for a run and, with --workspace, for a run in that folder. Use the flags of your runs. Ctrl-C stores
    the parts that are complete. Doesn't work with --private.
    """
    flags: dict[str, object] = dict(locals())
    if hasattr(os, "nice"):
        os.nice(19)  # before any library starts threads
    from ossia.cli.settings.engines import LLAMA
    from ossia.cli.settings.workspace import resolve_with_folder

    with plain_keys():
        runs = [resolve_with_folder(flags)]
        if workspace:
            runs.insert(0, resolve_with_folder({**flags, "workspace": None, "trust": None}))
        resolved = runs[-1][0]
        if resolved.settings.private:
            raise exit_error(f"cache warm: {resolved.origins['private']} forbids storing a cache: turn it off")
        if resolved.settings.engine != LLAMA:
            raise exit_error("cache warm: only a model that runs here has a KV cache to store: leave out --engine")
        _warm_all(runs)


def _warm_all(runs: list[tuple[Resolved, Folder | None]]) -> None:
    """Load the model for each run, and once more as a chat does if that makes another copy of the weights.

    Raises ExitError, and the errors of `begin` and `finish`.
    """
    from ossia.agent.control import Control
    from ossia.agent.worker import Worker
    from ossia.cli.runtime.ending import end_now
    from ossia.cli.runtime.progress import make_display

    display, worker, control = make_display(runs[-1][0].settings), Worker(), Control()
    display.once = True  # each loading has the same to say
    for resolved, _ in runs:
        for warning in resolved.warnings:
            display.warn(warning)
    try:
        for resolved, folder in runs:
            for stays in (False, True) if resolved.settings.repack == "auto" else (False,):
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
    from ossia.agent.engine.prompts import stored_in
    from ossia.agent.sessions.session import Session
    from ossia.cli.runtime.assembly import begin_model, finish, tools_spec
    from ossia.cli.runtime.session import fresh_options

    began = time.time()
    spec = tools_spec(resolved, folder)
    model, tools = finish(begin_model(resolved, display, worker, stays=stays), spec, resolved, display)
    try:
        if stays and not (model.plan and model.plan.repack):
            return None  # as a run has it
        session = Session(fresh_options(resolved, folder))
        session.skills = tools.skills.in_prompt(tools.counter, model.engine.context_tokens)
        request = session.request_ahead(tools.toolbox.specs)
        start = time.monotonic()
        static, reused = display.wait(worker.submit(lambda: _read(model, request, display, control)))
        took_s = time.monotonic() - start
    finally:
        display.pause()
        tools.close()
        closed = model.close()  # waits for what is being written
    display.wait(closed)
    name = f"{'chat' if stays else 'run'}{f' in {folder.workspace.root}' if folder else ''}"
    if reused >= static:
        return display.note(f"ossia: {name}: all {static:,} tokens were stored already")
    stored = stored_in(paths.host().kv, prompts=True)
    if not any(used >= began and one.name.startswith(f"prompt-{static}-") for used, _, one in stored):
        raise exit_error(f"cache warm: {name}: {static:,} tokens can't be stored in {paths.host().kv}", "FAILED")
    return display.note(f"ossia: {name}: {static - reused:,} of {static:,} tokens read in {took_s:.1f} s, and stored")


def _read(model: Model, request: Request, display: Display, control: Control) -> tuple[int, int]:
    """Read and store, on the worker's thread. Returns the tokens that prompts begin with, and those stored before."""
    from ossia.agent.kv_cache import save_prompt_cache
    from ossia.agent.respond import LocalResponder
    from ossia.cli.runtime.activity import Reading

    responder, reading, reused = model.responder, Reading(), 0
    assert isinstance(responder, LocalResponder)

    def on_progress(progress: Progress) -> None:
        nonlocal reused
        reused = progress.reused
        reading.see(progress)

    display.line.set(reading.text)
    responder.prefill(request, control=control, on_progress=on_progress)
    save_prompt_cache(model.engine)
    return responder.measure(request).static_tokens, reused


def _folders() -> list[tuple[float, int, Path]]:
    """Those on disk, the last used first: its time of use, its bytes, its folder."""
    from ossia.agent.engine.prompts import stored_in

    folder = paths.host().kv
    return sorted([*stored_in(folder, prompts=True), *stored_in(folder, prompts=False)], reverse=True)


def _total(sizes: list[int]) -> str:
    from ossia.agent.models.memory import size_text
    from ossia.cli.words import count

    return f"{count(len(sizes), 'stored cache')}, {size_text(sum(sizes))}"
