"""JSON Schemas as grammars, through llguidance: what may come next inside the arguments of a call or an answer."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ossia.agent.errors import SchemaUnusable
from ossia.agent.guide.written_out import written_out
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.calls.checked import byte_tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_MAX_BYTES = 64 << 10
"""The time to compile grows with the square of the size: 0.15 s for 70 kB of properties, 16 s for a megabyte."""
_MAX_WRITTEN_OUT, _MAX_LEVELS = 256 << 10, 128
_MAX_DEPTH = 64  # llguidance reads 128 levels of JSON

# Between two values: a blank, or a line end and an indentation, as json.dumps and models write it. With more, a model
# that lost its way could write white space without end.
_FORM = {"whitespace_pattern": r"( |\r?\n[ \t]{0,32})?", "json_allow_general_unicode_escapes": True}
_TRAILING = r"/[ \n]{0,4}/"
"""38 of 60 calls of gpt-oss-20b end with a newline."""

# The parts from which a mask inside a string is put together. Without them a mask takes 3 ms, in strings of any length.
# llguidance's own four make it no faster than these two, and take 0.4 s to prepare, which is twice as long.
_SLICES = [r'[^"\\\x00-\x1F\x7F]{1,10}', r'[^"\\\x00-\x1F\x7F]+']
_MOST_KEPT = 256
FORMATS = ("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid")
"""Those that llguidance knows."""


class Grammars:
    """Compiles schemas for one vocabulary. The first matcher takes 0.5 s with 201,088 ids, the others a millisecond."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._native: LLTokenizer | None = None
        self._known: dict[str, LLMatcher] = {}  # by grammar; none of them has taken an id yet
        self._lock = threading.Lock()

    def matcher(self, schema: object) -> Matcher:
        """A matcher for one value of that schema. Raises `SchemaUnusable`."""
        grammar = _grammar(schema)
        with self._lock:
            if self._native is None:
                self._native = _native_tokenizer(_Tokens.of(self._tokenizer))
            if grammar not in self._known:
                if len(self._known) >= _MOST_KEPT:
                    self._known.clear()
                self._known[grammar] = _matcher(self._native, grammar)
            # A copy takes 20 µs, compiling takes 1,500 µs. Copies share the masks that were computed so far.
            return Matcher(self._known[grammar].deep_copy(), self._tokenizer.vocabulary.size)


