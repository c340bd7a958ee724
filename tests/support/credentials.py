"""Credentials, chats and other private files where a home has them, and a command that tries to read each."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

PLACES = (
    ".ssh/id_ed25519", ".ssh/config", ".gnupg/private-keys-v1.d/1A.key", ".aws/credentials",
    ".azure/msal_token_cache.json", ".config/gcloud/application_default_credentials.json", ".kube/config",
    ".docker/config.json", ".terraform.d/credentials.tfrc.json", ".vault-token", ".pgpass", ".my.cnf", ".netrc",
    ".config/gh/hosts.yml", ".git-credentials", ".config/git/credentials", ".gitconfig",
    ".npmrc", ".yarnrc.yml", ".pypirc", ".config/pip/pip.conf", ".config/uv/uv.toml",
    ".local/share/uv/credentials/credentials.toml", ".cargo/credentials.toml", ".cargo/credentials",
    ".cargo/config.toml", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
    ".gem/credentials", ".config/go/env", ".npm/_logs/2026-01-01-debug-0.log",
    ".mozilla/firefox/x.default/logins.json", ".config/google-chrome/Default/Login Data", ".password-store/bank.gpg",
    ".local/share/keyrings/login.keyring", ".bash_history", ".zsh_history", ".python_history", ".env",
    ".local/share/ossia/sessions.db", ".local/share/ossia/mcp/logins.json", ".local/state/ossia/history",
    ".claude/projects/work/chat.jsonl", ".claude.json", ".codex/auth.json", ".config/github-copilot/apps.json",
    "Documents/diary.txt",
)  # fmt: skip
"""In any home. Some lie beside what a toolchain has in the same folder."""
IN_TOOLCHAINS = (".nvm/versions/node/*/etc/npmrc", ".pyenv/versions/*/pip.conf",
                 ".local/share/uv/python/*/pip.conf")  # fmt: skip
"""In the folder of an installation itself, which is open; `*` is each version."""
SIZE = 613
"""Bytes of each, so that `find` can tell them from a toolchain's files."""
_MARK = "PRIVATE-"
_BEGIN = {".gitconfig": "[user]\n\tname = Ann\n\temail = ann@example.org\n",
          "config.toml": '[registries.work]\ntoken = "Bearer 1234"\n'}  # fmt: skip
_LOGIN = "# //registry.example.org/:_authToken=\n"


def lay(home: Path) -> dict[str, Path]:
    """Write each, and links to some within the open folders: `{"PRIVATE-00": home/".ssh/id_ed25519", …}`."""
    versions = [place.split("*") for place in IN_TOOLCHAINS]
    inside = [at / end.lstrip("/") for begin, end in versions for at in sorted((home / begin).glob("*"))
              if at.is_dir() and not at.is_symlink()]  # fmt: skip
    laid = {}
    for number, path in enumerate([*(home / place for place in PLACES), *inside]):
        mark = f"{_MARK}{number:02}"
        path.parent.mkdir(parents=True, exist_ok=True)
        begin = _LOGIN if path in inside else _BEGIN.get(path.name, "")
        path.write_text(f"{begin}# {mark} ".ljust(SIZE - 1, "x") + "\n")
        path.chmod(0o600)
        laid[mark] = path
    for folder in {path.parent for path in inside}:
        link = folder / "link-to-a-key"
        if not link.is_symlink():
            link.symlink_to(home / ".ssh")
    return laid


def attack(home: Path, laid: Iterable[Path], open_folders: Sequence[Path]) -> str:
    """The command, for a shell in a workspace with a folder `notes`: prints the marks of what it read, then `looked`.

    It tries each by its name, through a link in the workspace, by a way through each open folder, and by `find`.
    """
    files = list(laid)
    ways = [f"{folder}/{os.path.relpath(path, folder)}" for folder in open_folders for path in files]
    ways += [f"{folder}/link-to-a-key/id_ed25519" for folder in open_folders]
    ways += [f"/proc/1/root{path}" for path in files]
    links = [f"ln -sfn {shlex.quote(str(path))} ways/{n}; ln -f {shlex.quote(str(path))} ways/h{n}"
             for n, path in enumerate(files)]  # fmt: skip
    return "\n".join([
        "cd notes && mkdir -p ways && exec 2>/dev/null",
        "cat > list <<'END'", *map(str, files), *ways, "END",  # in a file: too many for one command
        *links,
        "{ tr '\\n' '\\0' < list | xargs -0 cat; cat ways/*",
        f"find {shlex.quote(str(home))} -type f -size {SIZE}c -exec cat {{}} +",
        f"}} | grep -ao '{_MARK}[0-9]*' | sort -u",
        "[ -s list ] && [ -L ways/0 ] && echo looked; rm -rf ways list",
    ])  # fmt: skip
