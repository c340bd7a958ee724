"""Functions as prompts declare them: such as nobody has heard of, and such as many have, under names of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ossia.tools.spec import ToolSpec
from tests.etude.words.values import Values
from tests.etude.words.wording import filled

Kind = Literal["string", "integer", "number", "boolean", "choice", "list"]
Purpose = Literal["weather", "list", "read", "shell"]
Schema = dict[str, object]

PURPOSES: tuple[Purpose, ...] = ("weather", "list", "read", "shell")

_KINDS: Mapping[Kind, float] = {"string": 9, "integer": 4, "number": 2, "boolean": 2, "choice": 2, "list": 2.5}
_COUNTS: Mapping[int, float] = {0: 1, 1: 4, 2: 3, 3: 1.5, 4: 0.5}
_HARDER_KINDS = {**_KINDS, "list": 4}
_HARDER_COUNTS = {**_COUNTS, 3: 2, 4: 1.2}
"""Of training: what an exam has goes wrong most often with lists and with four arguments."""

_VERBS = (
    "get", "find", "set", "lookup", "make", "send", "open", "check", "add", "count", "list", "read", "run", "show",
    "create", "delete", "update", "fetch", "start", "stop", "move", "save", "load", "search",
)  # fmt: skip
_COMMON = (
    "path", "query", "id", "text", "name", "limit", "city", "command", "location", "file", "user", "title", "to", "to",
    "from",
)  # fmt: skip
"""What arguments are often called, whatever they are for."""

_NAMES: Mapping[Purpose, tuple[str, ...]] = {
    "weather": ("get_current_weather", "get_weather", "weather", "weather_in", "current_weather", "look_up_weather"),
    "list": ("list_files", "list_folder", "dir", "show_dir", "ls", "folder_files", "list_directory", "files_in"),
    "read": ("read", "cat", "read_file", "view_file", "read_text", "show_file", "get_file", "file_text"),
    "shell": ("run", "bash", "execute", "run_shell", "run_command", "sh", "exec_command", "terminal"),
}
_GETS = "Get|Gets|Look up|Looks up|Fetch|Fetches|Returns|Return|Show|Shows|Find|Finds|Gives|Tells"
_PLACE = (
    "[| in a city| of a city| for a city| of a place| in the given location| in the provided location| for a location"
    "| at a place| in a town]"
)
_DESCRIPTIONS: Mapping[Purpose, tuple[str, ...]] = {
    "weather": (
        f"[{_GETS}] [|the ][|current ]weather[| conditions| report]{_PLACE}[.|]",
        f"[|The |Current |The current |Today's ]weather{_PLACE}[.|]", f"Weather{_PLACE}[.|]",
        "[Tells|Says|Shows] [what the weather is like|how the weather is][| in a city| in a place][.|]",
        "What the weather is[| like][| in a city| in a town| somewhere][.|]",
    ),
    "list": (
        f"[List|Lists|{_GETS}] [|all |the |all the ]files [in|of|inside] "
        "[a|the|some|the given] [directory|folder|path][.|]",
        "[List|Lists] [a|the] [directory|folder][.|]", "[Names|Gives|Shows] [the files of a folder|all files][.|]",
        "[List|Lists|The] files[| here][.|]", "[What is|Which files are] in a [folder|directory][.|]",
    ),
    "read": (
        "[Read|Reads|Open|Opens] [a|the|some] [|text ]file[| and returns its text| from disk][.|]",
        "[Gives|Returns|Shows|Get|Fetch] the [text|contents|content] of [a|the|some] file[.|]",
        "[Shows|Tells|Says] what a file [contains|says][.|]", "[Read|Reads] [|the ]text from a file[.|]",
        "[|The ][contents|text] of a file[.|]",
    ),
    "shell": (
        "[Run|Runs|Execute|Executes] [a|the|any|some] [|shell ][command|command line]"
        "[| and returns its output| in the shell| with bash][.|]",
        "[Gives|Returns|Shows|Get] the output of a [|shell ]command[.|]",
        "[Run|Runs|Execute] commands[| in a shell][.|]", "[A|The] [shell|terminal|command line][.|]",
    ),
}  # fmt: skip
"""Frames of what each of them says it does."""
_ARGUMENTS: Mapping[Purpose, tuple[str, ...]] = {
    "weather": ("location", "location", "city", "place", "town"),
    "list": ("path", "folder", "directory", "dir"),
    "read": ("path", "file", "filename", "file_path"),
    "shell": ("command", "cmd", "script", "line"),
}
_UNITS = ("celsius", "fahrenheit")
_SPARE = ("limit", "timeout", "depth")
_FORMATS = ("format", "format", "unit", "units")


@dataclass(frozen=True, slots=True)
class Argument:
    """`choices` are those of a "choice". One that isn't `required` is given only when it is asked for."""

    kind: Kind
    choices: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True, slots=True)
