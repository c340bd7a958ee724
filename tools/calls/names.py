"""Names of tools as gpt-oss is known to write them, mapped to the tools that are on.

The source of the names: models know the tools of other programs, too, and pieces of the format leak into the
recipient (llama.cpp#15158, vllm#27385, codex#2186).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator

_CUT = re.compile(r"<\||[\s<>\"'`({\[,;:|]")
_LEAKED = ("json", "commentary", "analysis", "final", "code", "constrain")
_WORK_PREFIXES = ("repo_browser.", "container.")
_PREFIXES = ("functions.", "function.", "tools.", "tool.", "assistant.", *_WORK_PREFIXES, "computer.")
_MAX_CHARS = 300
_MAX_LISTED = 24

_ALIASES = {
    "python": ("ipython", "python3", "jupyter", "code_interpreter"),
    "container.exec": (
        *("exec", "shell", "bash", "sh", "zsh", "exec_command", "run_command", "execute_command", "terminal"),
    ),
    "repo_browser.print_tree": ("print_tree", "tree"),
    "repo_browser.list_dir": ("list_dir", "list_files", "list_directory", "listdir", "ls"),
    "repo_browser.open_file": ("open_file", "read_file", "view_file", "cat", "readfile"),
    "repo_browser.search": ("search", "find", "grep", "search_files", "grep_search", "rg", "ripgrep", "find_in_files"),
    "repo_browser.apply_patch": ("apply_patch", "applypatch", "apply_diff"),
    "browser.search": ("search", "web_search"),
    "browser.open": ("open", "open_url"),
    "browser.find": ("find",),
}
"""Other names for the built-in tools, compared with a name's last part. The first tool that is on is meant."""
BUILT_IN = tuple(_ALIASES)
"""All built-in tools, on or off."""
_WORK = tuple(name for name in BUILT_IN if name.startswith(_WORK_PREFIXES))


def resolve_name(written: str, known: Collection[str]) -> str | None:
    """The tool in `known` (whole names) that a recipient means; None without one.

        resolve_name("open_file<|channel|>commentary", known)       →  repo_browser.open_file
        resolve_name("execjson", known)                             →  container.exec
        resolve_name("functions.browser.search", known)             →  browser.search
        resolve_name("functions.exec_command", known)               →  functions.exec_command_tool
        resolve_name("bash", known)                                 →  container.exec
    """
    if written in known:
        return written
    written = written[:_MAX_CHARS]
    names = tuple(dict.fromkeys((*_readings(written), *_readings(written.lower()))))
    if any(name.startswith(_WORK_PREFIXES) for name in names):  # a query in files isn't one for the web
        known = [name for name in known if name.startswith(_WORK_PREFIXES)]
    by_lower = {name.lower(): name for name in known}
    for name in names:
        for whole in (name, f"functions.{name}", f"functions.{name}_tool"):  # `naming.offered_name` adds it
            found = whole if whole in known else by_lower.get(whole.lower())
            if found is not None:
                return found
    lowered = {name.lower() for name in names}
    aliased = (meant for meant, aliases in _ALIASES.items() if meant in known and not lowered.isdisjoint(aliases))
    return next(aliased, None)


def work_tool(written: str) -> str | None:
    """The tool for work in a folder that a recorded call's name means; None: another's tool, or unclear.

        work_tool("bash")               →  container.exec
        work_tool("functions.bash")     →  None: it may be the user's function
    """
    plain = "." not in written or written.startswith(_WORK_PREFIXES)
    return resolve_name(written, _WORK) if plain else None


def unknown_name(written: str, known: Collection[str]) -> str:
    """The error for the model about an unknown name: it lists the tools, the nearest first."""
    if not known:
        return f"Error: there is no tool {_shown(written)}. No tools are on: answer without one."
    near = difflib.get_close_matches(written[:_MAX_CHARS], known, n=_MAX_LISTED, cutoff=0.5)
    names = list(dict.fromkeys([*near, *known]))
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"Error: there is no tool {_shown(written)}. The tools are: {', '.join(names[:_MAX_LISTED])}{more}"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:80]}…")


def _readings(written: str) -> Iterator[str]:
    """The names that a recipient may stand for: without what leaked after it, then also without prefixes."""
    name = _CUT.split(written.strip(), maxsplit=1)[0].strip(".")
    glued = [name[: -len(leak)].rstrip("._-") for leak in _LEAKED if name.lower().endswith(leak)]
    for reading in (name, *glued):
        yield reading
        while reading.startswith(_PREFIXES):
            reading = next(reading.removeprefix(prefix) for prefix in _PREFIXES if reading.startswith(prefix))
            yield reading
