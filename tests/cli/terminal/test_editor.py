"""The input line, driven by keys: typing, pasting, history, completion, the user's own editor."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from ossia.cli.attach.attach import attach
from ossia.cli.terminal.input.completion import Completions, Sources, find_paths
from ossia.cli.terminal.input.external import EditorFailed, edit
from ossia.cli.terminal.input.history import Entry, History
from ossia.cli.terminal.input.typed import Typed
from ossia.tools.browser.document import Document as Page
from ossia.tools.spec import NoStop, ToolFailed
from tests.support.editing import PASTE, EditorStage

ALT_ENTER, UP, DOWN, LEFT, DELETE, BACKSPACE = "\x1b\r", "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[3~", "\x7f"
CTRL_A, CTRL_E, CTRL_J, CTRL_K = "\x01", "\x05", "\n", "\x0b"
CTRL_R, CTRL_U, CTRL_W, CTRL_Y = "\x12", "\x15", "\x17", "\x19"
COMMANDS = (("/model", "use another model"), ("/mode", "how it works"), ("/help", "say what there is"))
MODELS = (("gpt-oss-20b", "12 GB"), ("etude", "5 MB"), ("gpt-oss-120b", "63 GB"))


def screened(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        asyncio.run(test(**fixtures))

    return run


# -- typing ------------------------------------------------------------------------------------------------------------


@screened
async def test_enter_sends_and_these_keys_begin_a_line() -> None:
    async with EditorStage() as stage:
        await stage.type(f"one{ALT_ENTER}two{CTRL_J}three\x1b[27;2;13~four\x1b[13;2ufive\\\rsix")
        await stage.until(lambda: stage.text == "one\ntwo\nthree\nfour\nfive\nsix")
        assert stage.sent == []
        await stage.shows("› one", "  two", "  three", "  four", "  five", "  six")
        await stage.type("\r")
        await stage.until(lambda: stage.sent)
        text = "one\ntwo\nthree\nfour\nfive\nsix"
        assert stage.sent == [Typed(text, text)] and stage.text == ""


@screened
async def test_blanks_alone_are_not_sent_and_blanks_around_fall_off() -> None:
    async with EditorStage() as stage:
        await stage.type("  \r", " hi \r", "a\\\\\r")
        await stage.until(lambda: len(stage.sent) == 2)
        assert stage.sent == [Typed("hi", "hi", literal=True), Typed("a\\\\", "a\\\\")]


@screened
async def test_the_first_of_several_lines_keeps_its_indentation() -> None:
    async with EditorStage() as stage:
        await stage.type(f"{ALT_ENTER} {ALT_ENTER}    x = 1{ALT_ENTER}    y\r", f" /etc{ALT_ENTER}\tx \r")
        await stage.until(lambda: len(stage.sent) == 2)
        texts = ("    x = 1\n    y", "/etc\n    x")
        assert stage.sent == [Typed(text, text, literal=True) for text in texts]


@screened
async def test_a_block_in_quotes_goes_on_until_they_are_closed() -> None:
    async with EditorStage() as stage:
        await stage.type('"""/one\r  two\r\r', '"""\r', '"""""" \r')
        await stage.until(lambda: stage.sent and stage.text == '"""""" ')
        assert stage.sent == [Typed("/one\n  two", "/one\n  two", literal=True)]
        await stage.type(f'{CTRL_U}say """x""" twice\r')
        await stage.until(lambda: len(stage.sent) == 2)
        assert stage.sent[1] == Typed('say """x""" twice', 'say """x""" twice')


@screened
async def test_the_usual_keys_edit() -> None:
    async with EditorStage() as stage:
        await stage.type(f"one two three{CTRL_W}{CTRL_A}zero {CTRL_K}{CTRL_Y}{CTRL_Y}{CTRL_E}!")
        await stage.until(lambda: stage.text == "zero one two one two !")
        await stage.type(CTRL_U)
        await stage.until(lambda: stage.text == "")


@screened
async def test_it_grows_to_a_third_of_the_screen_and_to_eight_rows() -> None:
    async with EditorStage(rows=60, columns=20) as stage:
        await stage.type(ALT_ENTER.join("abcdefghijklmnop"))
        await stage.until(lambda: len(stage.rows) == 8)
        assert stage.editor.height(60) == 8 and stage.editor.height(12) == 4 and stage.editor.height(2) == 1
        assert stage.rows[-1] == "  p"
    async with EditorStage(columns=20) as stage:
        await stage.type("x" * 40)  # 18 fit beside the mark
        await stage.shows("› " + "x" * 18, "  " + "x" * 18, "  " + "x" * 4)
        assert stage.editor.height(24) == 3


# -- pastes ------------------------------------------------------------------------------------------------------------


@screened
async def test_a_paste_is_one_piece_and_is_not_sent() -> None:
    async with EditorStage() as stage:
        await stage.type(PASTE.format("a\r\nb\rc\n"), "d\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent == [Typed("a\nb\nc\nd", "a\nb\nc\nd")]


@screened
async def test_a_large_paste_becomes_a_placeholder_and_is_sent_whole() -> None:
    large, lines = "x" * 999_990 + "\ttheend\n", "\n".join(map(str, range(30)))
    async with EditorStage() as stage:
        await stage.type(f"see {PASTE.format(large)} and ", PASTE.format(lines))
        await stage.until(lambda: "paste 2" in stage.text)
        shown = "see [paste 1: 999,998 characters] and [paste 2: 30 lines]"
        await stage.shows(f"› {shown}")
        await stage.type("\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent == [Typed(shown, f"see {large} and {lines}")]
        stage.editor.set(stage.sent[0].shown)  # a queued line comes back
        assert stage.editor.pastes.expanded(stage.text) == stage.sent[0].text


@pytest.mark.parametrize("keys", [BACKSPACE, f"{LEFT}{BACKSPACE}", CTRL_W, f"{LEFT * 27}{DELETE}"], ids=range(4))
def test_a_placeholder_is_deleted_as_one(keys: str) -> None:
    @screened
    async def test() -> None:
        async with EditorStage() as stage:
            await stage.type("ab", PASTE.format("x" * 1200))
            await stage.until(lambda: stage.text == "ab[paste 1: 1,200 characters]")
            await stage.type(keys)
            await stage.until(lambda: "paste" not in stage.text)
            assert stage.text in ("ab", "")  # Ctrl-W takes the word before it too

    test()


@screened
async def test_nothing_can_be_typed_into_a_placeholder() -> None:
    async with EditorStage() as stage:
        await stage.type(PASTE.format("x" * 1200), f"{LEFT * 5}!\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent == [Typed("[paste 1: 1,200 characters]!", "x" * 1200 + "!")]


@screened
async def test_a_dropped_file_becomes_a_mention(tmp_path: Path) -> None:
    for name in ("my notes.md", "it's.md", "caf\u00e9.md", "plain.md"):
        (tmp_path / name).touch()
    here = str(tmp_path)
    for pasted, mentioned in (
        (f"{here}/plain.md", f"@{here}/plain.md "),
        (f"{here}/my\\ notes.md ", f'@"{here}/my notes.md" '),
        (f"'{here}/my notes.md'", f'@"{here}/my notes.md" '),
        (f"{here}/my notes.md", f'@"{here}/my notes.md" '),
        (f"'{here}/it'\\''s.md' {here}/plain.md\r\n", f'@"{here}/it\'s.md" @{here}/plain.md '),
        (f"file://{here}/it%27s.md\r\nfile://{here}/caf%C3%A9.md\r\n", f'@"{here}/it\'s.md" @{here}/caf\u00e9.md '),
        (here, f"@{here} "),
    ):
        async with EditorStage() as stage:
            await stage.type("see ", PASTE.format(pasted))
            await stage.until(lambda: len(stage.text) > 4)
            assert stage.text == f"see {mentioned}"
            assert stage.notes == ["what was dropped will be attached; without its @, only the path is sent"]


@screened
async def test_other_pastes_mention_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    file = f"{tmp_path}/a.md"
    for before, pasted in (
        ("", f"{tmp_path}/gone.md"),
        ("", f"{file} {tmp_path}/gone.md"),
        ("", f"see {file}"),
        ("", f"{file}\n{file}"),  # a list that was copied
        ("", "'unclosed"),
        ("", "/"),
        ("/save ", file),
        ("!cat ", file),
        ("@", file),
        ("path=", file),
        ('"', file),
    ):
        async with EditorStage() as stage:
            await stage.type(before, PASTE.format(pasted))
            await stage.until(lambda: stage.text == before + pasted)  # noqa: B023
            assert stage.notes == []


@screened
async def test_what_is_pasted_is_shown_clean_and_sent_as_it_is() -> None:
    hostile = "a\u202eb\x1b[2J\u200bc\td\x9b"
    async with EditorStage() as stage:
        await stage.type(PASTE.format(hostile))
        await stage.shows("› ab␛[2Jc    d\ufffd")
        await stage.until(lambda: stage.terminal.cursor[1] == 15)
        await stage.type(f"{LEFT * 5}|")  # the cursor goes by what is shown
        await stage.until(lambda: stage.terminal.cursor[1] == 9)
        await stage.shows("› ab␛[2J|c    d\ufffd")
        await stage.type("\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent[0].text == "a\u202eb\x1b[2J|\u200bc\td\x9b"
        assert not any(bad in text for text in stage.terminal.sent for bad in ("\u202e", "\u200b", "\x9b", "\x1b[2J"))


# -- the history -------------------------------------------------------------------------------------------------------


@screened
async def test_up_and_down_walk_through_what_was_sent() -> None:
    async with EditorStage() as stage:
        await stage.type("first\r", f"second{ALT_ENTER}line\r", "third\r", "dra", UP, UP)
        await stage.until(lambda: len(stage.sent) == 3 and stage.text == "dra")  # nothing begins like this
        await stage.type(CTRL_U, UP)
        await stage.until(lambda: stage.text == "third")
        await stage.type(UP)
        await stage.until(lambda: stage.text == "second\nline")
        await stage.type(UP, "!")  # inside the entry first
        await stage.until(lambda: stage.text == "seco!nd\nline")
        await stage.type(UP, UP)  # it was changed: the walk begins anew, with what is before the cursor
        assert stage.text == "seco!nd\nline"
        await stage.type(CTRL_A, UP)
        await stage.until(lambda: stage.text == "third")


@screened
async def test_the_draft_comes_back_at_the_end_of_the_walk() -> None:
    async with EditorStage() as stage:
        await stage.type("say a\r", "say b\r", "other\r", "say ", UP)
        await stage.until(lambda: stage.text == "say b")
        await stage.type(UP)
        await stage.until(lambda: stage.text == "say a")
        await stage.type(DOWN)
        await stage.until(lambda: stage.text == "say b")
        await stage.type(DOWN)
        await stage.until(lambda: stage.text == "say ")


@screened
async def test_it_lasts_and_pastes_are_numbered_anew(tmp_path: Path) -> None:
    file = tmp_path / "data" / "history.jsonl"
    small, large, lines = "s" * 1_500, "l" * 5_000, "row\n" * 1_300
    async with EditorStage(history=History(file)) as stage:
        pasted = f"a {PASTE.format(small)} b {PASTE.format(large)} c {PASTE.format(lines)}"
        await stage.type(f"{pasted}\r", " not kept\r", "last\r", "last\r")
        await stage.until(lambda: len(stage.sent) == 4)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert large not in file.read_text() and len(file.read_text().splitlines()) == 2
    async with EditorStage(history=History(file)) as stage:
        await stage.type(PASTE.format("z" * 1_500), CTRL_U, UP)  # takes number 1
        await stage.until(lambda: stage.text == "last")
        await stage.type(UP)
        gone = "[a paste of 5,000 characters, not kept] c [a paste of 1,300 lines, not kept]"
        await stage.until(lambda: stage.text == f"a [paste 2: 1,500 characters] b {gone}")
        await stage.type("\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent[0].text == f"a {small} b {gone}"


@screened
async def test_nothing_is_written_in_private(tmp_path: Path) -> None:
    history = History(tmp_path / "h" / "history.jsonl", private=True)
    async with EditorStage(history=history) as stage:
        await stage.type("secret\r")
        await stage.until(lambda: stage.sent)
        assert not (tmp_path / "h").exists()
        history.private = False
        await stage.type("open\r", UP, UP)
        await stage.until(lambda: stage.text == "secret")  # this chat still knows it
    assert "secret" not in (tmp_path / "h" / "history.jsonl").read_text()


@screened
async def test_ctrl_r_searches() -> None:
    history = History()
    for line in ("git push", "Say hello\nto Git", "git pull", "ls"):
        history.add(Entry(line))
    async with EditorStage(history=history) as stage:
        await stage.type("draft", CTRL_R, "GIT")
        await stage.shows("› draft", "nothing found: GIT")
        await stage.type(CTRL_U, "git")
        await stage.shows("› git pull", "search 1 of 3: git")
        assert stage.editor.height(24) == 2
        await stage.type(CTRL_R)
        await stage.shows("› Say hello", "  to Git", "search 2 of 3: git")
        await stage.type(CTRL_R, CTRL_R, "\x13")
        await stage.shows("› Say hello", "  to Git", "search 2 of 3: git")
        await stage.type("\x03")
        await stage.shows("› draft")
        assert (stage.interrupts, stage.sent) == (0, [])
        await stage.type(CTRL_R, "pus", "\r")
        await stage.shows("› git push")
        await stage.type("!\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent == [Typed("git push!", "git push!")]


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b'[1]\n{}\nnull\n{"text": 3}\n', b'{"text": "a", "pastes": [1]}\n{"te']
)
def test_a_broken_file_is_no_error(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(data)
    History(file).add(Entry("new"))
    assert [entry.text for entry in History(file).entries][-1:] == ["new"]


def test_a_history_that_cannot_be_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "folder", Path("/proc/none/history.jsonl")):
        history = History(place)
        history.add(Entry("a"))
        assert [entry.text for entry in history.entries] == ["a"]


def test_it_stays_within_its_bounds(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text("".join(json.dumps({"text": f"line {number}"}) + "\n" for number in range(1_000)))
    history = History(file, max_entries=100)
    assert [history.entries[0].text, history.entries[-1].text, len(history.entries)] == ["line 900", "line 999", 100]
    history.add(Entry("more"))
    assert len(history.entries) == 100 and len(file.read_text().splitlines()) == 81
    assert [entry.text for entry in History(file, max_bytes=60).entries] == ["line 998", "line 999", "more"]
    assert file.stat().st_size <= 60
    history.add(Entry("x" * 70_000))  # too long for the file
    assert "xxx" not in file.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    script = (
        "import sys; from pathlib import Path; from ossia.cli.terminal.input.history import Entry, History\n"
        "for number in range(150):\n"
        "    History(Path(sys.argv[1]), max_entries=int(sys.argv[3])).add(Entry(f'{sys.argv[2]} {number}'))\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(file), name, limit], cwd=Path(__file__).parents[3])
        for name, limit in (("a", "1000"), ("b", "1000"))
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    texts = [entry.text for entry in History(file).entries]
    assert sorted(texts) == sorted(f"{name} {number}" for name in "ab" for number in range(150))
    cutter = subprocess.Popen([sys.executable, "-c", script, str(file), "c", "50"], cwd=Path(__file__).parents[3])
    assert cutter.wait(60) == 0
    assert [entry.text for entry in History(file).entries][-40:] == [f"c {number}" for number in range(110, 150)]


def test_a_line_is_not_lost_to_a_process_that_cuts_the_file(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text('{"text": "old"}\n')
    history = History(file)
    assert len(history.entries) == 1
    with FileLock(file.with_suffix(".lock")):  # as the other does
        writer = threading.Thread(target=history.add, args=(Entry("mine"),))
        writer.start()
        writer.join(0.1)
        (tmp_path / "new").write_text('{"text": "cut"}\n')
        (tmp_path / "new").replace(file)
    writer.join(20)
    assert [entry.text for entry in History(file).entries] == ["cut", "mine"]


def no_page(url: str) -> Page:
    raise ToolFailed(f"Error: {url} is not to be reached")


# -- completion --------------------------------------------------------------------------------------------------------


def sources(*folders: Path) -> Sources:
    return Sources(
        commands=lambda: COMMANDS,
        arguments=lambda command, prefix: {"/model": MODELS, "/save": None}.get(command, ()),
        folders=lambda: folders,
    )


@screened
async def test_commands_are_offered_while_they_are_typed() -> None:
    async with EditorStage(sources=sources()) as stage:
        await stage.type("/mo")
        menu = ("  /model  use another model", "  /mode   how it works")
        await stage.shows("› /mo", *menu)
        assert stage.editor.height(24) == 3
        await stage.type("\t", DOWN)
        await stage.shows("› /mode", menu[0], "› /mode   how it works")
        await stage.type("\x1b")
        await stage.shows("› /mo")
        await stage.type("\t")
        await stage.shows("› /mode", *menu)  # what they have in common
        await stage.type(BACKSPACE)
        await stage.shows("› /mod", *menu)
        await stage.type("\x1b[Z")
        await stage.shows("› /mode", menu[0], "› /mode   how it works")
        await stage.type("\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent == [Typed("/mode", "/mode")] and stage.editor.height(24) == 1


@screened
async def test_arguments_are_offered_and_ranked() -> None:
    async with EditorStage(sources=sources()) as stage:
        await stage.type("/model 120")
        await stage.shows("› /model 120", "  gpt-oss-120b  63 GB")
        await stage.type("\t\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent[0].text == "/model gpt-oss-120b"
        await stage.type("/model mb")  # what is said of it counts too
        await stage.shows("› /model mb", "  etude  5 MB")


@screened
async def test_paths_are_offered_level_by_level(tmp_path: Path) -> None:
    for name in ("docs/my notes.md", "docs/plan.md", "dot/x", ".hidden", "README.md", "node_modules/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    async with EditorStage(sources=sources(tmp_path)) as stage:
        await stage.type("see @")
        await stage.shows("› see @", "  docs/", "  dot/", "  README.md", "  node_modules/")
        await stage.type("d\t\t")
        await stage.shows("› see @docs/", "› docs/", "  dot/")  # Tab: `@do`, then the first
        await stage.type("\r")
        await stage.shows("› see @docs/", "  my notes.md", "  plan.md")
        await stage.type("NOT\t")
        await stage.until(lambda: '@"docs/my notes.md"' in stage.text)
        await stage.type(" and @.h")
        await stage.shows('› see @"docs/my notes.md" and @.h', "  .hidden")
        assert stage.sent == []


@screened
async def test_arrows_tell_of_choices_that_are_not_shown(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.md").touch()
    async with EditorStage(sources=sources(tmp_path)) as stage:
        await stage.type("@")
        await stage.shows("› @", *(f"  {number}.md" for number in range(5)), "↓ 5.md")
        await stage.type(DOWN * 5)
        await stage.shows("› @4.md", "↑ 1.md", "  2.md", "  3.md", "› 4.md", "  5.md", "↓ 6.md")
        await stage.type(DOWN * 4)
        await stage.shows("› @8.md", "↑ 3.md", *(f"  {number}.md" for number in range(4, 8)), "› 8.md")


@screened
async def test_paths_for_commands(tmp_path: Path) -> None:
    (tmp_path / "my file.txt").touch()
    async with EditorStage(sources=sources(tmp_path)) as stage:
        await stage.type("/save my\t")
        await stage.until(lambda: stage.text == "/save my file.txt")
        await stage.type(CTRL_U, "/save now my\t")
        await stage.until(lambda: stage.text == "/save now my file.txt")
        await stage.type(CTRL_U, "!cat m")
        await stage.shows("› !cat m")  # only when asked for
        await stage.type("\t")
        await stage.until(lambda: stage.text == "!cat 'my file.txt'")
        await stage.type(CTRL_U, "\tx\t")  # elsewhere it indents
        await stage.until(lambda: stage.text == "    x")


@pytest.mark.skipif(sys.platform == "win32", reason="such names aren't possible")
def test_hostile_names_are_shown_clean(tmp_path: Path) -> None:
    for name in ("x\u202egpj.sh", "x\x1b[2J", "x\nb", "x" + "y" * 200):
        (tmp_path / name).touch()

    @screened
    async def test() -> None:
        async with EditorStage(sources=sources(tmp_path), columns=40) as stage:
            await stage.type("@x")
            await stage.shows("› @x", r"  x\nb", r"  x\x1b[2J", "  xyyyyyyyyyyyyyyyyyy…", r"  x\u202egpj.sh")
            await stage.type("\x1b[Z")
            await stage.until(lambda: stage.text == r"@x\u202egpj.sh")
            assert not any(bad in text for text in stage.terminal.sent for bad in ("\u202e", "\x1b[2J"))

    test()


def offered(typed: str, folder: Path) -> list[str]:
    """The line that each completion makes of what is typed."""
    found = Completions(sources(folder)).get_completions(Document(typed), CompleteEvent(completion_requested=True))
    return [typed[: len(typed) + one.start_position] + one.text for one in found]


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("@\u00fcb", "u\u0308ber.md"),  # composed, decomposed and the other way round, also above the last part
        ("@u\u0308b", "\u00fcber.md"),
        ("@\u00e9/x", "e\u0301/x.md"),
        ("@\ud558", "\ud55c\uae00.md"),  # two letters of a Hangul syllable of three
        ("@MY", "my file.md"),
        (r"@my\ fi", "my file.md"),
        ("@my\\", "my file.md"),
        ('@"my fi', "my file.md"),
        ("@'my fi", "my file.md"),
        ('@"Shot 3 P', "Shot 3\u202fPM.png"),
        (r"@my\ dir/in\ s", "my dir/in side.md"),
        ('@"my dir/in s', "my dir/in side.md"),
        (r"@od\nd/x", "od\nd/x\ny z.md"),
        (r"@a\n", "a\nb.md"),
        (r"@bad\x", "bad\udcff.md"),
        ("@both", "both\"'`.md"),
        ("@-", "-rf.md"),
        ("@~t", "~tilde.md"),
        ("@~", "~"),
        ("@.", ".md"),
        ("@@", "@at.md"),
        ("@it's", "it's.md"),
        ("@'it'\\''s", "it's.md"),
        ("@end", "end\\"),
        ("@http:", "http:y"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="such names aren't possible")
def test_what_completion_inserts_opens_the_file(tmp_path: Path, typed: str, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("yes\n")
    put_in = [line for line in offered(f"see {typed}", tmp_path) if not line.endswith(("@./", "@~/"))]
    assert len(put_in) == 1 and put_in[0].replace("\u202f", " ").isprintable()
    message = attach(f"{put_in[0]} please", folder=tmp_path, load_page=no_page, stop=NoStop())
    assert len(message.attachments) == 1 and "\nyes\n" in message.user_text.text


@pytest.mark.skipif(sys.platform == "win32", reason="such names aren't possible")
def test_completion_offers_no_name_that_opens_another_file(tmp_path: Path) -> None:
    for name in ("a\nb.md", r"a\nb.md", "caf\u00e9.md", "cafe\u0301.md"):
        (tmp_path / name).write_text(repr(name))
    assert offered("@a", tmp_path) == [r"@a\nb.md"]
    assert sorted(offered("@c", tmp_path)) == ["@cafe\u0301.md", "@caf\u00e9.md"]
    for line in (r"@a\nb.md", "@caf\u00e9.md", "@cafe\u0301.md"):
        message = attach(line, folder=tmp_path, load_page=no_page, stop=NoStop())
        assert repr(line[1:]) in message.user_text.text


def test_paths_in_a_command_are_words_for_a_shell(tmp_path: Path, home: Path) -> None:
    (tmp_path / "-rf x").touch()
    (home / "my notes.md").touch()
    assert offered("!cat -r", tmp_path) == ["!cat './-rf x'"]
    assert offered("!cat ~/my", tmp_path) == ["!cat ~/'my notes.md'"]


def test_only_the_folder_that_is_typed_is_read(tmp_path: Path, home: Path) -> None:
    for name in ("a/deep/er", "b"):
        (tmp_path / name).mkdir(parents=True)
    (home / "notes.md").touch()
    assert find_paths("", [tmp_path]) == ["a/", "b/"]
    assert find_paths("a/de", [tmp_path, tmp_path]) == ["a/deep/"]
    assert find_paths("~", []) == ["~/"] and find_paths("~/n", []) == ["~/notes.md"]
    assert find_paths(f"{tmp_path}/a/deep/", []) == [f"{tmp_path}/a/deep/er/"]
    assert find_paths("gone/x", [tmp_path]) == find_paths("~nobody-here/", []) == find_paths("b\0/", [tmp_path]) == []


# -- vi ----------------------------------------------------------------------------------------------------------------


@screened
async def test_vi_keys() -> None:
    async with EditorStage(vi=True, sources=sources()) as stage:
        await stage.type(f"one{CTRL_J}two", "\x1b")
        await stage.until(lambda: stage.app.vi_state.input_mode.value == "vi-navigation")
        await stage.type("0xk$x")
        await stage.until(lambda: stage.text == "on\nwo")
        await stage.type("i\x1b\r")  # Esc and Enter at once: not Alt-Enter
        await stage.until(lambda: stage.sent)
        assert stage.sent == [Typed("on\nwo", "on\nwo")]
        await stage.type("/mode", "\x1b")  # in insert mode again; Esc leaves it, with the menu
        await stage.shows("› /mode")
        await stage.type("ddk")
        await stage.until(lambda: stage.text == "on\nwo")
        await stage.type("ccnew", "\x1b", "/")
        await stage.until(lambda: stage.rows[-1] == "search:")
        await stage.type("on", "\r")
        await stage.until(lambda: stage.text == "on\nwo")


# -- the user's own editor ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def nowhere() -> AsyncIterator[None]:
    yield


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "my editor"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return f"'{path}' --wait"


posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")


@posix
def test_the_editor_gets_the_text_whole_and_gives_it_back(tmp_path: Path) -> None:
    seen = f'ls -l "$2" >{tmp_path}/seen && cp "$2" {tmp_path}/got'
    command = script(tmp_path, f'[ "$1" = --wait ] && {seen} && echo "é!" >>"$2"')

    @screened
    async def test() -> None:
        environ = {"EDITOR": "false", "VISUAL": command}
        async with EditorStage(edit=lambda text: edit(text, aside=nowhere, environ=environ)) as stage:
            await stage.type("draft ", PASTE.format("x" * 1_200), f"{ALT_ENTER}end", "\x18\x05")
            await stage.until(lambda: "é" in stage.text)
            assert (tmp_path / "got").read_text() == f"draft {'x' * 1_200}\nend\n"
            assert stage.text == "draft [paste 1: 1,200 characters]\nend\né!"  # it stayed what was pasted
            seen = (tmp_path / "seen").read_text().split()
            assert seen[0].startswith("-rw-------") and seen[-1].endswith(".md") and not Path(seen[-1]).parent.exists()

    test()


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"EDITOR": "/nowhere/vi"}, "/nowhere/vi can't be started: No such file or directory; set $EDITOR"),
        ({"EDITOR": "false"}, "false exited with status 1: your text is unchanged"),
        ({"EDITOR": "'"}, "$EDITOR must be a command, not ' (No closing quotation)"),
        ({"PATH": "/nowhere"}, "no editor found: set $EDITOR (tried vi, nano)"),
    ],
)
@posix
def test_an_editor_that_fails_is_one_line(environ: dict[str, str], told: str) -> None:
    @screened
    async def test() -> None:
        async with EditorStage(edit=lambda text: edit(text, aside=nowhere, environ=environ)) as stage:
            await stage.type("draft", "\x18\x05")
            await stage.until(lambda: stage.notes)
            assert (stage.notes, stage.text) == ([told], "draft")

    test()


@posix
def test_an_unchanged_text_and_a_deleted_file(tmp_path: Path) -> None:
    async def edited(text: str, body: str) -> str | None:
        return await edit(text, aside=nowhere, environ={"EDITOR": script(tmp_path, body), "PATH": os.environ["PATH"]})

    assert asyncio.run(edited("draft", "true")) is None
    assert asyncio.run(edited("draft", 'printf "a\\r\\nb\\n" >"$2"')) == "a\nb"
    assert asyncio.run(edited("a\n", "test $(wc -l <$2) = 1")) is None  # its last line is ended once
    assert asyncio.run(edited("a\n", 'echo b >>"$2"')) == "a\nb\n"
    with pytest.raises(EditorFailed, match="can't be read"):
        asyncio.run(edited("draft", 'rm "$2"'))


_PROGRAM = """
import asyncio, os
from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.layout import Layout
from ossia.cli.terminal.input.editor import Editor
from ossia.cli.terminal.input.external import edit

def sent(typed):
    app.exit()
    print(f"\\nsent: {typed.text}.")

editor = Editor(sent, edit=lambda text: edit(text, aside=in_terminal, environ=os.environ), note=print)
app = Application(Layout(editor.container, editor.window), key_bindings=editor.keys)
asyncio.run(app.run_async(handle_sigint=False))
"""


@posix
def test_ctrl_c_in_the_editor_is_the_editors(tmp_path: Path) -> None:
    import pexpect

    body = "trap 'echo draft edited >\"$2\"; exit 0' INT\necho the-editor-waits\nsleep 600 & wait"
    environ = {**os.environ, "EDITOR": script(tmp_path, body), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    child = pexpect.spawn(
        sys.executable, ["-c", _PROGRAM], cwd=Path(__file__).parents[3], env=environ, timeout=30, encoding="utf-8"
    )
    try:
        child.expect("›")
        child.send("draft\x18\x05")
        child.expect("the-editor-waits")
        child.sendintr()
        child.expect("edited")
        child.send("\r")
        child.expect(r"sent: draft edited\.")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    assert child.exitstatus == 0
