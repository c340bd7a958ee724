"""What `ossia acp` writes and reads, line by line: stdout has the protocol alone, and any line is answered."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.acp_fuzz import Run
from tests.support.acp_lines import Lines, update_of
from tests.support.command import write_script
from tests.support.work_calls import wants

FINAL = "<|channel|>final<|message|>Done.<|return|>"
CHATTY = '''\
"""Prints in each way that reaches descriptor 1, at each time."""

import atexit
import ctypes
import os
import subprocess
import sys
import threading

libc = ctypes.CDLL(None)


def everywhere(when):
    print(f"print {when}", flush=True)
    sys.__stdout__.write(f"sys.__stdout__ {when}\\n")
    sys.__stdout__.flush()
    os.write(1, f"os.write {when}\\n".encode())
    libc.printf(f"printf {when}\\n".encode())
    libc.fflush(None)
    subprocess.run(["echo", f"a process {when}"])
    thread = threading.Thread(target=print, args=(f"a thread {when}",))
    thread.start()
    thread.join()


everywhere("at import")
atexit.register(everywhere, "at the end")


def chat() -> str:
    """Chats."""
    everywhere("in the call")
    return "quiet"


chat.effects = {"read"}
'''


def test_stdout_has_the_protocol_alone_whatever_a_function_prints(tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    script = write_script(tmp_path, wants("functions.chat"), FINAL)
    with Lines("--engine", script, "--tools", str(tmp_path / "chatty.py")) as agent:
        end = agent.answer(agent.prompt(agent.opened(tmp_path)))
        assert end["result"]["stopReason"] == "end_turn"
        results = [update for update in map(update_of, agent.messages) if update.get("status") == "completed"]
        assert "quiet" in str(results)
        assert (agent.close(), agent.torn) == (0, [])
    for how in ("sys.__stdout__", "os.write", "printf", "a process", "a thread"):
        assert f"{how} at import" in agent.errors and f"{how} in the call" in agent.errors
    assert not any("at import" in str(message) for message in agent.messages)


def test_the_built_in_model_answers_with_its_library_s_log_elsewhere(tmp_path: Path) -> None:
    with Lines("--model", "etude", "--effort", "low", "--seed", "1") as agent:
        end = agent.answer(agent.prompt(agent.opened(tmp_path), "What is 2+3?"))
        assert end["result"]["stopReason"] == "end_turn"
        assert (agent.close(), agent.torn) == (0, [])


def test_mutated_messages_get_an_error_or_a_result_each(tmp_path: Path) -> None:
    """A part of what `python -m tests.oracle.acp_fuzz` does."""
    run = Run("suite", tmp_path.resolve())
    run.run(300)
    assert run.faults == []
    assert run.answers["result"] > 20 and run.answers["-32700"] > 5


def test_a_client_that_leaves_in_the_middle_ends_the_process(tmp_path: Path) -> None:
    step = f"<|channel|>final<|message|>{'word ' * 500}<|return|>"
    with Lines("--engine", write_script(tmp_path, step, tokens_per_s=50)) as agent:
        agent.prompt(agent.opened(tmp_path))
        agent.update("agent_message_chunk")
        assert agent.close() == 0
        assert "Traceback" not in agent.errors
