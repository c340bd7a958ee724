"""`python -m tests.without_bwrap COMMAND…`: runs it where no bubblewrap is found, so that Landlock confines.

Each folder of PATH that holds `bwrap` is replaced by one of links to all its other programs. Needs no rights.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def hidden(path: str, into: Path) -> str:
    """`path`, in PATH's form, without bubblewrap. `into`: an empty folder for the links."""
    folders = list(dict.fromkeys(os.path.realpath(folder) for folder in path.split(os.pathsep) if folder))
    for number, folder in enumerate(folders):
        if not Path(folder, "bwrap").exists():
            continue
        links = into / str(number)
        links.mkdir()
        for program in Path(folder).iterdir():
            if program.name != "bwrap":
                (links / program.name).symlink_to(program)
        folders[number] = str(links)
    return os.pathsep.join(folders)


def main(command: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="ossia-without-") as folder:
        path = hidden(os.environ.get("PATH", ""), Path(folder))
        return subprocess.run(command, env={**os.environ, "PATH": path}, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
