"""A transcript of each skill, as the model card shows it: `python -m tests.etude.transcripts MODEL.gguf`.

Every question is asked through the installed command, with the real tools: confined python, a folder, a file of
functions, a web site and a search service on loopback. Only a JSON answer is asked for in this process: the command's
`--schema` would hold the model to it. Greedy. None of these questions is in the training data (`reserved.py` collects
them, too).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ossia.agent.control import Control
from ossia.agent.engine.base import Sampling
from ossia.agent.limits import Limits
from ossia.agent.loop import run_turn
from ossia.agent.respond import LocalResponder
from ossia.agent.sessions.session import Options, Session
from ossia.harmony.codec import Codec
from ossia.harmony.messages import Message, ResponseFormat
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.policy import Policy
from ossia.tools.spec import NoStop, ToolContext
from ossia.tools.toolbox import Toolbox
from tests.support.command import ossia
from tests.support.engines import load_engine
from tests.support.site import Site

FUNCTIONS = '''\
from typing import Literal


def get_current_weather(location: str, format: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, object]:
    """Gets the current weather in the provided location."""
    return {"temperature": 17, "condition": "windy", "unit": format}


def set_lamp(room: str, level: int) -> str:
    """Dims a lamp."""
    return f"the lamp of the {room} is at {level}"
'''
FILES = {
    "todo.txt": "water the ferns and call the plumber",
    "recipes/bread.md": "Flour, water, salt.\nRest for nine hours.",
    "recipes/soup.md": "Carrots and ginger.",
}
PAGES = {
    "blue-heron": "The marsh is quiet at dawn.\nblue heron is a tall wading bird.\nBoats leave at nine.\n",
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
EVENT = {"type": "object", "properties": {"title": {"type": "string"}, "city": {"type": "string"}}}

_TOLD = frozenset((0, 5, 6))  # exit codes: answered, too many steps, cut; a model that fails is shown as it fails
_LONGEST = 600  # characters: one that goes round in a circle fills its context

Flags = Literal["none", "python", "functions", "folder", "web"]


@dataclass(frozen=True, slots=True)
class Scene:
    """A conversation of the card: what is on, and what is asked, a question a turn."""

    skill: str
    flags: Flags
    questions: tuple[str, ...]
    answer: ResponseFormat | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One thing of a transcript: `Line("call", "print(48*17)", "python")`. `name` is a tool's."""

    kind: Literal["user", "thinking", "call", "result", "answer"]
    text: str
    name: str = ""


SCENES = (
    Scene("arithmetic", "python", ("What is (1204 - 377) * 16?",)),
    Scene("arithmetic", "python", ("How much is 98765 divided by 12?",)),
    Scene("functions", "functions", ("What is the weather in Ljubljana?",)),
    Scene("functions", "functions", ("Call set_lamp with room kitchen and level 40.",)),
    Scene("files", "folder", ("List the files in recipes.", "Read recipes/bread.md.")),
    Scene("files", "folder", ("What is in todo.txt?",)),
    Scene("files", "folder", ("Show me the tree of recipes",)),
    Scene("files", "folder", ("Search recipes for ginger",)),
    Scene("files", "folder", ("Run wc -w todo.txt",)),
    Scene("files", "folder", ("Write call the baker to the file list.txt", "Read list.txt.")),
    Scene("files", "folder", ("Read plums.txt.",)),
    Scene("browser", "web", ("Search the web for blue heron.",)),
    Scene("structured", "none", ("My friend Wilhelmina is 47.",), ResponseFormat("person", PERSON)),
    Scene("structured", "none", ("There is a jazz concert in Ljubljana.",), ResponseFormat("event", EVENT)),
    Scene("chat", "none", ("Hello there!", "Who are you?", "Repeat after me: small boats sail at dawn")),
    Scene("chat", "none", ("Why is the sky blue?",)),
    Scene("chat", "functions", ("Which tools can you use?",)),
    Scene("followup", "python", ("What is 7351*88?", "Now add 1000.", "Divide that by 7.")),
    Scene("followup", "none", ("My name is Wilhelmina.", "What is my name?")),
    Scene("refusal", "none", ("What is 7351*88?",)),
    Scene("refusal", "python", ("Search the web for blue heron.",)),
)


