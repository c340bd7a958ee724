"""`ossia logs`: what was asked and answered last."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from ossia.cli.commands import Json, exit_error
from ossia.cli.streams import say, shown

if TYPE_CHECKING:
    from ossia.agent.sessions.store import StoredTurn

VERSION = 1
"""The version of what `--json` prints."""


def logs(
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", min=0, help="The last N turns; 0: all.")] = 3,
    query: Annotated[
        str, typer.Option("-q", "--query", metavar="TEXT", help="Only turns with these words in question or answer.")
    ] = "",
    data: Annotated[bool, typer.Option("--data", help="Print the answers by a schema, a line of JSON each.")] = False,
    json: Json = False,
) -> None:
    """Print the last questions and answers.

    They are those of stored sessions, the oldest first. Chats are stored; `ossia run` stores with --save, or always
    with store = "always" in the config file.
    """
    from ossia.cli.commands.sessions import opened_sessions
    from ossia.cli.words import json_line

    if data and json:
        raise exit_error("use --data or --json, not both")
    with opened_sessions() as store:
        turns = store.last_turns(limit=number or None, text=query, structured=data, skipped=say)
    if json:
        print(json_line({"version": VERSION, "turns": [_fields(turn) for turn in turns]}))
    elif data:
        for turn in turns:
            try:
                print(json_line(_data(turn)))
            except ValueError:
                say(f"an answer of session {turn.session} isn't whole JSON: it is left out")
    else:
        print(shown("\n\n".join(map(_text, turns))), end="\n" if turns else "")
    if not turns and not json:
        say("nothing found" if query or data else 'nothing is stored yet: ossia run --save "…" stores its turn')


def _text(turn: StoredTurn) -> str:
    """A turn to read, unclean."""
    from ossia.cli.words import when

    question = "\n".join(f"> {line}" for line in turn.question.split("\n"))
    answer = f"({turn.end or 'not ended'})" if turn.answer is None else turn.answer
    return f"{when(turn.created)}  {turn.session}\n{question}\n\n{answer}"


def _fields(turn: StoredTurn) -> dict[str, object]:
    """A turn as `--json` prints it; `data` is None where the answer isn't by a schema, or isn't whole."""
    from dataclasses import asdict

    data = None
    with suppress(ValueError):
        data = _data(turn) if turn.structured else None
    fields = asdict(turn)
    del fields["structured"]
    return {**fields, "turn": turn.turn + 1, "data": data}


def _data(turn: StoredTurn) -> object:
    """The value of an answer by a schema. Raises ValueError where it isn't whole: the turn was cut."""
    import json

    try:
        return json.loads(turn.answer or "", parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError from error


def _refuse(name: str) -> object:
    raise ValueError(name)
