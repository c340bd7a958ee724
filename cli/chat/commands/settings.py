"""/effort, /think, /system, /schema, /set, /temp: the settings of the next turns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ossia.cli.chat.commands.common import Block, Choice, later, must_be
from ossia.cli.exits import ExitError
from ossia.cli.settings.kinds import Value, thinking_limit
from ossia.cli.settings.table import SETTINGS
from ossia.cli.words import count

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.harmony.messages import ResponseFormat

EFFORTS: Sequence[Choice] = (
    ("low", "answers quickly, thinks little"),
    ("medium", "the model's default"),
    ("high", "thinks longest, for hard questions"),
)
THINKS: Sequence[Choice] = (
    ("on", "the thinking is shown as it comes"),
    ("off", "one line says that it is thinking"),
    ("peek", "its last lines are shown"),
)
SCHEMAS: Sequence[Choice] = (("off", "answers in free text"),)
SYSTEMS: Sequence[Choice] = (
    ("off", "remove your instructions"),
    ("edit", "write them in your editor ($VISUAL, $EDITOR)"),
)
_IN_CHAT = {key: one.in_chat for key, one in SETTINGS.items() if one.in_chat}
_PARTS = ("options", "sampling", "limits", "screen")
_HELP = {key: of.help for part in _PARTS for key, of in _IN_CHAT.items() if of.part == part}
VALUES: Sequence[Choice] = tuple(_HELP.items())
_OFF = ("default", "off", "none")


def effort(talk: Chat, face: Face, argument: str) -> None:
    """`/effort [low|medium|high]`."""
    if not argument:
        now = talk.session.options.effort
        limit = thinking_limit(talk.settings.think_tokens, now)
        at_most = f", at most {count(limit, 'token')} of thinking (/set think_tokens)" if limit else ""
        return face.note(f"effort {now}{at_most}: /effort low, medium or high changes it")
    return _set(talk, face, "effort", argument.lower())


def think(talk: Chat, face: Face, argument: str) -> None:
    """`/think [on|off|peek]`."""
    if not argument:
        return face.note(f"think {face.view.think}: /think on, off or peek changes it, Ctrl-T toggles it")
    return _set(talk, face, "think", argument.lower())


def temperature(talk: Chat, face: Face, argument: str) -> None:
    """`/temp [VALUE]`."""
    if not argument:
        now = _shown("temperature", _value(talk, face, "temperature"))
        return face.note(f"temperature {now}: /temp 0.7 changes it")
    return _set(talk, face, "temperature", argument)


def set_(talk: Chat, face: Face, argument: str) -> None:
    """`/set [NAME VALUE]`; alone: show all."""
    if not argument:
        return _show(talk, face)
    argument = argument.removeprefix("parameter ").lstrip()  # as `ollama run` has it
    name, _, text = argument.partition(" ")
    if name == "system":
        return system(talk, face, text.strip())
    key = {"temp": "temperature"}.get(name, name).lower().replace("-", "_")
    if key not in _HELP:
        must_be(f"one of {', '.join(_HELP)}", name)
    if not text.strip():
        now = _shown(key, _value(talk, face, key))
        return face.note(f"{key} {now}: {_HELP[key]}; must be {SETTINGS[key].kind.expected}")
    return _set(talk, face, key, text.strip())


def system(talk: Chat, face: Face, argument: str) -> None:
    """`/system [TEXT|off|edit]`: the instructions of the conversation. `@FILE` reads them from a file."""
    own = talk.settings.instructions
    if argument == "edit":
        from ossia.cli.runtime.session import read_instructions

        face.edit(read_instructions(own) or "", lambda text: _edited(talk, face, text))
    elif argument:
        _set_system(talk, face, None if argument == "off" else argument)
    elif own or talk.session.options.instructions:
        block = Block(face, "Instructions")
        block.text(talk.session.options.instructions or own or "")
        block.show()
    else:
        face.note("no instructions: /system TEXT sets them")


def schema(talk: Chat, face: Face, argument: str) -> None:
    """`/schema [FILE|LINE|off]`: answers in JSON by a schema."""
    if not argument:
        answer = talk.session.options.response_format
        if answer is None:
            return face.note("answers are free text: /schema FILE, {…} or name, age int makes them JSON by a schema")
        block = Block(face, "Answers are JSON that matches this schema (/schema off ends that)")
        block.text(json.dumps(answer.schema, ensure_ascii=False, indent=2))
        return block.show()
    from ossia.cli.runtime.schema import read_schema

    def use(found: ResponseFormat | None) -> None:
        now = talk.change_options(lambda options: replace(options, response_format=found))
        face.note(f"{'answers are JSON that matches your schema' if found else 'answers are free text'}{later(now)}")
        if found and talk.loaded and not talk.loaded.model.responder.guided:
            face.note("the guide is off, so nothing enforces the schema: check the answers", "yellow")

    if argument.lower() in _OFF:
        return use(None)
    read = partial(read_schema, argument, of="/schema", warn=lambda line: talk.post(line, "yellow"))
    return talk.before_next_turn(read, use)  # a large one takes a while


def values(talk: Chat, prefix: str) -> Sequence[Choice]:
    """Completions of `/set`."""
    name, blank, _ = prefix.partition(" ")
    if not blank:
        return VALUES
    default = SETTINGS[name].default if name in SETTINGS else None
    choices = {"effort": EFFORTS, "think": THINKS}.get(name, (("default", _shown(name, default)),))
    return [(f"{name} {value}", meaning) for value, meaning in choices]


# -- values ------------------------------------------------------------------------------------------------------------


def _set(talk: Chat, face: Face, key: str, text: str) -> None:
    value = _read(key, text)
    talk.change_settings(**{key: value})
    part, change, now = _IN_CHAT[key].part, {key: value}, True
    if part == "options":
        now = talk.change_options(lambda options: replace(options, **change))  # type: ignore[arg-type]
    elif part == "sampling":
        now = talk.change_options(lambda options: replace(options, sampling=replace(options.sampling, **change)))  # type: ignore[arg-type]
    elif part == "limits":
        now = talk.control is None
    elif key == "think":
        face.set_thinking(value)  # type: ignore[arg-type]
    face.note(f"{key} {_shown(key, value)}{later(now)}")


def _read(key: str, text: str) -> Value:
    kind, default = SETTINGS[key].kind, SETTINGS[key].default
    try:
        return kind.check(kind.read(text))
    except ValueError:
        if text.lower() in _OFF:
            return default
        must_be(kind.expected, text, f"/set {key} default undoes it")


def _value(talk: Chat, face: Face, key: str) -> object:
    """The value for the next turn: the session's own, where it has one."""
    options, part = talk.session.options, _IN_CHAT[key].part
    if part in ("options", "sampling"):
        return getattr(options if part == "options" else options.sampling, key)
    return face.view.think if key == "think" else getattr(talk.settings, key)


