"""The code blocks of an answer: `/copy code` in the chat, `ossia run -x`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SAME = {
    "c++": "cpp", "js": "javascript", "md": "markdown", "py": "python", "rs": "rust", "sh": "bash", "shell": "bash",
    "ts": "typescript", "yml": "yaml",
}  # fmt: skip
"""Names that people and models use for one another."""
_END = re.compile(r"[\s,:{]")  # of the language: `python title="x"`, `rust,ignore`


@dataclass(frozen=True, slots=True)
class Block:
    """A code block: its language as the answer names it ("" without one), its text, which ends with a newline."""

    language: str
    text: str

    def is_in(self, language: str) -> bool:
        """Is it in that language? `Block("Python", "…").is_in("py")` is true."""
        return _plain(self.language) == _plain(language)


@dataclass(frozen=True, slots=True)
class Extract:
    """The blocks that are wanted of an answer: the last one, or `every` one; None for `language`: in any."""

    language: str | None = None
    every: bool = False

    def of(self, answer: str) -> str | None:
        """Their text, a blank line between two; None: the answer has no such block.

        Extract("py").of(answer)                # "print(48*17)\\n"
        """
        blocks = [one for one in code_blocks(answer) if self.language is None or one.is_in(self.language)]
        return "\n".join(one.text for one in blocks[0 if self.every else -1 :]) if blocks else None


def code_blocks(answer: str) -> list[Block]:
    """The fenced blocks of a Markdown text, or else the indented ones; without those that are blank.

    As the text stands there: a block in a list or a quote without its indentation or `>`. One that isn't closed goes to
    the end of the text. Line ends are newlines.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).disable("inline")
    tokens = [token for token in parser.parse(answer) if token.content.strip()]
    found = [token for token in tokens if token.type == "fence"] or [one for one in tokens if one.type == "code_block"]
    return [Block(_END.split(token.info, 1)[0], f"{token.content.removesuffix(chr(10))}\n") for token in found]


def _plain(language: str) -> str:
    return _SAME.get(language.lower(), language.lower())
