"""The static part of a prompt: the system message and the developer message with the tools that are on."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from agent.adapt import as_namespaces
from agent.prompt import DATA
from harmony.builtins import BROWSER, PYTHON
from harmony.messages import DeveloperPrompt, Effort, FunctionDecl, Namespace, ResponseFormat, SystemPrompt
from harmony.render import developer_text, system_text
from tests.etude.values import Values
from tools.browser.browser import section_of
from tools.work.apply_patch import ApplyPatch
from tools.work.grep import Grep
from tools.work.list_dir import ListDir
from tools.work.read_file import ReadFile
from tools.work.shell import ShellTool
from tools.work.write_file import WriteFile

Purpose = Literal["weather", "list", "read", "shell"]
Kind = Literal["structured", "bare"]

PURPOSES: tuple[Purpose, ...] = ("weather", "list", "read", "shell")
SHIPPED: Mapping[Purpose, str] = {"list": "list_dir", "read": "read_file", "shell": "shell"}
"""What ossia's own functions are called; others do the same under other names."""

_OTHER_NAMES: Mapping[Purpose, tuple[str, ...]] = {
    "weather": ("get_current_weather", "get_weather", "weather", "weather_in", "current_weather", "look_up_weather"),
    "list": ("list_files", "list_folder", "dir", "show_dir", "ls", "folder_files", "list_directory", "files_in"),
    "read": ("read", "cat", "open_file", "view_file", "read_text", "show_file", "get_file", "file_text"),
    "shell": ("run", "bash", "execute", "run_shell", "run_command", "sh", "exec_command", "terminal"),
}
_DESCRIPTIONS: Mapping[Purpose, tuple[str, ...]] = {
    "weather": ("Gets the current weather in the provided location.", "Gets the weather.", "The weather of a city."),
    "list": ("Lists the files in a directory.", "List a directory.", "Lists a folder."),
    "read": ("Reads a text file.", "Read a file.", "Gives the text of a file."),
    "shell": ("Runs a shell command and returns its output.", "Run a command.", "Runs a command in the shell."),
}
_ARGUMENT: Mapping[Purpose, str] = {"weather": "location", "list": "path", "read": "path", "shell": "command"}
_INSTRUCTIONS = (
    "You are a helpful assistant.", "You are a helpful coding agent.", "Use a friendly tone.", "Answer briefly.",
    "You are a command line agent.", "Be concise.", "Always be polite.", "Use the tools when they are needed.",
)  # fmt: skip
_VERBS = ("get", "find", "set", "lookup", "make", "send", "open", "check", "add", "count")
_TYPES = ("string", "string", "integer", "number", "boolean")

Schema = dict[str, object]


@dataclass(frozen=True, slots=True)
class Function:
    """A function that nobody has heard of: `Function("get_harbor", {"room": "string", "level": "integer"})`."""

    name: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The static part as text, and what it offers.

    `named` says what the function for a purpose is called here: `{"read": "read_file"}`. `fields` are the properties of
    the answer's schema, `form` which kind of one it is.
    """

    text: str
    date: str
    tools: tuple[str, ...] = ()
    named: Mapping[Purpose, str] = field(default_factory=dict)
    functions: tuple[Function, ...] = ()
    form: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_python(self) -> bool:
        return "python" in self.tools

    @property
    def has_browser(self) -> bool:
        return "browser" in self.tools


@cache
def shipped_functions() -> dict[str, FunctionDecl]:
    """What `--workspace` offers the model, as `tools/functions/` declares it, by name and in that order."""
    specs = [tool.spec for tool in (ReadFile(), ListDir(), Grep(), WriteFile(), ApplyPatch(), ShellTool())]
    return {function.name: function for function in as_namespaces(specs)[1]["functions"].functions}


def make_prefix(values: Values, kind: Kind | None = None) -> Prefix:
    """The start of a prompt; `"structured"` asks for JSON answers, `"bare"` has no tools."""
    python = kind is None and values.chance(0.6)
    browser = kind is None and values.chance(0.5)
    named, declared = _purposes(values) if kind is None else ({}, [])
    functions = tuple(_function(values) for _ in range(_how_many(values))) if kind is None else ()
    declared += [_declaration(values, function) for function in functions if function.name not in named.values()]
    if not (set(SHIPPED.values()) <= set(named.values())):
        values.random.shuffle(declared)
    date = (datetime.date(2024, 1, 1) + datetime.timedelta(days=values.random.randrange(1800))).isoformat()
    sections = {**({"browser": _browser(values)} if browser else {}), **({"python": PYTHON} if python else {})}
    efforts: tuple[Effort, ...] = ("low", "medium", "medium", "high")
    form, answer, fields = _format(values) if kind == "structured" else (None, None, {})
    system = SystemPrompt(effort=values.one(efforts), date=date, tools=sections or None)
    text = f"<|start|>system<|message|>{system_text(system, has_functions=bool(declared))}<|end|>"
    told = _instructions(values, reads=browser or bool(declared))
    if told or declared or answer:
        namespaces = {"functions": Namespace("functions", None, tuple(declared))} if declared else None
        developer = DeveloperPrompt(told, namespaces, (answer,) if answer else ())
        text += f"<|start|>developer<|message|>{developer_text(developer)}<|end|>"
    tools = (*(key for key in ("browser", "python") if key in sections), *(function.name for function in declared))
    return Prefix(text, date, tools, named, functions, form, fields)


def _instructions(values: Values, *, reads: bool) -> str | None:
    parts: list[str] = []
    if values.chance(0.4):
        known = values.unseen == "nothing" and values.chance(0.7)
        parts.append(values.one(_INSTRUCTIONS) if known else values.text(3, 12).capitalize() + ".")
    if reads and values.chance(0.9):
        parts.append(DATA)
    return "\n\n".join(parts) or None


def _browser(values: Values) -> Namespace:
    sources, default = values.one(((("web",), "web"), (("docs",), "docs"), (("docs", "web"), "web")))
    return Namespace("browser", section_of(sources, default=default), BROWSER.functions)


def _purposes(values: Values) -> tuple[dict[Purpose, str], list[FunctionDecl]]:
    """The functions of known purpose: those of a workspace, all or some of them, or somebody else's."""
    kind = values.random.random()
    shipped = shipped_functions()
    if kind < 0.3:
        return {}, []
    if kind < 0.45:
        named: dict[Purpose, str] = dict(SHIPPED)
        return named, list(shipped.values())
    named, declared = {}, []
    for purpose in PURPOSES:
        if not values.chance(0.55):
            continue
        if purpose in SHIPPED and values.chance(0.6):
            named[purpose] = SHIPPED[purpose]
            declared.append(shipped[SHIPPED[purpose]])
        else:
            named[purpose] = _name(values, purpose)
            declared.append(_of_purpose(values, purpose, named[purpose]))
    declared += [shipped[name] for name in ("grep", "write_file", "apply_patch") if values.chance(0.06)]
    return named, declared


