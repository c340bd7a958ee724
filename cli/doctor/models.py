"""The model files that were found: whole or damaged, and how much memory each takes here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from ossia.agent.errors import ModelError, OutOfMemory, SettingRefused
from ossia.agent.models.catalog import DOWNLOADS, ETUDE, download_of
from ossia.agent.models.find import Found, find_models
from ossia.agent.models.memory import GpuMemory, Memory, read_memory, size_text
from ossia.agent.models.model import open_model
from ossia.agent.models.plan import plan
from ossia.agent.models.resolve import resolve
from ossia.cli.doctor.finding import Finding
from ossia.cli.doctor.machine import Machine
from ossia.cli.runtime.models import locations
from ossia.cli.runtime.planning import wishes_of
from ossia.cli.settings.engines import is_server

_MAX_S: Final = 1.0  # for reading headers; one of gpt-oss-20b takes 0.1 s


def models(machine: Machine) -> Iterator[Finding]:
    """Each model file, and the one that the settings name; if a server is the engine, that name isn't checked."""
    build = machine.build()
    memory = read_memory(None if isinstance(build, str) else GpuMemory(build.gpu_free, build.gpu_shared))
    where, until = locations(machine.environ), time.monotonic() + _MAX_S
    named = machine.settings.model
    if named is not None and not is_server(machine.settings.engine):
        try:
            resolve(named, locations=where, memory=memory)
        except ModelError as error:
            text, fix = f"the model of the settings can't be used: {error}", "name another one, or get this one"
            yield Finding("models", "fault", text, fix, _pull(named))
    found = find_models(where)
    for number, one in enumerate(found):
        if time.monotonic() > until:
            yield Finding(
                "models", "ok", f"{len(found) - number} more weren't looked at: `ossia models list` shows all"
            )
            break
        yield _about(machine, one, memory)
    if not any(download_of(one.name) for one in found):
        size = size_text(DOWNLOADS[0].download_bytes)
        text, fix = f"no gpt-oss model yet, only {ETUDE}, which is built in", f"get the real one ({size})"
        yield Finding("models", "ok", text, fix, _pull(DOWNLOADS[0].name))


def _about(machine: Machine, found: Found, memory: Memory) -> Finding:
    settings = machine.settings
    try:
        model = open_model(found.path, origin=found.origin)
        planned = plan(model, memory=memory, wishes=wishes_of(settings, model, stays=False))
    except ModelError as error:
        return Finding("models", "warning", str(error), "remove the file, or get it again", _pull(found.name))
    except OutOfMemory as error:
        return Finding("models", "warning", f"{found.name}: {error}", "close other programs, or set a smaller context")
    except SettingRefused as error:
        return Finding("models", "warning", f"{found.name}: {error}", "ossia config unset takes a setting back")
    free = "" if memory.all_free is None else f"; {size_text(memory.all_free)} are free"
    text = (
        f"{found.name} takes {size_text(planned.needs.total)} with a context of {planned.context_tokens:,} tokens{free}"
    )
    if planned.warnings:
        fix = "close other programs, or take a smaller model"
        return Finding("models", "warning", "; ".join((text, *planned.warnings)), fix)
    return Finding("models", "ok", f"{text} ({found.path})")


def _pull(name: str) -> str:
    return f"ossia models pull {name}" if download_of(name) else ""
