"""What of the machine, and of its workspace, a command doesn't see or only reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tools.sandbox.job import Job

GUARDED = (".git", ".ossia")
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


def private_folders(job: Job) -> list[Path]:
    """Folders outside the workspace that the command finds empty, none below another; as they really lie."""
    wanted = [*map(Path, PRIVATE_FOLDERS), *([job.home] if job.home else []), *job.hidden]
    found = {real for path in wanted if (real := path.resolve()).is_dir() and real != Path("/")}
    return _outermost(path for path in found if not path.is_relative_to(job.folder))


def private_files() -> list[Path]:
    """Files of /etc that the command finds empty."""
    keys = Path("/etc/ssh").glob("ssh_host_*_key") if Path("/etc/ssh").is_dir() else ()
    named = (Path("/etc", name) for name in _PRIVATE_FILES)
    return sorted({path for path in (*named, *keys) if path.is_file() and not path.is_symlink()})


def on_the_way(job: Job) -> list[Path]:
    """The folders between the workspace and what of ossia lies in it, outer ones first."""
    found = {above for path in job.own for above in path.parents if above != job.folder}
    return sorted(above for above in found if above.is_relative_to(job.folder))


def private_in_workspace(job: Job) -> list[Path]:
    """What of the workspace itself the command doesn't see: our own data; secrets where it is the home folder."""
    secrets = [job.folder / name for name in _SECRETS_IN_HOME] if job.home and job.home.resolve() == job.folder else []
    inside = {path.resolve() for path in (*job.hidden, *secrets) if path.exists() and not path.is_symlink()}
    return _outermost(path for path in inside if path.is_relative_to(job.folder) and path != job.folder)


def too_wide(root: Path, home: Path | None) -> str:
    """Why a folder is no workspace for commands; empty if it is one."""
    system = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr",
              "/var", "/home", "/Users", "/System", "/Library")  # fmt: skip
    if str(root) in system or any(root.is_relative_to(top) for top in ("/proc", "/sys", "/dev")):
        return f"{root} belongs to the system"
    if home is not None and home.resolve() != root and home.resolve().is_relative_to(root):
        return f"{root} holds whole home folders"
    return ""


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Those that lie in no other one, sorted."""
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(above) for above in found):
            found.append(path)
    return found
