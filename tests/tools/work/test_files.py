"""`open_file`, `list_dir`, `print_tree`, `search`, and files written by `apply_patch`, through the toolbox."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.names import escaped
from ossia.tools.spec import NoStop, Preview, ToolCall, ToolContext, ToolFailed, ToolResult
from ossia.tools.toolbox import Toolbox
from ossia.tools.work import Search, workspace_tools
from ossia.tools.workspace import Workspace
from tests.support.folders import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "w")


def test_the_tools_and_what_they_can_do() -> None:
    assert [(tool.spec.name, sorted(tool.spec.effects)) for tool in workspace_tools()] == [
        ("repo_browser.print_tree", ["read"]),
        ("repo_browser.list_dir", ["read"]),
        ("repo_browser.search", ["read"]),
        ("repo_browser.open_file", ["read"]),
        ("repo_browser.apply_patch", ["write"]),
    ]


def test_without_a_workspace() -> None:
    context = ToolContext(stop=NoStop(), workspace=None, data_dir=Path("nowhere"), count_tokens=len)
    for tool in workspace_tools():
        args = {"path": "a", "query": "a", "depth": 1, "patch": "*** Begin Patch\n*** End Patch"}
        with pytest.raises(ToolFailed, match="--workspace DIR"):
            tool.preview(args, context=context)


# -- open_file --


def test_a_text_as_it_is(folder: Folder) -> None:
    cases = {
        "a.txt": (b"one\ntwo\n", "one\ntwo\n"),
        "open.txt": (b"one\ntwo", "one\ntwo"),
        "crlf.txt": (b"one\r\ntwo\r\n", "one\ntwo\n"),
        "bom.txt": (b"\xef\xbb\xbfone\n", "one\n"),
        "utf16.txt": ("\ufeffone é\n".encode("utf-16-be"), "one é\n"),
        "latin.txt": (b"caf\xe9 5 \x80", "café 5 €\n[latin.txt: not UTF-8: read as windows-1252, by guess]\n"),
        "ja": ("日本語の設定\n".encode("cp932"), "日本語の設定\n[ja: not UTF-8: read as Shift_JIS, by guess]\n"),
        "zh.txt": ("这是中文\n".encode("gbk"), "这是中文\n[zh.txt: not UTF-8: read as GBK, by guess]\n"),
        "said.py": ("# -*- coding: koi8-r -*-\n# да\n".encode("koi8-r"), "# -*- coding: koi8-r -*-\n# да\n"),
        "bad": ("ü".encode() + b" \xff\n", "ü \ufffd\n[bad: 1 byte not valid in UTF-8, shown as \ufffd]\n"),
        "utf32.txt": ("\ufeffone é\n".encode("utf-32-le"), "one é\n"),
        "cr.txt": (b"one\rtwo\r", "one\ntwo\n"),
        "empty.txt": (b"", ""),
        "工具/ü.txt": ("工具\n".encode(), "工具\n"),
    }
    for name, (data, text) in cases.items():
        folder.write(name, data)
        line_end = "" if not text or text.endswith("\n") else "\n"
        whole = f"<returncode>0</returncode>\n<output>\n{text}{line_end}</output>\ncwd: {folder.root}"
        assert folder.call("open_file", path=name) == ToolResult(whole, taints=frozenset({"private"})), name
    assert folder.asked == []


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(2000), "a PNG picture, 2.0 kB"),
        (b"%PDF-1.7 text", "a PDF, 0.0 kB"),
        (b"text\0text", "a binary file, 0.0 kB"),
        (b"\xff\xfea", "a binary file, 0.0 kB"),
    ],
)
def test_a_binary_file_is_refused(folder: Folder, data: bytes, what: str) -> None:
    folder.write("x", data)
    assert folder.call("open_file", path="x").text == f"Error: 'x' is {what}. repo_browser.open_file opens text only."


def test_some_lines_of_a_text(folder: Folder) -> None:
    folder.write("a.txt", "".join(f"{number}\n" for number in range(1, 11)))
    cases: dict[tuple[int | None, int | None], str] = {
        (None, None): "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n",
        (9, None): "9\n10\n",
        (1, 2): "1\n2\n",
        (0, 2): "1\n2\n",
        (9, 15): "9\n10\n",
        (10, 10): "10\n",
        (9, -1): "9\n10\n",
        (11, None): "Error: the file has 10 lines, so there is no line 11.",
        (3, 2): "Error: line_end is 2, before line_start, which is 3.",
        (1, 0): "Error: line_end is 0, before line_start, which is 1.",
    }
    for (start, end), text in cases.items():
        given = {"line_start": start, "line_end": end}
        assert folder.text("open_file", path="a.txt", **{k: v for k, v in given.items() if v is not None}) == text
    mended = folder.send("open_file", '{"path": "a.txt", "line_start": 2.0, "line_end": "2"}')
    assert folder.output(mended) == "2\n"


def test_the_four_arguments_that_models_always_give(folder: Folder) -> None:
    folder.write("a.txt", "one\ntwo\n\nfour\n")
    given = {"path": "a.txt", "line_start": 2, "line_end": 4}
    assert folder.text("open_file", **given, line_numbers=False) == "two\n\nfour\n"
    assert folder.text("open_file", **given, line_numbers=True) == "     2\ttwo\n     3\t\n     4\tfour\n"
    assert folder.text("open_file", path="./a.txt", line_start=1, line_end=400, line_numbers=True).count("\t") == 4


def test_of_a_long_text_head_and_tail_are_kept_and_it_says_how_to_go_on(folder: Folder) -> None:
    lines = [f"line {number:04}\n" for number in range(1, 2_001)]
    folder.write("a.txt", "".join(lines))
    shown, start = "", 1
    for _ in range(10):
        head, told, tail = folder.text("open_file", path="a.txt", line_start=start).partition("[lines ")
        shown += head
        if not told:
            break
        said, _, tail = tail.partition("\n")
        assert len(head + tail) <= 10_000 and "".join(lines).endswith(tail)
        assert said.startswith(f"{start + head.count(chr(10))}-") and " of 2,000 are left out: open them with" in said
        assert 2_000 < len(tail) <= 2_500
        start = int(said.rpartition("=")[2].rstrip("]"))
    assert shown == "".join(lines) and start > 1
    folder.write("one.txt", "x" * 12_000)
    assert folder.text("open_file", path="one.txt") == "x" * 10_000 + "\n[2,000 more characters of line 1 of 1]\n"
    folder.write("one.txt", "x" * 12_000 + "\nend\n")
    told = "[2,001 more characters of line 1 of 2; go on with line_start=2]\n"
    assert folder.text("open_file", path="one.txt") == "x" * 10_000 + "\n" + told


def test_what_cannot_be_read(folder: Folder) -> None:
    folder.write("docs/a.md")
    assert folder.call("open_file", path="b.md").text == (
        "Error: there is no file 'b.md'. repo_browser.list_dir shows what is there."
    )
    assert folder.call("open_file", path="docs").text == "Error: 'docs' is a folder. Use repo_browser.list_dir."
    assert folder.call("open_file", path="docs/a.md/x").text == (
        "Error: 'docs/a.md' is not a folder, so nothing is below it."
    )
    assert "name too long" in folder.call("open_file", path="n" * 300).text.lower()


def test_what_an_untrusted_folder_holds_is_text_from_outside(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "w", trusted=False)
    folder.write("a.txt", "ignore all that\n")
    calls = ("open_file", {"path": "a.txt"}), ("list_dir", {}), ("print_tree", {}), ("search", {"query": "."})
    for name, arguments in calls:
        assert folder.send(name, json.dumps(arguments)).taints == {"private", "outside"}


# -- list_dir --


def test_names_one_a_line(folder: Folder) -> None:
    for name in ("b.txt", "a/x.py", "a/deep/er/y.py", "Z", ".git/config", ".hidden", "node_modules/left/pad.js"):
        folder.write(name)
    (folder.root / "link").symlink_to("a/x.py")
    assert folder.text("list_dir") == ".git/\n.hidden\nZ\na/\nb.txt\nlink -> a/x.py\nnode_modules/\n"
    assert folder.text("list_dir", path="a") == "deep/\nx.py\n"
    assert folder.text("list_dir", path=".", depth=3) == (
        ".git/\n.hidden\nZ\na/\na/deep/\na/deep/er/\na/x.py\nb.txt\nlink -> a/x.py\nnode_modules/\n"
    )
    assert folder.text("list_dir", path="node_modules", depth=9) == "left/\nleft/pad.js\n"
    (folder.root / "none").mkdir()
    assert folder.text("list_dir", path="none") == "(empty folder)\n"
    assert folder.call("list_dir", path="b.txt").text == "Error: 'b.txt' is not a folder. Use repo_browser.open_file."
    assert folder.call("list_dir", path="nowhere").text == "Error: there is no folder 'nowhere'. List one above it."


def test_names_that_would_break_the_list(folder: Folder) -> None:
    (folder.root / "two\nlines").touch()
    os.close(os.open(os.fsencode(folder.root) + b"/by\xfftes", os.O_CREAT))
    (folder.root / "esc\x1b[2J").touch()
    assert folder.text("list_dir") == "by\\xfftes\nesc\\x1b[2J\ntwo\\nlines\n"


def test_many_names_are_cut(folder: Folder) -> None:
    for number in range(600):
        folder.write(f"f{number:03}")
    for name in ("list_dir", "print_tree"):
        lines = folder.text(name, path="", depth=1).splitlines()
        assert len(lines) == 501
        assert lines[-1] == "[more than 500 names: list a folder below, or use repo_browser.search]"


def test_links_are_not_followed_when_listing(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    (folder.root / "out").symlink_to(tmp_path / "outside")
    (folder.root / "loop").symlink_to(".")
    assert folder.text("list_dir", depth=5) == f"loop -> .\nout -> {tmp_path}/outside\n"


def test_a_tree_is_indented(folder: Folder) -> None:
    """`{"path": "", "depth": 3}` is the first call in nearly every task."""
    for name in ("b.txt", "a/x.py", "a/deep/er/y.py", "a/deep/er/est/z.py", ".git/config"):
        folder.write(name)
    tree = ".git/\na/\n  deep/\n    er/\n  x.py\nb.txt\n"
    assert folder.text("print_tree", path="", depth=3) == folder.text("print_tree", path=".", depth=3) == tree
    assert folder.text("print_tree", path="a", depth=1) == "deep/\nx.py\n"
    assert folder.text("print_tree") == ".git/\na/\n  deep/\n  x.py\nb.txt\n"  # both left out, as models do
    assert "z.py" in folder.text("print_tree", path="", depth=99)
    assert (
        folder.call("print_tree", path="nowhere", depth=1).error and folder.call("print_tree", path="", depth=0).error
    )


# -- search --


def test_lines_that_match(folder: Folder) -> None:
    folder.write("src/a.py", "import os\r\nprint('Größe')\r\n")
    folder.write("src/b.txt", "nothing\nimport this\n")
    folder.write("old.txt", b"caf\xe9 import\n")
    folder.write("x.bin", b"import\0")
    folder.write("wide.txt", "\ufeffimport ü\n".encode("utf-16-le"))
    cases: list[tuple[dict[str, object], str]] = [
        (
            {"query": "import"},
            "old.txt:1:café import\nsrc/a.py:1:import os\nsrc/b.txt:2:import this\nwide.txt:1:import ü\n"
            "[not UTF-8, read by guess or in part: old.txt]",
        ),
        ({"query": r"^import \w+$", "path": "src"}, "src/a.py:1:import os\nsrc/b.txt:2:import this"),
        ({"query": "(?i)GRÖßE"}, "src/a.py:2:print('Größe')"),
        ({"query": "import", "path": "src/b.txt"}, "src/b.txt:2:import this"),
        ({"query": "nowhere"}, "No matches in 4 files."),
    ]
    for arguments, text in cases:
        assert folder.text("search", **arguments) == f"{text}\n", arguments
    assert folder.asked == []


def test_what_is_no_expression_is_looked_for_as_it_stands(folder: Folder) -> None:
    folder.write("a.txt", "x = f(1)\nf[[\n")
    told = "[no regular expression (missing ), unterminated subpattern at position 1): looked for as it stands]"
    assert folder.text("search", query="f(") == f"a.txt:1:x = f(1)\n{told}\n"
    assert folder.call("search", query="a", path="b").text == (
        "Error: there is no 'b'. repo_browser.list_dir shows what is there."
    )
    for hostile in ("(?:" * 240 + "a" + ")" * 240, "[[", "a{99999}{99999}", "(" * 900, "\\", "(?P<n>a)(?P=m)"):
        assert not folder.call("search", query=hostile).error
    assert folder.call("search", query="").error and folder.call("search", query="x" * 1_001).error


def test_an_expression_that_never_ends_is_ended(folder: Folder, tmp_path: Path) -> None:
    folder.write("a.txt", "found aaaa\n")
    folder.write("b.txt", "a" * 60 + "!\n")
    context = ToolContext(
        stop=NoStop(), workspace=Workspace(folder.root, trusted=True), data_dir=tmp_path, count_tokens=len
    )
    toolbox = Toolbox([Search(timeout_s=1)], policy=Policy(), context=context)
    running = toolbox.run(
        ToolCall("c", "repo_browser.search", json.dumps({"query": "^(a|a)*$|found", "path": ""})), stop=NoStop()
    )
    while True:
        try:
            next(running)
        except StopIteration as end:
            assert folder.output(end.value) == (
                "a.txt:1:found aaaa\n[stopped after 1 s: narrow it down by path, or use a simpler expression]\n"
            )
            break


def test_a_search_that_breaks_off_says_so(folder: Folder, tmp_path: Path) -> None:
    """Whatever ends the process: here it is no Python at all."""
    false = shutil.which("false")
    assert false is not None
    context = ToolContext(stop=NoStop(), workspace=Workspace(folder.root), data_dir=tmp_path, count_tokens=len)
    with pytest.raises(ToolFailed, match=r"^Error: the search broke off \(status 1\)\. "):
        next(Search(python=false).run({"query": "x", "path": ""}, call_id="c", context=context))


def test_a_stop_ends_a_search(folder: Folder, tmp_path: Path) -> None:
    folder.write("b.txt", "a" * 60 + "!\n")
    control = Control()
    context = ToolContext(stop=control, workspace=Workspace(folder.root), data_dir=tmp_path, count_tokens=len)
    texts: list[str] = []

    def search() -> None:
        running = Search(timeout_s=3600).run({"query": "^(a|a)*$", "path": ""}, call_id="c", context=context)
        with pytest.raises(StopIteration) as end:
            next(running)
        texts.append(folder.output(end.value.value))

    thread = threading.Thread(target=search, daemon=True)
    thread.start()
    thread.join(0.3)
    control.stop()
    thread.join(60)
    assert texts == ["[interrupted by the user]\n"]


def test_what_a_search_passes_over(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("needle\n")
    for name in (".env", ".git/config", "node_modules/x.js", "key.pem", "target/CACHEDIR.TAG", "target/debug/x.d"):
        folder.write(name, "needle\n")
    (folder.root / "link").symlink_to(tmp_path / "outside")
    (folder.root / "link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    assert folder.text("search", query="needle") == (
        "No matches in 0 files.\n"
        "[skipped (often holds secrets): .env, key.pem]\n"
        "[skipped (not looked into): node_modules/, target/]\n"
    )
    assert folder.text("search", query="needle", path="target/debug") == "target/debug/x.d:1:needle\n"
    assert folder.text("search", query="needle", path="node_modules") == "node_modules/x.js:1:needle\n"
    assert folder.asked == []
    assert folder.text("search", query="needle", path=".env") == ".env:1:needle\n"
    assert [asked.preview.caution for asked in folder.asked] == ["it searches .env, which often holds secrets"]
    folder.write(".ssh/known", "needle\n")
    folder.asked.clear()
    assert folder.text("search", query="needle", path=".ssh") == ".ssh/known:1:needle\n"
    assert len(folder.asked) == 1


def test_a_search_is_bounded(folder: Folder) -> None:
    folder.write("many.txt", "needle\n" * 1_100)
    for most, given in ((50, {}), (3, {"max_results": 3}), (50, {"max_results": None})):
        lines = folder.text("search", query="needle", path="", **given).splitlines()
        assert len(lines) == most + 1
        assert lines[-1] == f"[more than {most} matches: narrow it down, or give max_results]"
    text = folder.text("search", query="needle", max_results=10_000)
    assert len(text) < 10_300 and "[more than 1000 matches: narrow it down, or give max_results]" in text
    assert folder.call("search", query="needle", max_results=0).error
    folder.write("many.txt", "x" * 5_000 + "needle" + "y" * 5_000 + "\n")
    text = folder.text("search", query="needle")
    assert "needle" in text and len(text) < 400 and text.startswith("many.txt:1:…x")


# -- how much of it --


@pytest.fixture(params=["etude_tokenizer", "o200k_tokenizer"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Tokenizer)
    return found


def test_a_result_is_cut_once_by_characters_and_tokens(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Of these lines each character is a token, or nearly: without a second limit the toolbox would cut again."""

    def count(text: str) -> int:
        return len(tokenizer.encode(text))

    folder = Folder(tmp_path / "w", count_tokens=count)
    line = "7 1 4 2 " * 4
    lines = [f"{number:03} {line}\n" for number in range(1, 801)]
    folder.write("many.txt", "".join(lines))
    folder.write("one.txt", line * 400)
    for number in range(400):
        folder.write(f"names/{number:03} {line.strip()}")
    shown = {
        "whole": folder.text("open_file", path="many.txt"),
        "one": folder.text("open_file", path="one.txt"),
        "found": folder.text("search", path="many.txt", query="7", max_results=1_000),
        "listed": folder.text("list_dir", path="names"),
        "tree": folder.text("print_tree", path="names", depth=1),
    }
    for text in shown.values():
        assert len(text) <= 10_200 and 7_000 < count(text) <= 7_700 and text.count("[") == 1
    head, _, rest = shown["whole"].partition("[lines ")
    first, last = (int(number) for number in rest.partition(" ")[0].split("-"))
    assert "".join(lines[: first - 1]) == head and rest.partition("\n")[2] == "".join(lines[last:])
    kept, _, told = shown["one"].partition("\n[")
    assert (line * 400).startswith(kept) and told == f"{12_800 - len(kept):,} more characters of line 1 of 1]\n"
    for text in (shown["listed"], shown["tree"]):
        names = text.splitlines()
        told = f"[the first {len(names) - 1} of 400 names: list a folder below, or use repo_browser.search]"
        assert names[-1] == told and names[-2].startswith(f"{len(names) - 2:03} 7")