def _shown(key: str, value: object) -> str:
    if value is None:
        return "default" if key == "temperature" else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _show(talk: Chat, face: Face) -> None:
    block, width = Block(face, "Values"), max(map(len, _HELP))
    for key, text in _HELP.items():
        block.row(f"  {key:<{width}}  {_shown(key, _value(talk, face, key)):<8} {text}")
    block.row("  /set NAME VALUE changes one for this chat; `ossia config set` for all", "dim")
    block.show()


# -- instructions ------------------------------------------------------------------------------------------------------


def _set_system(talk: Chat, face: Face, text: str | None) -> None:
    """Set the user's instructions; those of the workspace stay behind them."""
    from ossia.cli.runtime.session import fresh_options

    settings = replace(talk.settings, instructions=text)
    fresh = fresh_options(replace(talk.resolved, settings=settings), talk.folder)  # raises for a missing file
    talk.change_settings(instructions=text)
    now = talk.change_options(
        lambda options: replace(options, instructions=fresh.instructions, taints=options.taints | fresh.taints)
    )
    face.note(f"{'your instructions are set' if text else 'your instructions are removed'}{later(now)}")


def _edited(talk: Chat, face: Face, text: str | None) -> None:
    if text is None:
        return face.note("instructions unchanged")
    try:
        return _set_system(talk, face, text.strip() or None)
    except ExitError as error:
        return talk.report(error)
