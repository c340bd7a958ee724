"""What servers that keep Harmony to themselves write: exchanges in the shapes that their makers document.

None of it is a recording of a running program, but for llama.cpp's (b9870, étude) and transformers': the events are
those of the pages and sources named here, with texts of our own and without the fields and events that nothing reads.

- OpenAI, Responses: https://platform.openai.com/docs/api-reference/responses-streaming, with gpt-oss's raw thoughts as
  https://cookbook.openai.com/articles/gpt-oss/handle-raw-cot has them
- OpenAI, Chat Completions: https://platform.openai.com/docs/api-reference/chat-streaming
- Ollama, both: https://docs.ollama.com/api/openai-compatibility, events as its `openai/responses.go` and
  `openai/openai.go` write them (https://github.com/ollama/ollama)
- LM Studio, Responses: https://lmstudio.ai/docs/developer/openai-compat/responses (lmstudio-ai/docs, c6854fb of
  29 April 2026) names three events and the effort for gpt-oss, and refers to OpenAI's page. What it writes of thoughts
  and calls is in recordings of it: packages/open-responses/src/responses/__fixtures__/lmstudio-tool-call.1.chunks.txt
  (https://github.com/vercel/ai, 662e267, recorded with GLM on 21 January 2026), the same for gpt-oss-20b's thoughts in
  https://github.com/pydantic/pydantic-ai/issues/3191. No page says what it does with thoughts that it gets back
- LM Studio, chat: https://lmstudio.ai/docs/developer/openai-compat/tools (a call comes in pieces, name first) and
  https://lmstudio.ai/docs/developer/api-changelog (`delta.reasoning` for gpt-oss)
- Hugging Face's router, chat: https://huggingface.co/docs/inference-providers/tasks/chat-completion (242f4a1 of
  22 August 2026 in huggingface/hub-docs), its deltas as the types made of the same specification have them, thoughts
  among them (`ChatCompletionStreamOutputDelta` in huggingface_hub 2.4.0). Its Responses API isn't asked: see
  agent/served/engine.py
- transformers serve, both: what src/transformers/cli/serving of transformers 5.23.0 (13 November 2026) sent, run with
  texts in place of a model and with the `response_template` for gpt-oss that its tests have
  (https://github.com/huggingface/transformers, tests/utils/test_chat_parsing.py). Without one, Harmony comes as text.
  Its Responses API isn't asked either; of the thoughts that it gets back it tells the model nothing in both
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from ossia.agent.served.api import Kind

Data = dict[str, Any]
DONE: Final = "data: [DONE]\n\n"


def sse(*events: Data, named: bool = False) -> str:
    """Server-sent events; `named`: with the event's type before it, as the Responses API has them."""
    lines = (f"event: {one['type']}\n" if named else "" for one in events)
    return "".join(f"{line}data: {json.dumps(one)}\n\n" for line, one in zip(lines, events, strict=True))


# -- Responses ---------------------------------------------------------------------------------------------------------


def item(number: int, kind: str, *deltas: Data, **fields: Any) -> list[Data]:
    """An output item from its beginning to its end, its deltas in between."""
    about = {"id": f"{kind[:2]}_{number}", "type": kind, "status": "in_progress", **fields}
    inside = [{"item_id": about["id"], "output_index": number, **delta} for delta in deltas]
    done = about | {"status": "completed"}
    if kind == "function_call":
        done["arguments"] = "".join(one.get("delta") or one.get("arguments", "") for one in deltas)
    return [
        {"type": "response.output_item.added", "output_index": number, "item": about},
        *inside,
        {"type": "response.output_item.done", "output_index": number, "item": done},
    ]


def thoughts(number: int, *texts: str) -> list[Data]:
    deltas = [{"type": "response.reasoning_text.delta", "content_index": 0, "delta": text} for text in texts]
    return item(number, "reasoning", *deltas, summary=[], content=[], encrypted_content=None)


def call(number: int, name: str, *pieces: str) -> list[Data]:
    deltas = [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in pieces]
    return item(number, "function_call", *deltas, call_id=f"call_{number}x", name=name, arguments="")


