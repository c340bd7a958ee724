"""The files of a folder that are documents. Only `.gitignore` is opened; no link is followed.

Patterns are applied without git (pathspec 1.1 lets `!/a` undo `*.log` for `a/x.log`, git doesn't). Not covered:
`.git/info/exclude`, the user's global excludes, and tracked files that a pattern names.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ossia.tools.approval import sensitive
from ossia.tools.text import BROKEN
from ossia.tools.tree import open_file

MAX_FILES: Final = 200_000
"""The most files of one root."""
SECRET: Final = "may hold secrets"
_TOOLS: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "__MACOSX", "CVS"})
_GENERATED: Final = (".min.js", ".min.css", ".map", "-lock.json", ".lock", ".pyc", ".pyo", "~")
_NOT_TEXT: Final = re.compile(
    r".*\.(7z|a|apk|bin|bz2|class|dat|db|deb|dll|dmg|dylib|exe|gguf|gz|h5|iso|jar|lib|mo|msi|npy|npz|o|parquet|pickle|pkl"
    r"|pt|pyd|rar|rpm|safetensors|so|sqlite3?|tar|tgz|wasm|whl|xz|zip|zst|eot|otf|ttf|woff2?"
    r"|doc|docx|epub|odp|ods|odt|ppt|pptx|xls|xlsx|bmp|gif|heic|ico|jpe?g|png|psd|svgz?|tiff?|webp"
    r"|avi|flac|flv|mkv|mov|mp[34]|mpe?g|ogg|wav|webm|wmv)",
    re.IGNORECASE,
)
_BROKEN: Final = re.compile(f"[{BROKEN}]")
_IGNORES: Final = ".gitignore"
_MAX_PATTERNS: Final = 2_000  # of one file
_PIECE: Final = re.compile(r"/\*\*/|^\*\*/|/\*\*$|\*+|\?|\\.|\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILD: Final = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class File:
    """A possible document: `File("/home/me/notes/a/b.md", "a/b.md", 1200, 1_700_000_000_000_000_000)`."""

    path: str
    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file excluded by a rule: `Skipped("/home/me/notes/.env", "may hold secrets")`. A folder ends in `/`."""

    origin: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An unreadable file; its stored document stays. `reason` is one line of plain text."""

    origin: str
    reason: str


def walk(root: Path, *, apart: Mapping[str, str]) -> Iterator[File | Skipped | Failed]:
    """The files below a folder, or the one file whatever its name, in the order of their names.

    `apart`: places to skip, with the reason: other roots, and places that the user took out.
    """
    try:
        status = root.lstat()
    except OSError as error:
        yield Failed(str(root), _reason(error))
        return
    if not stat.S_ISDIR(status.st_mode):
        plain = stat.S_ISREG(status.st_mode)
        yield File(str(root), root.name, status.st_size, status.st_mtime_ns) if plain else _special(str(root), status)
        return
    found = 0
    for item in _folder(str(root), apart):
        found += isinstance(item, File)
        if found > MAX_FILES:
            yield Failed(str(root), f"more than {MAX_FILES:,} files: the rest is skipped; add smaller folders")
            return
        yield item


def _folder(root: str, apart: Mapping[str, str]) -> Iterator[File | Skipped | Failed]:
    pending = [("", Ignores())]
    while pending:
        folder, ignores = pending.pop()
        place = f"{root.rstrip('/')}/{folder}" if folder else root
        try:
            with os.scandir(place) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield Failed(place, _reason(error))
            continue
        if any(entry.name == _IGNORES for entry in listed):
            ignores = ignores.within(folder, _read_ignores(f"{place}/{_IGNORES}"))
        folders = []
        for entry in listed:
            name = f"{folder}/{entry.name}" if folder else entry.name
            item = _judged(entry, name, ignores, apart)
            if item is None:
                folders.append((name, ignores))
            else:
                yield item
        pending += reversed(folders)


def _judged(
    entry: os.DirEntry[str], name: str, ignores: Ignores, apart: Mapping[str, str]
) -> File | Skipped | Failed | None:
    """None: a folder to go into."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return Failed(entry.path, _reason(error))
    folder = stat.S_ISDIR(status.st_mode)
    if not folder and not stat.S_ISREG(status.st_mode):
        return _special(entry.path, status)
    reason = _why_not(entry, name, folder, ignores, apart)
    if reason:
        return Skipped(entry.path + "/" * folder, reason)
    return None if folder else File(entry.path, name, status.st_size, status.st_mtime_ns)


