"""The user's own functions as tools: loaded from files and packages, called through the toolbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from ossia.agent.control import Control
from ossia.harmony.typescript import typescript
from ossia.tools.functions import FunctionsInvalid
from ossia.tools.functions._inspect import result_text
from ossia.tools.functions.naming import Loaded, without_duplicates
from ossia.tools.functions.user import load_entry_point, load_functions
from ossia.tools.spec import ToolOutput
from tests.support.calls import call


@pytest.fixture(autouse=True)
def _same_search_path() -> Iterator[None]:
    """What a file imports or puts on sys.path stays: a test takes that back."""
    before, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = before
    for name in set(sys.modules) - modules:
        if name in ("helper_of_functions", "json_helper", "jsonlike"):
            del sys.modules[name]


def _load(folder: Path, source: str, name: str = "weather.py", timeout_s: float = 20.0) -> Loaded:
    path = folder / name
    path.write_text(dedent(source))
    return load_functions(path, timeout_s=timeout_s)


WEATHER = '''
    from typing import Annotated, Literal
    from pathlib import Path
    from pydantic import Field

    SECRET = "x"

    def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius",
                    days: Annotated[int | None, Field(description="How many days ahead")] = None) -> dict[str, object]:
        """The weather of a city.

        It is sunny anyway, and this is too long for the model.

        Args:
            city: The name of the city,
                in English
            unit: ignored where the type says enough
        """
        return {"temperature": 10, "condition": "sunny", "unit": unit}

    def _hidden(x: int) -> int:
        return x

    class NotAFunction:
        pass
'''


def test_what_the_model_is_told(tmp_path: Path) -> None:
    loaded = _load(tmp_path, WEATHER)
    assert [tool.spec.name for tool in loaded.tools] == ["functions.get_weather"]
    assert loaded.warnings == ()
    spec = loaded.tools[0].spec
    assert (spec.description, spec.source, spec.effects) == (
        "The weather of a city.",
        "file weather.py",
        frozenset({"run"}),
    )
    assert typescript(spec.parameters) == dedent("""\
        {
        // The name of the city, in English
        city: string,
        // ignored where the type says enough
        unit?: "celsius" | "fahrenheit", // default: celsius
        // How many days ahead
        days?: number,
        }""")


def test_a_result_is_json_as_models_know_it(tmp_path: Path) -> None:
    tools = _load(tmp_path, WEATHER).tools
    called = call(tools, "functions.get_weather", {"city": "Oslo"}, folder=tmp_path)
    assert called.text == '{"temperature": 10, "condition": "sunny", "unit": "celsius"}'
    assert not called.result.error
    assert called.result.taints == {"private"}


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("'as it is\\n'", "as it is\n"),
        ("None", "null"),
        ("['é', 1.5, True, None]", '["é", 1.5, true, null]'),
        ("Point(1, datetime.date(2026, 1, 2))", '{"x": 1, "day": "2026-01-02"}'),
        ("{1: {2}}", '{"1": [2]}'),
        ("(n for n in [1, 2])", "[1, 2]"),
        ("itertools.count()", json.dumps(list(range(1000)))),
        ("b'raw'", '"raw"'),
        ("print", '"<built-in function print>"'),
        ("CIRCULAR", "[[...]]"),
        ("'\\ud800half'", "?half"),
        ("'x' * 3_000_000", None),
    ],
)
def test_what_a_function_may_return(tmp_path: Path, returned: str, text: str | None) -> None:
    """Hostile row 34: also what is no JSON, and far too much."""
    source = f"""
        import dataclasses, datetime, itertools
        CIRCULAR = []
        CIRCULAR.append(CIRCULAR)
        @dataclasses.dataclass
        class Point:
            x: int
            day: datetime.date
        def made():
            return {returned}
        """
    called = call(_load(tmp_path, source).tools, "functions.made", folder=tmp_path)
    assert not called.result.error
    if text is None:
        assert len(called.text) < 50_000 and "characters omitted" in called.text
    else:
        assert called.text == text


def test_a_long_result_is_cut_before_its_tokens_are_counted() -> None:
    text = result_text(["x" * 3_000_000])
    assert len(text) < 400_100 and text.startswith('["xxx') and text.endswith('xxx"]')
    assert "\n[... 2600004 characters omitted]\n" in text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise ValueError('no such\\ncity')", "Error: functions.bad: ValueError: no such city"),
        ("assert False", "Error: functions.bad: AssertionError"),
        ("sys.exit(3)", "Error: functions.bad: SystemExit: 3 (a function can't end ossia)"),
        ("raise KeyboardInterrupt", "Error: functions.bad: KeyboardInterrupt"),
        ("input('name? ')", "Error: functions.bad: EOFError: there is no input here: take it as a parameter"),
        ("sys.stdin.read()", "Error: functions.bad: EOFError: there is no input here: take it as a parameter"),
        ("return Odd()", "Error: functions.bad: ZeroDivisionError: division by zero"),
        ("raise Odd()", "Error: functions.bad: Odd: (its text can't be had)"),
        ("raise Leaving()", "Error: functions.bad: Leaving: (its text can't be had)"),
        ("raise Looping()", "Error: functions.bad: Looping: (its text can't be had)"),
        ("raise Nameless('x')", "Error: functions.bad: an exception: x"),
        ("sys.exit(Leaving())", "Error: functions.bad: SystemExit: (its text can't be had) (a function can't end"),
        ("raise ValueError('a\\ud800b')", "Error: functions.bad: ValueError: a"),
        ("bad()", "Error: functions.bad: RecursionError: maximum recursion depth exceeded"),
        ("raise RuntimeError('x' * 10_000)", "Error: functions.bad: RuntimeError: xxx"),
    ],
)
def test_a_function_that_fails_is_one_line_to_the_model(tmp_path: Path, body: str, text: str) -> None:
    """Hostile row 34: raising, sys.exit, input()."""
    source = f"""
        import sys
        class Odd(Exception):
            def __repr__(self): return str(1 / 0)
            __str__ = __repr__
        class Leaving(Exception):
            def __str__(self): sys.exit(3)
        class Looping(BaseException):
            def __str__(self): raise Looping
        class Kind(type):
            __name__ = property(lambda kind: sys.exit(3))
        class Nameless(Exception, metaclass=Kind): pass
        def bad():
            {body}
        """
    called = call(_load(tmp_path, source).tools, "functions.bad", folder=tmp_path)
    assert called.text.startswith(text)
    assert called.result.error and "\n" not in called.text and len(called.text) < 700
    assert "Traceback" not in called.text


def test_code_that_runs_while_its_fault_is_told_is_the_functions_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can print, and take for ever."""
    source = """
        import time
        class Chatty(Exception):
            def __str__(self):
                print("said while asked")
                return "well"
        class Slow(Exception):
            def __str__(self):
                while True: time.sleep(0.01)
        def chatty(): raise Chatty
        def slow(): raise Slow
        """
    tools = _load(tmp_path, source).tools
    assert call(tools, "functions.chatty", folder=tmp_path).text == "Error: functions.chatty: Chatty: well"
    tools = _load(tmp_path, source, timeout_s=0.5).tools
    assert call(tools, "functions.slow", folder=tmp_path).text.startswith("Error: functions.slow did not end within")
    assert capsys.readouterr() == ("", "")


