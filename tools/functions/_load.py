"""Loading code that the user named: a file, or an entry point of an installed package."""

from __future__ import annotations

import builtins
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.functions._capture import captured
from tools.functions._inspect import fault_line
from tools.functions.errors import FunctionsInvalid
from tools.text import one_line

_MAX_PRINTED_CHARS = 200


def run_file(path: Path) -> tuple[ModuleType, str]:
    """The module of a file, which is run once, and what it printed, as one short line.

    Its folder is importable only while the file runs, as for a script: modules that we import later must not be found
    there. Raises `FunctionsInvalid`.
    """
    try:
        source = path.read_bytes()
        resolved = path.resolve()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise FunctionsInvalid(f"{path}: can't be read: {reason}") from None
    module = ModuleType(f"ossia_functions_{resolved.stem}_{len(source):x}{abs(hash(resolved)):x}")
    module.__file__ = str(resolved)
    module.__dict__["__builtins__"] = builtins
    sys.modules[module.__name__] = module  # dataclasses, typing and pickle look the module up by its name
    folder = str(resolved.parent)
    printed: list[str] = []
    sys.path.insert(0, folder)
    try:
        with captured(lambda stream, text: printed.append(text), module.__name__):
            exec(compile(source, str(resolved), "exec", dont_inherit=True), module.__dict__)
    except BaseException as fault:  # also a sys.exit: loading tools must not end ossia silently
        del sys.modules[module.__name__]
        if isinstance(fault, KeyboardInterrupt):
            raise
        with captured(lambda stream, text: None, module.__name__):
            told = fault_line(fault)
        raise FunctionsInvalid(f"{path}{_line(fault, str(resolved))}: {told}") from fault
    finally:
        with suppress(ValueError):  # the file removed it itself
            sys.path.remove(folder)
    return module, one_line("".join(printed), _MAX_PRINTED_CHARS)


@contextmanager
def refused(where: str) -> Iterator[None]:
    """Within this block, what the user's code raises, even a sys.exit, becomes `FunctionsInvalid`."""
    try:
        yield
    except (FunctionsInvalid, KeyboardInterrupt):
        raise
    except BaseException as fault:
        raise FunctionsInvalid(f"{where}: {fault_line(fault)}") from fault


def public_functions(module: ModuleType, where: str) -> Mapping[str, Callable[..., Any]]:
    """The public functions of a module, by name, in the order of their definition."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        missing = [name for name in listed if not hasattr(module, name)]
        if missing:
            raise FunctionsInvalid(f"{where}: __all__ names {missing[0]!r}, which the file doesn't define")
        return {name: getattr(module, name) for name in listed if is_function(getattr(module, name))}
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and is_function(value) and value.__module__ == module.__name__
    }


def is_function(value: object) -> bool:
    """Is it a function, even in declared wrappers (`functools.wraps`, `lru_cache`)? Not a class or another object."""
    try:
        return callable(value) and not inspect.isclass(value) and inspect.isfunction(inspect.unwrap(value))
    except ValueError:  # wrapped in itself
        return False


def entry_point(group: str, name: str) -> tuple[Mapping[str, Callable[..., Any]], str]:
    """The functions behind an entry point, by name, and the name of the package it comes from."""
    from importlib.metadata import entry_points

    found = entry_points(group=group)
    entry = next((entry for entry in found if entry.name == name), None)
    if entry is None:
        installed = ", ".join(sorted(found.names)) or "none"
        raise FunctionsInvalid(f"no installed package has the {group} entry point {name!r} (installed: {installed})")
    loaded = entry.load()
    distribution = entry.dist.name if entry.dist is not None else name
    where = f"{group} entry point {name!r}"
    if isinstance(loaded, ModuleType):
        return public_functions(loaded, where), distribution
    functions = loaded if isinstance(loaded, list | tuple) else [loaded]
    for function in functions:
        if not is_function(function):
            raise FunctionsInvalid(f"{where}: must be a function, a list of functions or a module, not {function!r}")
    return {function.__name__: function for function in functions}, distribution


def _line(fault: BaseException, filename: str) -> str:
    """`" line 3"`: where in the file it went wrong, if that is known."""
    if isinstance(fault, SyntaxError) and fault.filename == filename:
        return f" line {fault.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == filename]
    return f" line {lines[-1]}" if lines else ""
