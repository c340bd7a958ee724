"""What users say. Of the ways to say a thing a quarter is kept for evaluation: see `phrasings.py`.

Training began from a model that had other lessons. Which phrasings those had stands in `former.txt`; no exam asks them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path

from tests.etude.exam import others
from tests.etude.reserved import normalise
from tests.etude.words.around import AFTER, BEFORE, JOIN, PAIR, WITH
from tests.etude.words.phrasings import PHRASINGS
from tests.etude.words.unanswerable import FRAMES, unanswerable
from tests.etude.words.values import Values

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_VALUE = re.compile(r"(\{\w\})")
_QUOTE = re.compile("[\"`'“”]")
_MARKS = re.compile('["`“]')  # those that are no apostrophe
_GREP = re.compile(r"(grep|rg|ack|ag) \{0\}")
_QUOTED = frozenset(("list", "tree", "read", "grep", "grep here", "write", "search", "repeat", "my name"))
_QUOTES = ('"{}"', "`{}`", "'{}'", "“{}”")
_BY_SHAPE: Mapping[str, tuple[str, ...]] = {
    "sum": ("",), "weather": ("weather", "forecast", "temperature"), "call": ("",), "person": ("",),
    "read": ("read", "text", "says", "open", "content", "show", "print"), "pairs": ("",),
    "shell": ("run", "execute", "command"), "search": ("search", "web", "online"), "repeat": ("say", "repeat", "echo"),
    "event": ("",), "write": ("write", "save", "put", "store", "create"),
}  # fmt: skip
"""What is known by its value's shape and at most one word: training has it among any other words, too."""

_STRANGE_VERBS = frozenset((
    "weather", "search", "read", "list", "tree", "write", "repeat", "shell", "date", "tools", "first", "who am i",
    "sum", "spoken sum", "call", "pairs", "shopping",
))  # fmt: skip
"""Of these the word that begins a frame may be any other one, too, if enough is left that tells what is meant."""
_LITTLE = (
    "to", "as", "the", "be", "is", "of", "for", "in", "at", "by", "on", "a", "with", "and", "it", "into", "so", "from",
    "that", "this", "then", "also", "or", "up", "over", "like", "not", "just", "only", "here", "now", "my", "your",
    "has", "was", "will", "would", "can", "could", "may", "must", "let", "make", "take", "put", "use", "get", "go",
    "too", "yet",
)  # fmt: skip
_SIGNS = ("=>", ":=", "~", "|", "==", "::", ">>", "--", "...", "/", "@", "+", "*", "#")
_ABOUT = ("about", "on", "with", "around", "concerning")
_LEAST_LEFT = 4  # letters
_WORDS = re.compile(r"[A-Za-z][A-Za-z' ]*[A-Za-z]")

Frame = tuple[str | tuple[str, ...], ...]


def phrased(values: Values, key: str, *parts: object) -> str:
    """One of the phrasings: `phrased(values, "read", "a.txt")` → `"Show me the file a.txt"`.

    Now and then words stand around it that mean nothing, the value is quoted, or it is written carelessly. In an exam
    of new values a phrasing always has one: a turn without any would be one that training has.
    """
    if values.of_others and (written := unlike_training(key)):
        text = values.one(written).format(*parts)
        return text.removesuffix(".") if text.endswith("..") else text  # a call's arguments may end in one
    shapely = key in _BY_SHAPE and (key not in ("read", "write") or "." in str(parts[0]))  # else it is any word
    if values.unseen == "nothing" and shapely and values.chance(0.15):
        said = _around(values, _any_words(values, key))  # its one cue is spelled right
    else:
        strange = key in _STRANGE_VERBS and values.unseen == "nothing" and values.chance(0.15)
        said = chosen(values, PHRASINGS[key], needs_value=values.unseen == "values", strange=strange)
        of_two = key == "grep here" and " " in str(parts[0]) and _GREP.match(said)  # else the second were a folder
        said = said.replace("{0}", '"{0}"') if of_two else said
        said = _careless(values, _around(values, said))
    quotes = values.one(_QUOTES) if key in _QUOTED and values.chance(0.12) and not _MARKS.search(said) else "{}"
    text = said.format(quotes.format(parts[0]) if parts else "", *parts[1:])
    return text.removesuffix(".") if text.endswith(" ..") else text  # the folder is ".", and ".." is another one


def unknown(values: Values) -> str:
    """A question or request that is none of these."""
    frame = chosen(values, FRAMES, needs_value=values.unseen == "values")
    return unanswerable(values, _careless(values, _around(values, frame)))


