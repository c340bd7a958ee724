"""ossia's files and folders, by the platform's conventions (XDG, macOS's Library, Windows' AppData).

Nothing here makes a folder: whoever writes into one does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ossia.cli.exits import ExitError

TYPE_CHECKING = False  # typing's own would be an import
if TYPE_CHECKING:
    from platformdirs import PlatformDirs

    from ossia.tools.host import Host


def expanded(name: str) -> Path:
    """The path with `~` and `~name` replaced by that home; unchanged without such a home (`~nobody/x`)."""
    try:
        return Path(name).expanduser() if name.startswith("~") else Path(name)  # Path("./~/x") is Path("~/x")
    except RuntimeError:
        return Path(name)


def here() -> Path:
    """The current folder; if it was removed meanwhile, a path with nothing below it."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.devnull)


def all_of(names: Sequence[str]) -> tuple[str, ...]:
    """The absolute paths of what is named from the current folder: `all_of(["data"])` is `("/home/me/data",)`."""
    return tuple(str(here() / name) for name in names)


def is_folder(path: Path) -> bool:
    """Is it a folder? Raises ExitError if the system refuses to say: below somebody else's folder, a name too long."""
    try:
        return path.is_dir()
    except OSError as error:
        raise ExitError(f"{path}: {error.strerror}") from None


_instead: Path | None = None


def use(folder: Path) -> None:
    """Have everything of this process in `folder` from now on: its configuration, data, caches and log."""
    global _instead
    _instead = folder


def _own(place: Callable[[PlatformDirs], Path]) -> Path:
    """Our folder in a place of the platform's. Raises ExitError where the user has no home, and HOME isn't set."""
    if _instead is not None:
        return _instead
    from platformdirs import PlatformDirs  # `ossia --help` does without it

    try:
        return place(PlatformDirs("ossia", appauthor=False))
    except RuntimeError:
        raise ExitError("this user has no home folder: set HOME to a folder of yours") from None


def config_file() -> Path:
    """The settings, e.g. `~/.config/ossia/config.toml`. It need not exist. (`settings.config` reads `OSSIA_CONFIG`.)"""
    return _own(lambda dirs: dirs.user_config_path) / "config.toml"


def data_dir() -> Path:
    """The folder of pulled models, the library, sessions, undo: `~/.local/share/ossia`."""
    return _own(lambda dirs: dirs.user_data_path)


def sessions_file() -> Path:
    """The stored sessions, in a folder of their own, e.g. `~/.local/share/ossia/sessions/sessions.sqlite`."""
    return data_dir() / "sessions" / "sessions.sqlite"


def eval_dir() -> Path:
    """The results of `ossia eval`, e.g. `~/.local/share/ossia/eval`."""
    return data_dir() / "eval"


def eval_sessions_file() -> Path:
    """The sessions of `ossia eval`, apart from the user's own: `--continue` means one of those."""
    return eval_dir() / "sessions.sqlite"


def token_file() -> Path:
    """The token of `ossia serve`, e.g. `~/.local/share/ossia/serve/token`."""
    return data_dir() / "serve" / "token"


def library_file() -> Path:
    """The local library of `ossia docs`, e.g. `~/.local/share/ossia/library.sqlite`."""
    return data_dir() / "library.sqlite"


def history_file() -> Path:
    """The lines typed in chats, e.g. `~/.local/share/ossia/history.jsonl`."""
    return data_dir() / "history.jsonl"


def cache_dir() -> Path:
    """The folder of data that may be deleted, such as fetched pages: `~/.cache/ossia`."""
    return _own(lambda dirs: dirs.user_cache_path)


def log_file() -> Path:
    """The log of llama.cpp, e.g. `~/.local/state/ossia/log/ossia.log`."""
    return _own(lambda dirs: dirs.user_log_path) / "ossia.log"


def host(folder: Path | None = None) -> Host:
    """This machine, by the environment and the platform's habits. Raises ExitError for a user without a home.

    `folder`: have data, caches and the log in it instead.
    """
    import datetime

    from ossia.tools.host import Host

    places = (folder, folder, folder / "ossia.log") if folder else (data_dir(), cache_dir(), log_file())
    return Host(*places, expanded("~"), os.environ, datetime.datetime.now)
