"""The git folder of a workspace that doesn't hold it: of a linked worktree, a submodule or a folder of a repository.

A command may read it. The workspace's `.git` file is somebody's text and may name any folder, so the folder named must
name this workspace in turn. Git's own settings are shown without what may be a secret.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from ossia.tools.sandbox.job import Repository
from ossia.tools.sandbox.private import too_wide

_SHOWN = ("HEAD", "ORIG_HEAD", "MERGE_HEAD", "MERGE_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD",
          "BISECT_LOG", "commondir", "gitdir", "index", "info", "logs", "objects", "packed-refs", "rebase-apply",
          "rebase-merge", "refs", "reftable", "sequencer", "shallow")  # fmt: skip
_SETTINGS = ("config", "config.worktree")
_MAX_BYTES = 1 << 20
_SECTIONS = ("advice", "blame", "branch", "color", "column", "commit", "core", "diff", "extensions", "feature", "fetch",
             "gc", "grep", "gui", "i18n", "index", "init", "log", "maintenance", "merge", "pack", "pull", "push",
             "rebase", "remote", "rerere", "status", "submodule", "tag", "transfer", "user")  # fmt: skip
"""Git's own sections; in others anybody's programs keep their keys."""
_LEFT_OUT = re.compile(
    r"core\.(?:alternaterefscommand|askpass|editor|fsmonitor|gitproxy|hookspath|pager|sshcommand)$"
    r"|(?:diff|merge)\.(?:external$|.*\.(?:command|textconv|driver|cachetextconv)$)|gc\.recentobjectshook$"
    r"|(?:remote|submodule)\..*\.(?:proxy|receivepack|serveroption|update|uploadpack|vcs)$"
    r"|.*://.*@|.*(?:token|passw|secret|cookie|extraheader)[^.]*$",
    re.IGNORECASE | re.DOTALL,
)
"""Git's own settings with secrets, or with programs and their arguments."""
_USER_INFO = re.compile(r"(?<=://)[^/\s]*@")
_ODD_ADDRESS = re.compile(r"://.*[@?]|^[\w-]+::|^[^@/]*:.*@", re.DOTALL)
"""An address with a secret elsewhere, or with a program: `ext::sh -c …`."""
_SECRET_WORD = re.compile(r"\S*:\S*[@?]\S*|\b[\w-]+::\S+")
"""In a reflog's message, such an address: `git pull https://me:token@host/…` is written there as it was typed."""
_MAX_LOG_BYTES = 16 << 20
_MAX_SUBMODULES, _MAX_LOOKED_AT = 50, 1000
_PROGRAMS = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/run/current-system/sw/bin"


class NotShown(Exception):
    """Why it isn't shown, in words for people."""


def repository_of(root: Path, *, home: Path | None, data: Path, trusted: bool) -> Repository | str | None:
    """The repository that a workspace belongs to, or why its folder isn't shown.

    None: there is no repository, or the workspace holds it. `data` is our own folder: python's code writes there. A
    repository above the workspace counts only if the user has `trusted` that.
    """
    top = _top(root, home)
    if top is None:
        return None
    try:
        if top != root and not trusted:
            raise NotShown(f"the repository lies above the workspace, in {top}, and the folder isn't trusted")
        folder, common = folders_of(top, root)
        _check_objects(common, root)
        if folder == root or folder.is_relative_to(root):
            return None
        if root.is_relative_to(common) or common == home or too_wide(common, home):
            raise NotShown(f"{common} holds more than a repository")
        for place in (top, folder, common):  # who can write there could replace a shown file by a link
            if place.is_relative_to(data.resolve()):
                raise NotShown(f"{place} is ossia's own")
            status = place.stat()
            if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
                raise NotShown(f"{place} belongs to another user, or others can write it")
        return _shown(top, folder, common)
    except NotShown as why:
        return str(why)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"the git folder can't be read ({error})"


def _top(root: Path, home: Path | None) -> Path | None:
    """The folder with git's choice of a `.git`; never the home or a folder above it."""
    for folder in (root, *root.parents):
        if folder != root and (folder == home or too_wide(folder, home)):
            return None
        if os.path.lexists(folder / ".git"):
            return folder
    return None


def folders_of(top: Path, root: Path) -> tuple[Path, Path]:
    """The git folder of `top`, and the one with objects and branches: another for a linked worktree."""
    pointer = top / ".git"
    mode = pointer.lstat().st_mode
    if stat.S_ISDIR(mode):
        return pointer, pointer
    if stat.S_ISLNK(mode):
        if (target := pointer.resolve()).is_relative_to(root):
            return target, target
        raise NotShown(f"{pointer} is a link out of the workspace")
    folder = _named(pointer, "gitdir: ")
    if folder.is_relative_to(root):
        return folder, folder
    if (folder / "commondir").is_file():
        common = folder.parent.parent
        if folder.parent.name == "worktrees" and _named(folder / "gitdir") == pointer:
            if _named(folder / "commondir") != common:
                raise NotShown(f"{folder}/commondir doesn't lead to {common}")
            return folder, common
    elif (own := _worktree(folder)) and Path(os.path.realpath(folder / own)) == top:
        return folder, folder
    raise NotShown(f"{pointer} names {folder}, which doesn't name this folder in turn")


