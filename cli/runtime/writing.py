"""The call being written: what is written, the line, and its last lines, decoded from the arguments as they come."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from ossia.agent.events import (
    ApprovalAsked,
    Delta,
    Event,
    Progress,
    SampledAgain,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from ossia.cli.clean import clean, one_line
from ossia.harmony.messages import is_call
from ossia.tools.calls.names import BUILT_IN, resolve_name
from ossia.tools.saying import HEREDOC

_TAIL_CHARS, _LINE_CHARS, _NAME_CHARS = 4_000, 1_000, 60
_DEPTH, _NESTED = 64, 3  # containers whose kind is remembered; JSON in a text in a text
_SEARCHES = dict.fromkeys(("browser.search", "repo_browser.search"), "a search")
_KINDS = {"python": "python", "container.exec": "a command", "repo_browser.apply_patch": "a patch", **_SEARCHES}
_PATHS = frozenset(("path", "file_path", "file", "filename", "filepath", "target_file"))
_ENCODED = frozenset(("", "parameters", "arguments", "args", "kwargs", "input", "command", "cmd", "commands"))
"""The keys of texts that may be JSON themselves; "": a text instead of an object. Any other such text is a file."""
_IS_ENCODED = re.compile(r'\s*(?:\{\s*"|\[["{])')
_MAY_BE_ENCODED = re.compile(r"\s{0,99}(?:\{\s{0,99}|\[)?")

_PATCHED = re.compile(r"\*\*\* (Add|Update|Delete|End) (?:File: (.+)|Patch)")
_TARGET = re.compile(r"(?:(?<![\d&])>>?|\btee\b(?:\s+-a)?)\s*(?![&<>-])(?:'([^']+)'|\"([^\"]+)\"|([^\s<>|&;]+))")
_PYTHON = re.compile(r"\bpython[\d.]*\b")

_MARK = re.compile(r'["{}\[\],:]')
_RUN = re.compile(r'[^"\\]+')
_HIGH, _LOW, _HEX = "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}", "[0-9a-fA-F]"
_ESCAPE = re.compile(rf"\\(?:u({_HIGH})\\u({_LOW})|u({_HEX}{{4}})|(.))", re.DOTALL)
_UNFINISHED = re.compile(rf"\\(?:u(?:{_HIGH}(?:\\(?:u{_HEX}{{0,3}})?)?|{_HEX}{{0,3}})?)?")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class Writing:
    """The call being written: feed it each event, and ask as often as it is drawn. It holds a few kilobytes at most.

    writing.see(Delta(1, '{"cmd":["bash","-lc","cat > big.py <<EOF\\nimport', recipient="container.exec"))
    writing.text()      # "writing big.py · line 1"
    writing.lines(3)    # ["cat > big.py <<EOF", "import"]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since, self._index = clock, 0.0, -1
        self._call: _Call | None = None

    def see(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case Delta(index=index) if is_call(event):
                if self._call is None or index != self._index:
                    self._call, self._index, self._since = _Call(event.recipient or ""), index, self._clock()
                self._call.feed(event.text)
            case Delta() | Progress() | ApprovalAsked() | ToolStarted() | ToolFinished() | SampledAgain() | TurnEnded():
                self._call = None

    @property
    def seconds(self) -> float:
        """Since the call began."""
        return self._clock() - self._since

    def text(self) -> str:
        """`"writing big.py · line 130"`, clean; "" if no call is being written."""
        return self._call.text() if self._call else ""

    def lines(self, most: int) -> list[str]:
        """Its last lines, decoded. Still text from outside."""
        return self._call.shown.lines(most) if self._call else []


class _Text:
    """A text in the arguments: its size, its end, and the file being written in it."""

    def __init__(self) -> None:
        self.chars = 0
        self.file, self.verb, self._began = "", "writing", 0
        self._number, self._tail = 1, ""
        self._line = ""  # the one that is open
        self._end = ""  # the line that ends a heredoc

    @property
    def line(self) -> int:
        """The number of the open line in the file, else in the text."""
        return self._number - self._began

    def lines(self, most: int) -> list[str]:
        return self._tail.removesuffix("\n").split("\n")[-most:] if self._tail else []

    def add(self, piece: str) -> None:
        self.chars += len(piece)
        self._tail = (self._tail + piece[-_TAIL_CHARS:])[-_TAIL_CHARS:]
        first, *others = piece.split("\n")
        self._line += first[: _LINE_CHARS - len(self._line)]
        for other in others:
            self._over(self._line)
            self._number += 1
            self._line = other[:_LINE_CHARS]

    def _over(self, line: str) -> None:
        """A line is complete: a file may begin or end with it."""
        if self._end:
            if line.strip() == self._end:
                self._begin("")
        elif patched := _PATCHED.match(line):
            self._begin(patched[2] or "" if patched[1] in ("Add", "Update") else "")
            self.verb = "editing" if patched[1] == "Update" else "writing"
        elif heredoc := HEREDOC.search(line):
            target = _TARGET.search(line)
            name = next(filter(None, target.groups())) if target else "python" if _PYTHON.search(line) else ""
            if name:
                self._begin(name, end=heredoc[1])

    def _begin(self, file: str, *, end: str = "") -> None:
        self.file, self._end, self.verb = file, end, "writing"
        self._began = self._number if file else 0


class _Call:
    """The arguments of one call: JSON, or a text as it is."""

    def __init__(self, recipient: str) -> None:
        name = resolve_name(recipient, BUILT_IN) or recipient.removeprefix("functions.")
        self._kind = _KINDS.get(name) or f"a call of {clean(one_line(name, _NAME_CHARS))}"
        self._raw = name == "python"
        self._head = ""  # until it is known which of the two
        self._json: _Json | None = None
        self._path = ""
        self._open: tuple[str, _Text] | None = None
        self.shown = _Text()  # the longest, if it is JSON

    def text(self) -> str:
        shown = self.shown
        file = shown.file or (self._path if shown.line > 1 else "")
        what = clean(one_line(file, _NAME_CHARS)) or self._kind
        return f"{shown.verb} {what}{f' · line {shown.line}' if shown.file or shown.line > 1 else ''}"

    def feed(self, text: str) -> None:
        if self._raw:
            self.shown.add(text)
        elif self._json:
            self._json.feed(text)
        else:
            self._begin(self._head + text)

    def _begin(self, text: str) -> None:
        """Decide by the first character behind blanks and the first line of a fence."""
        bare = text.lstrip()
        if bare.startswith("`"):
            bare = bare.partition("\n")[2].lstrip()
        if not bare:
            self._head = text[:_LINE_CHARS]
            return
        self._json = _Json(self) if bare[0] in '{["' else None
        self._raw, self._head = self._json is None, ""
        self.feed(bare)

    # -- from the JSON -------------------------------------------------------------------------------------------------

    def add(self, key: str, piece: str, *, begins: bool) -> None:
        """A piece of a text."""
        if begins or self._open is None:
            self._open = key, _Text()
        text = self._open[1]
        text.add(piece)
        if key not in _PATHS and text.chars > self.shown.chars:
            self.shown = text

    def close(self) -> None:
        """A text is whole."""
        if self._open and self._open[0] in _PATHS:
            self._path = "".join(self._open[1].lines(1))
        self._open = None


class _Json:
    """The texts in JSON, fed in any pieces: `call` gets them. Faults are skipped."""

    def __init__(self, call: _Call, nested: int = 0) -> None:
        self._call, self._nested = call, nested
        self._held = ""  # an escape that isn't whole
        self._inside = self._is_key = False
        self._open = ""  # brackets
        self._key = ""
        self._begun = False
        self._head: str | None = None  # of a text that may be JSON itself
        self._inner: _Json | None = None

    def feed(self, text: str) -> None:
        text, self._held, at = self._held + text, "", 0
        while at < len(text):
            if not self._inside:
                at = self._outside(text, at)
                continue
            at, pieces, closed = self._string(text, at)
            self._take("".join(pieces))
            if closed:
                self._close()

    def _string(self, text: str, at: int) -> tuple[int, list[str], bool]:
        """The decoded pieces of a string from `at` on, their end, and whether it is the string's."""
        pieces = list[str]()
        while at < len(text):
            if text[at] == '"':
                return at + 1, pieces, True
            if run := _RUN.match(text, at):
                pieces.append(run[0])
                at = run.end()
            elif _UNFINISHED.fullmatch(text, at):
                self._held = text[at:]
                break
            else:
                escape = _ESCAPE.match(text, at)
                assert escape is not None
                pieces.append(_decoded(escape))
                at = escape.end()
        return len(text), pieces, False

    def _outside(self, text: str, at: int) -> int:
        mark = _MARK.search(text, at)
        if mark is None:
            return len(text)
        match mark[0]:
            case '"':
                self._inside, self._begun = True, False
                self._key = "" if self._is_key or not self._open else self._key
                self._head = "" if self._key in _ENCODED and self._nested < _NESTED and not self._is_key else None
            case "{" | "[":
                self._open = (self._open + mark[0])[-_DEPTH:]
                self._is_key = mark[0] == "{"
            case "}" | "]":
                self._open, self._is_key = self._open[:-1], False
            case ",":
                self._is_key = self._open.endswith("{")
            case ":":
                self._is_key = False
        return mark.end()

    def _take(self, piece: str, *, closed: bool = False) -> None:
        if self._is_key:
            self._key += piece[: _NAME_CHARS - len(self._key)]
            return
        if self._head is not None:
            piece = self._head + piece
            if _MAY_BE_ENCODED.fullmatch(piece) and not closed:
                self._head = piece
                return
            self._head = None
            self._inner = _Json(self._call, self._nested + 1) if _IS_ENCODED.match(piece) else None
        if self._inner:
            self._inner.feed(piece)
        elif piece:
            self._call.add(self._key, piece, begins=not self._begun)
            self._begun = True

    def _close(self) -> None:
        self._take("", closed=True)
        if self._begun:
            self._call.close()
        self._inside, self._inner = False, None


def _decoded(escape: re.Match[str]) -> str:
    high, low, code, char = escape.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF))
    if code:
        return "\ufffd" if 0xD800 <= int(code, 16) < 0xE000 else chr(int(code, 16))
    return _ESCAPED.get(char, char)
