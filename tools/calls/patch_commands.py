"""A shell's command that applies a patch (`cd src && apply_patch <<'EOF' …`), read as the patch that it holds."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from ossia.tools.approval.shell_words import SHELLS, commands_in

BEGIN, END = "*** Begin Patch", "*** End Patch"
_NAMES = ("apply_patch", "applypatch")
_WORD = r"""(?:[^\s'"\\$`;&|<>(){}*?\[\]!#~]|\\.|'[^']*'|"(?:[^"\\$`]|\\.)*")+"""
"""A word in which a shell has nothing to expand."""
_GAP = r"(?:\s|\\\n)*"
_CD = re.compile(rf"cd[ \t]+(?:--[ \t]+)?({_WORD})[ \t]*(?:&&|;|\n){_GAP}")
_NAME = re.compile(r"(?:[\w./-]*[/.])?apply_?patch(?=\s|<)[ \t]*")
_HEREDOC = re.compile(r"""<<(-?)[ \t]*(?:(['"])([\w.-]+)\2|\\?([\w.-]+))[ \t]*\r?\n""")
_HEREDOCS = re.compile(r"""<<-?[ \t]*['"\\]?([\w.-]+)['"]?([^\n]*)\n(?:.*?\n)??\t*\1[ \t]*(?=\n|\Z)""", re.DOTALL)
_SINGLE = re.compile(r"""'[^']*'(?:(?:\\'|"'")'[^']*')*""")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PIECE = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)


class ShellPatch(NamedTuple):
    """A patch, and the folder that its paths count from: `""` is the one that the command runs in."""

    folder: str
    text: str


def shell_patch(script: str) -> ShellPatch | None:
    """The patch that a script for a shell applies, if it does nothing else: bare, as a word or as a here-document.

        shell_patch("cd 'my src' && apply_patch <<'EOF'\\n*** Begin Patch\\n…")  # ShellPatch("my src", "*** Begin …")

    `cd` may stand before it, with a folder that needs nothing expanded. None for any other script.
    """
    script, folder, at = script.rstrip(), "", len(script) - len(script.lstrip())
    while step := _CD.match(script, at):
        folder, at = posixpath.join(folder, _unquoted(step[1])), step.end()
    name = _NAME.match(script, at)
    if folder and not name:
        return None
    text = _argument(script[name.end() :], is_word=True) if name else _argument(script, is_word=False)
    return None if text is None else ShellPatch(folder, text)


def command_patch(words: Sequence[str], workdir: str) -> str | None:
    """The patch that a command is, for `repo_browser.apply_patch`; None for any other command.

    If its paths count from another folder than the workspace, `cd` and a name stand before it, as `shell_patch` reads.
    """
    *options, last = words
    program = posixpath.basename(options[0]) if options else ""
    if program in _NAMES and len(options) == 1:
        text = _argument(last, is_word=True)
        found = None if text is None else ShellPatch("", text)
    elif not options or (_is_shell(program) and re.fullmatch(r"-\w*c", options[-1])):
        found = shell_patch(last)
    else:
        found = shell_patch(" ".join(words)) if "&&" in words else None  # words that were meant for a shell
    if found is None:
        return None
    folder = posixpath.join(workdir, found.folder)
    plain = folder in ("", ".", "./")
    return found.text if plain else f"cd {shlex.quote(folder)} && apply_patch {shlex.quote(found.text)}"


def applies_a_patch(words: Sequence[str]) -> bool:
    """True if the command runs `apply_patch`, which is no program, whatever else it does."""
    if len(words) == 1 or _is_shell(posixpath.basename(words[0])):
        script = words[-1]
    else:
        script = " ".join(words) if "&&" in words else shlex.quote(words[0])
    script = _HEREDOCS.sub(lambda text: text[2], script)
    return any(posixpath.basename(command[0]) in _NAMES for command in commands_in(script.lower()))


def _is_shell(program: str) -> bool:
    return program in SHELLS or program in ("zsh", "dash")


def _argument(text: str, *, is_word: bool) -> str | None:
    """The patch behind the program's name; None if it is no patch, or anything follows it."""
    text = text.lstrip() if is_word else text
    heredoc = _HEREDOC.match(text) if is_word else None
    if heredoc:
        text = _body(text[heredoc.end() :], heredoc[3] or heredoc[4], tabs=not heredoc[1])
    elif is_word and text[:1] in ("'", '"'):
        text = _quoted(text.strip())
    text = text.strip("\n")
    lines = text.split("\n")
    return text if lines[0].strip() == BEGIN and lines[-1].strip() == END else None


def _body(text: str, delimiter: str, *, tabs: bool) -> str:
    """A here-document up to its delimiter, which may be missing behind a whole patch."""
    lines = text.rstrip().split("\n")
    lines = lines if tabs else [line.lstrip("\t") for line in lines]
    if lines[-1].strip() == delimiter:
        lines.pop()
    return "" if delimiter in lines else "\n".join(lines)


def _quoted(text: str) -> str:
    """A quoted word as the program gets it. One with bare quotes of its kind in it is taken as it stands."""
    if _SINGLE.fullmatch(text) or _DOUBLE.fullmatch(text):
        return _unquoted(text)
    inner = text[1:-1] if text[-1] == text[0] else ""
    return "" if text[0] == '"' and '\\"' in inner else inner


def _unquoted(word: str) -> str:
    def plain(piece: re.Match[str]) -> str:
        if piece[2] is not None:
            return re.sub(r'\\([$`"\\\n])', lambda one: one[1].strip("\n"), piece[2])
        return piece[1] if piece[1] is not None else piece[3]

    return _PIECE.sub(plain, word)
