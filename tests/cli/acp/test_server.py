"""`ossia acp` as a process: a prompt from beginning to end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.command import OSSIA, write_script
from tests.support.work_calls import writes

FINAL = "<|channel|>final<|message|>Done.<|return|>"


class Client:
    """A client that reads line by line; `updates` are those of the session."""

    def __init__(self, folder: Path, *steps: str) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        command = [str(OSSIA), "acp", "--engine", write_script(folder, *steps)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
        self.updates: list[dict[str, Any]] = []
        self._number = 0
        self.request("initialize", {"protocolVersion": 1})
        self.session = self.request("session/new", {"cwd": str(self.work), "mcpServers": []})["sessionId"]

    def request(self, method: str, params: dict[str, Any], option: str = "y") -> Any:
        """The result; each question is answered with `option`."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        while True:
            message = self.line()
            if message.get("id") == self._number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            if message["method"] == "session/update":
                self.updates.append(message["params"]["update"])
            else:
                outcome = {"outcome": "selected", "optionId": option}
                self.updates.append({"sessionUpdate": "question", **message["params"]["toolCall"]})
                self.send({"id": message["id"], "result": {"outcome": outcome}})

    def prompt(self, text: str, option: str = "y") -> str:
        blocks = [{"type": "text", "text": text}]
        answer = self.request("session/prompt", {"sessionId": self.session, "prompt": blocks}, option)
        return str(answer["stopReason"])

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def close(self) -> int:
        self.process.communicate(timeout=60)
        return self.process.returncode


def test_a_patch_is_asked_about_with_its_diff_and_made(tmp_path: Path) -> None:
    client = Client(tmp_path, writes("a.md"), FINAL)
    assert client.prompt("Write it.") == "end_turn"
    (question,) = (one for one in client.updates if one["sessionUpdate"] == "question")
    written = (client.work / "a.md").read_text()
    diff = {"type": "diff", "path": str(client.work / "a.md"), "oldText": None, "newText": written}
    assert question["content"][0] == diff
    last = [one for one in client.updates if one["sessionUpdate"] == "tool_call_update"][-1]
    assert (last["status"], last["content"]) == ("completed", [diff])
    assert "".join(one["content"]["text"] for one in client.updates if "message" in one["sessionUpdate"]) == "Done."
    assert client.close() == 0


def test_a_refused_call_does_not_run(tmp_path: Path) -> None:
    client = Client(tmp_path, writes("a.md"), FINAL)
    assert client.prompt("Write it.", option="n") == "end_turn"
    last = [one for one in client.updates if one["sessionUpdate"] == "tool_call_update"][-1]
    assert last["status"] == "failed"
    assert not (client.work / "a.md").exists()
    assert client.close() == 0
