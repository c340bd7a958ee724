"""/context, /stats, /raw, /calls, /image: the prompt, its cost, its Harmony; calls and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.engine.base import Forced
from ossia.agent.models.plan import memory_lines, on_gpu
from ossia.cli.chart import Bar, Chart, bar, stacked, svg
from ossia.cli.chat.commands.common import Block, Choice, CommandError, loaded, must_be, no_argument, path_of
from ossia.cli.chat.commands.sessions import to_file
from ossia.cli.clean import one_line
from ossia.cli.export.forms import write_text
from ossia.cli.terminal.pictures import FORMATS
from ossia.cli.words import FORCED, count, short, speed_of
from ossia.tools.folder import NOTES_HEAD
from ossia.tools.skills import room_for_skills

if TYPE_CHECKING:
    from ossia.agent.sessions.session import Session
    from ossia.agent.sums import Sums, Tally
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.cli.chat.owner import Loaded
    from ossia.harmony.messages import Message

_BAR_CELLS, _LINE_CELLS, _LEAST_CELLS = 24, 60, 8
_MAX_SHOWN_CHARS = 10_000  # more fits no screen
_OTHER_ROWS = 6  # beside a picture
_PARTS = {
    "system": "s system",
    "tools": "t tools",
    "instructions": "i instructions",
    "skills": "k skills",
    "summary": "m summary",
    "user": "w what you said",
    "answers": "a answers",
    "calls": "c calls",
    "results": "r results",
    "thinking": "h thinking kept",
}
"""The parts of the prompt, each behind its sign in the line over all of the context."""
_FREE = "·"


def context(talk: Chat, face: Face, argument: str) -> None:
    """`/context`: how full it is, part by part; the shortened older text; the memory it takes."""
    no_argument(argument)
    loaded(talk)
    use = talk.use
    if use is None:
        raise CommandError("the context is being measured: try again in a moment")
    used = 100 * use.used_tokens / max(use.total_tokens, 1)
    block = Block(face, f"Context: {use.used_tokens:,} of {use.total_tokens:,} tokens, {used:.0f} %")
    cells = max(_LEAST_CELLS, min(_LINE_CELLS, face.painter.width - 5))
    line = stacked(((_PARTS[part.name][0], part.tokens) for part in use.parts), use.total_tokens, cells)
    block.row(f"  ▕{line.ljust(cells, _FREE)}▏")
    cells = max(_LEAST_CELLS, min(_BAR_CELLS, face.painter.width - 30))
    for part in use.parts:
        if part.tokens:
            share = bar(part.tokens / max(use.used_tokens, 1), cells)
            block.row(f"  {_PARTS[part.name]:<16} {part.tokens:>8,}  {share}")
            if part.name == "instructions":
                block.row(f"    {_whose(talk.session.options.instructions)}", "dim")
            if part.name == "skills":
                block.row(f"    of at most {room_for_skills(use.total_tokens):,} (/skills lists them)", "dim")
    free = max(0, use.total_tokens - use.used_tokens)
    block.row(f"  {_FREE} {'free':<14} {free:>8,}  {use.reserve_tokens:,} reserved for the answer", "dim")
    _replaced(block, talk.session)
    if talk.loaded and talk.loaded.model.plan:
        head, parts = memory_lines(talk.loaded.model.plan)
        block.row(f"  {head}:", "dim")
        block.row(f"    {parts}", "dim")
        if talk.loaded.model.plan.offload.gpu_bytes:
            block.row(f"    {on_gpu(talk.loaded.model.plan)}", "dim")
    block.show()


def stats(talk: Chat, face: Face, argument: str) -> None:
    """`/stats [FILE.svg]`: tokens, speeds and times, of the last turn and of all; where the time of the last ones went.

    FILE.svg: a picture of the times and speeds of the last turns.
    """
    tally = talk.tally
    if argument and not argument.lower().endswith(".svg"):
        must_be("a file name that ends in .svg", argument)
    if not tally.chat.turns or (argument and not tally.last):
        return face.note("nothing has been answered yet")
    if argument:
        path = path_of(argument)
        return to_file(talk, face, path, lambda: _drawn(face, path, tally))
    block = Block(face, "Last turn" if talk.control is None else "This turn so far")
    _sums(block, tally.turn, tally.turn_s)
    if tally.chat.turns > 1:
        block.row(f"All {tally.chat.turns} turns of this chat", "bold")
        _sums(block, tally.chat, None)
    _times(block, tally, face.painter.width)
    if talk.loaded:
        block.row(f"  the model was loaded in {talk.loaded.model.load_s:.1f} s", "dim")
    return block.show()


def _drawn(face: Face, path: Path, tally: Tally) -> None:
    """Draw the last turns into a file."""
    turns = [(str(number), sums.tokens_per_s or 0, seconds) for number, (sums, seconds) in enumerate(tally.last, 1)]
    times = Chart("Time of the last turns, oldest first", "s", tuple(Bar(name, s) for name, _, s in turns))
    speeds = Chart("Their speed", "tok/s", tuple(Bar(name, speed) for name, speed, _ in turns))
    write_text(str(path), svg([times, speeds]))
    face.note(f"saved: {path.absolute()}")


def raw(talk: Chat, face: Face, argument: str) -> None:
    """`/raw`: the last prompt and reply, as Harmony with its control tokens."""
    no_argument(argument)
    assembly = loaded(talk)
    if not talk.session.entries:
        raise CommandError("nothing has been said yet")
    talk.background.run(lambda: harmony_of(talk.session, assembly), lambda parts: _show_raw(face, *parts))


def harmony_of(session: Session, assembly: Loaded) -> tuple[str, str]:
    """The last prompt and the reply to it, as text with control tokens by name. Raw outside text."""
    from ossia.agent.prompt import compose
    from ossia.harmony.codec import Codec
    from ossia.harmony.render import drop_past_analysis

    request = session.request(assembly.tools.toolbox.specs)
    start, end = _last_step(request.history)
    tokenizer = assembly.model.tokenizer
    codec = Codec(tokenizer, recipient_position="channel", replay=True)  # the worker's is in use on its own thread
    messages = compose(replace(request, history=request.history[:start]))
    prompt = codec.render(messages, purpose="completion", drop=drop_past_analysis).ids
    reply: list[int] = []
    for message in request.history[start:end]:
        reply += message.sampled.ids if message.sampled else codec.render([message]).ids

    def text(ids: Iterable[int]) -> str:
        return b"".join(tokenizer.token_bytes(one) or b"\xef\xbf\xbd" for one in ids).decode("utf-8", "replace")

    def marked(ids: list[int]) -> str:
        """The text, forced ids between marks. (A stored session doesn't know them any more.)"""
        runs = groupby(ids, key=lambda one: isinstance(one, Forced))
        return "".join(f"{FORCED[0]}{text(run)}{FORCED[1]}" if forced else text(run) for forced, run in runs)

    return text(prompt), marked(reply)


def calls(talk: Chat, face: Face, argument: str) -> None:
    """`/calls [N]`: the calls of this conversation; N: one in full."""
    from ossia.cli.chat.pager.items import calls_rows
    from ossia.cli.chat.pager.sections import call_rows

    items = talk.transcript.calls()
    if not argument:
        return face.show(calls_rows(items, face.painter))
    if not items:
        raise CommandError("there are no calls yet")
    if not argument.isdecimal() or not 1 <= int(argument) <= len(items):
        must_be(f"a call from 1 to {len(items)}", argument)
    return face.show(call_rows(items[int(argument) - 1], face.painter))


def image(talk: Chat, face: Face, argument: str) -> None:
    """`/image [FILE]`: show a picture, or the last one of a call. The model sees no pictures."""
    path = path_of(argument).resolve() if argument else _last_picture(talk)
    if not path.is_file():
        raise CommandError(f"file {path} doesn't exist")
    if not face.pictures.knows(path):
        raise CommandError(f"must be a picture ({', '.join(FORMATS)}), not {path}")
    room = max(4, face.rows - _OTHER_ROWS)
    talk.background.run(lambda: face.pictures.rows(path, face.painter, room), face.show)


def numbered(talk: Chat, prefix: str) -> Sequence[Choice]:
    """Completions of `/calls`."""
    found = list(enumerate(talk.transcript.calls(), 1))[-50:]
    return [(str(number), item.name) for number, item in reversed(found)]


def _last_picture(talk: Chat) -> Path:
    made = [one for item in talk.transcript.calls() for one in item.attachments if one.media_type.startswith("image/")]
    if not made:
        raise CommandError("no tool has made a picture yet: /image FILE shows one of yours (the model can't see it)")
    return made[-1].path


# -- within ------------------------------------------------------------------------------------------------------------


def _last_step(history: tuple[Message, ...]) -> tuple[int, int]:
    """The range of the model's last messages; a result may stand behind them."""
    end = len(history)
    while end and history[end - 1].role != "assistant":
        end -= 1
    start = end
    while start and history[start - 1].role == "assistant":
        start -= 1
    return (start, end) if end else (len(history), len(history))


def _show_raw(face: Face, prompt: str, reply: str) -> None:
    if len(prompt) + len(reply) <= _MAX_SHOWN_CHARS:
        block = Block(face, f"The last prompt, {count(len(prompt), 'character')}")
        block.text(prompt)
        block.row(f"What the model wrote, {count(len(reply), 'character')}", "bold")
        block.text(reply or "(nothing yet)")
        if len(block.rows) < face.rows - 4:
            return block.show()
    return face.read(("The last prompt", prompt), ("What the model wrote", reply))


def _whose(instructions: str | None) -> str:
    """The authors of the instructions. (With tools on, ossia adds a sentence about what tools read.)"""
    from ossia.agent.prompt import WORK
    from ossia.cli.runtime.session import own_instructions

    whole = instructions or ""
    own = "yours" if own_instructions(whole) else "ossia's own for work in a folder" if whole.startswith(WORK) else ""
    authors = ", ".join(filter(None, [own, "AGENTS.md" if NOTES_HEAD in whole else ""]))
    return f"{authors} (/system shows them)" if authors else "one sentence of ossia's about tools"


def _replaced(block: Block, session: Session) -> None:
    """List older texts with their shorter form in the prompt. The session still has them."""
    if session.summary:
        block.row(f"  a summary replaces the first {count(session.summary.turns, 'turn')}:", "yellow")
        block.row(f"    {one_line(session.summary.text, 400)}", "dim")
    for entry in session.entries:
        if entry.shortened is not None:
            name = entry.message.name or "a result"
            block.row(f"  turn {entry.turn + 1}, {name}, shortened: {one_line(entry.shortened, 400)}", "dim")


def _sums(block: Block, sums: Sums, turn_s: float | None) -> None:
    took = f"{turn_s:.1f} s, " if turn_s is not None else ""
    block.row(f"  {took}{count(sums.steps, 'step')}, {count(sums.calls, 'call')} ({sums.tools_s:.1f} s in tools)")
    speed = f" · {sums.tokens_per_s:.1f} tok/s" if sums.tokens_per_s else ""
    block.row(f"  written  {sums.completion:>9,} tokens in {sums.decode_s:.1f} s{speed}")
    share = f" · {100 * sums.reused_share:.0f} %" if sums.reused_share is not None else ""
    pace = f" · {short(round(sums.prefill_per_s))} tok/s" if sums.prefill_per_s else ""
    block.row(f"  prompts  {sums.prompt:>9,} tokens")
    if not sums.unreported or sums.unreported < sums.prompt:
        block.row(f"    reused {sums.reused:>9,} from the cache{share}")
        block.row(f"    read   {sums.evaluated:>9,} in {sums.prefill_s - sums.unreported_s:.1f} s{pace}")
    if sums.unreported:
        block.row(f"    other  {sums.unreported:>9,} in {sums.unreported_s:.1f} s: the server doesn't report its cache")
    if sums.lost:
        block.row(f"    {sums.lost:,} of these were read a second time: the cache had dropped them")
    if sums.trimmed:
        block.row(f"  older text was shortened {count(sums.trimmed, 'time')}: /context shows it")


def _times(block: Block, tally: Tally, width: int) -> None:
    """Draw the seconds of the last turns, part by part, and their speed."""
    if not tally.last:
        return
    cells, longest = max(_LEAST_CELLS, min(_LINE_CELLS, width - 28)), max(seconds for _, seconds in tally.last)
    block.row("Where the time went, oldest turn first", "bold")
    for sums, seconds in tally.last:
        waited_s = seconds - sums.prefill_s - sums.decode_s - sums.tools_s
        parts = (("░", sums.prefill_s), ("█", sums.decode_s), ("▒", sums.tools_s), ("·", waited_s))
        speed = f"  {speed_of(sums.tokens_per_s)}" if sums.tokens_per_s else ""
        block.row(f"  {stacked(parts, longest, cells):<{cells}} {seconds:>7,.1f} s{speed}")
    block.row("  ░ reading █ writing ▒ tools · waiting", "dim")
