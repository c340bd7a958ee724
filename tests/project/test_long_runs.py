"""The long runs, which the suite doesn't make: each can at least be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import plain_user

ROOT = Path(__file__).parents[2]
THEIRS = ("gpt_oss", "structlog")
"""Other programs, which a run is compared with; its docstring says how to install them."""
IMPORT_ALL = """
import importlib, sys
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in sys.argv[1].split(","):
            raise
"""


def test_every_long_run_can_be_imported() -> None:
    files = sorted(file for folder in ("oracle", "bench") for file in (ROOT / "tests" / folder).glob("*.py"))
    names = [f"tests.{file.parent.name}.{file.stem}" for file in files]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT_ALL, ",".join(THEIRS), *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(names) > 40


def test_what_a_plain_user_is_to_run_is_there() -> None:
    assert [name for name in plain_user.COPIED if not (ROOT / name).exists()] == []
