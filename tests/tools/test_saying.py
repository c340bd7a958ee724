"""A call in people's words: as previews and rows say it, and as recorded ones are read back."""

from __future__ import annotations

import json

import pytest

from ossia.tools.saying import patch_line, saying

HEREDOC = "cat > a.py <<'EOF'\nx = 1\ny = 2\nEOF\npython3 a.py"
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b.md\n+b\n*** End Patch"
MOVE = "*** Begin Patch\n*** Delete File: d.txt\n*** Update File: m.txt\n*** Move to: sub/m.txt\n*** End Patch"


def shell(script: str, **more: object) -> dict[str, object]:
    return {"command": ["bash", "-lc", script], **more}


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("container.exec", shell("pytest -q | tail -5"), "Run pytest -q | tail -5"),
        ("bash", {"command": ["python3", "-m", "unittest"]}, "Run python3 -m unittest"),
        ("container.exec", shell("ls", workdir="a b"), "Run cd 'a b' && ls"),
        ("container.exec", shell(HEREDOC), "Run cat > a.py <<'EOF' (2 lines); python3 a.py"),
        ("container.exec", shell("python3 - <<PY\nprint(1)"), "Run python3 - <<PY (1 line)"),
        ("container.exec", shell("# first\ncd src\nif x; then\n  make \\\n    all\nfi"),
         "Run cd src; if x; then make all; fi"),
        ("container.exec", shell("git ls-files | tr '\n' ' '"), "Run git ls-files | tr ' ' ' '"),
        ("container.exec", shell("# only this"), "Run # only this"),
        ("container.exec", {"cmd": "ls -l"}, "Run ls -l"),
        ("repo_browser.open_file", {"file_path": "a.py"}, "Read a.py"),
        ("repo_browser.open_file", {"path": "notes.md"}, "Read notes.md"),
        ("cat", {"path": "a.py", "line_start": 1, "line_end": 200, "line_numbers": True}, "Read a.py, lines 1–200"),
        ("repo_browser.open_file", {"path": "a.py", "line_start": 40, "line_end": -1}, "Read a.py, from line 40"),
        ("repo_browser.list_dir", {"path": ""}, "List ."),
        ("repo_browser.print_tree", {"path": "src", "depth": 2}, "List src"),
        ("repo_browser.search", {"path": "", "query": "blob"}, 'Search "blob"'),
        ("repo_browser.search", {"path": "src", "query": r"def \w+", "max_results": 20}, r'Search "def \w+" in src'),
        ("apply_patch", {"patch": PATCH}, "Edit a.py · new b.md"),
        ("repo_browser.apply_patch", MOVE, "Delete d.txt · rename m.txt to sub/m.txt"),
        ("browser.search", {"query": "capybara", "source": "web"}, 'Search the web for "capybara"'),
        ("browser.search", {"query": "capybara", "topn": 5}, 'Search "capybara"'),
        ("browser.open", {"id": "https://a.test/x"}, "Open https://a.test/x"),
        ("browser.open", {"id": 3, "cursor": 0}, "Open a link"),
        ("browser.open", {"loc": 40}, "Read on"),
        ("browser.find", {"pattern": "swims"}, 'Find "swims"'),
        ("functions.get_weather", {"city": "Oslo", "days": 3}, 'get_weather(city="Oslo", days=3)'),
        ("functions.files__read_file", {"path": "notes.md"}, "files: read notes.md"),
        ("functions.files__list_directory", {"path": "src"}, "files: list src"),
        ("functions.weather__getForecast", {"city": "Oslo"}, "weather: get forecast Oslo"),
        ("functions.git__git_log", {"repo": ".", "n": 5}, 'git: log repo=".", n=5'),
        ("functions.clock__now", {}, "clock: now"),
    ],
)  # fmt: skip
def test_a_call_in_words(name: str, args: object, words: str) -> None:
    """Parsed, or as the model wrote it."""
    assert saying(name, args) == words
    if isinstance(args, dict):
        assert saying(name, json.dumps(args)) == words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print(6*7)", "Run Python: print(6*7)"),
        ("import math\n\nfrom os import path\nmath.pi\n", "Run Python: math.pi … (3 lines)"),
        ("import os", "Run Python: import os"),
        ('{"code": "print(1)"}', "Run Python: print(1)"),
        ("```python\nprint(1)\n```", "Run Python: print(1)"),
        ("", "Run Python"),
    ],
)
def test_code_in_words(code: str, words: str) -> None:
    assert saying("python", code) == words


@pytest.mark.parametrize("written", ['{"path": "a', "ls -la", "", '{"city": ' * 9, '["a"]'])
def test_arguments_that_cannot_be_read_stand_as_they_came(written: str) -> None:
    for name in ("container.exec", "repo_browser.open_file", "functions.x__y", "nobody"):
        assert saying(name, written) == f"{name} {' '.join(written.split())}".rstrip()


def test_the_lines_of_each_file_and_what_is_lost_first() -> None:
    files = [("new", "CHANGES.md", 4, 0), ("edit", "report.py", 1, 1), ("edit", "b.py", 0, 0), ("delete", "d", 0, 9)]
    assert patch_line(files) == "Delete d −9 · edit report.py +1 −1, b.py · new CHANGES.md +4"
    assert patch_line([("new", f"{n}.md", 1, 0) for n in range(6)]) == (
        "New 0.md +1, 1.md +1, 2.md +1, 3.md +1 and 2 more"
    )


def test_a_long_script_with_many_here_documents_takes_no_time() -> None:
    assert len(saying("bash", shell("cat <<A\n" * 12_000))) < 1_100
