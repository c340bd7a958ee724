"""`ossia serve` from its flags to its end."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from ossia.cli import paths
from ossia.cli.clean import one_line
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.serve import token as tokens
from ossia.cli.serve.guard import is_loopback
from ossia.cli.settings.engines import LLAMA, is_server
from ossia.cli.streams import give_stdout_to_others, stdout

if TYPE_CHECKING:
    from ossia.cli.runtime.progress import Display
    from ossia.cli.settings.config import Resolved
    from ossia.cli.settings.table import Settings
    from ossia.harmony.tokenizer import Tokenizer
    from ossia.tools.folder import Folder

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Served:
    """The flags of `ossia serve` alone, as they are given."""

    host: str = "127.0.0.1"
    port: int = 8321
    token: str | None = None
    parallel: int = 1
    idle: str = "15m"
    save: bool = False


def seconds(text: str) -> float:
    """`"15m"` → 900.0; a number alone is in seconds. Raises ExitError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None:
        raise ExitError(f"--idle: must be a time, as 90s, 15m or 2h, or 0 for never, not {text!r}")
    return float(match[1]) * _UNITS[match[2]]


def token_of(served: Served, resolved: Resolved) -> tuple[str | None, bool]:
    """The token that requests need, None: none; and True if it was made now.

    It is needed where the port is reached from elsewhere, or the settings allow more than to look.
    """
    if served.token is not None:
        return tokens.checked(served.token), False
    if is_loopback(served.host) and not allows_more(resolved):
        return None, False
    return tokens.stored(paths.token_file())


def allows_more(resolved: Resolved) -> bool:
    """Do the settings allow more than to look?"""
    settings = resolved.settings
    named = any(name != "browser" for name in settings.tools or ())
    given = settings.yes or settings.allow or settings.allow_network or settings.allow_git or settings.unconfined
    rules = (*resolved.approvals, *resolved.folder_approvals)
    return bool(named or given) or any(word == "auto" for _, word in rules)


def serve(flags: Mapping[str, object], served: Served, show: str | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; returns the exit code. `show`: print the settings of that client instead.

    Raises ExitError and the errors of a model that can't be loaded.
    """
    from ossia.cli.settings.workspace import resolve_with_folder

    idle_s = seconds(served.idle)
    variable = os.environ.pop(tokens.VARIABLE, None)  # commands and servers that are started don't get it
    served = replace(served, token=variable or None if served.token is None else served.token)
    resolved, folder = resolve_with_folder(flags)
    token, made = token_of(served, resolved)
    if show is not None:
        print(_shown(show, served, resolved, token), file=stdout())
        return ExitCode.ANSWERED
    return _serve(served, resolved, folder, token, made, idle_s)


def _shown(client: str, served: Served, resolved: Resolved, token: str | None) -> str:
    from ossia.agent.serving.models import id_of
    from ossia.cli.serve.server import url_of
    from ossia.cli.serve.show import CLIENTS, codex

    if client not in CLIENTS:
        raise ExitError(f"--print: must be one of {', '.join(CLIENTS)}, not {client!r}")
    if not served.port:
        raise ExitError("--print: needs the port of the server: --port 8321")
    url, name = url_of(served.host, served.port), id_of(_name(resolved.settings))
    if client == "codex" and served.token is None:
        return codex(url, name, token, paths.token_file())
    return CLIENTS[client](url, name, token)


def _name(settings: Settings) -> str:
    """The name of the model that the settings would load."""
    from ossia.agent.models.find import locations
    from ossia.agent.models.memory import read_memory
    from ossia.agent.models.resolve import resolve

    if settings.engine != LLAMA:
        return settings.model or ("gpt-oss-20b" if is_server(settings.engine) else "script")
    return resolve(settings.model, locations=locations(paths.host()), memory=read_memory(None)).name


def _serve(
    served: Served, resolved: Resolved, folder: Folder | None, token: str | None, made: bool, idle_s: float
) -> int:
    from ossia.cli.runtime.assembly import collect, tools_spec
    from ossia.cli.runtime.ending import end_now, look_to_the_end
    from ossia.cli.runtime.progress import make_display
    from ossia.cli.runtime.session import stores_always
    from ossia.cli.serve.answer import Door
    from ossia.cli.serve.app import App
    from ossia.cli.serve.guard import Guard
    from ossia.cli.serve.models import Models
    from ossia.cli.serve.server import Server, bound, signals_to, url_of
    from ossia.cli.serve.service import Service

    give_stdout_to_others()
    display = make_display(resolved.settings)
    only_look = token is None
    # The tools of each conversation are built anew; how they are confined matters where they may run.
    tools_display = make_display(replace(resolved.settings, verbose=resolved.settings.verbose and not only_look))
    tools_display.line, tools_display.once = display.line, True
    for line in resolved.warnings:
        display.warn(line)
    spec = tools_spec(resolved, folder)  # what is missing is refused before anything is loaded
    door = Door()
    with bound(served.host, served.port) as listening:
        # Faults and warnings come now, not to a client.
        collect(spec, resolved, tools_display, cast("Tokenizer", None)).close()
        models = Models(resolved, display, lanes=served.parallel, idle_s=idle_s)
        save = served.save or stores_always(resolved.settings)
        service = Service(models, resolved, spec, tools_display, door, only_look=only_look, save=save)
        app = App(service, Guard(served.host, token), door, _log if resolved.settings.verbose else lambda line: None)
        server = Server(listening, app, door, tick=models.look, on_drain=partial(_say_ending, display))
        with signals_to(server.drain):
            _greet(display, url_of(served.host, server.port), models.name, served, token, made)
            loading = models.begin()
            loading.add_done_callback(lambda done: server.drain(now=True) if done.exception() else None)
            whole = server.run()
    if loading.done() and (error := loading.exception()):
        raise error
    try:
        service.close()
        models.close(cut=not whole)
        look_to_the_end(display.warn)
    except KeyboardInterrupt:
        whole = False
    end_now(ExitCode.ANSWERED if whole else ExitCode.INTERRUPTED)  # a C call doesn't end for us


def _log(line: str) -> None:
    with suppress(OSError):  # nobody reads it any more
        print(one_line(line), file=sys.stderr, flush=True)


def _say_ending(display: Display, inside: int) -> None:
    if not inside:
        return
    with suppress(OSError):  # the terminal is closed
        what = "1 request is" if inside == 1 else f"{inside} requests are"
        display.note(f"ossia: ending once {what} answered (Ctrl-C: end now)")


def _greet(display: Display, url: str, model: str, served: Served, token: str | None, made: bool) -> None:
    """The line about a server: where it is, how to try it. Its token is shown only when it is new, on a terminal."""
    from ossia.agent.serving.models import id_of
    from ossia.cli.serve.show import curl

    key = "$TOKEN" if served.token else f"$(cat {shlex.quote(str(paths.token_file()))})"
    way = curl(url, id_of(model), f'"Authorization: Bearer {key}"' if token else "")
    display.note(f"ossia: {model} answers at {url}; to try it: {way}")
    if made:
        display.aside(f"ossia: its new token, stored in {paths.token_file()}: {token}", whole=True)
