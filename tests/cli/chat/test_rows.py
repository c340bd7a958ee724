"""The rows of what was done, on the screen as a turn goes and when the session is resumed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from ossia.cli.chat.commands.table import GROUPS, KEYS
from ossia.cli.runtime.session import Resume
from tests.support.command import write_script
from tests.support.documents import answer, thought
from tests.support.screen import ChatScreen, chatting
from tests.support.work_calls import reads, runs, wants, writes

SIZES = [(50, 15), (120, 40)]
CTRL_O = "\x0f"


def read(name: str) -> str:
    return thought("Next.") + reads(name)


def of_tools(rows: list[str]) -> list[str]:
    return [row.partition(" · ")[0] for row in rows if row.startswith(("▸", "✗", "thought"))]


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_five_reads_are_one_row_live_and_resumed_and_each_is_in_the_pager(
    tmp_path: Path, columns: int, rows: int
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    names = [f"{letter}.txt" for letter in "abcde"]
    for name in names:
        (work / name).write_text(f"text of {name}\n")
    size = {"columns": columns, "rows": rows}
    flags = {"workspace": str(work), "trust": True, "no_tools": None}
    row = "▸ Read a.txt, b.txt, c.txt"

    async def live() -> None:
        script = write_script(tmp_path, *map(read, names), read("none.txt"), read("a.txt"), answer("So."))
        async with ChatScreen(engine=script, **size, **flags) as stage:
            await stage.type("Go.\r")
            await stage.settle()
            told = of_tools(stage.rows)
            assert told[0].startswith(row) and told[1].startswith("✗ Read none.txt")
            assert told[2:] == ["▸ Read a.txt"]
            await stage.type(CTRL_O)
            await stage.until(lambda: any("text of" in line for line in stage.terminal.display))
            await stage.type("q")
            await stage.until(lambda: not stage.face.screen.away)
            assert stage.talk.transcript.calls()[0].arguments == '{"path": "a.txt"}'

    async def later() -> None:
        script = write_script(tmp_path, answer("So."))
        async with ChatScreen(engine=script, resume=Resume(latest=True), **size, **flags) as stage:
            told = of_tools(stage.rows)
            assert told[0].startswith(row) and told[2:] == ["▸ Read a.txt"]

    chatting(live)
    chatting(later)


@pytest.mark.parametrize("columns", [36, 50, 80])
def test_help_tools_and_undo_are_wrapped_not_cut(tmp_path: Path, columns: int) -> None:
    work = tmp_path / "work"
    folder = "a folder with a name of many words/" * 2
    (work / folder).mkdir(parents=True)
    write = writes(f"{folder}notes.txt")
    asked = "Write it into the folder with the name of many words, please"
    size = {"columns": columns, "rows": 24}
    flags = {"workspace": str(work), "trust": True, "no_tools": None, "allow": ["repo_browser.apply_patch"]}

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, write, answer("So.")), **size, **flags) as stage:
            await stage.type(f"{asked}\r")
            await stage.settle()
            for line, told in (
                ("/help", [f"/{one.name} {one.usage} {one.help}" for _, group in GROUPS for one in group]),
                ("/help", [f"{key} {what}" for key, what in KEYS]),
                ("/tools", ["web search /tools web URL (a SearXNG; or brave, exa, … with a key)"]),
                ("/tools", ["repo_browser.apply_patch built-in, can write, runs without asking"]),
                ("/undo list", [f"1 file {asked}"]),
                ("/undo", [f"Undone: {asked}", "notes.txt", "the conversation stays as it is"]),
            ):
                before = len(stage.rows)
                await stage.type(f"{line}\r")
                await stage.until(lambda before=before: len(stage.rows) > before + 3)
                await stage.settle()
                rows = stage.rows[stage.rows.index(f"› {line}") :]
                flat = " ".join(" ".join(rows).split())
                assert [words for words in told if " ".join(words.split()) not in flat] == []
                assert all(row.startswith(" ") for row in rows[2:-3] if row[:1].islower())

    chatting(case)


def test_a_warning_before_a_result_is_not_the_result(tmp_path: Path) -> None:
    """The first code of a resumed session: the kernel is a new one, which the model is told."""
    script = write_script(tmp_path, "<|channel|>analysis to=python code<|message|>2+2<|call|>", answer("Four."))

    def ran(stage: ChatScreen) -> list[str]:
        rows = (row for row in stage.rows if row.startswith("▸"))
        return [re.sub(r" · \d+(\.\d)? s$", "", row) for row in rows]  # of a busy machine

    async def case() -> None:
        async with ChatScreen(engine=script, resume=Resume(latest=True), no_tools=None) as stage:
            await stage.type("Go.\r")
            await stage.settle()
            assert ran(stage)[-1] == "▸ ran Python: 2+2 · 4"

    async def later() -> None:
        await case()
        async with ChatScreen(engine=script, resume=Resume(latest=True), no_tools=None) as stage:
            assert "[WARN] this is a new kernel" in stage.talk.transcript.calls()[-1].text
            assert ran(stage) == ["▸ ran Python: 2+2 · 4"] * 2

    async def first() -> None:
        async with ChatScreen(engine=script, no_tools=None) as stage:
            await stage.type("Go.\r")
            await stage.settle()

    chatting(first)
    chatting(later)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_call_that_is_written_is_seen(tmp_path: Path, columns: int, rows: int) -> None:
    text = "cat > big.py <<'EOF'\n" + "".join(f"word = 'ä \\\\ {number}'\n" for number in range(400))
    script = write_script(tmp_path, wants("container.exec", cmd=["bash", "-lc", text]), tokens_per_s=100)

    async def case() -> None:
        async with ChatScreen(columns=columns, rows=rows, engine=script, no_tools=None, think="peek") as stage:
            await stage.type("Write it.\r")
            written = re.compile(r". writing big\.py · line \d\d+ · \d+ s")
            await stage.until(lambda: any(map(written.match, stage.terminal.display)))
            shown = [re.sub(r"\d+", "0", row) for row in stage.terminal.display]
            begin = shown.index("› Write it.")
            assert shown[begin : begin + 5] == ["› Write it.", "", *["  word = 'ä \\\\ 0'"] * 2, shown[begin + 4]]
            assert "  word = 'ä \\\\ 0'".startswith(shown[begin + 4][:8])
            assert any(row[1:].startswith(" writing big.py · line 0 · 0 s") for row in shown[begin + 5 :])
            await stage.type("\x03")
            await stage.settle()
            assert not any("word" in row for row in stage.rows)

    chatting(case)


CHECK = "seq 33\necho 'FAILED (failures=1)'\nexit 1\n"
EDIT = """*** Begin Patch
*** Update File: report.py
@@
 line 1
