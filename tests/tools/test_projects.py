"""A tenth of `python -m tests.backends.projects`: this machine's own toolchains, and the credentials of a home.

A toolchain that isn't on this machine, or fails unconfined, is skipped, by name.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.projects import MECHANISMS, Shell
from tests.backends.small_projects import PROJECTS, Project, Try, commit, make
from tests.support import credentials

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")

_SEED = 0
_ALL = [(project, tried) for project in PROJECTS for tried in project.tries]
_PLAIN = [(project, tried) for project, tried in _ALL if tried.plain]
_TENTH = random.Random(_SEED).sample(_PLAIN, 2 * len(_ALL) // 10)  # under two mechanisms; the table has two users
_BOTH = [pytest.param(name, marks=pytest.mark.needs_bwrap if name == "bwrap" else ()) for name in MECHANISMS]


@pytest.mark.parametrize("mechanism", _BOTH)
@pytest.mark.parametrize(("project", "tried"), _TENTH, ids=lambda value: getattr(value, "name", None))
def test_a_project_is_built_and_tested_confined(project: Project, tried: Try, mechanism: str, tmp_path: Path) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    root = tmp_path / "project"
    root.mkdir()
    try:
        make(project, root, environ)
        commit(root)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"{project.name}: {error}")
    copy = shutil.copytree(root, tmp_path / "unconfined", symlinks=True)
    alone = subprocess.run(["bash", "-c", tried.command], cwd=copy, env=environ, capture_output=True, text=True)
    if tried.says not in alone.stdout + alone.stderr:
        pytest.skip(f"{tried.command}, unconfined: {(alone.stdout + alone.stderr)[-300:]}")
    said = Shell(root, home, mechanism, environ, data=tmp_path / "data").run(tried.command)
    assert tried.says in said, said


@pytest.mark.parametrize("mechanism", _BOTH)
def test_no_credential_of_the_home_is_read(mechanism: str, tmp_path: Path) -> None:
    shell, command, laid = _attacked(tmp_path, mechanism)
    assert len(laid) > 40
    assert [mark for mark in _marks(shell.run(command)) if mark in laid] == []


def test_the_attack_reads_every_credential_that_nothing_closes(tmp_path: Path) -> None:
    shell, command, laid = _attacked(tmp_path, "unconfined")
    assert _marks(shell.run(command)) == sorted(laid)


def _attacked(home: Path, mechanism: str) -> tuple[Shell, str, dict[str, Path]]:
    """A project's shell in a home with three toolchains (small scripts) in its PATH, all credentials laid."""
    uv = ".local/share/uv/python/cpython-3.13.0-linux-x86_64-gnu"
    folders = [home / at / "bin" for at in (".nvm/versions/node/v20.1.0", ".pyenv/versions/3.12.1", uv, ".cargo")]
    for folder, name in zip(folders, ("node", "python3", "python3.13", "cargo"), strict=True):
        folder.mkdir(parents=True)
        (folder / name).write_text("#!/bin/sh\necho here\n")
        (folder / name).chmod(0o755)
    root = home / "work/project"
    (root / "notes").mkdir(parents=True)
    laid = credentials.lay(home)
    environ = {"HOME": str(home), "PATH": os.pathsep.join([*map(str, folders), "/usr/bin", "/bin"])}
    shell = Shell(root, home, mechanism, environ)
    open_folders = [place.path for place in shell.toolchains().places]
    assert all(any(folder.is_relative_to(path) for path in open_folders) for folder in folders)
    return shell, credentials.attack(home, laid.values(), open_folders), laid


def _marks(said: str) -> list[str]:
    lines = [line for line in said.splitlines() if line.startswith("PRIVATE-") or line == "looked"]
    assert lines[-1:] == ["looked"], said
    return lines[:-1]
