"""A Harmony conversation in the chat form (OpenAI's Chat API), which `harmony.chat_form` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ossia.harmony.messages import ANALYSIS, COMMENTARY, DeveloperPrompt, Message, is_call

_PREFIX = "functions."


def conversation_to_chat(messages: Iterable[Message], *, thinking: bool = False) -> dict[str, object]:
    """The conversation as a value for `json.dumps`: `{"messages": [{"role": "user", "content": "hi"}, …]}`.

    `thinking`: the analysis too, as `"thinking"`. A developer message becomes one of the role `system`, its functions
    become `"tools"`; a system message is left out. Lossy: ids of calls are made up, arguments that aren't JSON
    (python's code) become `{"input": …}`, and the tools that the model was trained on look like functions.

        conversation_to_chat([Message("assistant", ('{"a": 1}',), recipient="functions.add", channel="commentary")])
        # {"messages": [{"role": "assistant", "content": None, "tool_calls": [
        #     {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]}]}
    """
    writer = _ChatWriter(thinking=thinking)
    for message in messages:
        writer.write(message)
    return writer.conversation()


class _ChatWriter:
    """Writes message by message. What the model says up to a call or an answer is one message of the form."""

    def __init__(self, *, thinking: bool) -> None:
        self._thinking = thinking
        self._messages: list[dict[str, object]] = []
        self._tools: list[dict[str, object]] = []
        self._open: dict[str, object] = {}  # reasoning and a preamble that a call or an answer may follow
        self._calls = 0
        self._unanswered: list[str] = []

    def conversation(self) -> dict[str, object]:
        self._flush()
        return {"messages": self._messages, **({"tools": self._tools} if self._tools else {})}

    def write(self, message: Message) -> None:
        if message.role == "assistant":
            self._write_assistant(message)
            return
        self._flush()
        if message.role == "tool":
            self._messages.append({"role": "tool", "tool_call_id": self._call_of(message), "content": message.text})
        elif message.role == "user":
            named = {} if message.name is None else {"name": message.name}
            self._messages.append({"role": "user", **named, "content": message.text})
        else:
            self._write_instructions(message)

    def _write_assistant(self, message: Message) -> None:
        if is_call(message):
            call = self._call(message.recipient or "", message.text)
            self._messages.append({"role": "assistant", "content": None, **self._take(), "tool_calls": [call]})
        elif message.channel == ANALYSIS:
            if self._thinking and message.text:
                before = self._open.get("thinking")
                self._open["thinking"] = message.text if before is None else f"{before}\n\n{message.text}"
        elif message.channel == COMMENTARY and "content" not in self._open:
            self._open["content"] = message.text
        else:
            if "content" in self._open:
                self._flush()
            self._messages.append({"role": "assistant", **self._take(), "content": message.text})

    def _write_instructions(self, message: Message) -> None:
        for part in message.content:
            if isinstance(part, str):
                self._messages.append({"role": "system", "content": part})
            elif isinstance(part, DeveloperPrompt):
                if part.instructions is not None:
                    self._messages.append({"role": "system", "content": part.instructions})
                for function in (one for namespace in (part.tools or {}).values() for one in namespace.functions):
                    schema = {} if function.parameters is None else {"parameters": function.parameters}
                    about = {"name": function.name, "description": function.description, **schema}
                    self._tools.append({"type": "function", "function": about})
            # A SystemPrompt is left out: the model's own template says who it is, the date and the effort.

    def _call(self, recipient: str, arguments: str) -> dict[str, object]:
        self._calls += 1
        call_id = f"call_{self._calls}"
        self._unanswered.append(call_id)
        function = {"name": recipient.removeprefix(_PREFIX), "arguments": _as_json(arguments)}
        return {"id": call_id, "type": "function", "function": function}

    def _call_of(self, result: Message) -> str:
        """The id of the call that a result answers. The form needs one: where there is no call, it is made up."""
        if not self._unanswered:
            call = self._call(result.name or "tool", "{}")
            self._messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        return self._unanswered.pop()

    def _take(self) -> dict[str, object]:
        taken, self._open = self._open, {}
        return taken

    def _flush(self) -> None:
        """Write what is open as a message of its own: no call or answer followed it."""
        if self._open:
            self._messages.append({"role": "assistant", "content": None, **self._take()})


def _as_json(arguments: str) -> str:
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"input": arguments}, ensure_ascii=False)
