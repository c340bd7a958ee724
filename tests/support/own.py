"""A workspace that holds ossia's own source and its environment, as a clone that is worked on with `uv run ossia`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.support.command import ROOT

PACKAGES = ("ossia", "cli", "agent", "tools", "harmony")


def make_clone(root: Path) -> Path:
    """The source below `root`, with an environment that finds it there, the rest where ours has it. Its `ossia`."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return make_environment(root / ".venv", root)


def make_environment(folder: Path, *places: Path) -> Path:
    """An environment whose packages are those of ours and, behind them, what lies in `places`. Its `ossia`."""
    site = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    base = Path(sys.executable).resolve()
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    found = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *map(str, places)])
    (site / "_ossia.pth").write_text("".join(f"{place}\n" for place in found))
    program = folder / "bin" / "ossia"
    program.write_text(f"#!{folder}/bin/python\nimport sys\nfrom ossia.cli.main import main\nsys.exit(main())\n")
    program.chmod(0o755)
    return program


def calls(program: Path, root: Path, *script: tuple[str, object], flags: tuple[str, ...] = (),
          env: dict[str, str] | None = None) -> list[dict[str, Any]]:  # fmt: skip
    """What `ossia tools call` answers to a script of calls, all in one session. `env` is added to our environment."""
    lines = "".join(json.dumps({"name": name, "arguments": arguments}) + "\n" for name, arguments in script)
    command = [program, "tools", "call", "--script", "-", "--json", "--workspace", root, *flags]
    done = subprocess.run(list(map(str, command)), input=lines, capture_output=True, text=True, cwd=root,
                          timeout=300, env={**os.environ, **(env or {})}, check=False)  # fmt: skip
    if done.returncode not in (0, 1, 8):  # a call may fail or be refused
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]
