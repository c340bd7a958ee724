"""`repo_browser.apply_patch`: exactly what the patch says, or nothing. Hostile row 28, through the toolbox."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ossia.tools.calls.arguments import patch_in
from tests.oracle.patches import count_outcomes
from tests.support.folders import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "w")


def _patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def _update(path: str, *lines: str) -> str:
    return _patch(f"*** Update File: {path}", *lines)


def _apply(folder: Folder, patch: str) -> str:
    result = folder.call("apply_patch", patch=patch)
    if result.error:
        return result.text
    text = folder.output(result).removesuffix("\n")
    assert text.startswith("Success. Updated the following files:\n")
    return text.replace("Success. Updated the following files:", "Done.")


def _refused(folder: Folder, patch: str, *words: str) -> None:
    """Refused with these words, and nothing changed, kept or left behind."""
    before = folder.tree()
    text = _apply(folder, patch)
    assert text.startswith("Error: ")
    assert [word for word in words if word not in text] == [], text
    assert folder.tree() == before


CODE = "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"


def test_all_kinds_of_sections(folder: Folder) -> None:
    folder.write("a.py", CODE)
    folder.write("old.txt", "gone\n")
    folder.write("move.txt", "one\ntwo\n").chmod(0o755)
    folder.write("ln/name.txt", "same\n")
    text = _apply(
        folder,
        _patch(
            *("*** Update File: a.py", "@@ class B:", "@@     def f(self):", "-        return 1", "+        return 2"),
            *("*** Add File: docs/deep/new.md", "+# New", "+", "+text"),
            *("*** Delete File: old.txt",),
            *("*** Update File: move.txt", "*** Move to: there/moved.txt", "@@", " one", "-two", "+2"),
            *("*** Update File: ln/name.txt", "*** Move to: renamed.txt"),
        ),
    )
    assert text == ("Done.\nM a.py\nA docs/deep/new.md\nD old.txt\nM there/moved.txt\nM renamed.txt")
    assert folder.tree() == {
        "a.py": (CODE[: CODE.rindex("1")] + "2\n").encode(),
        "docs": None,
        "docs/deep": None,
        "docs/deep/new.md": b"# New\n\ntext\n",
        "there": None,
        "there/moved.txt": b"one\n2\n",
        "ln": None,
        "renamed.txt": b"same\n",
    }
    assert (folder.root / "there/moved.txt").stat().st_mode & 0o777 == 0o755


def test_the_question_shows_the_diff_and_names_every_file(folder: Folder) -> None:
    folder.write("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    folder.write("b.txt", "x\n")
    update = ("*** Update File: a.txt", "@@", " 4", "-5", "+five")
    _apply(folder, _patch(*update, "*** Update File: b.txt", "*** Move to: c/d"))
    (asked,) = folder.asked
    assert asked.preview.subjects == ("a.txt", "b.txt", "c/d")
    assert asked.preview.deletes == ("b.txt",), "an answer to an edit of it covers no move"
    assert asked.preview.summary == "Rename b.txt to c/d · edit a.txt +1 −1"
    assert asked.preview.detail == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n--- a/b.txt\n+++ b/c/d\n"
    )


def test_the_question_says_first_what_is_deleted_and_counts_many_files(folder: Folder) -> None:
    folder.write("d.txt", "gone\n")
    folder.write("m.txt", "m\n")
    made = [f"*** Add File: {letter}.md\n+{letter}" for letter in "uvwxyz"]
    move = ("*** Update File: m.txt", "*** Move to: sub/m.txt")
    _apply(folder, _patch(*made, *move, "*** Delete File: d.txt"))
    (asked,) = folder.asked
    assert asked.preview.summary == (
        "Delete d.txt −1 · rename m.txt to sub/m.txt · new u.md +1, v.md +1, w.md +1, x.md +1 and 2 more"
    )


def test_what_is_kept_is_kept_before_anything_changes(folder: Folder) -> None:
    folder.write("a.txt", "old\n")
    folder.write("m.txt", "m\n")
    _apply(folder, _patch("*** Add File: n.txt", "+new", "*** Update File: a.txt", "@@", "-old", "+new",
                          "*** Update File: m.txt", "*** Move to: o.txt"))  # fmt: skip
    assert dict(zip((path.name for path in folder.kept.paths), folder.kept.seen, strict=True)) == {
        "n.txt": None, "a.txt": b"old\n", "o.txt": None, "m.txt": b"m\n",
    }  # fmt: skip


# -- the bugs of the reference (spec §3.3, row 28) --


def test_add_refuses_a_file_that_is_there(folder: Folder) -> None:
    folder.write("a.txt", "precious\n")
    _refused(folder, _patch("*** Add File: a.txt", "+new"), "'a.txt' is there already")
    _refused(folder, _patch("*** Add File: ./x/../a.txt", "+new"))
    folder.write("b.txt", "b\n")
    _refused(folder, _patch("*** Update File: b.txt", "*** Move to: a.txt"), "'a.txt' is there already")


@pytest.mark.parametrize(
    "section",
    [
        ("*** Add File: ../evil", "+x"), ("*** Add File: /tmp/ossia-evil", "+x"), ("*** Delete File: ../w/../x",),
        ("*** Update File: ../b", "@@", "-x", "+y"), ("*** Update File: a.txt", "*** Move to: ../b"),
        ("*** Update File: a.txt", "*** Move to: sub/../../b", "@@", "-old", "+new"),
    ],
)  # fmt: skip
def test_nothing_leads_out(folder: Folder, section: tuple[str, ...]) -> None:
    folder.write("a.txt", "old\n")
    _refused(folder, _patch(*section), "Error: ")
    assert [path.name for path in folder.root.parent.iterdir()] == ["w"]


def test_line_ends_and_the_last_one_stay(folder: Folder) -> None:
    cases = {
        "crlf.txt": (b"one\r\ntwo\r\nthree\r\n", b"one\r\n2\r\n2b\r\nthree\r\n"),
        "open.txt": (b"one\ntwo\nthree", b"one\n2\n2b\nthree"),
        "open-crlf.txt": (b"one\r\ntwo\r\nthree", b"one\r\n2\r\n2b\r\nthree"),
        "mixed.txt": (b"one\ntwo\r\nthree\n", b"one\n2\r\n2b\r\nthree\n"),
        "feed.txt": (b"one\x0c1\ntwo\n3\x0b\xc2\x85\xe2\x80\xa8\n", b"one\x0c1\n2\n2b\n3\x0b\xc2\x85\xe2\x80\xa8\n"),
        "bom.txt": (b"\xef\xbb\xbfone\ntwo\nthree\n", b"\xef\xbb\xbfone\n2\n2b\nthree\n"),
        "utf16.txt": ("\ufeffone\ntwo\nthree\n".encode("utf-16-le"), "\ufeffone\n2\n2b\nthree\n".encode("utf-16-le")),
        "latin.txt": (b"one \xe9\ntwo\nthree\n", b"one \xe9\n2\n2b\nthree\n"),
    }
    for name, (before, after) in cases.items():
        path = folder.write(name, before)
        assert _apply(folder, _update(name, "@@", "-two", "+2", "+2b")) == f"Done.\nM {name}"
        assert path.read_bytes() == after, name


def test_a_change_of_the_last_line_keeps_its_missing_end(folder: Folder) -> None:
    path = folder.write("a.txt", b"one\r\ntwo")
    _apply(folder, _update("a.txt", "@@", " one", "-two", "+2", "+3"))
    assert path.read_bytes() == b"one\r\n2\r\n3"
    _apply(folder, _update("a.txt", "@@", " 2", "-3"))
    assert path.read_bytes() == b"one\r\n2"
    _apply(folder, _update("a.txt", "@@", " 2", "+4", "*** End of File"))
    assert path.read_bytes() == b"one\r\n2\r\n4"


def test_a_patch_with_crlf_lines(folder: Folder) -> None:
    path = folder.write("a.txt", "one\ntwo\n")
    _apply(folder, _update("a.txt", "@@", " one", "-two", "+2").replace("\n", "\r\n") + "\r\n")
    assert path.read_bytes() == b"one\n2\n"


def test_an_added_file_ends_with_a_line_end(folder: Folder) -> None:
    _apply(folder, _patch("*** Add File: a.txt", "+one", "+", "", "+two", "", "*** Add File: empty.txt"))
    assert folder.tree() == {"a.txt": b"one\n\n\ntwo\n", "empty.txt": b""}


def test_the_second_of_two_files_fails(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.write("b.txt", "two\n")
    first = ("*** Update File: a.txt", "@@", "-one", "+1")
    _refused(folder, _patch(*first, "*** Update File: b.txt", "@@", "-nine", "+9"), "b.txt", "'nine'")
    _refused(folder, _patch(*first, "*** Delete File: c.txt"), "no file 'c.txt'")
    _refused(folder, _patch(*first, "*** Add File: b.txt", "+x"))
    _refused(folder, _patch(*first, "*** Update File: a.txt", "@@", "-one", "+1"), "twice")
    assert folder.kept.paths == []


def test_a_write_that_fails_midway_is_taken_back(folder: Folder) -> None:
    """`x` can't be renamed into place, since `x/` was made for `x/y`: by then `a.txt` stood, and `d.txt` was gone."""
    folder.write("a.txt", "one\n").chmod(0o640)
    folder.write("d.txt", "d\n")
    _refused(
        folder,
        _patch(
            *("*** Update File: a.txt", "@@", "-one", "+1", "*** Delete File: d.txt"),
            *("*** Add File: deep/new.txt", "+n", "*** Add File: x", "+1", "*** Add File: x/y", "+2"),
        ),
        "writing failed: 'x': there is a folder of that name",
        "Nothing was changed",
    )
    assert (folder.root / "a.txt").stat().st_mode & 0o777 == 0o640
    assert folder.kept.paths != []


