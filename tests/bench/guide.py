"""What the guide costs, and what it saves: `python -m tests.bench.guide MODEL.gguf [--llama-server PATH] [--rounds 5]`.

MODEL is one with gpt-oss's vocabulary (`tests.bench.synthetic`: `mid`). Three tables:

- cost a token: what a token under the guide takes besides being drawn (the mask, taking it, what must follow), walked
  through a call of one of five tools with long keys; and drawing in free text, without the guide and with it.
- the first call: what a process pays once, when the first arguments begin: llguidance's tokenizer, then a grammar.
- call arguments: tokens a second while the arguments of five tools are written, by random weights at temperature 1:
  with the guide, without it (anything), and by llama-server with its grammar of the same schemas, if its program is
  given (`peers.sh` builds it). Ids that must come count as tokens in all of them. They take turns.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from ossia.agent.control import Control
from ossia.agent.engine.base import Constraint, Prompt, Sampling, Task
from ossia.agent.engine.guiding import Guide
from ossia.agent.engine.llama import LlamaEngine, LlamaSettings
from ossia.agent.engine.sampling import Sampler
from ossia.agent.engine.threads import default_threads
from ossia.agent.guide import GuideCompiler
from ossia.agent.models.model import open_model
from ossia.agent.prompt import compose
from ossia.agent.request import Request
from ossia.agent.schema import fault_of
from ossia.harmony.codec import Codec
from ossia.harmony.messages import FINAL, Message
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.spec import ToolSpec
from tests.bench.report import Report, file_facts, model_file, options
from tests.oracle.engine import LlamaServer
from tests.support.streams import harmony_ids

_CONTEXT_TOKENS = 2048
_MOST = 400  # tokens of one value


def _schema(**properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(most: int) -> dict[str, object]:
    return {"type": "string", "maxLength": most}


_NUMBER = {"type": "integer", "minimum": 0, "maximum": 9999}
SCHEMAS = {
    "functions.book_train_journey": _schema(
        departure_station_name=_text(20),
        destination_station_name=_text(20),
        number_of_passengers=_NUMBER,
        class_of_travel={"enum": ["first_class", "second_class"]},
        reserve_seats_by_the_window={"type": "boolean"},
    ),
    "functions.get_weather_forecast": _schema(
        location_of_interest=_text(20),
        temperature_unit={"enum": ["celsius", "fahrenheit"]},
        number_of_days_ahead=_NUMBER,
    ),
    "functions.create_calendar_entry": _schema(
        title_of_the_entry=_text(24),
        starting_time_in_minutes=_NUMBER,
        duration_in_minutes=_NUMBER,
        remind_me_beforehand={"type": "boolean"},
    ),
    "functions.search_customer_database": _schema(
        customer_family_name=_text(16),
        include_former_customers={"type": "boolean"},
        maximum_number_of_results=_NUMBER,
        sort_results_by={"enum": ["customer_family_name", "date_of_last_order", "total_of_all_orders"]},
    ),
    "functions.send_notification_message": _schema(
        recipient_of_the_message=_text(16),
        priority_of_the_message={"enum": ["low_priority", "normal_priority", "high_priority"]},
        text_of_the_message=_text(40),
    ),
}
_CALL = (
    "<|channel|>commentary to=functions.book_train_journey <|constrain|>json<|message|>"
    '{"departure_station_name":"Berlin Hbf","destination_station_name":"München, Ost","number_of_passengers":2,'
    '"class_of_travel":"second_class","reserve_seats_by_the_window":true}<|call|>'
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line `argv` (None: the process's own) and print the report."""
    parser = options(__doc__)
    parser.add_argument("model", type=model_file)
    parser.add_argument("--llama-server", type=Path, metavar="PATH", help="see peers.sh; without it, ours alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cost-only", action="store_true", help="nothing of the network: the first two tables")
    given = parser.parse_args(argv)
    report = Report("guide", "llguidance")
    report.settings |= file_facts(given.model) | {"rounds": given.rounds, "threads": default_threads()}
    model = open_model(given.model)
    tokenizer = Tokenizer(model.vocabulary())
    _costs(report, tokenizer, given.rounds)
    if not given.cost_only:
        _speeds(report, given.model, tokenizer, rounds=given.rounds, server=given.llama_server)
    report.print(as_json=given.json)


# -- what it costs -----------------------------------------------------------------------------------------------------


def _costs(report: Report, tokenizer: Tokenizer, rounds: int) -> None:
    compiler = GuideCompiler(tokenizer)
    free = {name: json.loads(json.dumps(schema).replace("maxLength", "x-most")) for name, schema in SCHEMAS.items()}
    constraint = Constraint(tuple(free), free)
    ids = harmony_ids(tokenizer, _CALL)
    begun = time.perf_counter()
    guide = compiler(constraint)
    headers_ms = 1e3 * (time.perf_counter() - begun)
    _walk(guide, ids)
    first_ms = 1e3 * (time.perf_counter() - begun)
    for what, schemas in (("a call", free), ("a call, strings with maxLength", SCHEMAS)):
        walks = [_walk(compiler(Constraint(tuple(schemas), schemas)), ids) for _ in range(rounds + 1)][1:]
        report.row(
            "cost a token",
            what=what,
            tokens=len(ids),
            forced=walks[0][1],
            mean_us=median(1e6 * sum(times) / len(ids) for times, _ in walks),
            largest_us=median(1e6 * max(times) for times, _ in walks),
        )
    report.row("the first call", headers_ms=headers_ms, tokenizer_and_grammar_ms=first_ms - headers_ms)
    for name, choice in _free_draws(tokenizer, compiler).items():
        report.row("drawing in free text", what=name, median_us=choice)


