"""A job: a kernel or one command, to be run confined; what it may see, change and use, and how it is started."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ossia.tools.sandbox._interpreter import Interpreter

Runs = Literal["python", "shell"]
DATA_PATH = "/mnt/data"
"""The place of its files in the model's trained prompt."""
MIB = 1 << 20
GIB = 1 << 30
NO_LIMIT = 1 << 63
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash", "/bin/sh")
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_KERNELS_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a kernel or a command, children included. `NO_LIMIT`: not limited.

    `file_bytes`, `open_files` and `address_space_bytes` hold for each process (rlimits), the others for all together: a
    watcher ends a job that exceeds those. `available_bytes` of memory, or 5 % of all if that is more, stay available on
    the machine. A kernel's folders hold `data_bytes` and `data_files`, and leave `free_bytes` on their disk. A command
    takes `disk_bytes` of its disk, adds `new_names`, and has `temporary_bytes` of memory in each of /tmp and its home.
    """

    memory_bytes: int
    processes: int
    file_bytes: int
    open_files: int
    available_bytes: int = 512 * MIB
    address_space_bytes: int = NO_LIMIT
    data_bytes: int = NO_LIMIT
    data_files: int = NO_LIMIT
    free_bytes: int = 0
    disk_bytes: int = NO_LIMIT
    new_names: int = NO_LIMIT
    temporary_bytes: int = 0

    def rlimits(self, *names: str) -> dict[str, int]:
        """The named limits per process, as far as there are any, e.g. `{"FSIZE": 268435456, "CORE": 0}`."""
        bounds = {"AS": self.address_space_bytes, "FSIZE": self.file_bytes, "NOFILE": self.open_files, "CORE": 0}
        return {name: bounds[name] for name in names if bounds[name] != NO_LIMIT}


PYTHON_LIMITS = Limits(
    memory_bytes=4 * GIB,
    processes=256,
    file_bytes=256 * MIB,
    open_files=512,
    address_space_bytes=4 * GIB,
    data_bytes=2 * GIB,
    data_files=100_000,
    free_bytes=GIB,
)
SHELL_LIMITS = Limits(
    memory_bytes=4 * GIB,
    processes=512,
    file_bytes=2 * GIB,
    open_files=1024,
    disk_bytes=4 * GIB,
    new_names=100_000,
    temporary_bytes=GIB // 2,
)
"""No limit on address space: node, java and go reserve far more of it than they use. `open_files` is most systems'
default; 512 processes with that many can't hold more than 2 GB in pipes. An installation of 60,000 files is common."""

_CACHES = {"UV_CACHE_DIR": "{}/uv", "PIP_CACHE_DIR": "{}/pip", "npm_config_cache": "{}/npm",
           "GRADLE_USER_HOME": "{}/gradle"}  # fmt: skip
_DOWNLOADS = {"CARGO_HOME": "{}/cargo", "GOMODCACHE": "{}/go", "MAVEN_OPTS": "-Dmaven.repo.local={}/maven"}
"""Read as they are while nothing can be fetched; a fetch fails where it can't store."""
_IN_FOLDER = 'cd -- "$1" && shift && exec "$@"'