def test_a_file_that_changed_after_the_question(folder: Folder) -> None:
    path = folder.write("a.txt", "one\n")
    folder.write("b.txt", "two\n")
    patch = _patch("*** Update File: b.txt", "@@", "-two", "+2", "*** Update File: a.txt", "@@", "-one", "+1")
    arguments = json.dumps({"patch": patch})
    result = folder.send("apply_patch", arguments, between=lambda: path.write_text("one!\n"))
    assert result.text == "Error: 'a.txt' changed since it was looked at, and nothing was written. Read it again."
    assert folder.tree() == {"a.txt": b"one!\n", "b.txt": b"two\n"}
    patch = _patch("*** Add File: c.txt", "+mine")
    arguments = json.dumps({"patch": patch})
    assert folder.send("apply_patch", arguments, between=lambda: folder.write("c.txt", "theirs")).error
    assert (folder.root / "c.txt").read_text() == "theirs"


# -- where a hunk goes --


def test_ambiguous_context_is_refused(folder: Folder) -> None:
    folder.write("a.py", CODE)
    change = ("-        return 1", "+        return 2")
    words = ("more than one place (lines 2, 6)", "'@@' line")
    _refused(folder, _update("a.py", "@@", "     def f(self):", *change), *words)
    _refused(folder, _update("a.py", "@@ def f(self):", *change), "more than one place")
    _apply(folder, _update("a.py", "@@ class B:", "     def f(self):", "-        return 1", "+        return 2"))
    assert (folder.root / "a.py").read_text() == CODE[: CODE.rindex("1")] + "2\n"


