"""With `save`, a conversation goes on in a later process, and only what is new is read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ossia.agent.serving.asked import Asked, BadRequest
from ossia.agent.serving.responses_in import asked_of
from ossia.agent.sessions.store import SessionStore
from tests.agent.serving.test_cache import GREEDY, LONG
from tests.support import serving as script
from tests.support.serving import serving

HELLO, BYE, AGAIN = map(script.FINAL.format, ("Hello!", "Bye.", "Again."))


def _asked(text: str, previous: str | None = None, **rest: object) -> Asked:
    return asked_of({"input": text, "previous_response_id": previous, **rest})


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, HELLO, BYE, save=True) as served:
        first, _ = served.answer(_asked("Hi"))
        second, result = served.answer(_asked("Go", first.id))
        assert result.session_id is not None
    with serving(tmp_path, AGAIN, AGAIN, AGAIN, save=True) as served:
        served.answer(_asked("Once more", second.id))
        prompt = served.text()
        assert [prompt.count(text) for text in ("Hi<|end|>", "Hello!<|end|>", "Go<|end|>", "Bye.<|end|>")] == [1] * 4
        served.answer(_asked("Otherwise", first.id))  # another way from there: in a session of its own
        assert "Hello!<|end|>" in served.text() and "Bye.<|end|>" not in served.text()
        with closing(SessionStore(served.host.sessions, now=lambda: 0.0)) as store:
            assert sorted(len(store.load(one.id).messages) for one in store.list()) == [4, 6]


def test_nothing_else_is_on_disk(tmp_path: Path) -> None:
    for save, store in ((False, True), (True, False)):
        with serving(tmp_path, HELLO, save=save) as served:
            first, _ = served.answer(_asked("Hi", store=store))
            if not store:
                with pytest.raises(BadRequest, match="previous_response_id"):
                    served.answer(_asked("Go", first.id))
        assert not (tmp_path / "data" / "sessions").exists()
        with serving(tmp_path, HELLO, save=True) as served, pytest.raises(BadRequest, match="previous_response_id"):
            served.answer(_asked("Go", first.id))


def test_a_folder_that_cant_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    said: list[object] = []
    with serving(tmp_path, HELLO, BYE, save=True, report=said.append) as served:
        assert [str(one).count("conversations aren't stored: ") for one in said] == [1]
        for _ in range(2):
            assert served.answer(_asked("Hi"))[1].end == "answered"
    assert len([one for one in said if "stored" in str(one)]) == 1


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_cant_be_written_any_more_is_said_once(tmp_path: Path, whole: bool) -> None:
    said: list[object] = []
    with serving(tmp_path, HELLO, BYE, save=True, report=said.append) as served:
        folder = served.host.sessions.parent
        if whole:
            folder.write_text("no folder")
        else:
            served.host.sessions.mkdir(parents=True)
        for _ in range(2):
            assert served.answer(_asked("Hi"))[1].end == "answered"
    assert len([one for one in said if "stored" in str(one)]) == 1


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    with serving(tmp_path, etude=True, options=GREEDY, save=True) as served:
        first, _ = served.answer(_asked(LONG, max_output_tokens=40))
        served.talks.save_caches(served.lanes)
    with serving(tmp_path, etude=True, options=GREEDY, save=True) as served:
        _, result = served.answer(_asked("And 2+2?", first.id, max_output_tokens=40))
        assert result.usage.reused > 200 and result.usage.evaluated < 80