def test_a_validator_cannot_end_ossia(tmp_path: Path) -> None:
    source = """
        import sys
        from typing import Annotated
        from pydantic import AfterValidator
        def _leave(value): sys.exit(value)
        def odd(n: Annotated[int, AfterValidator(_leave)]): return n
        """
    called = call(_load(tmp_path, source).tools, "functions.odd", {"n": 3}, folder=tmp_path)
    assert (called.text, called.result.error) == (
        "Error: functions.odd: SystemExit: 3 (a function can't end ossia)",
        True,
    )
    assert called.result.taints == {"private"}


def test_the_person_at_the_screen_sees_where_it_failed(tmp_path: Path) -> None:
    source = """
        def bad():
            return 1 / 0
        """
    called = call(_load(tmp_path, source).tools, "functions.bad", folder=tmp_path)
    assert 'weather.py", line 3, in bad' in called.shown
    assert "tools/functions" not in called.shown


def test_prints_do_not_reach_our_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hostile row 34: printing to stdout and stderr, also from log handlers, threads and tasks of the function."""
    source = """
        import asyncio, logging, sys, threading
        log = logging.Logger("mine")
        log.addHandler(logging.StreamHandler())
        def told() -> str:
            print("printed")
            sys.stderr.write("to stderr\\n")
            sys.stdout.buffer.write(b"bytes\\n")
            log.warning("logged")
            thread = threading.Thread(target=lambda: print("in a thread of its own"))
            thread.start()
            thread.join()
            return "done"
        async def later() -> str:
            await asyncio.to_thread(print, "from a task")
            return "awaited"
        """
    tools = _load(tmp_path, source).tools
    before = (sys.stdout, sys.stderr, sys.stdin)
    called = call(tools, "functions.told", folder=tmp_path)
    assert (called.text, called.shown) == ("done", "printed\nto stderr\nbytes\nlogged\n")
    called = call(tools, "functions.later", folder=tmp_path)
    assert (called.text, called.shown) == ("awaited", "from a task\n")
    assert (sys.stdout, sys.stderr, sys.stdin) == before
    assert capsys.readouterr() == ("", "in a thread of its own\n")


def test_what_others_print_meanwhile_is_not_the_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
        import time
        def slow() -> None:
            print("begun")
            time.sleep(0.2)
        """
    (tool,) = _load(tmp_path, source).tools
    from ossia.tools.spec import Decision, NoStop, ToolCall
    from tests.support.calls import toolbox_of

    running = toolbox_of([tool], tmp_path).run(ToolCall("c", tool.spec.name, "{}"), stop=NoStop())
    event: object = None
    while not isinstance(event, ToolOutput):
        event = running.send(None if event is None else Decision("c", True))
    print("ours")
    assert [event for event in running if isinstance(event, ToolOutput)] == [ToolOutput("c", "\n")]
    assert capsys.readouterr().out == "ours\n"