def arguments_of(values: Values, arguments: Mapping[str, object]) -> str:
    """How a call's arguments are said: `" with room kitchen and level 40"`."""
    if not arguments:
        return ""
    kind = values.random.random()
    if kind < 0.06:
        return " " + json.dumps(arguments, ensure_ascii=False, separators=values.one(((",", ":"), (", ", ": "))))
    if kind < 0.12:
        return f"({', '.join(f'{name}={json.dumps(value)}' for name, value in arguments.items())})"
    pair = values.one(unlike_training("with")) if values.of_others else some(values, PAIR)
    join, before = some(values, JOIN), some(values, WITH)
    if values.unseen == "nothing" and values.chance(0.3):  # as most people say it, and so as it must not be forgotten
        pair, join, before = "{0} {1}", values.one((" and ", " and ", ", ")), " with {0}"
    elif values.unseen == "nothing":
        strange = _among_any_words(values, arguments, pair, join, before)
        if not any(one in held[3::4] for one, held in zip(strange, (PAIR, JOIN, WITH), strict=True)):
            pair, join, before = strange
    quoted = _QUOTE.search(pair) is not None
    *front, last = arguments.items()
    bare = _QUOTE.sub("", pair)  # no quotes around a list
    said = [(bare if isinstance(value, list) else pair).format(name, _plain(value, quoted)) for name, value in front]
    name, value = last
    if isinstance(value, list):
        listed = values.chance(0.7)  # as people say it, where nothing follows
        said.append(bare.format(name, ", ".join(value) if listed else _plain(value, quoted)))
    else:
        said.append(pair.format(name, _plain(value, quoted)))
    return before.format(join.join(said))


@cache
def unlike_training(key: str) -> tuple[str, ...]:
    """The phrasings that others wrote of it, without those that training or the lessons before happen to have, too."""
    trained = map(normalise, _known(PAIR)) if key == "with" else _trained(PHRASINGS.get(key, ()))
    known = {_unquoted(one) for one in (*trained, *former())}
    return tuple(one for one in others.phrasings().get(key, ()) if known.isdisjoint(_cores(_unquoted(one))))


@cache
def former() -> frozenset[str]:
    """The phrasings of the lessons before, as `normalise` gives them: `"work out {0}"`."""
    return frozenset(Path(__file__).with_name("former.txt").read_text(encoding="utf-8").splitlines())


def _unquoted(text: str) -> str:
    return normalise(_QUOTE.sub("", text))


def _cores(said: str) -> Iterator[str]:
    """What is left without words around it that mean nothing."""
    for before in ("", *map(normalise, BEFORE)):
        for after in ("", *map(normalise, AFTER)):
            if said.startswith(before) and said.endswith(after):
                yield normalise(said.removeprefix(before).removesuffix(after))


def _among_any_words(
    values: Values, arguments: Mapping[str, object], pair: str, join: str, before: str
) -> tuple[str, str, str]:
    """Now and then words that mean nothing stand in one of the places: what the schema tells is still to be found."""
    words, kind = _between(values, arguments), values.random.random()
    if kind < 0.2:
        pair = values.one((f"{{0}} {words} {{1}}", f"{{0}} {words} {{1}}", f"{{1}} {words} {{0}}"))
    elif kind < 0.32:
        join = values.one((f" {words} ", f" {words} ", f", {words} "))
    if (pair.startswith("{1}") and kind < 0.2) or not values.chance(0.14):  # else nothing tells where the value begins
        return pair, join, before
    return pair, join, f" {_between(values, arguments)} {{0}}"


def _between(values: Values, arguments: Mapping[str, object]) -> str:
    """What may stand between two things that are known by themselves: `"harbor"`, `"to the tide"`, `"=>"`.

    Of a single argument's value others would seem to be a part, so there are only small ones.
    """
    if values.chance(0.15):
        return values.one(_SIGNS)
    small = 1.0 if len(arguments) == 1 else 0.4
    while True:
        words = [
            values.one(_LITTLE) if values.chance(small) else values.word() for _ in range(values.one((1, 1, 2, 2, 3)))
        ]
        if arguments.keys().isdisjoint(words):
            return " ".join(words)


