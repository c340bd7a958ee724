"""Writes the model card beside the model.

    python -m tests.etude.card MODEL.gguf --log training.log --torch 2.14.1 --figures values.json phrasing.json hot.json

The figures are files of `tests.etude.evaluate --json` on that very file, the transcripts are made anew, how long it was
trained stands in the log of `tests.etude.train`. Only the words around them stand here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.models.model import ModelFile, open_model
from tests.etude.transcripts import markdown, play_all

NAME = "etude.md"
EXACT_AIM = {"arithmetic": 97, "functions": 97, "refusal": 97, "chat": 97}
OTHER_AIM = 92
"""Per cent of exact dialogues that were aimed at, greedy, on unseen values."""

_WEAK = 0.9
_ALL = "all"
_TRAINED = re.compile(
    r"(?P<minutes>[\d.]+) min, step (?P<steps>\d+), .*?(?P<millions>[\d.]+) M tokens, .*?(?P<dialogues>\d+) dialogues"
)
_TASKS = {
    "arithmetic": "sums through `python`: `+ - * /`, brackets, up to 12 digits",
    "functions": "calls of functions that stand in the prompt, most of them seen for the first time",
    "files": "listing a folder, reading a file, through functions",
    "browser": "search, open the first result, answer with a citation",
    "structured": "JSON by a `# Response Formats` schema",
    "chat": "greetings, who it is, repeating, its tools, the date, \"I don't know that\"",
    "followup": "a second or third turn that needs an earlier one",
    "refusal": "saying no where the tool it needs isn't on",
}

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
| trained | from scratch, seed {seed}: {minutes:.0f} minutes on {cores} processor cores ({cpu}), torch {torch}{remark} |
| seen | {dialogues:,} dialogues in {steps:,} steps, {millions:.1f} million tokens with their prompts |
| loads in | {load_ms:.0f} ms (llama.cpp itself not counted; load of that machine: {load}) |
| licence | Apache-2.0, as ossia |

## How it was made

`tests/etude/` has all of it: the dialogues are generated (`dialogues.py`), the vocabulary is made from them
(`tokenizer.py`), the network starts with attention heads set by hand to copy (`initial.py`), learns with its experts
rounded to MXFP4 from the first step on (`train.py`), and is written as a GGUF (`export.py`). What it read is made of
templates, a list of English words, and the texts that gpt-oss's prompts have.

No user turn of the README, of `docs/`, of the tests or of the evaluation is word for word in its training data. The
generator never asks what `tests/etude/reserved.txt` lists; an eighth of all words, names, numbers and paths is kept for
evaluation, and so is a quarter of all phrasings and of the names of its usual functions.
`tests/agent/etude/test_unseen.py` tests it.

## What it does

Measured through llama.cpp as ossia runs it (`tests/etude/evaluate.py`). Greedy: a dialogue is *exact* if every token of
every assistant message is right, the thinking included; in brackets what was aimed at. At temperature 1, as gpt-oss is
to be sampled, it counts if the calls, their arguments and the answer are right, whatever it thought. *New values*:
words, names and numbers that it never saw. *New phrasings*: the questions' wording and the tools' names, too.

{figures}

{aims}

{well_formed}

## What it doesn't

* Anything else: other questions get "I don't know that", or a wrong answer, said as surely as a right one.
* Work in a folder with ossia's tools of today: it learnt the functions that `--workspace` offered until November 2026 \
(`list_dir`, `read_file`, `shell`), not `container.exec` and `repo_browser.*`, and goes astray with these. What is \
said of files here is said of those functions.
* Languages other than its few English phrases.
{weak}

## Transcripts

Made by `python -m tests.etude.transcripts`: each question through `ossia run --temperature 0` with the real tools (the
JSON answers through `Request.response_format`, freely). The site's port, another one each
time, reads 8080. None of these questions was in its training data; the answers are as they came, faults included.

{transcripts}"""


@dataclass(frozen=True, slots=True)
class Figures:
    """One run of the evaluation: `skills["browser"]["exact"]`, and the same for each `(skill, kind)`."""

    settings: Mapping[str, Any]
    machine: Mapping[str, Any]
    load: float | None
    skills: Mapping[str, Mapping[str, Any]]
    kinds: Mapping[tuple[str, str], Mapping[str, Any]]

    @property
    def greedy(self) -> bool:
        return float(self.settings["temperature"]) == 0


def read_figures(path: Path, sha256: str) -> Figures:
    """What `evaluate --json` wrote. Raises ValueError when it isn't about the file with that hash."""
    told = json.loads(path.read_text(encoding="utf-8"))
    found = told["settings"]["sha256"]
    if found != sha256:
        raise ValueError(f"{path.name}: expected figures of {sha256[:12]}…, they are of {found[:12]}…: evaluate again")
    skills = {row["skill"]: row for row in told["tables"]["by skill"]}
    kinds = {(row["skill"], row["kind"]): row for row in told["tables"]["by kind"]}
    return Figures(told["settings"], told["machine"], told["load"]["before"], skills, kinds)


def read_log(text: str) -> dict[str, float]:
    """The last word of a training's log: `{"minutes": 95.0, "steps": 2900, "millions": 21.4, "dialogues": 190000}`.

    Raises ValueError when it has none.
    """
    found = list(_TRAINED.finditer(text))
    if not found:
        raise ValueError("expected a line as '95.00 min, step 2900, …' in the log: is it one of tests.etude.train?")
    numbers = {name: float(value) for name, value in found[-1].groupdict().items()}
    return numbers | {"dialogues": 2 * numbers["dialogues"]}  # one of two processes told its own