class Function:
    """A function that nobody has heard of: `get_harbor`, or `home__getHarbor` of an MCP server's."""

    spec: ToolSpec
    arguments: Mapping[str, Argument]

    @property
    def name(self) -> str:
        return self.spec.name.removeprefix("functions.")


@dataclass(frozen=True, slots=True)
class Usual(Function):
    """A function for a purpose. `argument` is what it calls the city, file, folder or command, `format` the unit."""

    argument: str
    format: str | None = None


def make_function(values: Values, name: str | None = None) -> Function:
    """A function with a name that no other has, and up to four arguments."""
    counts = _HARDER_COUNTS if values.unseen == "nothing" else _COUNTS
    count = values.random.choices(list(counts), list(counts.values()))[0]
    keys = values.distinct(count, lambda: _key(values))
    arguments = {key: _argument(values) for key in keys}
    while any(not set(keys).isdisjoint(one.choices) for one in arguments.values()):  # a value that is a name, too
        arguments = {key: _argument(values) for key in keys}
    name = name or made_name(values)
    return Function(_spec(name, _told(values), _schema(values, arguments, mcp="__" in name)), arguments)


def make_usual(values: Values, purpose: Purpose) -> Usual:
    """A function for a purpose, half the time under a name that tells nothing. Its argument is called as it likes."""
    name = made_name(values) if values.chance(0.5) else _known_name(values, purpose)
    argument = values.word() if values.chance(0.3) else values.one(_ARGUMENTS[purpose])
    properties: dict[str, object] = {argument: {"type": "string"}}
    format_key = None
    if purpose == "weather":
        if values.chance(0.4):
            properties[argument] = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
        if values.chance(0.7):
            format_key = values.one([one for one in _FORMATS if one != argument])
            units: Schema = {"type": "string", "enum": list(_UNITS)}
            properties[format_key] = {**units, "default": "celsius"} if values.chance(0.7) else units
    elif values.chance(0.3):
        properties[values.one([one for one in _SPARE if one != argument])] = {"type": "integer"}
    told = filled(values, values.one(_DESCRIPTIONS[purpose]))
    if values.unseen == "nothing" and values.chance(0.1):
        told = f"{told} {values.phrase(2, 5).capitalize()}."
    schema: Schema = {"type": "object", "properties": properties, "required": [argument]}
    arguments = {argument: Argument("string")}
    if format_key:
        arguments[format_key] = Argument("choice", _UNITS, required=False)
    return Usual(_spec(name, told, schema), arguments, argument, format_key)


