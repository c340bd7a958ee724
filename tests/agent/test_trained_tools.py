"""`container` and `repo_browser` in a prompt: declared where they were trained, called and answered on analysis."""

from __future__ import annotations

import re
from pathlib import Path

from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from tests.support.turns import Double, Stage

CALL = '<|channel|>analysis to=repo_browser.print_tree code<|message|>{"path":"","depth":3}'
DECLARED = """\
## container

// Runs commands in the workspace, each in a process of its own, confined and without network.
// Network, and changes of .git such as a commit, need the user's word: call such a command by itself; they are asked.
namespace container {

// Runs a program and returns its output, e.g. ["bash", "-lc", "pytest -q"]. workdir: a folder of the workspace; \
timeout: milliseconds (60000 if left out).
type exec = (_: {
command: string[],
workdir?: string,
timeout?: number,
}) => any;

} // namespace container

## repo_browser

"""


def test_they_are_declared_in_the_system_message_and_answered_on_analysis(
    o200k_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    tools = (Exec(), *workspace_tools(), Double())
    stage = Stage(o200k_tokenizer, (f"{CALL}<|call|>", "<|channel|>final<|message|>Done.<|return|>"), tools=tools)
    stage.play("Look around.")
    system, developer, *rest = stage.prompt().split("<|start|>")[1:]
    assert system.startswith("system") and DECLARED in system and "functions" not in system.partition("# Valid")[0]
    declared = re.findall(r"^type (\w+) = \(_: \{\n(.*?)\}\) => any;$", system, re.DOTALL | re.MULTILINE)
    assert {name: re.findall(r"^(\w+\??): (\S+),$", body, re.MULTILINE) for name, body in declared} == {
        "exec": [("command", "string[]"), ("workdir?", "string"), ("timeout?", "number")],
        "print_tree": [("path", "string"), ("depth", "number")],
        "list_dir": [("path", "string"), ("depth?", "number")],
        "search": [("path", "string"), ("query", "string"), ("max_results?", "number")],
        "open_file": [
            ("path", "string"),
            ("line_start?", "number"),
            ("line_end?", "number"),
            ("line_numbers?", "boolean"),
        ],
        "apply_patch": [("patch", "string")],
    }
    assert developer.startswith("developer") and "type double" in developer
    assert "repo_browser" not in developer and "container" not in developer
    call = next(message for message in stage.session.messages if message.recipient == "repo_browser.print_tree")
    result = next(message for message in stage.session.messages if message.role == "tool")
    assert (call.channel, call.content_type, call.text) == ("analysis", "code", '{"path":"","depth":3}')
    assert (result.name, result.channel, result.recipient) == ("repo_browser.print_tree", "analysis", "assistant")
    assert rest[0].startswith("user")
