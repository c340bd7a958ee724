"""`ossia harmony`: a prompt as the model gets it, a completion as it is understood."""

from __future__ import annotations

import os
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ossia.cli import paths
from ossia.cli.commands import exit_error, group, input_name, read_text
from ossia.cli.streams import say, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ossia.harmony.render import DropPolicy
    from ossia.harmony.tokenizer import Tokenizer

app = group("Show prompts and completions as ids and text.")

Purpose = Literal["completion", "training"]
Drop = Literal["before-last-final", "reference", "none"]
Form = Literal["harmony", "chat"]
_WHOSE = "The model with the vocabulary. [default: a gpt-oss model here, or tiktoken's"
Model = Annotated[str | None, typer.Option(metavar="PATH|NAME", help=f"{_WHOSE}]")]
AnyModel = Annotated[str | None, typer.Option(metavar="PATH|NAME", help=f"{_WHOSE}, else the built-in model's]")]


@app.command()
def render(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help='{"messages": […]} or a bare list of messages.')],
    purpose: Annotated[
        Purpose | None, typer.Option("--for", help="Open the answer, or end the last one as training does.")
    ] = None,
    drop: Annotated[
        Drop | None,
        typer.Option(help="The analysis to leave out. [default: before-last-final with --for, else none]"),
    ] = None,
    form: Annotated[
        Form, typer.Option("--from", help="The form of FILE: openai_harmony's, or chat messages.")
    ] = "harmony",
    text: Annotated[
        bool, typer.Option("--text", help="Print the text, with control tokens by name, instead of ids.")
    ] = False,
    model: AnyModel = None,
) -> None:
    """Print a conversation as a JSON array of ids. Adds no message.

    Without --for, the messages are rendered as they stand.
    """
    import json

    from ossia.harmony.chat_form import conversation_from_chat
    from ossia.harmony.codec import Codec
    from ossia.harmony.conversation import conversation_from_json
    from ossia.harmony.errors import ConversationError, RenderError

    try:
        conversation = conversation_from_chat if form == "chat" else conversation_from_json
        messages, tokenizer = conversation(_read_json(file)), _tokenizer(model, any_will_do=True)
        rendered = Codec(tokenizer).render(messages, purpose=purpose, drop=_drop_policy(drop, purpose))
    except (ConversationError, RenderError) as error:
        raise _unusable(file, str(error)) from None
    print(_text(tokenizer, rendered.ids) if text else json.dumps(rendered.ids))


@app.command()
def parse(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A JSON array of ids: a completion by the assistant.")],
    strict: Annotated[bool, typer.Option("--strict", help="Repair nothing: fail at the first fault.")] = False,
    tools: Annotated[
        str, typer.Option(metavar="NAMES", help="The tools on offer, separated by commas: functions.f,python.")
    ] = "",
    model: Model = None,
) -> None:
    """Print a completion as messages: JSON, with the repairs that its ids needed."""
    import json

    from ossia.harmony.conversation import message_to_json
    from ossia.harmony.parse import StreamParser

    ids = _ids(file)
    names = frozenset(name.strip() for name in tools.split(",")) - {""}
    parser = StreamParser(_tokenizer(model), tools=names)
    for token in ids:
        parser.push(token)
    parser.flush()
    if strict and parser.repairs:
        first = parser.repairs[0]
        raise exit_error(f"{input_name(file)}: {first.code} at token {first.token}: {first.message}", "FAILED")
    report = {
        "messages": [message_to_json(message) for message in parser.messages],
        "repairs": [{"code": one.code, "message": one.message, "token": one.token} for one in parser.repairs],
    }
    print(shown(json.dumps(report, ensure_ascii=False, indent=2)))


@app.command()
def tokens(
    text: Annotated[str, typer.Argument(metavar="TEXT|-", help="The text; - reads it from standard input.")],
    model: AnyModel = None,
) -> None:
    """Print the tokens of a text, one per line: id and text.

    The text never becomes a control token: a name like <|end|> is split like any other word.
    """

    tokenizer = _tokenizer(model, any_will_do=True)
    for token in tokenizer.encode(read_text("-") if text == "-" else text):
        print(shown(f"{token:>6}  {_piece(tokenizer.token_bytes(token) or b'')}"))


# -- reading -----------------------------------------------------------------------------------------------------------


def _tokenizer(model: str | None, *, any_will_do: bool = False) -> Tokenizer:
    """`any_will_do`: without gpt-oss's vocabulary that of the built-in model is used, with a line on stderr."""
    from ossia.agent.errors import VocabularyMissing
    from ossia.agent.vocabulary import tokenizer_for
    from ossia.cli.settings.config import resolve
    from ossia.tools.host import Loading, Notice

    def report(what: Notice | Loading) -> None:
        if isinstance(what, Notice):
            say(f"{'warning: ' * (what.level == 'warning')}{what.text}")

    host = paths.host()
    flags = {} if model is None else {"model": model}
    named = resolve(flags, environ=os.environ).settings.model
    try:
        return tokenizer_for(named, host, report)
    except VocabularyMissing as error:
        if not any_will_do:
            raise
        reason = str(error).partition(": name a GGUF")[0]
        print(f"ossia: {reason}: using the built-in model's; its ids differ", file=sys.stderr)
        return tokenizer_for("etude", host)


def _drop_policy(drop: Drop | None, purpose: Purpose | None) -> DropPolicy:
    from ossia.harmony.render import drop_before_last_final, drop_nothing, drop_reference

    policies: dict[Drop, DropPolicy] = {
        "before-last-final": drop_before_last_final,
        "reference": drop_reference,
        "none": drop_nothing,
    }
    return policies[drop or ("before-last-final" if purpose else "none")]


def _ids(file: str) -> list[int]:
    data = _read_json(file)
    if not isinstance(data, list):
        raise _unusable(file, "must be a JSON array of ids")
    for i, item in enumerate(data):
        if not isinstance(item, int) or isinstance(item, bool):
            raise _unusable(file, f"[{i}]: must be an id (a whole number), not {str(item)[:60]!r}")
    return data


def _read_json(file: str) -> object:
    import json

    try:
        return json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else error
        raise _unusable(file, f"not valid JSON: {reason}") from None


def _unusable(file: str, reason: str) -> Exception:
    return exit_error(f"{input_name(file)}: {reason}")


# -- printing ----------------------------------------------------------------------------------------------------------


def _text(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """The text of `ids`. On a terminal it is cleaned, and control tokens are coloured unless NO_COLOR is set."""
    control = set(tokenizer.vocabulary.control.values())
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    out = []
    for is_control, run in groupby(ids, control.__contains__):
        piece = shown(tokenizer.decode(run))
        out.append(f"\x1b[36m{piece}\x1b[39m" if coloured and is_control else piece)
    return "".join(out)


def _piece(piece: bytes) -> str:
    """A token for people: a JSON string, or its bytes where they aren't whole characters."""
    import json

    try:
        return json.dumps(piece.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        return piece.hex(" ")
