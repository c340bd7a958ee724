"""What a model says to questions outside of what it knows: `python -m tests.etude.outside agent/models/etude.gguf`.

The questions of `exam/outside.txt`, greedy, each under the prompts that the program makes with no tools, with python,
and with python, the browser and a workspace. An honest no is the étude's "I don't know that", or that it can't do it
without a tool. A call is just told as one: to search the web may be right. All else is wrong, or malformed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from agent.engine.base import Engine
from agent.prompt import compose
from agent.sessions.session import Session
from cli.clean import clean
from cli.runtime.options import fresh_options
from cli.runtime.progress import Display
from cli.runtime.toolset import collect
from cli.settings.config import Resolved
from cli.settings.table import Settings
from cli.settings.workspace import open_folder
from harmony.codec import Codec
from harmony.messages import Message
from harmony.tokenizer import Tokenizer
from tests.bench.processes import own_home
from tests.bench.report import Report, file_facts, options
from tests.etude.exam import others
from tests.etude.exam.examination import Examiner
from tests.etude.exam.failures import MALFORMED, calls
from tests.support.engines import GREEDY, load_engine

HONEST, CALL, WRONG = "honest no", "call", "wrong answer"
REPLIES = (HONEST, CALL, WRONG, MALFORMED)

_DATE = "2026-11-22"
_MOST_TOKENS = 200
_MOST_CHARACTERS = 100  # of what it says in the list
_QUIET = Display(terminal=False, asides=False, lively=False, thinking=False, colour=False, verbose=False, quiet=True)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the tools under which it was asked, which of `REPLIES` came, and its text."""

    tools: str
    question: str
    reply: str
    said: str


def reply(said: Sequence[Message] | None) -> str:
    """Which of `REPLIES` it is. None: it is malformed."""
    if not said:
        return MALFORMED
    if calls(said[-1]):
        return CALL
    text = said[-1].text
    return HONEST if text.startswith("I can't ") or "I don't know that" in text else WRONG


def prompt_sets(workspace: Path) -> Mapping[str, Settings]:
    """The settings of the three prompts. Nothing is ever run: python needs nothing that confines it."""
    return {
        "none": Settings(no_tools=True),
        "python": Settings(tools=("python",), unconfined=True),
        "python, browser, workspace": Settings(unconfined=True, workspace=str(workspace)),
    }


def ask(engine: Engine, questions: Sequence[str], workspace: Path) -> Iterator[Asked]:
    """Every question under every prompt. `workspace`: a folder that the third one may name."""
    examiner = Examiner(engine)
    for tools, settings in prompt_sets(workspace).items():
        prompt = prompter(settings, examiner.tokenizer)
        for question in questions:
            got = examiner.complete(prompt(question), GREEDY, _MOST_TOKENS)
            said = examiner.read(got)
            text = said[-1].text if said else examiner.tokenizer.decode(got)
            yield Asked(tools, question, reply(said), text)


def prompter(settings: Settings, tokenizer: Tokenizer) -> Callable[[str], Sequence[int]]:
    """Makes the ids of a prompt as the program makes them."""
    folder = open_folder(settings) if settings.workspace else None
    resolved = Resolved(settings, {})
    with closing(collect(resolved, folder, _QUIET, tokenizer)) as tools:
        specs = tools.toolbox.specs
    how = replace(fresh_options(resolved, folder), date=_DATE)
    codec = Codec(tokenizer, recipient_position="channel", replay=True)

    def prompt(question: str) -> Sequence[int]:
        session = Session(how)
        session.open_turn(question)
        return codec.render(compose(session.request(specs)), purpose="completion").ids

    return prompt


def main(argv: Sequence[str] | None = None) -> None:
    """Ask, count, and list what is wrong."""
    parser = options(__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    given = parser.parse_args(argv)
    report = Report("etude outside")
    report.settings |= file_facts(given.model)
    report.settings["sha256"] = hashlib.sha256(given.model.read_bytes()).hexdigest()
    with tempfile.TemporaryDirectory() as folder, closing(load_engine(given.model, context_tokens=4096)) as engine:
        workspace = Path(folder, "work")
        workspace.mkdir()
        os.environ |= own_home(Path(folder, "home"))
        asked = list(ask(engine, others.outside(), workspace))
    count_up(report, asked)
    report.print(as_json=given.json)


def count_up(report: Report, asked: Sequence[Asked]) -> None:
    """A row for each prompt, and one for each answer that is wrong."""
    for tools in dict.fromkeys(one.tools for one in asked):
        replies = [one.reply for one in asked if one.tools == tools]
        counts = {name.replace(" ", "_"): replies.count(name) for name in REPLIES}
        report.row("outside", tools=tools, questions=len(replies), **counts)
    for one in asked:
        if one.reply in (WRONG, MALFORMED):
            said = clean(" ".join(one.said.split()))[:_MOST_CHARACTERS]
            report.row("wrong", tools=one.tools, reply=one.reply, question=one.question, said=said)


if __name__ == "__main__":
    main()
