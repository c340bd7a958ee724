"""The searching half of `repo_browser.search`, run as a separate process: an expression can take for ever, a process
can be killed.

It is started as a script by `python -I -S`, which finds no packages: besides the standard library it loads
`tools/decoding.py`, by its file, and webencodings. It reads one job as JSON from stdin, walks a folder from an
inherited descriptor without ever following a link, and writes JSON lines: `{"hit": [path, line, text]}` and, at the
end, `{"end": {…}}`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_MAX_DEPTH, _MAX_PASSED = 64, 5
_MADE = ("CACHEDIR.TAG", "pyvenv.cfg")
"""A folder with such a file was made by a program: a cache (also cargo's `target/`), a virtual environment."""

_HEAD_BYTES = 8192


@dataclass
class Search:
    """One job, and what was skipped on the way."""

    job: dict[str, Any]
    hits: int = 0
    files: int = 0
    passed: dict[str, tuple[int, list[str]]] = field(
        default_factory=lambda: {"secret": (0, []), "closed": (0, []), "large": (0, []), "guessed": (0, [])}
    )
    cut: bool = False

    def __post_init__(self) -> None:
        self.literal = ""
        try:
            self._pattern = re.compile(self.job["pattern"])
        except (re.error, OverflowError, RecursionError, MemoryError) as error:
            self.literal, self._pattern = str(error), re.compile(re.escape(self.job["pattern"]))
        self._secret = re.compile(self.job["secret"], re.VERBOSE)
        sys.path += self.job["packages"]
        self._decoding = _loaded(self.job["decoding"])

    def run(self) -> None:
        if self.job["only"]:
            self._file(self.job["folder"], self.job["only"], self.job["front"] + self.job["only"])
        else:
            self._folder(self.job["folder"], self.job["front"], 0)

    def _folder(self, folder: int, front: str, depth: int) -> None:
        with suppress(OSError):  # one that may not be listed
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
            if depth and any(entry.name in _MADE for entry in entries):
                self._pass("closed", front)
                return
            for entry in entries:
                if self.cut:
                    return
                path = front + entry.name
                if entry.is_dir(follow_symlinks=False):
                    self._enter(folder, entry.name, path, depth)
                elif entry.is_file(follow_symlinks=False):
                    if self._secret.search(path.casefold()):
                        self._pass("secret", path)
                    else:
                        self._file(folder, entry.name, path)

    def _enter(self, folder: int, name: str, path: str, depth: int) -> None:
        if name in self.job["closed"] or depth >= _MAX_DEPTH:
            if name != ".git":
                self._pass("closed", path + "/")
            return
        with suppress(OSError):
            below = os.open(name, _FOLDER, dir_fd=folder)
            try:
                self._folder(below, path + "/", depth + 1)
            finally:
                os.close(below)

    def _pass(self, kind: str, path: str) -> None:
        number, names = self.passed[kind]
        self.passed[kind] = (number + 1, [*names, path] if len(names) < _MAX_PASSED else names)

    def _file(self, folder: int, name: str, path: str) -> None:
        data = self._read(folder, name, path)
        if data is None:
            return
        self.files += 1
        text = self._decoding.decode(data)
        if text is None:
            return
        lines = re.split(r"\r\n|\r|\n", text.shown)
        if not lines[-1]:  # after the last line end there is no line
            lines.pop()
        for number, line in enumerate(lines, 1):
            found = self._pattern.search(line)
            if found is None:
                continue
            if self.hits >= self.job["max_hits"]:
                self.cut = True
                break
            self.hits += 1
            if text.remark and path not in self.passed["guessed"][1]:
                self._pass("guessed", path)
            _say({"hit": [path, number, self._shown(line, found.start())]})

    def _read(self, folder: int, name: str, path: str) -> bytes | None:
        """None if it can't be read, isn't a plain file, is binary, or is too large."""
        with suppress(OSError):
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return None
            with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                data = file.read(_HEAD_BYTES)
                if b"\0" in data and not self._decoding.wide(data):
                    return None
                data += file.read(self.job["max_file_bytes"] + 1 - len(data))
                if len(data) <= self.job["max_file_bytes"]:
                    return data
                self._pass("large", path)
        return None

    def _shown(self, line: str, at: int) -> str:
        """The line, or the part of a long one around the match."""
        size = self.job["max_line_chars"]
        if len(line) <= size:
            return line
        start = max(0, min(at - size // 4, len(line) - size))
        return ("…" if start else "") + line[start : start + size] + ("…" if start + size < len(line) else "")


def _loaded(file: str) -> Any:
    """`tools.decoding`, alone."""
    spec = importlib.util.spec_from_file_location("decoding", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules["decoding"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()  # what was found must be out before this process is killed


def _limit(seconds: int, max_bytes: int) -> None:
    """Limits of our own, in case nobody is left to end this process."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))


def main() -> None:
    job = json.loads(sys.stdin.read())
    _limit(job["timeout_s"] + 2, job["max_memory_bytes"])
    problem = ""
    search = Search(job)
    try:
        search.run()
    except MemoryError:
        problem = "it needs too much memory"
    end = {"files": search.files, "cut": search.cut, "passed": search.passed}
    _say({"end": {**end, "problem": problem, "literal": search.literal}})


if __name__ == "__main__":
    main()
