"""The command as a process: what it prints, how it ends, what it loads."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia import __version__
from ossia.agent.errors import (
    AgentError,
    ContextFull,
    EngineFailed,
    ModelNotFound,
    ModelUnusable,
    OutOfMemory,
    ScriptEnded,
    ScriptInvalid,
    SessionInvalid,
)
from ossia.cli.exits import ExitCode, ExitError, exit_code
from ossia.cli.settings.config import ConfigError
from tests.support.command import OSSIA, ROOT, ossia_here, ossia_text, write_script

posix_only = pytest.mark.skipif(os.name == "nt", reason="pipes and signals as POSIX has them")


# -- what it prints --


def test_version() -> None:
    done = ossia_text("--version", started=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ossia {__version__}\n", "")


@pytest.mark.parametrize("args", [("--help",), ("-h",)])
def test_help(args: tuple[str, ...]) -> None:
    done = ossia_text(*args, started=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ossia [OPTIONS] COMMAND [ARGS]...\n")
    assert "  config " in done.stdout


@posix_only
def test_a_stdin_that_was_closed_is_an_empty_one() -> None:
    done = subprocess.run(["/bin/sh", "-c", f"{OSSIA} <&-"], capture_output=True, text=True, check=False)
    told = 'ossia: error: no question: ask one, as in: ossia run "What is 48*17?"\n'
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.parametrize("arguments", [["2 questions"], ["hello"], ["--quiet", "hello"], ["Why?", "--quiet"]])
def test_a_question_needs_no_run(arguments: list[str], tmp_path: Path) -> None:
    script = write_script(tmp_path, "<|channel|>final<|message|>Yes.<|return|>")
    done = ossia_text(*arguments, "--engine", script)
    assert (done.returncode, done.stdout) == (0, "Yes.\n")


@pytest.mark.parametrize(
    ("word", "told"),
    [("modles", "Did you mean 'models'?"), ("pull", "Did you mean `ossia models pull`?"), ("sesions", "'sessions'?")],
)
def test_a_misspelt_command_is_no_question(word: str, told: str) -> None:
    done = ossia_text(word, "--engine", "script:none")
    assert (done.returncode, done.stdout) == (2, "") and f"No such command '{word}'" in done.stderr
    assert told in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("help undo", "undo --help"), ("help models pull", "models pull --help"),
     ("version", "--version"), ("chat --help", "--help"), ("--model etude chat --version", "--version"),
     ("chat config path", "config path")],
)  # fmt: skip
def test_other_words_for_the_same(typed: str, meant: str) -> None:
    done, same = ossia_here(*typed.split()), ossia_here(*meant.split())
    assert (done.returncode, done.stdout) == (0, same.stdout) and same.stdout


@pytest.mark.parametrize("named", [".", "./", "../work", "{}", "../work/src/.."])
def test_a_path_opens_the_folder(named: str, tmp_path: Path) -> None:
    """It is `--workspace`, wherever it stands, with a question or without one."""
    (work := tmp_path / "work").joinpath("src").mkdir(parents=True)
    script = write_script(tmp_path, "<|channel|>final<|message|>Yes.<|return|>")
    done = ossia_text("-q", named.format(work), "Is it?", "--save", "--engine", script, cwd=work)
    assert (done.returncode, done.stdout) == (0, "Yes.\n"), done.stderr
    (info,) = json.loads(ossia_text("sessions", "list", "-j").stdout)["sessions"]
    assert info["workspace"] == str(work.resolve())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["src"], "src is a folder: ossia ./src works in it; to ask a question: ossia run src (see `ossia --help`)"),
        (["./none"], "./none doesn't exist; to ask a question: ossia run ./none (see `ossia --help`)"),
        (["-q", "./a.txt"], "./a.txt is a file, not a folder: ossia -w FOLDER works in one; "
            "to ask a question: ossia run ./a.txt (see `ossia --help`)"),
        (["."], 'no question: ask one, as in: ossia run "What is 48*17?"'),
        ([".", "--schema", "{}"], 'no question: ask one, as in: ossia run "What is 48*17?"'),
        (["/" + "x" * 5000, "--engine", "script:none"], "none: can't be read: No such file or directory"),
        (["./src", "models", "list"], "--workspace must come after models (see `ossia --help`)"),
    ],
)  # fmt: skip
def test_what_looks_like_a_path(arguments: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").write_text("a")
    done = ossia_here(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"ossia: error: {told}\n")


def test_a_flag_that_only_a_run_has_makes_it_a_run(tmp_path: Path) -> None:
    script = write_script(tmp_path, "<|channel|>final<|message|>7<|return|>")
    done = ossia_text("--schema", '{"type": "integer"}', "--engine", script, "--no-guide", "What is 3+4?")
    assert (done.returncode, done.stdout) == (0, "7\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["hello", "there"], "several words needs quotes: ossia run 'hello there' (see `ossia run --help`)"),
        (["run", "--quiet", "what's", "up"], "needs quotes: ossia run 'what'\"'\"'s up' (see `ossia run --help`)"),
        (["help", "nothing"], "no help on 'nothing': `ossia help` lists the topics"),
        (["--think", "on", "Why?"], "--think is a flag of the chat (`ossia` without a question), not of `ossia run`; "
            "--show-thinking shows the thinking here"),
        (["--vi", "Why?"], "--vi is a flag of the chat (`ossia` without a question), not of `ossia run`"),
        (["run", "--bell=3"], "--bell is a flag of the chat (`ossia` without a question), not of `ossia run`"),
        (["--resume"], "--resume needs the id of a session, or part of its title; no session is stored yet"),
        (["-r"], "--resume needs the id of a session, or part of its title; no session is stored yet"),
        (["run", "-e", "mild", "Why?"], "--effort: must be low, medium or high, not 'mild'"),
        (["-m"], "Option '-m' requires an argument. (see `ossia --help`)"),
        (["-5 * 8"], "(see `ossia --help`; a question that begins with a minus goes after --, as in: "
            "ossia run -- '-5 * 8')"),
        (["-m", "etude", "models", "list"], "--model must come after models (see `ossia --help`)"),
        (["-c", "models", "list"], "--continue must come after models (see `ossia --help`)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_plainly(arguments: list[str], told: str) -> None:
    done = ossia_here(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    line = done.stderr.decode()
    assert line.startswith("ossia: error: ") and line.endswith(f"{told}\n") and line.count("\n") == 1


@pytest.mark.parametrize("free", ["-k", "-z"])
@pytest.mark.parametrize("before", [[], ["run"]])
def test_letters_that_mean_nothing_yet_are_refused(before: list[str], free: str) -> None:
    done = ossia_here(*before, free, "Why?")
    path = " ".join(["ossia", *before])
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"ossia: error: No such option: {free} (see `{path} --help`)\n"


def test_a_misspelt_option_names_the_one_that_was_meant() -> None:
    said = "ossia: error: No such option: --efort. Did you mean --effort? (see `ossia --help`)\n"
    assert ossia_here("--efort", "high").stderr.decode() == said


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (["-qj", "-s", "Be brief."], ["--quiet", "--json", "--instructions", "Be brief."]),
        (["-ehigh", "-m", "etude", "-vw."], ["--effort=high", "--model=etude", "--verbose", "--workspace=."]),
    ],
)
def test_short_flags(short: list[str], long: list[str], tmp_path: Path) -> None:
    """Each letter and its flag lead to the same: what is printed, and what is stored."""
    script = write_script(tmp_path, "<|channel|>final<|message|>Yes.<|return|>")
    seen = []
    for flags in (short, long):
        done = ossia_text("run", *flags, "Why?", "--save", "--engine", script, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        options = json.loads(ossia_text("sessions", "export", "Why?", "--form", "json").stdout)["options"]
        seen.append((done.stdout.startswith("{"), re.sub(r"[0-9a-z]{8}|[0-9.]+ s", "…", done.stderr), options))
        ossia_text("sessions", "rm", json.loads(ossia_text("sessions", "list", "-j").stdout)["sessions"][0]["id"])
    assert seen[0] == seen[1]


def test_the_last_session_by_its_letter(tmp_path: Path) -> None:
    script = write_script(tmp_path, "<|channel|>final<|message|>Yes.<|return|>")
    assert ossia_text("run", "Why?", "--save", "--engine", script).returncode == 0
    assert ossia_text("-c", "And?", "--engine", script).returncode == 0
    assert ossia_text("run", "-r", "Why", "So?", "--engine", script).returncode == 0
    assert [one["turns"] for one in json.loads(ossia_text("sessions", "list", "-j").stdout)["sessions"]] == [3]


@pytest.mark.parametrize("arguments", [["--resume"], ["run", "And?", "--resume"]])
def test_resume_alone_lists_what_there_is(arguments: list[str], tmp_path: Path) -> None:
    script = write_script(tmp_path, "<|channel|>final<|message|>Yes.<|return|>")
    for asked in ("Are llamas kind?", "Is bread \x1b[2J good?"):
        assert ossia_text("run", asked, "--save", "--engine", script).returncode == 0
    done = ossia_text(*arguments)
    line, *rows = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert line.endswith("--resume needs the id of a session, or part of its title; these were used last:")
    assert [row[26:] for row in rows] == ["      1  Is bread ␛[2J good?", "      1  Are llamas kind?"]


def test_other_names_of_commands() -> None:
    done = ossia_text("mcp", "remove", "x")
    assert done.returncode == 2 and "no MCP server 'x'" in done.stderr
    assert ossia_text("sessions", "ls").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("run -5*8", 2, "a question that begins with a minus goes after --"),
        ("config list", 0, "effort = "),
        ("config ls", 0, "effort = "),
        ("config get top_p", 0, "top_p = 1.0  # default"),
        ("config get --top-p", 2, "No such option"),
        ("config get efort", 2, "'efort' is not a setting: did you mean 'effort'?"),
        ("config delete effort", 2, "'effort' isn't set there"),
        ("config remove effort", 2, "'effort' isn't set there"),
        ("cache list", 0, "no KV cache is stored yet"),
        ("cache ls", 0, "no KV cache is stored yet"),
        ("cache clear", 0, "no cache was stored"),
        ("trust list", 0, "no folder is trusted"),
        ("trust ls", 0, "no folder is trusted"),
    ],
)
def test_other_names_in_every_group(arguments: str, code: int, told: str) -> None:
    done = ossia_text(*arguments.split())
    assert (done.returncode, told in done.stdout + done.stderr) == (code, True), done


def test_python_dash_m_in_the_clone() -> None:
    command = [sys.executable, "-m", "ossia", "--version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"ossia {__version__}\n", "")


def test_a_folder_with_packages_of_our_names_changes_nothing(tmp_path: Path) -> None:
    for name in ("cli", "agent", "tools", "harmony", "ossia", "typer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the folder of the user won')")
    done = ossia_text("config", "show", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_of_functions_has_neighbours_of_any_name(tmp_path: Path) -> None:
    names = ("cli", "agent", "tools", "harmony")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"NAME = {name!r}")
    imports = "\n".join(f"from {name} import mine as {name}_mine" for name in names)
    found = ", ".join(f"{name}_mine.NAME" for name in names)
    (tmp_path / "f.py").write_text(f"{imports}\n\ndef names() -> list[str]:\n    'Names.'\n    return [{found}]\n")
    done = ossia_text("tools", "call", "names", "--tools", "f.py", "--allow", "names", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, '["cli", "agent", "tools", "harmony"]\n'), done.stderr


@pytest.mark.parametrize(
    ("args", "wrong", "next_step"),
    [
        (("sesions",), "'sesions'", '`ossia --help`; to ask a question: ossia run "…"'),
        (("config", "show", "--efort"), "--efort", "`ossia config show --help`"),
        (("config", "show", "x"), "(x)", "`ossia config show --help`"),
    ],
)
def test_a_bad_command_line_is_one_line(args: tuple[str, ...], wrong: str, next_step: str) -> None:
    done = ossia_text(*args)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("ossia: error: ")
    assert wrong in done.stderr
    assert done.stderr.endswith(f" (see {next_step})\n")


def test_a_name_in_an_error_can_not_reach_the_terminal_as_a_control() -> None:
    done = ossia_text("config", "show", env={"OSSIA_CONFIG": "/no\x1b[2J\nsuch"})
    assert (done.returncode, done.stderr) == (2, "ossia: error: /no␛[2J such: there is no such config file\n")


def test_what_the_encoding_lacks_becomes_a_question_mark() -> None:
    done = ossia_text("config", "show", env={"PYTHONIOENCODING": "ascii", "OSSIA_MODEL": "工.gguf"})
    assert (done.returncode, done.stderr) == (0, "")
    assert 'model = "?.gguf"' in done.stdout


# -- what it loads --

_WHAT_IS_LOADED = """
import sys
before = set(sys.modules)
from ossia.cli.main import invoke
code = invoke(sys.argv[1:])
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names), file=sys.stderr)
print(*sorted(name for name in sys.modules if name.startswith("ossia.")), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("args", ["--help", "run --help", "harmony render --help", "models list --help"])
def test_help_loads_nothing_heavy(args: str) -> None:
    command = [sys.executable, "-P", "-c", _WHAT_IS_LOADED, *args.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    foreign, ours = (set(line.split()) for line in done.stderr.splitlines())
    assert foreign <= {"ossia", "typer", "click", "annotated_doc", "shellingham", "typing_extensions"}
    assert "ossia.cli.settings.config" not in ours  # nor any other module that only a command needs
    assert "ossia.cli.clean" not in ours


def test_an_interrupt_within_pythons_import_code_comes_after_it() -> None:
    """There, an exception would leave the lock of all imports taken: other threads would wait for ever."""
    script = """
import sys, time
from ossia.cli import interrupts

seen = []

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "not_there":
            interrupts._interrupt(2, sys._getframe(1))
            seen.append("went on")

interrupts.take()
sys.meta_path.insert(0, Finder())
try:
    try:
        import not_there
    except ImportError:
        pass
    time.sleep(20)
except KeyboardInterrupt:
    print(seen)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("['went on']\n", "")


def test_the_console_script_loads_nothing_before_it_can_answer_an_interrupt() -> None:
    """What `from ossia.cli.main import main` loads, beyond what Python has loaded anyway."""
    source = "import sys; before = set(sys.modules); import ossia.cli.main; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-P", "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "ossia", "ossia.cli", "ossia.cli.main"]


# -- how it ends --


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelNotFound("m"), ExitCode.MODEL),
        (ModelUnusable("m"), ExitCode.MODEL),
        (OutOfMemory("m"), ExitCode.NO_ROOM),
        (ContextFull(9, 8), ExitCode.NO_ROOM),
        (EngineFailed("m"), ExitCode.ENGINE),
        (ScriptEnded("m"), ExitCode.ENGINE),
        (ScriptInvalid("m"), ExitCode.USAGE),
        (SessionInvalid("m"), ExitCode.USAGE),
        (ConfigError("m"), ExitCode.USAGE),
        (AgentError("m"), ExitCode.FAILED),
        (ExitError("m", ExitCode.STEPS), ExitCode.STEPS),
        (OSError(errno.ENOSPC, "No space left on device"), ExitCode.FAILED),
        (OSError(errno.EACCES, "Permission denied"), None),
        (ValueError("m"), None),
    ],
)
def test_the_code_of_each_error(error: Exception, code: ExitCode | None) -> None:
    assert exit_code(error) == code


_RAISING = """
import sys, typer
from ossia.agent.errors import ModelNotFound
from ossia.cli.app import command
from ossia.cli.main import main

app = typer.Typer()

@app.command()
def probe():
    raise {error}

command.add_command(typer.main.get_command(app), "probe")
sys.argv = ["ossia", "probe"]
sys.exit(main())
"""


def _command_that_raises(error: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", _RAISING.format(error=error)], capture_output=True, text=True, check=False
    )


def test_an_error_that_is_not_ours_is_one_line() -> None:
    done = _command_that_raises("ModelNotFound('no model m:\\nossia models pull m')")
    assert (done.returncode, done.stderr) == (3, "ossia: error: no model m: ossia models pull m\n")


def test_an_error_of_ours_is_a_traceback() -> None:
    done = _command_that_raises("ValueError('ours')")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("ValueError: ours\n")


@pytest.mark.parametrize(("raised", "code"), [("typer.Exit(6)", 6), ("typer.Abort", 130), ("KeyboardInterrupt", 130)])
def test_a_command_that_ends_itself(raised: str, code: int) -> None:
    done = _command_that_raises(raised)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@posix_only
@pytest.mark.parametrize("args", [["--help"], ["config", "show"]])  # one flushes as it prints, one only at its end
def test_a_closed_pipe_is_141_and_silent(args: list[str], closed_pipe: int) -> None:
    done = subprocess.run([OSSIA, *args], stdout=closed_pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


@posix_only
def test_a_complaint_that_nobody_reads_changes_nothing(closed_pipe: int) -> None:
    done = subprocess.run([OSSIA, "sesions"], stdout=subprocess.PIPE, stderr=closed_pipe, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


@posix_only
@pytest.mark.parametrize(
    ("line", "code"), [("--help >&-", 0), ("config show >&-", 0), ("sesions 2>&-", 2), ("sesions >&- 2>&-", 2)]
)
def test_closed_outputs(line: str, code: int) -> None:
    done = subprocess.run(["/bin/sh", "-c", f'"$0" {line}', str(OSSIA)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@posix_only
@pytest.mark.parametrize("line", ["models list", "config show"])
def test_what_a_closed_stderr_would_have_had_is_not_on_stdout(line: str) -> None:
    command = ["/bin/sh", "-c", f'OSSIA_EFORT=high "$0" {line} 2>&-', str(OSSIA)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout
    assert "ossia: " not in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", ["--help", "config show"])
def test_a_full_disk_is_one_line(args: str) -> None:
    command = ["/bin/sh", "-c", f'"$0" {args} > /dev/full', str(OSSIA)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def _interrupted(folder: Path, module: str, source: str) -> subprocess.CompletedProcess[str]:
    """`ossia --version` with a module of ours found first; a SIGINT is sent once that module has said "waiting"."""
    (folder / f"{module}.py").write_text(source)
    env = {**os.environ, "PYTHONPATH": str(folder)}
    pipe = subprocess.PIPE
    with subprocess.Popen([str(OSSIA), "--version"], env=env, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout is not None
        said = ""
        while not said.endswith("waiting\n"):
            line = child.stdout.readline()
            assert line, "it ended before it waited"
            said += line
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    return subprocess.CompletedProcess(child.args, child.returncode, said + out, err)


@posix_only
def test_an_interrupt_while_we_still_import_is_130(tmp_path: Path) -> None:
    done = _interrupted(tmp_path, "typer", "import time\nprint('waiting', flush=True)\ntime.sleep(60)\n")
    assert (done.returncode, done.stderr) == (130, "")


@posix_only
def test_an_interrupt_while_we_clean_up_is_130(tmp_path: Path) -> None:
    source = """
import atexit, time

def slow_cleanup():
    print("waiting", flush=True)
    time.sleep(60)

atexit.register(slow_cleanup)
"""
    done = _interrupted(tmp_path, "sitecustomize", source)
    assert (done.returncode, done.stdout, done.stderr) == (130, f"ossia {__version__}\nwaiting\n", "")
