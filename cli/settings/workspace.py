"""The workspace of a run: `--workspace DIR`, the user's trust in it, and its own settings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.settings.config import FOLDER_CONFIG, Resolved, resolve
from ossia.cli.settings.table import Settings
from ossia.cli.words import listed
from ossia.tools.folder import NOTES, Folder
from ossia.tools.import_path import remove_from_sys_path
from ossia.tools.skills import OF_WORKSPACE
from ossia.tools.workspace import Workspace


def resolve_with_folder(flags: Mapping[str, object]) -> tuple[Resolved, Folder | None]:
    """The settings that hold, and the workspace. A folder's own settings count once the user trusts it.

    Warnings about the folder are added to those of the settings. Raises ConfigError, and ExitError for a workspace that
    can't be used.
    """
    resolved = resolve(flags, environ=os.environ)
    settings = resolved.settings
    if settings.workspace is None or settings.no_tools:
        return resolved, None
    folder = open_folder(settings)
    if folder.brought:
        resolved = resolve(flags, environ=os.environ, folder=folder.brought)
    return replace(resolved, warnings=(*resolved.warnings, *folder.warnings)), folder


def open_folder(settings: Settings) -> Folder:
    """The workspace that `settings` name. Raises ExitError."""
    from ossia.tools.approval.trust import TrustError, TrustStore, look
    from ossia.tools.undo.journal import Journal

    assert settings.workspace is not None
    root, data = _root(settings.workspace), paths.data_dir()
    remove_from_sys_path(root)
    if data.resolve().is_relative_to(root):
        raise ExitError(f"--workspace {settings.workspace}: holds ossia's own data ({data}): choose another folder")
    warnings: tuple[str, ...] = ()
    try:
        state, brought = ("trusted", look(root)) if settings.trust else TrustStore(data).content(root)
    except TrustError as error:
        state, brought = "trusted", None
        warnings = (f"--trust: nothing of {FOLDER_CONFIG.parent} and {NOTES} is used: {error}",)
    journal = Journal(data, root, private=settings.private)
    workspace = Workspace(root, trusted=state == "trusted", keeper=journal)
    return Folder(workspace, journal, brought, warnings or _warnings(root, state))


def _root(name: str) -> Path:
    path = paths.expanded(name)
    if not paths.is_folder(path):
        wrong = f"{name} is not a folder" if path.exists() else f"folder {name} doesn't exist"
        raise ExitError(f"--workspace: {wrong}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise ExitError(f"--workspace: {name} can't be read")
    return path.resolve()


def _warnings(root: Path, state: str) -> tuple[str, ...]:
    called = {FOLDER_CONFIG.parent.name: "its own rules, tools and servers", NOTES: f"its {NOTES}"}
    called |= dict.fromkeys(OF_WORKSPACE, "its skills")
    own = list(dict.fromkeys(words for name, words in called.items() if (root / name).exists()))
    if state == "trusted" or not own:
        return ()
    why = "has changed since you trusted it" if state == "changed" else "isn't trusted"
    are, them = ("is", "it") if own == [called[NOTES]] else ("are", "them")
    look = f"`ossia trust {shlex.quote(str(root))}` to look at {them}"  # whoever made the folder chose its name
    return (f"the folder {root.name} {why}: {listed(own)} {are} not used ({look})",)

