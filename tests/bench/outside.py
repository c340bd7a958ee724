"""How long an event takes from the engine to a client: `python -m tests.bench.outside`.

The time from the moment the engine gives an id until a client has its text: for lines of JSON, for `Agent.stream` and
for the Agent Client Protocol, which take turns. The engine is a script that pauses after each id, so that no event
waits for the one before. (`tests.bench.start` has the start-up times.)
"""

from __future__ import annotations

import json
import os
import random
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import IO, Any

from tests.bench.processes import own_home
from tests.bench.report import Report, options
from tests.support.command import ROOT
from tests.support.vocabularies import ETUDE

_TOKENS, _PER_S = 200, 100
_GREETING = {"protocolVersion": 1, "clientCapabilities": {}}
_FACES = ("lines of JSON", "Agent.stream", "Agent Client Protocol")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="K", help=f"of each, with {_TOKENS} ids")
    given = parser.parse_args(argv)
    report = Report("outside", "pydantic")
    report.settings |= {"runs": given.runs, "ids": _TOKENS, "ids_per_s": _PER_S}
    found: dict[str, list[float]] = {face: [] for face in _FACES}
    with tempfile.TemporaryDirectory() as name:
        home, folder = Path(name).resolve() / "home", Path(name).resolve() / "work"
        home.mkdir()
        folder.mkdir()
        script, ahead = _script(folder)
        for _ in range(given.runs):
            for face, ways_ms in found.items():
                ways_ms += _ways_ms(face, script, ahead, folder, {**os.environ, **own_home(home)})
    for face, ways_ms in found.items():
        cells = {"best_ms": min(ways_ms), "median_ms": median(ways_ms), "one_in_20_ms": quantiles(ways_ms, n=20)[-1]}
        report.row("an event's way to the client", to=face, **cells)
    report.print(as_json=given.json)


def _script(folder: Path) -> tuple[Path, int]:
    """A script that answers with letters, an id each; and the number of ids before the first."""
    from ossia.agent.models.model import open_model
    from ossia.harmony.tokenizer import Tokenizer

    tokenizer = Tokenizer(open_model(ETUDE).vocabulary())
    control = tokenizer.vocabulary.control
    head = [control["<|channel|>"], *tokenizer.encode("final"), control["<|message|>"]]
    letters = random.Random(0).choices(string.ascii_lowercase, k=_TOKENS)  # the same one again would be cut as a loop
    answer = [token for letter in letters for token in tokenizer.encode(letter)]
    path = folder / "script.json"
    steps = [[*head, *answer, control["<|return|>"]]]
    path.write_text(json.dumps({"version": 1, "tokens_per_s": _PER_S, "steps": steps}))
    return path, len(head)


def _ways_ms(face: str, script: Path, ahead: int, folder: Path, environ: Mapping[str, str]) -> list[float]:
    """Milliseconds from each id to the delta that has its text."""
    out = folder / "ids"
    out.write_bytes(b"")
    how = {"face": face, "script": str(script), "out": str(out), "folder": str(folder)}
    come: list[tuple[float, str]] = []
    with _piped([sys.executable, "-m", "tests.bench.outside", "--child", json.dumps(how)], environ) as process:
        assert process.stdin is not None and process.stdout is not None
        if face == "Agent Client Protocol":
            session = _open_session(process, folder)
            prompt = [{"type": "text", "text": "Go on."}]
            _send(process, {"id": 3, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}})
        else:
            process.stdin.close()  # else `ossia run` would wait for more of the question
        for line in process.stdout:
            at = time.perf_counter()
            message = json.loads(line)
            come += [(message.get("at", at), delta) for delta in _deltas(message)]
            if message.get("id") == 3:
                break
        _end(process)
    ids = [float(one) for one in out.read_text().split()][ahead:]
    ways, seen = [], 0
    for at, delta in come:
        for _ in delta:
            ways.append(1e3 * (at - ids[seen]))
            seen += 1
    assert seen == _TOKENS, (face, seen)
    return ways


def _deltas(message: Mapping[str, Any]) -> Iterator[str]:
    if message.get("type") == "text":
        yield message["delta"]
    update = message.get("params", {}).get("update", {})
    if update.get("sessionUpdate") == "agent_message_chunk":
        yield update["content"]["text"]


def _piped(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environ, cwd=ROOT)


def _send(process: subprocess.Popen[bytes], *messages: Mapping[str, object]) -> None:
    stdin: IO[bytes] | None = process.stdin
    assert stdin is not None
    stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages))
    stdin.flush()


def _open_session(process: subprocess.Popen[bytes], folder: Path) -> str:
    made = {"cwd": str(folder), "mcpServers": []}
    _send(
        process,
        {"id": 1, "method": "initialize", "params": _GREETING},
        {"id": 2, "method": "session/new", "params": made},
    )
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == 2:
            return str(message["result"]["sessionId"])
    raise RuntimeError("ossia acp has ended without a session")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close its stdin, and read until it has ended."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.stdout.read()
    process.wait()


def _child(how: Mapping[str, str]) -> None:
    """One face, in a process of its own: the moment of each id goes into the file `out`."""
    from ossia.agent.engine.scripted import _Replay

    replay, out = _Replay.__next__, os.open(how["out"], os.O_WRONLY | os.O_APPEND)

    def timed(self: _Replay) -> Any:
        token = replay(self)
        os.write(out, f"{time.perf_counter()}\n".encode())
        return token

    _Replay.__next__ = timed  # type: ignore[method-assign]
    engine = f"script:{how['script']}"
    if how["face"] == "Agent.stream":
        _stream(engine, Path(how["folder"]))
        return
    from ossia.cli.main import main as ossia

    model = ("--model", "etude", "--engine", engine)

    sys.argv = {
        "lines of JSON": ["ossia", "run", "Go on.", "--jsonl", *model],
        "Agent Client Protocol": ["ossia", "acp", *model],
    }[how["face"]]
    ossia()


def _stream(engine: str, folder: Path) -> None:
    from ossia import Agent, Model, Text

    come = []
    with Model("etude", engine=engine) as model, Agent(model, workspace=folder) as agent:
        for event in agent.stream("Go on."):
            if isinstance(event, Text):
                come.append((time.perf_counter(), event.delta))
    for at, delta in come:
        print(json.dumps({"type": "text", "delta": delta, "at": at}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(json.loads(sys.argv[2]))
    else:
        main()
