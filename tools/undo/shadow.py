"""The shadow git: a repository of our own that holds the bytes of a workspace's files, and knows what git ignores.

git never sees the workspace. It gets bytes and names by pipes, has our settings alone, and works in a private folder:
no settings, hooks, filters, attributes or links of a workspace can run or change anything.
"""

from __future__ import annotations

import bisect
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from ossia.tools.files import make_private
from ossia.tools.tree import digest_of
from ossia.tools.undo.stored import Bytes, private_file

PROGRAMS: Final = ("/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")
"""The system's folders. PATH may name others, to which a call can write."""
IGNORES: Final = ".gitignore"
_SETTINGS: Final = """\
[core]
	repositoryFormatVersion = 1
	bare = false
	autocrlf = false
	fsmonitor = false
	hooksPath = /dev/null
	excludesFile = /dev/null
	attributesFile = /dev/null
	compression = 1
[extensions]
	objectFormat = {format}
"""
_ATTRIBUTES: Final = "* -text -eol -ident -filter -working-tree-encoding\n"
_CHUNK_BYTES: Final = 1 << 20
_LARGE: Final = "32m"
"""Larger files than this aren't held in memory by git."""
_ALLOC_LIMIT: Final = "1g"
"""The most memory that git takes at once: a pack of 10 MB may say that an object in it has 10 GB."""
_TIMEOUT_S: Final = 120.0
"""To match a name with a pattern can take for ever."""


def find_git(writable: Iterable[Path], folders: Iterable[str] = PROGRAMS) -> Path | None:
    """The machine's git, unless it lies in one of the `writable` folders."""
    closed = [path.resolve() for path in writable]
    for folder in folders:
        program = Path(folder, "git").resolve()
        if os.access(program, os.X_OK) and not any(program.is_relative_to(path) for path in closed):
            return program
    return None


class Git:
    """A repository of our own, and git working on it. Failures are `OSError`s in git's own words."""

    def __init__(self, program: Path, folder: Path, object_format: str) -> None:
        self.program, self.folder, self._format = program, folder, object_format

    def start(self, *arguments: str, tree: Path | None = None, index: Path | None = None,
              umask: int = 0o077) -> subprocess.Popen[bytes]:  # fmt: skip
        """Start one of git's commands, with pipes. `tree`: the folder that it takes for a work tree.

        `umask` -1: this process's own.
        """
        if not (self.folder / "HEAD").exists():
            self._make()
        place = tree or self.folder
        environ = {
            "PATH": os.pathsep.join(PROGRAMS), "LC_ALL": "C", "HOME": str(self.folder), "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(place), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1", "GIT_ALLOC_LIMIT": _ALLOC_LIMIT,
            **({"GIT_INDEX_FILE": str(index)} if index else {}),
        }  # fmt: skip
        pipe = subprocess.PIPE
        return subprocess.Popen([self.program, *arguments], cwd=place, env=environ, stdin=pipe, stdout=pipe,
                                stderr=pipe, umask=umask, start_new_session=True)  # fmt: skip

    def answer(self, *arguments: str, given: bytes = b"", tree: Path | None = None,
               index: Path | None = None) -> bytes:  # fmt: skip
        """Run one of git's commands to its end. An exit status of 1 is an answer, too: nothing was found."""
        with self.start(*arguments, tree=tree, index=index) as process:
            try:
                output, said = process.communicate(given, timeout=_TIMEOUT_S)
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise GitFailed(errno.ETIME, f"git {arguments[0]} took longer than {_TIMEOUT_S:g} s") from None
                raise
        if process.returncode not in (0, 1):
            raise _failed(said)
        return output

    def _make(self) -> None:
        for name in ("objects/pack", "refs", "info"):
            make_private(self.folder / name)
        texts = {"config": _SETTINGS.format(format=self._format), "info/attributes": _ATTRIBUTES,
                 "HEAD": "ref: refs/heads/none\n"}  # fmt: skip
        for name, text in texts.items():
            (self.folder / name).unlink(missing_ok=True)
            with private_file(self.folder / name) as file:
                file.write(text.encode())


class GitFailed(OSError):
    """git didn't do what it should; the message holds its own words."""


def _failed(said: bytes) -> OSError:
    """The error for what git said on stderr."""
    if b"No space left" in said:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    lines = said.decode(errors="replace").splitlines() or ["it ended without a word"]
    return GitFailed(errno.EIO, f"git: {lines[0].removeprefix('fatal: ')}")