class Matcher:
    """The state of a value: a thin wrapper of llguidance's matcher, which never raises and reports by states."""

    def __init__(self, native: LLMatcher, size: int) -> None:
        self._native = native
        self._words = np.zeros(-(-size // 32), np.uint32)

    def mask(self) -> NDArray[np.uint32] | None:
        """A bit for each id that may come; valid until the next call. None: the grammar has become too complex."""
        self._native.unsafe_compute_mask_ptr(self._words.ctypes.data, self._words.nbytes)
        return None if self._native.is_error() else self._words

    @property
    def whole(self) -> bool:
        """The value may end here."""
        return bool(self._native.is_accepting())

    @property
    def stuck(self) -> str | None:
        """The reason that it can't go on; None: it can."""
        return _in_a_line(self._native.get_error()) if self._native.is_error() else None

    def forced(self) -> list[int]:
        """The ids that must come next."""
        return list(self._native.compute_ff_tokens())

    def take(self, token: int) -> None:
        """This id was generated."""
        self._native.consume_token(token)


def require_usable(schema: object) -> None:
    """Raises `SchemaUnusable`, with one line that names the keyword, if sampling can't be held to `schema`.

    A keyword that no JSON Schema has is refused, too. The standard says to ignore it, but a misspelt one would promise
    what isn't kept.
    """
    grammar = _grammar(schema)
    if keyword := unknown_keyword(schema):
        right = meant(keyword)
        raise SchemaUnusable(f"{keyword!r} is not a keyword of JSON Schema{f': write {right!r}' if right else ''}")
    from llguidance import LLMatcher

    fault = LLMatcher.validate_grammar(grammar)
    if fault and not fault.startswith("WARNING"):
        raise SchemaUnusable(_describe_fault(fault))
    _try(grammar)


def _try(grammar: str) -> None:
    """Begin a value, on a vocabulary of bytes: a `$ref` to itself, or too many properties, show within `{"`."""
    matcher = Matcher(_matcher(byte_tokenizer(), grammar), _BYTES + 1)
    for token in b'{"\0':
        for forced in matcher.forced():
            matcher.take(forced)
        mask = matcher.mask()
        if mask is None:
            raise SchemaUnusable(_describe_fault(matcher.stuck or ""))
        if not mask.any():
            raise SchemaUnusable(_NOTHING)
        if not mask[token >> 5] >> np.uint32(token & 31) & np.uint32(1):
            return
        matcher.take(token)


_BYTES = 256
_NOTHING = "no value can satisfy it: does a $ref lead back to itself?"


def _grammar(schema: object) -> str:
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    if not isinstance(schema, Mapping):
        raise SchemaUnusable(f"a JSON Schema must be an object, not {type(schema).__name__}")
    if _deeper(schema, _MAX_DEPTH):
        raise SchemaUnusable(f"it is nested deeper than {_MAX_DEPTH} levels")
    own = without_idle({key: value for key, value in schema.items() if key != "x-guidance"})
    try:
        text = json.dumps({**own, "x-guidance": _FORM}, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise SchemaUnusable(f"it isn't JSON ({error})") from None
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        raise SchemaUnusable(f"it is larger than {_MAX_BYTES >> 10} KiB")
    if '"$ref"' in text or '"allOf"' in text:
        size = written_out(own)
        if size.length > _MAX_WRITTEN_OUT or size.levels > _MAX_LEVELS:
            raise SchemaUnusable("it is too large, or too deep, with each $ref written out: use fewer, or no allOf")
    return f"start: value {_TRAILING}\nvalue: %json {text}\n"


def _deeper(value: object, levels: int) -> bool:
    """True if it is nested deeper than that. Without recursion, since a deep value would break it."""
    row: list[object] = [value]
    for _ in range(levels + 1):
        nested = (one for one in row if isinstance(one, Mapping | list | tuple))
        row = [inner for one in nested for inner in (one.values() if isinstance(one, Mapping) else one)]
        if not row:
            return False
    return True


def _describe_fault(fault: str) -> str:
    """llguidance's message, for people: `Unimplemented keys: ["not"]` → the keyword 'not' can't be followed …"""
    missing = re.search(r"Unimplemented keys: (\[.*?\])", fault)
    if missing:
        names = ", ".join(repr(name) for name in json.loads(missing[1]))
        return f"the keyword {names} can't be followed while sampling"
    if "regex parse error" in fault:
        return f"the keyword 'pattern' can't be followed while sampling: {_in_a_line(fault)}"
    if "Invalid type" in fault:
        return f"the keyword 'type' names no type of JSON ({_in_a_line(fault)})"
    if "Unknown format" in fault:
        return f"{_in_a_line(fault)}; known are {', '.join(FORMATS)}"
    if "anyOf is empty" in fault:
        return "no value can satisfy it: an 'enum' or 'anyOf' is empty"
    if "oneOf" in fault:
        return "the keyword 'oneOf' can't be followed where its schemas overlap: use 'anyOf'"
    if "NoExtension" in fault:
        return _NOTHING
    return _in_a_line(fault)


def _in_a_line(text: str) -> str:
    """The message on one line, without the grammar that llguidance quotes after it."""
    fault = re.sub(r"^at \d+\(\d+\): (failed to compile JSON schema: )?", "", re.split(r"\n +1 \||\n<", text)[0])
    return " ".join(fault.split())[:300] or "it is too much to follow"


def _matcher(native: LLTokenizer, grammar: str) -> LLMatcher:
    from llguidance import LLMatcher

    matcher = LLMatcher(native, grammar, log_level=0)
    if matcher.is_error():
        raise SchemaUnusable(_describe_fault(matcher.get_error()))
    return matcher


def _native_tokenizer(tokens: _Tokens) -> LLTokenizer:
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(tokens), n_vocab=len(tokens.tokens), slices=_SLICES)


class _Tokens:
    """A vocabulary as llguidance wants it: each id's bytes (0xFF begins those that aren't text), how text is split."""

    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes], special: Iterable[int], eos: int, encode: Any) -> None:
        self.tokens = tokens
        self.special_token_ids = list(special)
        self.eos_token_id = eos
        self._encode = encode

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> _Tokens:
        vocabulary = tokenizer.vocabulary
        names = {token: name for name, token in vocabulary.control.items()}
        tokens = [
            b"\xff" + names.get(token, f"<{token}>").encode() if not text or token in names else text
            for token, text in enumerate(vocabulary.tokens)
        ]
        special = [token for token, text in enumerate(tokens) if text.startswith(b"\xff<")]
        return cls(tokens, special, tokenizer.control.endoftext, tokenizer.encode)

    def __call__(self, text: bytes) -> list[int]:
        found: list[int] = self._encode(text.decode())
        return found