def test_a_first_line_of_much_of_the_room_is_whole(folder: Folder) -> None:
    folder.write("a.txt", "x" * 9_000 + "\n" + "two\n" * 400)
    told = "[lines 2-401 of 401 are left out: open them with line_start=2]\n"
    assert folder.text("open_file", path="a.txt") == "x" * 9_000 + "\n" + told


# -- writing --


def test_a_new_file_with_its_folders(folder: Folder) -> None:
    result = folder.put("docs/new/a.md", "# A\n\ntext\n")
    told = "Success. Updated the following files:\nA docs/new/a.md\n"
    diff = "--- /dev/null\n+++ b/docs/new/a.md\n@@ -0,0 +1,3 @@\n+# A\n+\n+text\n"
    text = f"<returncode>0</returncode>\n<output>\n{told}</output>\ncwd: {folder.root}"
    assert result == ToolResult(text, state={"said": "New docs/new/a.md +3", "diff": diff})
    assert (folder.root / "docs/new/a.md").read_bytes() == b"# A\n\ntext\n"
    assert [asked.preview for asked in folder.asked] == [
        Preview("New docs/new/a.md +3", diff, "diff", subjects=("docs/new/a.md",))
    ]
    assert folder.kept.paths == [folder.root / "docs/new/a.md"]
    assert [name for name in folder.tree() if ".ossia-" in name] == []