def test_a_function_that_returns_nothing_is_what_it_printed(tmp_path: Path) -> None:
    source = """
        def say(n: int) -> None:
            for i in range(n):
                print("line", i)
        """
    tools = _load(tmp_path, source).tools
    assert call(tools, "functions.say", {"n": 2}, folder=tmp_path).text == "line 0\nline 1"
    assert call(tools, "functions.say", {"n": 0}, folder=tmp_path).text == "null"


def test_a_flood_of_prints_is_cut(tmp_path: Path) -> None:
    source = """
        def flood() -> str:
            for _ in range(100):
                print("x" * 10_000)
            return "done"
        """
    called = call(_load(tmp_path, source).tools, "functions.flood", folder=tmp_path)
    assert called.text == "done"
    assert 200_000 < len(called.shown) < 200_200 and "left out" in called.shown


@pytest.mark.parametrize(
    "loop",
    ["while True: pass", "import time; time.sleep(0.05)", "print('x')", "import asyncio; await asyncio.sleep(9)"],
)
@pytest.mark.parametrize("how", ["timeout", "stop"])
def test_a_function_that_does_not_end_is_ended(tmp_path: Path, loop: str, how: str) -> None:
    """Hostile row 34: an infinite loop costs neither the turn nor the next call."""
    body = loop if loop.startswith("while") else f"while True: {loop}"
    source = f"""
        {"async " if "await" in loop else ""}def endless() -> str:
            {body}
        def fine() -> str:
            return "fine"
        """
    tools = _load(tmp_path, source, timeout_s=0.3 if how == "timeout" else 20).tools
    control = Control()
    if how == "stop":
        threading.Timer(0.2, control.stop, ("time",)).start()
    called = call(tools, "functions.endless", folder=tmp_path, stop=control)
    said = "[interrupted: out of time]" if how == "stop" else "Error: functions.endless did not end within 0.3 seconds"
    assert called.result.error and called.text.startswith(said)
    _until(lambda: not any(thread.name == "ossia-function" for thread in threading.enumerate()))
    assert call(tools, "functions.fine", folder=tmp_path).text == "fine"