def _name(values: Values, purpose: Purpose) -> str:
    names = _OTHER_NAMES[purpose]
    return values.one(names[3::4]) if values.unseen == "phrasing" else values.one(
        [name for place, name in enumerate(names) if place % 4 != 3]
    )  # fmt: skip


def _of_purpose(values: Values, purpose: Purpose, name: str) -> FunctionDecl:
    told = values.one(_DESCRIPTIONS[purpose])
    if values.unseen == "nothing" and values.chance(0.1):
        told = f"{told} {values.phrase(2, 5).capitalize()}."
    properties: dict[str, object] = {_ARGUMENT[purpose]: {"type": "string"}}
    if purpose == "weather":
        if values.chance(0.5):
            properties["location"] = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
        units: Schema = {"type": "string", "enum": ["celsius", "fahrenheit"]}
        properties["format"] = {**units, "default": "celsius"} if values.chance(0.7) else units
    elif values.chance(0.3):
        properties[values.one(("limit", "timeout", "depth"))] = {"type": "integer"}
    schema: Schema = {"type": "object", "properties": properties, "required": [_ARGUMENT[purpose]]}
    return FunctionDecl(name, told, schema)


def _how_many(values: Values) -> int:
    return values.one((1, 1, 2, 3)) if values.chance(0.45) else 0


def _function(values: Values) -> Function:
    count = values.random.choices((0, 1, 2, 3), (1, 5, 3, 0.7))[0]
    names = values.distinct(count, values.word)
    verb = values.one(_VERBS) if values.unseen != "phrasing" else values.word()
    name = f"{verb}_{values.word()}" if values.chance(0.8) else values.word()
    if values.chance(0.1):
        name = f"{values.word()}__{name}"  # as an MCP server's are called
    return Function(name, {argument: values.one(_TYPES) for argument in names})


def unknown_function(values: Values, prefix: Prefix) -> Function:
    """A function that isn't declared there, whose name may look like one that is."""
    while True:
        function = _function(values)
        if prefix.functions and values.chance(0.3):
            name = f"{prefix.functions[0].name.split('_')[0]}_{values.word()}"
            function = Function(name, function.arguments)
        if function.name not in prefix.tools:
            return function


def _declaration(values: Values, function: Function) -> FunctionDecl:
    told = f"{values.phrase(2, 5).capitalize()}." if values.chance(0.85) else ""
    if not function.arguments:
        return FunctionDecl(function.name, told)
    properties: dict[str, object] = {}
    for name, kind in function.arguments.items():
        about: Schema = {"description": f"{values.phrase(1, 4).capitalize()}."} if values.chance(0.15) else {}
        properties[name] = {"type": kind, **about}
    if values.chance(0.15):  # one that nobody has to give
        properties.setdefault(values.word(), {"type": values.one(_TYPES)})
    schema: Schema = {"type": "object", "properties": properties, "required": list(function.arguments)}
    return FunctionDecl(function.name, told, schema)


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
