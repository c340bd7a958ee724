"""`ossia eval`: solved, failed and endless tasks, what is kept, how it goes on after a kill."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ossia.cli.eval.evaluation import SUITES, chosen
from ossia.cli.eval.task import Task
from ossia.tools.sandbox import choose
from tests.support.command import ossia_here, ossia_text, start, write_script
from tests.support.evaluating import WRONG, script
from tests.support.pty import PtyChat

PATTERN = "<|channel|>analysis<|message|>" + "and on it goes, " * 400


def some(*ids: str) -> list[Task]:
    return chosen((), ids, seed=0, aime=None)


def flags(tasks: Sequence[Task]) -> list[str]:
    return [word for task in tasks for word in ("--task", task.id)]


def results(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_suites_and_their_sizes() -> None:
    done = ossia_here("eval", "--list")
    ids = done.stdout.decode().split()
    assert (done.returncode, len(ids)) == (0, len(set(ids)))
    assert {suite: sum(one.startswith(f"{suite}/") for one in ids) for suite in SUITES} == {
        "harmony": 27,
        "chain": 10,
        "repo": 32,
        "math": 20,
    }
    again = ossia_here("eval", "--list", "repo")
    assert again.stdout.decode().split() == [one for one in ids if one.startswith("repo/")]


def test_the_repositories_are_small_and_made_from_the_seed() -> None:
    first, again, other = (chosen(["repo"], (), seed=seed, aime=None) for seed in (0, 0, 1))
    assert [task.digest for task in first] == [task.digest for task in again]
    assert not {task.digest for task in first} & {task.digest for task in other}
    assert all(5 <= len(task.files or ()) <= 30 for task in (*first, *other))


def test_right_answers_pass_and_wrong_ones_fail(tmp_path: Path) -> None:
    """All tasks that need nothing that confines."""
    tasks = [task for task in chosen(["harmony", "chain"], (), seed=0, aime=None) if not task.python]
    right = ossia_text("eval", *flags(tasks), "--engine", script(tmp_path, tasks))
    assert right.returncode == 0 and "failed" not in right.stderr, right
    rows = {line.split()[0]: line for line in right.stdout.splitlines() if " of " in line}
    assert re.match(r"harmony +24 of 24 +100.0 % +86 – 100 %", rows["harmony"])
    assert re.match(r"chain +10 of 10 +100.0 % +72 – 100 % +1.00", rows["chain"])
    wrong = ossia_text("eval", *flags(tasks), "--new", "--json", "--engine", script(tmp_path, tasks, wrong=True))
    *runs, table = results(wrong.stdout)
    assert [(run["passed"], bool(run["reason"])) for run in runs] == [(False, True)] * 34
    assert [(row["suite"], row["passed"], row["f1"]) for row in table["suites"]] == [
        ("harmony", 0, None),
        ("chain", 0, 0),
    ]


def test_the_shares_are_drawn_on_a_terminal_and_into_a_picture(tmp_path: Path) -> None:
    """A pipe gets the table alone."""
    tasks, picture = some("chain/library-4", "chain/library-5"), tmp_path / "shares.svg"
    command = ["eval", *flags(tasks), "--new", "--quiet", "--engine", script(tmp_path, tasks)]
    piped = ossia_text(*command, "--svg", str(picture))
    assert piped.returncode == 0 and "█" not in piped.stdout
    drawn = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    texts = [element.text for element in drawn.iterfind("{*}text")]
    assert texts == ["script, effort medium: tasks solved (lines: 95 % interval)", "chain", "100.0 % · 2 of 2"]
    with PtyChat(*command, environ={"LANG": "C.UTF-8"}) as terminal:
        assert terminal.wait() == 0
    assert re.search(r"\nsolved\nchain +█+▓+ +100.0 %  2 of 2\n +▓░ 95 % interval$", terminal.text)


@pytest.mark.parametrize(
    ("name", "why"), [("none/a.svg", "its folder doesn't exist"), (".", "it is a folder")]
)
def test_a_picture_that_cannot_be_written_is_refused_first(name: str, why: str, tmp_path: Path) -> None:
    done = ossia_text("eval", "--engine", f"script:{tmp_path}/none.json", "--svg", f"{tmp_path}/{name}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ossia: error: --svg {tmp_path}/{name} can't be written: {why}\n"


@pytest.mark.needs_bwrap
def test_repositories_and_sums_are_judged_by_what_was_done(tmp_path: Path) -> None:
    """A tenth of them; `python -m tests.oracle.eval` does all."""
    tasks = some("repo/crlf-1", "repo/test-2", "repo/remove-1", "math/coins-1")
    right = ossia_text("eval", *flags(tasks), "--engine", script(tmp_path, tasks))
    assert right.returncode == 0 and re.search(r"repo +3 of 3", right.stdout), right
    assert re.search(r"math +1 of 1", right.stdout)
    wrong = ossia_text("eval", *flags(tasks), "--new", "--engine", script(tmp_path, tasks, wrong=True))
    assert re.search(r"repo +0 of 3", wrong.stdout) and re.search(r"math +0 of 1", wrong.stdout), wrong


@pytest.mark.needs_bwrap
def test_code_that_ends_the_tests_early_has_not_passed_them(tmp_path: Path) -> None:
    (task,) = some("repo/pages-1")
    package = next(name for name in task.files or () if name.endswith("pages.py") and "test" not in name)
    leave = "import os\n\nprint('2 passed, 0 failed', flush=True)\nos._exit(0)\n"
    command = ["bash", "-lc", f"cat >{package} <<'END'\n{leave}END"]
    call = f"<|channel|>analysis to=container.exec code<|message|>{json.dumps({'command': command})}<|call|>"
    steps = (call, "<|channel|>final<|message|>Done.<|return|>")
    done = ossia_text("eval", "--task", task.id, "--engine", write_script(tmp_path, *steps))
    assert re.search(r"repo +0 of 1", done.stdout), done


@pytest.mark.needs_bwrap
def test_what_leads_out_of_the_folder_is_refused(tmp_path: Path, home: Path) -> None:
    (task,) = some("repo/pages-1")
    patch = "*** Begin Patch\n*** Add File: ../out.txt\n+x\n*** End Patch"
    reach = f"echo x >{home}/out.txt; echo x >../out.txt; echo $?"
    calls = [
        ("repo_browser.apply_patch", {"patch": patch}),
        ("container.exec", {"command": ["bash", "-lc", reach]}),
        (
            "container.exec",
            {"command": ["bash", "-lc", "python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 80))'"]},
        ),
    ]
    steps = [
        f"<|channel|>analysis to={name} code<|message|>{json.dumps(arguments)}<|call|>" for name, arguments in calls
    ]
    done = ossia_text("eval", "--json", "--task", task.id, "--engine", write_script(tmp_path, *steps, WRONG))
    (run, _) = results(done.stdout)
    shown = ossia_text("sessions", "show", run["session"]).stdout
    assert not (home / "out.txt").exists()
    assert run["passed"] is False and run["calls"] == 3
    assert "Network is unreachable" in shown or "not permitted" in shown, shown


@pytest.mark.parametrize("limit", [("--timeout", "0.5"), ("--max-tokens", "40")])
def test_an_endless_one_is_stopped(tmp_path: Path, limit: tuple[str, str]) -> None:
    tasks = some("harmony/channels-capital", "harmony/ends-no-call")
    engine = write_script(tmp_path, PATTERN, "<|channel|>final<|message|>42<|return|>", tokens_per_s=60)
    done = ossia_text("eval", *flags(tasks), *limit, "--json", "--engine", engine)
    first, second, _ = results(done.stdout)
    assert (first["passed"], first["end"]) == (False, "time" if "--timeout" in limit else "tokens")
    assert first["reason"].startswith("cut off: ")
    assert (second["passed"], second["end"]) == (True, "answered")


@pytest.mark.needs_bwrap
def test_after_a_kill_it_goes_on_where_it_was(tmp_path: Path) -> None:
    tasks = some("repo/version-1", "repo/errors-1", "repo/move-1")
    command = ["eval", *flags(tasks), "--json", "--engine", script(tmp_path, tasks, tokens_per_s=2000)]
    process = start(*command)
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    time.sleep(0.1)  # the second one is under way
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    script(tmp_path, tasks[1:])
    done = ossia_text(*command)
    *runs, table = results(done.stdout)
    assert "1 of 3 are done from before" in done.stderr
    assert [(run["task"], run["passed"]) for run in runs] == [(task.id, True) for task in tasks]
    assert runs[0] == first and (table["suites"][0]["runs"], table["suites"][0]["passed"]) == (3, 3)
    kept = next((tmp_path.home() / ".local/share/ossia/eval").glob("*.jsonl"))
    kept.write_bytes(kept.read_bytes()[:-40])  # half a line, as a full disk leaves it
    script(tmp_path, tasks[2:])
    again = ossia_text(*command[:-3], *command[-2:])
    assert "2 of 3 are done from before" in again.stderr and "3 of 3" in again.stdout
    anew = ossia_text(*command, "--new", "--engine", script(tmp_path, tasks))
    assert "from before" not in anew.stderr and len(results(anew.stdout)) == 4


def test_an_interrupt_says_how_to_go_on(tmp_path: Path) -> None:
    tasks = some("harmony/ends-no-call", "harmony/channels-capital")
    process = start("eval", *flags(tasks), "--json", "--engine", write_script(
        tmp_path, "<|channel|>final<|message|>42<|return|>", PATTERN, tokens_per_s=60))  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stderr.decode().splitlines()[-1] == (
        "ossia: interrupted: 1 of 2 are done and kept; the same command goes on from there"
    )


def test_runs_of_one_task_give_an_interval(tmp_path: Path) -> None:
    (task,) = some("harmony/ends-no-call")
    final = "<|channel|>final<|message|>{}<|return|>"
    engine = write_script(tmp_path, *(final.format(42 if n % 2 else 41) for n in range(4)))
    done = ossia_text("eval", "--task", task.id, "--runs", "4", "--engine", engine)
    assert re.search(r"harmony +2 of 4 +50.0 % +15 – 85 %", done.stdout), done
    assert done.stderr.count("failed: harmony/ends-no-call, run") == 2


def test_a_failure_can_be_read_and_is_none_of_the_users_sessions(tmp_path: Path) -> None:
    (task,) = some("harmony/ends-no-call")
    done = ossia_text("eval", "--task", task.id, "--engine", script(tmp_path, [task], wrong=True))
    found = re.search(r"ossia (sessions show \w+)", done.stderr)
    assert found
    shown = ossia_text(*found[1].split()).stdout
    assert shown.startswith("# eval harmony/ends-no-call, run 1: failed") and "I don't know." in shown
    assert (
        ossia_text("sessions", "list").stdout.strip() in ("", "[]")
        or task.id not in ossia_text("sessions", "list").stdout
    )


@pytest.mark.skipif(sys.platform != "linux", reason="it is about what Linux confines")
def test_what_cannot_run_here_is_left_out_and_no_failure_of_the_models(tmp_path: Path) -> None:
    """No bubblewrap, and the first python3 lies where commands can't start it: another one runs, ossia's if need be."""
    tasks = some("repo/crlf-1", "harmony/ends-no-call")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bwrap").chmod(0o755)
    (folder / "python3").symlink_to(sys.executable)
    runs = choose(bwrap=os.devnull).name != "off"
    engine = script(tmp_path, tasks if runs else tasks[1:])
    done = ossia_text("eval", *flags(tasks), "--engine", engine, env={"PATH": str(folder)})
    assert done.returncode == 0 and ("1 task needs commands and is left out: " in done.stderr) != runs, done
    assert re.search(r"^harmony +1 of 1", done.stdout, re.MULTILINE)
    assert (re.search(r"^repo +1 of 1", done.stdout, re.MULTILINE) is not None) == runs, done


def test_with_the_built_in_model_it_runs_and_tells_the_time_first() -> None:
    done = ossia_text("eval", "--model", "etude", *flags(some("harmony/channels-capital", "chain/library-4")))
    assert done.returncode == 0, done
    assert re.search(r"2 tasks with etude: about \d+ (s|min), at [\d.,]+ tok/s", done.stderr), done.stderr
    assert re.search(r"^harmony +[01] of 1", done.stdout, re.MULTILINE)


def test_aime_is_read_from_a_file_and_stands_beside_published_figures(tmp_path: Path) -> None:
    lines = [{"problem": "How many hats fit?", "answer": 4}, {"problem": "How many coats hang there?", "answer": "006"}]
    jsonl, table = tmp_path / "aime.jsonl", tmp_path / "aime.csv"
    jsonl.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table.write_text('id,question,answer\n1,"How many\nhats fit?",4\n')
    assert ossia_here("eval", "--list", "--aime", str(jsonl)).stdout.decode().split() == ["aime/1", "aime/2"]
    assert ossia_here("eval", "--list", "--aime", str(table)).stdout.decode().split() == ["aime/1"]
    for text in ("question\nWhat?\n", f'question,answer\n"{"x" * 200_000}'):
        table.write_text(text)
        wrong = ossia_here("eval", "--list", "--aime", str(table))
        assert (wrong.returncode, wrong.stderr.decode().count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("eval", "maths"), "there is no suite 'maths'"),
        (("eval", "--task", "repo/pages-3"), "did you mean 'repo/pages-2'"),
        (("eval", "--effort", "vast"), "--effort"),
        (("eval", "--aime", "/nowhere.csv"), "can't be read"),
        (("eval", "--runs", "0"), "--runs"),
        (("eval", "--engine", "http://gpu.test:9"), "--allow-engine"),
        (("eval", "--engine", "http://gpu.test:9", "--allow-engine", ""), "list of hosts"),
    ],
)
def test_what_cannot_be_meant_is_one_line(arguments: tuple[str, ...], told: str) -> None:
    done = ossia_here(*arguments)
    assert (done.returncode, done.stderr.decode().count("\n")) == (2, 1)
    assert told in done.stderr.decode()
