"""The call being written: named as people would, its text decoded as it comes."""

from __future__ import annotations

import json
import random
import re
import tracemalloc

import pytest

from ossia.agent.events import Delta, SampledAgain, ToolStarted, TurnEnded
from ossia.cli.runtime.writing import Writing
from ossia.tools.spec import Preview, ToolCall

EXEC, PATCH, PYTHON, WRITE = "container.exec", "repo_browser.apply_patch", "python", "functions.write"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def written(recipient: str, text: str, *, sizes: tuple[int, ...] = (7,)) -> Writing:
    """The state after this much of a call, fed in pieces of these sizes, over and over."""
    writing, at, number = Writing(), 0, 0
    while at < len(text):
        size = sizes[number % len(sizes)]
        writing.see(Delta(1, text[at : at + size], channel="analysis", recipient=recipient))
        at, number = at + size, number + 1
    return writing


def bash(script: str, key: str = "command") -> str:
    return json.dumps({key: ["bash", "-lc", script]})


HEREDOC = "cat > big.py <<'EOF'\nimport sys\nprint(1)\nprint("
APPENDED = HEREDOC.replace("> big.py <<'EOF'", "<<EOF >> 'big.py'")
NEW = "*** Begin Patch\n*** Add File: src/big.py\n+one\n+two\n+thr"
CHANGE = "*** Begin Patch\n*** Add File: big.py\n+one\n*** Update File: report.py\n@@\n-a\n+b\n"


