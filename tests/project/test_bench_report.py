"""What benches print, and the processes they start. What they measure is asserted nowhere."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from ossia.agent.models.needs import BATCH_TOKENS
from tests.bench.processes import busy, measure
from tests.bench.report import Report, file_facts, load, machine, ratios
from tests.support.command import ROOT
from tests.support.vocabularies import ETUDE

pytestmark = pytest.mark.own_job

_HELPERS = {"__init__", "native", "processes", "report", "start_phases", "synthetic"}
_BENCHES = sorted(path.stem for path in (ROOT / "tests/bench").glob("*.py") if path.stem not in _HELPERS)

_ON_THE_ETUDE = {
    "toolbox": ("--calls", "20"),
    "own_cost": (str(ETUDE), "--runs", "1", "--tokens", "4", "--rungs", "turn,run on a terminal"),
    "outside": ("--runs", "1"),
    "chat_decode": (str(ETUDE), "--runs", "1", "--tokens", "4"),
}


_DRAWN = "\nsome: first\nshort  ██████████████████████████████████████▉│  0.97\n"


def _report() -> Report:
    report = Report("some", "tiktoken")
    report.settings |= {"runs": 3, "model": "a.gguf"}
    report.row("first", what="short", ours_us=1234.5678, ratio=0.97123, late=False)
    report.row("first", what="a longer one", ours_us=12.0, ratio=None, late=True)
    report.row("second", count=201_088)
    return report


def test_json_holds_everything() -> None:
    whole = _report().to_json()
    assert whole["bench"] == "some"
    assert whole["machine"] == machine() and set(machine()) == {
        *("cpu", "cores", "threads", "memory_gib", "system", "architecture"),
    }
    assert whole["settings"] == {"runs": 3, "model": "a.gguf"}
    assert whole["tables"] == {
        "first": [
            {"what": "short", "ours_us": 1234.57, "ratio": 0.97123, "late": False},
            {"what": "a longer one", "ours_us": 12.0, "ratio": None, "late": True},
        ],
        "second": [{"count": 201_088}],
    }
    versions = whole["versions"]
    assert isinstance(versions, dict)
    assert set(versions) == {"python", "ossia", "llama-cpp-python", "numpy", "tiktoken"} and all(versions.values())


def test_a_table_can_be_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _report().print(as_json=False)
    head, _, tables = capsys.readouterr().out.partition("\n\n")
    assert [line.split()[0] for line in head.splitlines()] == ["machine", "load", "versions", "settings"]
    assert tables == (
        "first\n"
        "  what          ours µs  ratio  late\n"
        "  short           1,235  0.971  no\n"
        "  a longer one    12.00      –  yes\n"
        "\nsecond\n"
        "    count\n"
        "  201,088\n" + _DRAWN
    )


def test_ratios_are_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Below the tables, and into a file; a table without them isn't."""
    monkeypatch.setenv("COLUMNS", "80")
    report, picture = _report(), tmp_path / "ratios.svg"
    report.row("decode", lanes=4, what="ossia", tokens_per_s=30.0, **ratios((), ()))
    report.row("decode", lanes=4, what="a peer", tokens_per_s=20.0, **ratios([3.0, 2.0, 4.0], [2.0, 2.0, 2.0]))
    report.print(as_json=False, svg=picture)
    assert capsys.readouterr().out.endswith(
        f"{_DRAWN}"
        "\nsome: decode\n"
        "lanes 4 · a peer  ████████████████████│▓▓▓▓▓▓▓▓▓░░░░░░░░░░  1.50\n"
        "                  ▓░ least to greatest\n"
    )
    assert [element.text for element in ElementTree.parse(picture).iterfind("{*}text")] == [
        *("some: first", "short", "0.97"),
        *("some: decode (lines: least to greatest)", "lanes 4 · a peer", "1.50"),
    ]


def test_files_are_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(bytes(1_500_000))
    assert file_facts(tmp_path / "a.gguf") == {"model": "a.gguf", "model_mb": 1.5}


@pytest.mark.parametrize("name", _BENCHES)
def test_every_bench_speaks_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        importlib.import_module(f"tests.bench.{name}").main(["--help"])
    assert leaving.value.code == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("name", _ON_THE_ETUDE)
