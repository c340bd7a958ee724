"""The trained built-in tool `python`: code of the model, run in a stateful, confined kernel on this machine."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ossia.tools.present import CODE
from ossia.tools.python.output import Cell
from ossia.tools.python.session_folder import SessionFolder
from ossia.tools.sandbox import DATA_PATH, PYTHON_LIMITS, Confinement, Interpreter, InterpreterUnusable, Limits, inspect
from ossia.tools.sandbox.hostile_folder import clear_setid_bits
from ossia.tools.saying import python_line
from ossia.tools.spec import Effect, Fault, Preview, Stop, ToolContext, ToolOutput, ToolResult, ToolSpec, interrupted

if TYPE_CHECKING:
    from ossia.tools.python._kernel import Kernel

DESCRIPTION = """\
Use this tool to execute Python code in your chain of thought. The code will not be shown to the user. This tool should be used for internal reasoning, but not for code that is intended to be visible to the user (e.g. when creating plots, tables, or files).

When you send a message containing Python code to python, it will be executed in a stateful Jupyter notebook environment. python will respond with the output of the execution or time out after 120.0 seconds. The drive at '/mnt/data' can be used to save and persist user files. Internet access for this session is UNKNOWN. Depends on the cluster."""  # noqa: E501
"""The text the model was trained on, as openai_harmony 0.0.8 has it."""

NO_OUTPUT = "[WARN] No output available. Use print() to output anything to stdout to receive the output"
_LOST = f"kernel restarted, variables lost, {DATA_PATH} kept"
_DATA_IN_CODE = re.compile(re.escape(DATA_PATH) + r"(?![\w.-])")
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)\n?```", re.DOTALL)

_START_S = 30.0
_STOP_GRACE_S = 0.5
"""As `grace_s` of the tool, when the turn was stopped."""
_IDLE_S = 1.0
"""After the code's end, output without an announced end is complete after such a silence."""
_Outcome = Literal["done", "timeout", "stopped", "died"]