@pytest.mark.parametrize(
    ("recipient", "text", "said", "last"),
    [
        (PATCH, json.dumps({"patch": NEW})[:-2], "writing src/big.py · line 3", "+thr"),
        (PATCH, NEW, "writing src/big.py · line 3", "+thr"),
        (f"{PATCH}<|channel|>commentary", NEW, "writing src/big.py · line 3", "+thr"),
        (PATCH, json.dumps({"patch": CHANGE})[:-2], "editing report.py · line 4", "+b"),
        (PATCH, '{"patch": "*** Begin', "writing a patch", "*** Begin"),
        (EXEC, bash(f"apply_patch <<'PATCH'\n{NEW}", "cmd")[:-3], "writing src/big.py · line 3", "+thr"),
        (EXEC, f"apply_patch <<'PATCH'\n{NEW}", "writing src/big.py · line 3", "+thr"),
        (EXEC, json.dumps({"cmd": ["apply_patch", NEW]})[:-3], "writing src/big.py · line 3", "+thr"),
        (EXEC, bash(HEREDOC)[:-3], "writing big.py · line 3", "print("),
        (EXEC, bash(APPENDED)[:-3], "writing big.py · line 3", "print("),
        (EXEC, bash("mkdir a && tee a/b.md <<-E\nx\n")[:-3], "writing a/b.md · line 2", "x"),
        (EXEC, bash(f"{HEREDOC}\nEOF\npytest")[:-3], "writing a command · line 6", "pytest"),
        (EXEC, bash("python3 - <<'PY'\nprint(1)\n")[:-3], "writing python · line 2", "print(1)"),
        (EXEC, '{"command":["bash","-lc","grep -R', "writing a command", "grep -R"),
        (EXEC, "ls -l", "writing a command", "ls -l"),
        (EXEC, "", "writing a command", ""),
        ("bash", json.dumps(bash(HEREDOC))[:-5], "writing big.py · line 3", "print("),
        (EXEC, json.dumps({"command": json.dumps(["bash", "-lc", HEREDOC])})[:-5], "writing big.py · line 3", "print("),
        (
            "tool.run",
            json.dumps({"name": "bash", "arguments": bash(HEREDOC)})[:-6],
            *("writing big.py · line 3", "print("),
        ),
        ("Golang", '{"name":"Bash","input":{"command":"echo hi', "writing a call of Golang", "echo hi"),
        (PYTHON, "import os\nos.name\n[1", "writing python · line 3", "[1"),
        (PYTHON, "print(", "writing python", "print("),
        (WRITE, json.dumps({"path": "n.md", "content": "# N\n\ntext"})[:-2], "writing n.md · line 3", "text"),
        (WRITE, json.dumps({"content": "# N\n\ntext"})[:-2], "writing a call of write · line 3", "text"),
        (WRITE, json.dumps({"content": "# N\n\ntext", "path": "n.md"}), "writing n.md · line 3", "text"),
        (WRITE, json.dumps({"path": "a.json", "content": '{\n"a": 1'})[:-2], "writing a.json · line 2", '"a": 1'),
        ("repo_browser.search", '{"path":"django","query":"ordering"', "writing a search", "ordering"),
        ("functions.f", '```json\n{"text": "a\\nb', "writing a call of f · line 2", "b"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sizes", [(1,), (7, 2), (10_000,)])
def test_a_call_is_named_as_people_would(
    recipient: str, text: str, said: str, last: str, sizes: tuple[int, ...]
) -> None:
    writing = written(recipient, text, sizes=sizes) if text else Writing()
    if not text:
        writing.see(Delta(1, "", channel="analysis", recipient=recipient))
    assert writing.text() == said
    assert writing.lines(1) == ([last] if last else [])


def test_text_of_the_user_in_a_file_names_no_other_file() -> None:
    inside = "cat > a.py <<'EOF'\n*** Add File: evil.py\ncat > b.py <<X\n"
    assert written(EXEC, bash(inside)[:-3]).text() == "writing a.py · line 3"


@pytest.mark.parametrize(
    ("encoded", "decoded"),
    [
        (r"a\"b\\c\/d", 'a"b\\c/d'),
        (r"\ud83d\ude00 \u00e4\u0041", "😀 äA"),
        (r"\ud83d!", "\ufffd!"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\ud83dA", "\ufffdA"),
        (r"\ude00", "\ufffd"),
        (r"\t\b\f\r", "\t\b\f\r"),
        (r"\uZZ and \q", "uZZ and q"),
        ("a\nb", "a\nb"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_escapes_are_decoded_however_they_are_split(encoded: str, decoded: str, size: int) -> None:
    writing = written("functions.f", f'{{"x": "{encoded}|', sizes=(size,))
    assert "\n".join(writing.lines(9)) == f"{decoded}|"


def test_any_split_says_the_same() -> None:
    rng = random.Random(1)
    pieces = [*'\\"{[]}:,4E ', "\\n", "\\ud83d", "\\ude00", "\\u00", "cat > a <<E", "*** Add File: x"]
    for _ in range(200):
        begin = rng.choice(["", '{"command": ["bash", "', '"{\\"patch\\": \\"'])
        text = begin + "".join(rng.choices(pieces, k=40))
        whole = written(EXEC, text, sizes=(10_000,))
        split = written(EXEC, text, sizes=tuple(rng.randrange(1, 9) for _ in range(5)))
        assert (split.text(), split.lines(5)) == (whole.text(), whole.lines(5)), text


def test_nothing_is_written_before_and_after_a_call() -> None:
    clock = Clock()
    writing = Writing(clock)
    assert (writing.text(), writing.lines(3)) == ("", [])
    writing.see(Delta(0, "Hm", channel="analysis"))
    assert writing.text() == ""
    call = Delta(1, "print(1)\n", channel="analysis", recipient=PYTHON)
    for end in (
        ToolStarted(ToolCall("1", PYTHON, "print(1)"), Preview("run")),
        Delta(2, "Done.", channel="final"),
        SampledAgain("its answer was empty"),
        TurnEnded("stopped"),
    ):
        writing.see(call)
        clock.now += 12
        assert (writing.text(), writing.seconds) == ("writing python · line 2", 12)
        writing.see(end)
        assert (writing.text(), writing.lines(3)) == ("", [])
    writing.see(call)
    writing.see(Delta(2, "x = 1", channel="analysis", recipient=PYTHON))
    assert (writing.text(), writing.lines(3)) == ("writing python", ["x = 1"])


def test_a_name_from_outside_is_clean_and_short() -> None:
    text = written(PATCH, f"*** Add File: \x1b[2Ja\u202eb{'x' * 500}\n+").text()
    assert text.startswith("writing ␛[2Jab") and len(text) < 100
    text = written(f"functions.\x1b]0;x\x07{'y' * 500}", "{").text()
    assert "\x1b" not in text and "\x07" not in text and len(text) < 100


def test_a_long_argument_takes_little_memory() -> None:
    line = "x = '\\u00e4' \\\\ \\\"a\\\"\\n"
    text = '{"command":["bash","-lc","cat > big.py <<EOF\\n' + line * 12_000
    deltas = [Delta(1, piece, channel="analysis", recipient=EXEC) for piece in re.findall(".{1,9}", text)]
    writing = Writing()
    tracemalloc.start()
    try:
        for delta in deltas:
            writing.see(delta)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert writing.text() == "writing big.py · line 12001"
    assert writing.lines(1) == ["x = 'ä' \\ \"a\""]
    assert most < 200_000
    endless = written("functions.f", '{"x": "' + "y" * 1_000_000, sizes=(100_000,))
    assert len(endless.lines(3)[0]) < 10_000
    nested = written("functions.f", "[" * 300_000 + '"\\"' * 300_000, sizes=(1000,))
    assert nested.text() == "writing a call of f"
