"""The environment of the model's code: made, added to, used by the kernel, named to the model."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ossia.cli.paths import host
from ossia.tools.python.environment import (
    Environment,
    EnvironmentFailed,
    Package,
    sentence,
)
from ossia.tools.python.named import inspect_named, interpreter_at
from ossia.tools.python.tool import PythonTool
from ossia.tools.sandbox import choose, inspect
from tests.support.command import ossia_text
from tests.support.kernels import context as tool_context
from tests.support.wheelhouse import pack_installed, pip_wheel, write_wheel

NOWHERE = "http://127.0.0.1:9/simple"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    pack_installed(["ipykernel"], folder)
    write_wheel("capybara", "1.5", "LEGS = 4\n", folder)
    return folder


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One that was made as a user makes it, by whatever there is: uv or pip."""
    made = Environment(tmp_path_factory.mktemp("data") / "python-environment", defaults=("ipykernel",))
    with pytest.MonkeyPatch.context() as patch, (wheels / "log").open("w") as log:
        (wheels / "uv.toml").write_text("no-index = true\n")
        for name, value in (("UV_CONFIG_FILE", wheels / "uv.toml"), ("PIP_NO_INDEX", "1"), ("UV_FIND_LINKS", wheels),
                            ("PIP_FIND_LINKS", wheels)):  # fmt: skip
            patch.setenv(name, str(value))
        assert made.executable is None
        with pytest.raises(EnvironmentFailed, match="no packages yet"):
            made.packages()
        made.setup(log=log, uv=shutil.which("uv"))
        made.setup(["capybara"], log=log, uv=shutil.which("uv"))
        with pytest.raises(EnvironmentFailed, match="exit status"):
            made.setup(["no-such-package"], log=log, uv=shutil.which("uv"))
        with pytest.raises(EnvironmentFailed, match="a package must be a name"):
            made.setup(["--index-url=x"], log=log, uv=shutil.which("uv"))
    return made


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_without_a_connection_it_is_one_line(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = shutil.which("uv") if tool == "uv" else None
    if tool == "uv" and uv is None:
        pytest.skip("needs uv")
    for name, value in (("PIP_INDEX_URL", NOWHERE), ("PIP_RETRIES", "1"), ("UV_DEFAULT_INDEX", NOWHERE),
                        ("UV_HTTP_RETRIES", "0"), ("UV_NO_CACHE", "1")):  # fmt: skip
        monkeypatch.setenv(name, value)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "made")], check=True)
    monkeypatch.setenv("PYTHONPATH", str(pip_wheel()))
    with (tmp_path / "log").open("w") as log, pytest.raises(EnvironmentFailed, match="index can't be reached: check"):
        Environment(tmp_path / "made", defaults=("no-such-thing",)).setup(log=log, uv=uv)
    said = (tmp_path / "log").read_text()
    assert not any(word in said for word in ("Retrying", "rror"))


def test_its_packages_are_listed_and_named(environment: Environment) -> None:
    packages = environment.packages()
    assert Package("capybara", "1.5") in packages
    assert {"ipykernel", "pyzmq"} <= {package.name for package in packages}
    assert sentence(packages) == "Besides the standard library these packages can be imported: capybara."
    assert interpreter_at(environment.folder) == environment.executable


def test_the_kernel_runs_in_it(environment: Environment, tmp_path: Path) -> None:
    assert environment.executable is not None
    confinement = choose(inspect())
    interpreter, packages = inspect_named(environment.executable, confinement, inspect(), host())
    assert packages == environment.packages()
    tool = PythonTool(data_dir=tmp_path, confinement=confinement, interpreter=interpreter)
    try:
        run = tool.run("import capybara, sys; print(capybara.LEGS, sys.prefix)", call_id="c", context=tool_context())
        while True:
            try:
                next(run)
            except StopIteration as done:
                assert done.value.text.strip() == f"4 {environment.folder}"
                break
    finally:
        tool.close()


def test_the_commands_before_there_is_one() -> None:
    done = ossia_text("python", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`ossia python setup`" in done.stderr and done.stderr.count("\n") == 1
