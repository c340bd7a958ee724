"""A walk through a workspace: the names that git doesn't ignore, with the keys that recognise what was seen before."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ossia.tools.tree import Tree, open_file, opened_below
from ossia.tools.undo.seen import Key, Known, Seen
from ossia.tools.undo.shadow import IGNORES, Rules, holds

_MAX_RULES_BYTES, _MAX_INDEX_BYTES = 1 << 20, 256 << 20


@dataclass(slots=True)
class Snapshot:
    """A workspace at one moment. `repositories`: each `.git`. `unlisted`: folders that are closed to us.

    `ignored`: what git ignores, a folder with `/` at its end. `keys`: those of what isn't as it was seen last.
    """

    known: dict[str, Known] = field(default_factory=dict)
    repositories: list[str] = field(default_factory=list)
    unlisted: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    keys: dict[str, Key] = field(default_factory=dict)
    size_bytes: int = 0


class Walk:
    """Walks through a workspace. `left_out`: our own files in it. `new_rules`: the next one reads what git ignores."""

    def __init__(self, tree: Tree, seen: Seen, rules: Rules, left_out: Collection[str], most_files: int) -> None:
        self._tree, self._seen, self._rules = tree, seen, rules
        self._left_out, self._most_files = frozenset(left_out), most_files
        self._tracked: list[bytes] = []
        self._index_time = 0
        self.new_rules = True

    def walk(self, before: Collection[str] | None) -> Snapshot:
        """Every name that git doesn't ignore, level by level, but for the contents of the workspace's own `.git`.

        Ends beyond the limit of files, unless it is compared with a look whose repositories are `before`. A `.git` at
        the top that wasn't there then is walked through.
        """
        fresh = before is None and self.new_rules
        if fresh:
            self._read_index()
        anew = fresh and self._drop_old_rules()
        try:
            while not self._descend(found := Snapshot(), before, fresh, anew):
                anew = True  # there are new rules: what was seen may be ignored now
        finally:
            self._rules.forget()
        self.new_rules = self.new_rules and before is not None
        return found

    def _descend(self, found: Snapshot, before: Collection[str] | None, fresh: bool, anew: bool) -> bool:
        own = before is None or ".git" in before
        level = [""]
        while level:
            names: dict[str, Key] = {}
            below: list[str] = []
            for prefix in level:
                self._list(prefix, names, below, found, own=own, fresh=fresh, anew=anew)
            if fresh and self._add_rules(names) and not anew:
                return False
            self._ask(names, anew)
            for path, key in names.items():
                folder = stat.S_ISDIR(key[0])
                name = f"{path}/" if folder else path
                if name in self._seen.ignored and not holds(self._tracked, name):
                    found.ignored.add(name)
                    continue
                known = self._seen.known.get(path)
                if known is not None and known.key == key:
                    found.known[path] = known
                else:
                    found.keys[path] = key
                found.size_bytes += key[2]
                if folder:
                    below.append(name)
            if before is None and len(found.keys) + len(found.known) > self._most_files:
                break
            level = below
        return True

    def _list(self, prefix: str, names: dict[str, Key], below: list[str], found: Snapshot, *,
              own: bool, fresh: bool, anew: bool) -> None:  # fmt: skip
        """Add the names in a folder to `found` and `below` if they are as they were seen last, else to `names`."""
        try:
            entries = os.scandir(f"{self._tree.root}/{prefix}")
        except OSError:
            found.unlisted.add(prefix.rstrip("/"))
            return
        seen, same, left_out = self._seen.known, found.known, self._left_out
        with entries:  # for 2,000 files this takes 8 ms, 6 of them in scandir and lstat (measured): so no other calls
            for entry in entries:
                path = prefix + entry.name
                if entry.name == ".git" and not entry.is_symlink():
                    found.repositories.append(path)
                    if own and not prefix:
                        continue
                if path in left_out:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except PermissionError:  # it may be listed, but not entered
                    found.unlisted.add(prefix.rstrip("/"))
                    continue
                except OSError:  # it vanished meanwhile
                    continue
                mode, inode = status.st_mode, status.st_ino
                folder = stat.S_ISDIR(mode)
                key = (mode, inode, 0, 0, 0) if folder else (
                    mode, inode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)  # fmt: skip
                known = seen.get(path)
                if known is None or known.key != key or anew or (fresh and entry.name == IGNORES):
                    names[path] = key
                    continue
                same[path] = known
                found.size_bytes += key[2]
                if folder:
                    below.append(f"{path}/")

    # -- what git ignores ----------------------------------------------------------------------------------------------

    def _ask(self, names: Mapping[str, Key], anew: bool) -> None:
        """Note which of the names are ignored. Known ones are only asked about `anew`, for other rules."""
        asked = []
        for path, key in names.items():
            if anew or path not in self._seen.known:
                name = f"{path}/" if stat.S_ISDIR(key[0]) else path
                if (anew or name not in self._seen.ignored) and ".git/" not in f"{path}/":  # a repository is kept whole
                    asked.append(name)
        if asked:
            self._seen.ignored = (self._seen.ignored - set(asked)) | self._rules.ignored(asked)

    def _drop_old_rules(self) -> bool:
        """Forget rules whose files are gone; true if there were any."""
        gone = [path for path in self._rules.files if (status := self._tree.status(path)) is None
                or not stat.S_ISREG(status.st_mode)]  # fmt: skip
        for path in gone:
            del self._rules.files[path]
        return bool(gone)

    def _add_rules(self, names: Mapping[str, Key]) -> bool:
        """Read the rules among the names; true if there are new ones."""
        new = False
        for path, key in names.items():
            if not path.endswith(IGNORES) or path.rpartition("/")[2] != IGNORES or not stat.S_ISREG(key[0]):
                continue
            text = self._text(path, _MAX_RULES_BYTES)
            if text is not None and self._rules.files.get(path) != text:
                self._rules.files[path], new = text, True
        return new

    def _read_index(self) -> None:
        """Read which files the workspace's own repository tracks."""
        status = self._tree.status(".git/index")
        at = 0 if status is None else status.st_mtime_ns
        if at != self._index_time:
            index = self._text(".git/index", _MAX_INDEX_BYTES)
            self._tracked, self._index_time = self._rules.tracked(index) if index else [], at

    def _text(self, path: str, most: int) -> bytes | None:
        """A small file's bytes; None if it can't be read, or is larger."""
        *above, name = path.split("/")
        with suppress(OSError), opened_below(self._tree.root, above) as folder:
            with os.fdopen(open_file(name, folder), "rb") as file:
                text = file.read(most + 1)
            return text if len(text) <= most else None
        return None
