"""How much of what it never saw a model gets right: `python -m tests.etude.evaluate agent/models/etude.gguf`.

N unseen dialogues of each skill (`--count`), through our own engine, tokenizer and parser. `--unseen values`:
words, numbers and names that training never had; `phrasing`: phrasings and tool names, too; `others`: the same, with
phrasings of people who had not seen the lessons (`exam/phrasings_of_others.txt`). A dialogue is exact when every token
of the assistant's is the reference's, the thinking included; the same, when its calls, their arguments and the answer
are. `--temperature 1` samples as gpt-oss is to be sampled. With new values come 80 calls in everyday words
(`exam/plain.py`) as well. Ctrl-C prints what there is.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import statistics
import sys
import time
import zlib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from ossia.agent.engine.base import Sampling
from ossia.cli.clean import clean
from tests.bench.report import Report, file_facts, options
from tests.etude.dialogues import SKILLS, unseen_dialogue
from tests.etude.exam.examination import Case, Examiner, Outcome, make_case
from tests.etude.exam.failures import FAILURES
from tests.etude.exam.figures import sha256_of
from tests.etude.exam.plain import plain_cases
from tests.etude.words.values import Exam, Values
from tests.support.engines import load_engine

_CONTEXT_TOKENS = 4096
_SEED = 4242
_SAY_EVERY = 100
_TAIL = 300  # characters of the prompt that are shown before a failure


def make_cases(skills: Sequence[str], count: int, unseen: Exam, seed: int) -> list[Case]:
    """`count` dialogues of each skill. A skill's are the same whatever else is asked for."""
    cases = []
    for skill in skills:
        values = Values(seed + zlib.crc32(skill.encode()), unseen)
        for _ in range(count):
            prefix, dialogue = unseen_dialogue(values, skill)
            cases.append(make_case(prefix.text, dialogue))
    return cases


def examine_all(model: Path, cases: Sequence[Case], sampling: Sampling, jobs: int) -> Iterator[Outcome]:
    """The outcomes as they come. Each of `jobs` processes has an engine of its own, on one thread."""
    work = [(case, replace(sampling, seed=number)) for number, case in enumerate(cases)]
    if jobs == 1:
        _begin(model)
        yield from map(_examine, work)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _begin, (model,)) as pool:
        yield from pool.imap_unordered(_examine, work, chunksize=4)


_examiners: list[Examiner] = []
"""The one of this process."""


def _begin(model: Path) -> None:
    if multiprocessing.parent_process():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends us
    _examiners[:] = [Examiner(load_engine(model, context_tokens=_CONTEXT_TOKENS))]


def _examine(work: tuple[Case, Sampling]) -> Outcome:
    return _examiners[0].examine(*work)


def count_up(report: Report, outcomes: Sequence[Outcome], skills: Sequence[str]) -> None:
    """The figures: a row for each skill, one for all, and a row for each kind of dialogue and of failure."""
    for skill in (*skills, "all"):
        those = [one for one in outcomes if skill in (one.case.skill, "all")]
        if not those:
            continue
        steps = [step for one in those for step in one.case.steps]
        verdicts = [verdict for one in those for verdict in one.verdicts]
        wanted = [verdict for verdict in verdicts if verdict.step.wants_call]
        called = [verdict for verdict in verdicts if verdict.calls]
        report.row(
            "by skill",
            skill=skill,
            dialogues=len(those),
            exact=sum(one.exact for one in those),
            exact_percent=100 * sum(one.exact for one in those) / len(those),
            same=sum(one.same for one in those),
            calls=sum(step.wants_call for step in steps),
            calls_right=sum(verdict.same for verdict in wanted),
            calls_well_formed_percent=100 * _share([verdict.well_formed for verdict in called]),
            completions=len(verdicts),
            well_formed_percent=100 * _share([verdict.well_formed for verdict in verdicts]),
        )
    kinds = sorted({(skills.index(one.case.skill), one.case.kind) for one in outcomes})
    for number, kind in kinds:
        those = [one for one in outcomes if (one.case.skill, one.case.kind) == (skills[number], kind)]
        exact, same = sum(one.exact for one in those), sum(one.same for one in those)
        report.row("by kind", skill=skills[number], kind=kind, dialogues=len(those), exact=exact, same=same)
    failed = [(one.case.skill, one.failed.failure) for one in outcomes if one.failed]
    for failure in (one for one in FAILURES if one in {found for _, found in failed}):
        counts = {skill: failed.count((skill, failure)) for skill in skills}
        report.row("by failure", failure=failure, dialogues=sum(counts.values()), **counts)


