"""Several sessions in one process, what is refused, and how much a call may say."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.acp.editor import Editor
from tests.support.command import start, write_script
from tests.support.work_calls import runs, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="asyncio reads no such pipes there")

FINAL = "<|channel|>final<|message|>Done.<|return|>"


def _refused(editor: Editor, method: str, **params: object) -> tuple[int, str]:
    from acp import RequestError

    with pytest.raises(RequestError) as refused:
        editor.request(method, **params)
    return refused.value.code, str(refused.value)


def test_a_question_in_one_session_holds_up_only_prompts_of_others(tmp_path: Path) -> None:
    with Editor("--engine", write_script(tmp_path, writes("a.md"), FINAL, FINAL)) as editor:
        first, second = (editor.new(_folder(tmp_path, name)).session_id for name in "ab")
        editor.client.answer = None
        asking = editor.begin(first, "Write it.")
        editor.until(lambda: editor.questions)
        text = [{"type": "text", "text": "And now?"}]
        assert _refused(editor, "session/prompt", sessionId=first, prompt=text)[0] == -32600
        waiting = editor.begin(second, "Hi.")
        editor.cancel(second)
        assert editor.end(waiting) == "cancelled"
        waiting = editor.begin(second, "Hi.")
        editor.client.answer = "reject_once"
        editor.release()
        assert editor.end(asking) == editor.end(waiting) == "end_turn"
        editor.request("session/close", sessionId=first)
        assert _refused(editor, "session/prompt", sessionId=first, prompt=text)[0] == -32002


def test_the_output_of_a_command_is_bounded_in_size_and_in_number_of_messages(tmp_path: Path) -> None:
    flood = runs("head -c 20000000 /dev/zero | tr '\\0' x | fold -w 80")
    with Editor("--engine", write_script(tmp_path, flood, FINAL), "--yes") as editor:
        session = editor.new(_folder(tmp_path, "a")).session_id
        assert editor.ask(session, "Go on.") == "end_turn"
        assert sum(len(str(update)) for update in editor.updates[session]) < 3_000_000


def test_a_file_that_is_cut_or_missing_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "a")
    (folder / "log.txt").write_text("a line of it\n" * 50_000)
    (folder / "notes.md").write_text("walrus\n")
    with Editor("--engine", write_script(tmp_path, FINAL)) as editor:
        session = editor.new(folder).session_id
        assert editor.ask(session, "Sum up @log.txt, @notes.md and @gone.md") == "end_turn"
        cut, gone = editor.text(session, "agent_thought_chunk").splitlines()
    assert cut.startswith("@log.txt · ") and cut.endswith("of 650 kB, cut in the middle")
    assert gone == "@gone.md: not attached: there is no such file"


def test_a_model_that_is_missing_asks_for_its_download(tmp_path: Path) -> None:
    with Editor("--model", "gpt-oss-120b") as editor:
        assert editor.greeting.auth_methods == []
        auth = {"auth": {"terminal": True}}
        (method,) = editor.request("initialize", protocolVersion=1, clientCapabilities=auth)["authMethods"]
        assert (method["type"], method["args"]) == ("terminal", ["models", "pull", "gpt-oss-120b"])
        session = editor.new(_folder(tmp_path, "a")).session_id
        text = [{"type": "text", "text": "Hi."}]
        code, line = _refused(editor, "session/prompt", sessionId=session, prompt=text)
        assert code == -32000 and "ossia models pull gpt-oss-120b" in line


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/new", {"cwd": "work", "mcpServers": []}, -32602),
        ("session/new", {"cwd": "/does/not/exist", "mcpServers": []}, -32602),
        ("session/prompt", {"sessionId": "unknown", "prompt": []}, -32002),
        ("session/load", {"sessionId": "unknown", "cwd": "/usr", "mcpServers": []}, -32002),
        ("authenticate", {"methodId": "password"}, -32602),
        ("initialize", {"protocolVersion": "1"}, -32602),
        ("session/fork", {}, -32601),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_followed_is_an_error(method: str, params: dict[str, Any], code: int) -> None:
    with Editor() as editor:
        assert _refused(editor, method, **params)[0] == code


def test_an_engine_that_breaks_is_an_error_with_its_line(tmp_path: Path) -> None:
    with Editor("--engine", write_script(tmp_path)) as editor:
        session = editor.new(_folder(tmp_path, "a")).session_id
        code, line = _refused(editor, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Hi."}])
        assert code == -32603 and "script" in line


def test_sigterm_ends_it() -> None:
    process = start("acp", stdin=subprocess.PIPE)
    assert process.stdin and process.stdout
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_client_that_reads_nothing_can_leave() -> None:
    process = start("acp", stdin=subprocess.PIPE)
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n' * 1000)
    process.stdin.close()
    assert process.wait(timeout=60) == 0  # its answers still fill the pipe
    process.stdout.close()
    process.stderr.close()


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir(exist_ok=True)
    return parent / name