def test_hunks_go_on_behind_the_one_before(folder: Folder) -> None:
    path = folder.write("a.py", CODE)
    one = ("     def f(self):", "-        return 1", "+        return 2")
    _apply(folder, _update("a.py", "@@ class A:", *one, "@@ class B:", *one))
    assert path.read_text() == CODE.replace("1", "2")
    path.write_text(CODE)
    _apply(folder, _update("a.py", "@@ class A:", "-    def f(self):", "+    def g(self):",
                           "@@ class A:", "-        return 1", "+        return 3"))  # fmt: skip
    assert path.read_text() == CODE.replace("f(", "g(", 1).replace("1", "3", 1)
    path.write_text("a\nb\nc\nd\n")
    _apply(folder, _update("a.py", "@@", "-a", "+A", " b", " c", "@@", " b", " c", "-d", "+D"))  # context shared
    assert path.read_text() == "A\nb\nc\nD\n"
    _refused(folder, _update("a.py", "@@", "-D", "+d", "@@", "-A", "+a"), "but at line 1", "Keep the file's order")


@pytest.mark.parametrize(
    ("before", "hunk", "after"),
    [
        ("one  \ntwo\n", (" one", "-two", "+2"), "one  \n2\n"),  # blanks behind
        ("  one\n  two\n", (" one", "-two", "+2"), "  one\n  2\n"),  # indentation: that of the file
        ("\tif x:\n\t\ty()\n", (" if x:", "-    y()", "+    z()", "+    if q:", "+        r()"), None),
        ("    if x:\n        y()\n", (" if x:", "-    y()", "+    z()", "+    "), "    if x:\n        z()\n    \n"),
        ("    if x:\n    y\n", ("         if x:", "-        y", "+            z"), None),  # 4 less, or half of it?
        ("if x:\n\ty()\n", (" if x:", "-    y()", "+    z()", "+        w()"), "if x:\n\tz()\n\t\tw()\n"),  # units
        ("a — b\n“c”\u00a0d\n", (" a - b", '-"c" d', "+e"), "a — b\ne\n"),  # typography
        ("\x0cone\ntwo\u200b\nthree\n", (" one", " two", "-three", "+3"), "\x0cone\ntwo\u200b\n3\n"),  # not shown
        ("x\n x\n", ("- x", "+y"), "x\ny\n"),  # exact wins over what is only like it
    ],
)  # fmt: skip
def test_context_that_is_nearly_right(folder: Folder, before: str, hunk: tuple[str, ...], after: str | None) -> None:
    path = folder.write("a.txt", before)
    if after is None:
        _refused(folder, _update("a.txt", "@@", *hunk), "indentation", "isn't clear")
        return
    _apply(folder, _update("a.txt", "@@", *hunk))
    assert path.read_text() == after


