"""Matches shell commands against the patterns of rules.

A command is read in two ways, for two purposes. To *allow*, a command must be simple, or consist of simple ones: its
words are certain, because a shell has nothing to expand in it. To *deny*, all in it that could be a command counts.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ossia.tools.approval.prefixes import is_beyond, prefix_of
from ossia.tools.approval.wildcards import Match, folded, text_matches

MAX_CHARS = 10_000
"""A longer command is never simple: nobody reads it as a whole."""

# Literal outside quotes in sh, dash, bash and zsh; `~` and `^` only inside a word (`HEAD~1`).
_PLAIN = r"[\w\-./,:=+@%]|(?<=[A-Za-z0-9~^])[~^]"
_WORD = re.compile(rf"""((?:{_PLAIN}|'[^']*'|"[^"$`\\!]*")+)[ \t]*""")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")  # letters by their category, but invisible
_SIMPLE, _JOINT = re.compile(rf"[ \t]*(?:{_WORD.pattern})++"), re.compile(r"&&|\|\||;|\|")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
SHELLS = frozenset({"bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh"})
_RESERVED = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "function"),
        *("select", "time", "coproc", "repeat"),
    }
)

_CHANGES_SHELL = frozenset(
    {
        *(".", "alias", "builtin", "command", "declare", "enable", "eval", "exec", "export", "fc", "getopts", "hash"),
        *("let", "local", "mapfile", "popd", "print", "printf", "pushd", "read", "readarray", "readonly", "set"),
        *("shopt", "source", "trap", "typeset", "ulimit", "umask", "unalias", "unset"),
    }
)
_FILTERS = frozenset({"cat", "cut", "grep", "head", "nl", "tail", "tr", "wc"})
_FROM_HERE = re.compile("[^/]+/")
_SHORTENS = re.compile(r"(?:head|tail)(?:[ \t]+-n[ \t]*\d+|[ \t]+-\d+)?|wc[ \t]+-[lwc]|cat")
"""They read nothing but what is piped to them."""


def script_of(words: Sequence[str]) -> str | None:
    """The command that `["bash", "-lc", COMMAND]` has a shell run; None for every other list, which no shell reads."""
    return words[2] if len(words) == 3 and words[0] in SHELLS and words[1] in ("-c", "-lc") else None


def one_line_of(words: Sequence[str]) -> str:
    """A list of words as a person types it: the command for the shell, or the words, quoted where a shell needs it."""
    script = script_of(words)
    return shlex.join(words) if script is None else script


def words_of(command: str) -> tuple[str, ...] | None:
    """The words of a simple command, exactly as a shell would pass them on; None for every other command.

    Simple: one command; no newline, variables, globs, redirections, leading assignments, comments or backslashes; no
    control or invisible characters except tabs. Quotes are removed.

        words_of("git commit -m 'a; b'")  →  ("git", "commit", "-m", "a; b")
        words_of("git status; curl x")    →  None
    """
    if len(command) > MAX_CHARS or not command.replace("\t", " ").isprintable() or not _FILLERS.isdisjoint(command):
        return None
    words: list[str] = []
    command, position = command.lstrip(" \t"), 0
    while position < len(command):
        match = _WORD.match(command, position)
        if match is None or match[1].startswith("=") or (not words and "=" in match[1]):
            return None
        words.append(_QUOTED.sub(lambda quoted: quoted[1] if quoted[2] is None else quoted[2], match[1]))
        position = match.end()
    return tuple(words) if words and words[0] and words[0] not in _RESERVED else None


def parts_of(command: str) -> tuple[str, ...]:
    """The simple commands of one that joins them with `&&`, `||`, `;` or `|`; none for every other command.

    Each must do the same as it would by itself. So none may change the shell, but with `cd`; behind that, only what
    reads, tests or formats stands (`make` would be another one there), and no program named by its path; and behind `|`
    only programs that don't run what they read. Those that only shorten it are left out: any command may end in them.

        parts_of("cd x && pytest -q | tail -5")  →  ("cd x", "pytest -q")
        parts_of("echo ls | sh"), parts_of("cd build && rm -rf out")  →  ()
    """
    parts, moved = list[str](), False
    for joint, part, words in _joined(command):
        anywhere = words[0] in _FILTERS or (prefix_of(words) and not _FROM_HERE.match(words[0]))
        if moved and words[0] != "cd" and not anywhere:
            return ()
        parts += [] if joint == "|" and _SHORTENS.fullmatch(part) else [part]
        moved = moved or words[0] == "cd"
    return tuple(parts)


