"""An MCP server that does what it shouldn't, on stdio, with nothing but the standard library: `mcp_hostile.py HOW`.

HOW: `exits`, `hangs`, `waits FILE` (answers once it is there), `junk` (other text between its messages), `deaf`
(ignores the end of its input and SIGTERM), `tools FILE` (junk too, and the tools of a JSON file), `dies FILE` (ends
after each answer to a call), `many`, `endless-pages`, `regex`, `garbage` (answers that are none), `silent-call`
(never answers a call), `floods stderr MB` `half-json` (half of an answer to a call), `asks` (the user what its
argument says, and answers with the reply), and `floods stdout MB` (so much before each answer to a call, in one line;
`floods-at-once` from the start).
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HOW = sys.argv[1]
HAS_ASKED: list[str] = []
ECHO = {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object", "properties": {
    "text": {"type": "string"}}, "required": ["text"]}}  # fmt: skip


def tools(cursor: str | None) -> dict[str, Any]:
    if HOW in ("tools", "dies"):
        return {"tools": json.loads(Path(sys.argv[2]).read_text())}
    if HOW == "many":
        return {"tools": [{**ECHO, "name": f"tool{n}"} for n in range(300)]}
    if HOW == "endless-pages":
        n = int(cursor or 0)
        return {"tools": [{**ECHO, "name": f"tool{n}"}], "nextCursor": str(n + 1)}
    if HOW == "regex":
        pattern = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}
        return {"tools": [{**ECHO, "inputSchema": pattern, "outputSchema": pattern}]}
    return {"tools": [ECHO]}


def asked(what: dict[str, Any]) -> dict[str, Any]:
    """The client's reply to a question of ours, as the answer to a call."""
    print(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": what}), flush=True)
    while (reply := json.loads(sys.stdin.readline())).get("id") != "q":
        pass
    said = reply.get("result", reply.get("error"))
    return {"content": [{"type": "text", "text": json.dumps(said)}]}


def called(params: dict[str, Any]) -> dict[str, Any]:
    if HOW == "asks":
        return asked(json.loads(params["arguments"]["text"]))
    if HOW == "regex":
        return {"content": [], "structuredContent": {"text": "a" * 60 + "!"}}
    if HOW == "garbage":
        return {"content": "no list", "isError": "perhaps"}
    said = json.dumps(params.get("arguments"))
    return {"content": [{"type": "text", "text": f"{params['name']} {said}"}]}


def answers(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "id" not in message:
        return
    result: dict[str, Any] | None = None
    match message["method"]:
        case "initialize":
            info = {"name": "Hostile \x1b[2J server", "version": "0"}
            version = "2025-11-25" if HOW == "asks" else "2025-06-18"
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = tools(message.get("params", {}).get("cursor"))
        case "tools/call":
            if HOW == "silent-call":
                return
            if HOW == "asks" and "pages" in (text := message["params"]["arguments"]["text"]):
                data = {"elicitations": json.loads(text)["pages"]}
                HAS_ASKED.append(text)
                if HAS_ASKED.count(text) == 1:
                    error = {"code": -32042, "message": "log in", "data": data}
                    yield {"jsonrpc": "2.0", "id": message["id"], "error": error}
                    return
                yield {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
                return
            result = called(message["params"])
        case method:
            error = {"code": -32601, "message": f"no {method}"}
            yield {"jsonrpc": "2.0", "id": message["id"], "error": error}
            return
    yield {"jsonrpc": "2.0", "id": message["id"], "result": result}


def flood() -> None:
    stream = sys.stdout if sys.argv[2] == "stdout" else sys.stderr
    for _ in range(int(sys.argv[3])):
        stream.write("A" * 1_000_000)
    stream.write("\n")
    stream.flush()


def main() -> None:
    if HOW == "exits":
        print("\x1b[31mI can't: \x1b]52;c;aGk=\x07 no such key\x1b(B\n\x1b[m", file=sys.stderr)
        sys.exit(1)
    if HOW == "floods-at-once":
        flood()
        sys.exit("out of paper")
    if HOW == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if HOW in ("hangs", "deaf"):
        while True:
            time.sleep(60)
    while HOW == "waits" and not Path(sys.argv[2]).exists():
        time.sleep(0.02)
    for line in sys.stdin:
        message = json.loads(line)
        if HOW == "floods" and message.get("method") == "tools/call":
            flood()
        for answer in answers(message):
            if HOW == "half-json" and message["method"] == "tools/call" and message["id"] % 2 == 0:
                print(json.dumps(answer)[:-9], flush=True)
                continue
            if HOW in ("junk", "tools"):
                print("starting up…\n{}\n[1, 2]\n\x00\xff not JSON", flush=True)
            print(json.dumps(answer), flush=True)
        if HOW == "dies" and message.get("method") == "tools/call":
            sys.exit(0)


if __name__ == "__main__":
    main()
