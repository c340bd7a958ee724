"""What the chat's screen costs: `python -m tests.bench.chat [--tokens 20000] [--rate 100] [--script]`.

One answer is streamed in a pseudo-terminal of 80 by 24. The worker decodes on the étude, call after call, until the
next token of the answer is due: a core is as busy as with a real model, and the screen shares the interpreter with it
(`--script`: it only waits). The answer is Markdown with gpt-oss's own vocabulary, about four characters a token.

Told for each eighth of the answer: CPU time of the screen's thread, and of the worker's own Python, per token; bytes
written per token; then how late Ctrl-T showed the thinking (`--tokens 1000` is enough for that). What the chat costs
in tokens a second: `tests.bench.chat_decode`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, StepStats, Task
from ossia.agent.engine.scripted import ScriptedEngine
from tests.bench.report import Report, options
from tests.support.command import write_script
from tests.support.documents import answer, counted, document, thought
from tests.support.pty import PtyChat

_PARTS = 8
_THOUGHT = "so it goes"
_SAMPLE_S = 0.25


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print; `--profile FILE` keeps a profile of the screen's thread (cProfile: it makes all dearer)."""
    parser = options(__doc__)
    parser.add_argument("--tokens", type=int, default=20_000, metavar="N")
    parser.add_argument("--rate", type=float, default=100.0, metavar="R", help="tokens a second (100)")
    parser.add_argument("--script", action="store_true", help="wait for the next token instead of decoding")
    parser.add_argument("--profile", default="", metavar="FILE")
    parser.add_argument("--child", default="", help="for the bench itself")
    given = parser.parse_args(argv)
    if given.child:
        _child(json.loads(given.child))
        return
    report = Report("chat", "prompt-toolkit", "rich")
    report.settings |= {"tokens": given.tokens, "tokens_per_s": given.rate, "decoding": not given.script}
    with tempfile.TemporaryDirectory() as folder:
        samples, toggles = _measure(Path(folder), given)
    _tell(report, samples)
    for number, late in enumerate(toggles, 1):
        report.row("Ctrl-T, until the thinking is on screen", press=number, late_ms=1e3 * late)
    report.print(as_json=given.json)


@dataclass(frozen=True, slots=True)
class _Sample:
    """The state at one moment: CPU seconds of the two threads, tokens seen, bytes written."""

    screen_s: float
    worker_s: float
    tokens: int
    sent_bytes: int


def _measure(folder: Path, given: Any) -> tuple[list[_Sample], list[float]]:
    from tests.support.toy_gguf import write_toy_gguf

    model = folder / "vocabulary.gguf"
    write_toy_gguf(model, vocabulary="real")
    text = thought(counted(f"{_THOUGHT} ", 130)) + answer(document(given.tokens))
    how = {
        "engine": write_script(folder, text),
        "model": str(model),
        "rate": given.rate,
        "decode": not given.script,
        "profile": given.profile,
        "out": str(folder / "samples.json"),
    }
    command = [sys.executable, "-m", "tests.bench.chat", "--child", json.dumps(how)]
    environ = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    toggles = []
    with PtyChat(command=command, environ=environ) as chat:
        chat.idle()
        chat.press("go\r")
        chat.until(lambda: re.search(r"thinking · .* \d{2,} tokens", "\n".join(chat.display)))
        for _ in range(3):
            chat.press("\x14")
            toggles.append(chat.until(_THOUGHT))
            chat.press("\x14")
            chat.until(lambda: _THOUGHT not in "\n".join(chat.display))
        chat.sent = b""
        chat.over()
        chat.press("\x04")
        chat.wait()
    return [_Sample(*sample) for sample in json.loads(Path(how["out"]).read_text())], toggles


