"""A Python that the user names: an environment of a project, whose files a command may write."""

from __future__ import annotations

import shutil
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.cli.paths import host
from ossia.tools.python.named import inspect_named, interpreter_at
from ossia.tools.python.tool import PythonTool
from ossia.tools.sandbox import Interpreter, InterpreterUnusable, choose, inspect
from tests.support.kernels import BACKENDS, confinement, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")
each_way = pytest.mark.parametrize("way", BACKENDS)
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an environment that has a package of its own, but no ipykernel."""
    folder = (tmp_path / "a project").resolve()
    venv.create(folder / ".venv", with_pip=False, symlinks=True)
    (site_of(folder) / "capybara.py").write_text("LEGS = 4\n")
    (site_of(folder) / "capybara-1.5.dist-info").mkdir()
    (site_of(folder) / "capybara-1.5.dist-info" / "METADATA").write_text("Name: capybara\nVersion: 1.5\n")
    return folder


def site_of(project: Path) -> Path:
    return project / ".venv" / "lib" / VERSION / "site-packages"


def named(project: Path, way: str) -> Interpreter:
    return inspect_named(interpreter_at(project / ".venv"), confinement(way), inspect(), host())[0]


def kernel(project: Path, way: str, interpreter: Interpreter) -> PythonTool:
    return PythonTool(data_dir=project.parent / "data", confinement=confinement(way), interpreter=interpreter)


@each_way
def test_a_projects_environment_borrows_our_ipykernel(project: Path, way: str) -> None:
    interpreter, packages = inspect_named(interpreter_at(project / ".venv"), confinement(way), inspect(), host())
    assert [(one.name, one.version) for one in packages] == [("capybara", "1.5")]
    tool = kernel(project, way, interpreter)
    try:
        code = "import capybara, sys; print(capybara.LEGS, sys.prefix == sys.base_prefix, sys.prefix)"
        assert run(tool, code).text == f"4 False {project / '.venv'}"
    finally:
        tool.close()


@each_way
def test_its_python_may_lie_in_the_home(tmp_path: Path, way: str) -> None:
    """As uv lays it out: `bin/python` leads through a link to a folder, and the program's own folder bears its version.

    The Python that runs this is the one behind the link; here it lies in the home, and ossia stands on another one.
    """
    base, home, project = Path(sys.base_prefix).resolve(), tmp_path / "home", tmp_path / "project"
    link = home / ".local" / "share" / "uv" / "python" / "cpython-3-linux"
    link.parent.mkdir(parents=True)
    link.symlink_to(base)
    (home / "diary").write_text("dear diary")
    (project / "bin").mkdir(parents=True)
    (project / "bin" / "python").symlink_to(link / "bin" / "python3")
    (project / "pyvenv.cfg").write_text(f"home = {link / 'bin'}\n")
    mine = replace(host(), home=home, environ={"PATH": "/usr/bin", "UV_PYTHON_INSTALL_DIR": str(base.parent)})
    ours = replace(inspect(), roots=inspect().site)
    interpreter, _ = inspect_named(interpreter_at(project), confinement(way), ours, mine)
    tool = PythonTool(data_dir=tmp_path / "data", confinement=confinement(way), interpreter=interpreter)
    try:
        assert run(tool, "import sys, sqlite3, ctypes; print(sys.prefix)").text == str(project)
        assert "Error" in run(tool, f"open({str(home / 'diary')!r}).read()").text
    finally:
        tool.close()
    if not base.is_relative_to("/usr"):
        with pytest.raises(InterpreterUnusable, match="neither on PATH nor where versions of Python are"):
            inspect_named(interpreter_at(project), confinement(way), ours, replace(mine, home=base, environ={}))


def test_a_project_that_is_its_own_environment_is_not_shown(tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=False, symlinks=True)
    (tmp_path / ".env").write_text("SECRET=1")
    best = choose(inspect())
    found = inspect_named(interpreter_at(tmp_path), best, inspect(), host())[0]
    shown = {path.name for path in found.roots if path.is_relative_to(tmp_path)}
    assert shown - {"lib64"} == {"bin", "lib", "pyvenv.cfg"}


@each_way
def test_what_lies_beside_it_is_not_on_its_path(project: Path, way: str) -> None:
    (project / "src").mkdir()
    (site_of(project) / "editable.pth").write_text(f"{project / 'src'}\n")
    tool = kernel(project, way, named(project, way))
    try:
        assert str(project / "src") not in run(tool, "import sys; print(sys.path)").text
    finally:
        tool.close()


@each_way
def test_an_environment_of_another_version_needs_its_own_ipykernel(project: Path, way: str) -> None:
    fake = "import importlib.machinery as m; m.EXTENSION_SUFFIXES[:] = ['.cpython-309-x86_64-linux-gnu.so']\n"
    (site_of(project) / "older.pth").write_text(fake)
    with pytest.raises(InterpreterUnusable, match=r"has no ipykernel: `uv pip install --python .* ipykernel` adds it"):
        named(project, way)


@each_way
def test_a_program_in_the_pythons_place_never_runs_unconfined(project: Path, way: str) -> None:
    """At each start, the first and a later one: between two a command may have written it."""
    mark = project.parent / "escaped"
    python = project / ".venv" / "bin" / "python"
    real, interpreter = python.readlink(), named(project, way)
    tool = kernel(project, way, interpreter)
    try:
        assert run(tool, "print(6*7)").text == "42"
        assert "died" in run(tool, "import os; os._exit(1)").text
        python.unlink()
        python.write_text(f"#!/bin/sh\ntouch '{mark}'; exec {real} \"$@\"\n")
        python.chmod(0o755)
        run(tool, "print(6*7)")
    finally:
        tool.close()
    with pytest.raises(InterpreterUnusable):
        named(project, way)
    assert not mark.exists()


@each_way
def test_code_of_its_start_never_runs_unconfined(project: Path, way: str) -> None:
    mark = project.parent / "escaped"
    (site_of(project) / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    tool = kernel(project, way, named(project, way))
    try:
        assert run(tool, "print(6*7)").text == "42"
    finally:
        tool.close()
    assert not mark.exists()


@each_way
def test_neither_links_nor_the_settings_of_an_environment_open_a_folder(project: Path, way: str) -> None:
    """`lib`, or the Python that `pyvenv.cfg` names, could lead to somebody's secrets."""
    secrets = project.parent / "secrets"
    (secrets / "lib").mkdir(parents=True)
    (secrets / "bin").mkdir()
    (secrets / "lib" / "key").write_text("s3cret")
    (project / ".venv" / "Resources").symlink_to(secrets / "lib")
    (project / ".venv" / "pyvenv.cfg").write_text(f"home = {secrets / 'bin'}\n")
    (project / ".venv" / "Lib").symlink_to("../../secrets/lib")
    found = interpreter_at(project / ".venv")
    interpreter = inspect_named(found, confinement(way), inspect(), host())[0]
    assert not [root for root in interpreter.roots if "secrets" in str(root.resolve())]


