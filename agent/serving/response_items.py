"""The items of a response for calls: a client's own functions, and tools that ran here."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ossia.agent.serving.asked import Function
from ossia.agent.serving.response_stream import Json
from ossia.agent.stream.events import Approval, ToolCall, ToolResult
from ossia.tools.functions.naming import PREFIX
from ossia.tools.work.result import for_people, parts_of

_HERE = "ossia"
"""The label of this server, and of the place where its commands and its code run."""
_SEALED = "ossia:"
_REFUSED = 126
"""The exit code of a command that a shell finds but may not run."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """A kind of item for tools that run here.

    `prefix`: of its ids. Its events: `running` while it runs, and one of `ended`, after a success or a failure ("": no
    event). `text`: the field that has events of its own while it is written.
    """

    name: str
    prefix: str
    running: tuple[str, ...] = ()
    ended: tuple[str, str] = ("", "")
    text: str = ""


SEARCH = Hosted("web_search_call", "ws", ("in_progress", "searching"), ("completed", ""))
CODE = Hosted("code_interpreter_call", "ci", ("in_progress", "interpreting"), ("completed", ""), "code")
SHELL = Hosted("shell_call", "sh")
OTHER = Hosted("mcp_call", "mcp", ("in_progress",), ("completed", "failed"), "arguments")
"""Any other tool. Clients take it for one that a server ran, which they must not run again."""


def hosted(name: str, *, shell: bool) -> Hosted:
    """The kind of a tool: `hosted("python", …)` is CODE. `shell`: the client asked for one, and knows its items.

    A command isn't a `local_shell_call`, nor a patch an `apply_patch_call`: clients run those themselves.
    """
    if name.startswith("browser."):
        return SEARCH
    if name == "container.exec" and shell:
        return SHELL
    return CODE if name == "python" else OTHER


def sealed(text: str) -> str:
    """The `encrypted_content` of a reasoning item. It is its text, which the item shows, too: nothing has to be stored.

    A client that keeps only this sends it back, and `unsealed` reads it.
    """
    return _SEALED + text


def unsealed(content: str) -> str | None:
    """The reasoning in an `encrypted_content`; None for another server's."""
    return content.removeprefix(_SEALED) if content.startswith(_SEALED) else None


def text_of(arguments: object) -> str:
    """The arguments of a call as JSON; a text as it is."""
    if isinstance(arguments, str):
        return arguments
    text = json.dumps(arguments, ensure_ascii=False)
    return text if text.isascii() or _encodes(text) else json.dumps(arguments)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can spell
        return False
    return True


def of_function(function: Function, call: ToolCall, *, item_id: str) -> Json:
    """The item of a call that the client runs: a `function_call`, or a `custom_tool_call` with a bare text."""
    arguments = call.arguments
    if function.text:
        given = arguments.get("input") if isinstance(arguments, Mapping) else arguments
        item: Json = {"type": "custom_tool_call", "input": given if isinstance(given, str) else text_of(arguments)}
    else:
        item = {"type": "function_call", "arguments": text_of(arguments)}
    namespace = {"namespace": function.namespace} if function.namespace else {}
    return {**item, "id": item_id, "call_id": call.id, "name": function.name, "status": "completed", **namespace}


def of_hosted(kind: Hosted, name: str, arguments: object, *, item_id: str, call_id: str) -> Json:
    """The item of a call that begins to run here."""
    item: Json = {"type": kind.name, "id": item_id, "status": "in_progress"}
    if kind is SEARCH:
        return {**item, "action": _action(name, arguments)}
    if kind is CODE:
        code = arguments if isinstance(arguments, str) else text_of(arguments)
        return {**item, "container_id": _HERE, "code": code, "outputs": None}
    if kind is SHELL:
        place = {"type": "container_reference", "container_id": _HERE}
        return {**item, "call_id": call_id, "action": {"commands": [_command(arguments)]}, "environment": place}
    given = {"input": arguments} if isinstance(arguments, str) else arguments
    return {**item, "name": name.removeprefix(PREFIX), "server_label": _HERE, "arguments": text_of(given)}