def call_at_once(number: int, name: str, arguments: str) -> list[Data]:
    """LM Studio's and transformers': the arguments have no deltas."""
    done = {"type": "response.function_call_arguments.done", "arguments": arguments}
    return item(number, "function_call", done, call_id=f"call_{number}x", name=name, arguments="")


def text(number: int, *texts: str) -> list[Data]:
    deltas = [{"type": "response.output_text.delta", "content_index": 0, "delta": one} for one in texts]
    return item(number, "message", *deltas, role="assistant", content=[])


def open_thoughts(number: int, *texts: str) -> list[Data]:
    """Open Responses', and `ossia serve`'s: another name of the events."""
    return [one | {"type": one["type"].replace("reasoning_text", "reasoning")} for one in thoughts(number, *texts)]


def told_again(number: int, part: str, *texts: str) -> list[Data]:
    """LM Studio's and transformers' `reasoning_text` or `output_text`: the whole follows its deltas, twice."""
    kind, more = ("reasoning", Data(summary=[])) if part == "reasoning_text" else ("message", Data(role="assistant"))
    whole = {"type": part, "text": "".join(texts)}
    deltas = [{"type": f"response.{part}.delta", "content_index": 0, "delta": one} for one in texts]
    done = {"type": f"response.{part}.done", "content_index": 0, "text": whole["text"]}
    events = item(number, kind, *deltas, done, content=[], **more)
    events[-1]["item"]["content"] = [whole]
    return events


def responses(
    *items: Iterable[Data],
    end: str = "completed",
    cached: int = 100,
    written: int = 9,
    named: bool = True,
) -> str:
    """A whole answer of the Responses API, as OpenAI documents it."""
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 120 + written,
    }
    reason = {"reason": "max_output_tokens"} if end == "incomplete" else None
    about = {"id": "resp_1", "object": "response", "status": "in_progress", "error": None, "usage": None}
    closing = about | {"status": end, "usage": usage, "incomplete_details": reason}
    events: list[Data] = [
        {"type": "response.created", "response": about},
        {"type": "response.in_progress", "response": about},
        *chain.from_iterable(items),
        {"type": f"response.{end}", "response": closing},
    ]
    return sse(*(one | {"sequence_number": number} for number, one in enumerate(events)), named=named)


def ollama_thoughts(number: int, *texts: str) -> list[Data]:
    """Ollama's: a summary, and the same again as what is to be sent back."""
    whole = "".join(texts)
    deltas = [{"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": one} for one in texts]
    events = item(number, "reasoning", *deltas, summary=[])
    summary = [{"type": "summary_text", "text": whole}]
    events[-1]["item"] |= {"summary": summary, "encrypted_content": whole}
    return events


# -- Chat Completions --------------------------------------------------------------------------------------------------


def chunk(delta: Data, finish: str | None = None) -> Data:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-oss-20b", "choices": [choice]}


def tool_call(name: str | None = None, arguments: str = "", *, number: int = 0, id: str | None = None) -> Data:
    function = {"name": name, "arguments": arguments}
    about = {"index": number, "id": id, "type": "function" if id else None, "function": function}
    return {"tool_calls": [about]}


def chat(*deltas: Data, finish: str = "stop", prompt: int = 120, cached: int | None = 100, written: int = 9) -> str:
    """A whole answer of Chat Completions, with the figures at its end; `cached` None: it doesn't say."""
    usage: Data = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    last = chunk({}) | {"choices": [], "usage": usage}
    return sse(chunk({"role": "assistant", "content": ""}), *map(chunk, deltas), chunk({}, finish), last) + DONE