@each_way
def test_a_link_that_a_command_puts_there_opens_no_folder_either(project: Path, way: str) -> None:
    secrets, interpreter = project.parent / "secrets", named(project, way)
    shutil.copytree(project / ".venv" / "lib", secrets / "lib", symlinks=True)
    (secrets / "lib" / "key").write_text("s3cret")
    tool = kernel(project, way, interpreter)
    try:
        shutil.rmtree(project / ".venv" / "lib")
        (project / ".venv" / "lib").symlink_to(secrets / "lib")
        said = run(tool, f"print(open({str(project / '.venv' / 'lib' / 'key')!r}).read())")
        assert said.text == f"[ERROR] python can't start: {project / '.venv' / 'lib'} leads elsewhere since this " \
                            "session began"  # fmt: skip
    finally:
        tool.close()


@each_way
def test_what_is_no_python(tmp_path: Path, project: Path, way: str) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "script").chmod(0o755)
    for path in (tmp_path / "nothing", tmp_path / "script", Path("/etc/passwd")):
        with pytest.raises(InterpreterUnusable, match="isn't a Python: name the interpreter itself"):
            inspect_named(interpreter_at(path), confinement(way), inspect(), host())
    (site_of(project) / "loud.pth").write_text("import os; os.write(1, b'no\\n'); os._exit(3)\n")
    with pytest.raises(InterpreterUnusable, match=r"doesn't start as a Python \(no\)"):
        named(project, way)
