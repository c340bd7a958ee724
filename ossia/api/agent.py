"""An agent: a conversation with a model and its tools, from Python."""

from __future__ import annotations

import threading
import weakref
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from ossia.api.model import END_S, Model, patience
from ossia.api.parts import Given
from ossia.api.talk import Talk
from ossia.errors import AgentBusy, ArgumentError

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
    from types import TracebackType

    from ossia.agent.stream.events import Approval, Event, Result
    from ossia.api.reading import Answer
    from ossia.harmony.messages import Effort


class Agent:
    """A conversation with a model that calls tools, question after question.

    `model`: a name, the path of a GGUF file, or a `Model` that agents share; None: the best one on this machine.
    `tools`: functions of the program (with type hints and a docstring), `"python"` and `"browser"`, files of functions.
    `workspace`: a folder in which the model may read, search, write and run commands; `trust`: its files are the
    user's own. `web`: the browser's search, a service or an address. `allow` and `deny`: rules, such as
    `"container.exec:git status*"`.

    `approve` is called with each `Approval` that the rules leave open, on the thread that reads the answer. It returns
    True, False, a reason why not (a text, for the model), or other arguments (a dict; `{"code": …}` for python), which
    are asked about again. Without it, such calls are refused. `True` for a `firm` question counts only with
    `answers_for_a_person`, where a person really is asked.

    `max_tokens`, `max_steps` (calls) and `timeout` (seconds) bound a turn, `context` is in tokens. `save` stores the
    conversation; `data` is a folder for all that is stored, instead of the user's. With `config`, the user's settings,
    rules and MCP servers hold besides, as for `ossia run`; otherwise none are read.

    Nothing is loaded before the first question. One question at a time, from any thread; `close` or `with` frees what
    it holds. Nothing is printed: `logging.getLogger("ossia")` has the warnings. Raises ArgumentError.

        def weather(city: str) -> str:
            "The weather in a city now."
            return "18 degrees"

        with Agent("gpt-oss-20b", tools=[weather, "python"], approve=lambda call: call.name == "python") as agent:
            print(agent.ask("Is it warm in Seoul?").text)
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Model | None = None,
        *,
        tools: Sequence[Callable[..., object] | str | os.PathLike[str]] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        approve: Callable[[Approval], Answer] | None = None,
        instructions: str | None = None,
        effort: Effort | None = None,
        web: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        context: int | None = None,
        seed: int | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        max_steps: int | None = None,
        timeout: float | None = None,
        save: bool = False,
        trust: bool = False,
        config: bool = False,
        answers_for_a_person: bool = False,
        data: str | os.PathLike[str] | None = None,
    ) -> None:
        if approve is not None and not callable(approve):
            raise ArgumentError(f"approve: must be a function that gets an Approval, not {approve!r:.80}")
        given = Given(
            tools, workspace, instructions, effort, web, allow, deny, seed, temperature, max_tokens, max_steps,
            timeout, trust, config,
        )  # fmt: skip
        if not isinstance(model, Model):
            model = Model(model, context=context, data=data)
            model._weights.owned = True
        elif context is not None or data is not None:
            raise ArgumentError("context and data belong to the model: Model(…, context=…, data=…)")
        self._approve, self._for_a_person = approve, answers_for_a_person
        self._begin(Talk(given, model, save=save))

    def _begin(self, talk: Talk) -> None:
        self._talk, self._asking, self._stopped = talk, threading.Lock(), threading.Event()
        weakref.finalize(self, talk.close, END_S)

    @property
    def session_id(self) -> str | None:
        """The id of the stored session; None before the first question, and without `save`."""
        return self._talk.session_id

    # -- questions -----------------------------------------------------------------------------------------------------

    def ask(self, text: str, *, schema: object = None) -> Result:
        """The answer to `text`, as the last event of its turn: `.text`, `.data`, `.calls`, `.usage`, `.end`.

        `schema`: the form of the answer, a JSON Schema (a dict), a dataclass or a pydantic model; `.data` is then an
        instance of it, None if the answer isn't whole. A turn that is stopped or reaches a limit is no error: `.end`
        says so. Raises ModelError, DoesNotFit (ContextFull, OutOfMemory), EngineFailed, SchemaUnusable, FunctionsError,
        AgentBusy, AgentClosed, ArgumentError, and what `approve` raises.

            agent.ask("A city and its country", schema={"type": "object", …}).data     # {"city": "Seoul", …}
        """
        return self._last(self.stream(text, schema=schema))

    def stream(self, text: str, *, schema: object = None) -> Generator[Event, None, None]:
        """The events of the turn as they come, the last one a `Result`. Behind that, raises as `ask` does.

        Leaving the loop stops the turn.

            for event in agent.stream("What is 48*17?"):
                match event:
                    case Text(delta): print(delta, end="")
        """
        return self._answer(text, schema, threading.Event())

    async def aask(self, text: str, *, schema: object = None) -> Result:
        """`ask` on a thread of its own, for asyncio; `approve` is called there. Cancelling it stops the turn."""
        from ossia.agent.stream.events import Result

        async with aclosing(self.astream(text, schema=schema)) as events:
            (result,) = [event async for event in events if isinstance(event, Result)]
        return result

    async def astream(self, text: str, *, schema: object = None) -> AsyncGenerator[Event, None]:
        """`stream` on a thread of its own, for asyncio. Left within `contextlib.aclosing`, it stops the turn.

            async with aclosing(agent.astream("What is 48*17?")) as events:
                async for event in events: print(event)
        """
        import asyncio

        stopped, loop = threading.Event(), asyncio.get_running_loop()
        events = self._answer(text, schema, stopped)
        come: asyncio.Queue[Event | None] = asyncio.Queue()

        def read() -> None:
            try:
                for event in events:
                    loop.call_soon_threadsafe(come.put_nowait, event)
            finally:
                loop.call_soon_threadsafe(come.put_nowait, None)

        reading = asyncio.create_task(asyncio.to_thread(read))
        try:
            while (event := await come.get()) is not None:
                yield event
            await asyncio.shield(reading)
        finally:
            stopped.set()
            if self._stopped is stopped and not reading.done():
                self.stop()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()

    def _answer(self, text: str, schema: object, stopped: threading.Event) -> Generator[Event, None, None]:
        if not isinstance(text, str) or not text.strip():
            raise ArgumentError(f"a question must be a text, not {text!r:.80}")
        return self._events(text, schema, stopped)

    def _events(self, text: str, schema: object, stopped: threading.Event) -> Generator[Event, None, None]:
        from ossia.api.reading import Approver

        with self._alone():
            self._stopped = stopped
            approver = Approver(self._approve, for_a_person=self._for_a_person)
            yield from self._talk.say(text, schema, approver, stopped)

    def _last(self, events: Generator[Event, None, None]) -> Result:
        from ossia.agent.stream.events import Result

        (result,) = (event for event in events if isinstance(event, Result))
        return result

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the agent for one question. Raises AgentBusy and AgentClosed."""
        if not self._asking.acquire(blocking=False):
            raise AgentBusy("the agent is at another question: read that to its end, stop() it, or ask a fork()")
        try:
            self._talk.require_open()
            yield
        finally:
            self._asking.release()

    # -- from any thread, while it answers -----------------------------------------------------------------------------

    def stop(self) -> None:
        """End the turn under way as soon as its token or call allows. Its `Result` has the end `"stopped"`."""
        self._stopped.set()
        if turn := self._talk.turn:
            turn.stop()

    def steer(self, text: str) -> None:
        """Say something to the model behind the next result of a call. A `Steered` event confirms it.

        Without effect once the answer begins.
        """
        if turn := self._talk.turn:
            turn.steer(text)

    def answer_now(self) -> None:
        """End the thinking of the turn under way: the answer begins."""
        if turn := self._talk.turn:
            turn.answer_now()

    # -- between questions ---------------------------------------------------------------------------------------------

    def fork(self) -> Agent:
        """Another agent with the same conversation so far, over the same model. Close it, too."""
        with self._alone():
            other = Agent.__new__(Agent)
            other._approve, other._for_a_person = self._approve, self._for_a_person
            other._begin(self._talk.fork())
            return other

    def resume(self, session: str) -> None:
        """Go on with a stored session, named by its id or a part of its title; what follows is stored there.

        Raises SessionMissing, SessionUnclear, SessionInUse, and AgentBusy.
        """
        with self._alone():
            self._talk.resume(session)

    def close(self) -> None:
        """Stop what is under way, and free what the agent holds, the model too unless others use it.

        May be called more than once, and from any thread.
        """
        self._talk.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._talk.close(patience(kind))
