"""The turn under way: its events, and the questions about its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ossia.agent.errors import AgentError
from ossia.agent.events import ApprovalAsked, Decision, Event, MessageAdded, ToolFinished, ToolStarted, TurnEnded
from ossia.agent.prompt import is_planned, tool_texts
from ossia.agent.sessions.session import UserText
from ossia.agent.turn import Tapped, Turn
from ossia.cli.runtime.approval_text import (
    arguments_to_edit,
    decision_of,
    edited_arguments,
    lasting_line,
    question_of,
    unseen,
)
from ossia.cli.runtime.assembly import control_names, limits_of
from ossia.cli.visible import seen_line
from ossia.cli.words import count
from ossia.tools.approval.trust import TrustError

if TYPE_CHECKING:
    from ossia.cli.chat.owner import Loaded, Owner

_TRUST = "/tools trust"
_OF_FOLDER = ("container.", "repo_browser.", "python")
"""The tools whose results come from the workspace."""
_AFTER_PLAN = "/go carries the plan out · /go TEXT adds a remark · /plan off ends planning"
_EVENTS_S = 0.02  # events are taken in together: waking this thread for each token would slow the decoding threads


class Approvals:
    """Asks the user, and answers the worker."""

    def __init__(self, chat: Owner) -> None:
        self._chat = chat
        self._asked: ApprovalAsked | None = None

    def ask(self, asked: ApprovalAsked) -> None:
        """Ask about a call."""
        loaded = self._chat.loaded
        assert loaded is not None  # a call runs only where it was loaded
        if self._chat.face.asks:
            self._chat.face.note("a call needs an answer first: after it, give your last command again", "yellow")
        self._asked = asked
        tools = loaded.tools
        spec = tools.toolbox.by_name.get(asked.call.name)
        trust = _TRUST if tools.hint and self._trust_helps() else ""
        question = question_of(asked, spec=spec, trust=trust, workspace=tools.folder is not None)
        self._chat.face.ask(question, lambda key, reason: self._answer(asked, key, reason))

    def _trust_helps(self) -> bool:
        """True if all text from outside came from the workspace."""
        session = self._chat.conversation.session
        outside = [entry.message for entry in session.entries if "outside" in entry.taints]
        named = all((message.name or "").startswith(_OF_FOLDER) for message in outside)
        return named and "outside" not in session.options.taints

    def withdraw(self) -> None:
        """Drop the question: the call is over, or its turn. Another question stays."""
        if self._asked is not None:
            self._asked = None
            self._chat.face.withdraw()

    def _answer(self, asked: ApprovalAsked, key: str, reason: str) -> None:
        chat, loaded = self._chat, self._chat.loaded
        assert loaded is not None
        if key == "e":
            text, suffix = arguments_to_edit(asked)
            if hidden := unseen(text, asked.preview.language):
                note = f"the text holds {count(hidden, 'hidden character')}, which your editor may not show"
                chat.face.note(note, "yellow")
            chat.face.edit(text, lambda edited: self._edited(asked, edited), suffix=suffix)
            return
        self._asked, store = None, loaded.tools.store
        try:
            decision = decision_of(asked, key, store, reason)
        except TrustError as error:  # then it holds for this session only
            chat.face.note(f"rule not stored, it holds for this session only: {error}", "yellow")
            key, decision = "s", decision_of(asked, "s", store)
        self._decide(decision)
        if line := lasting_line(asked, key):
            chat.face.note(seen_line(line))

    def _edited(self, asked: ApprovalAsked, edited: str | None) -> None:
        """The user left their editor. The toolbox asks about a changed call; an unchanged one is asked about here."""
        if self._asked is not asked:  # the turn ended meanwhile
            return
        arguments = None if edited is None else edited_arguments(asked, edited)
        if arguments is None:
            self.ask(asked)
        else:
            self._decide(Decision(asked.call.id, True, arguments=arguments))

    def _decide(self, decision: Decision) -> None:
        if turn := self._chat.conversation.turn:
            turn.answer(decision)


class ChatTurn:
    """Begins the chat's turns, takes their events in, and ends them. `approvals` asks the questions about calls."""

    def __init__(self, chat: Owner) -> None:
        self._chat = chat
        self.approvals = Approvals(chat)
        self.calls_tools = False
        """The turn under way has called a tool: a line that steers it stands behind the next result."""
        self.unanswered: Callable[[], object] | None = None
        """Called when a turn begins before a question of the chat's own was answered."""
        self._unstored: str | None = None
        self._expects_events = False

    def say(self, text: UserText, *, replaces: int | None = None) -> None:
        """See `Chat.say`."""
        chat, conversation = self._chat, self._chat.conversation
        assert chat.loaded is not None and chat.control is None
        if unanswered := self.unanswered:
            self.unanswered = None
            unanswered()
        if replaces is not None:
            self.keep_after(replaces)
            chat.go_back(replaces)
        if conversation.offer_browser(text.typed or text.text):
            self._note_the_browser(chat.loaded)
        self._warn_of_control_names(text.text, "your text", chat.loaded)
        chat.face.view.begin()
        chat.transcript.add_user(text.typed)
        limits = limits_of(chat.settings, conversation.options.effort)
        turn = conversation.say(text, limits=limits, on_event=self._expect_events)
        chat.control, self.calls_tools = turn.control, False
        turn.done.add_done_callback(lambda _: chat.background.on_loop(lambda: self._over(turn)))
        chat.face.wake()

    def keep_after(self, turn: int) -> bool:
        """Store the conversation as a fork before turns after this one are removed. False: that failed."""
        conversation = self._chat.conversation
        turns, store, session_id = len(conversation.session.ends), conversation.store, conversation.opened.session_id
        if turn + 1 == turns or store is None or session_id is None:
            return True
        try:
            forked = store.fork(session_id)
        except AgentError as error:
            self._chat.face.note(f"the turns that are removed can't be kept: {error}", "yellow")
            return False
        self._chat.face.note(f"the conversation of {turns} turns is kept: /resume {forked} goes back to it")
        return True

    def _warn_of_control_names(self, text: str, where: str, loaded: Loaded) -> None:
        if warning := control_names(text, loaded.model, where):
            self._chat.face.note(warning, "yellow")

    def _note_the_browser(self, loaded: Loaded) -> None:
        """Note how long the prompt is read again: the browser stands at its beginning."""
        tools, sums, use = loaded.tools, self._chat.tally.chat, self._chat.use
        texts = [text for names, text in tool_texts(tools.toolbox.specs) if names[0].startswith("browser.")]
        tokens = tools.counter("".join(texts)) + (use.used_tokens if use else 0)
        left_s = sums.prefill_s / sums.evaluated * tokens if sums.evaluated else 0
        how_long = f", about {left_s:.0f} s" if left_s >= 1 else ""
        self._chat.face.note(f"the browser is on now: about {tokens:,} tokens of the prompt are read again{how_long}")

    def _over(self, turn: Turn) -> None:
        chat, store = self._chat, self._chat.conversation.store
        self._take(turn)
        turn.result()  # a bug on the worker's thread becomes a traceback here
        chat.outbox.requeue(turn)
        chat.control = None
        self.approvals.withdraw()
        chat.face.bell(chat.settings.bell)
        problem = store.problem if store else None
        if problem and problem != self._unstored:  # storing is tried again with each message
            chat.face.note(f"not stored: {problem}", "yellow")
        self._unstored = problem
        session = chat.conversation.session
        if chat.settings.plan and session.ends[-1:] == ("answered",) and is_planned(session) and not chat.outbox:
            chat.face.note(_AFTER_PLAN)
        chat.measure()
        chat.go_on()

    # -- events --------------------------------------------------------------------------------------------------------

    def _expect_events(self) -> None:
        """Take the events of the next moment in together. On the worker's thread."""
        if not self._expects_events:
            self._expects_events = True
            self._chat.background.on_loop(self._take_in, after_s=_EVENTS_S)

    def _take_in(self) -> None:
        """Take in the events since the last time."""
        self._expects_events = False
        if turn := self._chat.conversation.turn:
            self._take(turn)

    def _take(self, turn: Turn) -> None:
        for event in turn.take():
            if not isinstance(event, Tapped):
                self._see(event)

    def _see(self, event: Event) -> None:
        chat, loaded = self._chat, self._chat.loaded
        if isinstance(event, MessageAdded) and event.steers:
            line = chat.outbox.steering.popleft()
            chat.face.view.user(line.shown)
            chat.transcript.add_user(line.text, steers=True)
            if loaded:
                self._warn_of_control_names(line.text, "your text", loaded)
        chat.transcript.see(event)
        chat.tally.see(event)
        chat.face.view.see(event)
        if isinstance(event, ApprovalAsked):
            self.approvals.ask(event)
        elif isinstance(event, ToolFinished | TurnEnded):
            self.approvals.withdraw()
        self.calls_tools |= isinstance(event, ToolStarted | ToolFinished)
        if isinstance(event, MessageAdded) and event.message.role == "tool" and loaded:
            self._warn_of_control_names(event.message.text, f"the result of {event.message.name}", loaded)
        if isinstance(event, ToolFinished):
            made = event.result.attachments
            chat.face.show_pictures([one.path for one in made if one.media_type.startswith("image/")])
            uncounted = loaded.tools.counter.warning() if loaded else None
            for notice in (*filter(None, [uncounted]), *event.result.notices):
                chat.face.note(notice, "yellow")
