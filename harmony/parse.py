"""Ids → messages, one id at a time. Any ids are read, no text is lost, and everything mended is reported.

The codes of the repairs, which don't change, stand in docs/formats.md.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import replace

from ossia.harmony.assembly import Assembly, Draft, Left
from ossia.harmony.mending import quoted, read_header
from ossia.harmony.messages import FINAL, ClosedBy, Completion, CompletionEnd, Delta, Header, Message, Repaired, Role
from ossia.harmony.salvage import is_prose, is_unclear, read_left, salvage, split_header, trailing_recipient
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.tokens import CHANNEL, CONSTRAIN


class StreamParser:
    """Makes messages out of sampled ids, and deltas while they come.

    Takes any ids and never raises: well-formed Harmony is read as the reference library reads it, everything else as
    it was most likely meant. Only ids are structure, never text that spells a marker.

    `role` is whose message the prompt has begun: "assistant" for a completion; None when the ids begin with
    `<|start|>`. `tools` are the recipients on offer (`functions.f`, `python`), which misspelt ones are matched with.
    `opening` are the ids that the prompt ended with, from `<|start|>` on; needed when the prompt goes further than the
    role, as in `<|start|>assistant<|channel|>final<|message|>`. Without it, it is taken to be `<|start|>` and the role.

        parser = StreamParser(tokenizer)
        for token in tokenizer_ids:      # <|channel|>final<|message|>Hello<|return|>
            for delta in parser.push(token):
                print(delta.text, end="")
        parser.flush()
        parser.messages                  # (Message("assistant", ("Hello",), channel="final"),)
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        role: Role | None = "assistant",
        tools: frozenset[str] = frozenset(),
        opening: Sequence[int] = (),
    ) -> None:
        control = tokenizer.control
        begun = () if role is None else (control.start, *tokenizer.encode(role))
        self._assembly = Assembly(tuple(opening) or begun)
        self._repairs: list[Repaired] = []
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
        self._draft = None if role is None else Draft(role, 0, prose=True)
        self._left: Left | None = None
        self._out: list[Delta | Repaired] = []
        for token in opening[len(begun) :]:
            self.push(token)
        self._assembly.begin_after_opening()
        if self._draft is not None:
            self._draft.first = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages finished so far."""
        return tuple(self._assembly.messages)

    @property
    def header(self) -> Header | None:
        """The open message's header; None between messages and inside a header."""
        return self._assembly.header

    @property
    def open_message(self) -> Message | None:
        """The open message with the text it has so far; None where `header` is. O(its length)."""
        return self._assembly.snapshot(None, len(self._assembly.tokens))

    @property
    def repairs(self) -> tuple[Repaired, ...]:
        """Every repair so far."""
        return tuple(self._repairs)

    @property
    def tokens(self) -> Sequence[int]:
        """Every id pushed; not to be changed."""
        return self._assembly.tokens

    @property
    def call_ended(self) -> bool:
        """A message addressed to a tool has been closed, whatever closed it."""
        return self._assembly.call_ended

    def completion(self, *, end: CompletionEnd) -> Completion:
        """Everything that came so far; a message still open is the last one, closed by None."""
        last = self.open_message
        messages = (*self._assembly.messages, last) if last else self.messages
        return Completion(messages, end, self.repairs, len(self._assembly.tokens))

    def push(self, token: int) -> Sequence[Delta | Repaired]:
        """Add `token`. Returns at most one delta, except between messages. Costs the same at any length."""
        assembly = self._assembly
        assembly.tokens.append(token)
        if assembly.header is not None and token not in self._structural:  # the way of nearly every token
            piece = self._bytes(token)
            if piece is not None:
                text = self._utf8.decode(piece)
                return (assembly.add(text),) if text else ()
        self._out = []
        if assembly.header is not None:
            self._in_content(token)
        elif self._draft is not None:
            self._in_header(self._draft, token)
        else:
            self._between(token)
        return self._out

    def flush(self, *, cut: bool = False) -> Sequence[Delta | Repaired]:
        """The deltas at the end of the ids: held-back bytes, repairs. The open message becomes the last of `messages`.

        `cut`: it wasn't the model that ended (a token limit, a stop), so a header that is only half there is dropped
        without a word.
        """
        self._out = []
        draft = self._draft
        if self._assembly.header is not None:
            self._close(None)
        elif draft is not None:
            untouched = draft.blank and draft.first >= len(self._assembly.tokens)
            if not untouched:
                self._salvage(draft, None, quiet=cut)
            self._draft = None
        self._settle(None)
        return self._out

    # -- one state each --------------------------------------------------------------------------------------------

    @property
    def _here(self) -> int:
        """The index of the token being read."""
        return len(self._assembly.tokens) - 1

    def _repair(self, code: str, message: str) -> None:
        repair = Repaired(code, message, max(self._here, 0))
        self._repairs.append(repair)
        self._out.append(repair)

    def _between(self, token: int) -> None:
        if token == self._start:
            self._draft = Draft(None, self._here, prose=False)
        elif token in self._closers:
            self._repair("stray-stop", "a stop token between messages, ignored")
        else:
            stray = token not in self._structural
            if not stray:
                self._repair("missing-start", "a header without <|start|>: taken for the assistant's")
            self._draft = Draft("assistant", self._here, prose=True, stray=stray, repaired=True)
            self._in_header(self._draft, token)

    def _in_header(self, draft: Draft, token: int) -> None:
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
            self._assembly.repaired = True
            addressed = "" if token == self._start else trailing_recipient(self._assembly.parts, self._tools)
            self._close("end", before_this=True)
            self._between(token)
            if self._draft is not None:
                self._draft.texts[0] += addressed.encode()
                self._draft.guessed = bool(addressed)
        elif token in self._structural:
            self._repair("stray-marker", "a marker of the header inside a message, dropped")
            self._assembly.repaired = True
        else:
            self._add(self._utf8.decode(self._piece(token)))
            self._assembly.repaired = True

    # -- steps -----------------------------------------------------------------------------------------------------

    def _piece(self, token: int) -> bytes:
        piece = self._bytes(token)
        if piece is None:
            self._repair("unknown-token", f"no token has the id {token}: one U+FFFD stands for it")
            return b"\xff"
        return piece

    def _add(self, text: str) -> None:
        if text:
            self._out.append(self._assembly.add(text))

    def _judge(self, draft: Draft, token: int) -> Draft | None:
        """The first marker after text in the role's place: was that text a header, or a message without one?

        None: `<|message|>` came in the middle of a message without a header, which goes on.
        """
        text = draft.texts[0].decode("utf-8", "replace")
        said, header = split_header(text, self._tools)
        whole = Left(Header("assistant"), text, draft.first, self._here)
        if said and not header and token == self._message:
            self._repair("stray-marker", "<|message|> inside a message without a header, dropped")
            self._settle(Header("assistant"))
            self._out.append(self._assembly.open(Header("assistant"), draft.first, repaired=True, headless=True))
            self._draft = None
            self._add(said)
            return None
        if said:
            self._repair("stray-text", "text outside of any message, kept as a message of its own")
            self._settle(Header("assistant"))
            self._left = replace(whole, text=said)
            self._draft = draft = Draft("assistant", self._here, prose=True, stray=True, repaired=True)
            draft.texts[0] += header.encode()
        if header and is_prose(text) and not ("." in text and text.strip() in self._tools):
            draft.guessed, draft.instead = True, whole
        if draft.stray:
            self._repair("missing-start", "a header without <|start|>: taken for the assistant's")
        return draft

    def _unguess(self, draft: Draft) -> None:
        """Prose in front of an answer's header names no recipient."""
        if draft.guessed and read_header([("", ""), *draft.segments[1:]], "assistant", self._tools)[0].channel == FINAL:
            draft.texts[0].clear()
            if draft.instead:
                if not self._left:
                    self._repair("stray-text", "text outside of any message, kept as a message of its own")
                self._left, draft.first, draft.repaired = draft.instead, draft.instead.end, True

    def _begin(self, draft: Draft) -> None:
        """`<|message|>`: read the header, and open its message."""
        self._unguess(draft)
        header, notes = read_header(draft.segments, draft.role, self._tools)
        for code, message in notes:
            self._repair(code, message)
        foreign = self._flag(header)
        self._settle(header)
        self._draft = None
        repaired = draft.repaired or bool(notes) or foreign
        self._out.append(self._assembly.open(header, draft.first, repaired=repaired))

    def _flag(self, header: Header) -> bool:
        """Report a message in another's name (a result that the model made up); it is kept."""
        if foreign := self._completion and header.role != "assistant":
            self._repair("foreign-message", f"the model wrote a message of the role {header.role!r} itself")
        return foreign

    def _restart(self, draft: Draft) -> None:
        """`<|start|>` inside a header: its text, if it has any, is a message; without, it begins anew."""
        kept = salvage(draft.segments, draft.role, self._tools, prose=draft.prose)
        if any(text.strip() for _, text in kept):
            self._salvage(draft, "end", quiet=False)
        else:
            self._repair("restarted-header", "<|start|> inside a header, which begins anew")
        self._draft = Draft(None, self._here, prose=False)

    def _salvage(self, draft: Draft, closed_by: ClosedBy | None, *, quiet: bool) -> None:
        """The header ends without `<|message|>`. `quiet`: it was cut, so one that holds no text yet is no fault."""
        self._unguess(draft)
        kept = salvage(draft.segments, draft.role, self._tools, prose=draft.prose)
        if quiet and not any(text.strip() for _, text in kept):
            return
        self._repair("missing-message", "no <|message|> came: what follows the header's words is the content")
        if kept:
            self._settle(kept[0][0])
        end = len(self._assembly.tokens)
        if closed_by == "end" and len(kept) == 1 and is_unclear(*kept[0]):
            self._left = Left(*kept[0], draft.first, end)
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
        self._out.append(self._assembly.open(header, first, repaired=True, headless=True))
        self._add(text)
        self._assembly.close(closed_by, end)

    def _close(self, closed_by: ClosedBy | None, *, before_this: bool = False) -> None:
        self._add(self._utf8.decode(b"", True))
        self._assembly.close(closed_by, len(self._assembly.tokens) - before_this)
