"""The chat form (OpenAI's Chat API, and what is made of it elsewhere), read as a Harmony conversation and written."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ossia.harmony.conversation import function_from_json
from ossia.harmony.errors import ConversationError
from ossia.harmony.messages import ANALYSIS, COMMENTARY, FINAL, DeveloperPrompt, Message, Namespace, is_call
from ossia.harmony.reader import Json, messages_of
from ossia.harmony.tokens import CONSTRAIN

_PREFIX = "functions."


def conversation_from_chat(data: object) -> tuple[Message, ...]:
    """The messages of `{"messages": […], "tools": […]}` or of a bare list, from `json.loads`.

    System and developer messages become one developer message, where the first one stood; its functions are those of
    `tools`. Thinking goes to the analysis channel, an answer to final, text beside tool calls to commentary. Each
    call is followed by its result, in the order of the calls. No system message is added.

    Raises `ConversationError`, one line that names the place, also for a result without its call.

        conversation_from_chat([{"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}]}])
        # (Message("assistant", ('{"a": 1}',), recipient="functions.add", channel="commentary",
        #          content_type="<|constrain|>json"),)
    """
    reader = _ChatReader(_functions(data))
    for item in messages_of(data):
        reader.read(item)
    return reader.messages()


def _functions(data: object) -> Namespace | None:
    tools = Json(data).field("tools") if isinstance(data, dict) else Json(None)
    if not tools.there:
        return None
    functions = [item.field("function") if item.field("function").there else item for item in tools.items()]
    declared = tuple(function_from_json(function) for function in functions)
    return Namespace("functions", None, declared) if declared else None


class _ChatReader:
    """Reads message by message. A group holds messages that stay together: a call, and its result when it comes."""

    def __init__(self, functions: Namespace | None) -> None:
        self._tools = {"functions": functions} if functions else None
        self._groups: list[list[Message]] = []
        self._instructions: list[str] = []
        self._developer: list[Message] | None = None
        self._open_calls: dict[str, list[Message]] = {}
        if self._tools:
            self._place_developer()

    def messages(self) -> tuple[Message, ...]:
        if self._developer is not None:
            instructions = "\n\n".join(self._instructions) if self._instructions else None
            self._developer.append(Message("developer", (DeveloperPrompt(instructions, self._tools),)))
        return tuple(message for group in self._groups for message in group)

    def read(self, item: Json) -> None:
        role = item.field("role").text()
        if role in ("system", "developer"):
            self._place_developer()
            self._instructions.append("".join(_texts(item)))
        elif role == "user":
            self._groups.append([Message("user", _texts(item), name=item.field("name").text_or_none())])
        elif role == "assistant":
            self._read_assistant(item)
        elif role == "tool":
            self._read_result(item)
        else:
            raise item.field("role").wrong("one of system, developer, user, assistant, tool")

    def _place_developer(self) -> None:
        if self._developer is None:
            self._developer = []
            self._groups.append(self._developer)

    def _read_assistant(self, item: Json) -> None:
        before = len(self._groups)
        calls = item.field("tool_calls")
        thinking = item.first("thinking", "reasoning", "reasoning_content").text_or_none()
        if thinking:
            self._groups.append([Message("assistant", (thinking,), channel=ANALYSIS)])
        called = calls.items() if calls.there else []
        if item.first("content", "contents").there:
            texts = _texts(item)
            if any(texts) or not (called or thinking):
                self._groups.append([Message("assistant", texts, channel=COMMENTARY if called else FINAL)])
        ids: set[str] = set()
        for call in called:
            self._read_call(call, ids)
        if len(self._groups) == before:
            raise ConversationError(f"{item.where}: has no content, thinking or tool_calls")

    def _read_call(self, call: Json, ids: set[str]) -> None:
        function = call.field("function")
        name = function.field("name").text()
        arguments = function.field("arguments")
        written = arguments.value if isinstance(arguments.value, str) else _as_text(arguments)
        call_id = call.field("id").text_or_none()
        recipient = name if name.startswith(_PREFIX) else _PREFIX + name
        group = [
            Message("assistant", (written,), recipient=recipient, channel=COMMENTARY, content_type=CONSTRAIN + "json")
        ]
        self._groups.append(group)
        if call_id is None:
            return
        if call_id in ids:
            raise call.field("id").wrong("an id that no other call has")
        ids.add(call_id)
        self._open_calls[call_id] = group

    def _read_result(self, item: Json) -> None:
        place = item.field("tool_call_id")
        group = self._open_calls.pop(place.text(), None)
        if group is None:
            raise ConversationError(
                f"{place.where}: must be the id of an earlier tool call that has no result yet, not {place.value!r}"
            )
        name = group[0].recipient
        group.append(Message("tool", _texts(item), name=name, recipient="assistant", channel=COMMENTARY))


def _texts(item: Json) -> tuple[str, ...]:
    """The texts of a message: a string, or a list of strings and of `{"type": "text", "text": …}`."""
    content = item.first("content", "contents")
    if isinstance(content.value, str):
        return (content.value,)
    return tuple(part.value if isinstance(part.value, str) else _part_text(part) for part in content.items())


def _part_text(part: Json) -> str:
    kind = part.field("type")
    if kind.value not in ("text", "input_text", "output_text"):
        raise kind.wrong("text (nothing else can be read)")
    return part.field("text").text()


def _as_text(arguments: Json) -> str:
    """Arguments that came as an object, as some servers write them."""
    if not isinstance(arguments.value, dict):
        raise arguments.wrong("a string of JSON, or an object")
    return json.dumps(arguments.value, ensure_ascii=False)


# -- writing -----------------------------------------------------------------------------------------------------------


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