class PythonTool:
    """Runs code in one ipykernel per session, started at the first call.

    `data_dir` gets a private folder for the session's files (`folder`; the model's `/mnt/data`). When the tool is
    closed, an empty one is removed; others stay until they are old (`session_folder`). `timeout_s` is for the code of a
    call, without the kernel's start; `grace_s`: to obey an interrupt before the kernel is killed. `interpreter` None:
    our own Python. `note`: a line for the model after the trained text, e.g. about packages.

        tool = PythonTool(data_dir=Path("session"), confinement=sandbox.choose(sandbox.inspect()))
        for output in tool.run("print(2+2)", call_id="call_1", context=context): …    # ToolOutput("call_1", "4\\n")
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        confinement: Confinement,
        timeout_s: float = 120.0,
        interpreter: Interpreter | None = None,
        limits: Limits | None = None,
        grace_s: float = 5.0,
        max_tokens: int = 4096,
        note: str = "",
    ) -> None:
        section = f"{DESCRIPTION}\n\n{note}" if note else None
        # Confined, it can neither write the user's files nor send anything.
        effects: frozenset[Effect] = frozenset({"run"} if confinement.name == "unconfined" else ())
        self.spec = ToolSpec(
            "python",
            DESCRIPTION,
            None,
            "text",
            effects,
            trained=True,
            section=section,
            provenance="built-in",
            result_taints=frozenset({"private"}),
            present=CODE,
        )
        self.confinement = confinement
        self._data_dir, self._interpreter = data_dir, interpreter
        self._timeout_s, self._max_tokens = timeout_s, max_tokens
        self._limits, self._grace_s = limits or PYTHON_LIMITS, grace_s
        self._folder: SessionFolder | None = None
        self._kernel: Kernel | None = None
        self._ready = False
        self._lost = ""
        self._closed = False
        self._lock = threading.RLock()

    @property
    def folder(self) -> Path:
        """The host's folder behind `/mnt/data`, made at the first look. Its content is the model's: follow no link."""
        if self._folder is None:
            self._folder = SessionFolder(self._data_dir)
        return self._folder.path

    @property
    def kept_folder(self) -> Path | None:
        """The host's folder behind `/mnt/data` if the code left anything in it; None otherwise."""
        with suppress(OSError):
            if self._folder is not None and any(self._folder.path.iterdir()):
                return self._folder.path
        return None

    def start(self) -> None:
        """Start the kernel without waiting, for a quicker first call. A failure shows at that call."""
        if self.confinement.name != "off":
            with suppress(InterpreterUnusable, OSError):
                self._launch()

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        code = code_of(str(args))
        name = self.confinement.name
        how = name if name in ("unconfined", "off") else f"confined by {name}"
        return Preview(python_line(code), code, "python", conditions=how, unconfined=name == "unconfined")

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """Run code: raw, or in a wrapping of models' (`code_of`). The state stays for the next call."""
        if self.confinement.name == "off":
            return ToolResult(f"Error: python is off on this machine: {self.confinement.reason}", error=True)
        stop = context.stop
        with self._lock:
            try:
                kernel = self._ready_kernel(stop)
            except (_CannotStart, InterpreterUnusable) as error:
                return ToolResult(f"[ERROR] {error}", error=True)
            except OSError as error:  # the folder can't be made: a full disk
                problem = f"python can't start: {error.filename or self._data_dir}: {error.strerror}"
                return ToolResult(f"[ERROR] {problem}", error=True)
            if kernel is None:
                return ToolResult("[ERROR] Interrupted by the user before the code ran", error=True)
            forget, folder = stop.on_stop(kernel.wake), self.folder
            cell = Cell(self._for_kernel(code_of(str(args))), call_id, folder, self._for_model)
            try:
                return (yield from self._run_cell(kernel, cell, context))
            finally:
                forget()
                if not cell.ended:  # the generator was closed at a yield
                    self._end_cell(kernel, cell, "stopped", context.stop)
                kernel.disconnect()
                kernel.process.busy.clear()
                clear_setid_bits(folder)

    def begin_anew(self, *, announced: bool) -> None:
        """Forget variables and folder, for another conversation; `announced`: by the next result. Not during a call."""
        with self._lock:
            self._drop_all()
            self._lost = f"[WARN] this is a new kernel: variables lost, {DATA_PATH} is empty" if announced else ""

    def close(self) -> None:
        """End the kernel. A call that is running ends with "kernel died"."""
        self._closed = True
        if (kernel := self._kernel) is not None:
            kernel.process.kill("the program is ending")
        with self._lock:
            self._drop_all()

    def _drop_all(self) -> None:
        self._drop_kernel()
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    # -- one call ------------------------------------------------------------------------------------------------------

    def _run_cell(
        self, kernel: Kernel, cell: Cell, context: ToolContext
    ) -> Generator[ToolOutput, None, ToolResult]:
        deadline = time.monotonic() + self._timeout_s
        kernel.process.begin_call()
        cell.request = kernel.execute(cell.code)
        outcome = yield from self._until_finished(kernel, cell, deadline, context.stop)
        remark = self._end_cell(kernel, cell, outcome, context.stop)
        text = cell.text(self._max_tokens, context.count_tokens)
        if self._lost:
            text, self._lost = f"{self._lost}\n{text}", ""
        if remark:
            text = f"{text}\n{remark}" if text else remark
        text = text if text.strip() else NO_OUTPUT
        attached, error = tuple(cell.attachments), bool(remark) or cell.failed
        fault = Fault("module", cell.missing_module) if cell.missing_module else None
        return ToolResult(text, error=error, attachments=attached, fault=fault)

    def _until_finished(
        self, kernel: Kernel, cell: Cell, deadline: float, stop: Stop
    ) -> Generator[ToolOutput, None, _Outcome]:
        while not cell.finished(_IDLE_S):
            if stop.stopped:
                return "stopped"
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            ended = kernel.process.ended  # first: what it sent before may still be on its way
            messages = kernel.receive(min(left, 0.05 if ended else _IDLE_S))
            for message in messages:
                yield from cell.take(message)
            if ended and not messages:
                return "died"
        return "done"

    def _end_cell(self, kernel: Kernel, cell: Cell, outcome: _Outcome, stop: Stop) -> str:
        """Leave the kernel ready or dead; returns a remark for the model, or ""."""
        cell.ended = True
        kept = False
        if outcome == "done":
            kept = cell.idle
        elif outcome != "died":
            kept = self._interrupt(kernel, cell, self._grace_s if outcome == "timeout" else _STOP_GRACE_S)
        if not kept:
            kernel.process.kill()
            reason = kernel.process.reason
            self._drop_kernel()
        if outcome == "timeout":
            what = f"Execution timed out after {self._timeout_s} seconds"
            return f"[ERROR] {what}; {'interrupted, state kept' if kept else _LOST}"
        if outcome == "stopped":
            return f"[ERROR] {interrupted(stop).capitalize()}; {'state kept' if kept else _LOST}"
        if outcome == "died":
            return f"[ERROR] kernel died ({reason}); {_LOST}"
        return "" if kept else f"[ERROR] the code broke the kernel's output; {_LOST}"

    def _interrupt(self, kernel: Kernel, cell: Cell, grace_s: float) -> bool:
        """Interrupt the code; True if the kernel runs code again within `grace_s`."""
        end = time.monotonic() + grace_s
        kernel.interrupt()
        if not self._collect(kernel, cell, end):
            return False
        health = Cell("", cell.call_id, self.folder, self._for_model)
        health.request = kernel.execute("None", silent=True)
        return self._collect(kernel, health, end)

    def _collect(self, kernel: Kernel, cell: Cell, end: float) -> bool:
        while not (cell.replied and cell.idle):
            left = end - time.monotonic()
            if left <= 0 or kernel.process.ended:
                return False
            for message in kernel.receive(left):
                for _ in cell.take(message):
                    pass  # too late for the screen
        return True

    # -- the kernel ----------------------------------------------------------------------------------------------------

    def _ready_kernel(self, stop: Stop) -> Kernel | None:
        """A kernel ready for code; None if the turn was stopped first."""
        from ossia.tools.python._kernel import KernelFailed

        if self._kernel is not None and self._ready and not stop.stopped:
            kernel = self._kernel
            try:
                if not kernel.process.ended:
                    kernel.process.busy.set()  # from now on it can send
                    return self._connected(kernel, kernel.reconnect, self._timeout_s, stop)
            except KernelFailed as error:
                kernel.process.kill(str(error))
            why = kernel.process.reason
            self._lost = f"[WARN] the kernel died since the last call ({why}); variables lost, {DATA_PATH} kept"
            self._drop_kernel()
        if stop.stopped:
            return None
        kernel = self._launch()
        try:
            ready = self._connected(kernel, kernel.wait_ready, _START_S, stop)
        except KernelFailed as error:
            self._drop_kernel()
            raise _CannotStart(str(error)) from error
        self._ready = ready is not None
        return ready

    def _connected(
        self, kernel: Kernel, connect: Callable[[float, Callable[[], bool]], bool], within_s: float, stop: Stop
    ) -> Kernel | None:
        forget = stop.on_stop(kernel.wake)
        try:
            return kernel if connect(time.monotonic() + within_s, lambda: stop.stopped or self._closed) else None
        finally:
            forget()

    def _launch(self) -> Kernel:
        from ossia.tools.python._kernel import Kernel

        with self._lock:
            if self._closed:
                raise _CannotStart("python is closed")
            if self._kernel is None:
                self._interpreter = self._interpreter or inspect()
                if moved := self._interpreter.moved:
                    raise InterpreterUnusable(f"python can't start: {moved} leads elsewhere since this session began")
                self._ready = False
                self._kernel = Kernel(self.confinement, self._interpreter, data=self.folder, limits=self._limits)
            return self._kernel

    def _drop_kernel(self) -> None:
        kernel, self._kernel, self._ready = self._kernel, None, False
        if kernel is not None:
            kernel.close()

    # -- where the data folder isn't at /mnt/data ----------------------------------------------------------------------

    def _for_kernel(self, code: str) -> str:
        if self.confinement.data_path == DATA_PATH:
            return code
        return _DATA_IN_CODE.sub(lambda _: str(self.folder), code)

    def _for_model(self, text: str) -> str:
        """Output as the model knows it: the real folder's name replaced by `/mnt/data`."""
        return text if self.confinement.data_path == DATA_PATH else text.replace(str(self.folder), DATA_PATH)


class _CannotStart(Exception):
    """No kernel can be had; the message goes to the model."""


def code_of(arguments: str) -> str:
    r"""The code in what a model sent to `python`: raw code, `{"code": …}` (`script`, `input`), or a fenced block.

    `code_of('{"code": "print(1)"}')`, ``code_of("```python\nprint(1)\n```")`` and `code_of("print(1)")` are equal.
    Half a surrogate pair, which JSON can spell and no kernel can be sent, is `?`.
    """
    arguments = arguments.encode("utf-8", "replace").decode("utf-8")
    text = arguments.strip()
    if text.startswith(("{", '"')):
        with suppress(ValueError, RecursionError):
            value: Any = json.loads(text)
            if isinstance(value, str):  # a string of Python's, unless there are arguments in it
                inner = code_of(value)
                return arguments if inner == value else inner
            wrapped = [value[key] for key in ("code", "script", "input") if isinstance(value.get(key), str)]
            if wrapped:
                return code_of(wrapped[0])
    fenced = _FENCE.fullmatch(text)
    return fenced.group(1) if fenced else arguments
