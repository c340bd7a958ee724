"""Documents to text, in a long-lived worker process: started when first needed, killed and replaced after a fault."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ossia.tools.browser.document import Document
from ossia.tools.convert._documents import REASONS, kind_of
from ossia.tools.decoding import GUESSES
from ossia.tools.ending import WasCut, Watch
from ossia.tools.spec import Stop, ToolFailed, interrupted

_START_S = 30.0
_NO_START = "the worker that converts documents doesn't start"
_TOO_SLOW = "page too complex: it takes too long to read"
_ENDED = "page too complex: the worker ended over it"
_ENCODINGS = ("encodings.cp1252", "encodings.latin_1", "encodings.idna")
_MODULES = ("lxml.html", "pypdfium2", "ossia.tools.convert._html", *_ENCODINGS)
_PACKAGES = ("lxml", "webencodings", "pypdfium2", "pypdfium2_raw")


class ConversionFailed(ToolFailed):
    """No text could be extracted: `Error: page too complex…`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Error: {reason}", taints=frozenset())
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ConvertLimits:
    """Bounds of one document.

    `timeout_s` is wall time, after which the worker is killed; `memory_bytes` is its address space, which only Linux
    enforces. `max_bytes` bounds HTML and text, `max_pdf_bytes` PDFs. A text is cut, and says so, where it has more than
    `max_result_bytes` together with its links, or more than `max_pages` pages of a PDF.
    """

    timeout_s: float = 10.0
    memory_bytes: int = 1 << 30
    max_bytes: int = 3_000_000
    max_pdf_bytes: int = 20_000_000
    max_result_bytes: int = 8_000_000
    max_pages: int = 1000


class Converter:
    """Makes a `Document` of HTML, PDF or text. Thread-safe: one document at a time, others wait.

    The worker is a Python process with an empty environment. On Linux it can't open files other than Python's own,
    start programs or use the network (as far as this kernel has Landlock and seccomp: see `confinement`); elsewhere it
    only is a process of its own with a time limit.
    """

    def __init__(self, limits: ConvertLimits | None = None) -> None:
        self._limits = limits or ConvertLimits()
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._closed = False

    @property
    def confinement(self) -> tuple[str, ...]:
        """The confinement of the running worker: of `"memory"`, `"landlock"`, `"seccomp"`. Empty without a worker."""
        return self._worker.confined if self._worker else ()

    def prepare(self) -> None:
        """Start the worker without waiting for it, e.g. while a page is on its way."""
        if self._lock.acquire(blocking=False):  # else there is one, busy
            try:
                if not self._closed and self._worker is None:
                    self._worker = _Worker(self._limits)
            finally:
                self._lock.release()

    def convert(
        self,
        body: bytes,
        media_type: str,
        *,
        url: str,
        charset: str | None,
        stop: Stop,
        source: bool = False,
        refresh: str = "",
    ) -> Document:
        """The text of `body`, found at `url`.

        `media_type` as in `"text/html"`; a PDF is known by its content too. `charset` is the server's word, `refresh`
        its header of that name. `source`: HTML stays as it is written. Raises `ConversionFailed`, within the time
        limit: damaged or encrypted, too large, or "page too complex".

        >>> converter.convert(b"<title>Hi</title><p>there", "text/html", url="https://a.test/", charset=None, stop=stop)
        Document(title='Hi', url='https://a.test/', text='there', links={})
        """
        kind = kind_of(media_type, body)
        limit = self._limits.max_pdf_bytes if kind == "pdf" else self._limits.max_bytes
        if len(body) > limit:
            raise ConversionFailed(f"it has {len(body) / 1e6:.1f} MB, more than {limit / 1e6:g} MB")
        while not self._lock.acquire(timeout=0.1):
            if stop.stopped:
                raise ConversionFailed(interrupted(stop))
        try:
            meta = {"kind": kind, "url": url, "charset": charset, "source": source, "refresh": refresh}
            answer = self._ask(body, meta, stop)
        finally:
            self._lock.release()
        return _document(answer, url)

    def close(self) -> None:
        """End the worker. A running conversion fails; later ones raise. May be called more than once."""
        self._closed = True
        if (worker := self._worker) is not None:
            worker.end()

    def _ask(self, body: bytes, meta: Mapping[str, object], stop: Stop) -> dict[str, object]:
        if self._closed:
            raise ConversionFailed("the converter is closed")
        if self._worker is not None and not self._worker.alive:  # it ended while idle: the system was out of memory
            self._worker.end()
            self._worker = None
        worker = self._worker = self._worker or _Worker(self._limits)
        try:
            return worker.ask(body, meta, stop)
        except ConversionFailed:
            worker.end()
            self._worker = None
            raise


