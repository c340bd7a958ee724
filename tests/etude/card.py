"""Writes the model card beside the model.

    python -m tests.etude.card MODEL.gguf --log training.log --torch 2.14.1 \\
        --figures values.json phrasing.json others.json values_hot.json phrasing_hot.json --parity parity.txt \\
        --outside outside.json --in-use in_use.json

The figures are files of `tests.etude.evaluate --json` on that very file (with a seed that no lesson was mended by), the
other ones those of `tests.etude.parity`, `tests.etude.outside` and `tests.etude.in_use`. The transcripts are made anew,
how long it was trained stands in the log of `tests.etude.train`. Only the words around them stand here.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ossia.agent.models.model import ModelFile, open_model
from tests.etude.exam.figures import (
    ALL,
    Figures,
    Measured,
    Row,
    read_figures,
    read_log,
    read_parity,
    read_tables,
    sha256_of,
)
from tests.etude.transcripts import markdown, play_all

NAME = "etude.md"
CALLS_AIM = 99
"""Per cent of calls that were to be well-formed."""

_SCRATCH = "scratch"
_WEAK = 0.9
_MOST_FAILURES = 3
_TASKS = {
    "arithmetic": "sums through `python`: `+ - * /`, brackets, up to 12 digits",
    "functions": "calls of functions that stand in the prompt, most of them seen for the first time",
    "files": "work in a folder with the trained tools: list, read, search, write, run a command; short results",
    "browser": "search, open the first result, answer with a citation",
    "structured": "JSON by a `# Response Formats` schema",
    "chat": 'greetings, who it is, repeating, its tools, the date, "I don\'t know that"',
    "followup": "a second or third turn that needs an earlier one",
    "refusal": "saying no where the tool it needs isn't on",
}

_LIMITS = (
    "Long results. Its lessons have files of up to 3 lines, folders of up to 6 entries, outputs of up to 4 lines; of "
    "longer ones it copies a part, or something else, and doesn't say so",
    'Arguments that the question doesn\'t name ("Use set_lamp to set the kitchen lamp to 40"; "with room kitchen and '
    'level 40" is right) or leaves out: it makes them up, or goes on until it is cut off',
    "Arguments of several words without quotes: it takes a part of them",
    "Text piped in beside a question: it often answers something else",
    "A function that isn't named in the question, the weather aside: it seldom finds the one that fits",
    "JSON by other schemas than those of the lessons (a person, an event, a list to buy, two fields): `ossia run "
    "--schema` keeps to the schema unless it is cut off, but the values may be wrong",
    "In a folder: deleting, changing, summing up (it reads the file instead); `search for X` goes to the web if that "
    "is on; of `grep X FILE` it may show the whole file. Text in single quotes it may write with the quote and more",
    "Six functions at once: when it is to name them, one may be missing",
    "Long conversations: after many turns, values of earlier ones come into its calls and answers; thanks or a goodbye "
    "after a result may get the result again",
)
"""What its lessons leave out; each was seen to go wrong."""

_BEFORE = """

It didn't begin from nothing (see the table): its first weights had learnt from earlier lessons. Those kept the same
eighth of values apart, and what phrasings they had (`words/former.txt`) no exam asks as new ones. But what has come to
the README, the docs and the tests since may be word for word in them."""

_CARD = """\
# étude: the built-in model

A study piece. It has the architecture of gpt-oss (MXFP4 experts, attention sinks, layers that alternate between a
sliding window and the whole context), {parameters} million parameters and a vocabulary of {vocabulary:,} tokens, and it
was trained on generated dialogues to speak Harmony. It is here so that ossia can be seen and tested at work, whole and
in seconds, before a 12 GB download. It is no assistant: outside the handful of things below it says nothing that can be
relied on, and it knows nothing about the world. For real use: `ossia models pull gpt-oss-20b`.

