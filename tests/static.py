"""`python -m tests.static [mypy] [layers]`: checks types and layers on the wheel, in which all lies in `ossia/`.

The wheel is built and unpacked into `.static` (a file that is as before keeps its time, so mypy's cache holds).
Prints what mypy and import-linter print, with the clone's paths. Exits with 1 if one of them finds something.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNPACKED = ROOT / ".static"
COMMANDS = {"mypy": ("mypy", "--config-file"), "layers": ("lint-imports",)}


def unpack_wheel() -> None:
    """Build the wheel; write what has changed to `UNPACKED`, delete what is gone."""
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith((".py", ".pyi"))]
            sources = {UNPACKED / name: archive.read(name) for name in names}
    for gone in set(UNPACKED.rglob("*.py*")) - sources.keys():
        gone.unlink()
    for path, source in sources.items():
        if not path.is_file() or path.read_bytes() != source:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source)


def check(program: str, *flags: str) -> int:
    """Run it in the unpacked wheel; its exit code."""
    command = [Path(sysconfig.get_path("scripts"), program), *flags, ROOT / "pyproject.toml"]
    done = subprocess.run(command, cwd=UNPACKED, stdout=subprocess.PIPE, text=True, check=False)
    print(re.sub(r"^ossia/(?=(?:cli|agent|tools|harmony)/)", "", done.stdout, flags=re.MULTILINE), end="", flush=True)
    return done.returncode


def main(names: list[str]) -> int:
    unpack_wheel()
    return max(check(*COMMANDS[name]) for name in names or COMMANDS)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
