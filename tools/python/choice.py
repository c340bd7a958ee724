"""The Python of the model's code: the one that was named, else that of `ossia python setup`, else our own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.tools.functions import ToolSettingUnusable
from ossia.tools.host import Host, Notice, Report

if TYPE_CHECKING:
    from ossia.tools.python.environment import Environment
    from ossia.tools.python.tool import PythonTool
    from ossia.tools.sandbox import Confinement, Interpreter


def python_tool(
    named: str | None, host: Host, report: Report, *, unconfined: bool, search_path: str | None
) -> PythonTool | str:
    """The python tool; where nothing confines it, the reason and what to do about it, which is reported too.

    `named`: the user's choice. `search_path`: where the confining program is looked for, in PATH's form.

    Raises ToolSettingUnusable where `named` is no usable Python.
    """
    from ossia.tools.python.tool import PythonTool

    def off(why: str) -> str:
        report(Notice("warning", f"python is off: {why}"))
        return why

    confinement = confinement_of(unconfined=unconfined, search_path=search_path)
    if confinement.name == "off":
        return off(confinement.reason)
    interpreter, note = interpreter_of(named, host, confinement)
    if confinement.name == "unconfined":
        report(Notice("warning", "python runs unconfined: the model's code can do whatever you can"))
    if unwritable := _why_not_writable(host.data):
        return off(f"{unwritable}; set XDG_DATA_HOME or HOME to a folder of yours")
    report(Notice("detail", confinement.describe()))
    return PythonTool(data_dir=host.data, confinement=confinement, interpreter=interpreter, note=note)


def own_environment(host: Host) -> Environment:
    """The environment of `ossia python setup`, in the data folder; it may not exist yet."""
    from ossia.tools.python.environment import Environment

    return Environment(host.data / "python-environment")


def confinement_of(*, unconfined: bool, search_path: str | None) -> Confinement:
    """The confinement of the model's Python on this machine, found with ossia's own."""
    from ossia.tools.sandbox import InterpreterUnusable, Off, choose, inspect

    try:
        return choose(inspect(), unconfined=unconfined, search_path=search_path)
    except InterpreterUnusable as error:
        return Off("python", str(error))


def interpreter_of(named: str | None, host: Host, confinement: Confinement) -> tuple[Interpreter, str]:
    """The Python of the model's code, and a line for the model on its packages; "" for our own Python.

    Raises ToolSettingUnusable for one that can't be used.
    """
    from ossia.tools.sandbox import InterpreterUnusable, inspect

    ours, path = inspect(), Path(named) if named else own_environment(host).executable
    if path is None:
        return ours, ""
    from ossia.tools.python.environment import sentence
    from ossia.tools.python.named import inspect_named, interpreter_at  # and all that knows toolchains

    try:
        interpreter, packages = inspect_named(interpreter_at(path), confinement, ours, host)
    except InterpreterUnusable as error:
        where = "--python" if named else "the environment of `ossia python setup`"
        raise ToolSettingUnusable(f"{where}: {error}") from None
    return interpreter, sentence(packages)


def _why_not_writable(folder: Path) -> str | None:
    """The reason why we can't write into a folder, which is made if it doesn't exist; None: we can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{folder} can't be created ({error.strerror})"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} can't be written to"
