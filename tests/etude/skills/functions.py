"""Calls of functions that stand in the prompt, known ones (the weather) and any other."""

from __future__ import annotations

import json

from tests.etude.prompts import Function, Prefix, unknown_function
from tests.etude.said import Segment, answers, asks, calls, compact
from tests.etude.values import Values
from tests.etude.wording import arguments_of

_CONDITIONS = ("sunny", "cloudy", "rainy", "snowy", "windy", "foggy", "clear", "stormy")


def function(values: Values, prefix: Prefix, *, missing: bool = False) -> tuple[list[Segment], str]:
    """`Call set_lamp with room kitchen.` → the call → `The tool says: …`"""
    missing = missing or not prefix.functions
    chosen = unknown_function(values, prefix) if missing else values.one(prefix.functions)
    arguments = {name: _argument(values, kind) for name, kind in chosen.arguments.items()}
    said = arguments_of(values, arguments)
    asked = asks(values, "call", chosen.name, said + values.one(("", "", ".")))
    if missing:
        return asked + answers("No such tool.", "I can't do that: there is no such tool."), "missing"
    return asked + _used(values, chosen, arguments), f"{len(arguments)} arguments"


def weather(values: Values, prefix: Prefix) -> tuple[list[Segment], str]:
    """`What is the weather in Oslo?` → the call → `The weather in Oslo is rainy at 7 degrees celsius.`"""
    city, fahrenheit = values.city(), values.chance(0.2)
    asked = asks(values, "weather", f"{city} in fahrenheit" if fahrenheit else city)
    return asked + weather_in(values, prefix, city, fahrenheit), "weather"


def weather_in(values: Values, prefix: Prefix, city: str, fahrenheit: bool = False) -> list[Segment]:
    """The assistant's part."""
    if "weather" not in prefix.named:
        return answers("No weather tool.", "I can't look up the weather without a weather tool.")
    name = prefix.named["weather"]
    unit = "fahrenheit" if fahrenheit else "celsius"
    arguments = {"location": city, **({"format": unit} if fahrenheit else {})}
    if values.chance(0.06):
        return calls(f"Use {name}.", name, arguments, _error(values)) + answers("The tool failed.", "The tool failed.")
    degrees = values.number(below=110) - 10
    condition = values.one(_CONDITIONS) if values.chance(0.6) else values.word()
    told: list[tuple[str, object]] = [("temperature", degrees), ("condition", condition)]
    told += [("unit", unit)] if values.chance(0.5) else []
    told += [("humidity", values.number(below=100))] if values.chance(0.3) else []
    told += [("location", city)] if values.chance(0.3) else []
    if values.chance(0.5):
        values.random.shuffle(told)
    result = compact(dict(told)) if values.chance(0.5) else json.dumps(dict(told))
    said = f"The weather in {city} is {condition} at {degrees} degrees {unit}."
    return calls(f"Use {name}.", name, arguments, result) + answers("The tool has the weather.", said)


def _used(values: Values, chosen: Function, arguments: dict[str, object]) -> list[Segment]:
    name = chosen.name
    if values.chance(0.06):
        return calls("Call the tool.", name, arguments, _error(values)) + answers(
            "The tool failed.", "The tool failed."
        )
    kind = values.random.random()
    result = values.text(1, 6) if kind < 0.5 else str(values.number()) if kind < 0.85 else _record(values)
    return calls("Call the tool.", name, arguments, result) + answers(
        "The tool has answered.", f"The tool says: {result}"
    )


def _record(values: Values) -> str:
    fields = {
        name: values.word() if values.chance(0.6) else values.number(4) for name in values.distinct(2, values.word)
    }
    return json.dumps(fields) if values.chance(0.5) else compact(fields)


def _error(values: Values) -> str:
    told = values.text(2, 6)
    return f"Error: {told}" if values.chance(0.8) else json.dumps({"error": told})


def _argument(values: Values, kind: str) -> object:
    if kind == "boolean":
        return values.chance(0.5)
    return values.identifier() if kind == "string" else values.number(8)
