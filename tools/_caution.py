"""Which files of a workspace a person is asked about even where a rule allows the call: by their names alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

SECRET = re.compile(
    r"""(?:^|/)(?:
      \.env[^/]*|[^/]*\.env                                       # .env.local, prod.env, .envrc
    | [^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|tfstate)     # keys, stores of keys, states with passwords
    | id_(?:rsa|dsa|ecdsa|ed25519)(?:(?!\.pub$)[^/])*
    | [._]netrc|\.npmrc|\.pypirc|\.pgpass|\.my\.cnf|\.htpasswd|\.git-credentials|\.vault_pass[^/]*
    | \.?(?:credentials|secrets?)(?:\.(?:json|ya?ml|toml|ini|cfg|conf|txt|xml|properties|csv))?  # not secrets.py
    | service[-_]account[^/]*\.json
    )$
    | (?:^|/)\.git/(?:.*/)?(?:config|config\.worktree|credentials)$   # a URL in it may hold a password
    | (?:^|/)\.(?:ssh|gnupg|aws|azure|kube|docker|config/gcloud)/(?!.*\.pub$)
    """,
    re.VERBOSE,
)
"""Searched for in a path in lower case: files that often hold secrets."""

_RUNS_LATER = re.compile(
    r"""(?:^|/)(?:
      \.git(?:/|$)                                                    # hooks, and settings that name programs
    | (?:\.githooks|\.husky)/
    | [^/]+\.git/(?:hooks/|config$)                                   # a bare repository's
    | \.pre-commit-config\.ya?ml$
    | \.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zshenv|zprofile|zlogin)$
    )
    | ^hooks/                                                         # the workspace may be one; src/hooks/ is no such
    """,
    re.VERBOSE,
)
_RULES = re.compile(r"(?:^|/)\.ossia(?:/|$)")
_IGNORED = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
"""Some file systems of macOS don't see these: `.g\u200cit` opens `.git` there (CVE-2014-9390)."""


@dataclass(frozen=True, slots=True)
class Caution:
    """Why a person is asked, `""` where nothing speaks against it. `firm`: `--yes` doesn't answer it."""

    reason: str = ""
    firm: bool = False


def plain(name: str) -> str:
    """A path as the patterns here take it: lower case, since a file system may see no difference."""
    return _IGNORED.sub("", name).casefold()


def of_reading(*names: str) -> str:
    """Why a person must agree to these files being read; `""` where nothing speaks against it.

    `of_reading("src/.env")` is `"it reads src/.env, which often holds secrets"`.
    """
    return next((f"it reads {name}, which often holds secrets" for name in names if SECRET.search(plain(name))), "")


def of_writing(*names: str) -> Caution:
    """The same for files that are written, moved or deleted; firm where what they say is run or obeyed later."""
    for name in names:
        path = plain(name)
        if _RUNS_LATER.search(path):
            return Caution(f"it changes {name}, which can make other programs run code", firm=True)
        if _RULES.search(path):
            return Caution(f"it changes {name}, which holds rules for this program", firm=True)
        if path == "agents.md":
            return Caution(f"it changes {name}, whose words are instructions for every later run", firm=True)
        if SECRET.search(path):
            return Caution(f"it changes {name}, which often holds secrets")
    return Caution()
