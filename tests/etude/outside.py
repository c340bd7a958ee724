"""What a model says to questions outside of what it knows: `python -m tests.etude.outside agent/models/etude.gguf`.

The questions of `exam/outside.txt`, greedy, each under the prompts that the program makes with no tools, with python,
and with python, the browser and a workspace. An honest no is the étude's "I don't know that", word for word; another
no is any "I can't …", which may name a tool that would be of no use. A call of `browser.search`, where it is on, is
told as a search: it may be right. Every other call is wrong, and so is every other answer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from ossia.agent.engine.base import Engine
from ossia.agent.prompt import compose
from ossia.agent.sessions.session import Session
from ossia.cli.clean import clean
from ossia.cli.runtime.assembly import collect, tools_spec
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.session import fresh_options
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.table import Settings
from ossia.cli.settings.workspace import open_folder
from ossia.harmony.codec import Codec
from ossia.harmony.messages import Message
from ossia.harmony.tokenizer import Tokenizer
from tests.bench.processes import own_home
from tests.bench.report import Report, file_facts, options
from tests.etude.exam import others
from tests.etude.exam.examination import Examiner
from tests.etude.exam.failures import MALFORMED, calls
from tests.etude.exam.figures import sha256_of
from tests.etude.skills.chat import UNKNOWN
from tests.support.engines import GREEDY, load_engine

HONEST, OTHER_NO, SEARCH, WRONG, WRONG_CALL = "honest no", "another no", "search", "wrong answer", "wrong call"
REPLIES = (HONEST, OTHER_NO, SEARCH, WRONG, WRONG_CALL, MALFORMED)

_DATE = "2026-11-22"
_MOST_TOKENS = 200
_MOST_CHARACTERS = 100  # of what it says in the list
_QUIET = Display(quiet=True)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the tools under which it was asked, which of `REPLIES` came, and what it says."""

    tools: str
    question: str
    reply: str
    said: str


def reply(said: Sequence[Message] | None, tools: str) -> str:
    """Which of `REPLIES` it is. None: it is malformed. `tools`: those of the prompt."""
    if not said:
        return MALFORMED
    last = said[-1]
    if calls(last):
        return SEARCH if last.recipient == "browser.search" and "browser" in tools else WRONG_CALL
    if last.text == UNKNOWN:
        return HONEST
    return OTHER_NO if last.text.startswith("I can't ") else WRONG


def prompt_sets(workspace: Path) -> Mapping[str, Settings]:
    """The settings of the three prompts. Nothing is ever run: python needs nothing that confines it."""
    return {
        "none": Settings(no_tools=True),
        "python": Settings(tools=("python",), unconfined=True),
        "python, browser, workspace": Settings(unconfined=True, allow_host=("a.test",), workspace=str(workspace)),
    }


def ask(engine: Engine, questions: Sequence[str], workspace: Path) -> Iterator[Asked]:
    """Every question under every prompt. `workspace`: a folder that the third one may name."""
    examiner = Examiner(engine)
    for tools, settings in prompt_sets(workspace).items():
        prompt = prompter(settings, examiner.tokenizer)
        for question in questions:
            got = examiner.complete(prompt(question), GREEDY, _MOST_TOKENS)
            said = examiner.read(got)
            text = _told(said[-1]) if said else examiner.tokenizer.decode(got)
            yield Asked(tools, question, reply(said, tools), text)


def _told(last: Message) -> str:
    return f"{last.recipient} {last.text}" if calls(last) else last.text


def prompter(settings: Settings, tokenizer: Tokenizer) -> Callable[[str], Sequence[int]]:
    """Makes the ids of a prompt as the program makes them."""
    folder = open_folder(settings) if settings.workspace else None
    resolved = Resolved(settings, {})
    with closing(collect(tools_spec(resolved, folder), resolved, _QUIET, tokenizer)) as tools:
        specs = tools.toolbox.specs
    how = replace(fresh_options(resolved, folder), date=_DATE)
    codec = Codec(tokenizer, recipient_position="channel", replay=True)

    def prompt(question: str) -> Sequence[int]:
        session = Session(how)
        session.open_turn(question)
        return codec.render(compose(session.request(specs)), purpose="completion").ids

    return prompt


def main(argv: Sequence[str] | None = None) -> None:
    """Ask, count, and list what isn't plainly right."""
    parser = options(__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    given = parser.parse_args(argv)
    report = Report("etude outside")
    report.settings |= file_facts(given.model) | {"sha256": sha256_of(given.model)}
    with tempfile.TemporaryDirectory() as folder, closing(load_engine(given.model, context_tokens=4096)) as engine:
        workspace = Path(folder, "work")
        workspace.mkdir()
        os.environ |= own_home(Path(folder, "home"))
        asked = list(ask(engine, others.outside(), workspace))
    count_up(report, asked)
    report.print(as_json=given.json)


def count_up(report: Report, asked: Sequence[Asked]) -> None:
    """A row for each prompt, and one for each reply that is neither an honest no nor a search."""
    for tools in dict.fromkeys(one.tools for one in asked):
        replies = [one.reply for one in asked if one.tools == tools]
        counts = {name.replace(" ", "_"): replies.count(name) for name in REPLIES}
        report.row("outside", tools=tools, questions=len(replies), **counts)
    for one in asked:
        if one.reply not in (HONEST, SEARCH):
            said = clean(" ".join(one.said.split()))[:_MOST_CHARACTERS]
            report.row("other replies", tools=one.tools, reply=one.reply, question=one.question, said=said)


if __name__ == "__main__":
    main()
