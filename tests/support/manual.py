"""README.md and docs/ as their readers use them: fenced blocks, command lines, links and headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.command import ROOT

PAGES = {
    page.relative_to(ROOT).as_posix(): page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
"""The pages by name: `README.md`, `docs/chat.md`, …"""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)", re.DOTALL)
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"(?:[A-Z_]+=\S+ +)*(?:ossia|uv|uvx|pip|pipx|git|cd|ollama|vllm|ray)(?= |$)")
SHELL = ("sh", "shell")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: "```toml config.toml" has the language `toml` and the name `config.toml`."""

    language: str
    name: str
    text: str

    def lines(self) -> list[Line]:
        """The command lines in it, each with its output. Only a `console` block has output.

        A block with a name is a file, a `bash` block a script: tests.cli.oneshot.test_oneliners runs it whole.
        """
        if self.name or self.language == "bash":
            return []
        if self.language == "console":
            parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
            found = [next(_whole(part.splitlines())) for part in parts]
            return [
                Line(line, part.splitlines()[line.count("\n") + 1 :]) for line, part in zip(found, parts, strict=True)
            ]
        if self.language in SHELL or (not self.language and _COMMAND.match(self.text)):
            return [Line(line) for line in _whole(self.text.splitlines())]
        return []


@dataclass(frozen=True, slots=True)
class Line:
    """A command line as it is printed, and the lines printed below it."""

    text: str
    output: Sequence[str] = field(default_factory=list)

    def parts(self) -> Iterator[Part]:
        """What the shell starts, without comments: `git diff | ossia run "…"` is two programs."""
        lexer = shlex.shlex(self.text.replace("\\\n", " "), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        piped = skip = False
        for token in [*lexer, ";"]:
            if skip:
                skip = False
            elif token in ("<", ">"):
                piped, skip = piped or token == "<", True
            elif set(token) <= set("|&;"):
                if words:
                    yield _part(words, piped)
                words, piped = [], token == "|"
            else:
                words.append(token)


@dataclass(frozen=True, slots=True)
class Part:
    """One program: its variables, its words, and whether something is piped into it."""

    variables: dict[str, str]
    words: tuple[str, ...]
    piped: bool

    @property
    def text(self) -> str:
        return " ".join([*(f"{name}={value}" for name, value in self.variables.items()), *self.words])


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page's text."""
    found = []
    for match in _FENCE.finditer(page):
        language, _, name = match["info"].partition(" ")
        text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        found.append(Block(language, name, text))
    return found


def spans(page: str) -> list[str]:
    """The code in the running text, such as `ossia undo`; what was broken at a line's end is joined."""
    return [" ".join(match[1].split()) for match in _SPAN.finditer(_FENCE.sub("", page))]


def links(page: str) -> list[str]:
    """The targets of the links to other pages and to headings, not to the web."""
    found = _LINK.findall(_SPAN.sub("", _FENCE.sub("", page)))
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def anchors(page: str) -> set[str]:
    """The anchors of its headings, as GitHub makes them: "Where it's kept" is `where-its-kept`."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def words(page: str) -> int:
    """The words of a page, as `wc -w` counts them."""
    return len(page.split())


def _whole(lines: Sequence[str]) -> Iterator[str]:
    """Command lines; one may go on in the next line, after `\\` or within quotes."""
    open_lines: list[str] = []
    for line in lines:
        open_lines.append(line)
        whole = "\n".join(open_lines)
        try:
            found = shlex.split(whole, comments=True)
        except ValueError:
            continue
        if whole.endswith("\\"):
            continue
        open_lines = []
        if found:
            yield whole
    assert not open_lines, f"a quotation mark isn't closed: {open_lines[0]}"


def _part(words: Sequence[str], piped: bool) -> Part:
    variables = {}
    rest = list(words)
    while rest and re.match(r"[A-Z_]+=", rest[0]):
        name, _, value = rest.pop(0).partition("=")
        variables[name] = value
    if rest[:3] == ["uv", "run", "ossia"]:
        rest = rest[2:]
    return Part(variables, tuple(rest), piped)


def target(page: Path, link: str) -> tuple[Path, str]:
    """The file and the anchor that a link on a page leads to."""
    name, _, anchor = link.partition("#")
    return ((page.parent / name).resolve() if name else page), anchor