def test_forms_of_hunks(folder: Folder) -> None:
    path = folder.write("a.txt", "one\ntwo\n\nthree\n")
    cases = [
        (("-one", "+1"), "1\ntwo\n\nthree\n"),  # no '@@' before the first
        (("@@ -1,2 +1,2 @@", "-one", "+1"), "1\ntwo\n\nthree\n"),  # line numbers, as diff has them
        (("@@ -1,2 +1,2 @@ def f():", "-one", "+1"), "1\ntwo\n\nthree\n"),
        (("@@ two @@", "", "-three", "+3"), "one\ntwo\n\n3\n"),  # an empty line is context
        (("@@ two", " two", "+2b"), "one\ntwo\n2b\n\nthree\n"),  # the anchor written twice
        (("@@ two", "+2b"), "one\ntwo\n2b\n\nthree\n"),  # only new lines, behind the anchor
        (("@@", "-one", "+1", ""), "1\ntwo\n\nthree\n"),  # an empty line before the end of the section
        (("@@", " three", "+four", "*** End of File"), "one\ntwo\n\nthree\nfour\n"),
        (("@@", "+four", "*** End of File"), "one\ntwo\n\nthree\nfour\n"),
        (("@@", "-three", " ", "*** End of File"), "one\ntwo\n\n"),
    ]
    for lines, after in cases:
        path.write_text("one\ntwo\n\nthree\n")
        _apply(folder, _update("a.txt", *lines))
        assert path.read_text() == after, lines
    path.write_text("")
    _apply(folder, _update("a.txt", "@@", "+one"))
    assert path.read_text() == "one\n"


def test_errors_quote_the_line_and_what_was_expected(folder: Folder) -> None:
    folder.write("a.txt", "alpha\nbeta\ngamma\n")
    folder.write("b.bin", b"\x89PNG\0\0")
    cases: list[tuple[str, tuple[str, ...]]] = [
        (_update("a.txt", "@@", " alpha", "-beta!", "+x"), ("line 2 of the file is 'beta'", "the patch has 'beta!'")),
        (_update("a.txt", "@@", " alpho", "-beta", "+x"), ("no line of the file is 'alpho'", "line 1, 'alpha'")),
        (_update("a.txt", "@@", " gamma", "-delta", "+x"), ("the file ends at line 3", "'delta'")),
        (_update("a.txt", "@@ bete", "-gamma", "+x"), ("'@@ bete'", "isn't in the file", "line 2, 'beta'")),
        (_update("a.txt", "@@ gamma", "-alpha", "+x"), ("behind its '@@' line, but at line 1",)),
        (_update("a.txt", "@@", "-alpha", "+x", "*** End of File"), ("at the end of the file, but at line 1",)),
        (_update("a.txt", "@@", "+x"), ("only '+' lines", "where they go")),
        (_update("a.txt", "@@", "alpha", "-beta"), ("line 4 is 'alpha'", "begins with ' ', '-' or '+'")),
        (_update("a.txt", "@@", "*** End of File"), ("line 3 has no lines",)),
        (_update("a.txt"), ("without any change",)),
        (_update("b.bin", "@@", "-x"), ("PNG picture",)),
        (_patch("*** Add File: c.txt", "x"), ("line 3 is 'x'", "'+'")),
        (_patch("*** Add File:", "+x"), ("a path is missing",)),
        (_patch("*** Delete File: a.txt", "-alpha"), ("line 3 is '-alpha'", "'*** End Patch'")),
        (_patch("--- a/a.txt", "+++ b/a.txt"), ("line 2 is '--- a/a.txt'", "'*** Update File:'")),
        (_patch("*** Rename File: a.txt"), ("'*** Rename File: a.txt'",)),
        (_patch(), ("the patch is empty",)),
        ("just text", ("no line is '*** Begin Patch'",)),
        ("", ("no line is '*** Begin Patch'",)),
        ("*** Begin Patch\n*** Update File: a.txt\n@@\n-alpha\n+x", ("'*** End Patch'", "cut")),
        (_patch("*** Add File: a\\b.txt", "+x"), ("backslash",)),
        (_patch("*** Add File: a\u202etxt", "+x"), ("can't be seen",)),
        (_patch("*** Add File: " + "n" * 300, "+x"), ("Error: ",)),
        (_patch("*** Delete File: .", ""), ("folder",)),
    ]
    for patch, words in cases:
        _refused(folder, patch, *words)


def test_a_misfit_in_a_secret_asks_before_it_is_quoted(folder: Folder) -> None:
    folder.write(".env", "TOKEN=1234\n")
    patch = _update(".env", "@@", "-TOKEN=", "+x")
    result = folder.send("apply_patch", json.dumps({"patch": patch}), answer=False)
    assert "1234" not in result.text
    assert [asked.preview.caution for asked in folder.asked] == ["it reads .env, which often holds secrets"]


def test_a_misfit_is_a_look_at_the_file_and_asks_nothing(folder: Folder, tmp_path: Path) -> None:
    theirs = Folder(tmp_path / "theirs", trusted=False)
    for one in (folder, theirs):
        one.write("a.txt", "x\n")
        result = one.call("apply_patch", patch=_update("a.txt", "@@", "-y", "+z"))
        assert result.error and one.asked == []
        assert result.taints == ({"private"} if one is folder else {"private", "outside"})


def test_links(folder: Folder) -> None:
    """An update goes to the file behind a link; a link itself is neither moved nor deleted."""
    folder.write("real.txt", "one\n")
    (folder.root / "link.txt").symlink_to("real.txt")
    _apply(folder, _update("link.txt", "@@", "-one", "+1"))
    assert folder.tree() == {"real.txt": b"1\n", "link.txt": "real.txt"}
    _refused(folder, _patch("*** Delete File: link.txt"), "is a link to 'real.txt'")
    _refused(folder, _patch("*** Update File: link.txt", "*** Move to: x.txt"), "is a link to 'real.txt'")
    _refused(folder, _patch("*** Update File: link.txt", "@@", "-1", "+2", "*** Delete File: real.txt"), "twice")


# -- what models put around a patch --


def test_the_arguments_are_the_patch_itself(folder: Folder) -> None:
    """As it was trained; what isn't one is told."""
    assert folder.toolbox.by_name["repo_browser.apply_patch"].parameters == {
        "type": "object", "properties": {"patch": {"type": "string"}}, "required": ["patch"],
        "additionalProperties": False,
    }  # fmt: skip
    for nothing in ("", "{}", "[]", '{"patch": 3, "more": 1}'):
        result = folder.send("apply_patch", nothing)
        assert result.error and "repo_browser.apply_patch" in result.text and '{"type": "string"}' in result.text, (
            result
        )


PATCH = _update("a.txt", "@@", " it's", '-"old" $HOME `x`', '+"new" \\n')


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"patch": PATCH}),
        json.dumps({"input": PATCH}),
        json.dumps({"anything": PATCH}),
        json.dumps({"command": ["apply_patch", PATCH]}),
        json.dumps({"cmd": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}),
        json.dumps(["apply_patch", PATCH]),
        PATCH,
        json.dumps({"patch": f"```diff\n{PATCH}\n```"}),
        json.dumps({"patch": f"Here is the patch:\n\n{PATCH}\n\nIt changes a line."}),
        json.dumps({"patch": f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"}),
        json.dumps({"patch": f"$ apply_patch << PATCH\n{PATCH}\nPATCH"}),
        json.dumps({"patch": f'cat <<"EOF" | apply_patch\n{PATCH}\nEOF'}),
        json.dumps({"patch": json.dumps(["apply_patch", PATCH])}),
        json.dumps({"patch": json.dumps({"input": PATCH})}),
        json.dumps({"patch": json.dumps(["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"])}),
        json.dumps({"patch": "apply_patch '" + PATCH.replace("'", "'\\''") + "'"}),
        json.dumps({"patch": PATCH.removeprefix("*** Begin Patch\n")}),
        json.dumps({"patch": f"\n{PATCH}  \n\n"}),
    ],
)
def test_wrappers_are_taken_off(folder: Folder, arguments: str) -> None:
    """Row 28: fences, heredoc."""
    path = folder.write("a.txt", 'it\'s\n"old" $HOME `x`\n')
    result = folder.send("apply_patch", arguments)
    assert folder.output(result) == "Success. Updated the following files:\nM a.txt\n"
    assert path.read_text() == 'it\'s\n"new" \\n\n'


_IN_SUB = _update("a.txt", "@@", "-old", "+it's $HOME `x` \\n")


@pytest.mark.parametrize(
    "command",
    [
        ["apply_patch", f"<<'EOF'\n{_IN_SUB.replace('a.txt', 'sub dir/a.txt')}\nEOF\n"],
        ["applypatch", f"<<-PATCH\n\t{_IN_SUB.replace('a.txt', 'sub dir/a.txt')}\n\tPATCH"],
        ["/usr/bin/bash", "-lc", f"cd 'sub dir' && apply_patch <<'EOF'\n{_IN_SUB}\nEOF"],
        ["zsh", "-l", "-c", f'cd "sub dir"\n/bin/apply_patch << "E-1"  \n{_IN_SUB}\nE-1  \n\n'],
        [f"cd sub\\ dir; applypatch <<EOF\n{_IN_SUB}\nEOF"],
        ["bash", "-c", f"cd ./'sub dir'/deep && \\\n cd -- .. && apply_patch <<'EOF'\n{_IN_SUB}"],
        ["bash", "-lc", "cd 'sub dir' && apply_patch '" + _IN_SUB.replace("'", "'\\''") + "'"],
        ["sh", "-c", 'cd sub" "dir && apply_patch "' + re.sub(r"([\\$`\"])", r"\\\1", _IN_SUB) + '"'],
        ["cd", "sub\\ dir", "&&", "apply_patch", f"<<'EOF'\n{_IN_SUB}\nEOF"],
        ["bash", "-lc", f"cd 'sub dir' && repo_browser.apply_patch <<'EOF'\r\n{_IN_SUB}\r\nEOF"],
    ],
)
def test_a_command_that_is_a_patch(folder: Folder, command: list[str]) -> None:
    """Exactly what the question shows is applied: no shell expands anything, and paths count from the `cd`."""
    path = folder.write("sub dir/a.txt", "old\n")
    folder.write("sub dir/deep/b.txt")
    patch = patch_in("container.exec", {"command": command})
    assert patch is not None
    result = folder.send("apply_patch", patch)
    assert folder.output(result) == "Success. Updated the following files:\nM sub dir/a.txt\n"
    assert path.read_text() == "it's $HOME `x` \\n\n"


