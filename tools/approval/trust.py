"""Trusted folders, and the file of all grants for longer than a session.

The file is `trust.json` in the data folder: private, replaced atomically, and never overwritten when it can't be read.
`grants.py` has the rest of it. A folder is trusted as it was when looked at: with it stands a hash of all that would
take effect there (`.ossia/`, `AGENTS.md`, the `SKILL.md` of each skill). Once that content changes, the folder is no
longer trusted. The content is read once, by `look`: what is hashed is what is shown and used.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ossia.errors import OssiaError
from ossia.tools.files import cannot, make_private, read_own, write_whole
from ossia.tools.locks import file_lock
from ossia.tools.safe_files import locate, read_bytes
from ossia.tools.skills import OF_WORKSPACE, read_skills
from ossia.tools.spec import ToolFailed

FILE = "trust.json"
VERSION = 1
FOLDER, NOTES = ".ossia", "AGENTS.md"
MAX_FILES, MAX_BYTES = 1_000, 8 << 20

TrustState = Literal["trusted", "changed", "unknown"]
"""changed: it was trusted, but what would take effect in it has changed since."""


class TrustError(OssiaError):
    """Trust can't be given or stored. The message is one line: why, and what to do."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The content that would take effect in a folder: the bytes of `.ossia/…`, `AGENTS.md` and skills by name, a hash.

    `root` is the folder's real path when it was looked at. `skipped`: raw lines about skills that can't be used.
    """

    root: Path
    files: Mapping[str, bytes]
    digest: str
    skipped: tuple[str, ...] = ()

    def name_of(self, path: Path) -> str | None:
        """The name in `files` of a path as the settings have it; None for one that isn't among them."""
        name = os.path.relpath(os.path.normpath(path), self.root).replace(os.sep, "/")
        return name if name in self.files else None


def look(folder: Path) -> Offer:
    """Read the content that would take effect in a trusted folder; nothing in it is followed, run or parsed.

    Raises TrustError for more than 1,000 files or 8 MiB, for a link or something else that isn't a plain file (its
    content could change unseen), and for what can't be read. An `AGENTS.md` may be a link inside the folder, as may a
    skill; one that can't be used is left out.
    """
    root = folder.resolve()
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    for name in _names(root):
        files[name] = _read(root, name, left)
        left -= len(files[name])
    skills, skipped = read_skills(root, OF_WORKSPACE)
    files |= skills
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        encoded = os.fsencode(name)
        digest.update(b"%d:%s%d:%s" % (len(encoded), encoded, len(content), content))
    return Offer(root, dict(sorted(files.items())), f"sha256:{digest.hexdigest()}", tuple(skipped))


def _names(folder: Path) -> Iterator[str]:
    waiting, count = [NOTES, FOLDER], 0
    while waiting:
        name = waiting.pop()
        try:
            is_folder = stat.S_ISDIR((folder / name).lstat().st_mode)
            entries = [entry.name for entry in (folder / name).iterdir()] if is_folder else []
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TrustError(f"{folder / name} can't be read: {error.strerror}") from error
        if not is_folder:
            yield name
            continue
        count += len(entries)
        if count > MAX_FILES:
            raise TrustError(f"{folder / FOLDER} holds more than {MAX_FILES} files: move out what isn't needed")
        waiting += [f"{name}/{entry}" for entry in entries]


def _read(root: Path, name: str, max_bytes: int) -> bytes:
    path, real = root / name, name
    try:
        if path.is_symlink():
            if name != NOTES:
                raise TrustError(f"{path} is a link, and its target could change unnoticed: replace it with a copy")
            real = locate(root, name).name
        status = (root / real).lstat()
        if not stat.S_ISREG(status.st_mode):
            raise TrustError(f"{path} isn't a regular file: move it out of {FOLDER}")
        if status.st_size > max_bytes:
            raise TrustError(f"{name} and the files beside it exceed {MAX_BYTES >> 20} MiB: move out what isn't needed")
        return read_bytes(root, real, max_bytes=max_bytes).data
    except ToolFailed as error:
        raise TrustError(f"{path} can't be used: {str(error).removeprefix('Error: ')}") from None
    except OSError as error:
        raise TrustError(f"{path} can't be read: {error.strerror}") from error


# -- the file ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Content:
    digests: dict[str, str] = field(default_factory=dict)
    rules: dict[str, list[str]] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)


