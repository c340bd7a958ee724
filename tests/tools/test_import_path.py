"""What ossia itself is made of, in a workspace: commands that would change it, under each confinement, really run."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from ossia.cli.paths import host
from ossia.tools import sandbox
from ossia.tools.import_path import environment_for, remove_from_sys_path, restored_sys_path
from ossia.tools.python.named import inspect_named
from ossia.tools.python.tool import PythonTool
from ossia.tools.work.result import for_people, formed
from tests.support.command import OSSIA
from tests.support.kernels import NO_BWRAP, confinement, run
from tests.support.own import PACKAGES, calls, make_clone, make_environment
from tests.support.trees import snapshot
from tests.support.work_calls import patch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")

ALLOWED = ("--allow", "container.exec", "--allow", "python")


@pytest.fixture(params=[pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock"])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """What makes ossia confine by one of them: without bubblewrap on PATH it is Landlock."""
    if request.param == "bwrap":
        confinement("bwrap")  # skips the test where there is none
        return {}
    return {"PATH": str(tmp_path)}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    return folder


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that only code outside of every confinement can make."""
    return tmp_path / "escaped"


def plants(mark: Path, *places: str) -> str:
    """A command that appends to each of the places a line of Python which makes the mark, whatever comes of it."""
    line = f"import pathlib; pathlib.Path({str(mark)!r}).touch()"
    return "; ".join(f"printf '%s\\n' {shlex.quote(line)} >> {place}" for place in places) + "; echo x >> a.txt; true"


def shell(command: str) -> tuple[str, dict[str, list[str]]]:
    return ("container.exec", {"command": ["bash", "-lc", command]})


def made_of(root: Path) -> dict[str, object]:
    return {name: snapshot(root / name) for name in (*PACKAGES, ".venv")}


def test_a_clone_with_its_environment(work: Path, mark: Path, env: dict[str, str]) -> None:
    ossia = make_clone(work)
    before = made_of(work)
    site = next((work / ".venv").glob("lib/python*/site-packages")).relative_to(work)
    plant = plants(mark, "tools/work/_search_inside.py", "tools/__init__.py", f"{site}/x.pth",
                   f"{site}/sitecustomize.py", "sitecustomize.py", "attr.py", "lxml.py", ".venv/bin/ossia",
                   "/dev/null")  # fmt: skip
    moves = "mv tools t; mv .venv v; rm -rf cli .venv; ln -s /bin/true .venv/bin/python; mkdir -p tools; touch tools/z"
    search = ("repo_browser.search", {"path": "a.txt", "query": "hello|x"})
    script = (shell(f"{plant}; {moves}; cat a.txt"), search, ("python", "print(6*7)"))
    answers = calls(ossia, work, *script, flags=ALLOWED, env=env)
    assert [answers[1]["text"], answers[2]["text"]] == [formed("a.txt:1:hello\na.txt:2:x", work), "42"]
    assert calls(ossia, work, search, env=env)[0]["text"] == answers[1]["text"]
    assert not mark.exists()
    assert {name: _without_bytecode(tree) for name, tree in made_of(work).items()} == {
        name: _without_bytecode(tree) for name, tree in before.items()
    }


def _without_bytecode(tree: object) -> object:
    assert isinstance(tree, dict)
    return {path: state for path, state in tree.items() if "__pycache__" not in str(path)}


