"""The options of a session that the client shows and sets: its mode, the model, the effort."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, cast

from ossia.cli import paths
from ossia.cli.acp.rpc import INVALID_PARAMS, RpcError
from ossia.cli.settings.config import THIS_CHAT
from ossia.cli.settings.engines import LLAMA

if TYPE_CHECKING:
    from ossia.agent.conversation import Conversation
    from ossia.cli.acp.models import Models
    from ossia.cli.settings.config import Resolved
    from ossia.harmony.messages import Effort

ASK, PLAN, ACCEPT_EDITS = "ask", "plan", "accept_edits"
MODE, MODEL, EFFORT = "mode", "model", "effort"
_Choice = tuple[str, str, str]
"""Value, name, description."""
_MODES: Final[Sequence[_Choice]] = (
    (ASK, "Ask", "Asks before it changes files or does what could do harm"),
    (PLAN, "Plan", "Only looks, and makes a plan: nothing can be changed"),
    (ACCEPT_EDITS, "Accept edits", "Changes files of the folder without asking; still asks about anything else"),
)
_EFFORTS: Final[Sequence[_Choice]] = (
    ("low", "Low", "Answers quickly, thinks little"),
    ("medium", "Medium", "The model's default"),
    ("high", "High", "Thinks longest, for hard questions"),
)
_LOOK_AGAIN_S: Final = 30


class Choices:
    """The mode and the effort of a session, as the client chose them.

    A turn under way goes on as it began, but what it may do without asking changes at once.
    """

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self.mode = PLAN if talk.options.planning else ASK
        self.effort: Effort = talk.options.effort
        self.sent: list[dict[str, object]] = []  # the options as the client has them

    def settle(self) -> None:
        """Give the conversation what was chosen. Between turns, and again with other tools."""
        self._talk.plan(self.mode == PLAN)
        self.permit()
        if self._talk.options.effort != self.effort:
            self._talk.options = replace(self._talk.options, effort=self.effort)

    def permit(self) -> None:
        """Allow what the mode allows. At any time."""
        if self._talk.tools:
            self._talk.tools.policy.read_only = self.mode == PLAN
            self._talk.tools.policy.accepts_edits = self.mode == ACCEPT_EDITS

    def follow(self) -> None:
        """Take over the mode that an answer brought: it accepted all edits."""
        if self.mode == ASK and self._talk.tools and self._talk.tools.policy.accepts_edits:
            self.mode = ACCEPT_EDITS


class Owner(Protocol):
    """A session as its options and its work at rest know it. `titled`: a title was asked for."""

    talk: Conversation
    models: Models
    resolved: Resolved
    choices: Choices
    titled: bool

    def update(self, fields: dict[str, object]) -> None:
        """Send a `session/update`."""

    def between_turns(self, do: Callable[[], object]) -> None:
        """Call it now, or after the prompt that is being answered."""

    def use_settings(self, resolved: Resolved) -> None:
        """Use these settings from the next turn on."""


def modes_of(session: Owner) -> dict[str, object]:
    """The modes as the protocol has them, with the current one: for clients that know no config options."""
    named = [{"id": value, "name": name, "description": text} for value, name, text in _MODES]
    return {"currentModeId": session.choices.mode, "availableModes": named}


def options_of(session: Owner) -> list[dict[str, object]]:
    """The options as the protocol has them, with their current values."""
    choices = session.choices
    choices.sent = [
        _select(MODE, "Mode", "mode", choices.mode, _MODES),
        _select(MODEL, "Model", "model", *_models(session)),
        _select(EFFORT, "Effort", "thought_level", choices.effort, _EFFORTS),
    ]
    return choices.sent


def set_option(session: Owner, name: str, value: object) -> None:
    """Set an option; another model is loaded first. Raises RpcError for an unknown one or value, and during a turn.

    If the model can't be loaded, its error is raised, and the one before stays.
    """
    choices = session.choices
    if name == MODE:
        choices.mode = _chosen(name, value, _MODES)
        choices.permit()
    elif name == EFFORT:
        choices.effort = cast("Effort", _chosen(name, value, _EFFORTS))
    elif name == MODEL:
        return _switch(session, value)
    else:
        raise RpcError(INVALID_PARAMS, f"configId: must be {MODE}, {MODEL} or {EFFORT}, not {name!r:.80}")
    return session.between_turns(choices.settle)


def set_mode(session: Owner, name: str) -> None:
    """Change the mode, as a client does that knows no options. Raises RpcError."""
    set_option(session, MODE, name)
    refresh(session)


def refresh(session: Owner) -> None:
    """Send the options if they changed from our side: after a turn, or once the model is there."""
    before = session.choices.sent
    session.choices.follow()
    if before == (now := options_of(session)):
        return
    session.update({"sessionUpdate": "config_option_update", "configOptions": now})
    if not before or before[0] != now[0]:
        session.update({"sessionUpdate": "current_mode_update", "currentModeId": session.choices.mode})


# -- the model ---------------------------------------------------------------------------------------------------------


def _models(session: Owner) -> tuple[str, Sequence[_Choice]]:
    """The model in use, as the settings name it, and all: those on this machine, or those that a server lists."""
    settings, loaded = session.resolved.settings, session.models.loaded
    if settings.engine == LLAMA:
        found: Sequence[_Choice] = _models_here(int(time.monotonic() / _LOOK_AGAIN_S))
        model = settings.model or (loaded.name if loaded else _best(found))
    else:
        found = [(name, name, "") for name in (loaded.served if loaded else ())]
        model = settings.model or (loaded.name if loaded else settings.engine)
    return model, found if any(one[0] == model for one in found) else [(model, model, ""), *found]


def _switch(session: Owner, value: object) -> None:
    """Load another model, and use it from the next turn on."""
    model, models = _models(session)
    chosen = _chosen(MODEL, value, models)
    if chosen == model:
        return
    resolved = session.resolved
    if resolved.settings.engine == LLAMA:
        from ossia.agent.models.find import locations
        from ossia.agent.models.memory import read_memory
        from ossia.agent.models.resolve import resolve

        resolve(chosen, locations=locations(paths.host()), memory=read_memory())  # before the one in use is closed
    origins = {**resolved.origins, MODEL: THIS_CHAT}
    changed = replace(resolved, settings=replace(resolved.settings, model=chosen), origins=origins)
    session.models.change(changed, back=resolved, use=session.use_settings)


def _best(found: Sequence[_Choice]) -> str:
    """The model that is used where none is named, if it fits."""
    from ossia.agent.models.catalog import DOWNLOADS, ETUDE

    here = {name for name, _, _ in found}
    return next((one.name for one in DOWNLOADS if one.name in here), ETUDE)


@lru_cache(maxsize=1)
def _models_here(period: int) -> tuple[_Choice, ...]:
    """The models on this machine, each name once, found once per period."""
    from ossia.agent.models.find import find_models, locations
    from ossia.agent.models.memory import size_text

    found = {one.name: f"{size_text(one.file_bytes)}, {one.origin}" for one in find_models(locations(paths.host()))}
    return tuple((name, name, text) for name, text in found.items())


def _select(option: str, name: str, category: str, value: str, choices: Sequence[_Choice]) -> dict[str, object]:
    options = [{"value": one, "name": named, **({"description": text} if text else {})} for one, named, text in choices]
    described = {"id": option, "name": name, "category": category, "type": "select"}
    return {**described, "currentValue": value, "options": options}


def _chosen(option: str, value: object, choices: Sequence[_Choice]) -> str:
    values = [one[0] for one in choices]
    if not isinstance(value, str) or value not in values:
        raise RpcError(INVALID_PARAMS, f"{option}: must be one of {', '.join(values)}, not {value!r:.80}")
    return value