class TrustFile:
    """`trust.json`, read again for each query."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE

    @property
    def problem(self) -> str:
        """A line for the user on a file that can't be read, so that nothing in it holds; "" when all is well."""
        try:
            self._read()
        except TrustError as error:
            return str(error)
        return ""

    def _read(self) -> _Content:
        """Raises TrustError if it can't be read or is damaged."""
        try:
            text = read_own(self._path).decode()
        except (FileNotFoundError, NotADirectoryError):
            return _Content()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
            raise TrustError(f"{self._path} can't be read ({reason}): {_MOVE}") from error
        try:
            value: Any = json.loads(text)
            if value["version"] != VERSION:
                raise TrustError(f"{self._path} must have version {VERSION}, not {value['version']!r}: {_MOVE}")
            digests, rules = dict(value["folders"]), dict(value["rules"])
            hosts, declined = list(value.get("hosts", ())), list(value.get("declined", ()))
            ruled = (one for listed in rules.values() for one in listed)
            texts = [*hosts, *declined, *digests, *digests.values(), *rules, *ruled]
            if not all(isinstance(text, str) for text in texts) or any(
                isinstance(one, str) for one in (*rules.values(), value.get("hosts"), value.get("declined"))
            ):
                raise TypeError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TrustError(f"{self._path} is damaged: {_MOVE}") from error
        return _Content(digests, rules, hosts, declined)

    def _readable(self) -> _Content:
        """The content; empty if there is a `problem`."""
        try:
            return self._read()
        except TrustError:
            return _Content()

    @contextmanager
    def _change(self) -> Iterator[_Content]:
        """Read the file, let the block change its content, write it back. Raises TrustError, also if it is damaged."""
        try:
            make_private(self._path.parent)
            with file_lock(self._path.with_suffix(".lock")):
                content = self._read()
                yield content
                lists = {"hosts": content.hosts, "declined": content.declined}
                value = {"version": VERSION, "folders": content.digests, "rules": content.rules, **lists}
                write_whole(self._path, json.dumps(value, indent=1, sort_keys=True) + "\n")
        except OSError as error:
            raise TrustError(f"{self._path}: {cannot(error, 'written')}") from error


_MOVE = "it is ignored; move it away to start a new one"


def key_of(folder: Path | None) -> str:
    """The name of a folder in the file; "" for the runs without one."""
    return "" if folder is None else str(folder.resolve())


class TrustStore(TrustFile):
    """The folders that the user trusts.

    store = TrustStore(data_dir)
    store.trust(Path("project"), look(Path("project")))
    store.state(Path("project"))                          # "trusted", until .ossia/, AGENTS.md or a skill change
    """

    def state(self, folder: Path) -> TrustState:
        """The state of this very folder, not of one above it; "unknown" for all if there is a `problem`."""
        return self.content(folder)[0]

    def content(self, folder: Path) -> tuple[TrustState, Offer | None]:
        """The same, with the content that is trusted: nothing else of the folder may take effect."""
        digest = self._readable().digests.get(key_of(folder))
        if digest is None:
            return "unknown", None
        with suppress(TrustError):
            offer = look(folder)
            if offer.digest == digest:
                return "trusted", offer
        return "changed", None

    def trust(self, folder: Path, offer: Offer | None = None) -> None:
        """Trust a folder as it was, and where it was, when `offer` was taken; None: as it is now. Raises TrustError."""
        offer = offer or look(folder)
        with self._change() as content:
            content.digests[str(offer.root)] = offer.digest
            content.declined = [one for one in content.declined if one != str(offer.root)]

    def decline(self, folder: Path) -> None:
        """Never ask about this folder again. Raises TrustError."""
        with self._change() as content:
            content.declined += [key_of(folder)] if key_of(folder) not in content.declined else []

    def asks(self, folder: Path) -> bool:
        """True for a folder neither trusted nor declined yet, if the answer can be stored."""
        with suppress(TrustError):
            content = self._read()
            return key_of(folder) not in (*content.digests, *content.declined)
        return False

    def revoke(self, folder: Path) -> bool:
        """Delete all about a folder: trust, rules, a no. False: there was nothing."""
        with self._change() as content:
            key = key_of(folder)
            had = [content.digests.pop(key, None), content.rules.pop(key, None), key in content.declined or None]
            content.declined = [one for one in content.declined if one != key]
        return had != [None, None, None]

    def folders(self) -> tuple[Path, ...]:
        """The folders that were ever trusted; `state` says whether they still are. Raises TrustError."""
        return tuple(map(Path, sorted(self._read().digests)))

    def declined(self) -> tuple[Path, ...]:
        """The folders declined for good. Raises TrustError."""
        return tuple(map(Path, sorted(self._read().declined)))
