"""The list of what ossia is made of, and the tools that heed it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ossia.tools import sandbox
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule, parse_rule
from ossia.tools.functions.user import load_functions
from ossia.tools.own import Own, own_in, parts_of_prefix, parts_of_program, parts_of_this_python
from ossia.tools.spec import NoStop, ToolContext
from ossia.tools.toolbox import Toolbox
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from ossia.tools.work.result import for_people
from ossia.tools.workspace import Workspace
from tests.support.calls import Called, call
from tests.support.folders import rewritten
from tests.support.work_calls import patch

PATCH = "*** Begin Patch\n*** Update File: {}\n@@\n-one\n+two\n*** End Patch"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace; `engine` is to be ossia's."""
    folder = (tmp_path / "work").resolve()
    (folder / "engine").mkdir(parents=True)
    for name in ("engine/a.py", "b.py"):
        (folder / name).write_text("one\n")
    return folder


def _call(root: Path, name: str, arguments: object, own: Own, *rules: Rule) -> Called:
    tools = [*workspace_tools(), Exec(confinement=sandbox.choose(), home=root.parent / "home")]
    context = ToolContext(NoStop(), Workspace(root, trusted=True, own=own), root.parent / "data", len)
    return call(Toolbox(tools, policy=Policy(rules), context=context), name, arguments, folder=root)


def test_the_parts_that_lie_in_a_workspace(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "far")
    (root.parent / "far" / "bin").mkdir(parents=True)
    (root.parent / "back").symlink_to(root / "engine")
    parts = [root / "engine", root / "engine" / "a.py", root / "link" / "bin", root.parent / "back" / "a.py",
             root / "not-there", root.parent / "far", Path("/usr")]  # fmt: skip
    own = own_in(root, parts)
    assert own == Own((root / "engine", root / "link"))
    assert own.links == (root / "link",) and own.gone == ()
    (root / "link").unlink()
    assert own.gone == (root / "link",)


def test_what_is_not_there_yet_is_asked_about_and_hinders_no_command(root: Path) -> None:
    (root / "way").symlink_to("conf")
    own = own_in(root, [root / "b.py"], [root / "b.py", root / "way" / "config.toml", root.parent / "mcp.json"])
    assert own == Own((root / "b.py",), awaited=(root / "conf" / "config.toml", root / "way"))
    (asked,) = _call(root, "apply_patch", {"patch": patch("conf/config.toml")}, own).asked
    assert asked.firm and not asked.edits
    assert for_people(_call(root, "container.exec", {"command": ["cat", "b.py"]}, own).text, "container.exec") == "one"


@pytest.mark.parametrize("inside", ["engine", "engine/below"])
def test_a_workspace_that_is_itself_a_part(root: Path, inside: str) -> None:
    (root / "engine" / "below").mkdir()
    own = own_in(root / inside, [root / "engine"])
    assert own.problem == f"it lies in {root}/engine, a part of ossia itself"
    assert own.holds(root / inside / "x.py")
    called = _call(root / inside, "container.exec", {"command": ["ls"]}, own)
    assert called.text == f"Error: no commands run in this workspace: {own.problem}. Tell the user; choose another way"


def test_a_part_that_is_gone_could_be_made_anew(root: Path) -> None:
    own = own_in(root, [root / "engine"])
    (root / "engine").rename(root / "elsewhere")
    said = _call(root, "container.exec", {"command": ["mkdir", "engine"]}, own).text
    assert f"a part of ossia itself has disappeared ({root}/engine): start ossia again" in said
    assert not (root / "engine").exists()


def test_a_project_that_is_its_own_environment(root: Path) -> None:
    """`python -m venv .`"""
    for name in ("bin", "lib"):
        (root / name).mkdir()
    (root / "lib64").symlink_to("lib")
    (root / "pyvenv.cfg").touch()
    (root / "bin" / "server").touch()
    expected = Own((root / "bin", root / "lib", root / "pyvenv.cfg"))
    assert own_in(root, parts_of_prefix(root, root)) == expected
    assert own_in(root, parts_of_program(root / "bin" / "server", root)) == expected
    assert own_in(root.parent, parts_of_prefix(root, root.parent)).places == (root,)


