"""How long the command takes to start, and with what: `python -m tests.bench.start [--model M] [--peer CHECKOUT]`.

Wall time and processor time of whole commands in new processes: those that load no model, those that answer, `import
ossia`, an editor's first session, and the chat up to its first paint, to a key on its input line, and to its model.
Then the phases of an answer's way to its first token, in the order in which `ossia run` goes through them, each in a
process that did nothing else before. (`ossia run` reads the header while another thread loads the library: the sum is a
bit more than its time.) Files are in the page cache: the first run isn't counted. A peer, another checkout with an
environment of its own, takes turns with this one.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.bench.processes import measure, own_home
from tests.bench.report import Report, options
from tests.support.command import OSSIA
from tests.support.pty import PtyChat

_INPUT = "›".encode()
_Times = Mapping[str, float]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--model", default="etude", metavar="PATH|NAME", help="what answers (étude)")
    parser.add_argument("--runs", type=int, default=20, metavar="K", help="of each command")
    parser.add_argument("--peer", metavar="CHECKOUT", help="another checkout, to take turns with")
    given = parser.parse_args(argv)
    report = Report("start", "typer")
    report.settings |= {"model": Path(given.model).name, "runs": given.runs}
    programs = {"this": str(OSSIA)}
    if given.peer:
        programs["peer"] = str(Path(given.peer, ".venv", "bin", "ossia").resolve())
    with tempfile.TemporaryDirectory() as folder:
        home = own_home(Path(folder))
        for arguments in (["--version"], ["--help"], ["run", "--help"], ["config", "show"]):
            _pair(report, programs, given.runs, f"ossia {' '.join(arguments)}: ", _command(arguments, home))
        for asked in ("Hello", "What is 48*17?"):
            arguments = ["run", asked, "--model", given.model]
            _pair(report, programs, given.runs, f"ossia run {asked!r}: ", _command(arguments, home))
        for code in ("pass", "import ossia", "from ossia import Agent, Text"):
            _pair(report, programs, given.runs, f"python -c {code!r}: ", _python(code, home))
        _pair(report, programs, given.runs, "ossia acp: ", _editor(given.model, home))
        if os.name == "posix":
            _pair(report, programs, given.runs, "chat: ", lambda program: _chat(program, given.model, home))
    _tell_phases(report, given.model, max(1, given.runs // 2))
    report.print(as_json=given.json)


def _pair(report: Report, programs: Mapping[str, str], runs: int, what: str, run: Callable[[str], _Times]) -> None:
    """Add the times of each program, which take turns; the first round isn't counted."""
    found: dict[str, list[_Times]] = {who: [] for who in programs}
    for number in range(runs + 1):
        for who, program in programs.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            times = run(program)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if number:
                found[who].append({**times, "processor": cpu_s})
    for who, rounds in found.items():
        for moment in rounds[0]:
            walls = [1e3 * one[moment] for one in rounds]
            report.row("commands", what=what + moment, who=who, best_ms=min(walls), median_ms=median(walls))


def _command(arguments: Sequence[str], home: Mapping[str, str]) -> Callable[[str], _Times]:
    def run(program: str) -> _Times:
        """Seconds to the first byte on stdout, and to the end."""
        begin = time.perf_counter()
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(
            [program, *arguments], stdin=nothing, stdout=pipe, stderr=nothing, env={**os.environ, **home}
        ) as process:
            assert process.stdout is not None
            os.read(process.stdout.fileno(), 1)
            first = time.perf_counter() - begin
            process.stdout.read()
        if process.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)} ended with {process.returncode}")
        return {"first word": first, "end": time.perf_counter() - begin}

    return run


def _python(code: str, home: Mapping[str, str]) -> Callable[[str], _Times]:
    def run(program: str) -> _Times:
        begin = time.perf_counter()
        python = Path(program).with_name("python")
        subprocess.run([python, "-c", code], env={**os.environ, **home}, check=True)
        return {"end": time.perf_counter() - begin}

    return run


def _editor(model: str, home: Mapping[str, str]) -> Callable[[str], _Times]:
    def run(program: str) -> _Times:
        """Seconds to the response to the first `session/new`, which an editor sends at once."""
        begin = time.perf_counter()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with (
            tempfile.TemporaryDirectory() as folder,
            subprocess.Popen([program, "acp", "--model", model], env={**os.environ, **home}, **pipes) as process,
        ):
            assert process.stdin is not None and process.stdout is not None
            for request in (
                {"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}},
                {"id": 2, "method": "session/new", "params": {"cwd": folder, "mcpServers": []}},
            ):
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
            process.stdin.flush()
            lines = [process.stdout.readline() for _ in range(2)]
            seconds = time.perf_counter() - begin
            process.stdin.close()
            process.stdout.read()
        if b"sessionId" not in lines[1]:
            raise RuntimeError(f"{program} acp answered {lines}")
        return {"first session": seconds}

    return run


def _chat(program: str, model: str, home: Mapping[str, str]) -> _Times:
    """Seconds to the first paint of the input line, to a key on it, and until the title says that the model answers."""
    begin = time.perf_counter()
    with PtyChat("--model", model, command=[program], environ=home, name="XTerm(388)") as chat:
        while _INPUT not in chat.sent:
            chat.read(0.005)
        paint = time.perf_counter() - begin
        chat.press("q")
        chat.until("› q")
        key = time.perf_counter() - begin
        chat.idle()
        ready = time.perf_counter() - begin
        chat.press("\x7f\x04")
        chat.wait()
    return {"first paint": paint, "a key on the input line": key, "model ready": ready}


def _tell_phases(report: Report, model: str, runs: int) -> None:
    python_s = [_python_s() for _ in range(runs + 1)][1:]
    report.row("phases of a run", phase="Python itself", best_ms=1e3 * min(python_s), median_ms=1e3 * median(python_s))
    found = [measure("tests.bench.start_phases", {"model": model}) for _ in range(runs + 1)][1:]
    for phase in found[0]:
        times = [run[phase] for run in found]
        report.row("phases of a run", phase=phase, best_ms=1e3 * min(times), median_ms=1e3 * median(times))


def _python_s() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
