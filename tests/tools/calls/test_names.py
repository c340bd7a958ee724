"""Names as models write them, onto the tools that are on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.calls.names import resolve_name, unknown_name

KNOWN = (
    *("python", "browser.search", "browser.open", "browser.find"),
    *("functions.shell", "functions.read_file", "functions.list_dir", "functions.grep", "functions.write_file"),
    *("functions.apply_patch", "functions.get_weather", "functions.json", "functions.files__read"),
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("functions.shell", "functions.shell"),
        ("python", "python"),
        ("shell", "functions.shell"),
        ("Functions.Shell", "functions.shell"),
        ("functions.functions.read_file", "functions.read_file"),
        ("read_file<|channel|>commentary", "functions.read_file"),
        ("functions.read_file commentary json", "functions.read_file"),
        ('functions.read_file({"path": "a"})', "functions.read_file"),
        ("shelljson", "functions.shell"),
        ("functions.get_weather.json", "functions.get_weather"),
        ("functions.json", "functions.json"),
        ("functions.python", "python"),
        ("functions.browser.search", "browser.search"),
        ("assistant.functions.shell", "functions.shell"),
        ("container.exec", "functions.shell"),
        ("functions.container.exec", "functions.shell"),
        ("container.execcommentary", "functions.shell"),
        ("bash", "functions.shell"),
        ("functions.exec_command", "functions.shell"),
        ("repo_browser.print_tree", "functions.list_dir"),
        ("repo_browser.list_files", "functions.list_dir"),
        ("repo_browser.open_file<|channel|>commentary", "functions.read_file"),
        ("repo_browser.read_file", "functions.read_file"),
        ("repo_browser.search", "functions.grep"),
        ("repo_browser.exec", "functions.shell"),
        ("repo_browser.write_file", "functions.write_file"),
        ("applypatch", "functions.apply_patch"),
        ("functions.applypatch", "functions.apply_patch"),
        ("open", "browser.open"),
    ],
)
def test_the_tool_that_is_meant(written: str, meant: str) -> None:
    """Hostile row 30."""
    assert resolve_name(written, KNOWN) == meant


@pytest.mark.parametrize(
    "written",
    [
        *("", " ", ".", "functions.", "functions.functions.", "<|channel|>", "json", "assistant", "user", "browser"),
        *("browser.click", "functions.nope", "shell.x", "shells", "x" * 100_000, "functions." * 999, "json" * 1000),
    ],
)
def test_what_means_nothing(written: str) -> None:
    known = [name for name in KNOWN if name != "functions.json"]
    assert resolve_name(written, known) is None
    assert len(unknown_name(written, known)) < 600


def test_no_name_leads_to_a_tool_that_is_off() -> None:
    """Hostile row 30: an alias is no way around what is off."""
    for written in ("container.exec", "bash", "shelljson", "repo_browser.print_tree", "applypatch", "python"):
        assert resolve_name(written, ["functions.get_weather"]) is None


def test_a_tool_of_that_very_name_comes_first() -> None:
    assert resolve_name("bash", ["functions.shell", "functions.bash"]) == "functions.bash"
    assert resolve_name("search", ["browser.search", "functions.grep"]) == "functions.grep"
    assert resolve_name("search", ["browser.search"]) == "browser.search"


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
    assert found is None or found in known