def _why_not(entry: os.DirEntry[str], name: str, folder: bool, ignores: Ignores, apart: Mapping[str, str]) -> str:
    if _BROKEN.search(entry.name):  # what os.fsdecode makes of bytes that aren't UTF-8
        return "not UTF-8 in its name"
    if entry.path in apart:
        return apart[entry.path]
    if not folder and sensitive.of_reading(entry.path.replace(os.sep, "/")):
        return SECRET
    if entry.name.startswith("."):
        return "hidden"
    if folder:
        if entry.name in _TOOLS or _has(entry, "pyvenv.cfg"):
            return "generated"
    elif entry.name.lower().endswith(_GENERATED):
        return "generated"
    elif _NOT_TEXT.fullmatch(entry.name):
        return "binary"
    return "in .gitignore" if ignores.ignored(name, folder=folder) else ""


def _has(folder: os.DirEntry[str], name: str) -> bool:
    try:
        return Path(folder.path, name).exists()
    except OSError:  # it can't be read, which is reported when its turn comes
        return False


def _special(path: str, status: os.stat_result) -> Skipped:
    return Skipped(path, "symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file")


def _read_ignores(path: str) -> str:
    """The text of a `.gitignore`; "" if it is a link or a FIFO, or can't be read."""
    try:
        return read_plain(path, max_bytes=1 << 18).decode("utf-8", "replace")
    except OSError:
        return ""


def read_plain(path: str, *, max_bytes: int) -> bytes:
    """The first bytes of a plain file. Raises `OSError`, also for a link, a FIFO or a device."""
    with os.fdopen(open_file(path), "rb") as file:
        return file.read(max_bytes)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


# -- .gitignore --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: re.Pattern[str]
    keeps: bool  # `!pattern`
    folders: bool  # `pattern/`


@dataclass(frozen=True, slots=True)
class Ignores:
    """The patterns that apply in a folder: from its own `.gitignore` and those of the folders above it.

    Ignores().within("", "*.log\\nbuild/").ignored("a/x.log", folder=False) → True. Paths are relative to where the walk
    began, with `/`.
    """

    _patterns: tuple[_Pattern, ...] = ()

    def within(self, folder: str, text: str) -> Ignores:
        """These patterns, and those of `text`, the `.gitignore` of `folder` ("" is where the walk began)."""
        lines = text.splitlines()[:_MAX_PATTERNS]
        return Ignores(self._patterns + tuple(found for line in lines if (found := _pattern(folder, line))))

    def ignored(self, path: str, *, folder: bool) -> bool:
        """True if the last matching pattern excludes it."""
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders) and pattern.regex.fullmatch(path):
                return not pattern.keeps
        return False


def _pattern(folder: str, line: str) -> _Pattern | None:
    line = re.sub(r"(?<!\\)\s+$", "", line)
    if not line or line.startswith("#"):
        return None
    keeps, folders = line.startswith("!"), line.endswith("/")
    line = line.removeprefix("!").rstrip("/")
    if not line or "[" in _PIECE.findall(line):  # as in git, an unclosed set matches nothing
        return None
    prefix = re.escape(folder + "/") if folder else ""
    anywhere = "" if "/" in line else "(?:.*/)?"
    translated = "".join(_piece(match[0]) for match in _PIECE.finditer(line.removeprefix("/")))
    try:
        regex = re.compile(prefix + anywhere + translated, re.DOTALL)
    except re.error:  # a set like [z-a]
        return None
    return _Pattern(regex, keeps, folders)


def _piece(piece: str) -> str:
    if piece in _WILD:
        return _WILD[piece]
    if piece.startswith("*"):
        return "[^/]*"
    if piece.startswith("[") and len(piece) > 2:
        inner = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[{'^' + inner[1:] if inner.startswith('!') else inner}]"
    return re.escape(piece[1:] if len(piece) == 2 and piece[0] == "\\" else piece)
