"""A command's needs beyond the confinement: network, git's own folder, all of the user's rights.

A table says which commands plainly need what, so that it is asked before they run. A rule may give a need, but only to
a simple command whose words it names: `uv *` covers `uv sync`, never `uv run`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ossia.tools.approval.shell_words import command_allowed, commands_in, pattern_words, split, words_of

if TYPE_CHECKING:
    from ossia.tools.spec import Need

NOTHING: Final[frozenset[Need]] = frozenset()
NEEDS: Final[tuple[Need, ...]] = ("network", "git", "unconfined")
_WHY: Final[Mapping[Need, str]] = {
    "network": "it needs network: private text could leave, and this machine's own services are reachable",
    "git": "it needs git's own folder: .git may be changed, but for its hooks and settings",
    "unconfined": "it needs to run unconfined: it can do everything you can",
}
_NAMED: Final[Mapping[Need, str]] = {
    "network": "network",
    "git": "a writable .git",
    "unconfined": "all of the user's rights",
}

_LISTS = {"-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"}
_LISTING: Final[Mapping[str, set[str]]] = {"tag": _LISTS | {"-n"}, "branch": _LISTS | {"-a", "-r", "-v", "-vv"}}
_OFFLINE, _ONLY_SAYS = frozenset({"--offline", "--no-index"}), frozenset({"--help", "--version"})

_TABLE: Final[tuple[tuple[str, Mapping[str, str]], ...]] = (
    ("git", {
        "reads": "status log diff show blame grep ls-files ls-tree rev-parse rev-list describe cat-file shortlog "
        "remote merge-base for-each-ref show-ref check-ignore diff-tree diff-files diff-index range-diff reflog "
        "count-objects stash/list stash/show worktree/list submodule/status",
        "git": "add am branch checkout cherry-pick commit gc merge mv notes pack-refs reset restore revert rm stash "
        "switch tag update-index update-ref write-tree bisect/start bisect/good bisect/bad bisect/reset worktree/add "
        "worktree/remove worktree/prune",
        "network": "ls-remote remote/show",
        "both": "fetch pull push submodule/update submodule/add lfs/pull lfs/fetch remote/update",
        "runs git": "rebase bisect/run filter-branch",
        "runs network": "clone",
    }),
    ("npm pnpm yarn bun", {
        "network": "install i add ci update up upgrade audit outdated fetch view info search",
        "runs network": "exec x dlx create init",
    }),
    ("uvx pipx", {"runs network": "*"}),
    ("uv", {
        "network": "sync add remove lock pip/install pip/sync pip/compile tool/install tool/upgrade python/install",
        "runs network": "tool/run",
    }),
    ("pip pip3", {"network": "install download wheel index"}),
    ("poetry pdm pipenv rye", {"network": "install add update lock sync"}),
    ("hatch", {"network": "env/create python/install dep/lock"}),
    ("conda mamba micromamba", {"network": "install create update search env/create env/update"}),
    ("cargo", {"network": "fetch add install update search"}),
    ("go", {"network": "get mod/download mod/tidy"}),
    ("gem bundle composer", {"network": "install update add require"}),
    ("docker docker-compose podman systemctl gh", {"unconfined": "*"}),
    ("apt apt-get dnf yum pacman apk brew snap", {"unconfined": "install update upgrade remove add"}),
)  # fmt: skip
"""Subcommands that plainly need something, or plainly nothing (`reads`); `/` stands for a blank, `*` for all. A rule's
wildcard covers only these. `runs`: they need it, too, but run a program that they are given the name of, or fetch.

