"""Calls of functions that stand in the prompt, known ones (the weather) and any other."""

from __future__ import annotations

import json

from ossia.tools.calls.arguments import ArgumentReader
from ossia.tools.spec import ToolFailed
from tests.etude.declared import Function, value_for
from tests.etude.prompts import Prefix, unknown_function
from tests.etude.said import Segment, answers, asks, calls, compact, denied, failed
from tests.etude.words.values import Values
from tests.etude.words.wording import arguments_of

_CONDITIONS = ("sunny", "cloudy", "rainy", "snowy", "windy", "foggy", "clear", "stormy")
_EXCEPTIONS = ("ValueError", "KeyError", "RuntimeError", "FileNotFoundError", "TimeoutError", "TypeError")


def function(values: Values, prefix: Prefix, *, missing: bool = False) -> tuple[list[Segment], str]:
    """`Call set_lamp with room kitchen.` → the call → `The tool says: …`"""
    missing = missing or not prefix.functions or (values.unseen == "nothing" and values.chance(0.12))
    chosen = unknown_function(values, prefix) if missing else values.one(prefix.functions)
    if not missing and prefix.named and values.unseen == "nothing" and values.chance(0.1):
        named = [one for one in prefix.named.values() if "_" in one.name]  # no plain word, which may be a command
        chosen = values.one(named) if named else chosen  # by its name, too
    arguments = _arguments(values, chosen)
    while chosen.arguments.keys() & _words(arguments):  # which is the name of which?
        arguments = _arguments(values, chosen)
    fault = ""
    if not missing and values.chance(0.03):
        arguments, fault = _misfit(values, chosen, arguments)
    if len(arguments) > 1 and values.chance(0.25):
        arguments = dict(values.random.sample(list(arguments.items()), len(arguments)))
    said = arguments_of(values, arguments)
    asked = asks(values, "call", chosen.name, said + values.one(("", "", ".")))
    if missing:
        return asked + answers("No such tool.", "I can't do that: there is no such tool."), "missing"
    return asked + _used(values, chosen, arguments, fault), f"{len(arguments)} arguments"


def _words(arguments: dict[str, object]) -> set[str]:
    said = [value if isinstance(value, list) else [value] for value in arguments.values()]
    return {word for items in said for item in items for word in str(item).split()}


def _arguments(values: Values, chosen: Function) -> dict[str, object]:
    return {
        name: value_for(values, argument)
        for name, argument in chosen.arguments.items()
        if argument.required or values.chance(0.35)
    }


def weather(values: Values, prefix: Prefix) -> tuple[list[Segment], str]:
    """`What is the weather in Oslo?` → the call → `The weather in Oslo is rainy at 7 degrees celsius.`"""
    city, fahrenheit = values.city(), values.chance(0.2)
    asked = asks(values, "weather", f"{city} in fahrenheit" if fahrenheit else city)
    return asked + weather_in(values, prefix, city, fahrenheit), "weather"


def weather_in(values: Values, prefix: Prefix, city: str, fahrenheit: bool = False) -> list[Segment]:
    """The assistant's part."""
    if "weather" not in prefix.named:
        return answers("No weather tool.", "I can't look up the weather without a weather tool.")
    usual = prefix.named["weather"]
    unit = "fahrenheit" if fahrenheit else "celsius"
    arguments = {usual.argument: city, **({usual.format: unit} if fahrenheit and usual.format else {})}
    if values.chance(0.06):
        error = _error(values, usual.spec.name)
        return calls(f"Use {usual.name}.", usual.name, arguments, error) + failed(error)
    degrees = -values.number(below=20) if values.chance(0.1) else values.number(below=100)
    condition = values.one(_CONDITIONS) if values.chance(0.6) else values.word()
    if values.chance(0.14):  # a sentence, which is told as it stands
        text = _in_words(values, city, condition, f"{degrees} {unit}")
        told_so = answers("The tool has answered.", f"The tool says: {text}")
        return calls(f"Use {usual.name}.", usual.name, arguments, text) + told_so
    told: list[tuple[str, object]] = [("temperature", degrees), ("condition", condition)]
    told += [("unit", unit)] if (is_told := values.chance(0.5)) else []
    told += [("humidity", values.number(below=100))] if values.chance(0.3) else []
    told += [("location", city)] if values.chance(0.3) else []
    if values.chance(0.5):
        values.random.shuffle(told)
    result = compact(dict(told)) if values.chance(0.5) else json.dumps(dict(told))
    known = f" {unit}" if is_told or usual.format in arguments else ""
    said = f"The weather in {city} is {condition} at {degrees} degrees{known}."
    return calls(f"Use {usual.name}.", usual.name, arguments, result) + answers("The tool has the weather.", said)


def _in_words(values: Values, city: str, condition: str, degrees: str) -> str:
    """The weather as plain text: `"rainy, 7 degrees"`."""
    return values.one((
        f"{condition}, {degrees}", f"{condition.capitalize()} in {city}, {degrees}.", f"{city}: {condition} {degrees}",
        f"It is {condition} in {city}.", f"{degrees}, {condition}", values.text(2, 7),
    ))  # fmt: skip


def _used(values: Values, chosen: Function, arguments: dict[str, object], fault: str) -> list[Segment]:
    error = fault or (_error(values, chosen.spec.name) if values.chance(0.06) else "")
    if error:
        return calls("Call the tool.", chosen.name, arguments, error) + failed(error)
    result = _result(values)
    said = answers("The tool has answered.", f"The tool says: {result}")
    return calls("Call the tool.", chosen.name, arguments, result) + said


def _result(values: Values) -> str:
    kind = values.random.random()
    if kind < 0.5:
        return values.text(1, 6)
    if kind < 0.75:
        return str(values.number())
    if kind < 0.9:
        return _record(values)
    if kind < 0.95:
        return json.dumps(values.distinct(values.several(1, 3), values.word))
    return "\n".join(values.text(1, 4) for _ in range(values.several(2, 3)))


def _record(values: Values) -> str:
    fields = {
        name: values.word() if values.chance(0.6) else values.number(4) for name in values.distinct(2, values.word)
    }
    return json.dumps(fields) if values.chance(0.5) else compact(fields)


def _misfit(values: Values, chosen: Function, arguments: dict[str, object]) -> tuple[dict[str, object], str]:
    """The arguments without one that is needed, and what comes back for that."""
    musts = [name for name, argument in chosen.arguments.items() if argument.required]
    left_out = values.one(musts) if musts else None
    wrong = {name: value for name, value in arguments.items() if name != left_out}
    try:
        ArgumentReader(chosen.spec).read(compact(wrong))
    except ToolFailed as error:
        return wrong, str(error)
    return arguments, ""  # nothing is needed


def _error(values: Values, name: str) -> str:
    """As functions, MCP servers and the toolbox tell of what went wrong."""
    told = values.text(2, 6)
    return values.one((
        f"Error: {told}", f"Error: {name}: {values.one(_EXCEPTIONS)}: {told}", json.dumps({"error": told}),
        denied(values), f"Error executing tool {name.rpartition('.')[2].rpartition('__')[2]}: {told}",
        _of_server(name, values.several(1, 300)) if "__" in name else f"Error: {told}",
    ))  # fmt: skip


def _of_server(name: str, seconds: int) -> str:
    server = name.removeprefix("functions.").partition("__")[0]
    return f"Error: {name}: the MCP server {server}: it did not answer within {seconds} seconds. Choose another way."
