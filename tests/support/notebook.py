"""A notebook: a real kernel, its cells run one after another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from types import TracebackType
from typing import Any

from jupyter_client.manager import KernelManager

_WAIT_S = 120


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's end: its printed text and the repr of its last line; `error`: the name and text of its exception."""

    text: str
    error: str = ""


class Notebook:
    """A kernel of this Python. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._manager = KernelManager()
        module = ("-m", "ipykernel_launcher", "-f", "{connection_file}")
        self._manager.kernel_cmd = [sys.executable, "-W", "error", *module]
        self._manager.connection_file = str(folder / "kernel.json")
        self._folder = folder

    def __enter__(self) -> Notebook:
        self._manager.start_kernel(cwd=str(self._folder), env=dict(os.environ), stderr=subprocess.DEVNULL)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=_WAIT_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    def run(self, code: str, *, on_text: Callable[[str], object] = lambda text: None) -> Cell:
        """Run a cell to its end. `on_text` gets what it has printed so far, each time that it prints."""
        text, error = "", ""
        sent = self._client.execute(code)
        while True:
            message = self._next()
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    text += content["text"]
                    on_text(text)
                case "execute_result":
                    text += content["data"]["text/plain"]
                case "error":
                    error = f"{content['ename']}: {content['evalue']}"
                case "status" if content["execution_state"] == "idle":
                    return Cell(text, error)

    def interrupt(self) -> None:
        """Press the stop button."""
        self._manager.interrupt_kernel()

    def _next(self) -> dict[str, Any]:
        try:
            message: dict[str, Any] = self._client.get_iopub_msg(timeout=_WAIT_S)
        except Empty:
            raise AssertionError("the cell doesn't end") from None
        return message
