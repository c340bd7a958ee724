"""Text to the clipboard: by the terminal (OSC 52), even over ssh, and by the platform's own programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

MAX_TERMINAL_BYTES = 56_000
"""The most sent to a terminal: several silently drop more than the usual scripts' 74,994 characters of base64."""
_PROGRAM_S = 3.0
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def copyable(text: str) -> str:
    """The text without controls, which would act where it is pasted; line ends and tabs stay."""
    return _CONTROLS.sub("", text)


def fits_terminal(text: str) -> bool:
    """Is it short enough to be sent to a terminal?"""
    return len(text.encode("utf-8", "replace")) <= MAX_TERMINAL_BYTES


def copy_with_programs(text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Give the text to each installed clipboard program of this desktop. Takes up to 3 s for each.

    copy_with_programs("816", os.environ)    # ("tmux", "xclip"): the programs that took it
    """
    data = text.encode("utf-8", "replace")
    return tuple(name for name, command in _programs(environ) if _run(command, data, environ))


def _programs(environ: Mapping[str, str]) -> list[tuple[str, Sequence[str]]]:
    wanted: list[tuple[str, Sequence[str]]] = []
    if environ.get("TMUX"):  # tmux passes it on to its own terminal; it ignores our OSC 52 by default
        wanted.append(("tmux", ("load-buffer", "-w", "-")))
    if sys.platform == "darwin":
        wanted.append(("pbcopy", ()))
    elif sys.platform == "win32" or environ.get("WSL_DISTRO_NAME"):
        wanted.append(("clip.exe", ()))
    elif environ.get("WAYLAND_DISPLAY"):
        wanted.append(("wl-copy", ()))
    elif environ.get("DISPLAY"):
        wanted.append(("xclip", ("-selection", "clipboard", "-in")))
    found = [(name, shutil.which(name, path=environ.get("PATH")), arguments) for name, arguments in wanted]
    return [(name, [path, *arguments]) for name, path, arguments in found if path]


def _run(command: Sequence[str], data: bytes, environ: Mapping[str, str]) -> bool:
    """Did the program take it? Its outputs go nowhere: xclip stays running, and would hold a pipe open."""
    try:
        done = subprocess.run(
            list(command),
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROGRAM_S,
            env=dict(environ),
            start_new_session=os.name == "posix",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
