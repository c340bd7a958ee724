"""What the dialogues show of work in a folder is what the program's tools give for the same call."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.tools.approval.policy import Policy
from ossia.tools.calls.results import REFUSED, REFUSED_AGAIN, UNASKED
from ossia.tools.spec import NoStop, ToolContext
from ossia.tools.toolbox import Toolbox
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.etude.dialogues import Dialogue, make_dialogue, unseen_dialogue
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.said import failed
from tests.etude.skills.work import TASKS, Task, files
from tests.etude.words.values import Values
from tests.support.calls import call

pytestmark = pytest.mark.own_job

_CALLED = re.compile(r"analysis to=([\w.]+) code<\|message\|>(.*?)<\|call\|>", re.DOTALL)
_RESULT = re.compile(r"to=assistant<\|channel\|>analysis<\|message\|>(.*?)<\|end\|>", re.DOTALL)
_FORM = re.compile(r"<returncode>(\d+)</returncode>\n<output>\n(.*)</output>\ncwd: (\S+)", re.DOTALL)
_FILE = re.compile(r"\*\*\* Add File: (.*)")
_DENIED = (REFUSED, REFUSED_AGAIN, UNASKED)


def _lessons(task: Task, count: int) -> Iterator[tuple[str, str, str, str]]:
    """The tool, its arguments, its result and the answer, where the prompt has the trained tools."""
    values = Values(21)
    prefix = next(one for one in iter(lambda: make_prefix(values), None) if one.has_files and one.has_shell)
    for _ in range(count):
        text = "".join(text for text, _ in files(values, prefix, task)[0])
        name, arguments = _CALLED.findall(text)[-1]
        (result,) = _RESULT.findall(text)
        answer = text.rpartition("final<|message|>")[2].removesuffix("<|return|>")
        yield name, arguments, result, answer


def _make(root: Path, name: str, arguments: dict[str, str], result: str) -> None:
    """The folder as it must be for that result."""
    path = root / arguments.get("path", "")
    if "there is no" in result:
        return
    if "is not a folder" in result or "is there already" in result:
        path = root / (_FILE.findall(arguments["patch"])[0] if "patch" in arguments else arguments["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    elif "is a folder" in result:
        path.mkdir(parents=True)
    else:
        found = _FORM.fullmatch(result)
        assert found is not None
        _fill(root, path, name, found[2])


def _fill(root: Path, path: Path, name: str, output: str) -> None:
    if name == "repo_browser.open_file":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(output)
    elif name == "repo_browser.search":
        path.mkdir(parents=True, exist_ok=True)
        if output.startswith("No matches in "):
            for number in range(int(output.split()[3])):
                (path / f"file{number}.txt").write_text("0\n")
            return
        for line in output.splitlines():
            file, number, text = line.split(":", 2)
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text("\n" * (int(number) - 1) + f"{text}\n")
    elif name != "repo_browser.apply_patch":
        path.mkdir(parents=True, exist_ok=True)
        if output == "(empty folder)\n":
            return
        above = path
        for line in output.splitlines():
            target = (above if line.startswith("  ") else path) / line.strip()
            if line.endswith("/"):
                target.mkdir()
                above = above if line.startswith("  ") else target
            else:
                target.touch()


@pytest.mark.parametrize(("task", "count"), [("list", 60), ("tree", 60), ("read", 60), ("write", 60), ("grep", 20)])
def test_results_are_those_of_the_tools(task: Task, count: int, tmp_path: Path) -> None:
    lessons = [(name, arguments, result) for name, arguments, result, _ in _lessons(task, 600)]
    wrong = [one for one in lessons if one[2].startswith("Error: ")][:10]
    right = [one for one in lessons if one[2].startswith("<returncode>")][:count]
    assert (len(wrong), len(right)) == (10, count)
    for number, (name, arguments, result) in enumerate(wrong + right):
        root = tmp_path / str(number)
        root.mkdir()
        _make(root, name, json.loads(arguments), result)
        context = ToolContext(NoStop(), Workspace(root), tmp_path, lambda text: len(text) // 4)
        tools = Toolbox(workspace_tools(), policy=Policy(), context=context)
        given = call(tools, name, arguments, folder=tmp_path).text
        folder = _FORM.fullmatch(result)
        assert given == (result.replace(f"cwd: {folder[3]}", f"cwd: {root}") if folder else result)
        shutil.rmtree(root)


def test_what_a_command_gives_is_told() -> None:
    told = {}
    for _, _, result, answer in _lessons("shell", 400):
        if result in _DENIED or result.startswith(("Error: the shell is off on ", "Error: no commands run in ")):
            continue
        found = _FORM.fullmatch(result)
        assert found is not None
        status, output = found[1], found[2].removesuffix("\n")
        failure = f"The command failed with status {status}"
        wanted = {
            (True, True): f"The output is:\n{output}", (True, False): "The command printed nothing.",
            (False, True): f"{failure}:\n{output}", (False, False): f"{failure}.",
        }  # fmt: skip
        kind = (status == "0", bool(output))
        assert answer == wanted[kind]
        told[kind] = answer
    assert len(told) == 4


@pytest.mark.needs_bwrap
def test_a_command_that_is_not_there_or_takes_too_long(tmp_path: Path) -> None:
    lessons = (one for one in _lessons("shell", 2000) if "command not found" in one[2])
    name, arguments, result, _ = next(one for one in lessons if not re.search(r"&&|\|", one[1]))
    program = result.partition("line 1: ")[2].partition(":")[0]
    work = tmp_path / "work"
    work.mkdir()
    context = ToolContext(NoStop(), Workspace(work), tmp_path, lambda text: len(text) // 4)
    tools = Toolbox((Exec(home=tmp_path / "home"),), policy=Policy(), context=context)
    command = arguments.replace(program, "harborlamp")
    given = call(tools, name, command, folder=tmp_path).text
    assert given.rpartition("cwd: ")[0] == result.replace(program, "harborlamp").rpartition("cwd: ")[0]

    ended = next(text for _, _, text, _ in _lessons("shell", 2000) if "[ERROR] timed out" in text)
    given = call(tools, name, '{"command":["bash","-lc","sleep 20"],"timeout":1000}', folder=tmp_path).text
    lines, taught = given.splitlines(), ended.splitlines()
    assert lines[0] == taught[0]
    assert lines[2] == re.sub(r"after \d+ s", "after 1 s", next(line for line in taught if "[ERROR]" in line))


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        ("Error: there is no folder 'src'. List one above it.", "there is no folder 'src'."),
        (REFUSED, "User denied this call."),
        ("Error: functions.set_lamp: ValueError: no room\nat 3", "functions.set_lamp: ValueError: no room"),
        ('{"error": "no room"}', '{"error": "no room"}'),
        ("Error: 'a.txt' is a folder. Use repo_browser.list_dir.", "'a.txt' is a folder."),
    ],
)
def test_every_failure_is_told_in_one_form(error: str, answer: str) -> None:
    assert failed(error)[-1][0] == f"<|channel|>final<|message|>The tool failed: {answer}<|return|>"


def test_failures_are_told_wherever_they_come_from() -> None:
    values = Values(5)
    for task in TASKS:
        wrong = [(result, answer) for _, _, result, answer in _lessons(task, 150) if "<returncode>" not in result]
        assert wrong and all(answer.startswith("The tool failed: ") for _, answer in wrong)
    for _ in range(400):
        prefix = make_prefix(values)
        for skill in ("functions", "weather", "files"):
            text = "".join(text for text, _ in make_dialogue(values, prefix, skill).segments)
            failing = "<|message|>Error" in text or '<|message|>{"error"' in text
            denied = any(one in text for one in _DENIED)
            assert (failing or denied) is ("final<|message|>The tool failed: " in text), text


def test_the_exam_asks_for_each_equally_often() -> None:
    values = Values(6, "values")
    kinds = [unseen_dialogue(values, "files")[1].kind for _ in range(600)]
    assert {kind: kinds.count(kind) > 70 for kind in TASKS} == dict.fromkeys(TASKS, True) and set(kinds) == set(TASKS)


def test_without_the_tool_it_says_so() -> None:
    values = Values(7)
    bare = make_prefix(values, "bare")
    answers = {task: files(values, bare, task)[0][-1][0] for task in TASKS}
    said = {task: re.sub(r"<.*?>", "", answer).removeprefix("final") for task, answer in answers.items()}
    assert said == {
        "list": "I can't list files without a file tool.",
        "tree": "I can't show a tree without a file tool.",
        "read": "I can't read files without a file tool.",
        "grep": "I can't search files without a file tool.",
        "write": "I can't write files without a file tool.",
        "shell": "I can't run commands without a shell tool.",
    }


def test_a_fifth_of_training_is_work_and_a_fifth_functions() -> None:
    values = Values(30)
    made: list[tuple[Prefix, Dialogue]] = []
    for number in range(600):
        prefix = make_prefix(values, "structured" if number % 8 == 0 else None)
        made += [(prefix, make_dialogue(values, prefix)) for _ in range(5)]
    texts = [(dialogue.skill, "".join(text for text, _ in dialogue.segments)) for _, dialogue in made]
    size = sum(len(text) for _, text in texts)
    work = sum(len(text) for skill, text in texts if skill == "files" and "analysis to=" in text)
    functions = sum(len(text) for skill, text in texts if skill in ("functions", "weather") and "to=functions." in text)
    assert 0.15 < work / size < 0.3 and 0.15 < functions / size < 0.3
