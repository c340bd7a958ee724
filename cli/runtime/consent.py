"""Plain questions on the terminal, and consent before the first prompt to a host."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.settings.engines import address_of, is_server
from ossia.cli.settings.table import Settings
from ossia.cli.terminal.first_paint import clear
from ossia.cli.terminal.keyboard import plain_keys
from ossia.cli.visible import seen

if TYPE_CHECKING:
    from ossia.agent.engine.remote.address import Address


WHAT_GOES = "prompts, files and results will be sent to"


def agree(settings: Settings) -> None:
    """Before the first prompt to a host that isn't this machine, ask on the terminal, and store a yes.

    Raises ExitError where it is refused, or where there is no terminal to ask on, and what `address_of` raises.
    """
    if not is_server(settings.engine):
        return
    address = address_of(settings.engine, os.environ)
    if is_agreed(address, settings):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ExitError(_refusal(address))
    if not confirmed(seen(f"ossia: {WHAT_GOES} {address.shown}. Send them there?")):
        raise ExitError(f"nothing was sent to {address.shown}: --engine llama runs a model here")
    store_yes(address)


def confirmed(question: str) -> bool:
    """Ask `question` (clean) on a terminal. True for `y` or `yes`."""
    prompt = f"{question} [y/N] "
    clear()
    with plain_keys() as keyboard:
        if keyboard is None:  # Windows
            print(prompt, end="", file=sys.stderr, flush=True)
            typed = sys.stdin.readline()
        else:
            from ossia.cli.terminal.input.ask import ask_line

            typed = ask_line(keyboard, prompt) or ""
    return typed.strip().lower() in ("y", "yes")


def store_yes(address: Address) -> None:
    """From now on prompts may go there."""
    from ossia.tools.approval.grants import Hosts

    Hosts(paths.data_dir()).add(_origin(address))


def must_be_agreed(address: Address, settings: Settings) -> None:
    """Raises ExitError for a host that isn't this machine, wasn't asked about, and isn't named by --allow-engine."""
    if not is_agreed(address, settings):
        raise ExitError(_refusal(address))


def is_agreed(address: Address, settings: Settings) -> bool:
    """True for this machine, a stored yes, or a host of --allow-engine."""
    from ossia.tools.approval.grants import Hosts

    origin = _origin(address)
    named = any(means(said, origin) for said in settings.allow_engine)
    return address.is_local or named or Hosts(paths.data_dir()).holds(origin)


def means(said: str, origin: str) -> bool:
    """True if the user's words mean `origin`, e.g. `http://gpu.test:99`.

    `gpu.test` means each of its ports, `gpu.test:99` this port only, and what begins with `http://` never `https://`.
    """
    with suppress(ValueError):  # a stored line may be anything
        parts = urlsplit(origin)
        ways = (origin, parts.netloc, parts.hostname, f"[{parts.hostname}]")
        return said.strip().lower().rstrip("/").removesuffix("/v1") in ways
    return False


def _refusal(address: Address) -> str:
    return (
        f"nothing was sent to {address.shown}, since nobody was asked: start `ossia --engine …` in a terminal "
        f"once, or give --allow-engine {address.host}"
    )


def _origin(address: Address) -> str:
    return f"{urlsplit(address.url).scheme}://{address.place}"