def _tell(report: Report, samples: list[_Sample]) -> None:
    """A row for each part of the answer, by tokens; then how the second half compares with the first."""
    last = samples[-1].tokens
    edges = [next(s for s in samples if s.tokens >= last * part // _PARTS) for part in range(_PARTS + 1)]
    screen_us = []
    for a, b in itertools.pairwise(edges):
        tokens = max(1, b.tokens - a.tokens)
        screen_us.append(1e6 * (b.screen_s - a.screen_s) / tokens)
        report.row(
            "CPU time and bytes of a token, by parts of the answer",
            from_token=a.tokens,
            to_token=b.tokens,
            screen_us=screen_us[-1],
            worker_us=1e6 * (b.worker_s - a.worker_s) / tokens,
            written_bytes=(b.sent_bytes - a.sent_bytes) / tokens,
        )
    half = _PARTS // 2
    report.row(
        "the screen's CPU time of a token",
        whole_us=1e6 * (edges[-1].screen_s - edges[0].screen_s) / (edges[-1].tokens - edges[0].tokens),
        first_half_us=median(screen_us[:half]),
        second_half_us=median(screen_us[half:]),
    )


# -- the process that is measured --------------------------------------------------------------------------------------


class _Paced:
    """An engine that says what a script says, each token when it is due, and decodes with a real model till then."""

    def __init__(self, script: ScriptedEngine, decoder: Any, rate: float) -> None:
        self._script, self._decoder, self._rate = script, decoder, rate
        self.python_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._script, name)

    def generate(self, task: Task, *, control: Control) -> _PacedGeneration:
        inner = self._script.generate(task, control=control)
        return _PacedGeneration(inner, self._decoder, self._rate)


class _PacedGeneration:
    """See `agent.engine.base.Generation`."""

    def __init__(self, inner: Any, decoder: Any, rate: float) -> None:
        self._inner, self._decoder, self._rate = inner, decoder, rate
        self._busy: Iterator[Any] = iter(())
        self._began, self._number = time.monotonic(), 0

    def __iter__(self) -> _PacedGeneration:
        return self

    def __next__(self) -> Any:
        self._number += 1
        due = self._began + self._number / self._rate
        while (left := due - time.monotonic()) > 0:
            if self._decoder is None:
                time.sleep(left)
            elif next(self._busy, None) is None:
                self._busy = self._decode()
        return next(self._inner)

    def _decode(self) -> Iterator[Any]:
        return iter(
            self._decoder.generate(Task(Prompt(tuple(range(64))), max_tokens=900), control=Control())
        )  # fmt: skip

    @property
    def stats(self) -> StepStats:
        stats = self._inner.stats
        assert isinstance(stats, StepStats)
        return stats

    def close(self) -> None:
        self._inner.close()


def _child(how: Mapping[str, Any]) -> None:
    import cProfile

    from ossia.agent.respond import LocalResponder
    from ossia.cli.chat.app import finish, run
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.screen_face import ScreenFace
    from ossia.cli.runtime.session import Resume, open_session
    from ossia.cli.settings.workspace import resolve_with_folder

    flags = {"engine": how["engine"], "model": how["model"], "no_tools": True}
    resolved, folder = resolve_with_folder(flags)
    talk = Chat(resolved, folder, open_session(resolved, folder, resume=Resume()), face=ScreenFace)
    face = talk.face
    assert isinstance(face, ScreenFace)
    samples: list[tuple[float, float, int, int]] = []
    sent = _count_bytes(face.screen.output)
    profile = cProfile.Profile() if how["profile"] else None

    def ready() -> None:
        if talk.loaded is None:
            asyncio.get_running_loop().call_later(0.01, ready)
            return
        decoder = None
        if how["decode"]:
            from tests.support.engines import ETUDE, load_engine

            decoder = load_engine(ETUDE)
        script = talk.loaded.model.engine
        assert isinstance(script, ScriptedEngine)
        paced: Any = _Paced(script, decoder, how["rate"])
        responder = LocalResponder(talk.loaded.model.codec, paced, tap=None)
        talk.loaded.model.responder = responder
        sample()

    def sample() -> None:
        worker_s = time.clock_gettime(time.pthread_getcpuclockid(talk.conversation.worker._thread.ident or 0))
        samples.append((time.thread_time(), worker_s, face.view.tokens, sent[0]))
        asyncio.get_running_loop().call_later(_SAMPLE_S, sample)

    async def talking() -> None:
        asyncio.get_running_loop().call_soon(ready)
        await run(talk)

    if profile:
        profile.enable()
    asyncio.run(talking())
    if profile:
        profile.disable()
        profile.dump_stats(how["profile"])
    finish(talk)
    Path(how["out"]).write_text(json.dumps([one for one in samples if one[2]]))


def _count_bytes(output: Any) -> list[int]:
    count = [0]
    stdout = output.stdout

    class Counted:
        encoding = "utf-8"

        @property
        def buffer(self) -> Counted:
            return self

        def write(self, data: bytes) -> int:
            count[0] += len(data)
            return int(stdout.buffer.write(data))

        def __getattr__(self, name: str) -> Any:
            return getattr(stdout, name)

    output.stdout = Counted()
    return count


if __name__ == "__main__":
    main()
