"""A real llama-server that serves the étude, asked through ids: the ids of this process, caches, stops, its death."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Prompt, Sampling, Task
from ossia.agent.engine.remote.address import Address, parse_url
from ossia.agent.engine.remote.client import Client, Json
from ossia.agent.engine.remote.detect import detect, prove
from ossia.agent.engine.remote.engine import RemoteEngine
from ossia.agent.engine.remote.server import LlamaServer as Remote
from ossia.agent.errors import ContextFull, EngineFailed
from ossia.harmony.tokenizer import Tokenizer, Vocabulary
from tests.oracle.engine import LlamaServer, ServerError
from tests.support.engines import ETUDE, GREEDY, load_engine

_SERVER = os.environ.get("OSSIA_LLAMA_SERVER")

pytestmark = pytest.mark.skipif(_SERVER is None, reason="OSSIA_LLAMA_SERVER names no llama-server")

CONTEXT = 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    log = tmp_path_factory.mktemp("server") / "log"
    with LlamaServer(Path(str(_SERVER)), ETUDE, log=log, context_tokens=CONTEXT, checkpoints=8) as server:
        yield server


@pytest.fixture
def tokenizer(etude_tokenizer: Tokenizer) -> Tokenizer:
    return etude_tokenizer


@pytest.fixture
def remote(server: LlamaServer, tokenizer: Tokenizer) -> RemoteEngine:
    return remote_of(server, tokenizer.vocabulary)


class Asking(Client):
    """Asks for something more with each completion, and counts what comes of it."""

    def __init__(self, address: Address, more: Json) -> None:
        super().__init__(address, back_off_s=0.01)
        self.more = more
        self.events = 0

    def stream(self, path: str, body: Json, control: Control, *, retry: bool = True) -> Generator[Json, None, None]:
        with closing(super().stream(path, {**body, **self.more}, control, retry=retry)) as events:
            for event in events:
                self.events += 1
                yield event


def remote_of(server: LlamaServer, vocabulary: Vocabulary, **more: object) -> RemoteEngine:
    client = Asking(parse_url(server.url), more)
    found = detect(client, Control())
    assert found.kind == "llama-server" and found.props is not None
    return RemoteEngine(Remote(client, found.props, vocabulary), vocabulary, name="étude", context_tokens=CONTEXT)


def question(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    control = tokenizer.control
    said = (control.start, *tokenizer.encode("user"), control.message, *tokenizer.encode(text), control.end)
    return (*said, control.start, *tokenizer.encode("assistant"))


def drawn(
    engine: RemoteEngine,
    ids: tuple[int, ...],
    *,
    most: int | None = 40,
    stops: frozenset[int] | None = None,
    sampling: Sampling = GREEDY,
    control: Control | None = None,
) -> tuple[list[int], str, list[Progress]]:
    vocabulary = engine.vocabulary.control
    generation = engine.generate(
        Task(
            Prompt(ids),
            stops=frozenset({vocabulary["<|call|>"], vocabulary["<|return|>"]}) if stops is None else stops,
            max_tokens=most,
            sampling=sampling,
        ),
        control=control or Control(),
    )
    items = list(generation)
    return (
        [one for one in items if not isinstance(one, Progress)],
        generation.stats.end,
        [one for one in items if isinstance(one, Progress)],
    )


def test_it_is_found_out_and_its_vocabulary_is_ours(remote: RemoteEngine, tokenizer: Tokenizer) -> None:
    found = detect(remote.server.client, Control())
    assert (found.kind, found.context_tokens, found.vocabulary_size) == ("llama-server", CONTEXT, 2726)
    prove(remote.server, tokenizer, Control())


def test_another_vocabulary_is_refused(remote: RemoteEngine, tokenizer: Tokenizer) -> None:
    ours = tokenizer.vocabulary
    tokens = list(ours.tokens)
    tokens[2300], tokens[2301] = tokens[2301], tokens[2300]
    with pytest.raises(EngineFailed, match=r"its vocabulary isn't ours: .* is .* there, not .*: serve a gpt-oss"):
        prove(remote.server, Tokenizer(Vocabulary(tokens, ours.control, "other", ours.size)), Control())
    control = {**ours.control, "<|call|>": ours.control["<|end|>"], "<|end|>": ours.control["<|call|>"]}
    with pytest.raises(EngineFailed, match=r"its vocabulary isn't ours: '<\|end\|>' is"):
        prove(remote.server, Tokenizer(Vocabulary(ours.tokens, control, "other", ours.size)), Control())


@pytest.mark.parametrize("text", ["How many legs do eleven spiders have?", "Say owl in Greek: 🦉", "a <|call|> b"])
def test_its_ids_are_those_of_this_process(remote: RemoteEngine, tokenizer: Tokenizer, text: str) -> None:
    ids = question(tokenizer, text)
    local = load_engine(ETUDE, context_tokens=CONTEXT, batch_tokens=64)
    try:
        generation = local.generate(
            Task(Prompt(ids), stops=tokenizer.control.generation_stops, max_tokens=60, sampling=GREEDY),
            control=Control(),
        )
        expected = [one for one in generation if isinstance(one, int)]
        end = generation.stats.end
    finally:
        local.close()
    assert drawn(remote, ids, most=60, stops=tokenizer.control.generation_stops)[:2] == (expected, end)


def test_ids_within_a_character_are_not_lost(server: LlamaServer, tokenizer: Tokenizer) -> None:
    """The server sends the last id of a character only; a grammar makes it write some here."""
    text = "a🦉é漢b"
    remote = remote_of(server, tokenizer.vocabulary, grammar=f'root ::= "{text}"')
    ids, end, _ = drawn(remote, question(tokenizer, "Write."))
    assert (tokenizer.decode(ids[:-1]), end) == (text, "stop")


def test_the_slot_stays_and_what_is_cached_is_told(remote: RemoteEngine, tokenizer: Tokenizer) -> None:
    filler = question(tokenizer, "Tell me of rivers, lakes and seas. " * 12)
    ids = (*filler, *question(tokenizer, "And of ponds?"))
    generation = None
    for again in range(2):
        generation = remote.generate(Task(Prompt(ids), max_tokens=4, sampling=GREEDY), control=Control())
        progress = [one for one in generation if isinstance(one, Progress)]
        assert progress[-1].done == len(ids)
        stats = generation.stats
        assert stats.prompt_tokens == len(ids) and stats.completion_tokens == 4 and stats.end == "tokens"
        assert stats.reused_tokens + stats.evaluated_tokens == len(ids)
        assert (stats.reused_tokens > len(ids) // 2) == bool(again)
        assert stats.prefill_s > 0 and stats.decode_s > 0


def test_what_is_read_ahead_is_reused(remote: RemoteEngine, tokenizer: Tokenizer) -> None:
    ids = question(tokenizer, "Tell me of mountains, hills and valleys. " * 10)
    told: list[Progress] = []
    remote.prefill(Prompt(ids), control=Control(), on_progress=told.append)
    assert told[-1].done == len(ids)
    generation = remote.generate(Task(Prompt(ids), max_tokens=1, sampling=GREEDY), control=Control())
    list(generation)
    assert generation.stats.reused_tokens > len(ids) // 2


def test_limits_and_stops(remote: RemoteEngine, tokenizer: Tokenizer) -> None:
    ids = question(tokenizer, "How many moons has Mars got?")
    assert drawn(remote, ids, most=3, stops=frozenset())[1] == "tokens"
    end = tokenizer.control.end  # the server goes on after it
    came, why, _ = drawn(remote, ids, most=None, stops=frozenset({end}))
    assert (came[-1], came.count(end), why) == (end, 1, "stop")
    with pytest.raises(ContextFull):
        remote.generate(Task(Prompt((1,) * CONTEXT), max_tokens=1, sampling=GREEDY), control=Control())
    nearly = (*ids, *tokenizer.encode("x y " * CONTEXT))[: CONTEXT - 3]
    assert drawn(remote, nearly, most=None, stops=frozenset())[1] == "context"


def test_an_answer_that_is_over_for_us_is_ended(server: LlamaServer, tokenizer: Tokenizer) -> None:
    """At `<|end|>` the server would go on to the end of its context."""
    remote = remote_of(server, tokenizer.vocabulary, ignore_eos=True)
    end = tokenizer.control.end
    ids = question(tokenizer, "How many moons has Mars got?")
    came, why, progress = drawn(remote, ids, most=None, stops=frozenset({end}))
    assert (came[-1], why) == (end, "stop")
    assert isinstance(remote.server.client, Asking)
    assert remote.server.client.events <= len(came) + len(progress) + 1


def test_a_seed_is_repeatable_and_another_attempt_is_another_draw(remote: RemoteEngine, tokenizer: Tokenizer) -> None:
    ids = question(tokenizer, "Name some bird.")
    hot = Sampling(temperature=2.0, seed=5)

    def draw(sampling: Sampling) -> list[int]:
        return drawn(remote, ids, most=12, stops=frozenset(), sampling=sampling)[0]

    assert draw(hot) == draw(hot)
    assert draw(hot) != draw(Sampling(temperature=2.0, seed=5, attempt=1))
    assert draw(Sampling(temperature=2.0, seed=5, top_k=1)) == draw(GREEDY)


def test_a_stop_ends_a_long_answer(server: LlamaServer, tokenizer: Tokenizer) -> None:
    remote = remote_of(server, tokenizer.vocabulary, ignore_eos=True)
    control = Control()
    generation = remote.generate(Task(Prompt(question(tokenizer, "Count.")), sampling=GREEDY), control=control)
    for count, item in enumerate(generation):
        if isinstance(item, int) and count > 4:
            control.stop()
    assert generation.stats.end == "stopped" and generation.stats.completion_tokens < 100


def test_a_server_killed_in_mid_answer_is_told(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with LlamaServer(Path(str(_SERVER)), ETUDE, log=tmp_path / "log", context_tokens=CONTEXT) as server:
        remote = remote_of(server, tokenizer.vocabulary, ignore_eos=True)
        generation = remote.generate(Task(Prompt(question(tokenizer, "Count.")), sampling=GREEDY), control=Control())
        came = 0
        with pytest.raises(EngineFailed, match=r"broke off in mid-answer|can't be reached") as caught:
            for item in generation:
                came += isinstance(item, int)
                if came == 3:
                    server.kill()
        assert came >= 3 and "\n" not in str(caught.value)
        generation.close()
        with pytest.raises(EngineFailed, match=r"can't be reached: .*refused"):
            drawn(remote, question(tokenizer, "Again."))
        remote.prefill(Prompt((1, 2)), control=Control())  # nobody waits for it


def test_a_stop_while_the_prompt_is_read_ends_the_servers_work(server: LlamaServer, tokenizer: Tokenizer) -> None:
    remote = remote_of(server, tokenizer.vocabulary)
    control = Control()
    threading.Timer(0.02, control.stop).start()
    remote.prefill(Prompt(question(tokenizer, "x y z " * 250)), control=control)
    # and the slot is free again:
    assert drawn(remote, question(tokenizer, "Hello."), most=2)[1] in ("tokens", "stop")


def test_a_key_is_asked_for(tokenizer: Tokenizer, tmp_path: Path) -> None:
    try:
        server = LlamaServer(
            Path(str(_SERVER)), ETUDE, log=tmp_path / "log", context_tokens=CONTEXT, more=["--api-key", "sesame"]
        )
    except ServerError:
        pytest.skip("this llama-server knows no keys")
    with server:
        with pytest.raises(EngineFailed, match=r"answered 401: .*: set key_env in \[engines\.NAME\]"):
            detect(Client(parse_url(server.url)), Control())
        assert detect(Client(parse_url(server.url, key="sesame")), Control()).kind == "llama-server"
