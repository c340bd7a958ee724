"""Which tools a rule's name is about, also by the names that our tools had until November 2026.

Users have written rules such as `shell:git status*` and `write_file:docs/**`. Under an old name a rule allows no more
than it did; one that denies or asks holds for every tool that does the same. The last part of a name (`open_file`,
`exec`) is enough to deny or to ask. It doesn't allow: it may be the name of a function of the user's, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

OLD_NAMES: Mapping[str, tuple[str, ...]] = {
    "container.exec": ("functions.shell",),
    "repo_browser.open_file": ("functions.read_file",),
    "repo_browser.list_dir": ("functions.list_dir",),
    "repo_browser.print_tree": ("functions.list_dir",),
    "repo_browser.search": ("functions.grep",),
    "repo_browser.apply_patch": ("functions.apply_patch", "functions.write_file"),
}
"""The tools that a tool has replaced."""
BUILT_IN = (*OLD_NAMES, "browser.search", "browser.open", "browser.find", "python")
"""All tools of ours, whether they are on or not."""
_COULD_NOT_DELETE = "functions.write_file"


def is_about(name: str, tool: str) -> bool:
    """Is a rule of this name about the tool? `is_about("write_file", "repo_browser.apply_patch")` is True.

    One that allows must also be one that `may_allow`.
    """
    return _matches(name, tool) or _by_old_name(name, tool) or (tool in BUILT_IN and _by_last_part(name, tool))


def renamed(name: str) -> tuple[str, ...]:
    """The tools that a rule is about, if some only by names they no longer have; else none.

    `renamed("shell")` is `("container.exec",)`; `renamed("*_file")` names `repo_browser.open_file`, too.
    """
    about = tuple(tool for tool in OLD_NAMES if is_about(name, tool))
    return about if any(_by_old_name(name, tool) and not _matches(name, tool) for tool in about) else ()


def remarks(rules: Iterable[str]) -> list[str]:
    """What to say of rules by names that our tools no longer have: `["shell is now container.exec"]`."""
    names = dict.fromkeys(rule.partition(":")[0].strip() for rule in rules)
    return [f"{name} is now {', '.join(renamed(name))}" for name in names if renamed(name)]


def may_allow(name: str, tool: str) -> bool:
    """May a rule of this name, which is about the tool, also allow its calls?

    A name with wildcards that was written for other tools (`*browser*`) isn't taken for the new ones, nor is the last
    part of a name taken for the whole.
    """
    if _by_old_name(name, tool) or not _matches(name, tool):
        return _by_old_name(name, tool)
    return tool not in OLD_NAMES or name.partition(".")[0] == tool.partition(".")[0]


def allows_deleting(name: str, tool: str) -> bool:
    """Does a rule of this name, which may allow the tool's calls, allow those that delete files, too?"""
    if not _matches(name, _COULD_NOT_DELETE):
        return True
    others = (tool, *(old for old in OLD_NAMES.get(tool, ()) if old != _COULD_NOT_DELETE))
    return any(_matches(name, other) for other in others)


def of_commands(name: str) -> bool:
    """Are the patterns of rules of this name matched against commands?"""
    return name in ("container.exec", "exec", "shell", "functions.shell")


def _by_old_name(name: str, tool: str) -> bool:
    return any(_matches(name, old) for old in OLD_NAMES.get(tool, ()))


def _by_last_part(name: str, tool: str) -> bool:
    return fnmatchcase(tool.rpartition(".")[2], name)


def _matches(name: str, tool: str) -> bool:
    """The whole name, without `functions.`, or the namespace: `browser` is all of it."""
    forms = tool, tool.removeprefix("functions."), tool.partition(".")[0]
    return any(fnmatchcase(form, name) for form in forms)
