"""The worker's thread, and the control that stops a turn from another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ossia.agent.control import Control
from ossia.agent.worker import Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close(timeout_s=5)


def test_what_a_job_raises_is_the_futures(worker: Worker) -> None:
    failed = worker.submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failed.result(timeout=10)
    assert worker.submit(lambda: 3).result(timeout=10) == 3


class TestControl:
    def test_callbacks_run_once_with_the_first_reason(self) -> None:
        control = Control()
        calls: list[str] = []
        control.on_stop(lambda: calls.append("kept"))
        forget = control.on_stop(lambda: calls.append("forgotten"))
        forget()
        forget()
        assert not control.stopped and control.stop_reason is None
        control.stop("time")
        control.stop("user")
        assert calls == ["kept"]
        assert control.stopped and control.stop_reason == "time"

    def test_a_late_callback_runs_at_once(self) -> None:
        control = Control()
        control.stop()
        calls: list[str] = []
        control.on_stop(lambda: calls.append("now"))()
        assert calls == ["now"]

    def test_a_callback_may_register_and_forget(self) -> None:
        """What a kernel's interrupt does: no lock is held while callbacks run."""
        control = Control()
        inner: list[bool] = []
        control.on_stop(lambda: control.on_stop(lambda: inner.append(control.stopped))())
        thread = threading.Thread(target=control.stop)
        thread.start()
        thread.join(5)
        assert inner == [True]


# -- while no job waits ------------------------------------------------------------------------------------------------


def test_a_job_stops_what_is_done_while_idle_which_then_goes_on(worker: Worker) -> None:
    began, calls = threading.Event(), list[str]()
    finished = threading.Event()

    def idle(control: Control) -> float | None:
        calls.append("idle")
        if len(calls) == 1:
            stopped = threading.Event()
            control.on_stop(stopped.set)
            began.set()
            assert stopped.wait(10)
            return None
        finished.set()
        return None

    worker.when_idle(idle)
    assert began.wait(10) and not worker.busy
    assert worker.submit(lambda: calls.append("job")).result(10) is None
    assert finished.wait(10)
    worker.submit(lambda: calls.append("job")).result(10)  # it was done: it isn't begun again
    assert calls == ["idle", "job", "idle", "job"]


def test_it_is_called_again_after_as_long_as_it_says(worker: Worker) -> None:
    calls, third = list[int](), threading.Event()

    def idle(control: Control) -> float | None:
        calls.append(len(calls))
        if len(calls) < 3:
            return 0.001
        third.set()
        return None

    worker.when_idle(idle)
    assert third.wait(10)
    worker.submit(lambda: None).result(10)
    assert calls == [0, 1, 2]


def test_another_one_takes_its_place_at_once(worker: Worker) -> None:
    began, other = threading.Event(), threading.Event()

    def first(control: Control) -> float | None:
        stopped = threading.Event()
        control.on_stop(stopped.set)
        began.set()
        assert stopped.wait(10)
        return 0.0

    def second(control: Control) -> float | None:
        other.set()
        return None

    worker.when_idle(first)
    assert began.wait(10)
    worker.when_idle(second)
    assert other.wait(10)
    worker.when_idle(None)
    worker.submit(lambda: None).result(10)


def test_closing_does_not_wait_for_what_is_done_while_idle() -> None:
    worker, began, ended = Worker(), threading.Event(), threading.Event()

    def idle(control: Control) -> float | None:
        stopped = threading.Event()
        control.on_stop(stopped.set)
        began.set()
        assert stopped.wait(10)
        ended.set()
        return None

    worker.when_idle(idle)
    assert began.wait(10)
    worker.close(timeout_s=10)
    assert ended.is_set() and not worker._thread.is_alive()
