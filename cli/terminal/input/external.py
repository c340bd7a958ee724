"""The user's own editor, for longer texts."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path

from ossia.cli.clean import clean, one_line
from ossia.cli.streams import stdout_for_programs

_USUAL = ("notepad",) if sys.platform == "win32" else ("vi", "nano")


class EditorFailed(Exception):
    """There is no editor, or it failed: one line for the user. The text stays as it was."""


async def edit(
    text: str,
    *,
    aside: Callable[[], AbstractAsyncContextManager[None]],
    environ: Mapping[str, str],
    suffix: str = ".md",
) -> str | None:
    """The `text` as edited in the user's editor ($VISUAL, $EDITOR, else vi or nano); None: unchanged.

    The terminal is the editor's inside `aside()`. The text lies in a temporary file (0600, `suffix`). Raises
    `EditorFailed`.

        await edit("draft", aside=screen.aside, environ=os.environ)
    """
    command = _command(environ)
    with tempfile.TemporaryDirectory(prefix="ossia-") as folder:  # for its owner only; an editor's backups go with it
        path = Path(folder, f"message{suffix}")
        path.touch(mode=0o600)
        ended = text if text.endswith("\n") else f"{text}\n"  # editors end the last line
        path.write_text(ended, encoding="utf-8", errors="replace", newline="\n")
        async with aside():
            await _run([*command, str(path)], environ)
        return _read(path, text)


def edit_file(path: Path, *, environ: Mapping[str, str]) -> None:
    """Open a file in the user's editor, and wait for its end. Raises `EditorFailed`."""
    asyncio.run(_run([*_command(environ), str(path)], environ))


async def _run(command: list[str], environ: Mapping[str, str]) -> None:
    program = shutil.which(command[0], path=environ.get("PATH")) or command[0]  # by the PATH given, not by our own
    with _interrupts_are_the_editors():
        try:
            process = await asyncio.create_subprocess_exec(program, *command[1:], stdout=stdout_for_programs())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise EditorFailed(f"{_shown(command[0])} can't be started: {reason}; set $EDITOR") from None
        status = await process.wait()
    if status:
        how = f"exited with status {status}" if status > 0 else f"was killed by signal {-status}"
        raise EditorFailed(f"{_shown(command[0])} {how}: your text is unchanged")


def _command(environ: Mapping[str, str]) -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        value = environ.get(name, "").strip()
        if not value:
            continue
        try:
            return shlex.split(value, posix=os.name != "nt") or [value]
        except ValueError as error:
            raise EditorFailed(f"${name} must be a command, not {_shown(value)} ({error})") from None
    found = next((name for name in _USUAL if shutil.which(name, path=environ.get("PATH"))), None)
    if found is None:
        raise EditorFailed(f"no editor found: set $EDITOR (tried {', '.join(_USUAL)})")
    return [found]


def _read(path: Path, before: str) -> str | None:
    try:
        text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError as error:
        raise EditorFailed(f"the edited text can't be read: {error.strerror}; your text is unchanged") from None
    text = text if before.endswith("\n") else text.removesuffix("\n")
    return None if text == before else text


def _shown(text: str) -> str:
    return clean(one_line(text, 60))


@contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """Ignore Ctrl-C inside the block: it is for the editor."""
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: None)
    except ValueError:  # not the main thread: Python has no signals there
        yield
        return
    try:
        yield
    finally:
        with suppress(TypeError):  # a handler that wasn't Python's
            signal.signal(signal.SIGINT, before)
