"""Lanes are given out in the order of asking, best to the conversation that had them before."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ossia.agent.build import Model, model
from ossia.agent.control import Control
from ossia.agent.errors import EngineFailed
from ossia.agent.lanes import Lanes
from ossia.agent.models.spec import ModelSpec
from ossia.agent.worker import WaitStopped
from ossia.tools.host import Host
from tests.support.command import write_script
from tests.support.host import host_in
from tests.support.site import wait_until


@pytest.fixture
def models(tmp_path: Path) -> tuple[Model, ...]:
    script = Path(write_script(tmp_path).removeprefix("script:"))
    host: Host = host_in(tmp_path)
    return tuple(model(ModelSpec(script=script), host) for _ in range(2))


def test_a_conversation_gets_its_lane_again(models: tuple[Model, ...]) -> None:
    lanes, stop = Lanes(models), Control()
    for key in ("a", "b", "a", "b"):
        with lanes.lane(key, stop=stop) as lane:
            assert lane is models[key == "b"]
    with lanes.lane("c", stop=stop) as lane:
        assert lane is models[0]  # used longest ago
    with lanes.lane("b", stop=stop) as first, lanes.lane("b", stop=stop) as second:
        assert (first, second) == (models[1], models[0])
    lanes.close()


def test_they_are_given_out_in_the_order_of_asking(models: tuple[Model, ...]) -> None:
    lanes, stop, order = Lanes(models[:1]), Control(), list[int]()
    places: dict[int, set[int]] = {0: set(), 1: set()}

    def ask(number: int) -> None:
        with lanes.lane(stop=stop, on_wait=places[number].add):
            order.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    with lanes.lane(stop=stop):
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda number=number: lanes.waiting == number + 1)
        wait_until(lambda: bool(places[1]))
        gone = Control()
        gone.stop()
        with pytest.raises(WaitStopped), lanes.lane(stop=gone):
            pass
    for thread in threads:
        thread.join(10)
    assert order == [0, 1]
    assert (places[0], places[1] - {1}) == ({1}, {2})
    lanes.close()
    with pytest.raises(EngineFailed), lanes.lane(stop=stop):
        pass
    models[1].worker.close()
