"""What benches print, and the processes they start. What they measure is asserted nowhere."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.bench.processes import busy
from tests.bench.report import Report, file_facts, load, machine
from tests.support.command import ROOT
from tests.support.vocabularies import ETUDE

_HELPERS = {"__init__", "native", "processes", "report", "start_phases", "synthetic"}
_BENCHES = sorted(path.stem for path in (ROOT / "tests/bench").glob("*.py") if path.stem not in _HELPERS)

_ON_THE_ETUDE = {
    "toolbox": ("--calls", "20"),
    "decode": (str(ETUDE), "--runs", "1", "--tokens", "4", "--prompt-tokens", "8", "--busy", "1"),
    "own_cost": (str(ETUDE), "--runs", "1", "--tokens", "4", "--rungs", "turn,run on a terminal"),
    "chat_decode": (str(ETUDE), "--runs", "1", "--tokens", "4"),
}


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


def test_a_table_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
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
        "  201,088\n"
    )


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


def test_busy_processes_compute_and_end_with_the_block() -> None:
    with pytest.raises(KeyboardInterrupt), busy(2):
        children = psutil.Process().children()
        computing = [child for child in children if "tests.bench.processes" in child.cmdline()]
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
    if psutil.pid_exists(orphan):
        _, alive = psutil.wait_procs([psutil.Process(orphan)], timeout=30)
        for process in alive:
            process.kill()
        assert not alive
