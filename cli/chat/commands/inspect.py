"""/context, /stats, /raw: what is in the prompt, what it cost, and how it reads as Harmony."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from ossia.agent.engine.base import Forced
from ossia.agent.models.plan import memory_lines, on_gpu
from ossia.cli.chat.commands.common import Block, CommandError, loaded, no_argument
from ossia.cli.clean import one_line
from ossia.cli.words import FORCED, bar, count, short

if TYPE_CHECKING:
    from ossia.agent.sessions.session import Session
    from ossia.agent.sums import Sums
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.cli.chat.owner import Loaded
    from ossia.harmony.messages import Message

_BAR_CELLS = 24
_MAX_SHOWN_CHARS = 10_000  # more fits no screen
_PARTS = {
    "system": "system",
    "tools": "tools",
    "instructions": "instructions",
    "summary": "summary",
    "user": "what you said",
    "answers": "answers",
    "calls": "calls",
    "results": "results",
    "thinking": "thinking kept",
}


def context(talk: Chat, face: Face, argument: str) -> None:
    """`/context`: how full it is, part by part; which older text was shortened; the memory that all of it takes."""
    no_argument(argument)
    loaded(talk)
    use = talk.use
    if use is None:
        raise CommandError("the context is being measured: try again in a moment")
    used = 100 * use.used_tokens / max(use.total_tokens, 1)
    block = Block(face, f"Context: {use.used_tokens:,} of {use.total_tokens:,} tokens, {used:.0f} %")
    for part in use.parts:
        if part.tokens:
            share = bar(part.tokens / max(use.used_tokens, 1), _BAR_CELLS)
            block.row(f"  {_PARTS[part.name]:<14} {part.tokens:>8,}  {share}")
            if part.name == "instructions":
                block.row(f"    {_whose(talk.session.options.instructions)}", "dim")
    free = max(0, use.total_tokens - use.used_tokens)
    block.row(f"  {'free':<14} {free:>8,}  {use.reserve_tokens:,} reserved for the answer", "dim")
    _replaced(block, talk.session)
    if talk.loaded and talk.loaded.model.plan:
        head, parts = memory_lines(talk.loaded.model.plan)
        block.row(f"  {head}:", "dim")
        block.row(f"    {parts}", "dim")
        if talk.loaded.model.plan.offload.gpu_bytes:
            block.row(f"    {on_gpu(talk.loaded.model.plan)}", "dim")
    block.show()


def stats(talk: Chat, face: Face, argument: str) -> None:
    """`/stats`: tokens, speeds and times, of the last turn and of all."""
    no_argument(argument)
    tally = talk.tally
    if not tally.chat.turns:
        return face.note("nothing has been answered yet")
    block = Block(face, "Last turn" if talk.control is None else "This turn so far")
    _sums(block, tally.turn, tally.turn_s)
    if tally.chat.turns > 1:
        block.row(f"All {tally.chat.turns} turns of this chat", "bold")
        _sums(block, tally.chat, None)
    if talk.loaded:
        block.row(f"  the model was loaded in {talk.loaded.model.load_s:.1f} s", "dim")
    return block.show()


def raw(talk: Chat, face: Face, argument: str) -> None:
    """`/raw`: the last prompt and what the model wrote, as Harmony with its control tokens."""
    no_argument(argument)
    assembly, messages = loaded(talk), len(talk.session.entries)
    if not messages:
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
        """What was forced stands between marks. (A session that was stored doesn't know any more what was.)"""
        runs = groupby(ids, key=lambda one: isinstance(one, Forced))
        return "".join(f"{FORCED[0]}{text(run)}{FORCED[1]}" if forced else text(run) for forced, run in runs)

    return text(prompt), marked(reply)


# -- within ------------------------------------------------------------------------------------------------------------


def _last_step(history: tuple[Message, ...]) -> tuple[int, int]:
    """Where the messages that the model wrote last begin and end; a result may have come since."""
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
    """Who wrote the instructions. (With tools on, a sentence of ours about what tools read stands behind them.)"""
    from ossia.agent.prompt import WORK
    from ossia.cli.runtime.session import own_instructions
    from ossia.tools.folder import NOTES_HEAD

    whole = instructions or ""
    own = "yours" if own_instructions(whole) else "ossia's own for work in a folder" if whole.startswith(WORK) else ""
    told = ", ".join(filter(None, [own, "AGENTS.md" if NOTES_HEAD in whole else ""]))
    return f"{told} (/system shows them)" if told else "ossia's own about what tools read"


def _replaced(block: Block, session: Session) -> None:
    """What no longer stands in the prompt as it was said. It is still in the session."""
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
        block.row(f"    {sums.lost:,} of these had to be read again: they had left the cache")
    if sums.trimmed:
        block.row(f"  older text was shortened {count(sums.trimmed, 'time')}: /context shows it")
