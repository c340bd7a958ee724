"""When the browser is offered: only where there is something to browse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ossia.tools.pages import has_address
from tests.support.command import line_of, ossia, ossia_here, write_script
from tests.support.screen import ChatScreen, chatting

ANSWER = "<|channel|>final<|message|>Fine.<|return|>"


@pytest.mark.parametrize(
    "text",
    [
        "see https://a.test/x",
        "HTTP://10.0.0.1:8080",
        "www.example",
        "example.org",
        "(docs.python.org/3/)",
        "On bbc.co.uk.",
    ],
)
def test_addresses(text: str) -> None:
    assert has_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "mend setup.py",
        "node.js or README.md?",
        "me@example.org",
        "src/a.com/x",
        "3.14 e.g. i.e. U.S.",
        "a.commit()",
        "http",
    ],
)
def test_no_addresses(text: str) -> None:
    assert not has_address(text)


def _offered(*flags: str, question: str = "hi") -> bool:
    done = ossia_here("run", question, "--json", *flags)
    assert done.returncode == 0, done.stderr
    return line_of(done)["usage"]["prompt_tokens"] > 400


def test_a_run_offers_it_where_there_is_something_to_browse(tmp_path: Path) -> None:
    script = ("--engine", write_script(tmp_path, ANSWER))
    assert not _offered(*script)
    assert not _offered(*script, question="What does setup.py do?")
    assert _offered(*script, question="What stands on example.org/news?")
    assert _offered(*script, "--web", "http://127.0.0.1:9")
    assert _offered(*script, "--allow-host", "127.0.0.1:9")
    assert _offered(*script, "--tools", "browser")


def test_a_session_in_which_an_address_was_typed_keeps_it(tmp_path: Path) -> None:
    script = ("--engine", write_script(tmp_path, ANSWER))
    assert _offered(*script, "--save", question="What stands on example.org?")
    assert _offered(*script, "--continue", question="And now?")


def test_documents_bring_it(tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("A note.")
    script = ("--engine", write_script(tmp_path, ANSWER))
    assert ossia("docs", "add", str(notes)).returncode == 0
    assert _offered(*script)


def test_the_list_leaves_it_out_and_a_call_by_hand_finds_it() -> None:
    listed = ossia_here("tools", "list", "--json")
    assert [one["name"] for one in json.loads(listed.stdout)["tools"] if one["name"].startswith("browser")] == []
    assert b"The local library is empty" in ossia_here("tools", "call", "browser.search", '{"query": "x"}').stdout


def test_in_a_chat_it_joins_when_an_address_is_typed_and_that_is_said_once(tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, ANSWER, ANSWER, ANSWER)
        async with ChatScreen(engine=script, no_tools=None) as stage:

            async def say(line: str, answers: int) -> list[str]:
                await stage.type(f"{line}\r")
                await stage.until(lambda: stage.rows.count("Fine.") == answers)
                await stage.settle()
                return [row for row in stage.rows if row.startswith("the browser is on now: about ")]

            assert await say("What does setup.py do?", 1) == []
            (told,) = await say("What stands on example.org?", 2)
            assert "tokens of the prompt are read again" in told
            assert await say("And now?", 3) == [told]
            assert stage.talk.loaded is not None
            assert "browser.open" in [spec.name for spec in stage.talk.loaded.tools.toolbox.specs]

    chatting(case)
