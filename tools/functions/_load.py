"""Loading the user's code: a file, or an entry point of an installed package."""

from __future__ import annotations

import builtins
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ossia.tools.functions import FunctionsInvalid
from ossia.tools.functions._capture import captured
from ossia.tools.functions._inspect import fault_line
from ossia.tools.text import one_line

_MAX_PRINTED_CHARS = 200


def run_file(path: Path, files: Mapping[str, bytes] | None = None) -> tuple[ModuleType, str]:
    """The module of a file, run once, and its output as one short line.

    Its folder is importable only while the file runs: our own later imports must not find anything there. `files`:
    bytes by absolute path, instead of the disk's present ones. Raises `FunctionsInvalid`.
    """
    try:
        source = path.read_bytes() if files is None else files[str(path)]
        resolved = path if files is not None else path.resolve()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise FunctionsInvalid(f"{path}: can't be read: {reason}") from None
    module = ModuleType(f"ossia_functions_{resolved.stem}_{len(source):x}{abs(hash(resolved)):x}")
    module.__file__ = str(resolved)
    module.__dict__["__builtins__"] = builtins
    sys.modules[module.__name__] = module  # dataclasses, typing and pickle look the module up by its name
    printed: list[str] = []
    try:
        with (
            _importable(resolved.parent, files),
            captured(lambda stream, text: printed.append(text), module.__name__),
        ):
            exec(compile(source, str(resolved), "exec", dont_inherit=True), module.__dict__)
    except BaseException as fault:  # also a sys.exit: loading tools must not end ossia silently
        del sys.modules[module.__name__]
        if isinstance(fault, KeyboardInterrupt):
            raise
        with captured(lambda stream, text: None, module.__name__):
            said = fault_line(fault)
        raise FunctionsInvalid(f"{path}{_line(fault, str(resolved))}: {said}") from fault
    return module, one_line("".join(printed), _MAX_PRINTED_CHARS)


@contextmanager
def _importable(folder: Path, files: Mapping[str, bytes] | None) -> Iterator[None]:
    """Within the block, modules are found in the folder first: on the disk, or in `files` alone."""
    if files is None:
        sys.path.insert(0, str(folder))
        try:
            yield
        finally:
            with suppress(ValueError):  # the file removed it itself
                sys.path.remove(str(folder))
        return
    for name, module in list(sys.modules.items()):  # of files that were given before, and are others now
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        if isinstance(loader, _Given) and loader.files != files:
            del sys.modules[name]
    given = _Given(folder, files)
    sys.meta_path.insert(0, given)
    try:
        yield
    finally:
        given.found_at_top = False  # parts of its packages may be imported later


class _Given(SourceLoader):
    """Finds and loads a folder's modules from bytes read before: neither its present files, nor bytecode."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self._folder, self.files = folder, files
        self._places: dict[str, str] = {}
        self.found_at_top = True

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent = name.rpartition(".")[0]
        if parent and parent not in self._places:
            return None
        is_here = self._is_on_disk(name, path)
        if not (parent or self.found_at_top or is_here):
            return None
        place = str(self._folder.joinpath(*name.split(".")))
        package = place + os.sep + "__init__.py"
        if package not in self.files and any(file.startswith(place + os.sep) for file in self.files):
            self._places[name] = ""  # a folder without an __init__.py
            return spec_from_file_location(name, package, loader=self, submodule_search_locations=[])
        for file, within in ((package, []), (place + ".py", None)):
            if file in self.files:
                self._places[name] = file
                return spec_from_file_location(name, file, loader=self, submodule_search_locations=within)
        if is_here:
            raise ModuleNotFoundError(f"{name} isn't a source among the files that you trusted", name=name)
        return None

    def _is_on_disk(self, name: str, path: Sequence[str] | None) -> bool:
        """True if Python would find it in the folder: a function may put that on `sys.path` at any time."""
        spec = PathFinder.find_spec(name, path)
        found = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
        return any(one and Path(os.path.realpath(one)).is_relative_to(self._folder) for one in found)

    def get_filename(self, fullname: str) -> str:
        return self._places[fullname]

    def get_data(self, path: str | bytes) -> bytes:
        if path == "":
            return b""
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[str(path)]


@contextmanager
def refused(where: str) -> Iterator[None]:
    """Within this block, any exception of the user's code, even SystemExit, becomes `FunctionsInvalid`."""
    try:
        yield
    except (FunctionsInvalid, KeyboardInterrupt):
        raise
    except BaseException as fault:
        raise FunctionsInvalid(f"{where}: {fault_line(fault)}") from fault


def chosen(
    functions: Mapping[str, Callable[..., Any]], names: Sequence[str], where: str
) -> Mapping[str, Callable[..., Any]]:
    """The functions of these names, all for none. Raises `FunctionsInvalid` for an unknown name."""
    missing = [name for name in names if name not in functions]
    if missing:
        raise FunctionsInvalid(f"{where}: has no function {missing[0]!r}, only {', '.join(functions)}")
    return {name: functions[name] for name in names} if names else functions


def place_of(function: Callable[..., Any], where: str) -> str:
    """`"weather.py line 3"`; for a function from another file than `where`, with its name, too. `where` "": unknown."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return where
    file = Path(code.co_filename).name
    return f"{file if where in ('', file) else f'{where}: {file}'} line {code.co_firstlineno}"


def public_functions(module: ModuleType, where: str) -> Mapping[str, Callable[..., Any]]:
    """The public functions of a module, by name, in the order of their definition."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        missing = [name for name in listed if not hasattr(module, name)]
        if missing:
            names = ", ".join(map(repr, missing))
            raise FunctionsInvalid(f"{where}: __all__ names {names}, which the file doesn't define")
        return {name: getattr(module, name) for name in listed if is_function(getattr(module, name))}
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and is_function(value) and value.__module__ == module.__name__
    }


def is_function(value: object) -> bool:
    """True for a function or an object's method, even in declared wrappers (`functools.wraps`, `lru_cache`)."""
    try:
        plain = inspect.unwrap(value) if callable(value) and not inspect.isclass(value) else None
        return inspect.isfunction(plain) or inspect.ismethod(plain)
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
