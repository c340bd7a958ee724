"""The values that dialogues are about (words, names, numbers, paths), and which of them training never sees."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

Unseen = Literal["nothing", "values", "phrasing"]
"""What is new to a model that was trained on "nothing": the values, or the phrasings and tool names as well."""

Exam = Literal["values", "phrasing", "others"]
"""What an exam has that is new; "others": as "phrasing", but with phrasings that others wrote (`exam/others.py`)."""

_T = TypeVar("_T")

_CITIES = """\
Paris London Berlin Madrid Rome Vienna Tokyo Kyoto Osaka Seoul Beijing Shanghai Delhi Mumbai Cairo Lagos Nairobi Accra
Lima Quito Bogota Caracas Santiago Toronto Montreal Ottawa Vancouver Boston Chicago Denver Dallas Houston Austin
Seattle Portland Miami Atlanta Phoenix Singapore Bangkok Hanoi Manila Jakarta Sydney Melbourne Perth Auckland
Wellington Oslo Stockholm Helsinki Copenhagen Dublin Edinburgh Glasgow Manchester Liverpool Bristol Leeds Amsterdam
Rotterdam Brussels Antwerp Zurich Geneva Basel Bern Munich Hamburg Cologne Frankfurt Stuttgart Dresden Leipzig Prague
Warsaw Krakow Budapest Bucharest Sofia Athens Istanbul Ankara Baghdad Tehran Kabul Karachi Lahore Dhaka Kathmandu
Colombo Milan Turin Naples Venice Florence Bologna Genoa Palermo Lisbon Porto Seville Valencia Barcelona Bilbao Lyon
Marseille Nice Toulouse Bordeaux Nantes Lille Moscow Kyiv Minsk Riga Vilnius Tallinn Reykjavik Havana Kingston Panama
Tunis Algiers Rabat Dakar Kampala Lusaka Harare Luanda
"""
_LONG_CITIES = ("New York", "San Francisco", "Los Angeles", "Mexico City", "Rio de Janeiro", "Cape Town", "Hong Kong")
_FIRST_OF_CITIES = ("New", "New", "New", "Port", "San", "Saint", "Las", "Fort", "Lake", "North", "East", "Old", "Bad")
_NAMES = """\
Anna Bob Carol David Emma Frank Grace Henry Irene Jack Karen Leo Maria Nina Oscar Paul Quinn Rosa Sam Tina Uma Victor
Wendy Xavier Yara Zoe Alice Ben Clara Daniel Eva Felix Gina Hugo Ida James Kate Liam Mia Noah Olga Peter Ruth Simon
Tom Vera Will Ada Alan Ken Dennis Linus Guido Lena Marco Julia Omar Priya Ravi Sofia Yuki Chen Fatima Ivan Jonas Kofi
Lars Mei Nadia Pablo
"""
_CODE = (
    "print('{a}')", 'print("{a} {b}")', "print({a}, {n})", "print(f'{a} {{{b}}}')", "def {a}({b}, {c}):",
    "    return {a}", "import {a}", "from {a} import {b}", "{a} = {n}", "{a} = '{b}'", "if {a} == {n}:",
    "for {a} in {b}:", "# {a} {b}", "    {a}({b}={n})", "{a}.{b}({c})", '"{a}": {n},', '"{a}": "{b}",',
    "<p>{a} {b}</p>", "- [ ] {a} {b}", "| {a} | {b} |", "{a}: {b}", "export {a}={b}", "## {a} {b}",
    "https://{a}.org/{b}", "{a},{b},{n}", "[{a}]", "class {a}:", "{a}[{n}] += {b}", "// {a} {b}", "{a}() {{", "}}",
    "    {a} = {b} + {n}", "$ {a} --{b} {c}", "{n}. {a} {b}", "while {a} < {n}:", "**{a}** {b}", "return {a} * {n}",
    "assert {a}({n}) == {b}", '{{"{a}": {n}}}', "{a} | {b} > {c}", "> {a} {b} {c}", "try:", "else:",
)  # fmt: skip
_ONSETS = "b c d f g h j k l m n p r s t v w z th sh ch st tr br gr kl"
_RIMES = "a e i o u ai or en an il"
_ENDINGS = (".txt", ".py", ".md", ".json", ".csv", ".log", ".toml", ".html", ".c", "")
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def _listed(names: str, *more: str) -> tuple[str, ...]:
    return (*names.split(), *more)


_SMALL_WORDS = frozenset(_listed("""\
the a an and or of to in on at by for with from as is are was be it this that then also please again now but not into
under about another next teh named called there our your my have has will would could must thanks web search online
plus minus times following
"""))  # fmt: skip
CITIES = _listed(_CITIES, *_LONG_CITIES)
NAMES = _listed(_NAMES)
_SYLLABLES = tuple(onset + rime for onset in _listed(_ONSETS) for rime in _listed(_RIMES))


@cache
def words() -> tuple[str, ...]:
    """4,000 English words, the frequent ones first."""
    return _listed(Path(__file__).with_name("words.txt").read_text())


@cache
def _plain_words() -> tuple[str, ...]:
    """Those of the words that don't by themselves say how a sentence goes on."""
    return tuple(word for word in words() if word not in _SMALL_WORDS)