class Objects:
    """Files' bytes by their hash (`digest_of`), compressed. They have no names, trees or commits."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._git = Git(program, folder, "sha256")

    def names(self) -> set[str]:
        """The hashes of all that is kept; none if the repository is damaged, which is then made anew."""
        try:
            listed = self._git.answer("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        except OSError:
            shutil.rmtree(self._git.folder, ignore_errors=True)
            return set()
        return set(listed.decode().split())

    @contextmanager
    def saving(self) -> Iterator[Saving]:
        """Save files meanwhile; at the end they are on disk. Raises `OSError`, e.g. for a full disk."""
        saving = Saving(self._git)
        try:
            yield saving
        except BaseException:
            saving.abandon()
            raise
        saving.close()

    def copy(self, digests: Iterable[str], into: Bytes) -> None:
        """Write the bytes with these hashes into another folder; unknown ones are left out."""
        wanted = [digest for digest in dict.fromkeys(digests) if not into.path_of(digest).exists()]
        if not wanted:
            return
        with self._git.start("cat-file", "--batch") as process:
            assert process.stdin and process.stdout
            for digest in wanted:
                process.stdin.write(f"{digest}\n".encode())
                process.stdin.flush()
                _, _, size = process.stdout.readline().rpartition(b" ")
                if size.strip().isdigit():
                    into.write(digest, _pieces(process.stdout, int(size)))
                    process.stdout.read(1)
            process.stdin.close()

    def size_bytes(self) -> int:
        """The room that they take on disk."""
        return sum(path.lstat().st_blocks * 512 for path in (self._git.folder / "objects").rglob("*"))

    def keep_only(self, wanted: Iterable[str]) -> None:
        """Pack these and remove all others."""
        packs = self._git.folder / "objects" / "pack"
        given = "".join(f"{digest}\n" for digest in wanted).encode()
        made = self._git.answer("pack-objects", "-q", "--window=0", str(packs / "pack"), given=given).decode().strip()
        for path in packs.iterdir():
            if not (made and path.name.startswith(f"pack-{made}.")):
                path.unlink()
        for folder in packs.parent.iterdir():
            if folder != packs:
                shutil.rmtree(folder, ignore_errors=True)


def _pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        piece = file.read(min(size, _CHUNK_BYTES))
        if not piece:
            raise _failed(b"it ended early")
        size -= len(piece)
        yield piece


class Saving:
    """A stream of files into the repository. Nothing is started before the first one."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._process: subprocess.Popen[bytes] | None = None

    def save(self, descriptor: int) -> str:
        """Save what a descriptor reads; returns its hash."""
        if self._process is None:
            self._process = self._git.start("fast-import", "--quiet", "--depth=0", f"--big-file-threshold={_LARGE}")
        stream = self._process.stdin
        assert stream is not None
        try:
            return digest_of(descriptor, header=lambda size: stream.write(b"blob\ndata %d\n" % size), copy=stream.write)
        except BrokenPipeError:
            raise _failed(self.abandon()) from None

    def close(self) -> None:
        if self._process is not None:
            _, said = self._process.communicate()
            if self._process.returncode:
                raise _failed(said)

    def abandon(self) -> bytes:
        """End it; returns what git said."""
        if self._process is None:
            return b""
        process, self._process = self._process, None
        process.kill()
        return process.communicate()[1]


class Rules:
    """git's verdict on names, by the `.gitignore` files in `files`: `rules.files[".gitignore"] = b"*.o"`.

    git answers in a folder of its own, with nothing but these files and the folders that are asked about.
    """

    def __init__(self, program: Path, folder: Path) -> None:
        self._git, self._folder = Git(program, folder / "rules", "sha1"), folder
        self.files: dict[str, bytes] = {}
        self._tree: Path | None = None
        self._written: set[str] = set()

    def ignored(self, names: list[str]) -> set[str]:
        """Those of the names that are ignored: `["build/", "a.o"]`, a folder with `/` at its end. Then `forget`."""
        if not names or not self.files:
            return set()
        tree = self._tree = self._tree or Path(tempfile.mkdtemp(prefix="names-", dir=self._folder))
        for path in self.files.keys() - self._written:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(self.files[path])
            self._written.add(path)
        for name in names:
            if name.endswith("/"):
                (tree / name).mkdir(parents=True, exist_ok=True)
        given = b"".join(b"./%s\0" % os.fsencode(name.rstrip("/")) for name in names)
        fields = self._git.answer("check-ignore", "--no-index", "--stdin", "-z", "-v", "-n", tree=tree, given=given)
        answers = fields.split(b"\0")  # of each name: the file with the pattern, its line, the pattern, the name
        return {name for name, source, pattern in zip(names, answers[::4], answers[2::4], strict=False)
                if source and not pattern.startswith(b"!")}  # fmt: skip

    def forget(self) -> None:
        """Remove the folder that git answered in."""
        if self._tree is not None:
            shutil.rmtree(self._tree, ignore_errors=True)
        self._tree, self._written = None, set()

    def tracked(self, index: bytes) -> list[bytes]:
        """The names in git's index of a repository, sorted; none if it can't be read. A tracked file isn't ignored."""
        with tempfile.NamedTemporaryFile(dir=self._folder) as file:
            file.write(index)
            file.flush()
            with suppress(OSError):
                return sorted(self._git.answer("ls-files", "-z", index=Path(file.name)).split(b"\0"))
        return []


def holds(tracked: list[bytes], name: str) -> bool:
    """Is a name, or anything below it, among the sorted ones?"""
    wanted = os.fsencode(name)
    at = bisect.bisect_left(tracked, wanted)
    return at < len(tracked) and (tracked[at] == wanted or (name.endswith("/") and tracked[at].startswith(wanted)))