Builds (`cargo build`, `mvn`, `uv run`, `npx`) aren't here: they may find all they need on this machine. gh needs a
login."""
_CLASSES: Final[Mapping[str, frozenset[Need]]] = {
    "reads": NOTHING,
    "git": frozenset({"git"}),
    "network": frozenset({"network"}),
    "both": frozenset({"git", "network"}),
    "unconfined": frozenset({"unconfined"}),
}
_SUPER = frozenset({"sudo", "doas", "su", "pkexec"})
_FETCHERS = frozenset({"curl", "wget"})
_GIT_ARGUMENTS = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})
_RUNS_IT = ("--exec", "--upload-pack", "--receive-pack", "--config")
"""Git's options with a program; it takes their beginnings, too."""
_LOOPBACK = re.compile(
    r"(?:\w+://)?(?:[^/@]*@)?(?:localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0)(?=[:/?#]|\Z)", re.IGNORECASE
)
_ADDRESS = re.compile(r"://|^[\w.-]+@[\w.-]+:|^(?:[\w-]+(?:\.[\w-]+)+|\[[\da-f:]+\]):\S", re.IGNORECASE)
"""With a scheme, or as ssh takes it: `me@a.test:x`, `a.test:x`."""
_WITH_HOST = re.compile(r"[\w+.-]+://[^/*?]+/|[^/*?:]+:(?!//)")
_TEXT_BEGINS = re.compile(r"<<-?\s*[\"'\\]?(\w+)")
_WILD = re.compile(r"[*?]")


def needs_of(command: str) -> frozenset[Need]:
    """The plain needs of a command, or of all the commands in a longer one.

        needs_of("cd x && git commit -m y")    →  frozenset({"git"})
        needs_of("git status; make")           →  frozenset()
    """
    command = _without_texts(command)
    found = [_known(_without_options(words))[0] for words in commands_in(command)]
    if any(posixpath.basename(word) in _SUPER for words in split(command) for word in words[:1]):
        found.append(_CLASSES["unconfined"])
    return NOTHING.union(*(needs or NOTHING for needs in found))


def covers(pattern: str, command: str) -> bool:
    """True if a rule with this pattern may give something to a command, or allow it at all.

    It must be simple, and the pattern must match it. Wildcards cover no word that says which program runs, or where to
    anything goes: a subcommand that the table doesn't know, an option with a program, an address.

        covers("uv *", "uv sync --all-extras")    →  True
        covers("uv *", "uv run x")                →  False, as of `uv sync; x`
    """
    words = words_of(command)
    if words is None or not command_allowed(pattern, command):
        return False
    wanted = pattern_words(pattern)
    if not _WILD.search("".join(wanted)):
        return True
    named = next((at for at, word in enumerate(wanted) if _WILD.search(word)), len(wanted))
    parts = [words[at] for at in range(len(words)) if at >= len(wanted) or _WILD.search(wanted[at])]
    program = posixpath.basename(words[0])
    somewhere = [part for part in parts if program in _FETCHERS or _ADDRESS.search(part)]  # `curl a.test -x b.test`
    if not named or not all(_says_where(wanted, part, words) for part in somewhere):
        return False
    if program == "git" and any(_may_run(part) for part in parts):
        return False
    table = _table_of(program)
    if table is None or "*" in table or _known(words)[1]:
        return True
    return named > 1 and not words[1].startswith("-") and named >= min(len(words), 2 + _is_group(program, words[1]))


def extra(gives: frozenset[Need], pattern: str, command: str) -> frozenset[Need]:
    """The needs that a rule which covers a command gives it from the start, beyond the plain ones.

    A pattern with wildcards gives a command of the table no more than that says: `git *` gives `git status` nothing.
    """
    words = words_of(command)
    known = None if words is None else _known(words)[0]
    known = None if words and posixpath.basename(words[0]) in _FETCHERS else known  # of this machine's own services
    if known is None or not _WILD.search("".join(pattern_words(pattern))):
        return gives
    return gives & {"unconfined"} if known else NOTHING


def reason(needs: Iterable[Need]) -> str:
    """The reason to ask, in words for people."""
    needs = frozenset(needs)
    return "; ".join(_WHY[need] for need in NEEDS if need in needs)


def words_for(needs: Iterable[Need]) -> str:
    """The confinement's words for what a command is given: `"no network"`, `"with network and a writable .git"`."""
    needs = frozenset(needs)
    network = "with network" if "network" in needs else "no network"
    return network + (", with a writable .git" if "git" in needs else "")