@dataclass(frozen=True, slots=True)
class Repository:
    """The visible part of a git folder outside of the workspace (`repository.py` finds it).

    `folder`: all of it. `entries` are shown as they are. `settings`: the text of each file of settings, without those
    named in `left_out`.
    """

    folder: Path
    entries: tuple[Path, ...]
    settings: dict[Path, str]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file outside of the workspace that commands may read: `Place(Path("/home/me/.rustup"), "cargo")`.

    `path` is absolute and may be a link; what it leads to is a place, too. `why`: what it is for, or what named it, in
    words for people. `cache`: tools write to it; where the confinement can, into a layer that ends with the command.
    """

    path: Path
    why: str
    cache: bool = False


@dataclass(frozen=True, slots=True)
class Toolchains:
    """The toolchains that lie in the user's home, as commands see them: read-only, and nothing else of the home.

    `closed`: files and folders below the places that stay unreadable, credentials mostly. `variables` is what programs
    need to find them: `{"RUSTUP_HOME": "/home/me/.rustup"}`. `git_settings`: the text of a `.gitconfig` with the user's
    name and a few harmless settings. `summary`: `"python 3.11 (.venv), node 20, cargo 1.95"`, for the model; "" for
    none. `refused`: what was named and isn't shown, and why, in words for people.
    """

    places: tuple[Place, ...] = ()
    closed: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    git_settings: str = ""
    summary: str = ""
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenGit:
    """A copy of a git folder that a command may change (`git/copy.py` makes it and takes it over).

    `copy`: the writable folder. `place`: the real one. The copy takes its older objects from `objects`, the real ones.
    `mounted`: the copy is to be seen at `place`, with `read_only` folders of the real one in it; else git is a program
    in `copy/programs`, which finds it.
    """

    copy: Path
    place: Path
    objects: Path
    mounted: bool
    read_only: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One life of a kernel, where there is an `interpreter`, or one command: for a shell, or a program's `words`.

    `folder`, a resolved path, is the workspace, or holds a kernel's data, which outlive it. `scratch`: a private folder
    made for this job. A kernel sees the system's programs, its Python and these folders; a command sees the whole
    machine except for what is private (`private.py`). `describe`: the kernel's Python prints what it is, and ends. For
    a command: it begins in `start_in` (None: the folder), and `read_only` it changes nothing. `guarded` paths below the
    folder are read-only, as are `own`, the parts of ossia itself; their folders can't be moved. `hidden` folders, ours
    and the user's, are invisible. `home` is the user's, None if unknown; `repository` is readable, where the folder
    doesn't hold its own; so are `toolchains`. `network`: it may use TCP, UDP and DNS; Unix sockets stay closed. `git`:
    the copy of the git folder that it may change.
    """

    folder: Path
    scratch: Path
    limits: Limits
    interpreter: Interpreter | None = None
    describe: bool = False
    command: str = ""
    words: tuple[str, ...] = ()
    start_in: Path | None = None
    read_only: bool = False
    guarded: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    home: Path | None = None
    search_path: str = ""
    repository: Repository | None = None
    toolchains: Toolchains = Toolchains()
    network: bool = False
    git: GivenGit | None = None

    @property
    def fixed(self) -> Path:
        """Read and never written by the job: launcher, settings, a kernel's connection file."""
        return self.scratch / "fixed"

    @property
    def sockets(self) -> Path:
        """The folder for a kernel's sockets."""
        return self.scratch / "s"

    @property
    def temporary(self) -> Path:
        """For temporary files if there is no /tmp of its own."""
        return self.scratch / "tmp"

    @property
    def writable(self) -> tuple[Path, ...]:
        """Its writable folders in `scratch`."""
        git = (self.git.copy,) if self.git else ()
        return (self.sockets, self.temporary) if self.interpreter else (self.temporary, *git)

    @property
    def connection(self) -> Path:
        """The connection file: where a kernel binds."""
        return self.fixed / "kernel.json"

    @property
    def program(self) -> tuple[str, ...]:
        """The command as words: for a shell (bash where there is one, else sh), or of a program, found by PATH."""
        words = self.words or (next((name for name in _SHELLS if Path(name).exists()), "/bin/sh"), "-c", self.command)
        folder = str(self.start_in or self.folder)
        return ("/bin/sh", "-c", _IN_FOLDER, "sh", folder, *words) if self.words or self.start_in else words

    def search_folders(self) -> list[Path | str]:
        """The folders with programs, before the confinement leaves out those invisible to the job."""
        if self.interpreter:
            return [self.interpreter.executable.parent, *_KERNELS_PATH]
        git = [self.git.copy / "programs"] if self.git and not self.git.mounted else []
        return [*git, *self.search_path.split(os.pathsep), *SYSTEM_PATH]

    def environment(
        self, home: Path | str, temporary: Path | str, folders: Sequence[Path], *, own_caches: bool = False
    ) -> dict[str, str]:
        """The job's whole environment: of ours and the user's, only names of folders.

        `folders`: those of `search_folders` that it sees. `own_caches`: tools that can't do with a cache that is only
        readable get an empty one; with network all do.
        """
        path = os.pathsep.join(map(str, folders))
        places = {"LANG": "C.UTF-8", "HOME": str(home), "TMPDIR": str(temporary), "PATH": path}
        if self.interpreter:
            return {
                **places,
                "MALLOC_ARENA_MAX": "2",  # an arena for each thread would take 64 MiB of the limited address space
                "IPYTHONDIR": f"{temporary}/.ipython",
            }
        caches = {**_CACHES, **(_DOWNLOADS if self.network else {})}
        if not own_caches or not any(place.cache for place in self.toolchains.places):
            caches = {}
        return {
            **self.toolchains.variables,
            **{name: value.format(f"{temporary}/.caches") for name, value in caches.items()},
            **places,
            "TERM": "dumb",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
            "npm_config_yes": "true",  # else `npm init` waits for ever
            **({} if self.network else {"npm_config_fetch_retries": "0"}),  # else it fails only after 70 s
            # where the workspace is mounted another filesystem begins, and git would look no further up
            **({"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"} if self.repository else {}),
            "PWD": str(self.folder),
        }


@dataclass(frozen=True, slots=True)
class Launch:
    """The start of a job: the command, its whole environment, descriptors to hand down (closed by the caller after).

    `lifeline`: the first process ends everything when its stdin closes. A command's stdin is a socket, which gets the
    `/proc/PID/stat` of all that it left running. `group`: a control group made for it, and removed after it.
    """

    command: tuple[str, ...]
    env: dict[str, str]
    fds: tuple[int, ...] = ()
    lifeline: bool = False
    group: Path | None = None


def pipe_with(data: bytes) -> int:
    """The reading end of a pipe with `data` in it (small enough for its buffer), then its end."""
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading
