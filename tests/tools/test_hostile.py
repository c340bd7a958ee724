"""The hostile inputs of spec tools §4 have 34 rows. Here: two that others look at from nearer, through the toolbox."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.command import ROOT
from tests.support.folders import Folder, tree

_ROW = re.compile(r"hostile[ _]row[ _](\d+)", re.IGNORECASE)


def test_every_row_has_a_test_that_says_so() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert {int(number) for text in texts for number in _ROW.findall(text)} == set(range(1, 35))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A workspace beside a folder with a secret, and a link from the one to the other."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("a secret\n")
    made = Folder(tmp_path / "work")
    made.write("a.md", "one\ntwo\n")
    (made.root / "link").symlink_to(tmp_path / "outside")
    (made.root / "link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    return made


OUT = ("../outside/secret.txt", "{outside}/secret.txt", "link/secret.txt", "link.txt", "a.md/../../outside/secret.txt")


@pytest.mark.parametrize("path", OUT)
def test_no_tool_leaves_the_workspace(folder: Folder, tmp_path: Path, path: str) -> None:
    """Hostile row 27: `../x`, absolute, a link that leads out. The folder of it for those that look at folders."""
    path = path.format(outside=tmp_path / "outside")
    patches = [
        f"*** Update File: {path}\n@@\n-a secret\n+mine",
        f"*** Delete File: {path}",
        f"*** Add File: {path}.new\n+mine",
        f"*** Update File: a.md\n*** Move to: {path}.new\n@@\n-one\n+mine",
    ]
    before = tree(tmp_path)
    results = [
        folder.call("open_file", path=path),
        folder.call("search", query="secret", path=path),
        folder.call("list_dir", path=path.removesuffix("/secret.txt")),
        folder.call("print_tree", path=path.removesuffix("/secret.txt"), depth=3),
        *(folder.call("apply_patch", patch=f"*** Begin Patch\n{patch}\n*** End Patch") for patch in patches),
    ]
    if path == "link.txt":  # `link.txt.new` is a name like any other
        del results[-2:]
        before = {name: data for name, data in before.items() if name not in ("work/a.md", "work/link.txt.new")}
    assert all(result.error and result.text.startswith("Error: ") for result in results), results
    assert not any("a secret" in result.text for result in results)
    assert before.items() <= tree(tmp_path).items()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('```json\n{"path": "a.md"}\n```', "one\ntwo\n"),
        ('{"path": "a.md",}', "one\ntwo\n"),
        ('{"path": "a.md", "line_start": "2"}', "two\n"),
        ("a.md", "one\ntwo\n"),
        ('{"path": "a.md", "colour": 1}', "Error: repo_browser.open_file: unknown argument 'colour'"),
        ('{"path": "a.md", "line_start": NaN}', "Error: "),
        (
            '{"path": "a.md", "line_start": 1.5}',
            "Error: line_start of repo_browser.open_file: 1.5 is not of type 'integer'",
        ),
        ('{"path": ' + "[" * 10_000 + "]" * 10_000 + "}", "Error: the arguments of repo_browser.open_file: not valid"),
        (json.dumps({"path": "x" * 1_000_000}), "Error: the path has 1000000 characters."),
        ("x" * 3_000_000, "Error: the arguments of repo_browser.open_file are too long"),
        ("", "Error: arguments of repo_browser.open_file: 'path' is a required property"),
        ("[]", "Error: "),
        ('{"path": ', "Error: the arguments of repo_browser.open_file: not valid JSON"),
    ],
)
def test_arguments_as_models_write_them(folder: Folder, arguments: str, text: str) -> None:
    """Hostile row 31: coerced, or a clear error, and never long."""
    result = folder.send("open_file", arguments)
    shown = result.text if result.error else folder.output(result)
    assert shown.startswith(text) and len(result.text) < 2_500
    assert result.error == text.startswith("Error")
