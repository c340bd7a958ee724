"""OpenMP's spin count: when it is set, that the library reads it, that no child inherits it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agent.engine.openmp import openmp_settings


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {"GOMP_SPINCOUNT": "1000"}),
        ({"OMP_NUM_THREADS": "2"}, {"GOMP_SPINCOUNT": "1000"}),
        ({"GOMP_SPINCOUNT": ""}, {"GOMP_SPINCOUNT": "1000"}),  # an empty variable counts as unset
        ({"GOMP_SPINCOUNT": "5"}, {}),
        ({"OMP_WAIT_POLICY": "passive"}, {}),
    ],
)
def test_never_over_the_users_own(environ: dict[str, str], expected: dict[str, str]) -> None:
    assert openmp_settings(environ) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="builds for macOS have no OpenMP")
def test_the_library_reads_it_and_no_child_inherits_it() -> None:
    script = textwrap.dedent(
        """
        import os, subprocess, sys
        from pathlib import Path
        from agent.engine.openmp import openmp_settings
        settings = openmp_settings(os.environ)
        os.environ.update(settings)
        import agent.engine.llama
        for name in settings:
            del os.environ[name]
        print("gomp" in Path("/proc/self/maps").read_text())
        child = "import os; print(os.environ.get('GOMP_SPINCOUNT'))"
        print(subprocess.check_output([sys.executable, "-c", child], text=True))
        """
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GOMP_", "OMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environ | {"OMP_DISPLAY_ENV": "verbose"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["True", "None"]
    assert "GOMP_SPINCOUNT = '1000'" in done.stderr