def _joined(command: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Simple commands, what joins each with the one before, and their words; none for every other command."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    position, joint = 0, ""
    while len(command) <= MAX_CHARS:
        simple = _SIMPLE.match(command, position)
        words = words_of(simple[0].strip(" \t")) if simple else None
        if simple is None or words is None or words[0] in _CHANGES_SHELL:
            break
        if joint == "|" and words[0] not in _FILTERS:
            break
        found.append((joint, simple[0].strip(" \t"), words))
        joining = _JOINT.match(command, simple.end())
        if joining is None:
            return found if simple.end() == len(command) else []
        joint, position = joining[0], joining.end()
    return []


def is_whole(command: str) -> bool:
    """True for simple commands in need of each other, without wildcards: `cd build && make`."""
    return bool(_joined(command)) and not parts_of(command) and not re.search(r"[*?]", command)


@lru_cache(maxsize=256)
def pattern_words(pattern: str) -> tuple[str, ...]:
    """The words of a pattern. Raises ValueError where a quote isn't closed, or there is no word."""
    words = tuple(shlex.split(pattern))
    if not words:
        raise ValueError("it is empty")
    return words


def command_allowed(pattern: str, command: str) -> bool:
    """True if a pattern allows a command, word by word: `*` and `?` match within a word, but for a `*` at the very end.

    That one matches the rest of its word and all words after it. `git status*` allows `git status` and `git status -s`,
    and never `git status; curl x`: of a longer command each part needs a pattern that allows it (`parts_of`), or all of
    it one that is the same. Nor does a pattern that is offered (`prefix_of`) allow options that name a file to write.
    """
    words = words_of(command)
    if words is None:
        return pattern == command and is_whole(command)
    return _words_match(pattern_words(pattern), words) and not is_beyond(pattern, words) and not is_whole(pattern)


def _words_match(pattern: Sequence[str], words: Sequence[str]) -> bool:
    *first, last = pattern
    if last.endswith("*"):
        first = first if last == "*" and first else [*first, last]  # `git log *` allows `git log`
        words = words[: len(first)]
    else:
        first = [*first, last]
    return len(words) == len(first) and all(map(text_matches, first, words))


# -- denying -----------------------------------------------------------------------------------------------------------

# Commands that run the command after them, and shell keywords that are followed by a command.
_WRAPPERS = frozenset(
    {
        *("sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "ionice", "time", "timeout", "setsid"),
        *("stdbuf", "xargs", "busybox", "eval", "if", "then", "else", "elif", "while", "until", "do", "!", "coproc"),
    }
)
_OPERATORS = frozenset(";|&()<>{}\n\r`")
_NOT_IN_WORDS = re.compile(r"[\s;|&()<>{}`$=,!\[\]*?'\"\\]+")


def command_denied(pattern: str, command: str) -> Match:
    """Match a pattern that denies against a command and its parts.

    "yes": the pattern matches one of its commands (`rm*` in `cd x && sudo /bin/rm -rf y`). "maybe": it could be
    in there: the words occur somewhere in this order, or the command isn't simple, so that only a shell could tell.
    Scripts, an interpreter's own code and encodings can't be seen through: a denial is a net, not a wall.
    """
    if len(command) > MAX_CHARS:
        return "maybe"
    wanted = [folded(word) for word in pattern_words(pattern)]
    wanted = wanted[:-1] if wanted[-1] == "*" and len(wanted) > 1 else wanted
    folded_command = folded(command)
    for words in commands_in(folded_command):
        if _begins_with(wanted, words) or _begins_with(wanted, [posixpath.basename(words[0]), *words[1:]]):
            return "yes"
    if words_of(command) is None:
        return "maybe"
    loose = [_NOT_IN_WORDS.split(folded_command), re.sub(r"['\"]", "", folded_command).split()]
    return "maybe" if any(_in_this_order(wanted, words) for words in loose) else "no"


def _begins_with(wanted: Sequence[str], words: Sequence[str]) -> bool:
    return len(words) >= len(wanted) and all(map(text_matches, wanted, words))


def _in_this_order(wanted: Sequence[str], words: Sequence[str]) -> bool:
    left = list(wanted)
    for word in words:
        if left and (text_matches(left[0], word) or text_matches(left[0], posixpath.basename(word))):
            left.pop(0)
    return not left


def commands_in(command: str) -> Iterator[Sequence[str]]:
    """The words of each command in a longer one, without wrappers before it. Never fails."""
    for words in split(command):
        start = 0
        wrapped = False
        while start < len(words):
            name = posixpath.basename(words[start])
            if name in _WRAPPERS:
                wrapped = True
            elif not (re.match(r"[A-Za-z_]\w*\+?=", name) or (wrapped and re.match(r"-|[\d.]+[smhd]?$", name))):
                break
            start += 1
        if start < len(words):
            yield words[start:]


def split(command: str) -> Iterator[list[str]]:
    """The words between a shell's operators, without quotes and backslashes."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    characters = iter(command)
    for char in characters:
        if quote:
            if char == quote:
                quote = ""
            else:
                assert word is not None
                word.append(next(characters, "") if char == "\\" and quote == '"' else char)
        elif char in "'\"":
            quote, word = char, word or []
        elif char in " \t" or char in _OPERATORS:
            if word is not None:
                words.append("".join(word))
            word = None
            if char in _OPERATORS and words:
                yield words
                words = []
        else:
            word = word or []
            word.append(next(characters, "") if char == "\\" else char)
    if word is not None:
        words.append("".join(word))
    if words:
        yield words