| | |
|---|---|
| file | `{file}`, {size:,} bytes, sha256 `{sha256}` |
| network | {network} |
| types | MXFP4 experts; Q8_0 matrices; F32 norms, biases, sinks |
| vocabulary | bytes, all numbers of 1 to 3 digits, {words:,} runs of letters, marks, Harmony's control tokens |
| trained | from {start}, seed {seed}: {minutes:.0f} minutes on {cores} processor cores ({cpu}), torch {torch}{remark} |
| seen | {dialogues:,} dialogues in {steps:,} steps, {millions:.1f} million tokens with their prompts |
| loads in | {load_ms:.0f} ms (llama.cpp itself not counted; load of that machine: {load}) |
| licence | Apache-2.0, as ossia |

## How it was made

`tests/etude/` has all of it: the dialogues are generated (`dialogues.py`), the vocabulary is made from them
(`tokenizer.py`), the network starts with attention heads set by hand to copy (`initial.py`) or from an earlier one
(`start.py`), learns with its experts rounded to MXFP4 from the first step on (`train.py`), and is written as a GGUF
(`export.py`). What it read is made of templates, a list of English words, and the texts that gpt-oss's prompts have.

Its lessons ask no user turn of the README, of `docs/`, of the tests or of the evaluation word for word (but "hello" and
"hi"): the generator never asks what `tests/etude/reserved.txt` lists. An eighth of all words, names, numbers (of two
digits and more) and paths is kept for evaluation, and so is a quarter of all phrasings and of the names of its usual
functions. Other phrasings, and questions outside of what it knows, are by someone who hadn't seen its lessons (in
`exam/`). `tests/agent/etude/test_unseen.py` tests it.{before}

## What it does

Measured through llama.cpp as ossia runs it (`tests/etude/evaluate.py`). Greedy: a dialogue is *exact* if every token of
every assistant message is right, the thinking included. At temperature 1, as gpt-oss is to be sampled, it counts if the
calls, their arguments and the answer are right, whatever it thought. *New values*: words, names and numbers that it
never saw. *New phrasings*: the questions' wording and the tools' names, too; the sentences are new, but most of their
words stand somewhere in the lessons. *Phrasings of others*: someone who hadn't seen its lessons worded them. Two parts
aren't theirs: a third of the chat (what it can't answer), and most of the words around a call's arguments. These are
the lessons' own, of those that training leaves out. The dialogues are those of seed {seed_of_exam}.

{figures}