def held_out(value: object) -> bool:
    """Is this value kept for evaluation, with whatever capitals? An eighth of all are."""
    return zlib.crc32(str(value).casefold().encode()) % 8 == 0


class Values:
    """A seeded source of values: `Values(7).word()` → `"harbor"`, `Values(7, "values")` gives held-out ones only.

    `pieces` are tokens of the vocabulary: training glues some of them into words, so that each one comes to be copied.
    With "others", `unseen` is "phrasing", and `of_others` says whose.
    """

    def __init__(self, seed: int, unseen: Unseen | Exam = "nothing", pieces: Sequence[str] = ()) -> None:
        self.random = random.Random(seed)
        self.of_others = unseen == "others"
        self.unseen: Unseen = "phrasing" if unseen == "others" else unseen
        self._pieces = pieces if unseen == "nothing" else ()
        self._few: list[str] = []

    def narrow(self, count: int) -> None:
        """Words come mostly from so few from now on (0: no longer): the same ones meet again, as in an exam."""
        self._few = []
        self._few = [self.word() for _ in range(count)]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one(self, choices: Sequence[_T]) -> _T:
        return self.random.choice(choices)

    def several(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def distinct(self, count: int, make: Callable[[], _T]) -> list[_T]:
        """So many different values."""
        made: list[_T] = []
        while len(made) < count:
            if (value := make()) not in made:
                made.append(value)
        return made

    def word(self) -> str:
        if self._few and self.chance(0.75):
            return self.one(self._few)
        if self._pieces and self.chance(0.3):
            return self.glued()
        return self._of(lambda: self.one(_plain_words())) if self.chance(0.7) else self._of(self._invented)

    def glued(self) -> str:
        """Some tokens in a row: a word that teaches to copy whatever comes."""
        if not self._pieces:
            return self.word()
        while True:
            word = "".join(self.one(self._pieces) for _ in range(self.one((1, 1, 2, 2, 3))))
            word = self.one(self._pieces) * self.several(2, 3) if self.chance(0.07) else word  # "ffffff"
            if 1 < len(word) < 16 and word.lower() not in _SMALL_WORDS and not held_out(word):
                return word

    def city(self) -> str:
        """Half of them are none; training has such as are words by themselves, too, and such as begin with one.

        It also has some without capitals, as people write them.
        """
        city = self._city()
        return city.lower() if self.unseen == "nothing" and self.chance(0.1) else city

    def _city(self) -> str:
        kind = self.random.random()
        if kind < 0.45:
            return self._of(lambda: self.one(CITIES))
        if self.unseen == "nothing" and kind < 0.65:
            return self._of(self._wordy_city)
        return self._of(self._invented).capitalize()

    def name(self) -> str:
        name = self._of(lambda: self.one(NAMES)) if self.chance(0.5) else self._of(self._invented).capitalize()
        return name.lower() if self.unseen == "nothing" and self.chance(0.1) else name

    def number(self, digits: int = 12, below: int | None = None) -> int:
        """A number from 0, of at most so many digits, the short ones more often; or one `below` something."""
        if below is not None:
            return self._of(lambda: self.random.randrange(below))
        most = self.random.choices((1, 2, 3, 4, 5, 6, self.several(7, 12)), (1, 4, 3, 2, 1.5, 1, 1.5))[0]
        count = min(most, digits)
        if count == 1 and self.unseen == "nothing":  # there are too few of them to keep any apart
            return self.random.randrange(10)
        count = max(count, 2)
        return self._of(lambda: self._digits(count))

    def identifier(self) -> str:
        kind = self.random.random()
        if kind < 0.6:
            return self.word()
        if kind < 0.85:
            return self.word() + self.one("__-") + self.word()
        return self._of(lambda: "".join(self.one(_LETTERS) for _ in range(self.several(3, 7))))

    def file(self) -> str:
        """A file's name: `"harbor_list.txt"`."""
        return self.identifier() + (self.one(_ENDINGS) if self.chance(0.9) else f".{self.word()}")

    def path(self) -> str:
        """A folder: `"src"`, `"src/harbor"`, `"./docs"`."""
        kind = self.random.random()
        if kind < 0.55:
            return self.identifier()
        if kind < 0.85:
            return f"{self.identifier()}/{self.identifier()}"
        return f"./{self.identifier()}" if kind < 0.93 else f"/{self.identifier()}/{self.identifier()}"

    def phrase(self, least: int, most: int) -> str:
        return " ".join(self.word() for _ in range(self.several(least, most)))

    def text(self, least: int, most: int) -> str:
        """Words, now and then a capital, a comma, a number, a name or something of code among them."""
        pieces = [self._piece_of_text() for _ in range(self.several(least, most))]
        if self.unseen == "nothing" and len(pieces) > 2 and self.chance(0.12):
            pieces[self.several(1, len(pieces) - 1)] = self.one(pieces)  # a word that comes again
        return " ".join(pieces)

    def code(self) -> str:
        """A line of a program or of a file with markup: `"print('harbor', 40)"`."""
        made = {"a": self.word(), "b": self.word(), "c": self.word(), "n": self.number(5)}
        return self.one(_CODE).format(**made)

    def _piece_of_text(self) -> str:
        kind, word = self.random.random(), self.word()
        for bound, text in ((0.76, word), (0.82, word.capitalize()), (0.87, f"{word},"), (0.90, f"{word}'s")):
            if kind < bound:
                return text
        if kind < 0.94:
            return str(self.number(6))
        return self.name() if kind < 0.96 else self.file() if kind < 0.98 else f"{word}()"

    def _of(self, make: Callable[[], _T]) -> _T:
        """A value of the right side of the split."""
        while held_out(value := make()) is (self.unseen == "nothing"):
            pass
        return value

    def _wordy_city(self) -> str:
        """`"Harbor"`, `"New Harbor"`, `"Port Lima"`: Nice and New York are cities, too."""
        last = self._of(
            lambda: self.one((self.one(_plain_words()), self.one(CITIES[: -len(_LONG_CITIES)]), self._invented()))
        )
        return f"{self.one(_FIRST_OF_CITIES)} {last.title()}" if self.chance(0.5) else self.one(_plain_words()).title()

    def _invented(self) -> str:
        word = "".join(self.one(_SYLLABLES) for _ in range(self.one((2, 2, 3))))
        return word + self.one("nrstlk") if self.chance(0.3) else word

    def _digits(self, count: int) -> int:
        kind = self.random.random()
        if kind < 0.06 and count > 2:
            return int(str(self.several(1, 9)) * count)  # 777777
        if kind < 0.12 and count > 2:
            zeros = self.several(1, count - 1)
            return self._any(count - zeros) * 10**zeros  # 1200000
        return self._any(count)

    def _any(self, digits: int) -> int:
        return self.random.randrange(10 ** (digits - 1), 10**digits)