def transformers_chat(*deltas: Data, finish: str = "stop") -> str:
    """`transformers serve`'s: no nulls, the figures in the last chunk, and no `[DONE]`."""
    choices = [{"delta": delta, "index": 0} for delta in ({"role": "assistant"}, *deltas, {})]
    events: list[Data] = [{"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    choices[-1]["finish_reason"] = finish
    events[-1]["usage"] = {"completion_tokens": 9, "prompt_tokens": 120, "total_tokens": 129}
    return sse(*events)


# -- a step with a call of python, a step with the answer, as each server writes them ----------------------------------

CODE: Final = '{"code": "print(2)"}'
THOUGHT, ANSWER = "Compute it.", "It is 2."


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one server writes those two steps, and what it must get the thoughts of the first one back as.

    `cached` is how many tokens it says that its cache held; None: it doesn't say.
    """

    kind: Kind
    steps: tuple[str, str]
    thoughts_back: Data
    cached: int | None = 100


def _ending_with_call(*deltas: Data) -> str:
    return chat(*deltas, finish="tool_calls")


_AS_CONTENT: Final[Data] = {"summary": [], "content": [{"type": "reasoning_text", "text": THOUGHT}]}
DIALECTS: Final = {
    "OpenAI": Dialect(
        "responses",
        (
            responses(thoughts(0, "Compute", " it."), call(1, "python", '{"code":', ' "print(2)"}')),
            responses(text(0, "It is", " 2.")),
        ),
        _AS_CONTENT,
    ),
    "Ollama": Dialect(
        "responses",
        (
            responses(ollama_thoughts(0, "Compute", " it."), call(1, "python", CODE)),
            responses(text(0, "It is", " 2.")),
        ),
        _AS_CONTENT | {"encrypted_content": THOUGHT},
    ),
    "ossia serve": Dialect(
        "responses",
        (
            responses(open_thoughts(0, "Compute", " it."), call(1, "python", CODE)),
            responses(text(0, "It is", " 2.")),
        ),
        _AS_CONTENT,
    ),
    "LM Studio": Dialect(
        "responses",
        (
            responses(told_again(0, "reasoning_text", "Compute", " it."), call_at_once(1, "python", CODE)),
            responses(told_again(0, "output_text", "It is", " 2.")),
        ),
        _AS_CONTENT,
    ),
    "transformers": Dialect(
        "responses",
        (
            responses(
                told_again(0, "reasoning_text", "Compute", " it."),
                call_at_once(2, "python", CODE),
                told_again(2, "output_text"),  # there is always a message, here an empty one under the call's number
                cached=0,
                named=False,
            ),
            responses(told_again(0, "output_text", "It is", " 2."), cached=0, named=False),
        ),
        _AS_CONTENT,
        cached=0,
    ),
    "LM Studio, chat": Dialect(
        "chat",
        (
            _ending_with_call(
                {"reasoning": "Compute"},
                {"reasoning": " it."},
                tool_call("python", id="814890118"),
                *(tool_call(arguments=piece) for piece in ('{"', "code", '": "', "print(2)", '"}')),
            ),
            chat({"content": "It is"}, {"content": " 2."}),
        ),
        {"reasoning": THOUGHT},
    ),
    "Ollama, chat": Dialect(
        "chat",
        (
            _ending_with_call({"content": "", "reasoning": THOUGHT}, tool_call("python", CODE, id="call_9k")),
            chat({"content": ANSWER}),
        ),
        {"reasoning": THOUGHT},
    ),
    "llama.cpp, chat": Dialect(
        "chat",
        (
            _ending_with_call(
                {"reasoning_content": THOUGHT},
                tool_call("python", "{", id="q7kng8"),
                {"tool_calls": [{"index": 0, "function": {"arguments": CODE[1:]}}]},
            ),
            chat({"content": ANSWER}),
        ),
        {"reasoning_content": THOUGHT},
    ),
    "router, chat": Dialect(
        "chat",
        (
            chat(
                {"role": "assistant", "reasoning": "Compute"},
                {"role": "assistant", "reasoning": " it."},
                {"role": "assistant", **tool_call("python", CODE, id="fc_1")},
                finish="tool_calls",
                cached=None,
            ),
            chat({"role": "assistant", "content": "It is"}, {"role": "assistant", "content": " 2."}, cached=None),
        ),
        {"reasoning": THOUGHT},
        cached=None,
    ),
    "transformers, chat": Dialect(
        "chat",
        (
            transformers_chat(
                {"reasoning_content": "Compute"},
                {"reasoning_content": " it."},
                tool_call("python", CODE, id="R_tool_call_0"),
                finish="tool_calls",
            ),
            transformers_chat({"content": "It is"}, {"content": " 2."}),
        ),
        {"reasoning_content": THOUGHT},
        cached=None,
    ),
}