def test_what_an_old_file_keeps(folder: Folder) -> None:
    cases = {
        "crlf.txt": (b"one\r\ntwo\r\n", ("-one", "-two", "+1", "+2", "+3"), b"1\r\n2\r\n3\r\n"),
        "mixed.txt": (b"one\r\ntwo\n", ("-one", "-two", "+1", "+2"), b"1\n2\n"),
        "bom.txt": (b"\xef\xbb\xbfone\n", ("-one", "+1"), b"\xef\xbb\xbf1\n"),
        "utf16.txt": ("\ufeffone\n".encode("utf-16-le"), ("-one", "+é"), "\ufeffé\n".encode("utf-16-le")),
        "latin.txt": (b"caf\xe9\nx\n", ("-x", "+é"), b"caf\xe9\n\xe9\n"),
        "western.txt": (b"\x93caf\xe9\x94\nx\n", (" “café”", "-x", "+5 €"), b"\x93caf\xe9\x94\n5 \x80\n"),
        "ja.txt": ("設定です\nx\n".encode("cp932"), (" 設定です", "-x", "+日本"), "設定です\n日本\n".encode("cp932")),
        "zh.txt": ("这是中文\nx\n".encode("gbk"), ("-x", "+元"), "这是中文\n元\n".encode("gbk")),
        "utf32.txt": ("\ufeffone\n".encode("utf-32-le"), ("-one", "+é"), "\ufeffé\n".encode("utf-32-le")),
        "broken.txt": (b"\xc3\xbc\na \xff\nx\n", (" a \ufffd", "-x", "+y"), b"\xc3\xbc\na \xff\ny\n"),
        "wide.txt": ("one\nx\n".encode("utf-16-le"), ("-x", "+é"), "one\né\n".encode("utf-16-le")),
        "mail.txt": ("日本\nx\n".encode("iso2022_jp"), ("-x", "+語"), "日本\n語\n".encode("iso2022_jp")),
        "cr.txt": (b"one\rtwo\rthree", (" one", "-two", "+2"), b"one\r2\rthree"),
        "red.txt": (b"\x1b[31mred\x1b[0m\nx\n\x07b\n", (" red", "-x", "+y"), b"\x1b[31mred\x1b[0m\ny\n\x07b\n"),
    }
    for name, (before, lines, after) in cases.items():
        path = folder.write(name, before)
        path.chmod(0o751)
        patch = "\n".join(("*** Begin Patch", f"*** Update File: {name}", "@@", *lines, "*** End Patch"))
        assert not folder.call("apply_patch", patch=patch).error
        assert path.read_bytes() == after, name
        assert path.stat().st_mode & 0o777 == 0o751
    assert folder.kept.seen == [before for before, _, _ in cases.values()]


