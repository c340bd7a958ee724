"""The parser for what models really write: it takes any ids, loses no text, and reports each thing it mends.

The codes of the repairs, which don't change:

| code | what was mended |
|---|---|
| bare-recipient | a tool's name without `to=` |
| channel-as-recipient | `to=final`, `to=developer`: a channel's name counts as the channel, a role's as nobody |
| content-type-as-channel | `<|channel|>json` |
| cut-recipient | a recipient with a marker, quotes, punctuation or `>msg=…` on it |
| doubled-channel | more than one channel marker: the last known channel counts |
| doubled-recipient | more than one recipient: the first that names a tool counts |
| doubled-role | a role in the middle of a header, dropped |
| empty-channel | a channel marker without a channel |
| empty-recipient | `to=` without a recipient |
| foreign-message | a message in the name of a tool, the user or the system, which the model made up: kept |
| glued-role | `assistantassistant`, `assistantfinal` |
| header-junk | words that mean nothing in a header, or a message of signs alone before another one: dropped |
| header-order | the content type before the recipient |
| mended-channel | `finalx`, `commentary?`, `comment` |
| misplaced-constrain | `<|constrain|>` before a channel, a recipient or a tool's name |
| missing-end | a message that the next one's `<|start|>` or `<|channel|>` closed |
| missing-message | a header without `<|message|>`: what isn't metadata is the content, a thought if more follows |
| missing-role | a header without a role: the assistant's |
| missing-start | a header without `<|start|>` |
| named-role | `user:ann` |
| resolved-recipient | `to=get_weather`, `to=tool_get_weather` for `functions.get_weather` |
| restarted-header | `<|start|>` inside a header that says nothing yet |
| spaced-channel, spaced-constrain | whitespace after the marker |
| stray-marker | `<|message|>` or `<|constrain|>` inside a message, with a header or without: dropped |
| stray-stop | a stop token between messages |
| stray-text | text between messages: a message of its own, a thought if more follows |
| tool-as-channel, tool-as-role | a tool's name in the place of the channel or the role: the recipient |
| tool-without-recipient | `<|start|>functions.f<|message|>`, read as a tool's message |
| unknown-token | an id that no token has: one U+FFFD |
| unmarked-channel | a channel's name without its marker |
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ossia.harmony.assembly import Assembly
from ossia.harmony.header import Header
from ossia.harmony.mending import Segment, quoted, read_header
from ossia.harmony.messages import FINAL, ClosedBy, Delta, Repaired, Role
from ossia.harmony.salvage import is_prose, is_unclear, read_left, salvage, split_header, trailing_recipient
from ossia.harmony.strict import State
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.tokens import CHANNEL, CONSTRAIN


@dataclass(slots=True)
class _Draft:
    """A header under way.

    `prose`: no `<|start|>` of its own began it, so its text may turn out to be the message. `stray`: it began with
    text. `repaired`: its ids aren't a faithful form of it. `guessed`: its text is from prose; for an answer, `instead`.
    """

    role: Role | None
    first: int
    prose: bool
    stray: bool = False
    repaired: bool = False
    guessed: bool = False
    instead: _Left | None = None
    markers: list[str] = field(default_factory=lambda: [""])
    texts: list[bytearray] = field(default_factory=lambda: [bytearray()])

    @property
    def segments(self) -> list[Segment]:
        texts = (text.decode("utf-8", "replace") for text in self.texts)
        return list(zip(self.markers, texts, strict=True))

    @property
    def blank(self) -> bool:
        return len(self.markers) == 1 and not self.texts[0].strip()


@dataclass(frozen=True, slots=True)
class _Left:
    """A message made of a header alone, until it is known whether another one follows."""

    header: Header
    text: str
    first: int
    end: int


class TolerantMachine:
    """Reads well-formed Harmony as `StrictMachine` does, and everything else as it was most likely meant.

    Only ids are structure, never text that spells a marker. Each repair has a code, its place, and a sentence.
    """

    def __init__(self, tokenizer: Tokenizer, role: Role | None, prefix: Sequence[int], tools: frozenset[str]) -> None:
        control = tokenizer.control
        self.assembly = Assembly(prefix)
        self.repairs: list[Repaired] = []
        self.last_content_delta: str | None = None
        self._bytes = tokenizer.token_bytes
        self._start, self._message = control.start, control.message
        self._marks = {control.channel: CHANNEL, control.constrain: CONSTRAIN}
        self._closers: dict[int, ClosedBy] = {
            control.end: "end",
            control.return_: "return",
            control.call: "call",
            control.endoftext: "endoftext",
        }
        self._structural = frozenset((self._start, self._message, *self._marks, *self._closers))
        self._completion = role == "assistant"
        self._tools = tools
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._draft = None if role is None else _Draft(role, 0, prose=True)
        self._left: _Left | None = None
        self._out: list[Delta | Repaired] = []

    @property
    def state(self) -> State:
        if self.assembly.header is not None:
            return "Content"
        return "ExpectStart" if self._draft is None else "Header"

    @property
    def role(self) -> Role | None:
        begun = self.assembly.header or self._draft
        return None if begun is None else begun.role

    def push(self, token: int) -> Sequence[Delta | Repaired]:
        assembly = self.assembly
        assembly.tokens.append(token)
        if assembly.header is not None and token not in self._structural:  # the way of nearly every token
            piece = self._bytes(token)
            if piece is not None:
                text = self._utf8.decode(piece)
                if text:
                    self.last_content_delta = text
                    return (assembly.add(text),)
                self.last_content_delta = None
                return ()
        self.last_content_delta = None
        self._out = []
        if assembly.header is not None:
            self._in_content(token)
        elif self._draft is not None:
            self._in_header(self._draft, token)
        else:
            self._between(token)
        return self._out

    def flush(self, *, cut: bool) -> Sequence[Delta | Repaired]:
        self.last_content_delta = None
        self._out = []
        draft = self._draft
        if self.assembly.header is not None:
            self._close(None)
        elif draft is not None:
            untouched = draft.blank and draft.first >= len(self.assembly.tokens)
            if not untouched:
                self._salvage(draft, None, quiet=cut)
            self._draft = None
        self._settle(None)
        return self._out

    def begin_after_opening(self) -> None:
        self.assembly.begin_after_opening()
        if self._draft is not None:
            self._draft.first = 0

    # -- one state each --------------------------------------------------------------------------------------------

    @property
    def _here(self) -> int:
        """The index of the token being read."""
        return len(self.assembly.tokens) - 1

    def _repair(self, code: str, message: str) -> None:
        repair = Repaired(code, message, max(self._here, 0))
        self.repairs.append(repair)
        self._out.append(repair)

    def _between(self, token: int) -> None:
        if token == self._start:
            self._draft = _Draft(None, self._here, prose=False)
        elif token in self._closers:
            self._repair("stray-stop", "a stop token between messages, ignored")
        else:
            stray = token not in self._structural
            if not stray:
                self._repair("missing-start", "a header without <|start|>: taken for the assistant's")
            self._draft = _Draft("assistant", self._here, prose=True, stray=stray, repaired=True)
            self._in_header(self._draft, token)

    def _in_header(self, draft: _Draft, token: int) -> None:
        if token not in self._structural:
            draft.repaired |= self._bytes(token) is None
            draft.texts[-1] += self._piece(token)
        elif token in self._closers:
            self._salvage(draft, self._closers[token], quiet=False)
            self._draft = None
        elif token == self._start:
            self._restart(draft)
        else:
            judged = self._judge(draft, token) if len(draft.markers) == 1 and draft.prose else draft
            if judged and token == self._message:
                self._begin(judged)
            elif judged:
                judged.markers.append(self._marks[token])
                judged.texts.append(bytearray())

    def _in_content(self, token: int) -> None:
        if token in self._closers:
            self._close(self._closers[token])
        elif token == self._start or self._marks.get(token) == CHANNEL:
            self._repair("missing-end", "a new message began before the last one was closed")
            self.assembly.repaired = True
            addressed = "" if token == self._start else trailing_recipient(self.assembly.parts, self._tools)
            self._close("end", before_this=True)
            self._between(token)
            if self._draft is not None:
                self._draft.texts[0] += addressed.encode()
                self._draft.guessed = bool(addressed)
        elif token in self._structural:
            self._repair("stray-marker", "a marker of the header inside a message, dropped")
            self.assembly.repaired = True
        else:
            self._add(self._utf8.decode(self._piece(token)))
            self.assembly.repaired = True

    # -- steps -----------------------------------------------------------------------------------------------------

    def _piece(self, token: int) -> bytes:
        piece = self._bytes(token)
        if piece is None:
            self._repair("unknown-token", f"no token has the id {token}: one U+FFFD stands for it")
            return b"\xff"
        return piece

    def _add(self, text: str) -> None:
        if text:
            self.last_content_delta = text
            self._out.append(self.assembly.add(text))

    def _judge(self, draft: _Draft, token: int) -> _Draft | None:
        """The first marker after text in the role's place: was that text a header, or a message without one?

        None: `<|message|>` came in the middle of a message without a header, which goes on.
        """
        text = draft.texts[0].decode("utf-8", "replace")
        said, header = split_header(text, self._tools)
        whole = _Left(Header("assistant"), text, draft.first, self._here)
        if said and not header and token == self._message:
            self._repair("stray-marker", "<|message|> inside a message without a header, dropped")
            self._settle(Header("assistant"))
            self._out.append(self.assembly.open(Header("assistant"), draft.first, repaired=True, headless=True))
            self._draft = None
            self._add(said)
            return None
        if said:
            self._repair("stray-text", "text outside of any message, kept as a message of its own")
            self._settle(Header("assistant"))
            self._left = replace(whole, text=said)
            self._draft = draft = _Draft("assistant", self._here, prose=True, stray=True, repaired=True)
            draft.texts[0] += header.encode()
        if header and is_prose(text) and not ("." in text and text.strip() in self._tools):
            draft.guessed, draft.instead = True, whole
        if draft.stray:
            self._repair("missing-start", "a header without <|start|>: taken for the assistant's")
        return draft

    def _unguess(self, draft: _Draft) -> None:
        """Prose in front of an answer's header names no recipient."""
        if draft.guessed and read_header([("", ""), *draft.segments[1:]], "assistant", self._tools)[0].channel == FINAL:
            draft.texts[0].clear()
            if draft.instead:
                if not self._left:
                    self._repair("stray-text", "text outside of any message, kept as a message of its own")
                self._left, draft.first, draft.repaired = draft.instead, draft.instead.end, True

    def _begin(self, draft: _Draft) -> None:
        """`<|message|>`: read the header, and open its message."""
        self._unguess(draft)
        header, notes = read_header(draft.segments, draft.role, self._tools)
        for code, message in notes:
            self._repair(code, message)
        foreign = self._flag(header)
        self._settle(header)
        self._draft = None
        repaired = draft.repaired or bool(notes) or foreign
        self._out.append(self.assembly.open(header, draft.first, repaired=repaired))

    def _flag(self, header: Header) -> bool:
        """Report a message in another's name (a result that the model made up); it is kept."""
        if foreign := self._completion and header.role != "assistant":
            self._repair("foreign-message", f"the model wrote a message of the role {header.role!r} itself")
        return foreign

    def _restart(self, draft: _Draft) -> None:
        """`<|start|>` inside a header: its text, if it has any, is a message; without, it begins anew."""
        kept = salvage(draft.segments, draft.role, self._tools, prose=draft.prose)
        if any(text.strip() for _, text in kept):
            self._salvage(draft, "end", quiet=False)
        else:
            self._repair("restarted-header", "<|start|> inside a header, which begins anew")
        self._draft = _Draft(None, self._here, prose=False)

    def _salvage(self, draft: _Draft, closed_by: ClosedBy | None, *, quiet: bool) -> None:
        """The header ends without `<|message|>`. `quiet`: it was cut, so one that holds no text yet is no fault."""
        self._unguess(draft)
        kept = salvage(draft.segments, draft.role, self._tools, prose=draft.prose)
        if quiet and not any(text.strip() for _, text in kept):
            return
        self._repair("missing-message", "no <|message|> came: what follows the header's words is the content")
        if kept:
            self._settle(kept[0][0])
        end = len(self.assembly.tokens)
        if closed_by == "end" and len(kept) == 1 and is_unclear(*kept[0]):
            self._left = _Left(*kept[0], draft.first, end)
            return
        for i, (header, text) in enumerate(kept):
            self._flag(header)
            first = end if i else draft.first  # the first one gets all the ids: where each one begins is a guess
            self._whole(header, text, first, closed_by if i == len(kept) - 1 else "end", end=end)

    def _settle(self, following: Header | None) -> None:
        """Read what was left, now that it is known what follows. None: nothing does."""
        left, self._left = self._left, None
        if left is None:
            return
        header = left.header if following is None else read_left(left.header, left.text, following, self._tools)
        if header is None:
            self._repair("header-junk", f"dropped, for it says nothing: {quoted(left.text)}")
        else:
            self._whole(header, left.text, left.first, "end", end=left.end)

    def _whole(self, header: Header, text: str, first: int, closed_by: ClosedBy | None, *, end: int) -> None:
        """A message that came all at once: opened, filled and closed."""
        self._out.append(self.assembly.open(header, first, repaired=True, headless=True))
        if text:
            self._out.append(self.assembly.add(text))
        self.assembly.close(closed_by, end)

    def _close(self, closed_by: ClosedBy | None, *, before_this: bool = False) -> None:
        held = self._utf8.decode(b"", True)
        self._add(held)
        self.last_content_delta = None
        self.assembly.close(closed_by, len(self.assembly.tokens) - before_this)