def ended(kind: Hosted, item: Json, name: str, result: ToolResult, refusal: str, *, logs: bool) -> Json:
    """The item of a call that is over. `refusal`: the line on one that wasn't allowed; `logs`: show what it printed."""
    if kind is SHELL:
        return {**item, "status": "completed", "output": [_printed(result, refusal)]}
    bad = result.status != "done"
    shown = refusal or for_people(result.output, name)
    item = {**item, "status": "failed" if bad else "completed"}
    if kind is SEARCH:
        action = item["action"]
        if "url" in action and not action["url"]:
            action = {**action, "url": _address(result.output) or action["url"]}
        return {**item, "action": action, **({"error": shown} if bad else {})}
    if kind is CODE:
        return {**item, "outputs": [{"type": "logs", "logs": shown}] if logs or refusal else None}
    if bad:
        content = [{"type": "text", "text": shown}]
        return {**item, "output": None, "error": {"type": "mcp_tool_execution_error", "content": content}}
    return {**item, "output": shown, "error": None}


def shell_output(call_id: str, *, item_id: str) -> Json:
    """The item of what a command prints, and of its end, as it begins."""
    return {"type": "shell_call_output", "id": item_id, "call_id": call_id, "output": [], "status": "in_progress"}


def _printed(result: ToolResult, refusal: str) -> Json:
    parts = parts_of(result.output, "container.exec")
    code = parts.status if parts else _REFUSED if refusal else int(result.status != "done")
    printed = parts.output if parts else "" if refusal else result.output
    return {"stdout": printed, "stderr": refusal, "outcome": {"type": "exit", "exit_code": code}}


def refusal(result: ToolResult, call: ToolCall | None, questions: Sequence[Approval]) -> str:
    """The line on a call that wasn't allowed, with the rule that would allow it; "" for any other.

    `questions`: those asked in the turn. The same call isn't asked about again.

        refusal(result, call, questions)
        # "refused: it can run code. The server's owner can allow it: --allow 'container.exec:make'"
    """
    if result.status != "refused":
        return ""
    same = call and (call.name, call.arguments)
    found = (one for one in reversed(questions) if one.call == result.id or (one.name, one.arguments) == same)
    if (asked := next(found, None)) is None:  # a rule denied it, and the result says which
        return result.output
    way = f"The server's owner can allow it: {asked.allow}" if asked.allow else "No rule can allow it"
    return f"refused: {asked.reason}. {way}"


def _action(name: str, arguments: object) -> Json:
    given: Callable[[str], object] = arguments.get if isinstance(arguments, Mapping) else lambda field: None
    match name.rpartition(".")[2]:
        case "open":
            target = given("id")
            return {"type": "open_page", "url": target if isinstance(target, str) and "://" in target else None}
        case "find":
            return {"type": "find_in_page", "pattern": str(given("pattern") or ""), "url": ""}
    query = str(given("query") or "")
    return {"type": "search", "query": query, "queries": [query]}


def _address(output: str) -> str:
    """The address of the page that a result of the browser shows: `[2] Capy (http://a.test/capy)`; "" without one."""
    head, _, rest = output.partition("\n")
    address = head.rpartition(" (")[2].removesuffix(")")
    return address if "://" in address and rest.startswith("**viewing lines") else ""


def _command(arguments: object) -> str:
    """The command of a call of `container.exec` as a shell takes it: `["bash", "-lc", "ls"]` is `ls`."""
    words = arguments.get("command") if isinstance(arguments, Mapping) else arguments
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return words if isinstance(words, str) else text_of(arguments)
    return words[2] if len(words) == 3 and words[:2] == ["bash", "-lc"] else shlex.join(words)