def test_a_program_with_what_it_runs(root: Path) -> None:
    (root / "node_modules" / ".bin").mkdir(parents=True)
    (root / "node_modules" / ".bin" / "x").symlink_to("../x.js")
    (root / "node_modules" / "x.js").touch()
    own = own_in(root, [*parts_of_program(root / "node_modules/.bin/x", root), *parts_of_program(root / "b.py", root)])
    assert own.places == (root / "b.py", root / "node_modules")


def test_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    clone = Path(__file__).resolve().parents[2]
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if Path(entry).resolve() != clone])
    own = own_in(clone, parts_of_this_python(clone))
    names = ("cli/x.py", "agent/x/y.py", "tools", "harmony", "tests/tools/test_own.py")
    assert [name for name in names if not own.holds(clone / name)] == []
    assert not own.holds(clone / "docs" / "chat.md")
    prefix = Path(sys.prefix).resolve()
    assert own_in(prefix.parent, parts_of_this_python(prefix.parent)).holds(prefix / "bin" / "x")


def test_all_of_a_package_that_functions_import(root: Path) -> None:
    """A function of the user's may import the rest of it later."""
    (root / "b.py").write_text("import engine.a\n\ndef one() -> None: ...\n")
    (root / "engine" / "a.py").write_text("")
    load_functions(root / "b.py")
    own = own_in(root, parts_of_this_python(root))
    del sys.modules["engine"], sys.modules["engine.a"]
    assert own.holds(root / "engine" / "later.py") and own.holds(root / "b.py")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("repo_browser.apply_patch", PATCH.format("./engine/a.py")),
        ("repo_browser.apply_patch", "*** Begin Patch\n*** Add File: engine/new/b.py\n+two\n*** End Patch"),
        ("repo_browser.apply_patch", "*** Begin Patch\n*** Add File: Engine/A.py\n+two\n*** End Patch"),
        ("repo_browser.apply_patch", PATCH.format("way/a.py")),
        ("repo_browser.apply_patch", PATCH.format("engine/a.py")),
        ("repo_browser.apply_patch", PATCH.format("b.py\n*** Move to: engine/b.py")),
        ("repo_browser.apply_patch", "*** Begin Patch\n*** Delete File: engine/a.py\n*** End Patch"),
    ],
)
def test_a_person_must_agree_to_a_change_of_ossia_itself(root: Path, name: str, arguments: object) -> None:
    (root / "way").symlink_to("engine")
    own = own_in(root, [root / "engine"])
    (asked,) = _call(root, name, arguments, own).asked
    assert asked.firm and asked.preview.caution.endswith(", which is part of ossia itself")


@pytest.mark.parametrize(("pattern", "questions"), [("**", 1), ("**/*.py", 1), ("*.py", 1), ("engine/**", 0)])
def test_a_rule_must_name_what_ossia_is_made_of(root: Path, pattern: str, questions: int) -> None:
    own = own_in(root, [root / "engine"])
    rules = parse_rule(f"repo_browser.apply_patch:{pattern}", "allow")
    called = _call(root, "repo_browser.apply_patch", PATCH.format("engine/a.py"), own, rules)
    assert [asked.firm for asked in called.asked] == [True] * questions


def test_other_files_are_asked_about_as_ever(root: Path) -> None:
    own = own_in(root, [root / "engine"])
    for path in ("b.py", "engines.py", "src/engine.py"):
        (asked,) = _call(root, "repo_browser.apply_patch", {"patch": rewritten(root, path, "two\n")}, own).asked
        assert (asked.firm, asked.preview.caution) == (False, "")
