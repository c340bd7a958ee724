"""The étude through a llama-server and in process, greedy: `python -m tests.oracle.remote SERVER [COUNT]`.

SERVER is the program (`bash tests/bench/peers.sh` builds it). COUNT prompts (50) of dialogues with tools that the étude
never saw, each up to a place where the assistant goes on: before a call, after its result, before the answer. They are
asked in turn, through the engine for servers, which keeps its slot and what is cached there, and in process. Both have
the same batch, threads, context and KV cache; flash attention is left to llama.cpp, and nothing is repacked. Where ids
part, `tests.oracle.engine` tells a tie, which a rounding turns, from a fault. The exit code is 1 if there was a fault,
or too many ties.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.engine.remote.address import parse_url
from ossia.agent.engine.remote.client import Client
from ossia.agent.engine.remote.detect import detect, prove
from ossia.agent.engine.remote.engine import RemoteEngine
from ossia.agent.engine.remote.server import LlamaServer as Remote
from ossia.harmony.tokenizer import Tokenizer
from tests.etude.dialogues import SKILLS, unseen_dialogue
from tests.etude.words.values import Values
from tests.oracle.engine import CONTEXT_TOKENS, Judge, LlamaServer, Tally, follow, our_system, report, two_engines
from tests.support.engines import ETUDE, GREEDY
from tests.support.streams import harmony_ids

_ASSISTANT = "<|start|>assistant"
_MOST_TOKENS = 200


def main() -> int:
    """Compare; returns the exit code."""
    program, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 50
    with tempfile.TemporaryDirectory() as folder:
        server = LlamaServer(program, ETUDE, log=Path(folder) / "log", checkpoints=8)
        with server, two_engines(ETUDE) as (engine, judge):
            tokenizer, tally = Tokenizer(engine.vocabulary), Tally()
            remote = _remote(server, tokenizer)
            stats = [0, 0, 0]
            for ids in islice(_prompts(tokenizer), count):
                generation = remote.generate(
                    Task(
                        Prompt(ids), stops=tokenizer.control.generation_stops, max_tokens=_MOST_TOKENS, sampling=GREEDY
                    ),
                    control=Control(),
                )
                theirs = [item for item in generation if isinstance(item, int)]
                told = generation.stats
                stats = [
                    stats[0] + told.reused_tokens,
                    stats[1] + told.evaluated_tokens,
                    stats[2] + (told.end == "stop"),
                ]
                tally.reused_tokens += follow(engine, Judge(judge), Prompt(ids, (len(ids),)), theirs, tally)
                tally.prompts += 1
            print(report("étude", tally))
            print(f"  the server's own figures: {stats[0]} ids reused, {stats[1]} read; {stats[2]} answers ended")
            if server.system != our_system():
                print(f"built otherwise:\n  server {server.system}\n  ossia  {our_system()}")
    return 0 if tally.passed else 1


def _remote(server: LlamaServer, tokenizer: Tokenizer) -> RemoteEngine:
    client = Client(parse_url(server.url))
    found = detect(client, Control())
    assert found.props is not None
    remote = Remote(client, found.props, tokenizer.vocabulary)
    prove(remote, tokenizer, Control())
    return RemoteEngine(remote, tokenizer.vocabulary, name="étude", context_tokens=found.context_tokens)


def _prompts(tokenizer: Tokenizer) -> Iterator[tuple[int, ...]]:
    """The dialogues of each skill that takes tools, in turns, cut before each of the assistant's messages."""
    values = Values(17, "values")
    while True:
        for skill in (one for one in SKILLS if one not in ("structured", "chat")):
            prefix, dialogue = unseen_dialogue(values, skill)
            text = "".join(text for text, _ in dialogue.segments)
            at = text.find(_ASSISTANT)
            while at >= 0:
                ids = tuple(harmony_ids(tokenizer, prefix.text + text[: at + len(_ASSISTANT)]))
                if len(ids) + _MOST_TOKENS < CONTEXT_TOKENS:
                    yield ids
                at = text.find(_ASSISTANT, at + 1)


if __name__ == "__main__":
    sys.exit(main())