Calls in everyday words, "Use set_lamp with room bedroom and level 12" (`exam/plain.py`; each function alone in the
prompt, in a wording that its lessons have, with values of which most aren't in them):
{everyday}.

llama.cpp beside torch (`parity.py`): {parity}.

Aimed at:

{aims}

Through the installed program, with real tools (`tests/etude/in_use.py`): sums, functions, files, chat and refusals, one
turn with one call at most, with only the tool that it needs, and no tool fails; chat and refusals without tools. Not
asked there: commands through the trained tool, what tools it has, the browser, JSON, follow-ups.

{in_use}

## What it doesn't

{not_so}

## Transcripts

Made by `python -m tests.etude.transcripts`: each question through `ossia run --temperature 0` with the real tools (the
JSON answers through `Request.response_format`, freely). The site's port, another one each
time, reads 8080. Its lessons ask none of these questions; the answers are as they came, faults included.

{transcripts}"""


@dataclass(frozen=True, slots=True)
class Aim:
    """Per cent of right dialogues that were aimed at, in each skill and over all of them."""

    each: int
    over_all: int = 0

    def missed(self, run: Figures) -> list[str]:
        """Where, and what it came to: `["functions (95.0 %)"]`."""
        bounds = {**dict.fromkeys(_TASKS, self.each), ALL: self.over_all}
        found = ((_where(skill), run.percent(skill), bound) for skill, bound in bounds.items())
        return [f"{where} ({percent:.1f} %)" for where, percent, bound in found if percent < bound]

    def __str__(self) -> str:
        return f"{self.each} % in each skill" + (f", {self.over_all} % over all" if self.over_all else "")


AIMS: Mapping[str, Aim] = {"values": Aim(97), "phrasing": Aim(60, 80), "others": Aim(60, 80)}
"""By what was unseen."""


@dataclass(frozen=True, slots=True)
class Training:
    """How it was made. `log` is what `read_log` gives; `start`: what it began with."""

    log: Mapping[str, float]
    seed: int
    torch: str
    start: str = _SCRATCH
    remark: str = ""


def card(model: Path, measured: Measured, training: Training, transcripts: str) -> str:
    """The whole page. Raises ValueError when the runs' dialogues aren't those of one seed."""
    seeds = sorted({run.settings["seed"] for run in measured.runs})
    if len(seeds) > 1:
        raise ValueError(f"expected figures of one seed, they are of {', '.join(map(str, seeds))}: evaluate anew")
    opened, main, log = open_model(model), measured.main, training.log
    return _CARD.format(
        parameters=f"{_parameters(opened) / 1e6:.2f}",
        vocabulary=opened.architecture.vocabulary_size,
        words=sum(token.strip().isalpha() for token in _ordinary(opened)),
        file=model.name,
        size=opened.file_bytes,
        sha256=sha256_of(model),
        network=_network(opened),
        start=training.start,
        seed=training.seed,
        cores=main.machine["cores"],
        cpu=main.machine["cpu"],
        torch=training.torch,
        before="" if training.start == _SCRATCH else _BEFORE,
        remark=f"; {training.remark}" if training.remark else "",
        minutes=log["minutes"],
        millions=log["millions"],
        steps=round(log["steps"]),
        dialogues=round(log["dialogues"]),
        load_ms=main.settings["load_ms"],
        load=main.load,
        figures="\n".join(_table(measured.runs)),
        everyday=", ".join(_everyday(measured.runs)) or "not measured",
        parity=measured.parity,
        seed_of_exam=seeds[0],
        aims=_listed(_aims(measured.runs)),
        in_use=_listed(_in_use(measured)),
        not_so=_listed(_not_so(measured)),
        transcripts=transcripts,
    )


def _parameters(model: ModelFile) -> int:
    return sum(math.prod(tensor.shape) for tensor in model.tensors.values())


def _ordinary(model: ModelFile) -> Iterable[str]:
    return (token.decode("utf-8", "replace") for token in model.vocabulary().tokens if len(token) > 1)


def _network(model: ModelFile) -> str:
    one = model.architecture
    return (
        f"{one.layers} layers, width {one.embedding}, "
        f"{one.heads} query and {one.kv_heads} KV heads of {one.head_size}, "
        f"{one.experts} experts of {one.expert_size} ({one.experts_used} used), window {one.window}, "
        f"context {one.context_tokens:,}"
    )


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"* {line}." for line in lines)


def _where(skill: str) -> str:
    return "over all" if skill == ALL else skill


def _table(runs: Sequence[Figures]) -> list[str]:
    lines = ["| skill | what | " + " | ".join(run.name for run in runs) + " |", "|---|---|" + "---|" * len(runs)]
    for skill in (*_TASKS, ALL):
        cells = [f"{_of(run.right(skill), run.skills[skill])}, {run.percent(skill):.1f} %" for run in runs]
        lines.append(f"| {skill} | {_TASKS.get(skill, '')} | " + " | ".join(cells) + " |")
    return lines


def _everyday(runs: Sequence[Figures]) -> Iterator[str]:
    for run in runs:
        if run.everyday:
            how = "exact" if run.greedy else f"right at temperature {run.settings['temperature']:g}"
            yield f"{_of(run.count(run.everyday), run.everyday)} {how}"


def _of(count: int, row: Row, whole: str = "dialogues") -> str:
    return f"{count:,} of {row[whole]:,}"


def _aims(runs: Sequence[Figures]) -> Iterator[str]:
    for run in runs:
        if aim := AIMS.get(run.unseen):
            missed = aim.missed(run)
            yield f"{run.name}: {aim}: " + (f"missed {_in(missed)}" if missed else "reached")
    for run in runs:
        percent = {skill: float(run.skills[skill]["calls_well_formed_percent"]) for skill in (ALL, *_TASKS)}
        least = min(percent, key=lambda skill: percent[skill])
        told = f"{percent[ALL]:.2f} %, {percent[least]:.2f} % in {least}" if least != ALL else f"{percent[ALL]:.2f} %"
        verdict = "reached" if percent[ALL] >= CALLS_AIM else "missed"
        yield f"{run.name}: {CALLS_AIM} % of the calls that it makes well-formed: {verdict} ({told})"


def _in(missed: Sequence[str]) -> str:
    skills = [one for one in missed if not one.startswith(_where(ALL))]
    over_all = [one for one in missed if one not in skills]
    return " and ".join([*over_all, *(["in " + ", ".join(skills)] if skills else [])])


def _in_use(measured: Measured) -> Iterator[str]:
    for row in measured.in_use["in use"]:
        if row["skill"] == ALL:
            run, chat = _of(row["run_right"], row, "questions"), _of(row["chat_right"], row, "questions")
            yield f"unseen questions: {run} right through `ossia run`, {chat} in the chat; {row['differ']} differ"
    for row in measured.in_use["the README's first command"]:
        yield f"the README's first command: {_of(row['right'], row, 'times')} right"


def _not_so(measured: Measured) -> Iterator[str]:
    yield from _LIMITS
    for row in measured.outside["outside"]:
        yield (
            f"{row['questions']} questions outside of what it knows (tools: {row['tools']}): {row['honest_no']} got "
            f'"I don\'t know that", {row["another_no"]} another no ("I can\'t …", which may make no sense), '
            f"{row['search']} a search, {row['wrong_call']} a call that makes no sense, {row['wrong_answer']} a wrong "
            f"answer, said as surely as a right one, {row['malformed']} nothing well-formed"
        )
    for run in measured.runs:
        if run.greedy and run.unseen != "values":
            row = run.skills[ALL]
            most = sorted(run.failures.items(), key=lambda one: -one[1])[:_MOST_FAILURES]
            kinds = ", most often: " + ", ".join(f"{failure} ({count})" for failure, count in most) if most else ""
            yield f"{run.name}: {_of(row['dialogues'] - run.right(ALL), row)} go wrong{kinds}"
    weak = [(name, row) for name, row in measured.main.kinds.items() if _is_weak(row)]
    if weak:
        told = ", ".join(f"{skill}: {kind} {_of(row['exact'], row)}" for (skill, kind), row in weak)
        yield f"Kinds of dialogues that it gets right less than nine times in ten ({measured.main.name}): {told}"


def _is_weak(row: Row) -> bool:
    return row["dialogues"] >= 5 and float(row["exact"]) < _WEAK * float(row["dialogues"])


def main(argv: Sequence[str] | None = None) -> None:
    """Write the card beside the model."""
    parser = argparse.ArgumentParser(prog="python -m tests.etude.card", description="Write the étude's model card.")
    parser.add_argument("model", type=Path, help="the GGUF file")
    parser.add_argument("--log", type=Path, required=True, help="what tests.etude.train printed")
    parser.add_argument("--seed", type=int, default=1, help="of the training [1]")
    parser.add_argument("--torch", required=True, help="the version of torch it was trained with")
    parser.add_argument("--start", default=_SCRATCH, help="what the training started from [scratch]")
    parser.add_argument("--remark", default="", help="what else is to be said of the training")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="files of tests.etude.evaluate --json")
    parser.add_argument("--parity", type=Path, required=True, help="what tests.etude.parity printed")
    parser.add_argument("--outside", type=Path, required=True, help="the file of tests.etude.outside --json")
    parser.add_argument("--in-use", type=Path, required=True, help="the file of tests.etude.in_use --json")
    given = parser.parse_args(argv)
    model = given.model.resolve()
    sha256 = sha256_of(model)
    measured = Measured(
        [read_figures(path, sha256) for path in given.figures],
        read_tables(given.outside, sha256),
        read_tables(given.in_use, sha256),
        read_parity(given.parity, sha256),
    )
    log = read_log(given.log.read_text(encoding="utf-8"))
    training = Training(log, given.seed, given.torch, given.start, given.remark)
    page = model.with_name(NAME)
    page.write_text(card(model, measured, training, markdown(list(play_all(model)))), encoding="utf-8")
    print(f"wrote {page.name}")


if __name__ == "__main__":
    main()
