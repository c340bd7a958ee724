"""Sums, through python."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.etude.prompts import Prefix
from tests.etude.said import Segment, answers, asks, runs
from tests.etude.words.values import Values

_SPOKEN: Mapping[str, str] = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
_FAULTS = ("TimeoutError", "RuntimeError", "OSError", "MemoryError")
_NEW_KERNEL = "[WARN] this is a new kernel: variables lost, /mnt/data is empty"
_OPERATORS = "+-**/"


def arithmetic(values: Values, prefix: Prefix) -> tuple[list[Segment], str]:
    """`What is 12 * 7?` → python → `The result is 84.`"""
    expression, kind = _expression(values)
    if kind == "two numbers" and values.chance(0.35):
        a, operator, b = expression.split(" ")
        asked = asks(values, "spoken sum", f"{a} {_SPOKEN[operator]} {b}")
        return asked + solve(values, prefix, expression), "words"
    if values.chance(0.5):
        expression = expression.replace(" ", "")
    return asks(values, "sum", expression) + solve(values, prefix, expression), kind


def solve(values: Values, prefix: Prefix, expression: str) -> list[Segment]:
    """The assistant's part."""
    if not prefix.has_python:
        return answers("No python tool.", "I can't compute that without the python tool.")
    code = f"print(round({expression}, 4))" if "/" in expression else f"print({expression})"
    result = _value(expression)
    fault = "ZeroDivisionError: division by zero" if result is None else None
    if fault is None and values.chance(0.05):
        fault = f"{values.one(_FAULTS)}: {values.phrase(2, 4)}"
    if fault:
        called = runs("Use python.", "python", code, _traceback(values, code, fault))
        return called + answers("Python failed.", f"Python failed: {fault}")
    if values.chance(0.2):  # what python says counts, not what seems right
        result = str(values.number() * values.one((1, 1, -1)))
    told = f"{_NEW_KERNEL}\n{result}" if values.chance(0.12) else f"{result}"
    called = runs("Use python.", "python", code, told)
    return called + answers("Python has the result.", f"The result is {result}.")


def _expression(values: Values) -> tuple[str, str]:
    kind = values.random.random()
    number: Callable[..., str] = lambda digits=12: str(values.number(digits))  # noqa: E731
    if kind < 0.62:
        return f"{number()} {values.one(_OPERATORS)} {number()}", "two numbers"
    if kind < 0.75:
        return f"{number(6)} {values.one(_OPERATORS)} {number(6)} {values.one(_OPERATORS)} {number(6)}", "three numbers"
    if kind < 0.88:
        inner, outer = f"({number(6)} {values.one('+-')} {number(6)})", values.one("*/")
        return (f"{inner} {outer} {number(6)}" if values.chance(0.5) else f"{number(6)} {outer} {inner}"), "parentheses"
    left, right = (f"({number(5)} {values.one('+-')} {number(5)})" for _ in range(2))
    return f"{left} {values.one('*/')} {right}", "two parentheses"


def _value(expression: str) -> str | None:
    try:
        value = eval(expression, {"__builtins__": {}})  # our own sums
    except ZeroDivisionError:
        return None
    return str(round(value, 4) if "/" in expression else value)


def _traceback(values: Values, code: str, fault: str) -> str:
    """As IPython shows it."""
    name = fault.partition(":")[0]
    head = f"{name:<42}Traceback (most recent call last)"
    line = values.several(1, 9)
    return f"{'-' * 75}\n{head}\nCell In[{line}], line 1\n----> 1 {code}\n\n{fault}"