def _named(file: Path, prefix: str = "") -> Path:
    """The place named in a file of git's."""
    text = _text(file).rstrip("\n")
    if not text.startswith(prefix):
        raise NotShown(f"{file} isn't git's")
    written = Path(os.path.realpath(file.parent), text.removeprefix(prefix))
    place = Path(os.path.realpath(written))
    if prefix and place != Path(os.path.normpath(written)):  # where bubblewrap shows the place, the link is missing
        raise NotShown(f"{file} leads through a link: `git worktree repair` in the other folder writes it anew")
    return place


def _check_objects(common: Path, root: Path) -> None:
    """Raises `NotShown` if some of its objects lie where commands see nothing."""
    objects = common / "objects"
    file = objects / "info" / "alternates"
    for line in _text(file).splitlines() if file.exists() else ():
        place = Path(os.path.realpath(objects / line))
        if not (place.is_relative_to(root) or place.is_relative_to(common)):
            raise NotShown(f"some of its objects lie in {place}: `git repack -ad`, outside, brings them here")


def _text(file: Path) -> str:
    status = file.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
        raise NotShown(f"{file} isn't git's")
    return file.read_text(encoding="utf-8")


def _worktree(folder: Path) -> str:
    found = [value for name in _SETTINGS for key, value in settings_of(folder / name) if key == "core.worktree"]
    return (found[-1] or "") if found else ""


def _shown(top: Path, folder: Path, common: Path) -> Repository:
    folders = dict.fromkeys((common, folder, *_submodules(folder)))
    if not (common / "objects").is_dir():
        raise NotShown(f"{common} is no git folder")
    entries = [place / name for place in folders for name in _SHOWN]
    entries = [path for path in entries if path.exists() and not path.is_symlink()]
    if (top / ".git").is_file():
        entries.append(top / ".git")
    settings: dict[Path, str] = {}
    left_out: list[str] = []
    for path in (place / name for place in folders for name in _SETTINGS):
        if path.is_file():
            pairs = list(settings_of(path))
            shown = (pair for pair in pairs if pair[0].partition(".")[0] in _SECTIONS and not _LEFT_OUT.match(pair[0]))
            kept = [(key, value and _USER_INFO.sub("", value)) for key, value in shown]
            kept = [(key, value) for key, value in kept if not _ODD_ADDRESS.search(value or "")]
            left_out += [key for key, value in pairs if (key, value) not in kept]
            settings[path] = "".join(setting_text(key, value) for key, value in kept)
    for path, text in chain.from_iterable(map(_changed_logs, folders)):
        settings[path] = text
        left_out.append(f"an address in {path.relative_to(common)}")
    return Repository(common, tuple(entries), settings, tuple(dict.fromkeys(left_out)))


def _submodules(folder: Path) -> Iterator[Path]:
    """The git folders of submodules in this one, and of theirs: `git status` looks into them."""
    pending, looked_at, found = [folder / "modules"], 0, 0
    while pending and looked_at < _MAX_LOOKED_AT and found < _MAX_SUBMODULES:
        place = pending.pop()
        looked_at += 1
        if (place / "HEAD").is_file():
            found += 1
            yield place
            pending.append(place / "modules")
        elif place.is_dir() and not place.is_symlink():
            pending += place.iterdir()


def _changed_logs(folder: Path) -> Iterator[tuple[Path, str]]:
    """The reflogs with secrets in addresses, and their text without those."""
    for path in sorted((folder / "logs").rglob("*")):
        if path.is_file() and not path.is_symlink():
            text = path.read_bytes().decode("utf-8", "replace") if path.stat().st_size <= _MAX_LOG_BYTES else "?\t:?"
            lines = [line.partition("\t") for line in text.splitlines(keepends=True)]
            shown = "".join(f"{head}{tab}{_SECRET_WORD.sub('…', said)}" for head, tab, said in lines)
            if shown != text:
                yield path, shown


def settings_of(path: Path) -> Iterator[tuple[str, str | None]]:
    """Each setting of a file, read by git itself without `include`s. None: a name without a value."""
    if not path.exists():
        return
    _text(path)
    asked = ("git", "config", "--file", str(path), "--no-includes", "--null", "--list")
    done = subprocess.run(asked, env={"PATH": _PROGRAMS}, cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=10, check=True)  # fmt: skip
    for setting in done.stdout.decode("utf-8", "replace").split("\0")[:-1]:
        key, given, value = setting.partition("\n")
        yield key, value if given else None


def setting_text(key: str, value: str | None) -> str:
    """A setting as a file of git's holds it: `setting_text("user.name", "Ada")` is `[user]\\n\\tname = "Ada"\\n`."""
    section, _, rest = key.partition(".")
    below, dot, name = rest.rpartition(".")
    head = f'{section} "{_escaped(below)}"' if dot else section
    return f"[{head}]\n\t{name}\n" if value is None else f'[{head}]\n\t{name} = "{_escaped(value)}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
