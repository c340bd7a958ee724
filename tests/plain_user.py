"""`python -m tests.plain_user [PYTEST ARGUMENT…]`: the tests of the confined python as a plain user. For root only.

Much of a confinement differs between root and anyone else: the limit on processes, set-user-ID files, who may write
/proc/sys. CI is root, so this makes a copy of what these tests need, with the system's Python, in a folder that all can
read, and runs them there as uid 65534. It ends with pytest's exit status. Needs uv, and a Python >= 3.11 that others
may run (`apt-get install python3`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOBODY = 65534
PACKAGES = ("filelock", "ipykernel", "jsonschema", "jupyter-client", "psutil", "pytest", "webencodings")
COPIED = (
    "ossia", "tools", "pyproject.toml", "tests/__init__.py", "tests/support/__init__.py", "tests/support/kernels.py",
    "tests/support/credentials.py", "tests/support/floods.py", "tests/support/jobs.py", "tests/support/trees.py",
    "tests/support/work_calls.py", "tests/oracle/__init__.py", "tests/backends/__init__.py",
    "tests/backends/projects.py", "tests/backends/small_projects.py", "tests/backends/toolchains_home.py",
    "tests/plain_user.py", "tests/tools/test_projects.py", "tests/tools/sandbox/test_network.py",
    "tests/oracle/undo.py", "tests/tools/sandbox/test_confinement.py", "tests/tools/sandbox/test_sandbox.py",
    "tests/tools/sandbox/test_shown.py", "tests/tools/sandbox/test_cgroup.py", "tests/tools/python/test_tool.py",
    "tests/tools/work/test_exec.py", "tests/tools/test_undo.py", "tests/tools/test_undo_git.py",
)  # fmt: skip
CANDIDATES = ("/usr/bin/python3", "/usr/local/bin/python3", "/usr/bin/python3.13", "/usr/bin/python3.12")
_OURS = ("-c", "import sys; raise SystemExit(sys.version_info < (3, 11))")


def main(arguments: list[str]) -> int:
    if os.geteuid() != 0:
        print("tests.plain_user: only root can become another user; run pytest itself", file=sys.stderr)
        return 2
    try:
        with copied() as folder:
            # One after another: the limit on processes counts all of a user's.
            alone = ("-o", "addopts=--strict-markers --strict-config -ra")
            command: list[str | Path] = [folder / "env/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            return run_as_nobody([*command, *alone, "-m", "not whole_program", *arguments], folder).returncode
    except FileNotFoundError as error:
        print(f"tests.plain_user: {error}", file=sys.stderr)
        return 2


def _runs_as_nobody(python: str) -> bool:
    try:
        return run_as_nobody([python, *_OURS], Path("/")).returncode == 0
    except OSError:
        return False


def run_as_nobody(
    command: Sequence[str | Path], folder: Path, *, output: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder of `copied`, as uid 65534. `output`: where its stdout goes, `subprocess.PIPE` to get it."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder / "home"), "LANG": "C.UTF-8"}
    return subprocess.run(command, cwd=folder, env=env, user=NOBODY, group=NOBODY, extra_groups=[], check=False,
                          stdout=output, text=True)  # fmt: skip


@contextmanager
def copied() -> Iterator[Path]:
    """A folder with the copy and, as `env`, an environment for it. FileNotFoundError: no Python or uv for that."""
    python, uv = next(filter(_runs_as_nobody, CANDIDATES), None), shutil.which("uv")
    if python is None or uv is None:
        missing = "no Python >= 3.11 that every user may run (apt-get install python3)"
        raise FileNotFoundError(missing if uv else "uv isn't on PATH")
    folder = Path(tempfile.mkdtemp(prefix="ossia-plain-"))
    try:
        folder.chmod(0o755)
        (folder / "home").mkdir()
        os.chown(folder / "home", NOBODY, NOBODY)
        subprocess.run([uv, "venv", "--quiet", "--no-project", "--python", python, folder / "env"], check=True)
        pinned = [f"{name}=={version(name)}" for name in PACKAGES]
        install = [uv, "pip", "install", "--quiet", "--link-mode", "copy", "--python", folder / "env/bin/python"]
        subprocess.run([*install, *pinned], check=True)
        for name in COPIED:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(ROOT / name, folder / name)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
