"""The way of `ossia run` to its first token, timed part by part: the process that `tests.bench.start` starts for it.

Nothing is imported at the top that a part could otherwise be the first to import.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CONTEXT_TOKENS = 8192


def main() -> None:
    """Write the seconds of each part where the command line says: `--child '{"model": "etude", "out": "FILE"}'`."""
    how = json.loads(sys.argv[2])
    Path(how["out"]).write_text(json.dumps(dict(_phases(how["model"]))))


def _phases(name: str) -> Iterator[tuple[str, float]]:
    begin = time.perf_counter()

    def lap(phase: str) -> tuple[str, float]:
        nonlocal begin
        now = time.perf_counter()
        begin, before = now, begin
        return phase, now - before

    from ossia.cli.app import command

    yield lap("the commands (typer)")
    from ossia.cli.oneshot import once

    yield lap("the turn's modules")
    import numpy

    yield lap("numpy")
    from ossia.agent.engine import llama

    yield lap("llama.cpp's library")
    from ossia.agent.models.find import locations
    from ossia.agent.models.memory import read_memory
    from ossia.agent.models.resolve import resolve
    from ossia.cli import paths

    model = resolve(name, locations=locations(paths.host()), memory=read_memory())
    yield lap("the header")
    vocabulary = model.vocabulary()
    yield lap("the vocabulary")
    from ossia.harmony.tokenizer import Tokenizer

    tokenizer = Tokenizer(vocabulary)
    yield lap("the tokenizer")
    settings = llama.LlamaSettings(_CONTEXT_TOKENS)
    (engine,) = llama.LlamaEngine.load(model.path, vocabulary=vocabulary, name=model.name, settings=settings)
    yield lap(f"weights and a context of {_CONTEXT_TOKENS:,}")
    assert command and once and numpy  # imported for the time that takes
    _first_token(engine, tokenizer)
    yield lap("prompt and first token")
    engine.close()


def _first_token(engine: Any, tokenizer: Any) -> None:
    from ossia.agent.control import Control
    from ossia.agent.request import Request
    from ossia.agent.respond import LocalResponder
    from ossia.harmony.codec import Codec
    from ossia.harmony.messages import Message

    request = Request((Message("user", ("What is 48*17?",)),), max_tokens=1)
    responder = LocalResponder(Codec(tokenizer, recipient_position="channel", replay=True), engine)
    for _ in responder.respond(request, control=Control()):
        pass


if __name__ == "__main__":
    main()