class _Worker:
    """One process."""

    def __init__(self, limits: ConvertLimits) -> None:
        self._limits = limits
        self.confined: tuple[str, ...] = ()
        self._ready = False
        self._popen = subprocess.Popen(
            worker_command(limits),
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is for us to answer
            cwd=Path(sys.executable).anchor,
        )

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def ask(self, body: bytes, meta: Mapping[str, object], stop: Stop) -> dict[str, object]:
        """The worker's answer. Raises `ConversionFailed` if none comes: a stop, too late, the worker died."""
        if not self._ready:
            hello = self._within(_START_S, self._read, stop, _NO_START, _NO_START)
            confined = hello.get("confined")
            self.confined = tuple(map(str, confined)) if isinstance(confined, list) else ()
            self._ready = True

        def exchange() -> dict[str, object]:
            assert self._popen.stdin is not None
            for part in (json.dumps(meta).encode(), body):
                self._popen.stdin.write(struct.pack(">Q", len(part)))
                self._popen.stdin.write(part)
            self._popen.stdin.flush()
            return self._read()

        return self._within(self._limits.timeout_s, exchange, stop, _TOO_SLOW, _ENDED)

    def end(self) -> None:
        """Kill it and wait. Thread-safe."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            with suppress(OSError):  # what was not flushed into a broken pipe
                assert pipe is not None
                pipe.close()

    def _within(
        self, seconds: float, talk: Callable[[], dict[str, object]], stop: Stop, too_late: str, died: str
    ) -> dict[str, object]:
        """The result of `talk`. Killing the worker ends its blocking reads and writes."""
        with closing(Watch(stop, seconds)) as watch:
            watch.on_cut(self._popen.kill)
            try:
                answer = talk()
                watch.check()  # it may have been killed just after it had answered
            except (OSError, EOFError, ValueError, RecursionError, WasCut):
                reasons = {"stopped": interrupted(stop), "too slow": too_late, None: died}
                raise ConversionFailed(reasons[watch.reason]) from None
        return answer

    def _read(self) -> dict[str, object]:
        """An answer's JSON, and its other part as `text`. Raises `EOFError` or `ValueError` for anything else."""
        answer = json.loads(self._part(self._limits.max_result_bytes))
        text = self._part(self._limits.max_result_bytes).decode("utf-8")
        if not isinstance(answer, dict):
            raise EOFError
        return {**answer, "text": text}

    def _part(self, max_bytes: int) -> bytes:
        (length,) = struct.unpack(">Q", self._exactly(8))
        if length > max_bytes:
            raise EOFError
        return self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        assert self._popen.stdout is not None
        data = self._popen.stdout.read(length)
        if len(data) < length:
            raise EOFError
        return data


def _document(answer: dict[str, object], url: str) -> Document:
    """The worker reads untrusted documents, so its answer is validated."""
    if "failed" in answer:
        reason = answer["failed"]
        raise ConversionFailed(reason if isinstance(reason, str) and reason in REASONS else _ENDED)
    title, text, links, guessed = (answer.get(name) for name in ("title", "text", "links", "guessed"))
    known = guessed in ("", *GUESSES)
    if not isinstance(title, str) or not isinstance(text, str) or not isinstance(links, dict) or not known:
        raise ConversionFailed("the worker's answer isn't one")
    kept = {int(number): str(to) for number, to in links.items() if number.isdecimal()}
    return Document(title, url, text, kept, guessed=str(guessed))


def worker_command(limits: ConvertLimits) -> list[str]:
    """The command of a worker: our interpreter, isolated, with only the packages it needs; settings as JSON."""
    ours = Path(__file__).resolve().parent.parent
    stdlib = [path for path in sys.path if _is_stdlib(path)]
    packages = {name: spec.submodule_search_locations for name in _PACKAGES if (spec := importlib.util.find_spec(name))}
    places = [folder for folders in packages.values() for folder in folders or ()]
    sites = dict.fromkeys(str(Path(folder).parent) for folder in places)
    settings = {
        **asdict(limits),
        "paths": [*stdlib, *sites],
        "tools": str(ours),
        "readable": [*(path for path in stdlib if Path(path).is_dir()), str(ours), *places],
        "modules": [*_MODULES],
        "filter": _filter(),
    }
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("_worker.py")), json.dumps(settings)]


def _is_stdlib(path: str) -> bool:
    """The standard library's folder, its zip file, its compiled modules: all of them below the interpreter's own."""
    named = path.endswith((".zip", "lib-dynload", "DLLs"))
    return Path(os.__file__).parent == Path(path) or (named and Path(path).is_relative_to(sys.base_prefix))


def _filter() -> str:
    """The seccomp filter; empty without one for this machine."""
    if sys.platform != "linux":
        return ""
    from ossia.tools.sandbox import _seccomp

    try:
        return _seccomp.build("landlock").hex()
    except ValueError:
        return ""
