"""The objects that a command added to a copy of a repository: verified, and brought into the real one.

They go through a repository of our own, with our settings alone: git never works on what the command could write.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ossia.tools.sandbox.git._files import GitRefused, files_below
from ossia.tools.tree import NEW_FILE, open_file, opened_below
from ossia.tools.undo.shadow import Git

_LOOSE = re.compile(r"objects/([0-9a-f]{2})/((?:[0-9a-f]{38}|[0-9a-f]{62}))")
_PACK = re.compile(r"objects/pack/(pack-(?:[0-9a-f]{40}|[0-9a-f]{64}))\.pack")
_MAX_BYTES = 4 << 30
"""The most that is taken from one command: of files, and of what is in them."""
_MAX_PACKS = 200
"""Each takes a git of its own; a fetch brings one."""
_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 120.0


class Objects:
    """The new objects of a `copy`, on their way to the `real` folder. `folder`: for our own repository between them."""

    def __init__(self, copy: Path, real: Path, folder: Path, git: Path, hash_name: str) -> None:
        self._copy, self._real, self._folder, self._hash = copy, real, folder, hash_name
        self._git, self._left = Git(git, folder, hash_name), _MAX_BYTES

    def verify(self, wanted: Iterable[str], known: Iterable[str], shallow: bytes | None) -> None:
        """Take the new objects, and check that all that is `wanted` is there, with all that it leads to.

        `known`: objects that were complete before. Raises `GitRefused`, or `OSError`.
        """
        self.ask("rev-parse", "--git-dir")  # it makes the repository
        (self._folder / "objects" / "info").mkdir(exist_ok=True)
        (self._folder / "objects" / "info" / "alternates").write_bytes(os.fsencode(f"{self._real}/objects\n"))
        if shallow is not None:
            (self._folder / "shallow").write_bytes(shallow)
        new = [name for name in files_below(self._copy, "objects") if not (self._real / name).exists()]
        if len([name for name in new if _PACK.fullmatch(name)]) > _MAX_PACKS:
            raise GitRefused(f"it added more than {_MAX_PACKS} packs")
        for name in new:
            self._take(name)
        if any(_LOOSE.fullmatch(name) for name in files_below(self._folder, "objects")):
            self.ask("fsck", "--no-full", "--no-dangling", "--no-progress")
        tips = [*dict.fromkeys(wanted)]
        lines = [*tips, *(f"^{one}" for one in dict.fromkeys(known))]
        if tips:
            self.ask("rev-list", "--objects", "--quiet", "--stdin", given="".join(f"{line}\n" for line in lines))

    def publish(self) -> None:
        """Add what was taken to the real objects. None is replaced; what is there is whole, also after a crash."""
        names = [name for name in files_below(self._folder, "objects") if not name.startswith("objects/info/")]
        for name in sorted(names, key=lambda name: name.endswith(".idx")):  # a pack counts from its index on
            target = self._real / name
            if not target.exists():
                target.parent.mkdir(exist_ok=True)
                temporary = target.with_name(f"tmp_obj_{secrets.token_hex(4)}")  # git removes such a one, if left
                made = os.fdopen(os.open(temporary, NEW_FILE, 0o444), "wb")
                with (self._folder / name).open("rb") as file, made as to:
                    shutil.copyfileobj(file, to, _CHUNK_BYTES)
                    to.flush()
                    os.fsync(to.fileno())
                temporary.replace(target)

    def move(self, changes: Mapping[str, tuple[str, str]]) -> None:
        """Set references of the real folder, `{"refs/heads/main": (old, new)}`, "" for none, if they are still so."""
        for name in ("refs", "packed-refs"):
            place = self._folder / name
            with suppress(OSError):
                place.rmdir()
            place.symlink_to(self._real / name)
        gone = [f"delete {name}\0{old}\0" for name, (old, new) in changes.items() if not new]
        kept = [f"update {name}\0{new}\0{old or '0' * len(new)}\0" for name, (old, new) in changes.items() if new]
        for commands in (gone, kept):  # `a` must be gone before `a/b` can be
            if commands:
                self.ask("update-ref", "--no-deref", "-z", "--stdin", given="".join(commands), umask=-1)

    def ask(self, *words: str, given: str = "", umask: int = 0o077) -> bytes:
        """The output of a git command in our own repository. Raises `GitRefused`, with git's own words."""
        with self._git.start(*words, umask=umask) as process:
            try:
                output, said = process.communicate(given.encode("utf-8", "surrogateescape"), timeout=_TIMEOUT_S)
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise GitRefused(f"git {words[0]} took longer than {_TIMEOUT_S:g} s") from None
                raise
        if process.returncode:
            lines = [*said.decode(errors="replace").splitlines(), *output.decode(errors="replace").splitlines()]
            shown = next((line for line in lines if not line.startswith("notice:")), "git failed")
            raise GitRefused(f"git {words[0]}: {shown.removeprefix('fatal: ').removeprefix('error: ')}")
        return output

    # -- taking --------------------------------------------------------------------------------------------------------

    def _take(self, name: str) -> None:
        loose, pack = _LOOSE.fullmatch(name), _PACK.fullmatch(name)
        if loose is None and pack is None:
            return
        target = self._folder / name
        target.parent.mkdir(exist_ok=True)
        *above, last = name.split("/")
        with opened_below(self._copy, above) as folder, os.fdopen(open_file(last, folder), "rb") as file, \
                target.open("xb") as into:  # fmt: skip
            check = _Inflated(self._hash) if loose else None
            while chunk := file.read(_CHUNK_BYTES):
                self._spend(len(chunk))
                into.write(chunk)
                if check:
                    for size in check.take(chunk):
                        self._spend(size)
        if check and loose and check.name() != loose[1] + loose[2]:
            raise GitRefused(f"an object isn't what its name says ({loose[1]}{loose[2]})")
        if pack:
            self.ask("index-pack", str(target))  # not `--strict`: an old history that is fetched may have faults

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise GitRefused(f"it added more than {_MAX_BYTES >> 30} GB of objects")


class _Inflated:
    """The content of a loose object, hashed as it comes."""

    def __init__(self, hash_name: str) -> None:
        self._inflate, self._digest = zlib.decompressobj(), hashlib.new(hash_name)

    def take(self, chunk: bytes) -> Iterable[int]:
        """Take a piece of the file; yields the sizes of what was in it."""
        more = not self._inflate.eof
        while more:
            try:
                data = self._inflate.decompress(chunk, _CHUNK_BYTES)
            except zlib.error:
                return
            self._digest.update(data)
            yield len(data)
            chunk = self._inflate.unconsumed_tail
            more = not self._inflate.eof and (bool(chunk) or len(data) == _CHUNK_BYTES)

    def name(self) -> str:
        """The object's name; "" if the file is no whole object."""
        return self._digest.hexdigest() if self._inflate.eof and not self._inflate.unused_data else ""