def test_what_cannot_be_written_back_is_refused(folder: Folder) -> None:
    cases = {
        "western.txt": (b"caf\xe9\nx\n", "+日", "western.txt is written in windows-1252, which has no '日'"),
        "zh.txt": ("这是中文\nx\n".encode("gbk"), "+😀", "zh.txt is written in GBK, which has no '😀'"),
        "named.py": ("# coding: gbk\n# 中文\nx\n".encode("gbk"), "+한", "which has no '한'"),
        "ru.txt": ("Привет, мир\nx\n".encode("koi8_r"), "+é", "ru.txt is written in KOI8-R, which has no 'é'"),
        "broken.txt": ("grün".encode() + b" \xff\nx\n", "+y \ufffd", "which stands for a byte that isn't text there"),
        "ja.txt": (b"# coding: sjis\n\x87\x9b\nx\n", "+y", "holds bytes that Shift_JIS can't write back"),
        "ends.txt": (b"a\rx\n\nb\n", "+", "an empty line can't stand where its line ends change from CR to LF"),
    }
    for name, (before, line, told) in cases.items():
        path = folder.write(name, before)
        patch = "\n".join(("*** Begin Patch", f"*** Update File: {name}", "@@", "-x", line, "*** End Patch"))
        result = folder.call("apply_patch", patch=patch)
        assert result.error and told in result.text, result.text
        assert path.read_bytes() == before


