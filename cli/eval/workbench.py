"""The bench for a task: the tools of `ossia run`, in a temporary folder."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ossia.agent.vocabulary import TokenCounter, tokenizer_for
from ossia.cli import paths
from ossia.cli.eval.task import Task
from ossia.cli.runtime.assembly import own_files
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.table import Settings
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.grants import Grants
from ossia.tools.approval.rules import Rule
from ossia.tools.build import Toolset, ToolsSpec, toolset
from ossia.tools.folder import Folder
from ossia.tools.host import Host
from ossia.tools.import_path import environment_for
from ossia.tools.python.choice import confinement_of
from ossia.tools.sandbox import Confinement, choose
from ossia.tools.spec import NoStop, ToolCall, ToolFinished
from ossia.tools.undo.journal import Journal
from ossia.tools.workspace import Workspace

_ALLOWED = ("container.exec", "repo_browser.apply_patch")
"""Nobody is asked: in a folder that is thrown away these may run, and a task's own tools, each by its whole name. (A
rule for `functions` would be about commands, too: their old name.) What else would be asked about is refused."""
_HIDDEN = "hidden_tests"
_PREFIX = "ossia-eval-"
_SURELY_LEFT_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Bench:
    """The tools of one run of a task, and its folder (None: it has none)."""

    tools: Toolset
    folder: Folder | None


@contextmanager
def set_up(task: Task, settings: Settings, display: Display, tokenizer: Tokenizer) -> Iterator[Bench]:
    """A bench for one run; in the end the tools are closed, and all files are gone."""
    with ExitStack() as after:  # an interrupt within one of its steps doesn't keep it from the others
        place = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        after.callback(shutil.rmtree, place, ignore_errors=True)
        folder = _folder(place, task.files) if task.files is not None else None
        own = task.functions()
        spec = ToolsSpec(
            trained=("python",) if task.python else (),
            folder=folder,
            rules=tuple(Rule(name, "allow") for name in (*_ALLOWED, *(tool.spec.name for tool in own))),
            always_browse=True,
            python=settings.python,
            unconfined=settings.unconfined,
            private=settings.private,
            configs=own_files(os.environ),
            readable=(sys.base_prefix,),
        )
        grants, host = Grants(place / "data"), _host()
        tools = toolset(spec, host, display.report, TokenCounter(tokenizer, host), grants=grants, extra=own)
        after.callback(tools.close)
        yield Bench(tools, tools.folder)


def _host() -> Host:
    """This machine, with the Python that ossia stands on as the last one on PATH: there may be no other `python3`."""
    host = paths.host()
    folders = (environment_for(None, host.environ).get("PATH", ""), str(Path(sys.base_prefix, "bin")))
    return replace(host, environ={**host.environ, "PATH": os.pathsep.join(filter(None, folders))})


def _folder(place: Path, files: Mapping[str, bytes]) -> Folder:
    root = place / "work"
    root.mkdir()
    write(root, files)
    journal = Journal(place / "data", root)
    return Folder(Workspace(root, trusted=True, keeper=journal), journal)


def write(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder: `write(root, {"src/a.py": b"…"})`."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def fault_in(root: Path, task: Task, settings: Settings, display: Display, tokenizer: Tokenizer) -> str:
    """The fault that the hidden tests find in the folder, in a line; "" if all of them pass.

    They run confined, in a copy: what the model left running or linked elsewhere has no part in it. The word of
    success is made up for each run, so that code which ends the process early doesn't pass.
    """
    word = secrets.token_hex(8)
    hidden = {f"{_HIDDEN}/{name}": data for name, data in task.hidden.items()}
    hidden[f"{_HIDDEN}/run.py"] = RUNNER.encode()
    with set_up(replace(task, files={}), settings, display, tokenizer) as bench:
        assert bench.folder is not None
        copy = bench.folder.workspace.root
        shutil.copytree(root, copy, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_HIDDEN))
        write(copy, hidden)
        arguments = json.dumps({"command": ["python3", "-I", f"{_HIDDEN}/run.py", word], "timeout": 60_000})
        running = bench.tools.toolbox.run(ToolCall("judge", "container.exec", arguments), stop=NoStop())
        texts = [event.result.text for event in running if isinstance(event, ToolFinished)]
    lines = texts[-1].splitlines() if texts else []
    if word in lines:
        return ""
    failed = next((line for line in lines if line.startswith("FAILED")), "")
    raised = next((line for line in reversed(lines) if "Error" in line or "timed out" in line), "the tests did not run")
    return f"{failed}: {raised}" if failed else raised


def remove_left() -> None:
    """Remove killed processes' temporary folders, a week old."""
    before = time.time() - _SURELY_LEFT_S
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if path.lstat().st_mtime < before:
                shutil.rmtree(path, ignore_errors=True)  # another user's can't be removed


def _why_off(confinement: Confinement) -> str:
    """The reason without the advice to run it unconfined: an evaluation never does."""
    return re.split("[;:] --unconfined", confinement.reason)[0]


def missing(tasks: Sequence[Task], settings: Settings, display: Display) -> Mapping[str, str]:
    """The missing needs of these tasks, `"python"` or `"commands"`: `{"python": "bubblewrap isn't installed …"}`."""
    found: dict[str, str] = {}
    path = _host().environ["PATH"]
    if any(task.python for task in tasks):
        confinement = confinement_of(unconfined=False, search_path=path)
        found |= {"python": _why_off(confinement)} if confinement.name == "off" else {}
    if any(task.files is not None for task in tasks):
        confinement = choose(search_path=path)
        why = _why_off(confinement) if confinement.name == "off" else _python3_fault(settings, display)
        found |= {"commands": why} if why else {}
    return found


def _python3_fault(settings: Settings, display: Display) -> str:
    """The reason that commands can't run python3, as the tests of repositories must; "" if they can.

    One that is installed may lie where commands can't start it: every task would fail without any fault of the model's.
    """
    trial = Task("repo/trial", "", files={}, hidden={"test_trial.py": _TRIAL})
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as empty:
        fault = fault_in(Path(empty), trial, settings, display, tokenizer_for("etude", paths.host()))
    return fault and f"commands can't run python3 ({fault[:200]})"


_TRIAL = b"import subprocess, sys\ndef test_trial(): subprocess.run([sys.executable, '-c', ''], check=True)\n"
RUNNER = '''\
"""Runs the functions test_* of the files test_*.py beside it, or in tests/ (pytest runs them as well)."""

import importlib.util
import sys
import traceback
from pathlib import Path


def main(root, folder, word):
    sys.path.insert(0, str(root))
    sys.dont_write_bytecode = True
    failed = ran = 0
    for path in sorted(folder.glob("test_*.py")):
        try:
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            tests = [(name, one) for name, one in vars(module).items() if name.startswith("test_") and callable(one)]
        except (Exception, SystemExit):
            traceback.print_exc()
            failed += 1
            continue
        for name, test in tests:
            ran += 1
            try:
                test()
            except (Exception, SystemExit):
                failed += 1
                print("FAILED", path.name, name)
                traceback.print_exc()
    print(ran - failed if ran > failed else 0, "passed,", failed, "failed", flush=True)
    if ran and not failed:
        print(word)
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    beside = bool(list(here.glob("test_*.py")))
    sys.exit(main(here.parent if beside else here, here if beside else here / "tests", " ".join(sys.argv[1:])))
'''
"""Runs tests written as pytest's are, with nothing but Python: the commands of a sandbox may have no pytest."""
