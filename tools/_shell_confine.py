"""The values that a shell's confinement and its process exchange, and which folders of the machine it doesn't see."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools._confine import GIB, ConfinementName, Launch, memory_is_held

SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash", "/bin/sh")
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
RULES = ".ossia"
GUARDED = (".git", RULES)
"""What lies at the top of a workspace and is only read: hooks and settings there would run as the user, later."""

PRIVATE_FOLDERS = ("/home", "/root", "/Users", "/tmp", "/run", "/var", "/mnt", "/media", "/lost+found", "/boot", "/efi",
                    "/etc/ssl/private", "/etc/sudoers.d", "/etc/wireguard", "/etc/NetworkManager/system-connections",
                    "/etc/ppp", "/etc/cups", "/etc/docker", "/etc/kubernetes", "/etc/letsencrypt",
                    "/etc/openvpn")  # fmt: skip
"""Empty inside. Most of /etc's are closed to a plain user anyhow; root's own files are open to what root starts."""
_PRIVATE_FILES = ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "security/opasswd", "krb5.keytab", "crypttab",
                  "mysql/debian.cnf")  # fmt: skip
PUBLIC_STATE = ("/var/lib/texmf", "/var/lib/dpkg", "/var/cache/fontconfig", "/var/lib/ghc", "/var/lib/flatpak")
"""Of /var, what programs read."""
_SECRETS_IN_HOME = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".netrc", ".git-credentials",
                    ".pypirc", ".npmrc", ".pgpass", ".password-store", ".mozilla", ".thunderbird", ".cargo/credentials",
                    ".cargo/credentials.toml", ".bash_history", ".zsh_history", ".python_history", ".local/share",
                    ".local/state", ".cache", "Library")  # fmt: skip
"""Where the workspace is the home folder itself."""


@dataclass(frozen=True, slots=True)
class ShellLimits:
    """What one command and all its children may use. Beyond the first two, a watcher ends the command.

    `file_bytes` and `open_files` hold for each process (rlimits), the others for all together. `disk_bytes`: by how
    much the free space of the workspace's disk may shrink meanwhile. `temporary_bytes` is for each of /tmp and the
    home, in memory. There is no limit of address space: node, java and go reserve far more of it than they use.
    `open_files` is what most systems give; 512 processes with so many can't hold more than 2 GB in pipes.
    """

    file_bytes: int = 2 * GIB
    open_files: int = 1024
    memory_bytes: int = 4 * GIB
    processes: int = 512
    disk_bytes: int = 4 * GIB
    temporary_bytes: int = GIB // 2


@dataclass(frozen=True, slots=True)
class ShellJob:
    """One command in one workspace.

    `root` is resolved. `guarded`: paths below it that are only read. `own`: those of ossia itself; no folder on the way
    to them can be moved aside either, so that nothing takes their place. `hidden`: folders of ours and of the user's
    that the command doesn't see, wherever they lie. `home`: the user's home, None if unknown. `scratch`: a folder made
    for this command, where one is needed for its files.
    """

    command: str
    root: Path
    limits: ShellLimits
    scratch: Path
    guarded: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    home: Path | None = None
    search_path: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """What the command is told: nothing of ours or of the user's is in it but the folder's name."""
        folders = [folder for folder in self.search_path.split(os.pathsep) if folder.startswith("/")]
        return {
            "PATH": os.pathsep.join(dict.fromkeys([*folders, *_PATH])),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
            "PWD": str(self.root),
        }


class ShellConfinement(Protocol):
    """A way to run one command in a workspace. `reason`: why it isn't a stronger one."""

    @property
    def name(self) -> ConfinementName: ...
    @property
    def reason(self) -> str: ...
    @property
    def confines(self) -> tuple[str, ...]: ...
    @property
    def gaps(self) -> tuple[str, ...]: ...

    def describe(self) -> str:
        """All of the above, as text."""
        ...

    def launch(self, job: ShellJob) -> Launch:
        """The command for a job. Opens the descriptors that it names."""
        ...


def shell_description(confinement: ShellConfinement) -> str:
    """`shell: NAME`, then what is confined, what isn't, and the reason, as `doctor` shows it."""
    lines = [f"shell: {confinement.name}"]
    lines += [f"  confined: {line}" for line in confinement.confines]
    lines += [f"  not confined: {line}" for line in confinement.gaps]
    return "\n".join([*lines, *([f"  why: {confinement.reason}"] if confinement.reason else [])])


def shell_gaps_on_linux() -> list[str]:
    """What neither bubblewrap nor Landlock holds of a shell command."""
    lines = [
        "files: what it writes in the workspace you may run later: look at it first (Makefile, scripts, hooks of a "
        "repository that it made)",
        "files: a file of the workspace that is a hard link to one outside is both",
        "processor time: only the time limit of a call holds it",
        f"memory: 4 GiB in all {memory_is_held()}",
        "disk space: checked four times a second, 4 GiB in all",
        "a fault of the Linux kernel itself",
    ]
    if os.geteuid() == 0:
        lines.append("processes: as root their number is only checked, four times a second")
    return lines


def shell_program() -> str:
    """bash where there is one, else sh."""
    return next((program for program in SHELLS if Path(program).exists()), "/bin/sh")


def private_folders(job: ShellJob) -> list[Path]:
    """Folders outside the workspace that the command finds empty, none below another; as they really lie."""
    wanted = [*map(Path, PRIVATE_FOLDERS), *([job.home] if job.home else []), *job.hidden]
    found = {real for path in wanted if (real := path.resolve()).is_dir() and real != Path("/")}
    return outermost(path for path in found if not path.is_relative_to(job.root))


def private_files() -> list[Path]:
    """Files of /etc that the command finds empty."""
    keys = Path("/etc/ssh").glob("ssh_host_*_key") if Path("/etc/ssh").is_dir() else ()
    named = (Path("/etc", name) for name in _PRIVATE_FILES)
    return sorted({path for path in (*named, *keys) if path.is_file() and not path.is_symlink()})


def on_the_way(job: ShellJob) -> list[Path]:
    """The folders between the workspace and what of ossia lies in it, outer ones first."""
    found = {above for path in job.own for above in path.parents if above != job.root}
    return sorted(above for above in found if above.is_relative_to(job.root))


def private_in_workspace(job: ShellJob) -> list[Path]:
    """What of the workspace itself the command doesn't see: our own data; secrets where it is the home folder."""
    secrets = [job.root / name for name in _SECRETS_IN_HOME] if job.home and job.home.resolve() == job.root else []
    inside = {path.resolve() for path in (*job.hidden, *secrets) if path.exists() and not path.is_symlink()}
    return outermost(path for path in inside if path.is_relative_to(job.root) and path != job.root)


def too_wide(root: Path, home: Path | None) -> str:
    """Why a folder is no workspace for commands; empty if it is one."""
    system = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr",
              "/var", "/home", "/Users", "/System", "/Library")  # fmt: skip
    if str(root) in system or any(root.is_relative_to(top) for top in ("/proc", "/sys", "/dev")):
        return f"{root} belongs to the system"
    if home is not None and home.resolve() != root and home.resolve().is_relative_to(root):
        return f"{root} holds whole home folders"
    return ""


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Those that lie in no other one, sorted."""
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(above) for above in found):
            found.append(path)
    return found