def test_a_hard_link_to_a_file_outside_is_cut(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").write_text("theirs\n")
    os.link(tmp_path / "theirs.txt", folder.root / "a.txt")
    folder.put("a.txt", "ours\n")
    assert (tmp_path / "theirs.txt").read_text() == "theirs\n"


def test_nothing_to_write(folder: Folder) -> None:
    folder.write("a.txt", "same\n")
    assert folder.output(folder.put("a.txt", "same\n")) == (
        "The files are as the patch wants them already; nothing was written.\n"
    )
    assert folder.kept.paths == []


def test_a_file_that_changed_after_the_question_is_not_overwritten(folder: Folder) -> None:
    path = folder.write("a.txt", "old\n")
    for change in (lambda: path.write_text("theirs\n"), path.unlink, path.mkdir):
        arguments = folder.patch("a.txt", "new\n")
        result = folder.send("apply_patch", arguments, between=change)
        assert result.error and result.text.startswith("Error: 'a.txt' "), result
    assert folder.tree() == {"a.txt": None}
    assert folder.kept.paths == []


def test_what_is_not_written(folder: Folder) -> None:
    folder.write("docs/a.md", "x")
    before = folder.tree()
    for path in ("docs", ".", "docs/a.md/b", "a\\b", "a\nb", "", "n" * 300):
        assert folder.put(path, "x").error, path
    assert folder.put("large.txt", "x" * (17 << 20)).error
    assert folder.tree() == before
    assert folder.kept.paths == []


def test_a_link_inside_stays_one(folder: Folder) -> None:
    folder.write("real.txt", "old\n")
    (folder.root / "link.txt").symlink_to("real.txt")
    folder.put("link.txt", "new\n")
    assert folder.tree() == {"real.txt": b"new\n", "link.txt": "real.txt"}
    assert folder.asked[0].preview.subjects == ("real.txt", "link.txt")


def test_a_picture_is_not_replaced(folder: Folder) -> None:
    folder.write("a.png", b"\x89PNG\0")
    for patch in ("*** Update File: a.png\n@@\n+x", "*** Add File: a.png\n+x"):
        assert folder.call("apply_patch", patch=f"*** Begin Patch\n{patch}\n*** End Patch").error
    assert folder.tree() == {"a.png": b"\x89PNG\0"} and folder.asked == []


def test_what_cannot_be_kept_is_not_written(folder: Folder) -> None:
    @dataclass
    class Full:
        def keep(self, path: Path) -> None:
            raise ToolFailed("Error: the undo journal is full. Tell the user.")

    folder.write("a.txt", "old\n")
    context = ToolContext(
        stop=NoStop(), workspace=Workspace(folder.root, True, Full()), data_dir=folder.root, count_tokens=len
    )
    toolbox = Toolbox(workspace_tools(), policy=Policy([Rule("*", "allow")]), context=context)
    for name, arguments in (
        ("apply_patch", folder.patch("a.txt", "new\n")),
        ("apply_patch", "*** Begin Patch\n*** Add File: n/b.txt\n+x\n*** Delete File: a.txt\n*** End Patch"),
    ):
        running = toolbox.run(ToolCall("c", f"repo_browser.{name}", arguments), stop=NoStop())
        events = list(running)
        assert events[-1].result.text == "Error: the undo journal is full. Tell the user."  # type: ignore[union-attr]
    assert folder.tree() == {"a.txt": b"old\n"}


def test_a_dry_run_shows_the_difference_and_writes_nothing(folder: Folder) -> None:
    folder.write("a.txt", "old\n")
    context = ToolContext(stop=NoStop(), workspace=Workspace(folder.root, True), data_dir=folder.root, count_tokens=len)
    toolbox = Toolbox(workspace_tools(), policy=Policy(), context=context, dry_run=True)
    call = ToolCall("c", "repo_browser.apply_patch", folder.patch("a.txt", "new\n"))
    text = list(toolbox.run(call, stop=NoStop()))[-1].result.text  # type: ignore[union-attr]
    assert "-old\n+new\n" in text
    assert folder.tree() == {"a.txt": b"old\n"}


def test_a_difference_of_any_size(folder: Folder) -> None:
    """Far apart changes stand in hunks of their own; two large texts with nothing in common are not compared."""
    lines = [f"{number}\n" for number in range(1, 101)]
    folder.write("a.txt", "".join(lines))
    lines[9], lines[89] = "ten\n", "ninety\n"
    folder.put("a.txt", "".join(lines))
    assert folder.asked[-1].preview.detail == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
        "@@ -87,7 +87,7 @@\n 87\n 88\n 89\n-90\n+ninety\n 91\n 92\n 93\n"
    )
    lines = [f"{number}\n" if number % 2 else "again\n" for number in range(1, 20_001)]
    folder.write("a.txt", "".join(lines))
    lines[1], lines[19_999], lines[9_998:10_000] = "two\n", "end\n", []
    folder.put("a.txt", "".join(lines))
    assert folder.asked[-1].preview.detail == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,5 +1,5 @@\n 1\n-again\n+two\n 3\n again\n 5\n"
        "@@ -9996,8 +9996,6 @@\n again\n 9997\n again\n-9999\n-again\n 10001\n again\n 10003\n"
        "@@ -19997,4 +19995,4 @@\n 19997\n again\n 19999\n-again\n+end\n"
    )
    folder.write("b.txt", "".join(f"old {number}\n" for number in range(10_000)))
    folder.put("b.txt", "".join(f"new {number}\n" for number in range(10_000)))
    preview = folder.asked[-1].preview
    assert preview.summary == "Edit b.txt +10000 −10000"
    assert preview.detail.count("\n") == 20_003
    folder.put("c.txt", "x" * 1_000_000)
    assert folder.asked[-1].preview.detail.endswith("characters of the diff are not shown]\n")
    folder.write("d.txt", "a\nb\n" * 1_000)
    folder.put("d.txt", "a\na\nb\nb\n" * 500)  # took difflib two minutes
    assert folder.asked[-1].preview.summary == "Edit d.txt +1998 −1998"
    islands = ["".join(f"{n}\n{part * 60}" for n in range(200)) for part in ("a\nb\na\nb\n", "a\na\nb\nb\n")]
    folder.write("e.txt", islands[0])
    folder.put("e.txt", islands[1])  # many such parts: bounded in all
    assert folder.asked[-1].preview.summary.startswith("Edit e.txt +")
    kinds = [f"{number}\n" for number in range(120)]
    folder.write("f.txt", "".join(kinds * 300))
    folder.put("f.txt", "first\n" + "".join(kinds[::-1] * 300))
    assert folder.asked[-1].preview.summary.startswith("Edit f.txt +")


