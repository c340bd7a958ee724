"""What a command doesn't see, or may only read, of the machine and of its workspace."""

from __future__ import annotations

from pathlib import Path

from ossia.tools.own import outermost
from ossia.tools.sandbox._search_path import Sees, under
from ossia.tools.sandbox.job import Job

GUARDED = (".git", ".ossia")
"""At the top of a workspace these are read-only: hooks and settings in them would run later, as the user."""
PRIVATE_FOLDERS = ("/home", "/root", "/Users", "/tmp", "/run", "/var", "/mnt", "/media", "/lost+found", "/boot", "/efi",
                    "/etc/ssl/private", "/etc/sudoers.d", "/etc/wireguard", "/etc/NetworkManager/system-connections",
                    "/etc/ppp", "/etc/cups", "/etc/docker", "/etc/kubernetes", "/etc/letsencrypt",
                    "/etc/openvpn")  # fmt: skip
"""Empty inside. A plain user can't read most of those in /etc anyway, but what root starts can."""
_PRIVATE_FILES = ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "security/opasswd", "krb5.keytab", "crypttab",
                  "mysql/debian.cnf")  # fmt: skip
PUBLIC_STATE = ("/var/lib/texmf", "/var/lib/dpkg", "/var/cache/fontconfig", "/var/lib/ghc", "/var/lib/flatpak")
"""What stays visible of /var: programs read it."""
_SECRETS_IN_HOME = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".netrc", ".git-credentials",
                    ".pypirc", ".npmrc", ".pgpass", ".password-store", ".mozilla", ".thunderbird", ".cargo/credentials",
                    ".cargo/credentials.toml", ".bash_history", ".zsh_history", ".python_history", ".local/share",
                    ".local/state", ".cache", "Library")  # fmt: skip
"""Hidden if the workspace is the home folder itself."""


def private_folders(job: Job) -> list[Path]:
    """Folders outside the workspace that the command finds empty: real paths, none below another."""
    wanted = [*map(Path, PRIVATE_FOLDERS), *([job.home] if job.home else []), *job.hidden]
    found = {real for path in wanted if (real := path.resolve()).is_dir() and real != Path("/")}
    return outermost(path for path in found if not path.is_relative_to(job.folder))


def command_sees(job: Job) -> Sees:
    """What a command sees of the machine where all but what is private is shown: by real path."""
    hidden, unseen = under(private_folders(job)), under(private_in_workspace(job))
    workspace, public = under([job.folder]), under(PUBLIC_STATE)
    return lambda path: not unseen(path) if workspace(path) else public(path) or not hidden(path)


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
    """What the command doesn't see of the workspace itself: our own data; secrets, if it is the home folder."""
    secrets = [job.folder / name for name in _SECRETS_IN_HOME] if job.home and job.home.resolve() == job.folder else []
    inside = {path.resolve() for path in (*job.hidden, *secrets) if path.exists() and not path.is_symlink()}
    return outermost(path for path in inside if path.is_relative_to(job.folder) and path != job.folder)


def too_wide(root: Path, home: Path | None) -> str:
    """Why a folder can't be a workspace for commands; empty if it can."""
    system = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr",
              "/var", "/home", "/Users", "/System", "/Library")  # fmt: skip
    if str(root) in system or any(root.is_relative_to(top) for top in ("/proc", "/sys", "/dev")):
        return f"{root} belongs to the system"
    if home is not None and home.resolve() != root and home.resolve().is_relative_to(root):
        return f"{root} holds whole home folders"
    return ""