# -- keywords ----------------------------------------------------------------------------------------------------------

_OF_SCHEMA = frozenset((
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
))  # fmt: skip
"""Their value is a schema (`items` of older drafts: a list of them)."""
_OF_SCHEMAS = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_BY_NAME = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
"""Their value is an object whose keys are the user's own."""
_OTHERS = frozenset((
    "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$ref",
    "$schema", "$vocabulary", "const", "default", "dependencies", "dependentRequired", "deprecated", "description",
    "enum", "example", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "maxContains", "maxItems",
    "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum",
    "multipleOf", "pattern", "readOnly", "required", "title", "type", "uniqueItems", "writeOnly",
))  # fmt: skip
_NOTES = frozenset((
    "contentEncoding", "contentMediaType", "contentSchema",
    "discriminator", "externalDocs", "nullable", "xml",  # OpenAPI
    "enumDescriptions", "enumNames", "errorMessage", "markdownDescription", "propertyOrdering",  # editors, forms
))  # fmt: skip
"""They demand nothing of a value, though somebody may think so."""
_KNOWN = _OF_SCHEMA | _OF_SCHEMAS | _BY_NAME | _OTHERS | _NOTES
"""Drafts 4 to 2020-12. (A keyword that begins with `x-` is somebody's own note and demands nothing.)"""
_ANY: tuple[object, ...] = (True, {}, [], {"type": "string"})
"""The schemas that hold for each property's name, and for absent values."""


def unknown_keyword(schema: object) -> str | None:
    """The first keyword in `schema` that no draft has: `"requried"`; None: all are known."""
    words = (word for part in _parts(schema) for word in part)
    return next((word for word in words if word not in _KNOWN and not word.startswith("x-")), None)


def meant(word: str) -> str | None:
    """The keyword that a misspelt one is close to: `meant("requried")` is `"required"`."""
    plain = {known.lower(): known for known in sorted(_KNOWN)}
    found = get_close_matches(word.lower().replace("_", "").replace("-", ""), plain, 1, 0.8)
    return plain[found[0]] if found else None


def idle_keywords(schema: object) -> list[str]:
    """The keywords in `schema` that an answer isn't held to, each once: `["uniqueItems", "nullable"]`.

    Without `propertyNames`, by which Zod says that names are strings.
    """
    idle = ((word, word in _NOTES or _is_idle(word, part)) for part in _parts(schema) for word in part)
    found = [word for word, is_idle in idle if is_idle and word != "propertyNames"]
    return list(dict.fromkeys(found))


def without_idle(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema without the keywords that demand nothing as they stand, such as `"uniqueItems": false`."""

    def inner(one: object) -> object:
        return without_idle(one) if isinstance(one, Mapping) else one

    return {word: each_schema(word, value, inner) for word, value in schema.items() if not _is_idle(word, schema)}


def _is_idle(word: str, schema: Mapping[str, object]) -> bool:
    value = schema[word]
    match word:
        case "uniqueItems" | "not":
            return value is False
        case "then" | "else":
            return "if" not in schema
        case "if":
            return not {"then", "else"} & schema.keys()
        case "contains" | "minContains" | "maxContains":
            return "contains" not in schema or (schema.get("minContains") == 0 and "maxContains" not in schema)
        case "additionalItems":
            return not isinstance(schema.get("items"), list | tuple)
        case "unevaluatedProperties" | "unevaluatedItems":
            return value is True or value == {}
        case "propertyNames":
            return value in _ANY
        case "dependentRequired" | "dependentSchemas" | "dependencies":
            return isinstance(value, Mapping) and all(one in _ANY[:3] for one in value.values())
        case _:
            return False


def _parts(schema: object) -> Iterator[Mapping[str, object]]:
    """The schema and all those within it; not what stands in `const`, `enum`, `default` and examples."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for word, value in schema.items():
        inner: list[object] = []
        each_schema(word, value, inner.append)
        for one in inner:
            yield from _parts(one)


def each_schema(word: str, value: object, act: Callable[[object], object]) -> object:
    """The keyword's value with what `act` makes of each schema in it."""
    if word in _BY_NAME and isinstance(value, Mapping):
        return {name: act(one) for name, one in value.items()}
    if word in _OF_SCHEMAS and isinstance(value, list | tuple):
        return [act(one) for one in value]
    return act(value) if word in _OF_SCHEMA else value