def _plain(value: object, quoted: bool) -> str:
    """As it stands in a question; several words in quotes, unless they are there."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and " " in value and not quoted:
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def chosen(values: Values, frames: Sequence[str], *, needs_value: bool = False, strange: bool = False) -> str:
    """A frame with its choices made: one that training may see, or for new phrasings one that it may not.

    `strange`: a word that means nothing stands for one of them, so that the rest has to be understood.
    """
    new = values.unseen == "phrasing"
    while True:
        place = values.random.randrange(len(frames))
        if (held := place % 4 == 3) and not new:
            continue
        frame = _parsed(frames[place])
        made, held_part = _made(values, _with_strange_word(values, frame) if strange else frame, new)
        if new and _is_known(normalise(made), tuple(frames)):
            continue
        if new is (held or held_part) and (not needs_value or "{" in made):
            return made


def _is_known(said: str, frames: tuple[str, ...]) -> bool:
    """From training, by another of the frames, or from the lessons before, maybe with words around it."""
    return said in _trained(frames) or not former().isdisjoint(_cores(said))


@cache
def _trained(frames: tuple[str, ...]) -> frozenset[str]:
    """All that training can make of the frames."""
    known = [_parsed(frame) for place, frame in enumerate(frames) if place % 4 != 3]
    sides = [[(piece,) if isinstance(piece, str) else _known(piece) for piece in frame] for frame in known]
    return frozenset(normalise("".join(parts)) for side in sides for parts in product(*side))


def _known(choices: Sequence[str]) -> list[str]:
    return [one for place, one in enumerate(choices) if len(choices) < 4 or place % 4 != 3]


def some(values: Values, choices: Sequence[str]) -> str:
    """One of those that training sees, or one of the others."""
    return values.one(choices[3::4] if values.unseen == "phrasing" else _known(choices))


@cache
def _parsed(frame: str) -> Frame:
    pieces = _CHOICE.split(frame)
    return tuple(tuple(piece.split("|")) if place % 2 else piece for place, piece in enumerate(pieces))


def filled(values: Values, frame: str) -> str:
    """A frame with its choices made, whatever is kept for evaluation elsewhere."""
    return "".join(piece if isinstance(piece, str) else values.one(piece) for piece in _parsed(frame))


def _with_strange_word(values: Values, frame: Frame) -> Frame:
    text = [piece if isinstance(piece, str) else min(piece, key=len) for piece in frame]
    if len(frame) < 3 or text[0] or len(frame[1]) < 4 or not text[2].startswith(" "):
        return frame
    if text[2].startswith(" {0}"):  # else nothing tells where the value begins
        return frame
    word = values.word()
    strange = [_WORDS.sub(word, one, 1) for one in frame[1] if _WORDS.search(one) and "{" not in one]
    if not strange or sum(map(str.isalpha, _VALUE.sub("", "".join(text[2:])))) < _LEAST_LEFT:
        return frame
    return ((values.one((word, word.capitalize(), strange[0])),), *frame[2:])


def _made(values: Values, frame: Frame, new: bool) -> tuple[str, bool]:
    """The text, and whether a part is in it that is kept from training."""
    text, held = "", False
    for piece in frame:
        if isinstance(piece, str):
            text += piece
            continue
        place = values.random.randrange(len(piece))
        while not new and len(piece) > 3 and place % 4 == 3:
            place = values.random.randrange(len(piece))
        held = held or (len(piece) > 3 and place % 4 == 3)
        text += piece[place]
    return text, held


def _any_words(values: Values, key: str) -> str:
    """The values of a kind in their order or another, among words that mean nothing: small, cities and names aren't."""
    words = [values.word().lower() for _ in range(values.several(0, 3))]
    if cue := values.one(_BY_SHAPE[key]):
        words.insert(values.several(0, len(words)), cue)
    before = " ".join(words)
    if key == "search" and values.chance(0.5):
        return f"{before} {values.one(_ABOUT)} {{0}}"
    if key in ("search", "repeat", "shell"):  # nothing else says where they begin
        return f"{before}: {{0}}"
    if key == "event":
        return f"{before} {values.one(('the', 'a', 'our', '-'))} {{0}} {values.one(('in', 'in', 'at'))} {{1}}".strip()
    if key == "write":
        word = values.word()
        return values.one((f"{before} {{0}} {word}: {{1}}", f"{before} {{0}}: {{1}}", f'{before} "{{1}}" {word} {{0}}'))
    if key == "person":
        first, second = values.one((("{0}", "{1}"), ("{0}", "{1}"), ("{1}", "{0}")))
        between = values.one((" ", ", ", ": ", f" {values.word().lower()} "))
        return f"{before} {first}{between}{second} {values.one(('', values.word().lower()))}".strip()
    if key == "pairs":
        between, join = f" {values.word()} ", values.one((" and ", ", ", "; ", "\n", f" {values.word()} "))
        return f"{before} {{0}}{between}{{1}}{join}{{2}}{between}{{3}}".strip()
    if key == "call":
        return f"{before} {{0}}{{1}}".strip()
    after = " ".join(values.word().lower() for _ in range(values.several(0, 2)))
    return f"{before} {{0}} {after}".strip() + values.one(("", "", "?", "."))


def _around(values: Values, said: str) -> str:
    mark = said[-1] if said and said[-1] in ".?!" else ""
    closed = not said.removesuffix(mark).endswith("}")  # else nobody could tell where the value ends
    if not said.startswith("{") and values.chance(0.1):
        before = some(values, BEFORE)
        first = said[:1] if before.rstrip()[-1] in ".!:" and values.chance(0.5) else said[:1].lower()
        return before + first + said[1:]
    if closed and values.chance(0.1):
        return said.removesuffix(mark) + some(values, AFTER) + mark
    return said


def _careless(values: Values, said: str) -> str:
    """Now and then without capitals, without the mark at the end, or with a letter too few or too many."""
    pieces = _VALUE.split(said)
    if values.chance(0.12):
        pieces[::2] = [piece.lower() for piece in pieces[::2]]
    if values.chance(0.08):
        place = values.one(range(0, len(pieces), 2))
        pieces[place] = _mistyped(values, pieces[place])
    if values.chance(0.04) and pieces[-1].endswith(("?", "!")):
        pieces[-1] += pieces[-1][-1]
    return "".join(pieces)


def _mistyped(values: Values, text: str) -> str:
    letters = [place for place in range(1, len(text) - 3) if text[place - 1 : place + 3].isalpha()]
    if not letters:
        return text
    at = values.one(letters)
    return text[:at] + values.one(("", text[at] * 2, text[at + 1] + text[at])) + text[at + 1 :]
