"""The parts of Python environments that an installer changed. Only some of their files are kept, and half is no use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ossia.tools.approval.autorun import HOLDERS, SITE, is_named, plain
from ossia.tools.tree import State

Changes = Mapping[str, tuple[State, State]]
"""The states of changed paths, before and after."""
NEW = "a new Python environment"


def new_environments(changes: Changes) -> list[str]:
    """The folders of the environments that a command made: `[".venv"]`."""
    return [folder for folder in _environments(changes, 0) if not _is_hidden(folder)]


def left_installed(changes: Changes, *, came_or_went: Callable[[str], bool]) -> dict[str, str]:
    """The paths that undo leaves alone, each with its words: `{"env/lib/site-packages/six": "packages in env/…"}`.

    Where folders came to a `site-packages` or went, packages did: what lies in those isn't kept, so they and the
    modules beside them stay. Of an environment that came or went with its packages everything does. Files that run when
    Python starts, such as a `*.pth`, never stay. `came_or_went`: did a folder, as a whole?
    """
    sites = {site for path, states in changes.items() for site, name in [_in_site(path)]
             if path == f"{site}/{name}" and "dir" in _came_or_went(states) and not is_named(plain(name))}  # fmt: skip
    whole = [folder for at in (0, 1) for folder in _environments(changes, at)
             if any(site.startswith(f"{folder}/") for site in sites) and came_or_went(folder)]  # fmt: skip
    left = {}
    for path, states in changes.items():
        site, name = _in_site(path)
        above = next((folder for folder in whole if f"{path}/".startswith(f"{folder}/")), "")
        if name and is_named(plain(name)) and states[1].kind != "absent":
            continue
        if above:
            left[path] = above if states[1].kind == "absent" or _is_hidden(above) else f"{above}, {NEW}"
        elif _came_or_went(states) and any(f"{one}/".startswith(f"{path}/") for one in sites):
            left[path] = path
        elif site in sites and (path == f"{site}/{name}" or _came_or_went(changes.get(f"{site}/{name}"))):
            left[path] = f"packages in {site}"
    return left


def _environments(changes: Changes, at: int) -> Iterable[str]:
    """Those that weren't there before, or after."""
    return [path.rpartition("/")[0] for path, states in changes.items()
            if plain(path).endswith("/pyvenv.cfg") and states[at].kind == "absent"]  # fmt: skip


def _is_hidden(folder: str) -> bool:
    last = plain(folder.rpartition("/")[2])
    return is_named(last) and last not in HOLDERS


def _came_or_went(states: tuple[State, State] | None) -> set[str]:
    """The kind of what did; empty if it was there before and after."""
    kinds = {state.kind for state in states or ()}
    return set(kinds - {"absent"}) if "absent" in kinds else set()


def _in_site(path: str) -> tuple[str, str]:
    """The `site-packages` that a path lies in, and the name of what lies directly there; empty outside of one."""
    parts = path.split("/")
    for at, part in enumerate(parts[:-1], 1):
        if plain(part) in SITE:
            return "/".join(parts[:at]), parts[at]
    return "", ""