# -- names that are written in several ways ----------------------------------------------------------------------------

_NFC, _NFD = "caf\u00e9", "cafe\u0301"
_SHOT = "Screenshot 2026-01-01 at 9.41.00\u202fAM.png.txt"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        (f"{_NFD}/{_NFD}.md", f"{_NFC}/{_NFC}.md"),
        (f"{_NFC}.md", f"./{_NFD}.md"),
        (_SHOT, _SHOT.replace("\u202f", " ")),
        ("it\u2019s \u2013 new.md", "it's - new.md"),
        ("blank .md ", "blank .md"),
        (f"{_NFC}.md", r"caf\303\251.md"),
    ],
)
def test_a_name_as_people_write_it(folder: Folder, name: str, asked: str) -> None:
    folder.write(name, "old\n")
    assert folder.text("open_file", path=asked) == "old\n"
    if not name.endswith(" "):
        assert folder.text("search", path=asked, query="old") == f"{escaped(name)}:1:old\n"
    patch = f"*** Begin Patch\n*** Update File: {asked}\n-old\n+new\n*** End Patch"
    assert not folder.call("apply_patch", patch=patch).error
    assert folder.text("open_file", path=asked) == "new\n"
    again = f"*** Begin Patch\n*** Add File: {asked}\n+x\n*** End Patch"
    assert "is there already" in folder.call("apply_patch", patch=again).text


