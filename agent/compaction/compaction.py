"""Makes room before a step has none left: shortens results of tools first, then sums up whole turns.

When the prompt leaves less than the reserve (`agent.context.reserve_tokens`), it is cut down to a low mark, not just
below the limit: every replacement changes the prompt's beginning, so the engine has to read the rest again. That
should happen rarely, not a little at every step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ossia.agent.compaction._shortening import head_and_tail, is_note, note_on, worth_noting
from ossia.agent.compaction._summing_up import SummaryMaker
from ossia.agent.context import summary_tokens
from ossia.agent.control import Control
from ossia.agent.engine.base import Progress
from ossia.agent.events import ContextTrimmed, Stats
from ossia.agent.limits import Budget
from ossia.agent.request import ContextUse, Request, Responder
from ossia.agent.sessions.session import Session, Summary

LOW_MARK: Final = 0.6
"""The share of the context in use after room was made: the next trimming is about a sixth of the context away."""
_MARK_TOKENS = 32  # at most, of the line where a result is cut
_NEWEST = 2  # results of the turn under way that are kept: the model has hardly read them

_Making = Generator[Progress | Stats | ContextTrimmed, None, Request]


def with_room(
    session: Session, ask: Callable[[], Request], *, responder: Responder, budget: Budget, control: Control
) -> _Making:
    """The request of the next step (`ask` makes it from the session), after room was made if that was needed.

    Yields `Progress` and `Stats` of the step that writes the summary, but not its text, and then one `ContextTrimmed`.
    A stop leaves everything as it was before the summary. If no more room can be made, the request may still be too
    long: the responder then raises `ContextFull`.
    """
    request = ask()
    before = responder.measure(request)
    if before.fits or control.stopped:
        return request
    trimming = _Trimming(session, ask, responder, budget, control)
    yield from trimming.run(before)
    if not trimming.did:
        return request
    request = ask()
    after = responder.measure(request).used_tokens
    yield ContextTrimmed(
        before.used_tokens,
        after,
        f"the context is nearly full: {'; '.join(trimming.did)}",
        trimming.results,
        trimming.summary.turns if trimming.summary else 0,
        trimming.summary.text if trimming.summary else None,
    )
    return request


@dataclass(slots=True)
class _Trimming:
    """Makes room once. `did` tells people what was done, in order."""

    session: Session
    ask: Callable[[], Request]
    responder: Responder
    budget: Budget
    control: Control
    did: list[str] = field(default_factory=list)
    results: int = 0
    summary: Summary | None = None

    def run(self, use: ContextUse) -> Generator[Progress | Stats, None, None]:
        turn = len(self.session.ends) - 1
        entries = self.session.entries
        now = [index for index in self._long_results() if entries[index].turn == turn]
        kept = set(now[-_NEWEST:])
        if self._least(use, turn) >= use.total_tokens:
            return  # the turn under way is too long by itself
        low = min(int(LOW_MARK * use.total_tokens), use.total_tokens - use.reserve_tokens)
        turns = self._turns_to_summarise(use, turn, kept, low)
        if turns:
            yield from self._summarise(turns, use)
            if self.control.stopped:
                return
        noted = self._note([index for index in self._long_results() if index not in kept], low)
        noted += self._note(sorted(kept)[:-1], use.total_tokens - use.reserve_tokens)
        if noted:
            self.results += noted
            many = f"{noted} tools' results replaced by notes"
            self.did.append(many if noted > 1 else "a tool's result replaced by a note")
        self._cut_newest(sorted(kept)[-1:])

    # -- what there is -------------------------------------------------------------------------------------------------

    def _use(self) -> ContextUse:
        return self.responder.measure(self.ask())

    def _tokens(self, use: ContextUse) -> dict[int, int]:
        """The tokens of each entry in the prompt, by its index."""
        prompted = self.session.prompted
        return dict(zip(prompted, use.messages[len(use.messages) - len(prompted) :], strict=True))

    def _long_results(self) -> list[int]:
        """The results in the prompt that a note would shorten, oldest first."""
        entries = self.session.entries
        return [
            index
            for index in self.session.prompted
            if entries[index].message.role == "tool"
            and not is_note(entries[index].shortened)
            and worth_noting(entries[index].message)
        ]

    def _savings(self, use: ContextUse) -> dict[int, int]:
        """About how many tokens a note would save for each result, by the result's index."""
        tokens, entries, savings = self._tokens(use), self.session.entries, {}
        for index in self._long_results():
            message, count = entries[index].message, tokens[index]
            now = len(entries[index].shortened or message.text)
            savings[index] = max(0, count - count * len(note_on(message, count)) // max(1, now))
        return savings

    def _by_turn(self, use: ContextUse, savings: Mapping[int, int]) -> Counter[int]:
        """The tokens of each turn in the prompt, minus the savings on its results."""
        entries, sums = self.session.entries, Counter[int]()
        for index, tokens in self._tokens(use).items():
            sums[entries[index].turn] += tokens - savings.get(index, 0)
        return sums

    def _least(self, use: ContextUse, turn: int) -> int:
        """The tokens of a prompt with only the turn under way in it, its results as notes."""
        opening = use.used_tokens - use.static_tokens - sum(use.messages)
        return use.static_tokens + opening + self._by_turn(use, self._savings(use))[turn]

    def _turns_to_summarise(self, use: ContextUse, turn: int, kept: set[int], low: int) -> int:
        """The number of oldest turns to summarise to get down to the low mark, once results are notes; 0: none.

        Also 0 if they have hardly more tokens than their summary would, unless there is no other way.
        """
        savings = {index: saving for index, saving in self._savings(use).items() if index not in kept}
        by_turn = self._by_turn(use, savings)
        left = use.used_tokens - sum(savings.values())
        first = self.session.summary.turns if self.session.summary else 0
        most = summary_tokens(use.total_tokens)
        if left <= low or first >= turn:
            return 0
        gained, turns = 0, first
        while turns < turn and left - gained + most > low:
            gained += by_turn[turns]
            turns += 1
        urgent = use.used_tokens + use.reserve_tokens // 4 > use.total_tokens
        return turns if gained > (most // 2 if urgent else most) else 0

    # -- what is done --------------------------------------------------------------------------------------------------

    def _note(self, indices: list[int], mark: int) -> int:
        """Replace these results by notes, one by one, until the prompt is down to the mark; how many it took."""
        for done, index in enumerate(indices):
            use = self._use()
            if use.used_tokens <= mark:
                return done
            message = self.session.entries[index].message
            self.session.shorten(index, note_on(message, self._tokens(use)[index]))
        return len(indices)

    def _cut_newest(self, indices: list[int]) -> None:
        """Cut the last result to its head and its tail if it leaves almost no room for the answer."""
        use = self._use()
        if not indices or use.used_tokens + use.reserve_tokens // 4 <= use.total_tokens:
            return
        index, room = indices[0], use.total_tokens - use.reserve_tokens // 2
        entry, tokens = self.session.entries[index], self._tokens(use)[index]
        keep = tokens - (use.used_tokens - room) - _MARK_TOKENS
        whole, stands = entry.message.text, entry.shortened or entry.message.text
        cut = keep > _MARK_TOKENS
        chars = int(len(stands) * keep / tokens * 0.95)
        text = head_and_tail(whole, chars) if cut else note_on(entry.message, tokens)
        if tokens * (1 - len(text) / len(stands)) < _MARK_TOKENS:  # hardly shorter, if at all
            return
        self.session.shorten(index, text)
        self.results += 1
        how = "cut to its head and its tail" if cut else "replaced by a note"
        self.did.append(f"the newest result of a tool (of {tokens} tokens) {how}")

    def _summarise(self, turns: int, use: ContextUse) -> Generator[Progress | Stats, None, None]:
        """Put a summary in the place of the first `turns` turns. After a stop they stay as they are."""
        history, prompted, entries = self.ask().history, self.session.prompted, self.session.entries
        own = sum(entries[index].turn < turns for index in prompted)
        older = history[: len(history) - len(prompted) + own]
        most = min(summary_tokens(use.total_tokens), sum(use.messages[: len(older)]) // 2)
        maker = SummaryMaker(self.ask, self.responder, self.budget, self.control, most)
        made = yield from maker.make(older, use.total_tokens)
        if self.control.stopped or maker.tokens(made.text) >= sum(use.messages[: len(older)]):
            return
        self.summary = Summary(made.text, turns)
        self.session.summarise(self.summary)
        first = "the first turn" if turns == 1 else f"the first {turns} turns"
        self.did.append(f"{first} replaced by a summary ({made.how})")
