"""A function of the user's as the model sees it: its description, its arguments, its results."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, cast, get_args

from ossia.tools.calls.coerce import Misfit
from ossia.tools.functions import FunctionsInvalid
from ossia.tools.functions.schema import Schema, flatten
from ossia.tools.spec import Effect, Taint
from ossia.tools.text import one_line, without_middle

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_MAX_LINE_CHARS = 500
_TYPES = "write e.g. str, int, float, bool, list[str], Literal or a dataclass"
_MAX_FAULTS = 5
_MAX_RESULT_CHARS = 400_000
_MAX_ITEMS = 1_000

_Bound = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Inspected:
    """A function usable as a tool. `parameters` is None when it takes none; `call` is the function itself."""

    description: str
    parameters: Schema | None
    effects: frozenset[Effect]
    taints: frozenset[Taint]
    module: str
    call: Callable[..., Any]
    adapter: TypeAdapter[Any]

    def bound(self, args: Mapping[str, object]) -> _Bound:
        """The arguments as the function takes them: dates, enums, dataclasses. Raises Misfit.

        Validators may be the user's own: call this where the user's code runs.
        """
        from pydantic import ValidationError

        try:
            return cast(_Bound, self.adapter.validate_json(json.dumps(args)))
        except ValidationError as error:
            raise Misfit(_faults(error)) from None
        except BaseException as error:  # a validator of the user's own
            raise Misfit(fault_line(error)) from None


def inspect_function(function: Callable[..., Any]) -> Inspected:
    """The function as a tool. Raises `FunctionsInvalid` with all its faults, naming the parameters."""
    if faults := _faults_of_signature(function):
        raise FunctionsInvalid("; ".join(faults))
    adapter = _adapter(function)
    schema = _schema(adapter)
    description, parameters = _documented(function)
    properties = cast("dict[str, Schema]", schema.get("properties", {}))
    for key, text in parameters.items():
        if key in properties and "description" not in properties[key]:
            properties[key] = {**properties[key], "description": text}
    return Inspected(
        description,
        flatten(schema),
        cast("frozenset[Effect]", _declared(function, "effects", get_args(Effect), {"run"})),
        cast("frozenset[Taint]", _declared(function, "taints", get_args(Taint), {"private"})),
        function.__module__,
        function,
        adapter,
    )


def fault_line(fault: BaseException) -> str:
    """An exception in one line: `"ValueError: no such city"`. Runs its code: call this where the user's code runs."""
    kind = _said(lambda: type(fault).__name__, "an exception")
    text = _said(lambda: str(fault), "(its text can't be had)")
    if issubclass(type(fault), SystemExit):
        return f"{kind}: {text} (a function can't end ossia)"
    return f"{kind}: {text}" if text else kind


def _said(ask: Callable[[], str], otherwise: str) -> str:
    """An exception's own words. Asking for them runs its code."""
    try:
        return one_line(ask(), _MAX_LINE_CHARS)
    except BaseException:  # a sys.exit, too
        return otherwise


def _faults_of_signature(function: Callable[..., Any]) -> list[str]:
    plain = inspect.unwrap(function)
    if plain.__name__ == "<lambda>":
        return ["a lambda has no type hints: write a def, or begin its name with _"]
    if inspect.isasyncgenfunction(plain):
        return ["an async generator can't be a tool: return a list"]
    faults = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind == parameter.VAR_POSITIONAL else "**"
            faults.append(f"{stars}{parameter.name} can't be shown to a model: name the parameters")
        elif parameter.kind == parameter.POSITIONAL_ONLY:
            faults.append(f"the parameter {parameter.name!r} is positional-only: remove the /")
        elif parameter.annotation is parameter.empty:
            faults.append(f"the parameter {parameter.name!r} has no type hint: write e.g. {parameter.name}: str")
    return faults


def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Validates arguments and returns them. We make the call itself, so that its faults are the function's own."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter

    @wraps(function)
    def collect(*args: Any, **kwargs: Any) -> _Bound:
        return args, kwargs

    try:
        return TypeAdapter(cast(Any, collect))
    except PydanticSchemaGenerationError as error:  # its text names settings of pydantic
        raise FunctionsInvalid(f"{_culprit(function)}: {_TYPES}") from error
    except Exception as error:  # pydantic's own kinds, and a NameError in a hint
        raise FunctionsInvalid(f"{_culprit(function)}: {fault_line(error)}") from error


def _culprit(function: Callable[..., Any]) -> str:
    """The parameter beyond pydantic, if only one is to blame."""
    from pydantic import TypeAdapter

    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.annotation, str):
            continue
        try:
            TypeAdapter(parameter.annotation)
        except Exception:
            return f"the parameter {name!r} has a type that JSON can't express"
    return "its type hints can't be used"


def _schema(adapter: TypeAdapter[Any]) -> Schema:
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):  # a default that isn't JSON is left out, without a warning on stderr
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    try:
        return adapter.json_schema(schema_generator=Quiet)
    except Exception as error:
        raise FunctionsInvalid(f"a parameter has a type that JSON can't express: {_TYPES}") from error


def _documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The docstring's first paragraph, and its text about each parameter (Google, NumPy, reST, Epydoc)."""
    text = inspect.getdoc(function) or ""
    first = one_line(text.strip().split("\n\n")[0], 2_000)
    if not text:
        return "", {}
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return first, {}
    described = {entry.arg_name: entry.description for entry in parsed.params if entry.description}
    if described and parsed.description is not None:  # a docstring without a blank line before its Args
        paragraph = one_line(parsed.description.strip().split("\n\n")[0], 2_000)
        first = paragraph if first.startswith(paragraph) else first
    return first, described


def _declared(
    function: Callable[..., Any], attribute: str, known: tuple[str, ...], default: set[str]
) -> frozenset[str]:
    """A declaration of the function's about itself: `get_weather.effects = {"read"}`."""
    declared = getattr(function, attribute, None)
    if declared is None:
        return frozenset(default)
    if isinstance(declared, set | frozenset | list | tuple) and all(item in known for item in declared):
        return frozenset(declared)
    raise FunctionsInvalid(f"its {attribute} must be a set of {', '.join(map(repr, known))}, not {declared!r}")


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in faults[:_MAX_FAULTS]]
    more = f" (and {len(faults) - _MAX_FAULTS} more)" if len(faults) > _MAX_FAULTS else ""
    return one_line("; ".join(lines), _MAX_LINE_CHARS * 2) + more


def result_text(value: object) -> str:
    """A text as it is; anything else as JSON on one line, as models know it: `{"temperature": 10}`.

    Dataclasses, pydantic models, dates, sets and the like become JSON, too; an iterator becomes a list of its first
    1,000 items; what JSON can't express becomes its `repr`. Raises what the value's own methods raise.
    """
    if isinstance(value, str):
        return bounded(value)
    if isinstance(value, Iterator):
        value = list(islice(value, _MAX_ITEMS))
    return bounded(_json(value))


def bounded(text: str) -> str:
    """`text` without lone surrogates, and without its middle if it has more than 400,000 characters.

    That is far more than a model is shown, but it saves counting the tokens of 3 MB.
    """
    tail = _MAX_RESULT_CHARS // 4
    text = without_middle(text, _MAX_RESULT_CHARS - tail, tail)
    return text.encode("utf-8", "replace").decode("utf-8")


def _json(value: object) -> str:
    from pydantic_core import to_jsonable_python

    try:
        return json.dumps(to_jsonable_python(value, fallback=repr), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):  # it contains itself, or has a key that JSON can't express
        return repr(value)
