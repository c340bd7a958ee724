"""Messages → ids, piece by piece: every piece of text is encoded on its own, and never becomes a control token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from ossia.harmony.errors import RenderError
from ossia.harmony.messages import (
    ANALYSIS,
    FINAL,
    ROLES,
    Content,
    DeveloperPrompt,
    Message,
    Namespace,
    ResponseFormat,
    SystemPrompt,
)
from ossia.harmony.reader import compact_json
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.tokens import CONSTRAIN
from ossia.harmony.typescript import typescript

RecipientPosition = Literal["role", "channel"]
"""The place of an assistant's recipient: after the role, as the reference library writes it, or after the channel, as
the model itself does: `<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>`."""


def render_message(
    message: Message,
    tokenizer: Tokenizer,
    *,
    has_functions: bool = False,
    recipient_position: RecipientPosition = "role",
) -> list[int]:
    """The ids of one message, from `<|start|>` to its terminator.

    `has_functions`: the conversation declares functions (see `declares_functions`), so the system prompt has a line
    about them. Raises `RenderError` for a tool message without a name, for a prompt under a role that isn't its own,
    and for a schema that isn't JSON or is nested too deep.

        render_message(Message("user", ("hi",)), tokenizer)  # [200006, 1428, 200008, 3686, 200007]
    """
    control, encode = tokenizer.control, tokenizer.encode
    ids = [control.start, *_header(message, tokenizer, recipient_position), control.message]
    for item in message.content:
        ids += encode(item if isinstance(item, str) else _prompt_text(item, message.role, has_functions))
    is_call = message.role == "assistant" and message.recipient is not None
    ids.append(control.call if is_call else control.end)
    return ids


def _header(message: Message, tokenizer: Tokenizer, recipient_position: RecipientPosition) -> list[int]:
    """Author, recipient, channel, content type: what stands between `<|start|>` and `<|message|>`."""
    control, encode = tokenizer.control, tokenizer.encode
    ids = _author(message, tokenizer)
    channel = [] if message.channel is None else [control.channel, *encode(message.channel)]
    to_all = message.recipient is None or message.recipient == "all"
    recipient = [] if to_all else encode(f" to={message.recipient}")
    if recipient_position == "channel" and message.role == "assistant":
        ids += channel + recipient
    else:
        ids += recipient + channel
    if message.content_type is not None:
        if message.content_type.startswith(CONSTRAIN):
            ids += [*encode(" "), control.constrain, *encode(message.content_type.removeprefix(CONSTRAIN))]
        else:
            ids += encode(f" {message.content_type}")
    return ids


def _author(message: Message, tokenizer: Tokenizer) -> list[int]:
    if message.role not in ROLES:
        raise RenderError(f"the role must be one of {', '.join(ROLES)}, not {message.role!r}")
    if message.role == "tool":
        if message.name is None:
            raise RenderError("Tools should have a name!")
        return tokenizer.encode(message.name)
    ids = tokenizer.encode(message.role)
    return ids if message.name is None else ids + tokenizer.encode(f":{message.name}")


def _prompt_text(prompt: Content, role: str, has_functions: bool) -> str:
    """The text of a prompt, which must stand under its own role. The errors are the reference's."""
    try:
        if isinstance(prompt, SystemPrompt):
            if role == "system":
                return system_text(prompt, has_functions=has_functions)
            raise RenderError(f"SystemContent may only appear in system messages, found in {role.capitalize()}")
        if isinstance(prompt, DeveloperPrompt):
            if role == "developer":
                return developer_text(prompt)
            raise RenderError(f"DeveloperContent may only appear in developer messages, found in {role.capitalize()}")
    except RecursionError:
        raise RenderError("the schema is nested too deep (or inside itself)") from None
    raise RenderError(f"content must be text, a SystemPrompt or a DeveloperPrompt, not {prompt!r}")


# -- the texts of the two prompts --------------------------------------------------------------------------------------


def system_text(prompt: SystemPrompt, *, has_functions: bool = False) -> str:
    """The text of a system message: identity, dates, effort, built-in tools, channels."""
    cutoff = None if prompt.knowledge_cutoff is None else f"Knowledge cutoff: {prompt.knowledge_cutoff}"
    date = None if prompt.date is None else f"Current date: {prompt.date}"
    top = [line for line in (prompt.identity, cutoff, date) if line is not None]
    sections = ["\n".join(top)] if top else []
    if prompt.effort is not None:
        sections.append(f"Reasoning: {prompt.effort}")
    sections += _tools_section(prompt.tools)
    if prompt.channels is not None and prompt.channels.valid:
        line = f"# Valid channels: {', '.join(prompt.channels.valid)}."
        if prompt.channels.required:
            line += " Channel must be included for every message."
        if has_functions:
            line += "\nCalls to these tools must go to the commentary channel: 'functions'."
        sections.append(line)
    return "\n\n".join(sections)


