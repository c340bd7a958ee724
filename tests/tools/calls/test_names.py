"""Names as models write them, onto the tools that are on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossia.tools.calls.names import resolve_name, unknown_name

KNOWN = (
    *("python", "browser.search", "browser.open", "browser.find", "container.exec", "repo_browser.print_tree"),
    *("repo_browser.list_dir", "repo_browser.search", "repo_browser.open_file", "repo_browser.apply_patch"),
    *("functions.get_weather", "functions.json", "functions.files__read"),
)
ALIASES = {
    "container.exec": "exec shell bash sh zsh exec_command run_command execute_command terminal",
    "repo_browser.print_tree": "print_tree tree",
    "repo_browser.list_dir": "list_dir list_files list_directory listdir ls",
    "repo_browser.open_file": "open_file read_file view_file cat readfile",
    "repo_browser.search": "search grep search_files grep_search rg ripgrep find_in_files",
    "repo_browser.apply_patch": "apply_patch applypatch apply_diff",
}
PREFIXES = ("", "functions.", "repo_browser.", "container.", "assistant.functions.")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *((prefix + alias, meant) for meant, all_of_it in ALIASES.items()
          for alias in all_of_it.split() for prefix in PREFIXES),
        ("container.exec", "container.exec"),
        ("python", "python"),
        ("Functions.Shell", "container.exec"),
        ("Container.Exec", "container.exec"),
        ("functions.functions.read_file", "repo_browser.open_file"),
        ("read_file<|channel|>commentary", "repo_browser.open_file"),
        ("functions.read_file commentary json", "repo_browser.open_file"),
        ('functions.read_file({"path": "a"})', "repo_browser.open_file"),
        ("shelljson", "container.exec"),
        ("execjson", "container.exec"),
        ("functions.get_weather.json", "functions.get_weather"),
        ("functions.json", "functions.json"),
        ("functions.python", "python"),
        ("functions.browser.search", "browser.search"),
        ("functions.container.exec", "container.exec"),
        ("container.execcommentary", "container.exec"),
        ("repo_browser.open_file<|channel|>commentary", "repo_browser.open_file"),
        ("open", "browser.open"),
        *((name, "repo_browser.search") for name in ("find", "functions.find", "repo_browser.find")),
        *((name, "browser.find") for name in ("browser.find", "functions.browser.find", "browser.find json")),
    ],
)  # fmt: skip
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
    """A user's function or an MCP server's: theirs, with `functions.` and without."""
    for name in ("read_file", "search", "exec", "bash", "apply_patch", "list_dir"):
        own = f"functions.{name}"
        assert resolve_name(name, [*KNOWN, own]) == resolve_name(own, [*KNOWN, own]) == own
    assert resolve_name("container.exec", [*KNOWN, "functions.exec"]) == "container.exec"
    assert resolve_name("repo_browser.search", [*KNOWN, "functions.search"]) == "repo_browser.search"
    assert resolve_name("search", ["browser.search", "repo_browser.search"]) == "repo_browser.search"
    assert resolve_name("search", ["browser.search"]) == "browser.search"
    for name in ("repo_browser.search", "functions.container.open", "repo_browser.web_search", "container.python3"):
        assert resolve_name(name, ["browser.search", "browser.open", "python", "functions.search"]) is None
    assert resolve_name("find", ["repo_browser.search"]) == "repo_browser.search"
    assert resolve_name("find", ["python", "browser.find"]) == "browser.find"


@pytest.mark.parametrize("written", ["functions.exec_command", "exec_command", "functions.exec_command_tool"])
def test_a_function_that_is_offered_under_another_name_is_meant_by_its_own(written: str) -> None:
    assert resolve_name(written, (*KNOWN, "functions.exec_command_tool")) == "functions.exec_command_tool"


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