def test_a_patch_from_the_workdir_of_a_command(folder: Folder) -> None:
    path = folder.write("src/sub/a.txt", "old\n")
    asked = {"command": ["bash", "-lc", f"cd sub && apply_patch <<'EOF'\n{_IN_SUB}\nEOF"], "workdir": "src"}
    patch = patch_in("container.exec", asked)
    assert patch is not None and not folder.send("apply_patch", patch).error
    assert path.read_text() == "it's $HOME `x` \\n\n"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (f"cd sub/$x && apply_patch <<'EOF'\n{PATCH}\nEOF", "without 'cd'"),
        (f"cd ~/sub && apply_patch <<'EOF'\n{PATCH}\nEOF", "without 'cd'"),
        (f"cd none && apply_patch <<'EOF'\n{PATCH}\nEOF", "there is no folder 'none'"),
        (f"cd .. && apply_patch <<'EOF'\n{PATCH}\nEOF", "leads out of the workspace"),
    ],
)
def test_a_patch_of_a_folder_that_is_not_there(folder: Folder, command: str, complaint: str) -> None:
    folder.write("a.txt", 'it\'s\n"old" $HOME `x`\n')
    _refused(folder, command, complaint)


@pytest.mark.parametrize(
    "patch",
    [
        "*** Begin Patch\n  *** Update File: a.txt\n@@\n-old\n+new\n  *** Add File: b.txt\n+x\n *** End Patch",
        "*** Begin Patch\n *** Add File: b.txt\n+x\n\t*** Update File: a.txt\n-old\n+new\n *** End Patch \n",
        "*** Begin Patch\n *** Update File: a.txt\n *** Move to: a.txt\n-old\n+new\n *** End of File \n"
        " *** Add File: b.txt\n+x\n  *** End Patch",
        "  *** Begin Patch\n  *** Update File: a.txt\n  @@\n  -old\n  +new\n\n"
        "  *** Add File: b.txt\n  +x\n  *** End Patch",
    ],
)
def test_blanks_before_the_marks(folder: Folder, patch: str) -> None:
    folder.write("a.txt", "old\n")
    result = folder.call("apply_patch", patch=patch)
    assert not result.error, result.text
    assert folder.tree() == {"a.txt": b"new\n", "b.txt": b"x\n"}


def test_a_line_of_the_file_that_looks_like_a_mark(folder: Folder) -> None:
    """With a blank in front it is context, as in Codex, where the sections' own marks have none."""
    path = folder.write("a.md", "*** Add File: x\n*** End Patch\nold\n")
    patch = _update("a.md", "@@", " *** Add File: x", " *** End Patch", "-old", "+new")
    assert not folder.call("apply_patch", patch=patch).error
    assert path.read_text() == "*** Add File: x\n*** End Patch\nnew\n"


def test_a_patch_of_too_much_at_once(folder: Folder) -> None:
    """All contents are held in memory until the last one is checked."""
    for number in range(9):
        os.truncate(folder.write(f"{number}.txt"), 15 << 20)
    text = _apply(folder, _patch(*(f"*** Delete File: {number}.txt" for number in range(9))))
    assert text == "Error: the patch takes more than 134 MB of files at once. Split it into smaller ones."
    assert len(list(folder.root.iterdir())) == 9


def test_a_large_file_and_many_hunks(folder: Folder) -> None:
    """Linear enough: 50,000 lines, 500 hunks, and a hunk that fits nowhere."""
    lines = [f"line {number} of many" for number in range(50_000)]
    path = folder.write("a.txt", "\n".join(lines) + "\n")
    hunks = [text for n in range(0, 50_000, 100) for text in ("@@", f" {lines[n]}", f"-{lines[n + 1]}", f"+new {n}")]
    _apply(folder, _update("a.txt", *hunks))
    assert path.read_text().count("new ") == 500
    _refused(folder, _update("a.txt", "@@", " line 7 of manY", "-x"), "the nearest is")


# -- generated --


def test_generated_patches_are_applied_exactly_or_refused(tmp_path: Path) -> None:
    """A seeded tenth of `python -m tests.oracle.patches --count 200 --seed 1`."""
    outcomes = count_outcomes(tmp_path, count=20, seed=1)
    assert outcomes.wrong == []
    assert outcomes.applied >= 8 and outcomes.refused >= 4