def named(needs: Iterable[Need]) -> str:
    """The needs in words for the model: `"network and a writable .git"`."""
    needs = frozenset(needs)
    return " and ".join(_NAMED[need] for need in NEEDS if need in needs)


def listed(needs: Iterable[Need]) -> str:
    """The needs as a rule is written: `"git,network"`."""
    return ",".join(sorted(needs))


# -- the table ---------------------------------------------------------------------------------------------------------


def _known(words: Sequence[str]) -> tuple[frozenset[Need] | None, bool]:
    """The plain needs of a command (None: the table doesn't know), and if a wildcard may stand for its subcommand."""
    program = posixpath.basename(words[0])
    if program.startswith("python") and [*words[1:3]] == ["-m", "pip"]:
        return _known(["pip", *words[3:]])
    if not _ONLY_SAYS.isdisjoint(words):
        return NOTHING, False
    if program in _FETCHERS:
        return (_CLASSES["network"] if _leaves(words[1:]) else NOTHING), True
    table = _table_of(program)
    if table is None:
        return None, False
    names = " ".join(words[1:3]), " ".join(words[1:2]), "*" if words[1:] else ""
    name = next((name for name in names if name in table), None)
    if name is None:
        return (_CLASSES["network"], True) if program == "yarn" and len(words) == 1 else (None, False)
    kind = table[name]
    needs = _CLASSES[kind.removeprefix("runs ")]
    if program == "git" and _only_lists(name, words[2:]):
        needs = NOTHING
    if not _OFFLINE.isdisjoint(words):
        needs -= {"network"}
    return needs, not kind.startswith("runs")


@lru_cache(maxsize=64)
def _table_of(program: str) -> Mapping[str, str] | None:
    """The subcommands of a program and their class: `{"pip install": "network"}`."""
    for programs, classes in _TABLE:
        if program in programs.split():
            return {name.replace("/", " "): kind for kind, names in classes.items() for name in names.split()}
    return None


def _is_group(program: str, word: str) -> bool:
    """True for the first word of subcommands with two: `uv pip`."""
    return any(name.startswith(f"{word} ") for name in _table_of(program) or ())


def _without_texts(command: str) -> str:
    """The command without the texts in it (`cat > README.md <<EOF`): they are nobody's commands yet."""
    kept, ends = [], list[str]()
    for line in command.split("\n"):
        if not ends:
            kept.append(line)
            ends = _TEXT_BEGINS.findall(line)
        elif line.strip() == ends[0]:
            ends.pop(0)
    return "\n".join(kept)


def _without_options(words: Sequence[str]) -> Sequence[str]:
    """The words without options before the subcommand: `git -C x commit` is `git commit`."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-m":
        at += 2 if words[at] in _GIT_ARGUMENTS else 1
    return [words[0], *words[at:]]


def _only_lists(name: str, arguments: Sequence[str]) -> bool:
    """True for `git branch` and `git tag` with arguments that change nothing."""
    if name not in _LISTING or any(re.match(r"-[dDmMcC]|--(?:delete|move|copy)", word) for word in arguments):
        return False
    return not _LISTING[name].isdisjoint(arguments) or all(word.startswith("-") for word in arguments)


def _leaves(arguments: Sequence[str]) -> bool:
    """True if curl or wget would ask another machine."""
    plain = [word for word in arguments if word[:1] not in ("-", "$", "")]
    addresses = [word for word in plain if "://" in word]
    if not addresses:
        return bool(plain) and not any(map(_LOOPBACK.match, plain))
    return any(not _LOOPBACK.match(word) and not word.startswith("file:") for word in addresses)


def _may_run(word: str) -> bool:
    option = word.partition("=")[0]
    shortened = len(option) > 2 and any(name.startswith(option) for name in _RUNS_IT)
    return shortened or option.startswith(_RUNS_IT)


def _says_where(wanted: Sequence[str], part: str, words: Sequence[str]) -> bool:
    """True if the pattern's own word at this place is an address of one host: `https://docs.test/*`."""
    at = words.index(part)
    return at < len(wanted) and _WITH_HOST.match(wanted[at]) is not None
