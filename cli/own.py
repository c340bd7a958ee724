"""This process, kept apart from the workspace: we neither import nor start what a tool call may write there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

import ossia

TYPE_CHECKING = False  # typing's own would be an import
if TYPE_CHECKING:
    from ossia.cli.settings.table import Settings
    from ossia.tools.mcp.config import McpConfig
    from ossia.tools.own import Own

_NEEDED = "llama_cpp"
"""The other packages that we need are where this one is."""
_SITES = ("site-packages", "dist-packages")
_SCRIPTS = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".pl")

_taken: list[str] = []
"""What was taken off `sys.path`, in its order."""


def stand_alone() -> None:
    """Take the folder of our package off `sys.path` if it is a clone: that has other files in it as well.

    Call it before anything but the standard library is imported, so that nothing an earlier run left there is found.
    What is in the package is found by its `__path__`.
    """
    take_off(Path(ossia.__path__[0]).resolve().parent)
    _taken.clear()  # for good: to the user's own modules its `tools` and `cli` must not be there


def take_off(root: Path) -> None:
    """Remove what leads into `root` (resolved) from `sys.path`, except the environment that we run in.

    Entries with packages that we need stay, too (`pip install --target`): they are parts that no call may change.
    """
    inside = [entry for entry in sys.path if _leads_into(root, entry)]
    others = [entry for entry in sys.path if entry not in inside]
    if PathFinder.find_spec(_NEEDED, others) is None:
        inside = [entry for entry in inside if PathFinder.find_spec(_NEEDED, [entry]) is None]
    sys.path[:] = [entry for entry in sys.path if entry not in inside]
    if sys.pycache_prefix and Path(sys.pycache_prefix).resolve().is_relative_to(root):
        sys.pycache_prefix = None  # bytecode is run, too
    _taken.extend(entry for entry in inside if entry not in _taken)


@contextmanager
def as_it_was() -> Iterator[None]:
    """Inside the block, what was removed is back at the end of `sys.path`: the user's packages lie there."""
    back = [entry for entry in _taken if entry not in sys.path]
    sys.path.extend(back)
    try:
        yield
    finally:
        sys.path[:] = [entry for entry in sys.path if entry not in back]


def _leads_into(root: Path, entry: str) -> bool:
    place = Path(entry).resolve()
    if place.name in _SITES or not place.is_relative_to(root):
        return False
    return not any(place.is_relative_to(folder) for prefix in _prefixes() for folder in _libraries(prefix, root))


def _prefixes() -> list[Path]:
    return [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)]


def _libraries(prefix: Path, root: Path) -> list[Path]:
    """Where a Python keeps what it imports and starts: the whole prefix, unless the workspace lies in it or is it."""
    return [prefix / name for name in ("bin", "lib", "lib64", "Lib")] if root.is_relative_to(prefix) else [prefix]


def environment_for(root: Path | None, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment for programs that we start: of the workspace, only our own environment may be on its PATH."""
    if root is None or "PATH" not in environ:
        return environ
    folders = environ["PATH"].split(os.pathsep)
    kept = [folder for folder in folders if Path(folder).is_absolute() and not _leads_into(root, folder)]
    return {**environ, "PATH": os.pathsep.join(kept)}


def own_parts(root: Path, settings: Settings, *, environ: Mapping[str, str], servers: Sequence[McpConfig]) -> Own:
    """The parts of ossia, and of what the settings have it run, that lie in the workspace `root`."""
    from ossia.cli import paths
    from ossia.cli.settings.config import config_path
    from ossia.cli.settings.engines import certificate_files
    from ossia.cli.settings.mcp import mcp_file
    from ossia.tools.own import own_in, parts_of_prefix, parts_of_program, parts_of_this_python
    from ossia.tools.python.environment import interpreter_at

    parts = parts_of_this_python(root)
    if settings.python:
        python = interpreter_at(Path(settings.python))
        parts += [python, *parts_of_prefix(python.parent.parent, root)]
    files = [config_path(environ), mcp_file(environ), *certificate_files(environ)]
    parts += files
    for program in _programs(root, environ, servers):
        parts += parts_of_program(program, root)
    return own_in(root, parts, [*files, paths.data_dir()])


def _programs(root: Path, environ: Mapping[str, str], servers: Sequence[McpConfig]) -> Iterator[Path]:
    """The programs that the user named for us to start, and the scripts among their arguments."""
    import shlex
    import shutil

    path = environment_for(root, environ).get("PATH", "")
    words: list[tuple[Sequence[str], Path]] = []
    for name in ("VISUAL", "EDITOR"):
        try:
            words.append((shlex.split(environ.get(name, "")), Path.cwd()))
        except (OSError, ValueError):
            continue
    for server in (_filled(server, environ) for server in servers):
        words.append(((server.command or "", *server.args), Path(server.cwd or Path.home())))
    for (command, *arguments), folder in (one for one in words if one[0] and one[0][0]):
        found = shutil.which(command, path=path) if os.sep not in command else str(folder / command)
        yield from [Path(found)] if found else []
        yield from (folder / word for word in arguments if word.endswith(_SCRIPTS) and (folder / word).is_file())


def _filled(server: McpConfig, environ: Mapping[str, str]) -> McpConfig:
    """The server with its variables filled in. Where one isn't set, it stays as it is: it won't be started."""
    from ossia.tools.functions.errors import McpConfigInvalid
    from ossia.tools.mcp.config import expanded

    try:
        return expanded(server, environ)
    except McpConfigInvalid:
        return server