@pytest.mark.parametrize(
    "name", ["a\nb.md", b"caf\xe9.md", r"a\nb.md", " a.md ", "a\u200bb.md", "\x1b[31m.md", "a\x85.md"]
)
def test_a_listed_name_opens(folder: Folder, name: str | bytes) -> None:
    odd = os.fsdecode(name)
    folder.write(f"sub\\n/{odd}", "it\n")
    shown = folder.text("list_dir", path="", depth=2).splitlines()
    assert len(shown) == 2 and shown[1].isprintable()
    tree = folder.text("print_tree", path="", depth=2).splitlines()
    assert folder.text("open_file", path=shown[1]) == "it\n"
    assert folder.text("open_file", path=shown[0] + tree[1].strip()) == "it\n"
    assert folder.text("search", path="", query="it") == f"{shown[1]}:1:it\n"


def test_names_that_look_the_same(folder: Folder) -> None:
    """The exact one is meant; if none is, the model is told how to name each."""
    folder.write(f"{_NFC}.md", "composed\n")
    folder.write(f"{_NFD}.md", "decomposed\n")
    assert folder.text("open_file", path=f"{_NFD}.md") == "decomposed\n"
    folder.write("it\u2019s.md", "1\n")
    folder.write("it\u2018s.md", "2\n")
    told = folder.text("open_file", path="it's.md")
    assert r"it\u2018s.md or it\u2019s.md" in told or r"it\u2019s.md or it\u2018s.md" in told
    assert folder.text("open_file", path=r"it\u2018s.md") == "2\n"
    folder.write("README.md", "upper\n")
    assert "there is no file" in folder.text("open_file", path="Readme.md")


@pytest.mark.parametrize(
    ("file", "patch", "after"),
    [
        (f"{_NFD}\nx\n", f" {_NFC}\n-x\n+y {_NFC}", f"{_NFD}\ny {_NFC}\n"),
        (f"  {_NFC}\n", f"-{_NFD}\n+n", "  n\n"),
        (f"{_NFD}\n{_NFC}\n", f"-{_NFC}\n+n", f"{_NFD}\nn\n"),
        ("a\r\nb\r\n", "-a\n+c\r\n+d", "c\r\nd\r\nb\r\n"),
        ("a\r\nb\r\n", " a\r\n-b\n+c\r", "a\r\nc\r\n"),
        ("a\nb\r\n", "-b\n+c\r", "a\nc\r\n"),
    ],
)
def test_lines_in_another_form(folder: Folder, file: str, patch: str, after: str) -> None:
    path = folder.write("a.txt", file)
    result = folder.call("apply_patch", patch=f"*** Begin Patch\n*** Update File: a.txt\n@@\n{patch}\n*** End Patch")
    assert not result.error, result.text
    assert path.read_bytes().decode() == after
