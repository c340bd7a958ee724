"""Names as models write them, onto the tools that are on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.calls.names import Resolved, resolve_name, unknown_name

KNOWN = (
    *("python", "browser.search", "browser.open", "browser.find"),
    *("functions.shell", "functions.read_file", "functions.list_dir", "functions.grep", "functions.write_file"),
    *("functions.apply_patch", "functions.get_weather", "functions.json", "functions.files__read"),
)


@pytest.mark.parametrize(
    ("written", "meant", "kind"),
    [
        ("functions.shell", "functions.shell", "exact"),
        ("python", "python", "exact"),
        ("shell", "functions.shell", "repaired"),
        ("Functions.Shell", "functions.shell", "repaired"),
        ("functions.functions.read_file", "functions.read_file", "repaired"),
        ("read_file<|channel|>commentary", "functions.read_file", "repaired"),
        ("functions.read_file commentary json", "functions.read_file", "repaired"),
        ('functions.read_file({"path": "a"})', "functions.read_file", "repaired"),
        ("shelljson", "functions.shell", "repaired"),
        ("functions.get_weather.json", "functions.get_weather", "repaired"),
        ("functions.json", "functions.json", "exact"),
        ("functions.python", "python", "repaired"),
        ("functions.browser.search", "browser.search", "repaired"),
        ("assistant.functions.shell", "functions.shell", "repaired"),
        ("container.exec", "functions.shell", "alias"),
        ("functions.container.exec", "functions.shell", "alias"),
        ("container.execcommentary", "functions.shell", "alias"),
        ("bash", "functions.shell", "alias"),
        ("functions.exec_command", "functions.shell", "alias"),
        ("repo_browser.print_tree", "functions.list_dir", "alias"),
        ("repo_browser.list_files", "functions.list_dir", "alias"),
        ("repo_browser.open_file<|channel|>commentary", "functions.read_file", "alias"),
        ("repo_browser.read_file", "functions.read_file", "repaired"),
        ("repo_browser.search", "functions.grep", "alias"),
        ("repo_browser.exec", "functions.shell", "alias"),
        ("repo_browser.write_file", "functions.write_file", "repaired"),
        ("applypatch", "functions.apply_patch", "alias"),
        ("functions.applypatch", "functions.apply_patch", "alias"),
        ("open", "browser.open", "alias"),
    ],
)
def test_the_tool_that_is_meant(written: str, meant: str, kind: str) -> None:
    """Hostile row 30."""
    assert resolve_name(written, KNOWN) == Resolved(meant, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "written",
    [
        *("", " ", ".", "functions.", "functions.functions.", "<|channel|>", "json", "assistant", "user", "browser"),
        *("browser.click", "functions.nope", "shell.x", "shells", "x" * 100_000, "functions." * 999, "json" * 1000),
    ],
)
def test_what_means_nothing(written: str) -> None:
    known = [name for name in KNOWN if name != "functions.json"]
    assert resolve_name(written, known) == Resolved(None, "unknown")
    assert len(unknown_name(written, known)) < 600


def test_no_name_leads_to_a_tool_that_is_off() -> None:
    """Hostile row 30: an alias is no way around what is off."""
    for written in ("container.exec", "bash", "shelljson", "repo_browser.print_tree", "applypatch", "python"):
        assert resolve_name(written, ["functions.get_weather"]).name is None


def test_a_tool_of_that_very_name_comes_first() -> None:
    assert resolve_name("bash", ["functions.shell", "functions.bash"]).name == "functions.bash"
    assert resolve_name("search", ["browser.search", "functions.grep"]).name == "functions.grep"
    assert resolve_name("search", ["browser.search"]).name == "browser.search"


def test_the_model_is_told_the_nearest_names_first() -> None:
    assert unknown_name("functions.get_wether", ["python", "functions.get_weather"]) == (
        "Error: there is no tool 'functions.get_wether'. The tools are: functions.get_weather, python"
    )
    assert unknown_name("x", []) == "Error: there is no tool 'x'. No tools are on: answer without one."
    many = [f"functions.tool_{number}" for number in range(100)]
    assert unknown_name("y", many).endswith("functions.tool_23 and 76 more")


@given(st.text(), st.sets(st.sampled_from(KNOWN)))
def test_whatever_comes_it_is_one_of_the_known_or_none(written: str, known: set[str]) -> None:
    found = resolve_name(written, known)
    assert found.name is None or found.name in known
    assert (found.name is None) == (found.kind == "unknown")
