"""The python tool of a run: which Python, how it is confined, what the model is told of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.table import Settings

if TYPE_CHECKING:
    from ossia.tools.python.environment import Environment
    from ossia.tools.python.tool import PythonTool
    from ossia.tools.sandbox import Interpreter


def make_python(settings: Settings, display: Display, *, search_path: str | None = None) -> PythonTool | str:
    """The python tool; where nothing confines it, the reason and what to do about it, which the user is told too.

    `search_path`: where the confining program is looked for, in PATH's form; None: PATH.

    Raises ExitError where `--python` names no usable Python.
    """
    from ossia.tools.python.tool import PythonTool
    from ossia.tools.sandbox import InterpreterUnusable, choose

    try:
        interpreter, note = interpreter_of(settings)
    except InterpreterUnusable as error:
        display.warn(f"python is off: {error}")
        return str(error)
    confinement = choose(interpreter, unconfined=settings.unconfined, search_path=search_path)
    if confinement.name == "off":
        display.warn(f"python is off: {confinement.reason}")
        return confinement.reason
    if confinement.name == "unconfined":
        display.warn("python runs unconfined: the model's code can do whatever you can")
    unwritable = why_not_writable(paths.data_dir())
    if unwritable:
        why = f"{unwritable}; set XDG_DATA_HOME or HOME to a folder of yours"
        display.warn(f"python is off: {why}")
        return why
    display.detail(confinement.describe())
    return PythonTool(data_dir=paths.data_dir(), confinement=confinement, interpreter=interpreter, note=note)


def own_environment() -> Environment:
    """The environment of `ossia python setup`, in the data folder; it may not be there yet."""
    from ossia.tools.python.environment import Environment

    return Environment(paths.data_dir() / "python-environment")


def why_not_writable(folder: Path) -> str | None:
    """What keeps us from writing into a folder, which is made if it isn't there; None: nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{folder} can't be created ({error.strerror})"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} can't be written to"


def interpreter_of(settings: Settings) -> tuple[Interpreter, str]:
    """The Python of the model's code, and a line for the model on what it may import: for our own Python, none."""
    from ossia.tools.python.environment import EnvironmentFailed, interpreter_at, packages_of, sentence
    from ossia.tools.sandbox import InterpreterUnusable, inspect

    named = interpreter_at(Path(settings.python)) if settings.python else own_environment().executable
    if named is None:
        return inspect(), ""
    try:
        return inspect(named), sentence(packages_of(named))
    except (InterpreterUnusable, EnvironmentFailed) as error:
        where = "--python" if settings.python else "the environment of `ossia python setup`"
        raise ExitError(f"{where}: {error}") from None