def test_a_function_that_cannot_be_ended_is_said_to_run_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    source = f"""
        import os
        def stuck() -> None:
            os.read({reader}, 1)
            print("too late")
        """
    called = call(_load(tmp_path, source, timeout_s=0.1).tools, "functions.stuck", folder=tmp_path)
    assert "could not be ended and still runs" in called.text
    os.write(writer, b"x")
    _until(lambda: not any(thread.name == "ossia-function" for thread in threading.enumerate()))
    assert capsys.readouterr() == ("", "")
    os.close(reader)
    os.close(writer)


def _until(holds: object) -> None:
    assert callable(holds)
    for _ in range(500):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def test_arguments_become_what_the_function_takes(tmp_path: Path) -> None:
    source = """
        from __future__ import annotations
        import datetime, enum
        from dataclasses import dataclass
        from typing import Optional

        class Unit(enum.Enum):
            C = "celsius"
        @dataclass
        class Place:
            city: str
            heights: list[float]
        def at(day: datetime.date, place: Place, unit: Unit, note: Optional[str]) -> str:
            return f"{day!r} {place!r} {unit!r} {note!r}"
        """
    tools = _load(tmp_path, source).tools
    args: dict[str, object] = {"day": "2026-01-02", "place": {"city": "Oslo", "heights": [1]}, "unit": "celsius"}
    called = call(tools, "functions.at", {**args, "note": None}, folder=tmp_path)
    assert called.text == "datetime.date(2026, 1, 2) Place(city='Oslo', heights=[1.0]) <Unit.C: 'celsius'> None"
    called = call(tools, "functions.at", {**args, "day": "someday", "note": "x"}, folder=tmp_path)
    assert called.result.error and "functions.at: day: Input should be a valid date" in called.text
    called = call(tools, "functions.at", {**args, "note": "x", "more": 1}, folder=tmp_path)
    assert called.result.error and "functions.at: unknown argument 'more'" in called.text


def test_what_a_function_says_of_itself(tmp_path: Path) -> None:
    source = """
        def look(x: int) -> int:
            return x
        look.effects = {"read"}
        look.taints = {"outside"}
        """
    (tool,) = _load(tmp_path, source).tools
    assert tool.spec.effects == {"read"}
    called = call([tool], "functions.look", {"x": 1}, folder=tmp_path)
    assert called.result.taints == {"outside"} and called.asked == ()
    with pytest.raises(FunctionsInvalid, match=r"look can't be .*: its effects must be a set of 'read', .* not 'fly'"):
        _load(tmp_path, source.replace('{"read"}', '"fly"'))


def test_confusing_names_are_aliased_and_said(tmp_path: Path) -> None:
    source = """
        def python(code: str) -> str:
            return "mine: " + code
        def über_name(x: int) -> int:
            return x
        """
    loaded = _load(tmp_path, source)
    assert [tool.spec.name for tool in loaded.tools] == ["functions.python_tool", "functions.ber_name"]
    assert loaded.warnings == (
        "weather.py: gpt-oss would take 'python' for a tool of its own: the function is offered as 'python_tool'",
        "weather.py: 'über_name' isn't a valid name for a tool: the function is offered as 'ber_name'",
    )
    assert call(loaded.tools, "functions.python_tool", {"code": "1"}, folder=tmp_path).text == "mine: 1"


