"""The functions of a program that imports ossia, as tools."""

from __future__ import annotations

import asyncio
import functools
import math
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from ossia.harmony.typescript import typescript
from ossia.tools.functions import FunctionsInvalid
from ossia.tools.functions.user import tools_of
from tests.support.calls import call


class Seat(BaseModel):
    row: int
    side: Literal["window", "aisle"] = "window"


@dataclass
class Passenger:
    name: str
    age: int | None = None


class Shelf:
    """Parts, by name."""

    def __init__(self, **parts: int) -> None:
        self._parts = parts

    def count(self, part: str) -> int:
        """The number of a spare part.

        Args:
            part: its whole name
        """
        return self._parts[part]

    count.effects = {"read"}  # noqa: RUF012

    @functools.lru_cache  # noqa: B019
    def total(self) -> int:
        """The number of all parts."""
        return sum(self._parts.values())

    @classmethod
    def empty(cls) -> str:
        """An empty shelf."""
        return cls.__name__

    @staticmethod
    def unit(part: str) -> str:
        """The unit of a part."""
        return f"pieces of {part}"


def book(seat: Seat, passengers: list[Passenger]) -> str:
    """Book a seat."""
    assert isinstance(seat, Seat) and all(isinstance(one, Passenger) for one in passengers)
    return f"{seat.row} {seat.side}: {', '.join(one.name for one in passengers)}"


async def soon(text: str) -> str:
    """The text, a little later."""
    await asyncio.sleep(0)
    return text + "!"


def numbers(up_to: int) -> Iterator[int]:
    """Count."""
    yield from range(1, up_to + 1)


def silent() -> None:
    """Do something."""
    print("printed by the program's function")


def test_functions_and_methods_are_tools_under_their_own_names(tmp_path: Path) -> None:
    shelf = Shelf(screw=40, nut=2)
    tools = tools_of([book, soon, numbers, shelf.count, shelf.total, Shelf.empty, Shelf.unit])
    assert [tool.spec.name.removeprefix("functions.") for tool in tools] == [
        *("book", "soon", "numbers", "count", "total", "empty", "unit")
    ]
    for name, args, text in [
        ("book", {"seat": {"row": 7}, "passengers": [{"name": "Ada"}, {"name": "Bo"}]}, "7 window: Ada, Bo"),
        ("soon", {"text": "done"}, "done!"),
        ("numbers", {"up_to": 3}, "[1, 2, 3]"),
        ("count", {"part": "screw"}, "40"),
        ("total", {}, "42"),
        ("empty", {}, "Shelf"),
        ("unit", {"part": "nut"}, "pieces of nut"),
        ("count", {"part": "bolt"}, "Error: functions.count: KeyError: 'bolt'"),
    ]:
        assert call(tools, f"functions.{name}", args, folder=tmp_path).text == text
    spec = tools[3].spec
    assert (spec.description, spec.effects, spec.provenance, spec.source) == (
        "The number of a spare part.",
        {"read"},
        "user",
        "this program",
    )
    assert typescript(spec.parameters) == "{\n// its whole name\npart: string,\n}"


def test_they_are_trusted_as_those_of_a_file_are(tmp_path: Path) -> None:
    tools = tools_of([soon, Shelf(nut=1).count])
    assert call(tools, "functions.soon", {"text": "x"}, folder=tmp_path).asked == ()
    outside = frozenset({"outside"})
    assert call(tools, "functions.soon", {"text": "x"}, folder=tmp_path, taint=outside).asked
    assert not call(tools, "functions.count", {"part": "nut"}, folder=tmp_path, taint=outside).asked


def test_they_print_where_the_program_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its other threads, too: a program reads the events and prints them while its function runs."""
    began, printed = threading.Event(), threading.Event()

    def wait() -> None:
        """Wait for the program to print."""
        began.set()
        assert printed.wait(20)

    def printing() -> None:
        assert began.wait(20)
        print("an event")
        printed.set()

    streams = sys.stdout, sys.stderr, sys.stdin
    thread = threading.Thread(target=printing)
    thread.start()
    assert call(tools_of([wait]), "functions.wait", {}, folder=tmp_path).text == "null"
    thread.join()
    assert call(tools_of([silent]), "functions.silent", {}, folder=tmp_path).text == "null"
    assert capsys.readouterr() == ("an event\nprinted by the program's function\n", "")
    assert (sys.stdout, sys.stderr, sys.stdin) == streams


def test_the_program_s_log_says_where_one_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The model reads one line; whoever wrote the function needs the place."""
    call(tools_of([Shelf().count]), "functions.count", {"part": "bolt"}, folder=tmp_path)
    (record,) = caplog.records
    assert record.name == "ossia"
    assert record.getMessage().startswith("functions.count failed: KeyError: 'bolt'\n")
    assert "return self._parts[part]" in record.getMessage() and "tools/functions/_" not in record.getMessage()


def untyped(city):
    ...


def python(code: str) -> str:
    return code


def übersetze(text: str) -> str:
    return text


class Adder:
    def __call__(self, x: int) -> int:
        return x

    def __repr__(self) -> str:
        return "<an object\nthat can be called>"


@pytest.mark.parametrize(
    ("functions", "problem"),
    [
        (
            [untyped],
            "tools: untyped can't be a tool: test_of_programs.py line {} has no type hint: write e.g. city: str",
        ),
        ([lambda: 1], "tools: expected functions with type hints (def), not <function <lambda> at"),
        ([functools.partial(soon, "x")], "tools: expected functions with type hints (def), not functools.partial("),
        ([math.sqrt], "tools: expected functions with type hints (def), not <built-in function sqrt>"),
        ([Shelf], "tools: expected functions with type hints (def), not <class '"),
        ([Adder()], "tools: expected functions with type hints (def), not <an object that can be called>"),
        (["weather"], "tools: expected functions with type hints (def), not 'weather'"),
        ([soon, book, soon], "tools: two functions are called 'soon': rename one of them"),
        ([python], "tools: the name 'python' is gpt-oss's own: rename the function"),
        ([übersetze], "tools: the name 'übersetze' has other characters than A-Z, 0-9, _: rename the function"),
    ],
)
def test_one_that_cannot_be_a_tool_is_one_line(functions: Sequence[Any], problem: str) -> None:
    with pytest.raises(FunctionsInvalid) as caught:
        tools_of(functions)
    first, _, last = problem.partition("{}")
    assert str(caught.value).startswith(first) and last in str(caught.value) and "\n" not in str(caught.value)


def test_a_function_within_a_function(tmp_path: Path) -> None:
    """In a test or a notebook, they are defined wherever they are needed."""
    seen: list[int] = []

    def note(number: int) -> str:
        seen.append(number)
        return "noted"

    assert call(tools_of([note]), "functions.note", {"number": 3}, folder=tmp_path).text == "noted"
    assert seen == [3]


def test_no_pydantic_before_there_are_functions() -> None:
    code = "import sys; from ossia.tools.functions.user import tools_of; tools_of([]); print('pydantic' in sys.modules)"
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False\n", "")
