"""What is stored on this machine: sessions, kept caches, and the disk under them."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ossia.agent.errors import SessionsUnusable
from ossia.agent.models.find import MODELS_FOLDER
from ossia.agent.models.memory import size_text
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.doctor.finding import Finding
from ossia.cli.doctor.machine import Machine
from ossia.cli.words import count, listed

_CHECK_S: Final = 0.5
_FULL_BYTES: Final = 1 << 20
_LITTLE_BYTES: Final = 1_000_000_000
_MOVE: Final = ": move it away, and a new one is made"


def sessions(machine: Machine) -> Iterator[Finding]:
    """Is their file whole? How many are there, how large is it, who uses it?"""
    path = paths.sessions_file()
    try:
        found = SessionStore(path, now=time.time).health(max_s=_CHECK_S)
    except SessionsUnusable as error:
        text, damaged = str(error).removesuffix(_MOVE), str(error).endswith(_MOVE)
        fix = "save what can be saved, then move the file away: a new one is made" if damaged else ""
        command = f"sqlite3 {shlex.quote(str(path))} .recover > saved.sql" if damaged else ""
        yield Finding("sessions", "fault", text, fix, command)
        return
    if found is None:
        yield Finding("sessions", "ok", "none are stored yet")
        return
    checked = "the file is whole" if found.complete else f"checked for {_CHECK_S:g} s, not to the end"
    used = f"; open in process {listed([str(one) for one in found.processes])}" if found.processes else ""
    text = f"{count(found.sessions, 'session')}, {size_text(found.bytes)}, {checked}{used}"
    yield Finding("sessions", "ok", text)


def disk(machine: Machine) -> Iterator[Finding]:
    """May we write where we keep things, and is there room?"""
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
            yield Finding("disk", "warning", text, f"set {variable} to a folder of yours, or make it writable")
            continue
        disks.setdefault(there.stat().st_dev, ([], there))[0].append(name)
    for names, place in disks.values():
        free = shutil.disk_usage(place).free
        text = f"{size_text(free)} are free for {listed(names)} ({place})"
        if free < _FULL_BYTES:
            yield Finding("disk", "fault", f"the disk is full: {text}", "free some space; `ossia cache rm` gives some")
        elif free < _LITTLE_BYTES:
            yield Finding("disk", "warning", text, "free some space; `ossia cache rm` gives some")
        else:
            yield Finding("disk", "ok", text)


def caches(machine: Machine) -> Iterator[Finding]:
    """How much the kept KV caches take, of how much they may."""
    from ossia.agent.engine.prompts import kept_in, unfinished_in
    from ossia.cli.runtime.kv_cache import PROMPT_BYTES, TOTAL_BYTES, folder

    for what, prompts, limit in (("prompts", True, PROMPT_BYTES), ("sessions", False, TOTAL_BYTES)):
        kept = kept_in(folder(), prompts=prompts)
        size = sum(size for _, size, _ in kept)
        text = f"{count(len(kept), 'kept cache')} of {what}, {size_text(size)} of at most {size_text(limit)}"
        yield Finding("caches", "ok", text)
    if unfinished := len(unfinished_in(folder())):
        text = f"{count(unfinished, 'cache')} unfinished: being written, or left by a crash"
        yield Finding("caches", "ok", text, "remove these, and all kept caches with them", "ossia cache rm")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100 - no link is followed
    return next(one for one in (absolute, *absolute.parents) if one.is_dir())