def test_of_two_tools_of_a_name_the_first_stays(tmp_path: Path) -> None:
    first = _load(tmp_path, WEATHER, "a.py").tools
    second = _load(tmp_path, WEATHER, "b.py").tools
    merged = without_duplicates([*first, *second])
    assert merged.tools == first
    assert merged.warnings == ("file b.py: functions.get_weather is left out: file a.py has a tool of that name",)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def f(x): return x", "weather.py line 1: the parameter 'x' has no type hint: write e.g. x: str"),
        ("\ndef f(*xs: int): return 1", "weather.py line 2: *xs can't be shown to a model: name the parameters"),
        ("def f(**xs: int): return 1", "weather.py line 1: **xs can't be shown to a model: name the parameters"),
        ("def f(x: int, /): return 1", "weather.py line 1: the parameter 'x' is positional-only: remove the /"),
        ("def f(a, *b): return 1", "the parameter 'a' has no type hint: write e.g. a: str; *b can't be shown to a"),
        ("f = lambda: 1", "f can't be a tool: weather.py line 1: a lambda has no type hints: write a def, or begin"),
        ("async def f(): yield 1", "weather.py line 1: an async generator can't be a tool: return a list"),
        ("class A: pass\ndef f(ok: int, x: A): ...", "'x' has a type that JSON can't express: write e.g. str, int,"),
        ("def f(x): ...\ndef g(y): ...", "write e.g. x: str; g can't be a tool: weather.py line 2: the parameter 'y'"),
        ("from typing import Callable\ndef f(x: Callable[[], int]): ...", "JSON can't express: write e.g. str"),
        ("def f(x: 'Nowhere'): return x", "weather.py line 1: its type hints can't be used"),
        ("import nowhere_at_all", "weather.py line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = 1\ndef f(:\n", "weather.py line 2: SyntaxError: "),
        ("x = 1\n\nraise SystemExit(2)", "weather.py line 3: SystemExit: 2"),
        ("x = 1", "weather.py: it defines no public function that a model could call"),
        ("__all__ = ['g', 'h']", "weather.py: __all__ names 'g', 'h', which the file doesn't define"),
        ("x = '\0'", "weather.py"),
        ("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E", "weather.py line 3: E: (its text"),
        ("__all__ = 3", "weather.py: TypeError: "),
        ("class R:\n    def __repr__(self): exit(3)\ndef f(): ...\nf.effects = R()", "declaration fails: SystemExit"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, source: str, problem: str) -> None:
    with pytest.raises(FunctionsInvalid) as caught:
        _load(tmp_path, source)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


TWO_OF_FOUR = """
    def good(x: int) -> int:
        return x
    def untyped(x, y): ...
    def also_good() -> int:
        return 1
    def starred(*xs: int): ...
    """


def test_functions_that_cannot_be_tools_are_skipped_and_all_are_named(tmp_path: Path) -> None:
    """One of them used to refuse the file, and the next one only once that was mended."""
    loaded = _load(tmp_path, TWO_OF_FOUR)
    assert [tool.spec.name for tool in loaded.tools] == ["functions.good", "functions.also_good"]
    untyped = (
        "weather.py line 4: the parameter 'x' has no type hint: write e.g. x: str; "
        "the parameter 'y' has no type hint: write e.g. y: str"
    )
    starred = "weather.py line 7: *xs can't be shown to a model: name the parameters"
    assert loaded.skipped == {"untyped": untyped, "starred": starred}
    assert loaded.warnings == (f"untyped is skipped: {untyped}", f"starred is skipped: {starred}")


def test_only_the_named_functions_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text("def a(x): ...\ndef b() -> int: ...\ndef c() -> int: ...\n")
    loaded = load_functions(tmp_path / "weather.py", names=["c", "b"])
    assert [tool.spec.name for tool in loaded.tools] == ["functions.c", "functions.b"]
    assert (loaded.warnings, loaded.skipped) == ((), {})
    for names, problem in {
        ("b", "d"): "weather.py: has no function 'd', only a, b, c",
        ("a", "b"): "a can't be a tool: weather.py line 1: the parameter 'x' has no type hint: write e.g. x: str",
    }.items():
        with pytest.raises(FunctionsInvalid) as caught:
            load_functions(tmp_path / "weather.py", names=names)
        assert str(caught.value) == problem


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FunctionsInvalid, match=r"nowhere\.py: can't be read: No such file"):
        load_functions(tmp_path / "nowhere.py")
    with pytest.raises(FunctionsInvalid, match="Is a directory"):
        load_functions(tmp_path)