def _walk(guide: Guide, ids: Sequence[int]) -> tuple[list[float], int]:
    """The seconds (of CPU time) that each sampled id takes, and how many were forced."""
    times: list[float] = []
    place = forced = 0
    while place < len(ids):
        begun = time.thread_time()
        guide.next()
        following = guide.take(ids[place])
        times.append(time.thread_time() - begun)
        forced += len(following)
        place += 1 + len(following)
    return times, forced


def _free_draws(tokenizer: Tokenizer, compiler: GuideCompiler, count: int = 400) -> dict[str, float]:
    """Microseconds of a draw from peaked logits, as a trained model's mostly are; the two take turns."""
    size = tokenizer.vocabulary.size
    logits = (np.random.default_rng(1).standard_normal(size) * 2).astype(np.float32)
    logits[1000] = 25.0
    guide = compiler(Constraint())
    for token in harmony_ids(tokenizer, "<|channel|>final<|message|>"):
        guide.take(token)
    times: dict[str, list[float]] = {"without the guide": [], "with the guide": []}
    samplers = {name: Sampler(Sampling(seed=1), size) for name in times}
    for _ in range(count):
        begun = time.perf_counter()
        samplers["without the guide"].pick(logits)
        between = time.perf_counter()
        guide.take(samplers["with the guide"].pick(logits, guide.next()))
        times["without the guide"].append(between - begun)
        times["with the guide"].append(time.perf_counter() - between)
    return {name: 1e6 * median(values) for name, values in times.items()}


# -- what it saves -----------------------------------------------------------------------------------------------------


def _speeds(report: Report, path: Path, tokenizer: Tokenizer, *, rounds: int, server: Path | None) -> None:
    prompt = _prompt(tokenizer)
    settings = LlamaSettings(_CONTEXT_TOKENS, threads=default_threads())
    with ExitStack() as stack:
        (engine,) = LlamaEngine.load(
            path,
            vocabulary=tokenizer.vocabulary,
            name=path.stem,
            settings=settings,
            guides=GuideCompiler(tokenizer, insists=True),
        )
        stack.callback(engine.close)
        writers: dict[str, Callable[[object, int], _Written]] = {
            "ossia, guided": lambda schema, seed: _write(engine, tokenizer, prompt, schema, seed),
            "ossia, anything": lambda schema, seed: _write(engine, tokenizer, prompt, None, seed),
        }
        if server:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            peer = stack.enter_context(
                LlamaServer(server, path, log=folder / "log", threads=default_threads(), context_tokens=_CONTEXT_TOKENS)
            )
            writers["llama-server, grammar"] = lambda schema, seed: _ask(peer, prompt, schema, seed)
        for write in writers.values():
            write(next(iter(SCHEMAS.values())), 0)  # reads the prompt, and whatever else is done once
        made: dict[str, list[_Written]] = {name: [] for name in writers}
        for seed in range(rounds):
            order = list(writers) if seed % 2 else list(reversed(writers))
            for name in order:
                made[name] += [writers[name](schema, seed + 1) for schema in SCHEMAS.values()]
    for name, written in made.items():
        report.row(
            "call arguments",
            what=name,
            tok_s=sum(one[0] for one in written) / sum(one[2] for one in written),
            values=len(written),
            tokens=sum(one[0] for one in written),
            forced=sum(one[1] for one in written),
            whole_and_valid=sum(one[3] for one in written),
            mean_ms_a_value=1e3 * mean(one[2] for one in written),
        )
    if not server:
        report.say("llama-server isn't measured: give --llama-server (peers.sh builds it)")


_Written = tuple[int, int, float, bool]
"""Tokens, those forced, seconds, and whether the value is whole and valid."""


def _prompt(tokenizer: Tokenizer) -> tuple[int, ...]:
    """A question with the five tools, opened where a value begins."""
    specs = tuple(ToolSpec(name, "", parameters=schema, provenance="built-in") for name, schema in SCHEMAS.items())
    messages = compose(Request((Message("user", ("Go.",)),), tools=specs, date="2026-11-22"))
    ids = Codec(tokenizer, recipient_position="channel").render(messages, purpose="completion").ids
    control = tokenizer.control
    return (*ids, control.channel, *tokenizer.encode(FINAL), control.message)


def _write(engine: LlamaEngine, tokenizer: Tokenizer, prompt: Sequence[int], schema: Any, seed: int) -> _Written:
    generation = engine.generate(
        Task(
            Prompt(tuple(prompt), (len(prompt),)),
            stops=tokenizer.control.generation_stops | {tokenizer.control.end} if schema is not None else frozenset(),
            max_tokens=_MOST if schema is not None else random.Random(seed).randrange(30, 60),
            sampling=Sampling(seed=seed),
            constraint=None if schema is None else Constraint(answer=schema, open_with=FINAL),
        ),
        control=Control(),
    )
    with closing(generation):
        ids = [item for item in generation if isinstance(item, int)]
    stats = generation.stats
    text = tokenizer.decode(ids[:-1])
    valid = schema is not None and stats.end == "stop" and fault_of(text, schema) is None
    return stats.completion_tokens, stats.forced_tokens, stats.decode_s, valid


def _ask(server: LlamaServer, prompt: Sequence[int], schema: Any, seed: int) -> _Written:
    asked = {
        "prompt": list(prompt), "n_predict": _MOST, "temperature": 1.0, "samplers": ["temperature"], "seed": seed,
        "cache_prompt": True, "json_schema": schema,
    }  # fmt: skip
    answer = server.complete(asked)
    timings = answer["timings"]
    valid = answer["stop_type"] != "limit" and fault_of(answer["content"], schema) is None
    return timings["predicted_n"], 0, timings["predicted_ms"] / 1e3, valid


if __name__ == "__main__":
    main()