def test_a_bench_runs(name: str) -> None:
    """It still goes with the program as it is: every cell has its figure, and no path of this machine is in it."""
    command = [sys.executable, "-m", f"tests.bench.{name}", *_ON_THE_ETUDE[name], "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert set(whole) == {"bench", "machine", "load", "versions", "settings", "tables"}
    assert whole["bench"] == name
    assert set(whole["load"]) == {"before", "after"} and (whole["load"]["after"] is None) == (load() is None)
    assert str(ROOT) not in done.stdout and str(Path.home()) not in done.stdout
    rows = [row for table in whole["tables"].values() for row in table]
    figures = [value for row in rows for value in row.values() if isinstance(value, float)]
    assert rows and figures and all(map(math.isfinite, figures))
    assert any(isinstance(value, str) for row in rows for value in row.values())


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        *(
            (name, ["none.gguf"], "'none.gguf' is none")
            for name in ("decode", "own_cost", "chat_decode", "first_token")
        ),
        ("own_cost", [str(ETUDE), "--rungs", "turn,tern"], "run on a terminal; got tern"),
    ],
)
def test_a_slip_is_told_before_anything_runs(
    name: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        importlib.import_module(f"tests.bench.{name}").main(arguments)
    assert leaving.value.code == 2
    assert told in capsys.readouterr().err


_LLAMA_BENCH = """\
#!{python}
import json, sys
with open(__file__ + ".log", "a") as log:
    print(json.dumps(sys.argv[1:]), file=log)
of = {{"build_number": 1, "build_commit": "abc"}}
print(json.dumps([{{"n_gen": 0, "avg_ts": 1e6, **of}}, {{"n_gen": 4, "avg_ts": 1e5, **of}}]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="runs a script as a program")
def test_decode_takes_turns_with_llama_bench(tmp_path: Path) -> None:
    """A program with its face, which says the same each time: who runs when and with what, and what is told of it."""
    peer = tmp_path / "llama-bench"
    peer.write_text(_LLAMA_BENCH.format(python=sys.executable))
    peer.chmod(0o755)
    given = {"runs": 2, "tokens": 4, "prompt-tokens": 8, "busy": 1, "busy-runs": 1, "busy-tokens": 2, "threads": 1}
    flags = [f"--{name}={value}" for name, value in given.items()]
    command = [sys.executable, "-m", "tests.bench.decode", str(ETUDE), "--llama-bench", str(peer), "--repack=0", *flags]

    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    first, second = ("ossia", "llama-bench"), ("llama-bench", "ossia")
    turns = [("nothing, run 1", first), ("nothing, run 2", second), ("1 busy, run 1", first)]
    said = [line.split(":")[0] for line in done.stderr.splitlines()]
    assert said == [f"{run}, {name}" for run, names in turns for name in names]

    calls = [json.loads(line) for line in Path(f"{peer}.log").read_text().splitlines()]
    asked = [dict(zip(arguments[::2], arguments[1::2], strict=True)) for arguments in calls]
    assert [one["--n-gen"] for one in asked] == ["4", "4", "2"]
    assert {one[name] for one in asked for name in ("--batch-size", "--ubatch-size")} == {str(BATCH_TOKENS)}
    assert {(one["--threads"], one["--n-prompt"], one["--repack"]) for one in asked} == {("1", "8", "0")}

    told = json.loads(done.stdout)
    assert told["versions"]["llama-bench"] == "build 1 (abc)" and str(tmp_path) not in done.stdout
    decode, _, runs = told["tables"].values()
    ours = sorted(row["decode"] for row in runs if (row["beside"], row["what"]) == ("nothing", "ossia"))
    theirs = next(row for row in decode if (row["beside"], row["what"]) == ("nothing", "llama-bench"))
    ratios = [theirs["ratio_least"], theirs["ratio_greatest"]]
    assert theirs["median"] == 1e5 and ratios == pytest.approx([speed / 1e5 for speed in ours], rel=1e-4)


_PROBE = """\
import os, stat, sys, json
from tests.bench.processes import answer
print("x" * 300_000)  # more than a pipe holds
answer(json.loads(sys.argv[2]), {"pipe": stat.S_ISFIFO(os.fstat(1).st_mode), "terminal": os.isatty(1)})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("terminal", [False, True])
def test_what_is_measured_writes_into_a_pipe_or_to_a_terminal(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bench_probe.py").write_text(_PROBE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert measure("bench_probe", {}, terminal=terminal) == {"pipe": not terminal, "terminal": terminal}


def _is_busy(child: psutil.Process) -> bool:
    try:
        return "tests.bench.processes" in child.cmdline()
    except psutil.Error:  # another test's, which ends at this moment
        return False


def test_busy_processes_compute_and_end_with_the_block() -> None:
    with pytest.raises(KeyboardInterrupt), busy(2):
        children = psutil.Process().children()
        computing = [child for child in children if _is_busy(child)]
        raise KeyboardInterrupt
    assert len(computing) == 2
    assert not any(child.is_running() for child in computing)


def test_busy_processes_end_when_nobody_is_left_to_end_them() -> None:
    code = (
        "import os, psutil\n"
        "from tests.bench.processes import busy\n"
        "with busy(1):\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    os._exit(0)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    orphan = int(done.stdout)
    with suppress(psutil.NoSuchProcess):  # it has ended
        _, alive = psutil.wait_procs([psutil.Process(orphan)], timeout=30)
        for process in alive:
            process.kill()
        assert not alive