def test_a_folder_of_functions_is_not_searched_later(work: Path, mark: Path, env: dict[str, str]) -> None:
    (work / "fun.py").write_text("from helper import one\n\ndef number() -> int:\n    'One.'\n    return one()\n")
    (work / "helper.py").write_text("def one() -> int:\n    return 1\n")
    before = (work / "fun.py").read_text(), (work / "helper.py").read_text()
    (work.parent / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\ndef one() -> int:\n    return 2\n")
    planted = importlib.util.cache_from_source(str(work / "helper.py"))  # a command of an earlier run may leave that
    py_compile.compile(str(work.parent / "evil.py"), planted, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    plant = plants(mark, "orjson.py", "fun.py", "helper.py") + "; echo raise ModuleNotFoundError >> orjson.py"
    script = (shell(plant), ("python", "print(6*7)"), ("functions.number", {}))
    answers = calls(OSSIA, work, *script, flags=(*ALLOWED, "--tools", "fun.py,python", "--allow", "number"), env=env)
    assert [answer["text"] for answer in answers[1:]] == ["42", "1"] and not mark.exists()
    assert ((work / "fun.py").read_text(), (work / "helper.py").read_text()) == before


def test_an_environment_further_down_is_not_moved_aside(work: Path, mark: Path, env: dict[str, str]) -> None:
    ossia = make_environment(work / "a" / "b" / ".venv", *_clone_beside(work))
    before = snapshot(work / "a")
    command = "mv a a2; mv a/b a/b2; rm -rf a; echo y > a/b/.venv/pyvenv.cfg; echo x >> a.txt; ls a/b/.venv"
    (answer,) = calls(ossia, work, shell(command), flags=ALLOWED, env=env)
    assert for_people(answer["text"], "container.exec").splitlines()[-3:] == ["bin", "lib", "pyvenv.cfg"]
    assert snapshot(work / "a") == before and (work / "a.txt").read_text() == "hello\nx\n"


def test_a_clone_is_not_searched_from_the_first_import_on(work: Path) -> None:
    """What an earlier run planted beside our packages isn't found, and they are."""
    python = make_clone(work).with_name("python")
    code = (
        "import sys; sys.argv = ['ossia', '--version']; from ossia.cli.main import main; status = main()\n"
        f"import ossia.harmony.tokens, ossia.agent.limits, ossia.tools.own; print(status, {str(work)!r} in sys.path)\n"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout.splitlines()[1:] == ["0 False"], done.stderr


def _clone_beside(work: Path) -> list[Path]:
    make_clone(work.parent / "source")
    return [work.parent / "source"]


def test_a_link_on_the_way_is_held_or_no_command_runs(work: Path, env: dict[str, str]) -> None:
    make_environment(work.parent / "real", *_clone_beside(work))
    (work / ".venv").symlink_to(work.parent / "real")
    command = shell("rm .venv; mkdir .venv; echo x >> a.txt")
    (answer,) = calls(work / ".venv" / "bin" / "ossia", work, command, flags=ALLOWED, env=env)
    assert (work / ".venv").is_symlink()
    refused = f"a link in it leads to a part of ossia itself ({work}/.venv), which bwrap can't protect"
    by_landlock = bool(env)
    assert (refused not in answer["text"], "x" in (work / "a.txt").read_text()) == (by_landlock, by_landlock)


def test_a_program_that_is_started_by_name_is_not_one_of_the_workspace(work: Path, mark: Path) -> None:
    """A bubblewrap runs unconfined itself."""
    (work / "bin").mkdir()
    for name in ("bwrap", "rm"):
        (work / "bin" / name).write_text(f"#!/bin/sh\necho > {mark}\n")
        (work / "bin" / name).chmod(0o755)
    (answer,) = calls(OSSIA, work, shell("echo $PATH"), flags=ALLOWED, env={"PATH": f"{work}/bin"})
    assert for_people(answer["text"], "container.exec").startswith(f"{work}/bin:") and not mark.exists()


def test_a_kernel_is_confined_before_its_environment_runs_anything(tmp_path: Path) -> None:
    """Where our launcher confines itself: .pth files and `sitecustomize` may lie in a folder that commands write to."""
    folder, mark = tmp_path / "project", tmp_path / "escaped"
    folder.mkdir()
    python = make_environment(tmp_path / "environment", folder).with_name("python")
    (folder / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    found = sandbox.choose(sandbox.inspect(), bwrap=NO_BWRAP)
    if found.name != "landlock":
        pytest.skip(f"no landlock here: {found.reason}")
    interpreter, _ = inspect_named(python, found, sandbox.inspect(), host())
    tool = PythonTool(data_dir=tmp_path, confinement=found, interpreter=interpreter)
    try:
        assert run(tool, "import sys; print(6*7, sys.prefix)").text == f"42 {tmp_path / 'environment'}"
    finally:
        tool.close()
    assert not mark.exists()


def test_the_worker_that_reads_pages_finds_nothing_beside_our_packages(tmp_path: Path, mark: Path) -> None:
    root = (tmp_path / "clone").resolve()
    python = make_clone(root).with_name("python")
    for name in ("lxml.py", "pypdfium2.py", "sitecustomize.py"):
        (root / name).write_text(f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n")
    code = (
        "from ossia.tools.convert.converter import Converter; from ossia.tools.spec import NoStop\n"
        "converter = Converter()\n"
        "said = dict(url='https://a.test/', charset=None, stop=NoStop())\n"
        "print(converter.convert(b'<title>Hi</title>', 'text/html', **said).title, converter.confinement)\n"
        "converter.close()\n"
    )
    done = subprocess.run([python, "-S", "-c", f"import sys; sys.path += {[*_sites(), str(root)]!r}\n{code}"],
                          capture_output=True, text=True, cwd="/", check=False)  # fmt: skip
    assert (done.stdout.split()[:1], mark.exists()) == (["Hi"], False), done.stderr


def _sites() -> list[str]:
    return [path for path in sys.path if path.endswith("-packages")]


def test_what_leads_into_the_workspace_is_taken_off_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path.resolve()
    (root / "src").mkdir()
    before = list(sys.path)
    monkeypatch.setattr(sys, "path", [str(root), *before, str(root / "src"), str(root / "not-there")])
    remove_from_sys_path(root)
    assert sys.path == before
    with restored_sys_path():
        assert sys.path[: len(before)] == before and str(root / "src") in sys.path
    assert sys.path == before


def test_what_ossia_needs_stays_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install --target`: then it is a part of ossia, and read-only."""
    root = tmp_path.resolve()
    (root / "target" / "llama_cpp").mkdir(parents=True)
    (root / "target" / "llama_cpp" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(root / "target"), str(root)])
    remove_from_sys_path(root)
    assert sys.path == [str(root / "target")]


def test_programs_are_not_looked_for_in_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, own = tmp_path.resolve(), str(Path(sys.prefix, "bin"))
    path = os.pathsep.join([str(root / "node_modules/.bin"), "/usr/bin", ".", str(root), "", own])
    assert environment_for(root, {"PATH": path, "A": "b"}) == {"PATH": f"/usr/bin{os.pathsep}{own}", "A": "b"}
    monkeypatch.chdir(root)  # a workspace of earlier calls, perhaps; a home's programs are the user's
    found = [environment_for(None, {"PATH": path, "HOME": home})["PATH"] for home in ("/nowhere", str(root / "me"))]
    assert found == [f"/usr/bin{os.pathsep}{own}", path]
    assert shutil.which("sh", path=environment_for(root, {"PATH": path})["PATH"]) == "/usr/bin/sh"


@pytest.mark.parametrize("name", ["conf/ossia/config.toml", "conf/ossia/mcp.json"])
def test_what_ossia_would_read_is_asked_about_before_it_is_there(work: Path, name: str) -> None:
    call = ("repo_browser.apply_patch", {"patch": patch(name)})
    (answer,) = calls(OSSIA, work, call, flags=("--yes", "--trust"), env={"XDG_CONFIG_HOME": str(work / "conf")})
    assert answer["error"] and not (work / name).exists()