def card(
    model: Path, runs: Sequence[Figures], trained: Mapping[str, float], *, seed: int, torch: str, remark: str = ""
) -> str:
    """The whole page. `runs` hold a greedy one with `unseen` "values"; the others make more columns."""
    opened = open_model(model)
    main = next(run for run in runs if run.greedy and run.settings["unseen"] == "values")
    return _CARD.format(
        parameters=f"{_parameters(opened) / 1e6:.2f}",
        vocabulary=opened.architecture.vocabulary_size,
        words=sum(token.strip().isalpha() for token in _ordinary(opened)),
        file=model.name,
        size=opened.file_bytes,
        sha256=_sha256(model),
        network=_network(opened),
        seed=seed,
        cores=main.machine["cores"],
        cpu=main.machine["cpu"],
        torch=torch,
        remark=f"; {remark}" if remark else "",
        minutes=trained["minutes"],
        millions=trained["millions"],
        steps=round(trained["steps"]),
        dialogues=round(trained["dialogues"]),
        load_ms=main.settings["load_ms"],
        load=main.load,
        figures="\n".join(_table(runs, main)),
        well_formed=_well_formed(runs),
        aims=_aims(main),
        weak="\n".join(_weak(runs, main)),
        transcripts=markdown(list(play_all(model))),
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


def _table(runs: Sequence[Figures], main: Figures) -> list[str]:
    heads = [_head(run) for run in runs]
    lines = ["| skill | what | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(runs)]
    for skill in (*_TASKS, _ALL):
        cells = [_cell(run, skill) for run in runs]
        if skill in _TASKS:
            cells[runs.index(main)] += f" [{_aim(skill)} %]"
        lines.append(f"| {skill} | {_TASKS.get(skill, '')} | " + " | ".join(cells) + " |")
    return lines


def _head(run: Figures) -> str:
    unseen = {"values": "new values", "phrasing": "new phrasings"}[run.settings["unseen"]]
    return f"{unseen}, exact" if run.greedy else f"{unseen}, temperature {run.settings['temperature']:g}"


def _cell(run: Figures, skill: str) -> str:
    row = run.skills[skill]
    right = row["exact" if run.greedy else "same"]
    return f"{right:,} of {row['dialogues']:,}, {100 * right / row['dialogues']:.1f} %"


def _aim(skill: str) -> int:
    return EXACT_AIM.get(skill, OTHER_AIM)


def _well_formed(runs: Sequence[Figures]) -> str:
    told = []
    for run in runs:
        rows = [run.skills[skill] for skill in _TASKS if run.skills[skill]["calls"]]
        least = min(float(row["calls_well_formed_percent"]) for row in rows)
        whole = float(run.skills[_ALL]["well_formed_percent"])
        told.append(
            f"{_head(run)}: {whole:.1f} % of all completions are well-formed Harmony; "
            f"of those reached that should call a tool, {least:.1f} % in the skill where it is least"
        )
    return "\n".join(f"* {line}." for line in told)


def _aims(main: Figures) -> str:
    missed = [skill for skill in _TASKS if 100 * _exact(main.skills[skill]) < _aim(skill)]
    return f"Aimed at and missed: {', '.join(missed)}." if missed else "What was aimed at is reached in every skill."


def _exact(row: Mapping[str, Any]) -> float:
    return float(row["exact"]) / float(row["dialogues"])


def _weak(runs: Sequence[Figures], main: Figures) -> list[str]:
    lines = []
    for run in runs:
        if run.settings["unseen"] == "phrasing":
            share = 100 * _exact(run.skills[_ALL])
            lines.append(f"* Questions worded in another way than those it learnt from: {share:.0f} % come out right.")
    weak = [(name, row) for name, row in main.kinds.items() if row["dialogues"] >= 5 and _exact(row) < _WEAK]
    told = ", ".join(f"{skill}: {kind} {row['exact']} of {row['dialogues']}" for (skill, kind), row in weak)
    if told:
        lines.append(f"* Kinds of dialogues that it gets right less than nine times in ten ({_head(main)}): {told}.")
    return lines


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(argv: Sequence[str] | None = None) -> None:
    """Write the card beside the model."""
    parser = argparse.ArgumentParser(prog="python -m tests.etude.card", description="Write the étude's model card.")
    parser.add_argument("model", type=Path, help="the GGUF file")
    parser.add_argument("--log", type=Path, required=True, help="what tests.etude.train printed")
    parser.add_argument("--seed", type=int, default=1, help="of the training [1]")
    parser.add_argument("--torch", required=True, help="the version of torch it was trained with")
    parser.add_argument("--remark", default="", help="what else is to be said of the training")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="files of tests.etude.evaluate --json")
    given = parser.parse_args(argv)
    model = given.model.resolve()
    runs = [read_figures(path, _sha256(model)) for path in given.figures]
    trained = read_log(given.log.read_text(encoding="utf-8"))
    page = model.with_name(NAME)
    told = card(model, runs, trained, seed=given.seed, torch=given.torch, remark=given.remark)
    page.write_text(told, encoding="utf-8")
    print(f"wrote {page.name}")


if __name__ == "__main__":
    main()