def test_a_file_is_run_once_as_a_script_would_be(tmp_path: Path) -> None:
    (tmp_path / "helper_of_functions.py").write_text("def helped(x: int) -> int:\n    return x + 1\n")
    source = """
        import functools
        from helper_of_functions import helped
        print("loading")
        COUNT = []
        COUNT.append(1)
        @functools.lru_cache
        def count(x: int) -> int:
            return len(COUNT) + helped(x)
        """
    path = list(sys.path)
    loaded = _load(tmp_path, source)
    assert [tool.spec.name for tool in loaded.tools] == ["functions.count"]
    assert loaded.warnings == ("weather.py printed while it was loaded: loading",)
    assert sys.path == path
    assert call(loaded.tools, "functions.count", {"x": 1}, folder=tmp_path).text == "3"
    assert not (tmp_path / "__pycache__" / "weather.cpython-311.pyc").exists()


def test_nothing_is_imported_from_its_folder_later(tmp_path: Path) -> None:
    """Our own libraries look for modules that needn't be there (`orjson`) when they are first needed."""
    source = """
        def late() -> int:
            import planted_later
            return planted_later.VALUE
        """
    loaded = _load(tmp_path, source)
    (tmp_path / "planted_later.py").write_text("VALUE = 1\n")
    result = call(loaded.tools, "functions.late", {}, folder=tmp_path)
    assert result.text == "Error: functions.late: ModuleNotFoundError: No module named 'planted_later'"


def test_all_decides_what_is_public(tmp_path: Path) -> None:
    source = """
        from textwrap import dedent
        __all__ = ["dedented", "LIMIT", "_kept"]
        LIMIT = 3
        def dedented(text: str) -> str:
            return dedent(text)
        def _kept() -> int:
            return 1
        def left_out(x):
            return x
        """
    names = [tool.spec.name for tool in _load(tmp_path, source).tools]
    assert names == ["functions.dedented", "functions.kept"]


def test_entry_points_of_the_names_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "my_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tools\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ossia.tools]\none = my_tools_package:double\nlist = my_tools_package:LISTED\n"
        "module = my_tools_package\nnone = my_tools_package:LIMIT\nbroken = my_tools_package:nowhere\n"
    )
    (tmp_path / "my_tools_package.py").write_text(
        "LIMIT = 3\ndef double(n: int) -> int:\n    return 2 * n\ndef _hidden(n): ...\nLISTED = [double]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        for name in ("one", "list", "module"):
            loaded = load_entry_point(name)
            assert [(tool.spec.name, tool.spec.source) for tool in loaded.tools] == [
                ("functions.double", "package my-tools")
            ]
        assert call(loaded.tools, "functions.double", {"n": 4}, folder=tmp_path).text == "8"
        assert load_entry_point("module", names=["double"]).tools[0].spec.name == "functions.double"
        with pytest.raises(FunctionsInvalid, match="module: has no function 'halve', only double"):
            load_entry_point("module", names=["halve"])
        for name, problem in {
            "none": "must be a function, a list of functions or a module, not 3",
            "broken": "'broken': AttributeError: module 'my_tools_package' has no attribute 'nowhere'",
            "gone": r"no installed package has the ossia.tools entry point 'gone' \(installed: broken, list",
        }.items():
            with pytest.raises(FunctionsInvalid, match=problem):
                load_entry_point(name)
    finally:
        sys.modules.pop("my_tools_package", None)


def test_loading_imports_no_mcp(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(x: int) -> int:\n    return x\n")
    code = (
        "import sys; from pathlib import Path; from ossia.tools.functions.user import load_functions\n"
        "assert 'pydantic' not in sys.modules\n"
        "load_functions(Path('f.py')); print([m for m in ('mcp', 'jsonschema', 'asyncio.events') if m in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "mcp" not in done.stdout
