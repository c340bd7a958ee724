"""The built-in model's card tells of the file beside it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.models.catalog import ETUDE_PATH
from tests.etude import card
from tests.etude.card import Training
from tests.etude.dialogues import SKILLS
from tests.etude.exam.figures import Figures, Measured, Row, read_figures, read_log, read_parity

pytestmark = pytest.mark.own_job

CARD = ETUDE_PATH.with_name(card.NAME)


def test_the_card_is_that_of_the_file() -> None:
    data = ETUDE_PATH.read_bytes()
    told = CARD.read_text(encoding="utf-8")
    assert f"{len(data):,} bytes, sha256 `{hashlib.sha256(data).hexdigest()}`" in told
    assert len(data) <= 6_000_000


def test_figures_of_another_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"settings": {"sha256": "a" * 64}}))
    with pytest.raises(ValueError, match=r"expected figures of bbbbbbbbbbbb…, they are of aaaaaaaaaaaa…: eval"):
        read_figures(path, "b" * 64)


def test_parity_of_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "parity.txt"
    path.write_text("all alike\nof sha256 " + "a" * 64 + "\n")
    assert read_parity(path, "a" * 64) == "all alike"
    with pytest.raises(ValueError, match=r"expected parity of bbbbbbbbbbbb…, it is of aaaaaaaaaaaa…: compare"):
        read_parity(path, "b" * 64)
    path.write_text("all alike\n")
    with pytest.raises(ValueError, match="it is of no file"):
        read_parity(path, "a" * 64)


def test_figures_of_two_seeds_are_refused() -> None:
    other = _run("phrasing")
    other = replace(other, settings={**other.settings, "seed": 8})
    with pytest.raises(ValueError, match="expected figures of one seed, they are of 7, 8"):
        _told(_run("values"), other)


def test_the_last_line_of_a_log_counts() -> None:
    line = "{} min, step {}, loss 0.0123, {} M tokens, 3012 a second, {} dialogues of mine, load 2.2\n"
    log = line.format("0.35", 12, "0.06", 600) + "EXAM 6.0 min: exact 0.5\n" + line.format("95.00", 2900, "21.40", 9000)
    assert read_log(log) == {"minutes": 95.0, "steps": 2900.0, "millions": 21.4, "dialogues": 18_000.0}
    with pytest.raises(ValueError, match=r"expected a line as '95\.00 min"):
        read_log("nothing\n")


def _run(unseen: str, temperature: float = 0, failures: dict[str, int] | None = None, **right: int) -> Figures:
    """100 dialogues of each skill, 97 of them right where nothing else is said; `calls`: per cent well-formed."""
    well_formed = right.pop("calls", 100)

    def row(count: int, dialogues: int, percent: float) -> Row:
        found = {"exact": count, "same": count, "dialogues": dialogues}
        return {**found, "calls_well_formed_percent": percent}

    counts = {skill: right.get(skill, 97) for skill in SKILLS}
    rows = {skill: row(count, 100, well_formed if skill == "files" else 100) for skill, count in counts.items()}
    rows["all"] = row(sum(counts.values()), 800, 100 - (100 - well_formed) / 8)
    settings = {"unseen": unseen, "temperature": temperature, "load_ms": 15.8, "seed": 7}
    kinds = {("chat", "who"): row(9, 20, 100), ("chat", "date"): row(19, 20, 100)}
    everyday = {"dialogues": 80, "exact": 78, "same": 79} if unseen == "values" else {}
    return Figures(settings, {"cpu": "x", "cores": 2}, 0.1, rows, kinds, failures or {}, everyday)


_LOG = {"minutes": 95.0, "steps": 2900.0, "millions": 21.4, "dialogues": 18_000.0}
_OUTSIDE = {
    "tools": "none", "questions": 100, "honest_no": 85, "another_no": 4, "search": 1, "wrong_call": 3,
    "wrong_answer": 5, "malformed": 2,
}  # fmt: skip
_TABLES = {
    "in use": [{"skill": "all", "questions": 125, "run_right": 120, "chat_right": 119, "differ": 1}],
    "the README's first command": [{"times": 60, "right": 60}],
}


def _told(*runs: Figures, start: str = "scratch") -> list[str]:
    measured = Measured(runs, {"outside": [_OUTSIDE]}, _TABLES, "all alike")
    return card.card(ETUDE_PATH, measured, Training(_LOG, 1, "2.13.0", start), "None.").splitlines()


def test_the_card_says_which_aims_were_reached_and_missed() -> None:
    hot = _run("phrasing", 1, **(dict.fromkeys(SKILLS, 75) | {"functions": 59}))
    told = _told(_run("values", chat=96), _run("phrasing", calls=90), hot, _run("others", chat=1))
    assert "78 of 80 exact." in told
    assert "llama.cpp beside torch (`parity.py`): all alike." in told
    begin = told.index("Aimed at:") + 2
    assert told[begin : told.index("", begin)] == [
        "* new values, exact: 97 % in each skill: missed in chat (96.0 %).",
        "* new phrasings, exact: 60 % in each skill, 80 % over all: reached.",
        "* new phrasings, temperature 1: 60 % in each skill, 80 % over all: "
        "missed over all (73.0 %) and in functions (59.0 %).",
        "* phrasings of others, exact: 60 % in each skill, 80 % over all: missed in chat (1.0 %).",
        *(
            f"* {run}: 99 % of the calls that it makes well-formed: {how}."
            for run, how in (
                ("new values, exact", "reached (100.00 %)"),
                ("new phrasings, exact", "missed (98.75 %, 90.00 % in files)"),
                ("new phrasings, temperature 1", "reached (100.00 %)"),
                ("phrasings of others, exact", "reached (100.00 %)"),
            )
        ),
    ]


def test_what_it_does_not_follows_from_figures() -> None:
    failures = {"malformed": 1, "argument names": 3, "another tool": 2, "answer is another": 1}
    told = _told(_run("values"), _run("others", chat=1, failures=failures))
    begin = told.index("## What it doesn't") + 2
    lines = told[begin : told.index("", begin)]
    assert lines[0].startswith("* Long results. Its lessons have files of up to 3 lines")
    assert lines[-3:] == [
        '* 100 questions outside of what it knows (tools: none): 85 got "I don\'t know that", 4 another no '
        '("I can\'t …", which may make no sense), 1 a search, 3 a call that makes no sense, 5 a wrong answer, said as '
        "surely as a right one, 2 nothing well-formed.",
        "* phrasings of others, exact: 120 of 800 go wrong, most often: argument names (3), another tool (2), "
        "malformed (1).",
        "* Kinds of dialogues that it gets right less than nine times in ten (new values, exact): chat: who 9 of 20.",
    ]
    assert "* unseen questions: 120 of 125 right through `ossia run`, 119 of 125 in the chat; 1 differ." in told
    assert "* the README's first command: 60 of 60 right." in told


def test_the_card_says_what_the_training_started_from() -> None:
    def row(start: str) -> str:
        return next(line for line in _told(_run("values"), start=start) if line.startswith("| trained"))

    assert row("scratch") == "| trained | from scratch, seed 1: 95 minutes on 2 processor cores (x), torch 2.13.0 |"
    assert row("the model before").startswith("| trained | from the model before, seed 1: 95 minutes")
    earlier = "It didn't begin from nothing"
    assert not any(line.startswith(earlier) for line in _told(_run("values")))
    assert any(line.startswith(earlier) for line in _told(_run("values"), start="the model before"))
