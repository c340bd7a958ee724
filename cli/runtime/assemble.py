"""A model with its tools, by the settings: what a turn runs on."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ossia.agent.build import Begun, Model, begin
from ossia.agent.control import Control
from ossia.agent.limits import Limits
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.runtime.model_spec import model_spec
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.toolset import collect, tools_spec
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.kinds import thinking_limit
from ossia.cli.settings.table import Settings
from ossia.harmony.messages import is_call
from ossia.tools.build import Toolset
from ossia.tools.workspace import Folder

if TYPE_CHECKING:
    from ossia.agent.events import Decision, Event
    from ossia.agent.respond import Tap
    from ossia.agent.sessions.session import Session, UserText


@dataclass(slots=True)
class Assembly:
    """A model that is loaded, and its tools."""

    model: Model
    tools: Toolset
    display: Display

    def warn_of_control_names(self, text: str, where: str) -> None:
        """Say so when text from outside spells a control token: the model gets it as plain text."""
        spelled = [name for name in self.model.engine.vocabulary.control if name in text]
        if spelled:
            names = ", ".join(sorted(spelled)[:3])
            self.display.warn(f"{where} spells {names}: it is sent as plain text, not as a control token")

    def turn(
        self, session: Session, text: UserText, settings: Settings, control: Control
    ) -> Generator[Event, Decision | None, object]:
        """The events of a turn with this model and these tools, for `Worker.drive`."""
        from ossia.agent.loop import run_turn

        offer_browser(self.tools, session, text.typed or text.text)
        limits = Limits(
            max_tokens=settings.max_tokens,
            max_thinking=thinking_limit(settings.think_tokens, session.options.effort),
            max_seconds=settings.timeout,
        )
        responder = self.model.responder
        return run_turn(session, text, responder=responder, tools=self.tools.toolbox, limits=limits, control=control)

    def close_tools(self) -> None:
        """End what the tools have running, and say where the files are that the model's code left."""
        kept = self.tools.python.kept_folder if self.tools.python else None
        self.tools.close()
        if kept is not None:
            self.display.aside(f"python's files: {kept}", whole=True)


def offer_browser(tools: Toolset, session: Session, typed: str = "") -> bool:
    """Offer the browser if this conversation can need it. True: it waited until now."""
    called = (message.recipient or "" for message in session.messages if is_call(message))
    return tools.browse_for(f"{session.said} {typed}", called)


def begin_model(
    resolved: Resolved,
    folder: Folder | None,
    display: Display,
    worker: Worker,
    *,
    stays: bool = False,
    stop: Control | None = None,
) -> Begun:
    """The model of the settings, on its way. `stop` ends the wait for a server.

    Raises what `model_spec` and `begin` do, and what `tools_spec` does before anything is loaded.
    """
    tools_spec(resolved, folder)
    spec = model_spec(resolved, stays=stays)
    return begin(spec, paths.host(), display.report, worker=worker, stop=stop or Control())


def assemble(
    begun: Begun,
    resolved: Resolved,
    folder: Folder | None,
    display: Display,
    *,
    tap: Tap | None = None,
    tools: Toolset | None = None,
) -> Assembly:
    """Collect the tools while the model is loaded, and wait for it. `tools`: those of the model before, to be kept."""
    collected = None
    try:
        tools = tools or (collected := collect(resolved, folder, display, begun.tokenizer))
        model = begun.finish(tap)
    except BaseException:
        begun.close()
        if collected:
            collected.close()
        raise
    tools.counter.tokenizer = model.tokenizer
    return Assembly(model, tools, display)
