"""`read_file`, `list_dir`, `grep` and `write_file`, through the toolbox."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.control import Control
from tests.support.folders import Folder
from tools.approval.policy import Policy, Rule
from tools.spec import NoStop, Preview, ToolCall, ToolContext, ToolFailed, ToolResult
from tools.toolbox import Toolbox
from tools.work import Grep, workspace_tools
from tools.workspace import Workspace


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "w")


def test_the_tools_and_what_they_can_do() -> None:
    assert [(tool.spec.name, sorted(tool.spec.effects)) for tool in workspace_tools()] == [
        ("functions.read_file", ["read"]),
        ("functions.list_dir", ["read"]),
        ("functions.grep", ["read"]),
        ("functions.write_file", ["write"]),
        ("functions.apply_patch", ["write"]),
    ]


def test_the_built_in_model_knows_these_descriptions() -> None:
    """It was trained on their first sentences, the names of the arguments and their order."""
    specs = {tool.spec.name.partition(".")[2]: tool.spec for tool in workspace_tools()}
    assert specs["read_file"].description.startswith("Reads a text file. ")
    assert specs["list_dir"].description.startswith("Lists the files in a directory. ")
    assert specs["read_file"].parameters is not None and specs["list_dir"].parameters is not None
    assert list(dict(specs["read_file"].parameters)["properties"]) == ["path", "start", "limit"]  # type: ignore[call-overload]
    assert next(iter(dict(specs["list_dir"].parameters)["properties"])) == "path"  # type: ignore[call-overload]


def test_without_a_workspace() -> None:
    context = ToolContext(stop=NoStop(), workspace=None, data_dir=Path("nowhere"), count_tokens=len)
    for tool in workspace_tools():
        args = {"path": "a", "pattern": "a", "content": "a", "patch": "*** Begin Patch\n*** End Patch"}
        with pytest.raises(ToolFailed, match="--workspace DIR"):
            tool.preview(args, context=context)


# -- read_file --


def test_a_text_as_it_is(folder: Folder) -> None:
    cases = {
        "a.txt": (b"one\ntwo\n", "one\ntwo\n"),
        "open.txt": (b"one\ntwo", "one\ntwo"),
        "crlf.txt": (b"one\r\ntwo\r\n", "one\ntwo\n"),
        "bom.txt": (b"\xef\xbb\xbfone\n", "one\n"),
        "utf16.txt": ("\ufeffone é\n".encode("utf-16-be"), "one é\n"),
        "latin.txt": (b"caf\xe9", "café\n[latin.txt isn't valid UTF-8; read as Latin-1]\n"),
        "empty.txt": (b"", "(empty file)"),
        "工具/ü.txt": ("工具\n".encode(), "工具\n"),
    }
    for name, (data, text) in cases.items():
        folder.write(name, data)
        assert folder.call("read_file", path=name) == ToolResult(text, brings=frozenset({"private"})), name
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
    assert folder.call("read_file", path="x").text == f"Error: 'x' is {what}. read_file reads text only."


def test_some_lines_of_a_text(folder: Folder) -> None:
    folder.write("a.txt", "".join(f"{number}\n" for number in range(1, 11)))
    cases: dict[tuple[int | None, int | None], str] = {
        (None, None): "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n",
        (9, None): "9\n10\n",
        (1, 2): "1\n2\n[lines 1-2 of 10; go on with start=3]",
        (0, 2): "1\n2\n[lines 1-2 of 10; go on with start=3]",
        (9, 5): "9\n10\n",
        (10, 1): "10\n",
        (11, None): "Error: the file has 10 lines, so there is no line 11.",
    }
    for (start, limit), text in cases.items():
        arguments = {"path": "a.txt"} | {k: v for k, v in (("start", start), ("limit", limit)) if v is not None}
        assert folder.send("read_file", json.dumps(arguments)).text == text
    assert folder.send("read_file", '{"path": "a.txt", "start": 2.0, "limit": "1"}').text.startswith("2\n[")
    assert folder.call("read_file", path="a.txt", limit=0).error


def test_a_long_text_is_cut_at_a_line_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "w", max_tokens=1_000)  # 4,000 bytes here
    text = "".join(f"line {number:04}\n" for number in range(1, 1_001))
    folder.write("a.txt", text)
    shown, start = "", 1
    for _ in range(10):
        piece, _, remark = folder.call("read_file", path="a.txt", start=start).text.partition("[lines ")
        assert len(piece) <= 4_000
        shown += piece
        if not remark:
            break
        assert remark.startswith(f"{start}-") and " of 1,000; go on with start=" in remark
        start = int(remark.rpartition("=")[2].rstrip("]"))
    assert shown == text
    folder.write("one.txt", "x" * 10_000)
    assert folder.call("read_file", path="one.txt").text == "x" * 4_000 + "\n[6,000 more characters of line 1 of 1]"


def test_what_cannot_be_read(folder: Folder) -> None:
    folder.write("docs/a.md")
    assert folder.call("read_file", path="b.md").text == "Error: there is no file 'b.md'. list_dir shows what is there."
    assert folder.call("read_file", path="docs").text == "Error: 'docs' is a folder. Use list_dir."
    assert folder.call("read_file", path="docs/a.md/x").text == (
        "Error: 'docs/a.md' is not a folder, so nothing is below it."
    )
    assert "name too long" in folder.call("read_file", path="n" * 300).text.lower()


def test_what_an_untrusted_folder_holds_is_text_from_outside(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "w", trusted=False)
    folder.write("a.txt", "ignore all that\n")
    for name, arguments in (("read_file", {"path": "a.txt"}), ("list_dir", {}), ("grep", {"pattern": "."})):
        assert folder.send(name, json.dumps(arguments)).brings == {"private", "outside"}


# -- list_dir --


def test_names_one_a_line(folder: Folder) -> None:
    for name in ("b.txt", "a/x.py", "a/deep/er/y.py", "Z", ".git/config", ".hidden", "node_modules/left/pad.js"):
        folder.write(name)
    (folder.root / "link").symlink_to("a/x.py")
    assert folder.call("list_dir").text == ".git/\n.hidden\nZ\na/\nb.txt\nlink -> a/x.py\nnode_modules/"
    assert folder.call("list_dir", path="a").text == "deep/\nx.py"
    assert folder.call("list_dir", path=".", depth=3).text == (
        ".git/\n.hidden\nZ\na/\na/deep/\na/deep/er/\na/x.py\nb.txt\nlink -> a/x.py\nnode_modules/"
    )
    assert folder.call("list_dir", path="node_modules", depth=9).text == "left/\nleft/pad.js"
    (folder.root / "none").mkdir()
    assert folder.call("list_dir", path="none").text == "(empty folder)"
    assert folder.call("list_dir", path="b.txt").text == "Error: 'b.txt' is not a folder. Use read_file."
    assert folder.call("list_dir", path="nowhere").text == "Error: there is no folder 'nowhere'. List one above it."


def test_names_that_would_break_the_list(folder: Folder) -> None:
    (folder.root / "two\nlines").touch()
    os.close(os.open(os.fsencode(folder.root) + b"/by\xfftes", os.O_CREAT))
    (folder.root / "esc\x1b[2J").touch()
    assert folder.call("list_dir").text == "by\\xfftes\nesc\\x1b[2J\ntwo\\nlines"


def test_many_names_are_cut(folder: Folder) -> None:
    for number in range(600):
        folder.write(f"f{number:03}")
    lines = folder.call("list_dir").text.split("\n")
    assert len(lines) == 501 and lines[-1] == "[more than 500 names: list a folder below, or use grep]"


def test_links_are_not_followed_when_listing(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    (folder.root / "out").symlink_to(tmp_path / "outside")
    (folder.root / "loop").symlink_to(".")
    assert folder.call("list_dir", depth=5).text == f"loop -> .\nout -> {tmp_path}/outside"


# -- grep --


def test_lines_that_match(folder: Folder) -> None:
    folder.write("src/a.py", "import os\r\nprint('Größe')\r\n")
    folder.write("src/b.txt", "nothing\nimport this\n")
    folder.write("old.txt", b"caf\xe9 import\n")
    folder.write("x.bin", b"import\0")
    folder.write("wide.txt", "\ufeffimport ü\n".encode("utf-16-le"))
    cases: list[tuple[dict[str, object], str]] = [
        (
            {"pattern": "import"},
            "old.txt:1: café import\nsrc/a.py:1: import os\nsrc/b.txt:2: import this\nwide.txt:1: import ü",
        ),
        ({"pattern": r"^import \w+$", "path": "src"}, "src/a.py:1: import os\nsrc/b.txt:2: import this"),
        ({"pattern": "GRÖSSE|größe", "ignore_case": True}, "src/a.py:2: print('Größe')"),
        ({"pattern": "import", "glob": "*.py"}, "src/a.py:1: import os"),
        ({"pattern": "import", "glob": "src/**/*.{py,txt}"}, "src/a.py:1: import os\nsrc/b.txt:2: import this"),
        ({"pattern": "import", "glob": "!src/"}, "old.txt:1: café import\nwide.txt:1: import ü"),
        ({"pattern": "import", "path": "src/b.txt"}, "src/b.txt:2: import this"),
        ({"pattern": "nowhere"}, "No matches in 4 files."),
    ]
    for arguments, text in cases:
        assert folder.send("grep", json.dumps(arguments)).text == text, arguments
    assert folder.asked == []


def test_expressions_and_places_that_are_none(folder: Folder) -> None:
    folder.write("a.txt", "x")
    bad = folder.call("grep", pattern="f(")
    assert bad.error and bad.text.startswith("Error: 'f(' is no regular expression: missing ), unterminated subpattern")
    assert folder.call("grep", pattern="a", path="b").text == "Error: there is no 'b'. list_dir shows what is there."
    for hostile in ("(?:" * 300 + "a" + ")" * 300, "[[", "a{99999}{99999}", "(" * 900, "\\", "(?P<n>a)(?P=m)"):
        assert folder.call("grep", pattern=hostile).text
    assert folder.call("grep", pattern="x", glob="[z-a]*").error


def test_an_expression_that_never_ends_is_ended(folder: Folder, tmp_path: Path) -> None:
    folder.write("a.txt", "found aaaa\n")
    folder.write("b.txt", "a" * 60 + "!\n")
    context = ToolContext(
        stop=NoStop(), workspace=Workspace(folder.root, trusted=True), data_dir=tmp_path, count_tokens=len
    )
    toolbox = Toolbox([Grep(timeout_s=1)], policy=Policy(), context=context)
    running = toolbox.run(ToolCall("c", "functions.grep", json.dumps({"pattern": "^(a|a)*$|found"})), stop=NoStop())
    while True:
        try:
            next(running)
        except StopIteration as end:
            assert end.value.text == (
                "a.txt:1: found aaaa\n"
                "[stopped after 1 s: narrow it down by path or glob, or use a simpler expression]"
            )
            break


def test_a_search_that_breaks_off_says_so(folder: Folder, tmp_path: Path) -> None:
    """Whatever ends the process: here it is no Python at all."""
    false = shutil.which("false")
    assert false is not None
    context = ToolContext(stop=NoStop(), workspace=Workspace(folder.root), data_dir=tmp_path, count_tokens=len)
    with pytest.raises(ToolFailed, match=r"^Error: the search broke off \(status 1\)\. "):
        next(Grep(python=false).run({"pattern": "x"}, call_id="c", context=context))


def test_a_stop_ends_a_search(folder: Folder, tmp_path: Path) -> None:
    folder.write("b.txt", "a" * 60 + "!\n")
    control = Control()
    context = ToolContext(stop=control, workspace=Workspace(folder.root), data_dir=tmp_path, count_tokens=len)
    texts: list[str] = []

    def search() -> None:
        running = Grep(timeout_s=3600).run({"pattern": "^(a|a)*$"}, call_id="c", context=context)
        with pytest.raises(StopIteration) as end:
            next(running)
        texts.append(end.value.value.text)

    thread = threading.Thread(target=search, daemon=True)
    thread.start()
    thread.join(0.3)
    control.stop()
    thread.join(60)
    assert texts == ["[interrupted by the user]"]


def test_what_a_search_passes_over(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("needle\n")
    for name in (".env", ".git/config", "node_modules/x.js", "key.pem", "target/CACHEDIR.TAG", "target/debug/x.d"):
        folder.write(name, "needle\n")
    (folder.root / "link").symlink_to(tmp_path / "outside")
    (folder.root / "link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    assert folder.call("grep", pattern="needle").text == (
        "No matches in 0 files.\n"
        "[passed over (often holds secrets): .env, key.pem]\n"
        "[passed over (not looked into): node_modules/, target/]"
    )
    assert folder.call("grep", pattern="needle", path="target/debug").text == "target/debug/x.d:1: needle"
    assert folder.call("grep", pattern="needle", path="node_modules").text == "node_modules/x.js:1: needle"
    assert folder.asked == []
    assert folder.call("grep", pattern="needle", path=".env").text == ".env:1: needle"
    assert [asked.preview.caution for asked in folder.asked] == ["it searches .env, which often holds secrets"]
    folder.write(".ssh/known", "needle\n")
    folder.asked.clear()
    assert folder.call("grep", pattern="needle", path=".ssh").text == ".ssh/known:1: needle"
    assert len(folder.asked) == 1


def test_a_search_is_bounded(folder: Folder) -> None:
    folder.write("many.txt", "needle\n" * 1_000)
    lines = folder.call("grep", pattern="needle").text.split("\n")
    assert len(lines) == 201 and lines[-1] == "[more than 200 matches: narrow it down by path or glob]"
    folder.write("many.txt", "x" * 5_000 + "needle" + "y" * 5_000 + "\n")
    text = folder.call("grep", pattern="needle").text
    assert "needle" in text and len(text) < 400 and text.startswith("many.txt:1: …x")


# -- write_file --


def test_a_new_file_with_its_folders(folder: Folder) -> None:
    result = folder.call("write_file", path="docs/new/a.md", content="# A\n\ntext")
    assert result == ToolResult("Made docs/new/a.md (3 lines, 9 bytes).")
    assert (folder.root / "docs/new/a.md").read_bytes() == b"# A\n\ntext"
    assert [asked.preview for asked in folder.asked] == [
        Preview(
            "make docs/new/a.md (+3 -0 lines)",
            "--- /dev/null\n+++ b/docs/new/a.md\n@@ -0,0 +1,3 @@\n+# A\n+\n+text\n\\ No newline at end of file\n",
            "diff",
            subjects=("docs/new/a.md",),
        )
    ]
    assert folder.kept.paths == [folder.root / "docs/new/a.md"]
    assert [name for name in folder.tree() if ".ossia-" in name] == []


def test_what_an_old_file_keeps(folder: Folder) -> None:
    cases = {
        "crlf.txt": (b"one\r\ntwo\r\n", "1\n2\n3", b"1\r\n2\r\n3"),
        "mixed.txt": (b"one\r\ntwo\n", "1\n2\n", b"1\n2\n"),
        "bom.txt": (b"\xef\xbb\xbfone\n", "1\n", b"\xef\xbb\xbf1\n"),
        "utf16.txt": ("\ufeffone\n".encode("utf-16-le"), "é\n", "\ufeffé\n".encode("utf-16-le")),
        "latin.txt": (b"caf\xe9\n", "café 工具\n", "café 工具\n".encode()),
    }
    for name, (before, content, after) in cases.items():
        path = folder.write(name, before)
        path.chmod(0o751)
        assert not folder.call("write_file", path=name, content=content).error
        assert path.read_bytes() == after, name
        assert path.stat().st_mode & 0o777 == 0o751
    assert folder.kept.seen == [before for before, _, _ in cases.values()]


def test_a_hard_link_to_a_file_outside_is_cut(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").write_text("theirs\n")
    os.link(tmp_path / "theirs.txt", folder.root / "a.txt")
    folder.call("write_file", path="a.txt", content="ours\n")
    assert (tmp_path / "theirs.txt").read_text() == "theirs\n"


def test_nothing_to_write(folder: Folder) -> None:
    folder.write("a.txt", "same\n")
    assert folder.call("write_file", path="a.txt", content="same\n").text == (
        "a.txt has this content already; nothing was written."
    )
    assert folder.kept.paths == []


def test_a_file_that_changed_after_the_question_is_not_overwritten(folder: Folder) -> None:
    path = folder.write("a.txt", "old\n")
    arguments = json.dumps({"path": "a.txt", "content": "new\n"})
    for change in (lambda: path.write_text("theirs\n"), path.unlink, path.mkdir):
        result = folder.send("write_file", arguments, between=change)
        assert result.error and result.text.startswith("Error: 'a.txt' "), result
    assert folder.tree() == {"a.txt": None}
    assert folder.kept.paths == []


def test_what_is_not_written(folder: Folder) -> None:
    folder.write("docs/a.md", "x")
    before = folder.tree()
    for path in ("docs", ".", "docs/a.md/b", "a\\b", "a\nb", "", "n" * 300):
        assert folder.call("write_file", path=path, content="x").error, path
    assert folder.call("write_file", path="large.txt", content="x" * (17 << 20)).error
    assert folder.tree() == before
    assert folder.kept.paths == []


def test_a_link_inside_stays_one(folder: Folder) -> None:
    folder.write("real.txt", "old\n")
    (folder.root / "link.txt").symlink_to("real.txt")
    folder.call("write_file", path="link.txt", content="new\n")
    assert folder.tree() == {"real.txt": b"new\n", "link.txt": "real.txt"}
    assert folder.asked[0].preview.subjects == ("real.txt", "link.txt")


def test_a_picture_is_replaced_only_after_a_question(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "w", rules=(Rule("write_file", "allow"),))
    folder.write("a.png", b"\x89PNG\0")
    folder.call("write_file", path="a.png", content="x")
    assert [asked.preview.caution for asked in folder.asked] == ["it replaces a PNG picture, 0.0 kB, with text"]


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
        ("write_file", {"path": "a.txt", "content": "new\n"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: n/b.txt\n+x\n*** Delete File: a.txt\n*** End Patch"}),
    ):
        running = toolbox.run(ToolCall("c", f"functions.{name}", json.dumps(arguments)), stop=NoStop())
        events = list(running)
        assert events[-1].result.text == "Error: the undo journal is full. Tell the user."  # type: ignore[union-attr]
    assert folder.tree() == {"a.txt": b"old\n"}


def test_a_dry_run_shows_the_difference_and_writes_nothing(folder: Folder) -> None:
    folder.write("a.txt", "old\n")
    context = ToolContext(
        stop=NoStop(), workspace=Workspace(folder.root, True), data_dir=folder.root, count_tokens=len
    )
    toolbox = Toolbox(workspace_tools(), policy=Policy(), context=context, dry_run=True)
    call = ToolCall("c", "functions.write_file", json.dumps({"path": "a.txt", "content": "new\n"}))
    text = list(toolbox.run(call, stop=NoStop()))[-1].result.text  # type: ignore[union-attr]
    assert "-old\n+new\n" in text
    assert folder.tree() == {"a.txt": b"old\n"}


def test_a_difference_of_any_size(folder: Folder) -> None:
    """Far apart changes stand in hunks of their own; two large texts with nothing in common are not compared."""
    lines = [f"{number}\n" for number in range(1, 101)]
    folder.write("a.txt", "".join(lines))
    lines[9], lines[89] = "ten\n", "ninety\n"
    folder.call("write_file", path="a.txt", content="".join(lines))
    assert folder.asked[-1].preview.detail == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
        "@@ -87,7 +87,7 @@\n 87\n 88\n 89\n-90\n+ninety\n 91\n 92\n 93\n"
    )
    lines = [f"{number}\n" if number % 2 else "again\n" for number in range(1, 20_001)]
    folder.write("a.txt", "".join(lines))
    lines[1], lines[19_999], lines[9_998:10_000] = "two\n", "end\n", []
    folder.call("write_file", path="a.txt", content="".join(lines))
    assert folder.asked[-1].preview.detail == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,5 +1,5 @@\n 1\n-again\n+two\n 3\n again\n 5\n"
        "@@ -9996,8 +9996,6 @@\n again\n 9997\n again\n-9999\n-again\n 10001\n again\n 10003\n"
        "@@ -19997,4 +19995,4 @@\n 19997\n again\n 19999\n-again\n+end\n"
    )
    folder.write("b.txt", "".join(f"old {number}\n" for number in range(10_000)))
    folder.call("write_file", path="b.txt", content="".join(f"new {number}\n" for number in range(10_000)))
    preview = folder.asked[-1].preview
    assert preview.summary == "change b.txt (+10000 -10000 lines)"
    assert preview.detail.count("\n") == 20_003
    folder.call("write_file", path="c.txt", content="x" * 1_000_000)
    assert folder.asked[-1].preview.detail.endswith("characters of the diff are not shown]\n")
    folder.write("d.txt", "a\nb\n" * 1_000)
    folder.call("write_file", path="d.txt", content="a\na\nb\nb\n" * 500)  # took difflib two minutes
    assert folder.asked[-1].preview.summary == "change d.txt (+1998 -1998 lines)"
    islands = ["".join(f"{n}\n{part * 60}" for n in range(200)) for part in ("a\nb\na\nb\n", "a\na\nb\nb\n")]
    folder.write("e.txt", islands[0])
    folder.call("write_file", path="e.txt", content=islands[1])  # many such parts: bounded in all
    assert folder.asked[-1].preview.summary.startswith("change e.txt (+")
