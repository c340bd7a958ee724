"""User turns that the étude must never be trained on: `python -m tests.etude.reserved` writes them to `reserved.txt`.

They are all that could be a user's turn in the README, in `docs/` and in the tests, the questions of the model card's
transcripts and the calls in everyday words (`exam/plain.py`) included. The generator of the training data asks none of
them, so that an answer seen there is no recall; but for "hello" and "hi", which everybody says.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.etude.exam import others
from tests.support.command import ROOT

PATH = Path(__file__).parent / "reserved.txt"
_MAX_CHARACTERS = 120
_MAX_LINES = 8
_ASKS_THE_TRAINED_MODEL = frozenset({"evaluate", "transcripts"})
"""Of `tests/etude/` only these: what the other modules spell is what it is trained on."""

_SAID_BY_EVERYBODY = frozenset({"hello", "hi"})
"""What most people say first: training asks it, though the tests quote it."""

_USER_TURN = re.compile(r"<\|start\|>user<\|message\|>(.*?)<\|end\|>", re.DOTALL)
_QUOTED = re.compile(r'"([^"\n]+)"|“([^”\n]+)”|`([^`\n]+)`|(?<!\w)\'([^\'\n]+)\'(?!\w)')
_ASKED = re.compile(r"ossia run [^\"\n]*\"([^\"\n]+)\"")
_MAY_ASK = re.compile(r"\b(?:ossia|_asked|Scene)\(")
_SUM = re.compile(r"[\d\s()+*/.,=?-]*\d[\d\s()+*/.,=?-]*[-+*/][\d\s()+*/.,=?-]*")
_PATH_OR_NAME = re.compile(r"\S*[\\/_=:@<>\[\]{}|$]\S*|\S+\.\w+|-\S+")
_MARKUP = re.compile(r"[{}<>\[\]\\|【]|\w\(|::|=>|==|^(?:#|L\d+:|import |from \w+(?:\.\w+)* import )")


def normalise(text: str) -> str:
    """`text` as user turns are compared: NFKC, no capitals, single blanks, no quotes or .?! around it.

    normalise("  What is 48*17?\\n")      # "what is 48*17"
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return plain.strip(" \"'`“”‘’.?!…,;:")


def collect(root: Path) -> frozenset[str]:
    """The normalised texts of a clone's README, docs and tests that could be user turns.

    It takes too many rather than too few: every quoted text of a page, every string constant of a test, if it has at
    most 120 characters (a line of up to eight) and is neither a path, a flag, JSON nor code.
    """
    texts = [text for page in _pages(root) for text in _in_page(page.read_text(encoding="utf-8"))]
    texts += [text for module in _modules(root) for text in _in_module(module.read_text(encoding="utf-8"))]
    texts += [turn for file in (root / "tests").rglob("*.txt") for turn in _USER_TURN.findall(file.read_text("utf-8"))]
    turns = (turn for text in texts for turn in _turns(text))
    return _reserved(turns)


def asked(root: Path) -> frozenset[str]:
    """Those of them that surely are asked: after `ossia run` in the pages and the tests, and in the transcripts."""
    texts = [text for page in _pages(root) for text in _ASKED.findall(page.read_text(encoding="utf-8"))]
    texts += [text for module in _modules(root) for text in _asked_in(module.read_text(encoding="utf-8"))]
    return _reserved(texts)


@cache
def load() -> frozenset[str]:
    """What the command wrote, and what others wrote (`exam/others.py`)."""
    return written() | frozenset(map(normalise, others.turns()))


@cache
def written() -> frozenset[str]:
    """What the command wrote."""
    return frozenset(PATH.read_text(encoding="utf-8").splitlines())


def could_be_asked(text: str) -> bool:
    """Whether a person could type `text` as a whole turn: words or a sum, on one line, no path, flag or code."""
    text = text.strip()
    if not 0 < len(text) <= _MAX_CHARACTERS or any(unicodedata.category(one) in ("Cc", "Cs") for one in text):
        return False
    if _SUM.fullmatch(text):
        return True
    if not any(one.isalpha() for one in text) or _MARKUP.search(text):
        return False
    return " " in text or not _PATH_OR_NAME.fullmatch(text.rstrip(".?!"))


def _reserved(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(normalise(text) for text in texts if could_be_asked(text)) - _SAID_BY_EVERYBODY - {""}


def _turns(text: str) -> Iterator[str]:
    lines = text.strip().splitlines()  # a plain chat takes a turn a line
    yield from lines if len(lines) <= _MAX_LINES else ()
    yield from _USER_TURN.findall(text)


def _pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def _modules(root: Path) -> list[Path]:
    modules = sorted((root / "tests").rglob("*.py"))
    recipe = root / "tests" / "etude"
    asking = [one for one in modules if recipe not in one.parents or one.stem in _ASKS_THE_TRAINED_MODEL]
    return [one for one in asking if one.stem != "test_wording"]  # it spells what training says


def _in_page(text: str) -> Iterator[str]:
    yield from text.splitlines()
    yield from _ASKED.findall(text)
    for groups in _QUOTED.findall(text):
        yield from filter(None, groups)


def _in_module(source: str) -> Iterator[str]:
    """String constants, docstrings and the pieces of f-strings left out; what is piped in is bytes."""
    nodes = list(ast.walk(ast.parse(source)))
    skipped = {id(part) for node in nodes for part in _not_said(node)}
    for node in nodes:
        if not isinstance(node, ast.Constant) or id(node) in skipped:
            continue
        if isinstance(node.value, str):
            yield node.value
        elif isinstance(node.value, bytes):
            yield node.value.decode(errors="replace")


def _not_said(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Expr):
        return [node.value]
    return node.values if isinstance(node, ast.JoinedStr) else []


def _asked_in(source: str) -> Iterator[str]:
    """What `ossia("run", …)` asks the built-in model, `_asked(…)` of `test_tools.py`, and each `Scene(…)`."""
    for node in ast.walk(ast.parse(source)) if _MAY_ASK.search(source) else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
        texts = [value for value in constants if isinstance(value, str)]
        if node.func.id == "ossia" and texts[:1] == ["run"] and "--engine" not in texts:
            yield from texts[1:2]
        elif node.func.id == "_asked":
            yield from texts[:1]
        elif node.func.id == "Scene":
            yield from (text for part in node.args[2:3] for text in ast.literal_eval(part))


def main() -> None:
    """Add to `reserved.txt`, one normalised turn a line, what it lacks. What stands there stays: training knew it."""
    from tests.etude.exam.plain import plain_turns  # it needs the generator, which needs this module

    before = written() if PATH.exists() else frozenset()
    turns = sorted(before | collect(ROOT) | set(map(normalise, plain_turns())))
    PATH.write_text("\n".join(turns) + "\n", encoding="utf-8")
    print(f"{PATH.name} has {len(turns)} turns, {len(turns) - len(before)} of them new")


if __name__ == "__main__":
    main()
