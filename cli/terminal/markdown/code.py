"""Code with colours: pygments' tokens in the 16 colours of the terminal; lines are not wrapped."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.style import Style

from ossia.cli.clean import fitted, one_line
from ossia.cli.terminal.markdown._rows import PLAIN, Span, style

if TYPE_CHECKING:
    from pygments.lexer import Lexer

    _Type = Any  # pygments' token types have no name in its stubs

MAX_CHARS = 6000  # of a piece with its context; more is shown without colours
_INFO_CHARS, _SIDE = 40, "──"
MAX_LINE_CHARS = 500  # some of pygments' expressions take quadratic time on long lines

# The lexers that are used, by pygments' first name for each. Not all 600: some need seconds for a few lines of blanks
# (autoit: 18 s for 10 KB), and it is the model that names the language. Tried against such lines: the slowest of these
# (make, terraform) take 0.2 s for as much as is ever given to them, on a busy machine.
_LANGUAGES = frozenset(
    (
        *("awk", "bash", "batch", "c", "clojure", "cmake", "common-lisp", "console", "cpp", "csharp", "css", "cuda"),
        *("dart", "diff", "docker", "elixir", "erlang", "fish", "fortran", "fsharp", "gas", "glsl", "go", "graphql"),
        *("groovy", "haskell", "html", "http", "ini", "java", "javascript", "json", "jsx", "julia", "kotlin"),
        *("less", "lua", "make", "markdown", "matlab", "nasm", "nginx", "nimrod", "nixos", "objective-c", "ocaml"),
        *("perl", "php", "postgresql", "powershell", "prolog", "properties", "protobuf", "pycon", "pytb", "python"),
        *("ruby", "rust", "sass", "scala", "scheme", "scss", "solidity", "splus", "sql", "swift", "tcl", "terraform"),
        *("tex", "toml", "tsx", "typescript", "verilog", "vhdl", "vim", "vue", "xml", "yaml", "zig"),
    )
)

# Readable on light and on dark: no yellow, no white, no blue.
_THEME = {
    "Token": "",
    "Token.Comment": "dim italic",
    "Token.Comment.Preproc": "magenta",
    "Token.Keyword": "magenta",
    "Token.Keyword.Constant": "cyan",
    "Token.Operator.Word": "magenta",
    "Token.Literal.String": "green",
    "Token.Literal.String.Escape": "cyan",
    "Token.Literal.String.Interpol": "cyan",
    "Token.Literal.Number": "cyan",
    "Token.Name.Function": "bold",
    "Token.Name.Class": "bold",
    "Token.Name.Decorator": "magenta",
    "Token.Name.Tag": "magenta",
    "Token.Name.Attribute": "cyan",
    "Token.Name.Builtin": "cyan",
    "Token.Name.Exception": "cyan",
    "Token.Name.Variable": "cyan",
    "Token.Generic.Heading": "bold",
    "Token.Generic.Subheading": "bold",
    "Token.Generic.Deleted": "red",
    "Token.Generic.Inserted": "green",
    "Token.Generic.Emph": "italic",
    "Token.Generic.Strong": "bold",
    "Token.Generic.Prompt": "dim",
}
# For Java's method names pygments has an expression that takes cubic time on words with only blanks between them.
_WORDS_IN_A_ROW = re.compile(r"(?:[\w.\[\]$<>?]++\s++){40}")
UNKNOWN = "cyan"  # code in no known language, and code in a line of prose


def code_lines(
    source: str, info: str, *, context: str = "", colour: bool = True, unknown: str = UNKNOWN
) -> list[list[Span]]:
    """The lines of the code. `context`: the lines before it: a docstring stays a docstring.

    `unknown`: the style of code in no known language.
    """
    lines = source.removesuffix("\n").split("\n")
    lexer = _lexer(info) if colour else None
    if lexer is None:
        return [[(line, style(unknown) if colour else PLAIN)] for line in lines]
    before = context.removesuffix("\n").split("\n") if context else []
    if sum(map(len, before)) + sum(map(len, lines)) > MAX_CHARS or max(map(len, before), default=0) > MAX_LINE_CHARS:
        before = []
    if sum(map(len, lines)) > MAX_CHARS or max(map(len, lines)) > MAX_LINE_CHARS:
        return [[(line, PLAIN)] for line in lines]
    text = "\n".join([*before, *lines, ""])  # the lexers of interactive sessions drop a last line without a newline
    if lexer.name == "Java" and _WORDS_IN_A_ROW.search(text):
        return [[(line, PLAIN)] for line in lines]
    spans = _coloured(text, lexer)[len(before) :][: len(lines)]
    shown = ["".join(text for text, _ in line) for line in spans]
    return spans if shown == lines else [[(line, PLAIN)] for line in lines]  # a lexer must not change the text


def edged(
    lines: list[list[Span]], info: str, width: int, look: Style, *, begins: bool = True, ends: bool = True
) -> list[list[Span]]:
    """The lines between two rules, the upper one with the language: a line that is copied from there is the line.

    ── python ──
    x = 1
    ────────────
    """
    label = fitted(one_line(info, _INFO_CHARS), width - 2 * cell_len(_SIDE) - 2)
    rule = f"{_SIDE} {label} {_SIDE}" if label else 4 * _SIDE
    top, bottom = [(rule, look)], [("─" * cell_len(rule), look)]
    return [*([top] if begins else []), *lines, *([bottom] if ends else [])]


def _coloured(text: str, lexer: Lexer) -> list[list[Span]]:
    lines: list[list[Span]] = [[]]
    for kind, value in lexer.get_tokens(text):
        look = _look(kind)
        first, *more = value.split("\n")
        lines[-1].append((first, look))
        lines += [[(part, look)] for part in more]
    return lines


@cache
def _look(kind: _Type) -> Style:
    while (name := str(kind)) not in _THEME:
        kind = kind.parent
    return style(_THEME[name])


@lru_cache(64)
def _lexer(info: str) -> Lexer | None:
    """The lexer named by the first word of the info string; not from plugins."""
    from pygments.lexers import get_lexer_by_name

    name = info.split()[0].lower().strip("{}.") if info.split() else ""
    if name not in _names():
        return None
    lexer: Lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    return lexer


@cache
def _names() -> frozenset[str]:
    from pygments.lexers import get_all_lexers

    lexers = (aliases for _, aliases, _, _ in get_all_lexers(plugins=False) if aliases and aliases[0] in _LANGUAGES)
    return frozenset(alias for aliases in lexers for alias in aliases)
