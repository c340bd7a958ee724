"""The candidates for a word of a command line, in the form that a shell's script reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from typer._click.shell_completion import _resolve_context, _resolve_incomplete  # what click's own scripts call

from ossia.cli.clean import clean, one_line
from ossia.cli.completion.line import quoted, read
from ossia.cli.completion.values import HELP_CHARS, Candidate, More, values_of

_LISTING = ("33", "63", "64")
"""The kinds of completion (COMP_TYPE) in which bash lists candidates: what is behind their common part isn't typed."""


def answer(shell: str, asked: Sequence[str], command: Any) -> list[str]:
    """The lines for a shell's script: what else the shell itself offers there, then each candidate.

    `asked`: of bash the line up to the cursor, the part of its last word that is replaced, COMP_TYPE; of the others the
    words behind `ossia`, the last one at the cursor. `command` is `ossia`, as typer has it. Raises nothing: what can't
    be read isn't offered.

        answer("fish", ["run", "--eff"], command)    → ["none", "--effort\\tReasoning effort: low, medium or high."]
    """
    if shell == "bash":
        return _for_bash(command, *asked)
    word = read(asked[-1]).word if shell == "fish" else asked[-1]  # fish gives it as it was typed
    more, found = _candidates(command, asked[:-1], word)
    if shell == "fish":
        return [more, *(f"{value}\t{about}" for value, about in found)]
    texts = [(value.replace("\\", "\\\\").replace(":", "\\:"), about) for value, about in found]
    return [more, *(f"{value}:{about}" if about else value for value, about in texts)]


def _for_bash(command: Any, line: str, replaced: str, kind: str) -> list[str]:
    typed = read(line)
    if typed.redirects:
        return ["files"]
    more, found = _candidates(command, typed.words, typed.word)
    part = typed.word.removesuffix(replaced if typed.quote else read(replaced).word)  # bash begins anew at : and =
    texts = [(quoted(value.removeprefix(part), typed.quote), about) for value, about in found]
    lists = kind in _LISTING and len(texts) > 1
    return [more, *(f"{value}  ({about})" if lists and about else value for value, about in texts)]


def _candidates(command: Any, words: Sequence[str], word: str) -> tuple[More, list[Candidate]]:
    """The candidates that begin with `word`, whole and clean."""
    more: More = "none"
    found: Iterable[Candidate] = ()
    rest, asks = word, False
    with suppress(Exception):  # a command line that nobody could run, a file that can't be read
        context = _resolve_context(command, {}, "ossia", [*words])
        asks = context.parent is None  # `ossia -t review` is `ossia run -t review`
        wanted, rest = _resolve_incomplete(context, [*words], word)
        if wanted is not context.command or context.parent or rest.startswith("-") or not words:
            more, found = values_of(context, wanted, rest)
    flag = word.removesuffix(rest)  # --effort=
    every = {flag + value: about for value, about in found if value.startswith(rest) and value.isprintable()}
    cleaned = {value: clean(one_line(about, HELP_CHARS)) for value, about in every.items()}
    if asks and words[:1] != ["run"]:
        of_run, others = _candidates(command, ["run", *words], word)
        more, cleaned = of_run if more == "none" else more, dict(others) | cleaned
    return more, [*cleaned.items()]