def developer_text(prompt: DeveloperPrompt) -> str:
    """The text of a developer message: instructions, functions, response formats."""
    sections = [] if prompt.instructions is None else ["# Instructions", prompt.instructions]
    sections += _tools_section(prompt.tools)
    if prompt.response_formats:
        sections += ["# Response Formats", *map(_response_format, prompt.response_formats)]
    return "\n\n".join(sections)


def declares_functions(messages: Iterable[Message]) -> bool:
    """True if any message, wherever it stands, is a developer prompt with functions under the key "functions"."""
    for message in messages:
        for item in message.content:
            if isinstance(item, DeveloperPrompt) and item.tools:
                namespace = item.tools.get("functions")
                if namespace is not None and namespace.functions:
                    return True
    return False


def _tools_section(tools: Mapping[str, Namespace] | None) -> list[str]:
    """`# Tools` and the blocks, in the order of their keys' code points."""
    return ["# Tools", *(tool_block(tools[key]) for key in sorted(tools))] if tools else []


def tool_block(namespace: Namespace) -> str:
    """One block of `# Tools`: `## browser`, its description, its functions."""
    lines = [f"## {namespace.name}\n"]
    if namespace.description is not None:
        prefix = "// " if namespace.functions else ""
        lines += [prefix + line for line in _lines(namespace.description)]
    if namespace.functions:
        lines.append(f"namespace {namespace.name} {{\n")
        for function in namespace.functions:
            lines += [f"// {line}" for line in _lines(function.description)]
            parameters = "" if function.parameters is None else f"_: {typescript(function.parameters)}"
            lines.append(f"type {function.name} = ({parameters}) => any;\n")
        lines.append(f"}} // namespace {namespace.name}")
    return "\n".join(lines)


def _response_format(response_format: ResponseFormat) -> str:
    """As OpenAI's Harmony guide shows it; the reference library has none."""
    lines = [f"// {line}" for line in _lines(response_format.description or "")]
    return "\n".join([f"## {response_format.name}\n", *lines, compact_json(response_format.schema)])


def _lines(text: str) -> list[str]:
    """The lines of `text` as Rust's `str::lines` gives them: "\\n" and "\\r\\n" end one, nothing else does."""
    *ended, rest = text.split("\n")
    lines = [line.removesuffix("\r") for line in ended]
    return [*lines, rest] if rest else lines


# -- what leaves the prompt --------------------------------------------------------------------------------------------

DropPolicy = Callable[[Sequence[Message]], list[int]]
"""The messages that stay in the prompt: their indices, in order."""


def drop_before_last_final(messages: Sequence[Message]) -> list[int]:
    """Once a turn has its `final`, every message of it whose channel is analysis leaves the prompt.

    These are its reasoning, and the calls made on that channel (whatever the tool) with their results. A turn begins at
    a user message; one without a `final` of the assistant is open and keeps everything.
    """
    return _drop_answered(messages, last_too=True)


def drop_past_analysis(messages: Sequence[Message]) -> list[int]:
    """As `drop_before_last_final`, but the last turn keeps everything: for the steps of a turn that is under way.

    A model that calls a tool after a `final` needs to see the result; and what its cache holds stays as it is.
    """
    return _drop_answered(messages, last_too=False)


def _drop_answered(messages: Sequence[Message], *, last_too: bool) -> list[int]:
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    keep: list[int] = []
    for start, end in pairwise([0, *starts, len(messages)]):
        turn = range(start, end)
        answered = (last_too or end < len(messages)) and any(is_final(messages[index]) for index in turn)
        keep += [index for index in turn if not (answered and messages[index].channel == ANALYSIS)]
    return keep


def is_final(message: Message) -> bool:
    """True for a message of the model on the final channel."""
    return message.role == "assistant" and message.channel == FINAL


def drop_reference(messages: Sequence[Message]) -> list[int]:
    """The reference library's rule, for comparisons with it.

    When the assistant's last message is a `final`, all analysis before the first `final` (of any role) goes. So the
    analysis between two finals stays; and while a tool call is open, so does that of old turns.
    """
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if last is None or last.channel != FINAL:
        return drop_nothing(messages)
    first = next(index for index, message in enumerate(messages) if message.channel == FINAL)
    return [index for index, message in enumerate(messages) if index >= first or message.channel != ANALYSIS]


def drop_nothing(messages: Sequence[Message]) -> list[int]:
    """Everything stays: for training samples."""
    return list(range(len(messages)))
