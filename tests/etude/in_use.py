"""Unseen questions through the installed program: `python -m tests.etude.in_use agent/models/etude.gguf --count 25`.

So many of each skill whose tools can really be had (`exam/worlds.py`), each through `ossia run --json` and through the
chat in a pseudo-terminal, greedy, with the real tools. Right is what makes the calls that it should, and gives the
answer that follows from what the tool really said. Then the README's first command, `--times` times.
"""

from __future__ import annotations

import datetime
import json
import re
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ossia.agent.sessions.store import SessionStore
from ossia.cli.clean import clean
from ossia.harmony.messages import FINAL, Message
from tests.bench.processes import own_home
from tests.bench.report import Report, file_facts, options
from tests.etude.dialogues import unseen_dialogue
from tests.etude.exam.failures import calls, same
from tests.etude.exam.figures import sha256_of
from tests.etude.exam.worlds import Call, Question, arguments_of, make_question
from tests.etude.words.values import Exam, Values
from tests.support.command import ROOT, ossia
from tests.support.pty import PtyChat

SKILLS = ("arithmetic", "functions", "files", "chat", "refusal")
_SEED = 2424  # other questions than those of tests.etude.evaluate
_TRIES = 40  # dialogues for each question: so many have a world that can't be made
_SAY_EVERY = 10
_MOST_CHARACTERS = 100
_FIRST_COMMAND = re.compile(r'ossia run "([^"\n]+)" +# → (.+)')


@dataclass(frozen=True, slots=True)
class Told:
    """What happened to a question: the calls, what the first one's tool said, the answer."""

    calls: tuple[Call, ...]
    result: str
    answer: str

    def is_right(self, question: Question) -> bool:
        return same(self.calls, question.calls) and self.answer == question.right_answer(self.result)


@dataclass(frozen=True, slots=True)
class Both:
    """A question's two ways."""

    question: Question
    run: Told
    chat: Told

    @property
    def differ(self) -> bool:
        return (self.run.calls, self.run.answer) != (self.chat.calls, self.chat.answer)


def make_questions(skill: str, count: int, unseen: Exam, seed: int) -> Iterator[Question]:
    """At most so many; fewer where few worlds can be made."""
    values, today = Values(seed + zlib.crc32(skill.encode()), unseen), datetime.date.today().isoformat()
    for _ in range(_TRIES * count):
        prefix, dialogue = unseen_dialogue(values, skill)
        question = make_question(prefix, dialogue, today)
        if question is None:
            continue
        yield question
        count -= 1
        if count == 0:
            return


def ask(model: Path, question: Question) -> Both:
    """Put it to both, each in a folder and a home of its own."""
    told = []
    for way in (_run, _chat):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--model", str(model), "--temperature", "0", *question.prepare(Path(folder))]
            told.append(way(question.text, flags, Path(folder, "home")))
    return Both(question, *told)


def _run(text: str, flags: Sequence[str], home: Path) -> Told:
    line = json.loads(ossia("run", "--json", *flags, "--", text, env=own_home(home)).stdout)
    made = tuple((call["name"], arguments_of(call["name"], call["arguments"])) for call in line["calls"])
    return Told(made, line["calls"][0]["result"] if made else "", line["answer"] or "")


def _chat(text: str, flags: Sequence[str], home: Path) -> Told:
    with PtyChat(*flags, environ=own_home(home)) as chat:
        chat.idle()
        chat.sent = b""
        chat.press(f"{text}\r")
        chat.over()
        chat.press("\x04")
        chat.wait()
    (path,) = home.rglob("sessions.sqlite")
    store = SessionStore(path, now=time.time)
    try:
        (kept,) = store.list()
        return _of(store.load(kept.id).messages)
    finally:
        store.close()


def _of(messages: Sequence[Message]) -> Told:
    said = [one for one in messages if one.role == "assistant"]
    made = tuple((one.recipient or "", arguments_of(one.recipient, one.text)) for one in said if calls(one))
    results = [one.text for one in messages if one.role == "tool"]
    return Told(made, results[0] if results else "", "".join(one.text for one in said if one.channel == FINAL))


def first_command(model: Path, times: int) -> int:
    """How often the README's first command says what the README says."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = _FIRST_COMMAND.search(page)
    assert found
    right = 0
    for _ in range(times):
        with tempfile.TemporaryDirectory() as home:
            done = ossia("run", found[1], "--model", str(model), env=own_home(Path(home)))
            right += done.stdout.decode().strip() == found[2].strip()
    return right


def count_up(report: Report, asked: Sequence[Both]) -> None:
    """A row for each skill, one for all, and one for each answer that is wrong."""
    for skill in (*dict.fromkeys(one.question.skill for one in asked), "all"):
        those = [one for one in asked if skill in (one.question.skill, "all")]
        report.row(
            "in use",
            skill=skill,
            questions=len(those),
            run_right=sum(one.run.is_right(one.question) for one in those),
            chat_right=sum(one.chat.is_right(one.question) for one in those),
            differ=sum(one.differ for one in those),
        )
    for one in asked:
        for way, told in (("run", one.run), ("chat", one.chat)):
            if not told.is_right(one.question):
                wanted = _shown(one.question.calls, one.question.right_answer(told.result))
                cells = {"wanted": wanted, "told": _shown(told.calls, told.answer)}
                report.row("wrong", skill=one.question.skill, way=way, question=_short(one.question.text), **cells)


def _shown(made: Sequence[Call], answer: str) -> str:
    return _short(" → ".join([*(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in made), answer]))


def _short(text: str) -> str:
    return clean(" ".join(text.split()))[:_MOST_CHARACTERS]


def main(argv: Sequence[str] | None = None) -> None:
    """Ask, count, and list what is wrong."""
    parser = options(__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--count", type=int, default=25, help="questions of each skill [25]")
    parser.add_argument("--unseen", choices=get_args(Exam), default="values", help="what is new [values]")
    parser.add_argument("--skill", action="append", choices=SKILLS, help="this one only; repeatable")
    parser.add_argument("--seed", type=int, default=_SEED, help=f"of the questions [{_SEED}]")
    parser.add_argument("--times", type=int, default=60, help="of the README's first command [60]")
    given = parser.parse_args(argv)
    model = given.model.resolve()
    report = Report("etude in use")
    report.settings |= file_facts(model) | {name: getattr(given, name) for name in ("count", "unseen", "seed")}
    report.settings["sha256"] = sha256_of(model)
    skills = [skill for skill in SKILLS if not given.skill or skill in given.skill]
    questions = [one for skill in skills for one in make_questions(skill, given.count, given.unseen, given.seed)]
    asked: list[Both] = []
    for question in questions:
        asked.append(ask(model, question))
        if len(asked) % _SAY_EVERY == 0:
            report.say(f"{len(asked)} of {len(questions)}")
    count_up(report, asked)
    report.row("the README's first command", times=given.times, right=first_command(model, given.times))
    report.print(as_json=given.json)


if __name__ == "__main__":
    main()
