"""The two APIs over a model: a queue for its lanes, its load and unload, what a client without a token gets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.cli.runtime.assembly import tools_spec
from ossia.cli.runtime.progress import Display
from ossia.cli.serve.answer import Door
from ossia.cli.serve.models import Models
from ossia.cli.serve.service import Service
from ossia.cli.settings.config import resolve
from tests.cli.serve.running import Running, body_of, message_of, running, status_of
from tests.support.command import write_script
from tests.support.serving import FINAL

_STEP_S, _MOST_S = 0.02, 60.0
_HI = {"input": "Hi"}


@contextmanager
def _serving(
    folder: Path, *steps: str, idle_s: float = 0, flags: Mapping[str, object] = {}, only_look: bool = False
) -> Iterator[tuple[Running, Models]]:
    """A server over a model that writes these steps, `Hello.` if none are given."""
    steps = steps or (FINAL.format("Hello."),) * 4
    resolved = resolve({"engine": write_script(folder, *steps), **flags}, environ={})
    door, display = Door(), Display()
    models = Models(resolved, display, lanes=1, idle_s=idle_s)
    spec = tools_spec(resolved, None)
    service = Service(models, resolved, spec, display, door, only_look=only_look, save=False)
    with running(service, door, tick=models.look) as server:
        yield server, models
    service.close()
    models.close()


def _until(true: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + _MOST_S
    while not true() and time.monotonic() < give_up_at:
        time.sleep(_STEP_S)
    assert true()


def _json(answer: bytes) -> Any:
    """The body of an answer that comes in chunks."""
    lines = body_of(answer).split(b"\r\n")
    return json.loads(b"".join(lines[1::2]))


def test_a_request_is_answered_by_either_api(tmp_path: Path) -> None:
    with _serving(tmp_path) as (server, _):
        answer = server.exchange(server.ask(_HI))
        response = _json(answer)
        assert b"}\n\r\n" in answer  # a shell's prompt stands on a line of its own
        assert (response["status"], response["output"][-1]["content"][0]["text"]) == ("completed", "Hello.")
        chat = {"messages": [{"role": "user", "content": "Hi"}]}
        completion = _json(server.exchange(server.ask(chat, path="/v1/chat/completions")))
        assert completion["choices"][0]["message"]["content"] == "Hello."
        streamed = server.exchange(server.ask({**_HI, "stream": True}))
        assert b"event: response.created\ndata: {" in streamed and b"ossia-queue: 0" in streamed
        assert b"event: response.completed\n" in streamed and b"data: [DONE]" in streamed


def test_a_request_that_cant_be_answered_is_refused_in_one_line(tmp_path: Path) -> None:
    with _serving(tmp_path) as (server, models):
        for request, status in (({**_HI, "model": "gpt-9"}, 404), ({"input": 3}, 400), ({}, 400)):
            answer = server.exchange(server.ask(request))
            assert status_of(answer) == status and message_of(answer)
        assert models.loaded is None  # for those nothing was loaded


def test_who_waits_for_a_lane_sees_its_place_and_may_leave(tmp_path: Path) -> None:
    with _serving(tmp_path) as (server, models), models.use(Control()) as lanes:
        with lanes.lane(stop=Control()), server.connect() as one, server.connect() as other:
            one.sendall(server.ask({**_HI, "stream": True}))
            assert b"ossia-queue: 1" in one.recv(65536)
            other.sendall(server.ask(_HI))
            _until(lambda: lanes.waiting == 2)
            other.close()
            _until(lambda: lanes.waiting == 1)
            one.close()
            _until(lambda: lanes.waiting == 0)
        assert status_of(server.exchange(server.ask(_HI))) == 200


def test_while_it_ends_those_that_wait_are_refused_and_those_under_way_are_answered(tmp_path: Path) -> None:
    with _serving(tmp_path) as (server, models), models.use(Control()) as lanes:
        answers: list[bytes] = []
        asking = threading.Thread(target=lambda: answers.append(server.exchange(server.ask(_HI))))
        with lanes.lane(stop=Control()):
            asking.start()
            _until(lambda: lanes.waiting == 1)
            server.server.drain()
            asking.join(_MOST_S)
        assert (status_of(answers[0]), message_of(answers[0])[:20]) == (503, "the server is ending")


def test_the_model_is_unloaded_when_nobody_asks_and_loaded_by_the_next_request(tmp_path: Path) -> None:
    with _serving(tmp_path, idle_s=0.2) as (server, models):
        for _ in range(2):
            assert _health(server) == {"status": "ok", "model": "unloaded"}
            with models.use(Control()):
                assert _health(server) == {"status": "ok", "model": "loaded"}
            _until(lambda: models.loaded is None)
            answer = server.exchange(server.ask(_HI))
            assert status_of(answer) == 200 and b"ossia-queue: 0" in answer  # nobody else asks
            _until(lambda: models.loaded is None)


def _health(server: Running) -> object:
    answer = server.exchange(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return json.loads(body_of(answer))


def test_a_model_that_cant_be_loaded_is_said_and_tried_again(tmp_path: Path) -> None:
    """A script that is gone when the model is loaded again."""
    with _serving(tmp_path, idle_s=0.2) as (server, models):
        assert status_of(server.exchange(server.ask(_HI))) == 200
        _until(lambda: models.loaded is None)
        script = next(tmp_path.glob("*.json"))
        away = script.rename(tmp_path / "away")
        answer = server.exchange(server.ask(_HI))
        assert status_of(answer) >= 400 and "can't be read" in message_of(answer)
        streamed = server.exchange(server.ask({**_HI, "stream": True}))
        assert b"event: response.failed" in streamed and b"can't be read" in streamed
        away.rename(script)
        assert status_of(server.exchange(server.ask(_HI))) == 200


@pytest.mark.parametrize("hosted", [{"type": "code_interpreter", "container": {"type": "auto"}}, {"type": "shell"}])
def test_without_a_token_nothing_that_runs_is_offered(tmp_path: Path, hosted: Mapping[str, object]) -> None:
    with _serving(tmp_path, flags={"tools": "python", "yes": True}, only_look=True) as (server, _):
        answer = server.exchange(server.ask({**_HI, "tools": [hosted]}))
        assert status_of(answer) == 400 and "is off here" in message_of(answer)
