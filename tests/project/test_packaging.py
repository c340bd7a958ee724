"""What a user gets: the wheel, the packages beside it, their licences."""

from __future__ import annotations

import tomllib
import zipfile

import pytest
from hatchling.builders.wheel import WheelBuilder

from ossia import __version__
from ossia.cli.commands.help import pages
from tests import third_party
from tests.support.command import ROOT


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names in the wheel, built as pip and uv build it."""
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def test_the_wheel_has_one_top_level(wheel_names: list[str]) -> None:
    assert {name.split("/")[0] for name in wheel_names} == {"ossia", f"ossia-{__version__}.dist-info"}
    parts = {name.split("/")[1] for name in wheel_names if name.startswith("ossia/")}
    face = {"__init__.py", "__init__.pyi", "__main__.py", "errors.py", "py.typed", "api"}
    assert parts == face | {"cli", "agent", "tools", "harmony", "docs"}
    assert [name for name in wheel_names if "__pycache__" in name or name.endswith(".pyc")] == []


def test_the_wheel_holds_the_model_the_licence_and_the_notices(wheel_names: list[str]) -> None:
    licences = f"ossia-{__version__}.dist-info/licenses"
    model = {"ossia/agent/models/etude.gguf", "ossia/agent/models/etude.md"}
    assert model | {f"{licences}/LICENSE", f"{licences}/THIRD_PARTY.md"} <= set(wheel_names)


def test_the_wheel_holds_the_pages_that_help_prints(wheel_names: list[str]) -> None:
    texts = (*(f"{topic}.md" for topic in (*pages(), "README")), "events.schema.json")
    expected = {f"ossia/docs/{name}" for name in texts}
    assert {name for name in wheel_names if name.startswith("ossia/docs/")} == expected


def test_the_wheel_holds_the_tasks_of_eval(wheel_names: list[str]) -> None:
    texts = {f"ossia/cli/eval/jobs/{path.name}" for path in (ROOT / "cli" / "eval" / "jobs").iterdir()}
    assert texts and texts <= set(wheel_names)


def test_every_dependency_has_an_upper_bound() -> None:
    """`uv tool install` and pip see only this list: without a bound a new major version reaches users unseen."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for group in project.get("optional-dependencies", {}).values() for line in group]
    assert [line for line in project["dependencies"] + extras if "<" not in line and "==" not in line] == []
    assert "llama-cpp-python==" in " ".join(project["dependencies"])


def test_how_llama_cpp_is_compiled_stands_in_one_place() -> None:
    """`uv tool install --config-file uv.toml .` then takes what `uv run` compiled. Of two places uv warns each time."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    settings = tomllib.loads((ROOT / "uv.toml").read_text(encoding="utf-8"))
    assert "uv" not in project["tool"] and list(settings) == ["extra-build-variables"]
    assert settings["extra-build-variables"]["llama-cpp-python"]["SKBUILD_BUILD_TARGETS"] == "llama"


def test_no_licence_at_run_time_is_copyleft_or_missing() -> None:
    licences = {name: third_party.licence(found) for name, found in third_party.dependencies().items()}
    assert "llama-cpp-python" in licences
    assert [name for name, text in licences.items() if not text or third_party.is_copyleft(text)] == []


@pytest.mark.parametrize(
    ("text", "copyleft"),
    [
        ("GPL-3.0-or-later", True),
        ("AGPL-3.0", True),
        ("GNU Lesser General Public License v3 (LGPLv3)", True),
        ("MIT OR GPL-2.0", True),
        ("BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1", False),
        ("MPL-2.0 AND MIT", False),
    ],
)
def test_what_counts_as_copyleft(text: str, copyleft: bool) -> None:
    assert third_party.is_copyleft(text) is copyleft


def test_third_party_md_is_up_to_date() -> None:
    """The text, and the packages that we ask for. (`python -m tests.third_party` writes it.)"""
    written = third_party.PAGE.read_text(encoding="utf-8")
    found = third_party.dependencies()
    assert [name for name in third_party.direct() if third_party.row(name, found[name]) not in written] == []
    assert written.split("## Packages")[0] == third_party.page().split("## Packages")[0]
