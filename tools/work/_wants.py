"""A failed command's wants, recognised in its output, and remarks on its result for the model.

What a command prints is only a reason to ask: anybody may print such a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ossia.tools.sandbox import Confinement, ConfinementName
from ossia.tools.sandbox.job import Repository
from ossia.tools.spec import Need, ToolResult
from ossia.tools.work._command import Command

_DENIED = r"(?:Read-only file system|Permission denied|Operation not permitted)"
_LOOPBACK = r"(?:localhost|127(?:\.\d+){3}|\[?::1\]?|0\.0\.0\.0)"
_WANTS: Final[Mapping[Need, re.Pattern[str]]] = {
    "git": re.compile(
        rf"(?:[Uu]nable to (?:create|write|append to)|cannot open) '?[^\n]*\.git/[^\n]*: {_DENIED}"
        rf"|insufficient permission for adding an object|^error: unable to create temporary file: {_DENIED}",
        re.MULTILINE,
    ),
    "network": re.compile(
        r"could not resolve (?:host|proxy)|temporary failure in name resolution|name or service not known"
        r"|nodename nor servname provided|unable to resolve host|failed to lookup address information|bad hostname"
        r"|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|UnknownHostException|unknown host |dial tcp: lookup "
        r"|network is unreachable|ENETUNREACH|address family not supported|EAFNOSUPPORT"
        r"|/cache/download/\S+: (?:read-only file system|permission denied)|\.part\.lock \("  # go's and maven's caches
        rf"|failed to connect to (?!{_LOOPBACK} )\S+ port",
        re.IGNORECASE,
    ),
    "unconfined": re.compile(
        r"connect to the Docker daemon|Cannot connect to Podman"
        r"|Permission denied \(publickey|Host key verification failed|could not read Username for|gh auth login"
    ),
}
"""In the words of curl, wget, ssh, git, pip, uv, npm, cargo, maven, go, python, node, java, perl. The last ones want a
login, from the user's home. Git's own settings aren't among them: no need but the last opens those."""
_OWN_SERVICE = re.compile(rf"(?:failed to connect to|ECONNREFUSED) {_LOOPBACK}\b", re.IGNORECASE)
_REFUSED = re.compile(r"connection refused|ECONNREFUSED", re.IGNORECASE)
_NO_SOCKET = re.compile(r"address family not supported|EAFNOSUPPORT", re.IGNORECASE)
_NOT_REACHED = re.compile(r"\bconnect\b[^\n]*(?:\n[^\n]*){0,2}\b(?:Operation not permitted|EPERM)")
_NOT_STORED = re.compile(r"ENOTCACHED|data wasn't found in the cache")
"""npm's and uv's words."""
_NO_PROGRAM = re.compile(r"\bv?env/bin/[\w.-]+: (?:No such file or directory|not found)")
_REMARKED = re.compile(r"\n\[(?:Landlock|git's) ")
_DENIED_AT = re.compile(r"Permission denied|EACCES")


def wanted(output: str, confinement: ConfinementName) -> frozenset[Need]:
    """The needs that the output of a failed command shows.

    Landlock's commands have no network of their own, where bubblewrap's can start a server and ask it.
    """
    found = {need for need, pattern in _WANTS.items() if pattern.search(output)}
    return frozenset(found | ({"network"} if confinement == "landlock" and _OWN_SERVICE.search(output) else set()))


def on_sockets(output: str, confinement: ConfinementName, given: Collection[Need]) -> str:
    """A line for the model where a failed command couldn't make or use a socket; "" for none."""
    if "network" in given:
        only = "with network a command has TCP and UDP only: use sockets with a path in a command without it"
        return only if _NO_SOCKET.search(output) else ""
    if confinement == "landlock" and (_NO_SOCKET.search(output) or _NOT_REACHED.search(output)):
        return "without network nothing can listen here or be reached, not even within one command (Landlock)"
    return ""


def advice(output: str, confinement: ConfinementName) -> str:
    """A line for the model on a failed command that wants nothing which could be given; "" for no advice."""
    if _OWN_SERVICE.search(output) or _REFUSED.search(output):
        return (
            "nothing listens there: what an earlier command started has ended; start it and use it in one command; "
            "the user's own servers are reached only with network, which --allow-network COMMAND gives"
        )
    if _NOT_STORED.search(output):
        return "the cache of packages is empty here: this needs network, without --offline, or bubblewrap >= 0.11"
    if _NO_PROGRAM.search(output):
        return "there is no such .venv here; one above the workspace isn't shown: the user can start ossia there"
    if confinement == "landlock" and _DENIED_AT.search(output) and not _REMARKED.search(output):
        return "at the very top of a repository nothing can be created, renamed or deleted here, only in its folders"
    return ""


_NOT_REPLACED = re.compile(r"(?:unable to (?:unlink|create)|[Cc]annot (?:unlink|create)).*Permission denied")
_SETTINGS_LOCKED = re.compile(r"^error: could not lock config file ", re.MULTILINE)
_NAMES_GIT, _GIT_FAILED = re.compile(r"\bgit\b"), re.compile(r"^(?:fatal|error): ", re.MULTILINE)


def with_git(result: ToolResult, repository: Repository | str | None, command: Command, root: Path) -> ToolResult:
    """The result; if git failed in it, with what it can do here."""
    if repository is None and _SETTINGS_LOCKED.search(result.text):
        line = "git's settings, remotes among them, stay as they are: only the user can change them"
        return replace(result, text=f"{result.text}\n[{line}]")
    failed = _GIT_FAILED.search(result.text) or result.error
    if repository is None or not failed or not _NAMES_GIT.search(command.shown):
        return result
    above = "" if os.path.lexists(root / ".git") else "; it can be changed in a workspace that is the whole repository"
    only_read = f"can only be read here, not changed{above}"
    limit = f"can't be read here: {repository}" if isinstance(repository, str) else only_read
    return replace(result, text=f"{result.text}\n[git's folder {limit}]")


def with_the_top(result: ToolResult, confinement: Confinement) -> ToolResult:
    """The result; with the reason if git couldn't replace a file where Landlock lets nobody."""
    if confinement.name != "landlock" or not _NOT_REPLACED.search(result.text):
        return result
    why = "Landlock makes, replaces and deletes no files directly at the top of the workspace; with bubblewrap git can"
    return replace(result, text=f"{result.text}\n[{why}]", notices=(*result.notices, why))


def with_notices(result: ToolResult, notices: Sequence[str]) -> ToolResult:
    """The result, with what the command did to files that run or instruct later tools: for the model and the user."""
    lines = "".join(f"\n[{line}]" for line in notices)
    return replace(result, text=result.text + lines, notices=(*result.notices, *notices)) if notices else result