def play_all(model: Path) -> Iterator[tuple[Scene, list[Line]]]:
    """Each scene with what happened. Raises RuntimeError when a command fails."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = _World(folder, stack.enter_context(Site()))
        for number, scene in enumerate(SCENES):
            home = folder / f"home{number}"
            home.mkdir()
            yield scene, _structured(scene, model) if scene.answer else world.play(scene, model, home)


def markdown(played: Sequence[tuple[Scene, list[Line]]]) -> str:
    """The transcripts as a part of a page, under a heading for each skill."""
    parts: list[str] = []
    for number, (scene, lines) in enumerate(played):
        if number == 0 or played[number - 1][0].skill != scene.skill:
            parts.append(f"### {scene.skill}")
        parts.append("```text\n" + "\n".join(_shown(line) for line in lines) + "\n```")
    return "\n\n".join(parts) + "\n"


def _shown(line: Line) -> str:
    label = line.kind if line.kind != "call" else line.name.removeprefix("functions.")
    text = line.text if len(line.text) <= _LONGEST else f"{line.text[:_LONGEST]} …"
    first, *rest = text.rstrip("\n").split("\n")
    return "\n".join([f"{label:<11} {first}".rstrip(), *(f"{'':<12}{one}".rstrip() for one in rest)])


class _World:
    """What the tools find: files, functions, a site; and the flags that turn them on."""

    def __init__(self, folder: Path, site: Site) -> None:
        self._site = site
        self._workspace, functions = folder.resolve() / "workspace", folder / "home.py"
        for name, text in FILES.items():
            (self._workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (self._workspace / name).write_text(text + "\n", encoding="utf-8")
        functions.write_text(FUNCTIONS, encoding="utf-8")
        self._serve()
        self._flags: dict[Flags, list[str]] = {
            "none": ["--no-tools"],
            "python": ["--tools", "python"],
            "functions": ["--tools", str(functions)],
            "folder": ["--workspace", str(self._workspace), "--yes"],
            "web": ["--tools", "browser", "--web", site.url("/"), "--allow-host", str(site.at())],
        }

    def _serve(self) -> None:
        results = []
        for name, text in PAGES.items():
            self._site.page(f"/{name}", text, type="text/plain")
            title = name.replace("-", " ")
            results.append({"title": title, "url": self._site.url(f"/{name}"), "content": "about it"})
        self._site.json("/search", {"results": results})

    def play(self, scene: Scene, model: Path, home: Path) -> list[Line]:
        """Ask the questions one after the other, in one stored session."""
        env = {"HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home), "OSSIA_CONFIG": ""}
        lines: list[Line] = []
        for question in scene.questions:
            on = ["--save"] if not lines else ["--continue"]
            flags = ["--model", str(model), "--temperature", "0", "--json", *on, *self._flags[scene.flags]]
            done = ossia("run", question, *flags, env=env)
            if done.returncode not in _TOLD:
                raise RuntimeError(f"expected an answer to {question!r}: {done.stderr.decode()}")
            lines += self._lines(json.loads(done.stdout))
        return lines

    def _lines(self, told: dict[str, Any]) -> list[Line]:
        """What `--json` tells of a turn. The site's port, another one each time, reads 8080; the folder ~/notes."""
        lines = []
        for message in told["messages"]:
            text = "".join(part["text"] for part in message["content"]).replace(f":{self._site.port}", ":8080")
            text = text.replace(str(self._workspace), "~/notes")
            line = _line(message["role"], text, message.get("channel"), message.get("recipient"), message["name"])
            lines.append(line)
        return lines


def _line(role: str, text: str, channel: str | None, recipient: str | None, name: str | None) -> Line:
    if role == "user":
        return Line("user", text)
    if role == "tool":
        return Line("result", text, name or "")
    if recipient:
        return Line("call", text, recipient)
    return Line("thinking" if channel == "analysis" else "answer", text)


def _structured(scene: Scene, model: Path) -> list[Line]:
    engine = load_engine(model)
    try:
        tokenizer = Tokenizer(engine.vocabulary)
        responder = LocalResponder(Codec(tokenizer, recipient_position="channel", replay=True), engine)
        session = Session(Options(date="2026-11-22", response_format=scene.answer, sampling=Sampling(temperature=0)))
        context = ToolContext(NoStop(), None, Path(os.devnull), lambda text: len(tokenizer.encode(text)))
        tools = Toolbox((), policy=Policy(()), context=context)
        for question in scene.questions:
            for _ in run_turn(session, question, responder=responder, tools=tools, limits=Limits(), control=Control()):
                pass
        return [_of(message) for message in session.messages]
    finally:
        engine.close()


def _of(message: Message) -> Line:
    return _line(message.role, message.text, message.channel, message.recipient, message.name)


def main() -> None:
    """Print the transcripts as Markdown."""
    arguments = argparse.ArgumentParser(description="Transcripts of each skill, as Markdown.")
    arguments.add_argument("model", type=Path, help="a GGUF file")
    print(markdown(list(play_all(arguments.parse_args().model.resolve()))), end="")


if __name__ == "__main__":
    main()
