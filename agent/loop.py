"""One turn: from a user message to the answer."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

from ossia.agent.adapt import ToolRequest, as_call, result_message
from ossia.agent.compaction.compaction import with_room
from ossia.agent.control import Control
from ossia.agent.errors import AgentError, ContextFull, EngineFailed
from ossia.agent.events import Decision, Event, MessageAdded, SampledAgain, ThinkingCut, TurnEnd, TurnEnded
from ossia.agent.kinds import is_answer
from ossia.agent.limits import Budget, Limits, deadline
from ossia.agent.request import Request, Responder
from ossia.agent.resample import reason_to_resample, without_empty_answer
from ossia.agent.sessions.session import Session, UserText
from ossia.harmony.messages import FINAL, Channel, Completion
from ossia.tools.spec import ToolResult
from ossia.tools.toolbox import Toolbox

GIVE_UP = "This very call has failed too often: no tool can be called any more. Answer with what you have."
TOO_LATE = "Error: the call did not run: no tool could be called any more, it was time to answer."

Turn = Generator[Event, Decision | None, None]
_Part = Generator[Event, Decision | None, TurnEnd]


def run_turn(
    session: Session,
    user_text: str | UserText | None,
    *,
    responder: Responder,
    tools: Toolbox,
    limits: Limits,
    control: Control,
) -> Turn:
    """Answer `user_text`: generate, run what the model calls, generate again, until a `final` or a limit.

    None: go on with the last turn, whose returned call has its result now.

    Yields events as they happen; after an `ApprovalAsked` the caller sends a `Decision` (None refuses). The last event
    is always `TurnEnded`: its `error` says what broke, and the session has everything that came. After
    `control.stop()` keep iterating: the turn ends by itself within a token.
    """
    session.read(tools.taints)
    if user_text is None:
        session.reopen_turn()
    else:
        yield from session.open_turn(user_text)
    end: TurnEnd
    error: AgentError | None = None
    try:
        with deadline(control, limits.max_seconds):
            end = yield from _steps(session, responder, tools, Budget(limits), control)
    except ContextFull as full:
        end, error = "context", full
    except AgentError as failure:
        end, error = "error", failure
    session.close_turn(end)
    yield TurnEnded(end, error)


def _steps(session: Session, responder: Responder, tools: Toolbox, budget: Budget, control: Control) -> _Part:
    for number in range(budget.limits.max_steps):
        must_call = () if number else budget.limits.must_call
        completion = yield from _step(session, tools, responder, budget, control, must_call=must_call)
        if completion.end == "answer_now":
            break
        if completion.end == "thinking":
            yield ThinkingCut(budget.limits.max_thinking or 0)
            break
        if completion.end != "stop":
            return _end_of(completion, control)
        tool_request = as_call(completion, call_id=session.next_call_id, specs=tools.by_name)
        if tool_request is None:
            if any(map(is_answer, completion.messages)):
                return "answered" if session.has_answer else "silent"
            break  # only reasoning came: one more step, opened with `final`
        result = yield from _run(tool_request, session, tools, control)
        if result.returned:
            return "called"
        in_vain = budget.failed_too_often(tool_request.call, result)
        if in_vain:
            result = replace(result, text=f"{result.text}\n{GIVE_UP}")
        yield session.add_result(result_message(tool_request.message, result.text), result)
        if control.stopped:
            return "time" if control.stop_reason == "time" else "stopped"
        if control.answer_now_asked or in_vain:
            break
        if not session.has_answer:
            for text in control.unsaid():
                yield session.steer(text)
    else:
        return (yield from _last_word(session, responder, tools, budget, control, end="steps"))
    return (yield from _last_word(session, responder, tools, budget, control, end="answered"))


def _last_word(
    session: Session, responder: Responder, tools: Toolbox, budget: Budget, control: Control, *, end: TurnEnd
) -> _Part:
    """One message in `final`. No tool can be called; they stay in the prompt only since its prefix is cached."""
    yield from session.answer_open_call()
    completion = yield from _step(session, tools, responder, budget, control, open_with=FINAL)
    tool_request = as_call(completion, call_id=session.next_call_id, specs=tools.by_name)
    if tool_request is not None:
        tool_request = replace(tool_request, fault=TOO_LATE)
        result = yield from _run(tool_request, session, tools, control)
        yield session.add_result(result_message(tool_request.message, result.text), result)
    if completion.end != "stop":
        return _end_of(completion, control)
    return end if session.has_answer else "silent"


def _run(
    tool_request: ToolRequest, session: Session, tools: Toolbox, control: Control
) -> Generator[Event, Decision | None, ToolResult]:
    return tools.run(tool_request.call, stop=control, fault=tool_request.fault, taint=session.taint, said=session.said)


def _step(
    session: Session,
    tools: Toolbox,
    responder: Responder,
    budget: Budget,
    control: Control,
    *,
    open_with: Channel | None = None,
    must_call: tuple[str, ...] = (),
) -> Generator[Event, Decision | None, Completion]:
    """One completion, added to the session. It is drawn once more if its end is unusable."""

    def ask() -> Request:
        request = session.request(tools.specs, max_tokens=budget.tokens_left, open_with=open_with)
        sampling = request.sampling.of(responder.temperature)
        return replace(request, sampling=sampling, max_thinking=budget.limits.max_thinking, must_call=must_call)

    completion = yield from _draw(session, ask, responder, budget, control, attempt=0)
    if (why := reason_to_resample(completion, session.options.sampling.of(responder.temperature))) is None:
        yield from _keep(session, completion)
        return completion
    yield from _keep(session, without_empty_answer(completion))
    if control.answer_now_asked and open_with is None:
        return replace(completion, end="answer_now")
    yield SampledAgain(why)
    completion = yield from _draw(session, ask, responder, budget, control, attempt=1)
    yield from _keep(session, completion)
    return completion


def _draw(
    session: Session,
    ask: Callable[[], Request],
    responder: Responder,
    budget: Budget,
    control: Control,
    *,
    attempt: int,
) -> Generator[Event, Decision | None, Completion]:
    if budget.tokens_left == 0:
        return Completion((), "tokens")
    request = yield from with_room(session, ask, responder=responder, budget=budget, control=control)
    if control.stopped:
        return Completion((), "stopped")
    if attempt:
        request = replace(request, sampling=replace(request.sampling, attempt=attempt))
    try:
        completion = yield from responder.respond(request, control=control)
    except EngineFailed as error:
        if error.partial:
            yield from _keep(session, error.partial)
        raise
    budget.tokens += completion.tokens
    return completion


def _keep(session: Session, completion: Completion) -> Generator[MessageAdded, None, None]:
    for message in completion.messages:
        cut = message.sampled is not None and message.sampled.closed_by is None
        if message.text or message.recipient or not cut:  # an empty answer in the prompt would only be a bad example
            yield session.add(message, cut=cut)


def _end_of(completion: Completion, control: Control) -> TurnEnd:
    """The end of a turn whose generation was cut off."""
    match completion.end:
        case "tokens" | "context" | "loop":
            return completion.end
        case _:
            return "time" if control.stop_reason == "time" else "stopped"
