"""The output of one request to a kernel, taken in as it comes."""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ossia.tools.python._kernel_inside import HEAD_CHARS, OMITTED, TAIL_CHARS
from ossia.tools.sandbox import DATA_PATH
from ossia.tools.sandbox.hostile_folder import save_new
from ossia.tools.spec import Attachment, ToolOutput
from ossia.tools.text import Bounded

if TYPE_CHECKING:
    from ossia.tools.python._kernel import KernelMessage

_PICTURES = {"image/png": ".png", "image/jpeg": ".jpg"}
_MAX_PICTURES = 20
_MAX_STREAMED_CHARS = 200_000

_NO_MODULE = re.compile(r"No module named '([A-Za-z_]\w*)(?:\.[\w.]*)?'")
"""The name comes from the model's code: only a plain name is taken."""


@dataclass(slots=True)
class Cell:
    """The output of one request, as it comes."""

    code: str
    call_id: str
    folder: Path
    for_model: Callable[[str], str]
    request: str = ""
    replied: bool = False
    idle: bool = False
    failed: bool = False
    missing_module: str = ""
    ended: bool = False
    attachments: list[Attachment] = field(default_factory=list)
    _output: Bounded = field(default_factory=lambda: Bounded(HEAD_CHARS, TAIL_CHARS))
    _streamed_chars: int = 0
    _heard_at: float = 0.0
    _fault: str = ""  # as the reply has it

    def finished(self, idle_s: float) -> bool:
        """The code has ended, and its output too (or its end hasn't come, and nothing else for `idle_s`)."""
        return self.replied and (self.idle or time.monotonic() - self._heard_at > idle_s)

    def take(self, message: KernelMessage) -> Generator[ToolOutput, None, None]:
        """Account for a message; yields output for the screen. Messages of other requests are dropped."""
        if message.request != self.request:
            return
        content = message.content
        self._heard_at = time.monotonic()  # on a busy machine much output may come after the reply
        if message.kind == "execute_reply":
            self.replied = True
            if content.get("status") == "error":
                self._fault = f"{content.get('ename')}: {content.get('evalue')}"
        elif message.kind == "status":
            self.idle = self.idle or content.get("execution_state") == "idle"
        elif message.kind == "stream":
            stream: Literal["stdout", "stderr"] = "stderr" if content.get("name") == "stderr" else "stdout"
            yield from self._add(str(content.get("text", "")), stream)
        elif message.kind == "error":
            self.failed = True
            found = _NO_MODULE.fullmatch(str(content.get("evalue")))
            if found and content.get("ename") == "ModuleNotFoundError":
                self.missing_module = found[1]
            traceback = content.get("traceback")
            lines = traceback if isinstance(traceback, list) else [traceback]
            yield from self._add_line("\n".join(map(str, lines)), "stderr")
        elif message.kind in ("execute_result", "display_data"):
            yield from self._take_data(content.get("data"))
        if self._fault and not self.failed and self.replied and self.idle:  # IPython couldn't show it: a SystemExit
            self.failed = True
            yield from self._add_line(self._fault, "stderr")

    def _take_data(self, data: object) -> Generator[ToolOutput, None, None]:
        if not isinstance(data, Mapping):
            return
        omitted = data.get(OMITTED)
        if isinstance(omitted, int):
            self._output.omitted += max(0, min(omitted, 1 << 50))
            return
        pictures = [note for kind, suffix in _PICTURES.items() if (note := self._save(data.get(kind), kind, suffix))]
        text = "\n".join(pictures) or data.get("text/plain")
        if isinstance(text, str):
            yield from self._add_line(text, "stdout")

    def _save(self, picture: object, media_type: str, suffix: str) -> str:
        if not isinstance(picture, str) or not picture or len(self.attachments) >= _MAX_PICTURES:
            return ""
        try:
            path = save_new(self.folder, "out", suffix, base64.b64decode("".join(picture.split()), validate=True))
        except (binascii.Error, ValueError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error  # not the host's path
            return f"[image not saved: {reason}]"
        self.attachments.append(Attachment(path, media_type))
        return f"[image saved: {DATA_PATH}/{path.name}]"

    def _add_line(self, text: str, stream: Literal["stdout", "stderr"]) -> Generator[ToolOutput, None, None]:
        start = "" if self._output.ends_a_line() else "\n"
        return self._add(start + text.rstrip("\n") + "\n", stream)

    def _add(self, text: str, stream: Literal["stdout", "stderr"]) -> Generator[ToolOutput, None, None]:
        self._output.add(text)
        shown = text[: _MAX_STREAMED_CHARS - self._streamed_chars]
        self._streamed_chars += len(shown)
        if shown:
            yield ToolOutput(self.call_id, self.for_model(shown), stream)

    def text(self, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
        """All of it as the model reads it."""
        return self._output.cleaned(max_tokens, count_tokens, first=self.for_model)
