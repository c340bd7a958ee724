"""The prompts of the dialogues are what the program makes of the same tools, and their functions are ever new."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

import pytest

from ossia.agent.prompt import DATA, WORK, compose
from ossia.agent.request import Request
from ossia.cli import paths
from ossia.harmony.codec import Codec
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.calls.arguments import ArgumentReader
from ossia.tools.folder import NOTES_HEAD
from ossia.tools.pages import Web
from ossia.tools.pages import browser as make_browser
from ossia.tools.python.tool import PythonTool
from ossia.tools.sandbox import choose
from ossia.tools.spec import ToolSpec
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from tests.etude.declared import Usual
from tests.etude.dialogues import make_dialogue
from tests.etude.export import read_tokens
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.words.values import Unseen, Values
from tests.support.streams import harmony_ids

pytestmark = pytest.mark.own_job

_CALL = re.compile(r"to=functions\.(\w+) <\|constrain\|>json<\|message\|>(.*?)<\|call\|>(.*?)<\|end\|>", re.DOTALL)

_PIECES = sorted(text for text in read_tokens().texts if re.fullmatch("[A-Za-z]+", text))
"""As `tokenizer.pieces` gives them, which takes packages that only training needs."""


def _prefixes(count: int, seed: int = 3, unseen: Unseen = "nothing") -> Iterator[Prefix]:
    values = Values(seed, unseen, _PIECES)
    return (make_prefix(values) for _ in range(count))


def _effort(prefix: Prefix) -> str:
    return prefix.text.partition("Reasoning: ")[2].partition("\n")[0]


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[ToolSpec, ...]]]:
    """The program's own tools, by the section that they have."""
    folder = tmp_path_factory.mktemp("tools")
    browser, pages = make_browser(Web("http://127.0.0.1:8888"), paths.host(), len, private=False)
    with closing(pages), closing(PythonTool(data_dir=folder, confinement=choose(unconfined=True))) as python:
        yield {
            "browser": tuple(tool.spec for tool in browser.tools),
            "python": (python.spec,),
            "repo_browser": tuple(tool.spec for tool in workspace_tools()),
            "container": (Exec().spec,),
        }


_WORK = ("container", "repo_browser")


@pytest.mark.parametrize(
    ("sections", "functions"),
    [
        (_WORK, False),
        (("repo_browser",), False),
        (("browser", "container", "python", "repo_browser"), False),
        (("browser", "python"), False),
        ((), True),
        (("browser", "container", "python", "repo_browser"), True),
    ],
    ids=["workspace", "no commands", "workspace, python, browser", "browser, python", "functions", "all"],
)
def test_a_prompt_is_what_the_program_renders(
    sections: tuple[str, ...],
    functions: bool,
    specs: dict[str, tuple[ToolSpec, ...]],
    etude_tokenizer: Tokenizer,
) -> None:
    def fits(prefix: Prefix) -> bool:
        trained = tuple(tool for tool in prefix.tools if tool in specs)
        both = "browser" not in sections or "sources=docs, web " in prefix.text
        own = NOTES_HEAD in prefix.text or "packages can be imported" in prefix.text
        told = f"# Instructions\n\n{WORK}" if "repo_browser" in sections else f"# Instructions\n\n{DATA}"
        plain = not own and told in prefix.text
        return trained == sections and both and plain and bool(prefix.functions) is functions

    made = list(islice(filter(fits, _prefixes(8000)), 3))
    assert len(made) == 3
    for prefix in made:
        declared = {one.name: one.spec for one in (*prefix.functions, *prefix.named.values())}
        order = ("browser", "python", "repo_browser", "container")
        tools = [spec for name in order if name in sections for spec in specs[name]]
        tools += [declared[name] for name in prefix.tools if name in declared]
        told = WORK if "repo_browser" in sections else None
        messages = compose(Request((), tuple(tools), _effort(prefix), told, prefix.date))  # type: ignore[arg-type]
        rendered = Codec(etude_tokenizer).render(messages, purpose="training")
        assert etude_tokenizer.decode(rendered.ids) == prefix.text


def test_what_else_stands_in_the_instructions() -> None:
    made = list(_prefixes(600))
    works = [prefix for prefix in made if prefix.has_files]
    assert 0.3 < len(works) / len(made) < 0.45
    assert all(DATA in prefix.text for prefix in works)
    own = [prefix for prefix in works if WORK not in prefix.text]
    noted = [prefix for prefix in works if f"{WORK}\n\n{NOTES_HEAD}\n\n" in prefix.text]
    assert own and noted and any(not prefix.has_shell for prefix in works)


def test_a_prompt_is_not_long(etude_tokenizer: Tokenizer) -> None:
    lengths = [len(harmony_ids(etude_tokenizer, prefix.text)) for prefix in _prefixes(500)]
    assert max(lengths) < 2500 and sum(lengths) / len(lengths) < 900


def test_no_function_is_seen_twice() -> None:
    functions = [one for prefix in _prefixes(5000) for one in (*prefix.functions, *prefix.named.values())]
    made = [one for one in functions if not isinstance(one, Usual)]
    assert len(made) > 3000 and len({one.name for one in made}) > 0.999 * len(made)
    assert all(re.fullmatch(r"[A-Za-z0-9_]{2,64}", one.name) for one in functions)
    shapes: dict[str, Callable[[str], object]] = {
        "snake": re.compile(r"[a-z]+(_[a-z]+)+").fullmatch,
        "camelCase": re.compile(r"[a-z]+([A-Z][a-z]+)+").fullmatch,
        "digits": re.compile(r"\w*\d").fullmatch,
        "a server's": re.compile(r"[^_]\w*__\w+").fullmatch,
    }
    for shape, has in shapes.items():
        assert sum(has(one.name) is not None for one in made) > 0.04 * len(made), shape


def test_what_an_argument_is_called_does_not_follow_from_the_function() -> None:
    called: dict[str, set[str]] = {}
    for prefix in _prefixes(3000):
        for purpose, usual in prefix.named.items():
            called.setdefault(usual.name, set()).add(usual.argument)
            called.setdefault(purpose, set()).add(usual.argument)
    assert {"location", "city", "place", "town"} < called["get_weather"]
    assert all(len(called[purpose]) > 50 for purpose in ("weather", "list", "read", "shell"))


def test_calls_have_the_arguments_that_are_declared() -> None:
    values = Values(8)
    called, faults, left_out = 0, 0, 0
    for prefix in _prefixes(1200, seed=9):
        declared = {one.name: one.spec for one in (*prefix.functions, *prefix.named.values())}
        for skill in ("functions", "weather", "files"):
            text = "".join(text for text, _ in make_dialogue(values, prefix, skill).segments)
            for name, arguments, result in _CALL.findall(text):
                if "is a required property" in result:
                    faults += 1
                    continue
                given = json.loads(arguments)
                assert ArgumentReader(declared[name]).read(arguments) == given
                offered = declared[name].parameters or {}
                properties = offered.get("properties", {})
                assert isinstance(properties, dict) and given.keys() <= properties.keys()
                called += 1
                left_out += given.keys() < properties.keys()
    assert called > 600 and left_out > 50 and faults > 3
