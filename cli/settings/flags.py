"""The flags that commands share, made from the table of settings. `cli.settings.config` checks what was given."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from ossia.cli.settings.table import SETTINGS, Listing

_LAST = ("raw", "json", "private")
"""These are at the end of the help of `ossia run`: what is printed, and what is stored."""
_RUN = sorted((key for key, one in SETTINGS.items() if "run" in one.flag.listed), key=lambda key: key in _LAST)
_CHAT = [*_RUN, *(key for key in SETTINGS if key not in _RUN)]


def option(key: str, of: Listing = "run") -> Any:
    """The flag of a setting, for typer: `proxy: Annotated[str | None, option("proxy")] = None`."""
    one = SETTINGS[key]
    flag = one.flag
    return typer.Option(
        one.long_flag,
        metavar=flag.metavar,
        help={"run": "", "chat": flag.chat, "tools": flag.tools}[of] or flag.help,
        hidden=of not in flag.listed,
        callback=(lambda given: False if given else None) if flag.off else None,
    )


def with_flags(of: Listing) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds every flag of `ossia run` to a command; its parameter `given` gets them, by setting (None: not given).

    `of` says whose help it is. The chat has flags of its own besides. It and `ossia tools` take all the others too, but
    don't list those that they seldom need.

        @app.command()
        @with_flags("run")
        def run(prompt: …, given: dict[str, object]) -> None: …
    """
    keys = _CHAT if of == "chat" else _RUN

    def with_them(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [p.replace(annotation=hints[p.name]) for p in signature(command).parameters.values() if p.name != "given"]
        kinds = {key: Annotated[SETTINGS[key].kind.flag | None, option(key, of)] for key in keys}
        flags = [Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for key, kind in kinds.items()]

        @wraps(command)
        def with_flags(**arguments: Any) -> None:
            given = {key: arguments.pop(key) for key in keys}
            command(**arguments, given=given)

        parameters = [*(p.replace(kind=Parameter.KEYWORD_ONLY) for p in own), *flags]
        with_flags.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        del with_flags.__wrapped__  # typer would look at its signature
        return with_flags

    return with_them
