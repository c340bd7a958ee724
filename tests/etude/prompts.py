"""The static part of a prompt: the system message and the developer message with the tools that are on."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from ossia.agent.prompt import WORK, compose
from ossia.agent.request import Request
from ossia.harmony.messages import DeveloperPrompt, Effort, Message, ResponseFormat, SystemPrompt
from ossia.harmony.render import declares_functions, developer_text, system_text
from ossia.tools.browser.browser import section_of
from ossia.tools.folder import NOTES_HEAD
from ossia.tools.python.environment import Package, sentence
from ossia.tools.python.tool import DESCRIPTION
from ossia.tools.spec import ToolSpec
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from tests.etude.declared import PURPOSES, Function, Purpose, Schema, Usual, made_name, make_function, make_usual
from tests.etude.words.values import Values

Kind = Literal["structured", "bare"]

_INSTRUCTIONS = (
    "You are a helpful assistant.", "You are a helpful coding agent.", "Use a friendly tone.", "Answer briefly.",
    "You are a command line agent.", "Be concise.", "Always be polite.", "Use the tools when they are needed.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prefix:
    """The static part as text, and what it offers.

    `tools` are the trained tools' sections and the functions' names: `("container", "repo_browser", "get_tide")`.
    `named` says which function is for a purpose here. `fields` are the properties of the answer's schema, `form` which
    kind of one it is.
    """

    text: str
    date: str
    tools: tuple[str, ...] = ()
    named: Mapping[Purpose, Usual] = field(default_factory=dict)
    functions: tuple[Function, ...] = ()
    form: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_python(self) -> bool:
        return "python" in self.tools

    @property
    def has_browser(self) -> bool:
        return "browser" in self.tools

    @property
    def has_files(self) -> bool:
        """The trained tools for a folder's files."""
        return "repo_browser" in self.tools

    @property
    def has_shell(self) -> bool:
        """The trained tool for commands: a folder has it where something confines them."""
        return "container" in self.tools


def make_prefix(values: Values, kind: Kind | None = None) -> Prefix:
    """The start of a prompt; `"structured"` asks for JSON answers, `"bare"` has no tools."""
    trained = _trained(values) if kind is None else ()
    works = any(spec.name.startswith("repo_browser.") for spec in trained)
    named = _usual(values, works=works) if kind is None else {}
    functions = tuple(make_function(values) for _ in range(_how_many(values))) if kind is None else ()
    declared = [*(one.spec for one in named.values()), *(one.spec for one in functions)]
    values.random.shuffle(declared)
    date = (datetime.date(2024, 1, 1) + datetime.timedelta(days=values.random.randrange(1800))).isoformat()
    efforts: tuple[Effort, ...] = ("low", "medium", "medium", "high")
    form, answer, fields = _format(values) if kind == "structured" else (None, None, {})
    told, effort = _instructions(values, works=works), values.one(efforts)
    specs = (*trained, *declared)
    text = rendered(compose(Request((), specs, effort, told, date, answer)))
    sections = sorted({spec.name.partition(".")[0] for spec in trained})
    names = (spec.name.removeprefix("functions.") for spec in declared)
    return Prefix(text, date, (*sections, *names), named, functions, form, fields)


def unknown_function(values: Values, prefix: Prefix) -> Function:
    """A function that isn't declared there, whose name may look like one that is; no plain word, a topic may be one."""
    while True:
        name = made_name(values)
        if prefix.functions and values.chance(0.3):
            name = f"{prefix.functions[0].name.split('_')[0]}_{values.word()}"
        if name not in prefix.tools and not (name.isalpha() and name.islower()):
            return make_function(values, name)


def rendered(messages: Sequence[Message]) -> str:
    """The text of system and developer messages."""
    text, has_functions = "", declares_functions(messages)
    for message in messages:
        match message.content[0]:
            case SystemPrompt() as system:
                text += f"<|start|>system<|message|>{system_text(system, has_functions=has_functions)}<|end|>"
            case DeveloperPrompt() as developer:
                text += f"<|start|>developer<|message|>{developer_text(developer)}<|end|>"
    return text


def _trained(values: Values) -> tuple[ToolSpec, ...]:
    """In the order of the program: browser, python, work in a folder."""
    work, python, browser = values.chance(0.38), values.chance(0.65), values.chance(0.48)
    specs: list[ToolSpec] = []
    if browser:
        sources, default = values.one(((("web",), "web"), (("docs",), "docs"), (("docs", "web"), "web")))
        specs.append(_of_section("browser.search", section_of(sources, default=default)))
    if python:
        specs.append(_of_section("python", _python(values) if values.chance(0.12) else None))
    if work:
        files, shell = _work_specs()
        specs += files if values.chance(0.06) else (*files, shell)
    return tuple(specs)


def _of_section(name: str, section: str | None) -> ToolSpec:
    return ToolSpec(name, "", trained=True, section=section, provenance="built-in")


@cache
def _work_specs() -> tuple[tuple[ToolSpec, ...], ToolSpec]:
    return tuple(tool.spec for tool in workspace_tools()), Exec().spec


def _python(values: Values) -> str:
    """With what can be imported, as where `ossia python setup` made an environment."""
    packages = values.distinct(values.several(1, 5), values.word)
    return f"{DESCRIPTION}\n\n{sentence([Package(name, '1.0') for name in packages])}"


def _instructions(values: Values, *, works: bool) -> str | None:
    own = None
    if values.chance(0.12 if works else 0.4):
        known = values.unseen == "nothing" and values.chance(0.7)
        own = values.one(_INSTRUCTIONS) if known else values.text(3, 12).capitalize() + "."
    if not works:
        return own
    notes = values.chance(0.15)
    return f"{own or WORK}\n\n{NOTES_HEAD}\n\n{_notes(values)}" if notes else own or WORK


def _notes(values: Values) -> str:
    """An AGENTS.md, a short one."""
    head = [f"# {values.phrase(1, 3).capitalize()}", ""] if values.chance(0.5) else []
    return "\n".join([*head, *(f"- {values.text(2, 8)}" for _ in range(values.several(1, 4)))])


def _usual(values: Values, *, works: bool) -> dict[Purpose, Usual]:
    """Somebody's functions for the weather, files and commands; the latter not beside the trained tools."""
    if values.chance(0.6):
        return {}
    offered = PURPOSES[:1] if works else PURPOSES
    return {purpose: make_usual(values, purpose) for purpose in offered if values.chance(0.55)}


def _how_many(values: Values) -> int:
    return values.one((1, 1, 1, 2, 2, 3, 4, 6)) if values.chance(0.5) else 0


def _format(values: Values) -> tuple[str, ResponseFormat, dict[str, str]]:
    form = values.one(("person", "shopping", "event", "pairs", "pairs"))
    name, fields = {
        "person": ("person", {"name": "string", "age": "integer"}),
        "shopping": ("shopping_list", {"items": "array"}),
        "event": ("event", {"title": "string", "city": "string"}),
        "pairs": (values.word(), {key: values.one(("string", "integer")) for key in values.distinct(2, values.word)}),
    }[form]
    properties: Schema = {key: {"type": kind} for key, kind in fields.items()}
    if form == "shopping":
        properties["items"] = {"type": "array", "items": {"type": "string"}}
    schema: Schema = {"type": "object", "properties": properties}
    if values.chance(0.6):
        schema["required"] = list(fields)
    if values.chance(0.3):
        schema["additionalProperties"] = False
    about = f"{values.phrase(1, 4).capitalize()}." if values.chance(0.2) else None
    return form, ResponseFormat(name, schema, about), fields
