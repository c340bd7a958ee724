"""From a request to the messages of a prompt."""

from __future__ import annotations

from agent.adapt import as_namespaces
from agent.request import Request
from harmony.messages import DeveloperPrompt, Message, SystemPrompt


def compose(request: Request) -> tuple[Message, ...]:
    """The whole conversation of a prompt: system message, developer message when there is something to say, history."""
    builtin, functions = as_namespaces(request.tools)
    system = SystemPrompt(effort=request.effort, date=request.date, tools=builtin or None)
    messages = [Message("system", (system,))]
    formats = (request.response_format,) if request.response_format else ()
    if request.instructions is not None or functions or formats:
        developer = DeveloperPrompt(request.instructions, functions or None, formats)
        messages.append(Message("developer", (developer,)))
    return (*messages, *request.history)