-line 2
+line two
+a line that is too long for one row of fifty columns
 line 3
@@
 line 40
-line 41
 line 42
*** Add File: CHANGES.md
{new}
*** End Patch""".format(new="\n".join(f"+change {number}" for number in range(30)))
MOVE = """*** Begin Patch
*** Delete File: old.txt
*** Update File: a.txt
*** Move to: b.txt
@@
-a
+b
*** End Patch"""
WORK = (
    *(read(name) for name in ("a.txt", "old.txt")),
    wants("repo_browser.search", path="", query="line 4"),
    wants("repo_browser.list_dir", path=""),
    read("none.txt"),
    runs("true"),
    runs("sh check.sh"),
    runs("sh check.sh | tail -2"),
    runs("cat > x.sh <<'EOF'\nseq 40\nEOF\nsh x.sh"),
    wants("repo_browser.apply_patch", patch=EDIT),
    wants("repo_browser.apply_patch", patch=MOVE),
    wants("nobody", a=1),
    answer("So."),
)
LOOKED = ["▸ Read a.txt, old.txt · 3 lines", '▸ Search "line 4" · 11 hits', "▸ List . · 4 entries"]
FAILED = ["✗ Read none.txt · there is no file 'none.txt'", "▸ ran true · exit 0"]
FAILED += ["▸ ran sh check.sh · exit 1 · 34 lines", "    30", "    31", "    32", "    33", "    FAILED (failures=1)"]
HIDDEN = ["▸ ran sh check.sh | tail -2 · exit 0, but failed", "    33", "    FAILED (failures=1)"]
HEREDOC = {
    50: ["▸ ran cat > x.sh <<'EOF' (1 l… · exit 0 · 40 lines", "    38", "    39", "    40"],
    120: ["▸ ran cat > x.sh <<'EOF' (1 line); sh x.sh · exit 0 · 40 lines", "    38", "    39", "    40"],
}
EDITED = ["▸ Edit report.py +2 −2 · new CHANGES.md +30", "  report.py"]
EDITED += ["    2   line 1", "    3 - line 2", "    3 + line two"]
REST = ["    5   line 3", "        ⋮", "   42   line 40", "   42 - line 41", "   43   line 42", "  CHANGES.md · new"]
DIFF = {
    50: [*EDITED, "    4 + a line that is too long for one row of fif", "      + ty columns", *REST,
         "   … 30 more lines, Ctrl-O"],
    120: [*EDITED, "    4 + a line that is too long for one row of fifty columns", *REST, "    1 + change 0",
          "   … 29 more lines, Ctrl-O"],
}  # fmt: skip
MOVED = ["▸ Delete old.txt −2 · rename a.txt to b.txt +1 −1", "  old.txt · deleted", "   1 - x", "   2 - y"]
MOVED += ["  a.txt → b.txt", "   1 - a", "   1 + b", """✗ nobody {"a": 1} · there is no tool 'nobody'"""]
DONE = {size: [*LOOKED, *FAILED, *HIDDEN, *HEREDOC[size], *DIFF[size], *MOVED] for size in (50, 120)}
DONE[80] = DONE[120]


@pytest.mark.needs_bwrap
@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_what_calls_brought_is_seen_live_and_resumed(tmp_path: Path, columns: int, rows: int) -> None:
    """A row for each, the end of what a command printed, the first twelve rows of a diff."""
    work = tmp_path / "work"
    work.mkdir()
    files = {"a.txt": "a\n", "old.txt": "x\ny\n", "check.sh": CHECK}
    files["report.py"] = "".join(f"line {number}\n" for number in range(60))
    for name, text in files.items():
        (work / name).write_text(text)
    size = {"columns": columns, "rows": rows}
    allowed = ["container.exec", "repo_browser.apply_patch"]
    flags = {"workspace": str(work), "trust": True, "no_tools": None, "allow": allowed}

    def drawn(stage: ChatScreen) -> list[str]:
        return stage.rows[stage.rows.index("› Go.") + 2 : stage.rows.index("So.") - 1]

    async def live() -> None:
        async with ChatScreen(engine=write_script(tmp_path, *WORK), **size, **flags) as stage:
            await stage.type("Go.\r")
            await stage.settle()
            shown.append(drawn(stage))

    async def later() -> None:
        script = write_script(tmp_path, answer("So."))
        async with ChatScreen(engine=script, resume=Resume(latest=True), **size, **flags) as stage:
            await stage.until(lambda: "So." in stage.rows)
            shown.append(drawn(stage))

    shown: list[list[str]] = []
    chatting(live)
    chatting(later)
    assert shown[0] == shown[1]
    assert all(cell_len(row) <= columns for row in shown[0])
    assert shown[0] == DONE[columns]
