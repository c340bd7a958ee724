"""`ossia run` with servers that keep Harmony to themselves, on loopback; see `tests.support.dialects`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.served.engine import LESS, NOT_HAD
from ossia.cli.runtime.progress import Display
from tests.support.command import line_of, ossia
from tests.support.dialects import ANSWER, DONE, call, chat, chunk, responses, sse, text, thoughts, tool_call
from tests.support.served import Server
from tests.support.site import Reply

QUIET = Display(quiet=True)
QUESTION = "What is 48*17?"
DOUBLE = 'def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n'

Made = Callable[..., Server]


@pytest.fixture
def server() -> Iterator[Made]:
    """Makes a server that gives these answers, and that has one model."""
    with ExitStack() as servers:

        def make(kind: Any, *answers: Any) -> Server:
            made = servers.enter_context(Server(kind, answers))
            made.list_models("openai/gpt-oss-20b")
            return made

        yield make


@pytest.mark.parametrize(
    ("verbose", "kind", "title", "steps"),
    [
        (
            True,
            "responses",
            "Responses API",
            (
                responses(thoughts(0, "Double it."), call(1, "double", '{"n": 408}')),
                responses(text(0, "It is 816.")),
            ),
        ),
        (
            False,
            "chat",
            "Chat Completions",
            (
                chat({"reasoning": "Double it."}, tool_call("double", '{"n": 408}', id="x"), finish="tool_calls"),
                chat({"content": "It is 816."}),
            ),
        ),
    ],
)
def test_a_run_with_a_call(
    verbose: bool, kind: str, title: str, steps: tuple[str, ...], server: Made, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(DOUBLE)
    flags = ("--tools", str(tmp_path / "own.py"), "--allow", "functions.double", *["--verbose"] * verbose)
    site = server(kind, *steps)
    done = ossia("run", QUESTION, "--engine", site.url(), *flags)
    assert (done.returncode, done.stdout.decode()) == (0, "It is 816.\n"), done.stderr
    using = f"using gpt-oss-20b at 127.0.0.1:{site.port} ({title}, context unknown, 131,072 assumed: see --context)"
    assert done.stderr.decode().count(f"{using}; {LESS}") == 1 and (NOT_HAD in done.stderr.decode()) == verbose
    assert [asked["model"] for asked in site.asked] == ["openai/gpt-oss-20b"] * 2
    sent = json.dumps(site.asked[1])
    assert "Double it." in sent and '"816"' in sent


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3}, "an unknown number reused, the rest read in "),
        (
            {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}},
            "0 reused, 7 read in ",
        ),
    ],
)
def test_what_a_server_does_not_tell_of_its_cache_is_unknown(figures: Any, told: str, server: Made) -> None:
    given = sse(chunk({"content": ANSWER}), chunk({}, "stop"), chunk({}) | {"choices": [], "usage": figures}) + DONE
    done = ossia("run", QUESTION, "--engine", server("chat", given).url(), "--no-tools", "--verbose")
    assert f"step: 7 prompt tokens: {told}" in done.stderr.decode()


def test_a_stored_session_goes_on_with_a_model_here(server: Made) -> None:
    site = server("chat", chat({"reasoning": "Easy."}, {"content": ANSWER}))
    first = ossia("run", QUESTION, "--engine", site.url(), "--no-tools", "--save", "--json", "--model", "gpt-oss-20b")
    line = line_of(first)
    assert (line["answer"], line["model"]) == (ANSWER, f"gpt-oss-20b @ 127.0.0.1:{site.port}")
    again = ossia("run", QUESTION, "--continue", "--json", "--model", "etude", "--temperature", "0", "--no-tools")
    assert again.returncode == 0, again.stderr
    assert line_of(again)["answer"]


@pytest.mark.parametrize(
    ("flags", "prompt", "finish", "told"),
    [
        (("--max-tokens", "5000"), 120, "length", "at the server's own limit, before --max-tokens\n"),
        (("--max-tokens", "9"), 120, "length", "--max-tokens was reached\n"),
        (("--context", "4096"), 4090, "stop", "full; give the server a larger one (or a larger --context)\n"),
    ],
)
def test_a_cut_answer_says_whose_limit_it_was(
    flags: tuple[str, ...], prompt: int, finish: str, told: str, server: Made
) -> None:
    site = server("chat", chat({"content": "It is fo"}, finish=finish, prompt=prompt, written=9))
    done = ossia("run", QUESTION, "--engine", site.url(), "--no-tools", *flags)
    assert done.returncode == 6 and done.stderr.decode().endswith(told), done.stderr


@pytest.mark.parametrize(("why", "engine"), [("dies", "served"), ("limit", "here")])
def test_a_stored_session_with_a_cut_answer_goes_on(why: str, engine: str, server: Made) -> None:
    half = sse(chunk({"reasoning": "Hm."}), chunk({"content": "It is fo"}))
    site = server("chat", half if why == "dies" else half + sse(chunk({}, "length")), chat({"content": ANSWER}))
    first = ossia("run", QUESTION, "--engine", site.url(), "--no-tools", "--save")
    assert (first.returncode, first.stdout) == (7 if why == "dies" else 6, b"It is fo\n"), first.stderr
    assert (b"cut at the server's own limit: give --max-tokens N" in first.stderr) is (why == "limit")
    at = ("--engine", site.url()) if engine == "served" else ("--model", "etude", "--temperature", "0")
    again = ossia("run", "And now?", "--continue", "--no-tools", "--json", *at)
    assert (again.returncode, bool(line_of(again)["answer"])) == (0, True), again.stderr
    if engine == "served":
        assert {"role": "assistant", "content": "It is fo"} in site.asked[-1]["messages"]
    shown = ossia("sessions", "show", str(line_of(ossia("sessions", "list", "--json"))["sessions"][0]["id"]))
    assert shown.returncode == 0 and shown.stdout.count(b"(cut here)") == 1, shown


def test_raw_is_refused(server: Made) -> None:
    done = ossia("run", QUESTION, "--engine", server("chat").url(), "--raw", "--no-tools")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--raw shows ids, and the server of gpt-oss-20b @ 127.0.0.1" in done.stderr


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (sse(chunk({"content": "It"})), 7, "broke off in mid-answer: ask again"),
        (lambda _: Reply(b'{"error": {"message": "bad key\\u001b[2J"}}', 401), 7, "401: bad key [2J: set key_env"),
    ],
)
def test_what_goes_wrong(answer: Any, code: int, said: str, server: Made) -> None:
    done = ossia("run", QUESTION, "--engine", server("chat", answer).url(), "--no-tools")
    assert done.returncode == code
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("ossia: error: 127.0.0.1:") and said in last and "\x1b" not in last


@pytest.mark.parametrize("listed", [True, False])
def test_a_model_that_the_server_does_not_list(listed: bool, server: Made) -> None:
    """It is told before anything is asked, unless there is no list."""
    site = server("chat", chat({"content": ANSWER}))
    site.list_models(*["gpt-oss:20b", "llama3.2:latest"] * listed)
    done = ossia("run", QUESTION, "--engine", site.url(), "--no-tools", "--model", "nosuch")
    assert (done.returncode, len(site.asked)) == ((3, 0) if listed else (0, 1)), done.stderr
    if listed:
        said = "serves no nosuch, only gpt-oss:20b, llama3.2:latest: name one of these with --model"
        assert done.stderr.decode() == f"ossia: error: 127.0.0.1:{site.port} {said}\n"


def test_several_models(server: Made) -> None:
    site = server("chat")
    site.list_models("gpt-oss:20b", "gpt-oss:120b")
    done = ossia("run", QUESTION, "--engine", site.url(), "--no-tools")
    assert done.returncode == 3
    assert b"has gpt-oss:20b, gpt-oss:120b: name one with --model" in done.stderr
    done = ossia("run", QUESTION, "--engine", site.url(), "--no-tools", "--model", "etude")
    assert done.returncode == 3
    assert b"error: etude isn't one of its models: 127.0.0.1:" in done.stderr


def test_a_model_here_that_the_command_line_names_is_told(server: Made) -> None:
    asked = server("chat", chat({"content": ANSWER}))
    done = ossia("run", QUESTION, "--engine", asked.url(), "--no-tools", "--model", str(ETUDE_PATH))
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n".encode())
    assert b"warning: --model etude: ignored, since the server decides this\n" in done.stderr


def test_the_command_line_comes_before_the_config(
    server: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = server("chat", *[chat({"content": ANSWER})] * 4)
    site.list_models("said", "set")
    config = tmp_path / "config.toml"
    config.write_text(f'model = "theirs"\n[engines.hf]\nurl = "{site.url()}"\nmodel = "own"\n')
    monkeypatch.setenv("OSSIA_CONFIG", str(config))
    for more, env in (((), {}), (("--model", "said"), {}), ((), {"OSSIA_MODEL": "set"})):
        done = ossia("run", QUESTION, "--engine", "hf", "--no-tools", *more, env={"OSSIA_CONFIG": str(config), **env})
        assert done.returncode == 0, done.stderr
    assert [asked["model"] for asked in site.asked] == ["own", "said", "set"]