def made_name(values: Values) -> str:
    """`"get_harbor"`, `"paintRiverFast"`, `"tide2"`, `"mill__open_gate"`: made anew each time."""
    verb = values.unseen != "phrasing" and values.chance(0.4)
    parts = [values.one(_VERBS) if verb else values.word(), *(values.word() for _ in range(values.one((1, 1, 1, 2))))]
    kind = values.random.random()
    if kind < 0.1:
        name = "".join(parts)
    elif kind < 0.28:
        name = parts[0] + "".join(part.capitalize() for part in parts[1:])
    else:
        name = "_".join(parts)
    if values.chance(0.1):
        name += f"{values.one(('', '_', '_v'))}{values.several(1, 99)}"
    if values.chance(0.2):
        name = f"{values.word()}{values.one(('', '', '2', '_mcp'))}__{name}"  # as an MCP server's are called
    return name


def _known_name(values: Values, purpose: Purpose) -> str:
    """Every fourth one is kept for evaluation."""
    new = values.unseen == "phrasing"
    return values.one([name for place, name in enumerate(_NAMES[purpose]) if (place % 4 == 3) is new])


def _key(values: Values) -> str:
    if values.chance(0.15):
        return values.one(_COMMON)
    if values.chance(0.8):
        return values.word()
    first, second = values.word(), values.word()
    return f"{first}_{second}" if values.chance(0.6) else f"{first}{second.capitalize()}"


def _argument(values: Values) -> Argument:
    kinds = _HARDER_KINDS if values.unseen == "nothing" else _KINDS
    kind = values.random.choices(list(kinds), list(kinds.values()))[0]
    choices = tuple(values.distinct(values.several(2, 3), values.word)) if kind == "choice" else ()
    return Argument(kind, choices, values.chance(0.78))


def _told(values: Values) -> str:
    if values.chance(0.15):
        return ""
    told = f"{values.phrase(2, 5).capitalize()}."
    return f"{told}{values.one((' ', chr(10)))}{values.phrase(2, 6).capitalize()}." if values.chance(0.12) else told


def _schema(values: Values, arguments: Mapping[str, Argument], *, mcp: bool) -> Schema | None:
    """None where nothing can be given, as our own functions have it; MCP servers send an empty object."""
    if not arguments:
        return {"type": "object", "properties": {}} if mcp and values.chance(0.7) else None
    titles = mcp and values.chance(0.25)  # pydantic's
    properties: Schema = {}
    for key, argument in arguments.items():
        about: Schema = {"title": key.replace("_", " ").title()} if titles else {}
        if values.chance(0.15):
            about["description"] = f"{values.phrase(1, 4).capitalize()}."
        if not argument.required and values.chance(0.5):
            about["default"] = value_for(values, argument)
        properties[key] = {**_type(argument), **about}
    schema: Schema = {"type": "object", "properties": properties}
    if required := [key for key, argument in arguments.items() if argument.required]:
        schema["required"] = required
    return {**schema, "additionalProperties": False} if values.chance(0.3) else schema


def _type(argument: Argument) -> Schema:
    match argument.kind:
        case "choice":
            return {"type": "string", "enum": list(argument.choices)}
        case "list":
            return {"type": "array", "items": {"type": "string"}}
        case kind:
            return {"type": kind}


def value_for(values: Values, argument: Argument) -> object:
    """Something that the argument takes."""
    match argument.kind:
        case "boolean":
            return values.chance(0.5)
        case "choice":
            return values.one(argument.choices)
        case "list":
            alone = values.unseen == "nothing" and values.chance(0.25)  # looks like a string
            return values.distinct(1 if alone else values.several(1, 3), values.word)
        case "integer":
            return values.number(8) * (-1 if values.chance(0.05) else 1)
        case "number":
            return float(f"{values.number(4)}.{values.several(1, 9)}") if values.chance(0.5) else values.number(6)
        case _:
            if values.chance(0.08):
                return values.phrase(2, 3)
            makers = (values.identifier,) * 5 + (values.word, values.name, values.city, values.file)
            return values.one(makers)()


def _spec(name: str, told: str, schema: Schema | None) -> ToolSpec:
    return ToolSpec(f"functions.{name}", told, schema, provenance="mcp" if "__" in name else "user")
