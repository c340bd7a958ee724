"""The loading of a model."""

from __future__ import annotations

from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from ossia.agent.build import Begun, begin
from ossia.agent.control import Control
from ossia.agent.lanes import Lanes
from ossia.agent.worker import Worker, in_background
from ossia.api.host import report
from ossia.api.model import END_S
from ossia.api.reading import waits_for_us
from ossia.tools.host import Host, Loading, Notice

if TYPE_CHECKING:
    from ossia.agent.models.spec import ModelSpec


class Load:
    """A model on its way. `begun` has its vocabulary, `built` are its lanes, `now` says how far it is."""

    def __init__(self, spec: ModelSpec, host: Host) -> None:
        self._stop = Control()
        self.now = Loading("")
        self.begun: Future[Begun] = Future()
        self.built: Future[Lanes] = in_background(lambda: self._run(spec, host))

    @property
    def failed(self) -> bool:
        return self.built.done() and self.built.exception() is not None

    def _run(self, spec: ModelSpec, host: Host) -> Lanes:
        worker = Worker()
        try:
            begun = begin(spec, host, self._report, worker=worker, stop=self._stop)
            self.begun.set_result(begun)
            return Lanes(begun.finish_lanes())
        except BaseException as error:
            worker.close(0)
            if not self.begun.done():
                self.begun.set_exception(error)
            raise

    def _report(self, message: Notice | Loading) -> None:
        if isinstance(message, Notice):
            report(message)
        else:
            self.now = message

    def close(self, wait_s: float | None) -> None:
        """Free the model, even while it loads."""
        self._stop.stop()
        self.built.add_done_callback(self._free)
        if wait_s is None and self.built.done() and not self.failed and waits_for_us(self.built.result()):
            wait_s = END_S  # its turn may end only then
        if not wait([self.built], wait_s).not_done and not self.failed:
            for model in self.built.result().models:
                model.worker.close(wait_s)

    def _free(self, built: Future[Lanes]) -> None:
        if built.exception() is None:
            built.result().close(0)
