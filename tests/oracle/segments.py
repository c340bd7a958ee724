"""Streamed Markdown against Markdown at once: `python -m tests.oracle.segments --count 4000 --seed 1`.

For random texts of the fragments that make block parsers stumble: (a) however the text is split, the chunks are the
same; (b) the chunks' blocks, one after the other, are the blocks of the whole text (lists as their items), but for
texts over a cap, which are cut on purpose. Prints each difference and ends with 1 when there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable

from ossia.cli.terminal.markdown._chunk import BLOCK_CHARS, BLOCK_LINES, LONG_LINE, PARAGRAPH_LINES
from ossia.cli.terminal.markdown._markdown import block_parser
from ossia.cli.terminal.markdown.segment import Chunk, Segmenter

FRAGMENTS = (
    *("- a\n", "* b\n", "1. x\n", "2. y\n", "7) z\n", "-\n", "+ \n", "  - n\n", "   cont\n", "  c\n", "    ind\n"),
    *("\n", "\n", "\n", "para\n", "lazy **b\n", "text with no newline", "\t tab\n", "- \ttab\n", "[r]: /u\n", "[r]\n"),
    *("---\n", "===\n", "***\n", "# h\n", "####### no\n", "```\n", "```py\n", "````\n", "~~~\n", "  ```\n", "```a`b\n"),
    *("> q\n", ">\n", "> - i\n", "> ```\n", "| a | b |\n", "|---|---|\n", "| - |\n", "|:-\n", "<div>\n", "</div>\n"),
    *("<!--\n", "-->\n", "$$\n", "\\[\n", "\\]\n", "x $$\n", "\\[ y \\]\n", "  $$\n", "- $$\n", "\\\n", "&amp;\n"),
)
CASES = (
    "# h\ntext\n---\nx\n",
    "a\n\n- b\n- c\n\n- d\n\npara\n",
    "1. a\n\n   b\n2. c\n",
    "- a\n  ```py\n  x\n\n  y\n  ```\n- b\n",
    "    code\n\n    more\n\nend\n",
    "para\n| a | b |\n|---|---|\n| 1 | 2 |\n\nx\n",
    "> q\nlazy\n\n> r\n",
    "<div>\nhi\n\n</div>\n\n<script>\na\n\nb\n</script>\nx\n",
    "[a]: http://x.y\n\n[a] z\n",
    "```\nunclosed\n",
    "~~~ py\na\n```\n~~~\nb\n",
    "x\n```\ncode\n```\ny",
    "- a\n- b\n* c\n1) d\n2. e\n",
    "\n\n\n```a`b\nx\n```\n",
    "- \n  foo\n\n  bar\n-\n\n  baz\n",
    "text\n\\[\n- a\n===\n\\]\n- b\n$$\nx\n\nunclosed\n",
)
LONG = (
    "a\n" * 250 + "---\nb\n",
    "a\n" * 101 + "\nb\n",
    "w " * 3000 + "\n\nx\n",
    "- " + "x" * 5000 + "\n- b\n",
    "x" * 2199 + "\n" + "y" * 2200 + "\n" + "z" * 2201 + "\nq",
    "a " * 1000 + "\nb\n---\n",
    "|a|b|\n|-|-|\n" + "|1|2|\n" * 450 + "\nend\n",
    "- a\n" + "  b\n" * 500 + "- c\n",
    "3. a\n   ```py\n" + "   x\n\n" * 300 + "   ```\n4. c\n",
    "- a\n\n" + "  - b\n\n    c\n" * 150 + "d\n",
    "> a\n" * 450 + "lazy\n\n- b\n",
    "    code\n\n" * 200 + "end\n",
    "```py\n" + "x = 1\n" * 130 + "```\nend\n",
    "```\n" + "x" * 120_000 + "\n```\n" + "y" * 3000 + "\n",
)


def chunks(text: str, cuts: Iterable[int]) -> list[Chunk]:
    """What a Segmenter gives for the text, fed in pieces that end at `cuts`."""
    segmenter, done, start = Segmenter(), [], 0
    for cut in (*cuts, len(text)):
        done += segmenter.feed(text[start:cut])
        start = cut
    return done + segmenter.finish()


def splits(text: str, rng: random.Random, count: int) -> list[list[int]]:
    """Places to split the text: few, some, or between all characters."""
    wanted = (min(len(text), rng.choice((1, 3, 10, 100, len(text)))) for _ in range(count))
    return [sorted(rng.sample(range(len(text) + 1), many)) for many in wanted]


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randrange(2, 18)))


Shape = list[tuple[str, str, int, str]]


def blocks(text: str) -> Shape:
    """Type, tag, level and text of each block; top-level lists as their items, empty fences left out."""
    shape: Shape = []
    for token in block_parser().parse(text):
        if token.level == 0 and "_list_" in token.type:
            continue
        code = token.type in ("fence", "code_block")
        if not (token.type == "fence" and token.level == 0 and not token.content.strip()):
            shape.append((token.type, token.tag, token.level, token.content.rstrip("\n") if code else token.content))
    return shape


def blocks_of(pieces: list[Chunk]) -> Shape:
    """The same of chunks, the pieces of a fence joined."""
    shape: Shape = []
    for piece in pieces:
        if piece.kind != "code":
            shape += blocks(piece.source)
        elif piece.context and shape and shape[-1][0] == "fence":
            shape[-1] = (*shape[-1][:3], f"{shape[-1][3]}\n{piece.source.rstrip()}")
        elif piece.source.strip():
            shape.append(("fence", "code", 0, piece.source.rstrip("\n")))
    return shape


def over_a_cap(text: str) -> bool:
    """Long enough to be cut where Markdown would not."""
    lines = text.split("\n")
    return len(lines) > min(BLOCK_LINES, PARAGRAPH_LINES) or len(text) > BLOCK_CHARS or max(map(len, lines)) > LONG_LINE


def differences(text: str, rng: random.Random, *, count: int = 6) -> list[str]:
    """What is wrong with this text, in words; an empty list: nothing."""
    whole = chunks(text, ())
    found = [
        f"split at {cuts if len(cuts) < 12 else f'{len(cuts)} places'}: {text!r}\n  at once {whole}\n  split   {split}"
        for cuts in splits(text, rng, count)
        if (split := chunks(text, cuts)) != whole
    ]
    if not over_a_cap(text) and blocks_of(whole) != blocks(text):
        found.append(f"blocks: {text!r}\n  whole  {blocks(text)}\n  chunks {blocks_of(whole)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    texts = [*CASES, *LONG, *(random_text(rng) for _ in range(options.count))]
    found = [one for text in texts for one in differences(text, rng)]
    for one in found[:5]:
        print(one[:3000])
    print(f"{len(texts)} texts, seed {options.seed}: {len(found)} differences")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
