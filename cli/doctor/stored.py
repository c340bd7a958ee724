"""The files on this machine: models and the memory they take, sessions, KV caches, and the disk under them."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from ossia.agent.errors import ModelError, OutOfMemory, SessionsUnusable, SettingRefused
from ossia.agent.kv_cache import PROMPT_BYTES, TOTAL_BYTES
from ossia.agent.models.catalog import DOWNLOADS, ETUDE, download_of
from ossia.agent.models.find import MODELS_FOLDER, Found, find_models, locations
from ossia.agent.models.memory import GpuMemory, Memory, read_memory, size_text
from ossia.agent.models.model import open_model
from ossia.agent.models.plan import plan
from ossia.agent.models.resolve import resolve
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.doctor.check import Finding, Machine
from ossia.cli.runtime.assembly import local_spec
from ossia.cli.settings.engines import is_server
from ossia.cli.words import count, listed

_MODELS_S: Final = 1.0  # for reading headers; one of gpt-oss-20b takes 0.1 s
_SESSIONS_S: Final = 0.5
_FULL_BYTES: Final = 1 << 20
_LITTLE_BYTES: Final = 1_000_000_000
_MOVE: Final = ": move it away, and a new one is made"


def models(machine: Machine) -> Iterator[Finding]:
    """Each model file, and the model of the settings, unless the engine is a server."""
    build = machine.build()
    memory = read_memory(None if isinstance(build, str) else GpuMemory(build.gpu_free, build.gpu_shared))
    where, until = locations(replace(paths.host(), environ=machine.environ)), time.monotonic() + _MODELS_S
    named = machine.settings.model
    if named is not None and not is_server(machine.settings.engine):
        try:
            resolve(named, locations=where, memory=memory)
        except ModelError as error:
            text, fix = f"the model of the settings can't be used: {error}", "name another one, or get this one"
            yield Finding("fault", text, fix, _pull(named))
    found = find_models(where)
    for number, one in enumerate(found):
        if time.monotonic() > until:
            yield Finding("ok", f"{len(found) - number} more weren't looked at: `ossia models list` shows all")
            break
        yield _about_model(machine, one, memory)
    if not any(download_of(one.name) for one in found):
        size = size_text(DOWNLOADS[0].download_bytes)
        text, fix = f"no gpt-oss model yet, only {ETUDE}, which is built in", f"get the real one ({size})"
        yield Finding("ok", text, fix, _pull(DOWNLOADS[0].name))


def sessions(machine: Machine) -> Iterator[Finding]:
    """The file of the sessions: is it whole, how large, in use?"""
    path = paths.sessions_file()
    try:
        found = SessionStore(path, now=time.time).health(max_s=_SESSIONS_S)
    except SessionsUnusable as error:
        text, damaged = str(error).removesuffix(_MOVE), str(error).endswith(_MOVE)
        fix = "save what can be saved, then move the file away: a new one is made" if damaged else ""
        command = f"sqlite3 {shlex.quote(str(path))} .recover > saved.sql" if damaged else ""
        yield Finding("fault", text, fix, command)
        return
    if found is None:
        yield Finding("ok", "none are stored yet")
        return
    checked = "the file is whole" if found.complete else f"checked for {_SESSIONS_S:g} s, not to the end"
    used = f"; open in process {listed([str(one) for one in found.processes])}" if found.processes else ""
    text = f"{count(found.sessions, 'session')}, {size_text(found.bytes)}, {checked}{used}"
    yield Finding("ok", text)


def disk(machine: Machine) -> Iterator[Finding]:
    """The folders that must be writable, and their room."""
    named = {
        "the data folder": (paths.data_dir(), "XDG_DATA_HOME", "no session is stored, and python is off"),
        "the folder of models": (paths.data_dir() / MODELS_FOLDER, "XDG_DATA_HOME", "no model can be downloaded"),
        "the cache folder": (paths.cache_dir(), "XDG_CACHE_HOME", "every prompt is read anew"),
    }
    disks: dict[int, tuple[list[str], Path]] = {}
    for name, (folder, variable, without) in named.items():
        there = _nearest(folder)
        if not os.access(there, os.W_OK | os.X_OK) or not shutil.disk_usage(there).total:  # root may, but for /proc
            text = f"{name} can't be written: {folder}; {without}"
            yield Finding("warning", text, f"set {variable} to a folder of yours, or make it writable")
            continue
        disks.setdefault(there.stat().st_dev, ([], there))[0].append(name)
    for names, place in disks.values():
        free = shutil.disk_usage(place).free
        text = f"{size_text(free)} are free for {listed(names)} ({place})"
        if free < _FULL_BYTES:
            yield Finding("fault", f"the disk is full: {text}", "free some space, also with `ossia cache rm`")
        elif free < _LITTLE_BYTES:
            yield Finding("warning", text, "free some space, also with `ossia cache rm`")
        else:
            yield Finding("ok", text)


def caches(machine: Machine) -> Iterator[Finding]:
    """The size of the stored KV caches, and its limit."""
    from ossia.agent.engine.prompts import stored_in, unfinished_in

    folder = paths.host().kv
    for what, prompts, limit in (("prompts", True, PROMPT_BYTES), ("sessions", False, TOTAL_BYTES)):
        kept = stored_in(folder, prompts=prompts)
        size = sum(size for _, size, _ in kept)
        text = f"{count(len(kept), 'stored cache')} of {what}, {size_text(size)} of at most {size_text(limit)}"
        yield Finding("ok", text)
    if unfinished := len(unfinished_in(folder)):
        text = f"{count(unfinished, 'cache')} unfinished: being written, or left by a crash"
        yield Finding("ok", text, "remove these, and all stored caches with them", "ossia cache rm")


def _about_model(machine: Machine, found: Found, memory: Memory) -> Finding:
    settings = machine.settings
    try:
        model = open_model(found.path, origin=found.origin)
        planned = plan(model, memory=memory, options=local_spec(settings).load_options(model.temperature))
    except ModelError as error:
        return Finding("warning", str(error), "remove the file, or get it again", _pull(found.name))
    except OutOfMemory as error:
        return Finding("warning", f"{found.name}: {error}", "close other programs, or set a smaller context")
    except SettingRefused as error:
        return Finding("warning", f"{found.name}: {error}", "`ossia config unset` removes a setting")
    free = "" if memory.all_free is None else f"; {size_text(memory.all_free)} are free"
    text = (
        f"{found.name} takes {size_text(planned.needs.total)} with a context of {planned.context_tokens:,} tokens{free}"
    )
    if planned.warnings:
        fix = "close other programs, or take a smaller model"
        return Finding("warning", "; ".join((text, *planned.warnings)), fix)
    return Finding("ok", f"{text} ({found.path})")


def _pull(name: str) -> str:
    return f"ossia models pull {name}" if download_of(name) else ""


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest existing one above it."""
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100 - no link is followed
    return next(one for one in (absolute, *absolute.parents) if one.is_dir())
