"""The answer of a run, drawn on a terminal: the rows of the chat, once each, and a clean terminal however it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import OSSIA, ROOT, write_script
from tests.support.documents import answer, counted
from tests.support.pty import PtyChat
from tests.support.rendering import render_markdown

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")

SIZES = pytest.mark.parametrize(("columns", "rows"), [(50, 15), (120, 40)])
CODE = "".join(f"x{number} = {number}  # one of many lines{' that are long' * (number % 9)}\n" for number in range(60))
DOCUMENT = f"""\
# A title

The **first paragraph** has `code`, a [link](https://example.org/x), $x^2 + \\frac{{a}}{{b}}$; {"it goes on " * 40}.

- one
- two {"with many words " * 20}
  - three

| name | value 漢字 |
|------|-------|
| a    | {"many words " * 9} |

```python
{CODE}```

> quoted

The end."""


def expected(width: int, *, colour: bool = True) -> list[str]:
    rows = render_markdown(DOCUMENT, width=width, colour=colour, links=False)
    texts = ["".join(part.text for part in row) for row in rows]
    return [piece.rstrip() for text in texts for piece in re.findall(f".{{1,{width}}}|^$", text)]  # code is wrapped


@SIZES
@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_the_rows_are_those_of_the_chat(columns: int, rows: int, environ: dict[str, str], tmp_path: Path) -> None:
    script = write_script(tmp_path, answer(DOCUMENT), tokens_per_s=2000 if columns == 80 else 0)
    flags = ("run", "hi", "--engine", script, "--no-tools", "--quiet")
    with PtyChat(*flags, columns=columns, rows=rows, environ=environ) as run:
        assert run.wait() == 0
        assert run.rows == expected(columns, colour=not environ)
        assert (b"\x1b[1;4m" in run.sent) is not bool(environ)
        assert b"\x1b" not in run.sent or environ.get("TERM") != "dumb"


@SIZES
def test_what_is_open_is_seen_and_drawn_again(columns: int, rows: int, tmp_path: Path) -> None:
    code = "Look:\n\n```python\n" + "".join(f"x = {number}\n" for number in range(300))
    script = write_script(tmp_path, answer(code), tokens_per_s=100)
    with PtyChat("run", "hi", "--engine", script, "--no-tools", "--quiet", columns=columns, rows=rows) as run:
        most = (rows - 1) // 2
        run.until("x = 2")
        shown = [row for row in run.display if row]
        assert shown[:1] == ["Look:"] and set(shown[1:3]) <= {"── python ──", "x = 0", "x = 1"}
        run.until(f"x = {most + 2}")  # the open block is full: its end is seen
        shown = [row for row in run.display if row]
        assert shown[0] == "Look:" and len(shown) <= 1 + most
        numbers = [int(row.removeprefix("x = ")) for row in shown[1:-1]]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        run.signal(signal.SIGTERM)
        assert run.wait() == 130 and run.cooked
        kept = [row for row in run.rows if row]
        assert kept[:2] + kept[-1:] == ["Look:", "── python ──", "────────────"]
        assert [row.partition(" = ")[2] for row in kept[2:-2]] == [str(number) for number in range(len(kept) - 4)]


def test_ctrl_c_keeps_all_that_came(tmp_path: Path) -> None:
    script = write_script(tmp_path, answer(counted("word ", 450)), tokens_per_s=100)
    with PtyChat("run", "hi", "--engine", script, "--no-tools", "--quiet") as run:
        run.until("word 40")
        run.press("\x03")
        assert run.wait() == 130 and run.cooked
        text = " ".join(run.rows).replace("^C", "")
        words = [int(number) for number in re.findall(r"word (\d+)", text)]
        assert words == list(range(len(words))) and len(words) > 40


def test_a_note_in_the_middle_stands_on_rows_of_its_own(tmp_path: Path) -> None:
    first = f"<|channel|>final<|message|>{'Wait, I look. ' * 9}<|end|><|start|>assistant"
    call = "<|channel|>analysis to=python code<|message|>print(6*7)<|call|>"
    with PtyChat("run", "hi", "--engine", write_script(tmp_path, first + call, answer("**Done.**"))) as run:
        assert run.wait() == 0
        rows = [row for row in run.rows if row]
        assert " ".join(rows[:2]) == ("Wait, I look. " * 9).strip()
        assert rows[2].startswith("▸ ran Python: print(6*7) · 42") and rows[3] == "Done."


def test_pipes_and_plain_get_the_exact_text(tmp_path: Path) -> None:
    script = write_script(tmp_path, answer(DOCUMENT))
    run = [str(OSSIA), "run", "hi", "--engine", script, "--no-tools", "--quiet"]
    done = subprocess.run(run, capture_output=True, check=True, cwd=ROOT)
    assert done.stdout.decode() == f"{DOCUMENT}\n"
    with PtyChat("run", *run[2:], "--plain", columns=400) as plain:
        assert plain.wait() == 0
        assert "**first paragraph**" in plain.text and "$x^2 + \\frac{a}{b}$" in plain.text
        assert b"\x1b[?2026h" not in plain.sent


def test_an_answer_for_a_pipe_loads_nothing_to_draw_with(tmp_path: Path) -> None:
    script = write_script(tmp_path, answer(DOCUMENT))
    code = (
        "import sys\nfrom ossia.cli.main import invoke\n"
        f"try: invoke(['run', 'hi', '--engine', {script!r}, '--no-tools'])\n"
        "finally: print(*sys.modules.keys() & {'rich', 'pygments', 'markdown_it', 'prompt_toolkit'}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stderr.strip() == ""