def _share(found: Sequence[bool]) -> float:
    """None of none is all of it."""
    return sum(found) / len(found) if found else 1.0


def _show(outcomes: Sequence[Outcome], count: int) -> None:
    for outcome, verdict in itertools.islice(((one, one.failed) for one in outcomes if one.failed), count):
        print(f"\n--- {outcome.case.skill}, {outcome.case.kind}: {verdict.failure}", file=sys.stderr)
        print(f"given  …{clean(verdict.step.given[-_TAIL:])}", file=sys.stderr)
        print(f"wanted {clean(verdict.step.wanted)}\ngot    {clean(verdict.got)}", file=sys.stderr)


def _load_ms(model: Path, times: int = 5) -> float:
    """The median time until an engine is ready, the first left out: it loads llama.cpp itself."""
    walls = []
    for _ in range(times + 1):
        begin = time.perf_counter()
        load_engine(model, context_tokens=_CONTEXT_TOKENS).close()
        walls.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(walls[1:])


def _parse(argv: Sequence[str] | None) -> Namespace:
    parser = options(__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--count", type=int, default=200, help="dialogues of each skill [200]")
    parser.add_argument("--unseen", choices=get_args(Exam), default="values", help="what is new [values]")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy [0]")
    parser.add_argument("--skill", action="append", choices=SKILLS, help="this one only; repeatable")
    parser.add_argument("--seed", type=int, default=_SEED, help=f"of the dialogues [{_SEED}]")
    parser.add_argument("--jobs", type=int, default=2, help="processes, a thread each [2]")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N failures, on stderr")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Examine, and print the figures."""
    given = _parse(argv)
    report = Report("etude")
    report.settings |= file_facts(given.model) | {"bytes": given.model.stat().st_size, "sha256": sha256_of(given.model)}
    report.settings |= {name: getattr(given, name) for name in ("count", "unseen", "temperature", "seed")}
    report.settings["load_ms"] = round(_load_ms(given.model), 1)
    skills = [skill for skill in SKILLS if not given.skill or skill in given.skill]
    cases = make_cases(skills, given.count, given.unseen, given.seed)
    sampling = Sampling(temperature=given.temperature)
    outcomes: list[Outcome] = []
    begin = time.perf_counter()
    try:
        for outcome in examine_all(given.model, cases, sampling, given.jobs):
            outcomes.append(outcome)
            if len(outcomes) % _SAY_EVERY == 0:
                report.say(f"{len(outcomes)} of {len(cases)}, {sum(one.exact for one in outcomes)} exact")
        if given.unseen == "values" and not given.skill:
            everyday = list(examine_all(given.model, plain_cases(), sampling, given.jobs))
            exact, same = sum(one.exact for one in everyday), sum(one.same for one in everyday)
            report.row("everyday calls", dialogues=len(everyday), exact=exact, same=same)
    except KeyboardInterrupt:
        report.say("interrupted: the figures are of what was examined so far")
    report.settings["seconds"] = round(time.perf_counter() - begin, 1)
    count_up(report, outcomes, skills)
    report.print(as_json=given.json)
    _show(outcomes, given.show)


if __name__ == "__main__":
    main()
