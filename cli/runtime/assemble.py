"""A model with its tools, by the settings: what a turn runs on."""

from __future__ import annotations

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
from ossia.harmony.messages import Effort
from ossia.tools.build import Toolset
from ossia.tools.folder import Folder

if TYPE_CHECKING:
    from ossia.agent.conversation import Conversation
    from ossia.agent.respond import Tap


def limits_of(settings: Settings, effort: Effort) -> Limits:
    """The limits of a turn with this effort."""
    thinking = thinking_limit(settings.think_tokens, effort)
    return Limits(max_tokens=settings.max_tokens, max_thinking=thinking, max_seconds=settings.timeout)


def control_names(text: str, model: Model, where: str) -> str:
    """A warning about text from outside that spells control tokens, which the model gets as plain text; "": none."""
    spelled = [name for name in model.engine.vocabulary.control if name in text]
    names = ", ".join(sorted(spelled)[:3])
    return f"{where} spells {names}: it is sent as plain text, not as a control token" if spelled else ""


def end_tools(talk: Conversation, display: Display) -> None:
    """Stop the turn under way, end what its tools run, and say where the files are that the model's code left."""
    folder = talk.tools.python.kept_folder if talk.tools and talk.tools.python else None
    talk.end()
    if folder is not None:
        display.aside(f"python's files: {folder}", whole=True)


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


def finish(
    begun: Begun, resolved: Resolved, folder: Folder | None, display: Display, *, tap: Tap | None = None
) -> tuple[Model, Toolset]:
    """The model and the tools, which are collected while it loads."""
    tools = None
    try:
        tools = collect(resolved, folder, display, begun.tokenizer)
        return begun.finish(tap), tools
    except BaseException:
        begun.close()
        if tools:
            tools.close()
        raise
