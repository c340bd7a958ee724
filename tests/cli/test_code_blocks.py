"""The code blocks of an answer, as models write them."""

from __future__ import annotations

import pytest

from ossia.cli.code_blocks import Block, Extract, code_blocks

ANSWER = """Two files:

1. The first:

   ```Python title="a.py"
   def f():

       return "【1†L2】"
   ```

> ~~~rust,ignore
> fn main() {}
> ~~~

````md
```sh
ls
```
````

```
  plain

```
"""
FOUND = [
    Block("Python", 'def f():\n\n    return "【1†L2】"\n'),
    Block("rust", "fn main() {}\n"),
    Block("md", "```sh\nls\n```\n"),
    Block("", "  plain\n\n"),
]


def test_blocks_in_lists_in_quotes_and_in_blocks() -> None:
    assert code_blocks(ANSWER) == FOUND
    assert code_blocks(ANSWER.replace("\n", "\r\n")) == FOUND


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Run:\n\n```sh\nls\ncd", "ls\ncd\n"),  # never closed
        ("```\n```\n\n~~~\n\n~~~", None),  # blank
        ("Text:\n\n    ls -l\n\nThat's it.", "ls -l\n"),
        ("```\nls\n```\n\n    indented", "ls\n"),
        ("`ls` alone", None),
        ("<pre>\n```\nls\n```\n</pre>", "ls\n"),
    ],
)
def test_what_counts_as_a_block(answer: str, text: str | None) -> None:
    assert Extract().of(answer) == text


@pytest.mark.parametrize(
    ("extract", "places"),
    [
        (Extract("py"), [0]),
        (Extract("RS"), [1]),
        (Extract("markdown"), [2]),
        (Extract(""), [3]),
        (Extract(every=True), [0, 1, 2, 3]),
        (Extract("python", every=True), [0]),
    ],
)
def test_a_language_and_its_short_names(extract: Extract, places: list[int]) -> None:
    assert extract.of(ANSWER) == "\n".join(FOUND[place].text for place in places)


def test_no_block_in_that_language() -> None:
    assert Extract("sql", every=True).of(ANSWER) is None
