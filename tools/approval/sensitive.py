"""Which files of a workspace a person is asked about even where a rule allows the call: by their names alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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
"""Files that often hold secrets; searched for in a lower-case path."""

@dataclass(frozen=True, slots=True)
class Later:
    """Names of one kind. `*` is any part of a name; a folder stands for all in it. `why` completes "NAME, …"."""

    kind: str
    names: tuple[str, ...]
    why: str


_CODE = "which can make other programs run code"
_WORDS = "whose words are instructions for every later run"
LATER = (
    Later("git", (".git", "git~1", "*.git/config", "*.git/hooks", ".gitconfig", ".githooks", ".husky",
                  ".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook.yml", "lefthook.yaml",
                  ".lefthook.yml", ".lefthook.yaml"), _CODE),
    Later("other version control", (".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml"),
          _CODE),
    Later("ossia itself", (".ossia",), "which holds rules for this program"),
    Later("instructions for agents", ("AGENTS.md", "AGENTS.override.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md",
                                      "GEMINI.md", "QWEN.md",
                                      ".cursorrules", ".cursor", ".windsurfrules", ".clinerules",
                                      ".github/copilot-instructions.md", ".github/instructions"), _WORDS),
    Later("other agents", (".claude", ".mcp.json", "mcp.json", ".codex", ".gemini", ".aider.conf.yml", ".opencode",
                           "opencode.json", "opencode.jsonc", ".windsurf", ".roo"), _CODE),
    Later("editors", (".vscode", ".idea", ".devcontainer", ".devcontainer.json", ".zed", ".helix", ".exrc", ".nvimrc",
                      ".nvim.lua", "*.code-workspace"), _CODE),
    Later("package managers", (".cargo/config.toml", ".cargo/config", ".npmrc", ".yarnrc*",
                               ".pnpmfile.cjs"), _CODE),
    Later("Python at its start", ("sitecustomize", "sitecustomize.*", "usercustomize",
                                 "usercustomize.*", "*.pth", ".pdbrc"), _CODE),
    Later("other languages at their start", (".Rprofile", ".Renviron", ".irbrc", ".pryrc", ".iex.exs", ".ghci",
                                             ".ocamlinit", ".octaverc"), _CODE),
    Later("shells and logins", (".envrc", ".envrc.local", ".envrc.private", ".direnv/*.rc", ".bashrc", ".bash_profile",
                                ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
                                ".ssh", "LaunchAgents", "LaunchDaemons"), _CODE),
)  # fmt: skip
"""What runs later or instructs later, by its effect. The table in docs/approvals.md is this one."""
EVERYDAY = ("conftest.py", "pytest.ini", "tox.ini", "noxfile.py", "setup.py", "Makefile", "GNUmakefile", "justfile",
            "package.json", "build.rs", "gradlew")  # fmt: skip
"""These run with the next test or build, which is everyday work: `--yes` answers for them."""


def _pattern(names: Iterable[str], end: str) -> re.Pattern[str]:
    globs = "|".join(re.escape(name.casefold()).replace(r"\*", "[^/]*") for name in names)
    return re.compile(rf"(?:^|/)(?P<name>{globs}){end}")


_EACH_LATER = tuple((later, _pattern(later.names, r"\Z")) for later in LATER)
_LATER = _pattern((name for later in LATER for name in later.names), r"(?:/|\Z)")
_LINKED = _pattern((name.partition("/")[0] for later in LATER for name in later.names if "/" in name), r"\Z")
_EVERYDAY = _pattern(EVERYDAY, r"\Z")
_BARE_SETTINGS = ("config", "config.worktree", "commondir", "hooks")
_BARE = ("head", *_BARE_SETTINGS)
_BARE_PARTS = _pattern(_BARE, r"(?:/|\Z)")
_IGNORED = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
"""Some file systems of macOS ignore these: `.g\u200cit` opens `.git` there (CVE-2014-9390)."""
_AT_THE_END = re.compile(r"(?<=[^/. ])[. ]+(?=/|\Z)")
"""Those of Windows ignore these: `.git.` opens `.git`, even on a Windows disk under Linux."""


@dataclass(frozen=True, slots=True)
class Caution:
    """Why a person is asked; `""` if there is no reason. `firm`: `--yes` doesn't answer it."""

    reason: str = ""
    firm: bool = False


def plain(name: str) -> str:
    """A path normalised for the patterns here: lower case, since a file system may ignore case."""
    return _AT_THE_END.sub("", _IGNORED.sub("", name).casefold())


def of_reading(*names: str) -> str:
    """Why a person must agree before these are read: "it reads src/.env, which often holds secrets"; "": no reason."""
    return next((f"it reads {name}, which often holds secrets" for name in names if SECRET.search(plain(name))), "")


def of_writing(*names: str) -> Caution:
    """The same before they are changed: the first firm reason (it is run or obeyed later), or the first if none is."""
    found = [caution for name in names if (caution := _of_writing(name)).reason]
    return next((caution for caution in found if caution.firm), found[0] if found else Caution())


def _of_writing(name: str) -> Caution:
    if (place := of_later(name)) is not None:
        return Caution(f"it changes {name}, {place.why}", firm=True)
    path = plain(name)
    if SECRET.search(path):
        return Caution(f"it changes {name}, which often holds secrets")
    if _EVERYDAY.search(path):
        return Caution(f"it changes {name}, which runs with the next test or build")
    return Caution()


def must_be_named(name: str) -> bool:
    """Whether a rule that allows this must name it: `**` isn't meant for secrets, nor for what runs later."""
    return of_later(name) is not None or bool(SECRET.search(plain(name)))


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a path that runs or instructs later: `Place("a/.vscode", …)` for `a/.vscode/tasks.json`."""

    path: str
    why: str


def of_later(path: str, *, link: bool = False) -> Place | None:
    """The outermost part of a path that runs or instructs later; None where there is none.

    `link`: the path is a link; `.cargo` may then lead to a folder with a `config.toml`.
    """
    if link and _LINKED.search(plain(path)):
        return Place(path, _CODE)
    name = plain(path)
    found = _LATER.search(name)
    if found is None:
        return None
    depth = name.count("/", 0, found.end("name")) + 1  # the match that begins first gives the outermost part
    outermost = "/".join(name.split("/")[:depth])
    why = next(later.why for later, pattern in _EACH_LATER if pattern.search(outermost))
    return Place("/".join(path.split("/")[:depth]), why)


def of_bare(path: str, exists: Callable[[str], bool]) -> Place | None:
    """The part of a path that git would use, if a `HEAD` lies beside it: that makes the folder a bare repository.

    `of_bare("x/hooks/update", …)` is `Place("x/hooks", …)` if there is an `x/HEAD`.
    """
    if not _BARE_PARTS.search(plain(path)):
        return None
    parts = path.split("/")
    for at, part in enumerate(parts):
        name = plain(part)
        if name == "hooks" or (name in _BARE and at == len(parts) - 1):
            here = "".join(f"{above}/" for above in parts[:at])
            others = _BARE_SETTINGS if name == "head" else ("HEAD",)
            if any(exists(here + other) for other in others):
                return Place(here + part, _CODE)
    return None
