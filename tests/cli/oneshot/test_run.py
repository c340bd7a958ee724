"""`ossia run` as a script uses it: what goes to stdout, what to stderr, and the exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.command import OSSIA, line_of, ossia, ossia_here, start, write_script
from tests.support.documents import counted
from tests.support.site import Site, wait_until

FINAL = "<|channel|>final<|message|>Done.<|return|>"
CALL = "<|channel|>analysis to=python code<|message|>print(6*7)<|call|>"
ETUDE_LINE = b"using \xc3\xa9tude"


@pytest.mark.parametrize(
    ("web", "told"),
    [
        ("localhost:8888", "--web localhost:8888: must be a SearXNG's address (http://…) or one of brave, "),
        ("http://me:secret@h.test/", "--web …: the service's address: "),
        ("exa", "--web exa: exa needs a key: name the environment variable that holds it (--web-key; EXA_API_KEY is"),
    ],
)
def test_a_search_service_that_cannot_be_used(web: str, told: str, tmp_path: Path) -> None:
    done = ossia("run", "hi", "--engine", write_script(tmp_path, FINAL), "--web", web)
    assert (done.returncode, done.stdout, done.stderr.decode().count("\n")) == (2, b"", 1)
    assert done.stderr.decode().startswith(f"ossia: error: {told}")


@pytest.mark.parametrize(("source", "told"), [("web", True), ("elsewhere", False)])
def test_a_search_that_failed_has_its_reason_on_stderr(source: str, told: bool, tmp_path: Path) -> None:
    """A pipe gets no lines about calls, but the answer is from less than was asked for."""
    query = json.dumps({"query": "llamas", "source": source})
    call = f"<|channel|>commentary to=browser.search <|constrain|>json<|message|>{query}<|call|>"
    done = ossia("run", "hi", "--engine", write_script(tmp_path, call, FINAL), "--web", "http://127.0.0.1:9", "--yes")
    assert (done.returncode, done.stdout) == (0, b"Done.\n")
    assert done.stderr.startswith(b"ossia: warning: Search the web for ") == told and done.stderr.count(b"\n") == told


def test_the_readmes_first_command() -> None:
    done = ossia("run", "What is 48*17?", "--seed", "1", started=True)
    assert (done.returncode, done.stdout) == (0, b"The result is 816.\n")
    assert ETUDE_LINE in done.stderr and b"ossia models pull gpt-oss-20b" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("flags", [["--workspace", "~nobody-here"], ["--tools", "~nobody-here/x.py"]])
def test_a_home_that_nobody_has_is_one_line(flags: list[str]) -> None:
    done = ossia("run", "hi", *flags)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


def test_a_setting_that_cannot_be_used_is_one_line_alone() -> None:
    done = ossia("run", "hi", "--proxy", "nonsense")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


def test_from_a_folder_with_packages_of_the_same_names(tmp_path: Path) -> None:
    for name in ("cli", "tools", "agent", "harmony"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    done = ossia("run", "What is 48*17?", "--temperature", "0", "--quiet", cwd=tmp_path, started=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"The result is 816.\n", b"")


def test_the_etude_is_greedy_unless_told_otherwise() -> None:
    """At temperature 1 it goes wrong now and then: a bad first minute. Four of the first eight seeds tell."""
    question = "Finish this sentence: the night was dark and"

    def asked(seed: int, *flags: str) -> bytes:
        return ossia("run", question, "--quiet", "--seed", str(seed), *flags).stdout

    greedy = asked(0, "--temperature", "0")
    assert [asked(seed) for seed in range(3)] == [greedy] * 3
    assert any(asked(seed, "--temperature", "1") != greedy for seed in range(8))


def test_a_model_that_is_named_needs_no_line() -> None:
    done = ossia("run", "Hello!", "--model", "etude", "--temperature", "0")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"\n") and done.stdout.strip()


class TestScripts:
    """With `--engine script:`: each end and its exit code."""

    def test_answered(self, tmp_path: Path) -> None:
        done = ossia("run", "hi", "--engine", write_script(tmp_path, FINAL))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"Done.\n", b"")

    def test_the_last_final_is_the_answer_exactly(self, tmp_path: Path) -> None:
        first = "<|channel|>final<|message|>No.<|end|><|start|>assistant"
        script = write_script(tmp_path, first + "<|channel|>final<|message|>\x1b[2J häh\n\n\n<|return|>")
        done = ossia("run", "hi", "--engine", script)
        assert (done.returncode, done.stdout) == (0, "\x1b[2J häh\n".encode())

    def test_a_call_in_the_final_channel_is_no_answer(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, "<|channel|>final to=python<|message|>print(1)<|call|>")
        done = ossia("run", "hi", "--engine", script, "--no-tools")
        assert (done.returncode, done.stdout) == (7, b"")

    def test_the_script_ends_too_soon(self, tmp_path: Path) -> None:
        done = ossia("run", "hi", "--engine", write_script(tmp_path, CALL), "--no-tools")
        assert done.returncode == 7
        assert done.stderr.count(b"\n") == 1 and b"no more steps" in done.stderr

    def test_cut_by_max_tokens(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, "<|channel|>final<|message|>Done and more.<|return|>")
        done = ossia("run", "hi", "--engine", script, "--max-tokens", "5")
        assert done.returncode == 6
        assert b"Done and more.".startswith(done.stdout.strip()) and done.stdout.strip()
        assert b"--max-tokens" in done.stderr

    def test_cut_in_the_thoughts_prints_nothing(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, "<|channel|>analysis<|message|>A long thought.<|end|>")
        done = ossia("run", "hi", "--engine", script, "--max-tokens", "5")
        assert (done.returncode, done.stdout) == (6, b"")

    def test_cut_by_timeout(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, "<|channel|>final<|message|>" + counted("word ", 100), tokens_per_s=20)
        began = time.monotonic()
        done = ossia("run", "hi", "--engine", script, "--timeout", "0.5")
        assert done.returncode == 6
        assert done.stdout.startswith(b"word") and b"--timeout" in done.stderr
        assert time.monotonic() - began < 20  # not the 10 s of tokens on top of a slow start

    def test_cut_by_the_context(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, "<|channel|>final<|message|>" + counted("word ", 200))
        done = ossia("run", "hi", "--engine", script, "--context", "500", "--no-tools")
        assert done.returncode == 6 and done.stdout.startswith(b"word 0 word 1")

    def test_a_prompt_longer_than_the_context(self, tmp_path: Path) -> None:
        done = ossia("run", "word " * 500, "--engine", write_script(tmp_path, FINAL), "--context", "300")
        assert (done.returncode, done.stdout) == (4, b"")
        assert b"300" in done.stderr and done.stderr.count(b"\n") == 1

    def test_a_malformed_header_is_mended(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, '<|channel|>final {"a": 1}<|return|>')
        done = ossia("run", "hi", "--engine", script, "--json", "--temperature", "0")
        line = line_of(done)
        assert (line["answer"], line["end"], line["exit"]) == ('{"a": 1}', "answered", 0)
        assert [repair["code"] for repair in line["repairs"]] == ["missing-message"]
        twice = write_script(tmp_path, '<|channel|>final {"a": 1}<|return|>', '<|channel|>final {"a": 2}<|return|>')
        again = line_of(ossia("run", "hi", "--engine", twice, "--json"))
        assert again["sampled_again"] == ["its message could not be read"]
        assert (again["answer"], len(again["repairs"])) == ('{"a": 2}', 1)
        assert set(line["repairs"][0]) == {"code", "message"}

    def test_a_step_in_the_model_s_own_spelling_is_followed_to_its_answer(self, tmp_path: Path) -> None:
        """A thought without a header, rubble, a tool that isn't on in the channel's place, an answer `to=final`."""
        script = write_script(
            tmp_path,
            "Let me see.<|end|><|start|>assistant…?<|end|>"
            "<|start|>assistant<|channel|>lamp.dim to=assistant<|channel|>analysis code<|message|>{}<|call|>",
            "<|channel|>commentary to=final<|message|>It is dark.<|return|>",
        )
        line = line_of(ossia("run", "Dim the lamp.", "--engine", script, "--tools", "python", "--json"))
        (call,) = line["calls"]
        assert (line["answer"], line["end"]) == ("It is dark.", "answered")
        assert call["result"] == "Error: there is no tool 'lamp.dim'. The tools are: python"
        assert [one.get("channel") for one in line["messages"][1:]] == ["analysis", "analysis", "analysis", "final"]

    @pytest.mark.parametrize(
        "content", ['{"version": 2, "steps": []}', "{", '{"version": 1, "steps": ["<|nope|>"]}', None]
    )
    def test_a_bad_script_is_a_usage_error(self, content: str | None, tmp_path: Path) -> None:
        path = tmp_path / "s.json"
        if content is not None:
            path.write_text(content)
        done = ossia_here("run", "hi", "--engine", f"script:{path}")
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.count(b"\n") == 1

    def test_ids_need_the_gpt_oss_vocabulary(self, tmp_path: Path) -> None:
        """None is on this machine, and tiktoken's can't be downloaded here: one line, exit 3."""
        done = ossia(
            "run", "hi", "--engine", write_script(tmp_path, [200005]), env={"https_proxy": "http://127.0.0.1:9"}
        )
        assert (done.returncode, done.stdout) == (3, b"")
        assert done.stderr.count(b"ossia: error:") == 1 and b"Traceback" not in done.stderr

    def test_ids_in_the_vocabulary_of_a_named_model(self, tmp_path: Path) -> None:
        done = ossia("run", "hi", "--engine", write_script(tmp_path, [72, 105]), "--model", "etude", "--json")
        assert line_of(done)["exit"] in (0, 7)

    def test_a_real_call(self, tmp_path: Path) -> None:
        done = ossia("run", "hi", "--engine", write_script(tmp_path, CALL, FINAL), "--json")
        (call,) = line_of(done)["calls"]
        assert {**call, "ms": 0} == {
            "id": "call_1",
            "name": "python",
            "arguments": "print(6*7)",
            "result": "42",
            "notices": [],
            "error": False,
            "ms": 0,
        }
        assert isinstance(call["ms"], int)

    @pytest.mark.parametrize(
        "steps",
        [
            ("<|channel|>final<|message|> \n<|return|>",),
            ("<|channel|>analysis<|message|>Hm.<|return|>", "<|return|>"),
            (CALL, "<|channel|>analysis<|message|>Hm.<|return|>", f"<|start|>assistant{CALL}"),
        ],
    )
    def test_no_answer_came(self, steps: tuple[str, ...], tmp_path: Path) -> None:
        script = write_script(tmp_path, *steps)
        done = ossia("run", "hi", "--engine", script, "--quiet", "--temperature", "0")
        assert (done.returncode, done.stdout) == (9, b"")
        assert done.stderr.startswith(b"ossia: error: no answer came: ") and done.stderr.count(b"\n") == 1
        line = line_of(ossia("run", "hi", "--engine", script, "--json", "--save", "--temperature", "0"))
        assert (line["answer"], line["end"], line["exit"], line["error"]) == (None, "silent", 9, None)
        told = ossia("sessions", "export", line_of(ossia("sessions", "list", "--json"))["sessions"][0]["id"])
        assert told.stdout.endswith(b"*(no answer came)*\n") and b"interrupted" not in told.stdout

    def test_the_step_limit(self, tmp_path: Path) -> None:
        """The last answer is printed. Tokens are those of all the steps."""
        calls = [f"<|channel|>analysis to=python code<|message|>print({n})<|call|>" for n in range(10, 60)]
        script = write_script(tmp_path, *calls, "Enough.<|return|>")
        done = ossia("run", "hi", "--engine", script, "--no-tools")
        assert (done.returncode, done.stdout) == (5, b"Enough.\n")
        assert b"step limit" in done.stderr and done.stderr.count(b"\n") == 1
        line = line_of(ossia("run", "hi", "--engine", script, "--no-tools", "--json"))
        assert (line["end"], line["exit"], len(line["calls"])) == ("steps", 5, 50)
        assert line["usage"]["completion_tokens"] > 50 * len("print(1)")
        assert line["usage"]["prompt_tokens"] > 20_000
        assert line["timings"]["load_s"] > 0

    def test_no_tools(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, CALL, FINAL)
        done = ossia("run", "hi", "--engine", script, "--json", "--tools", "python", "--no-tools")
        (call,) = line_of(done)["calls"]
        assert call["error"] and "there is no tool 'python'" in call["result"]


def test_the_json_line_has_every_field(tmp_path: Path) -> None:
    line = line_of(ossia("run", "hi", "--engine", write_script(tmp_path, FINAL), "--json"))
    assert list(line) == [
        *("version", "model", "answer", "citations", "messages", "calls", "refused", "usage", "steps", "memory"),
        *("timings", "repairs", "sampled_again", "let_go", "trimmed", "end", "error", "exit"),
    ]
    counts = ["prompt_tokens", "reused_tokens", "evaluated_tokens", "lost_tokens", "completion_tokens", "forced_tokens"]
    assert list(line["usage"]) == counts
    assert [list(step) for step in line["steps"]] == [[*counts, "prefill_s", "decode_s", "end"]]
    assert list(line["timings"]) == ["load_s", "prefill_s", "decode_s", "tokens_per_s"]
    assert (line["version"], line["model"], line["answer"], line["error"]) == (1, "script", "Done.", None)
    assert [message["role"] for message in line["messages"]] == ["user", "assistant"]


def test_a_result_that_fills_the_context_is_told(tmp_path: Path) -> None:
    """The run goes on to its answer; stderr and the JSON line say what is no longer in the prompt."""
    (tmp_path / "long.py").write_text(
        'def pages(n: int) -> str:\n    """Many pages.\n\n    Args:\n        n: How many.\n    """\n'
        '    return " ".join(f"page{number}" for number in range(n))\n'
    )
    call = '<|channel|>commentary to=functions.pages <|constrain|>json<|message|>{"n": 900}<|call|>'
    run = ("run", "hi", "--engine", write_script(tmp_path, call, FINAL), "--tools", str(tmp_path / "long.py"), "--yes")
    done = ossia(*run, "--context", "1500", "--json")
    line = line_of(done)
    (trim,) = line["trimmed"]
    assert (line["answer"], line["exit"], trim["results"], trim["turns"], trim["summary"]) == ("Done.", 0, 1, 0, None)
    assert trim["tokens_before"] > 1500 > trim["tokens_after"]
    reason = f"ossia: {trim['reason']} ({trim['tokens_before']:,} → {trim['tokens_after']:,} tokens)"
    assert reason in done.stderr.decode().splitlines() and "cut to its head and its tail" in reason


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--model", "nowhere.gguf"), 3),
        (("--model", "gpt-oss-20b"), 3),
        (("--model", "."), 3),
        (("--model", "etude", "--context", "2"), 4),
        (("--workspace", "nowhere"), 2),
        (("--instructions", "@no-such-file"), 2),
        (("--effort", "huge"), 2),
        (("--engine", "script:no-such-file"), 2),
        (("--tools", "nowhere.py"), 2),
        (("--allow", "container.exec:ls; rm"), 2),
        (("--resume", "nobody"), 2),
        (("--raw",), 2),
    ],
)
def test_json_has_its_line_on_failures_too(arguments: tuple[str, ...], code: int) -> None:
    done = ossia_here("run", "hi", "--json", *arguments)
    line = line_of(done)
    assert (done.returncode, line["exit"], line["answer"]) == (code, code, None)
    assert line["end"] in ("error", "context") and line["error"] in done.stderr.decode()


@pytest.mark.parametrize("config", ["json = true", "json = true\neffort = 'huge'"])
def test_json_has_its_line_wherever_it_was_asked_for(config: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(config)
    flags = () if "huge" not in config else ("--json",)
    done = ossia("run", "hi", "--workspace", "nowhere", *flags, env={"OSSIA_CONFIG": str(tmp_path / "config.toml")})
    assert (done.returncode, line_of(done)["exit"]) == (2, 2)


def test_json_has_its_line_where_there_is_no_prompt() -> None:
    for stdin in (b"", b"\xff"):
        done = ossia("run", "--json", stdin=stdin)
        assert (done.returncode, line_of(done)["error"] in done.stderr.decode()) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--effort", "huge"),
        ("--temperature", "-1"),
        ("--top-p", "0"),
        ("--max-tokens", "0"),
        ("--context", "many"),
        ("--tools", "hammer"),
        ("--engine", "steam"),
        ("--instructions", "@no-such-file"),
        ("--no-such-flag",),
        ("--no-such-flag", "--json"),
        ("two", "prompts"),
    ],
)
def test_bad_usage_is_one_line(arguments: tuple[str, ...]) -> None:
    done = ossia_here("run", "hi", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1 and done.stderr.startswith(b"ossia: error:")


class TestStdin:
    def _seen(self, *arguments: str, stdin: bytes | int, tmp_path: Path) -> str:
        script = write_script(tmp_path, FINAL)
        line = line_of(ossia("run", *arguments, "--engine", script, "--json", stdin=stdin))
        text = line["messages"][0]["content"][0]["text"]
        assert isinstance(text, str)
        return text

    def test_a_pipe_comes_after_the_prompt(self, tmp_path: Path) -> None:
        assert self._seen("Sum up:", stdin="eins\nzwei ü\n".encode(), tmp_path=tmp_path) == "Sum up:\n\neins\nzwei ü"

    def test_a_pipe_alone(self, tmp_path: Path) -> None:
        assert self._seen(stdin=b"What?\n", tmp_path=tmp_path) == "What?"

    def test_ossia_alone_in_a_pipe_is_a_run(self, tmp_path: Path) -> None:
        done = ossia("--engine", write_script(tmp_path, FINAL), "--no-tools", stdin=b"What?\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"Done.\n", b"")
        nothing = ossia("--engine", write_script(tmp_path, FINAL))
        assert nothing.returncode == 2 and b"no question: ask one" in nothing.stderr

    def test_an_empty_pipe_adds_nothing(self, tmp_path: Path) -> None:
        assert self._seen("hi", stdin=b"", tmp_path=tmp_path) == "hi"

    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "in").write_text("from a file")
        with (tmp_path / "in").open() as file:
            assert self._seen("hi", stdin=file.fileno(), tmp_path=tmp_path) == "hi\n\nfrom a file"

    def test_a_socket(self, tmp_path: Path) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(b"from a socket")
            ours.shutdown(socket.SHUT_WR)
            assert self._seen("hi", stdin=theirs.fileno(), tmp_path=tmp_path) == "hi\n\nfrom a socket"

    def test_a_dash_is_standard_input(self, tmp_path: Path) -> None:
        assert self._seen("-", stdin=b"What?\n", tmp_path=tmp_path) == "What?"

    def test_far_too_much_is_refused_by_its_size(self, tmp_path: Path) -> None:
        """100 MB were read and counted: 19 s and 3.8 GB. The file is sparse: what would be read is no text."""
        with (tmp_path / "big.txt").open("w+b") as file:
            file.truncate(100_000_000)
            seen = [
                ossia("run", "Sum up", stdin=file.fileno()),
                ossia_here("run", "Sum up @big.txt", cwd=tmp_path),
                ossia_here("run", "hi", "--instructions", "@big.txt", cwd=tmp_path),
                ossia("run", "-", stdin=b"a" * 4_000_001),
            ]
        known, unknown = "has 100.0 MB, and at most 4.0 MB are", "has more than the 4.0 MB that are"
        rest = ", or let the model search the file: --workspace DIR"
        part, cut = (f"read: {way}{rest}" for way in ("send a part of it", "cut it with --truncate head|tail|middle"))
        assert [(done.returncode, done.stdout, done.stderr.decode()) for done in seen] == [
            (4, b"", f"ossia: error: {what} {has} {way}\n")
            for what, has, way in (
                ("standard input", known, cut), ("@big.txt", known, cut), ("--instructions @big.txt", known, part),
                ("standard input", unknown, cut),
            )
        ]  # fmt: skip

    @pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b", "ü".encode("latin-1")])
    def test_what_is_not_text(self, data: bytes) -> None:
        done = ossia("run", "hi", stdin=data)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.count(b"\n") == 1 and b"standard input" in done.stderr

    @pytest.mark.parametrize("stdin", [b"", b" \n", subprocess.DEVNULL])
    def test_nothing_to_ask(self, stdin: bytes | int) -> None:
        done = ossia("run", stdin=stdin)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"no question: ask one" in done.stderr

    def test_a_closed_stdin(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, FINAL)
        shell = f'exec "$0" run hi --engine {script} <&-'
        done = subprocess.run(["/bin/sh", "-c", shell, str(OSSIA)], capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, b"Done.\n")

    @pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs /proc")
    def test_a_file_that_says_it_is_empty(self, tmp_path: Path) -> None:
        with Path("/proc/version").open() as file:
            assert "Linux" in self._seen("hi", stdin=file.fileno(), tmp_path=tmp_path)

    def test_a_pipe_that_does_not_block(self, tmp_path: Path) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        process = start("run", "--engine", write_script(tmp_path, FINAL), "--json", stdin=reader)
        os.close(reader)
        assert process.stderr is not None
        assert b"reading standard input" in process.stderr.readline()
        os.write(writer, b"late")
        os.close(writer)
        out, _ = process.communicate(timeout=30)
        assert json.loads(out)["messages"][0]["content"][0]["text"] == "late"

    def test_waiting_is_said_after_a_second(self, tmp_path: Path) -> None:
        reader, writer = os.pipe()
        process = start("run", "hi", "--engine", write_script(tmp_path, FINAL), stdin=reader)
        os.close(reader)
        assert process.stderr is not None
        assert b"reading standard input" in process.stderr.readline()
        os.close(writer)
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, b"Done.\n")


def test_a_notice_when_outside_text_spells_a_control_token(tmp_path: Path) -> None:
    call = "<|channel|>analysis to=python code<|message|>print('<' + '|start|>')<|call|>"
    script = write_script(tmp_path, call, FINAL)
    done = ossia("run", "what does <|end|> do?", "--engine", script, "--instructions", "no <|call|>")
    assert done.returncode == 0
    lines = done.stderr.decode().splitlines()
    assert [line.split(":")[2].strip() for line in lines] == [
        "the prompt spells <|end|>",
        "--instructions spells <|call|>",
        "the result of python spells <|start|>",
    ]


def test_instructions_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "be.txt").write_text("Be brief.")
    script = write_script(tmp_path, FINAL)
    prompt_tokens = []
    for arguments in ((), ("--instructions", f"@{tmp_path / 'be.txt'}"), ("--instructions", "Be brief.")):
        line = line_of(ossia("run", "hi", "--engine", script, "--no-tools", "--json", *arguments))
        prompt_tokens.append(line["usage"]["prompt_tokens"])
    assert prompt_tokens[0] < prompt_tokens[1] == prompt_tokens[2]


def test_raw_is_the_stream_as_it_comes(tmp_path: Path) -> None:
    done = ossia("run", "hi", "--engine", write_script(tmp_path, CALL, FINAL), "--raw")
    assert done.stdout.decode() == (
        "<|start|>assistant" + CALL + "<|start|>python to=assistant<|channel|>analysis<|message|>42<|end|>"
        "<|start|>assistant" + FINAL + "\n"
    )


def test_thinking_goes_to_stderr(tmp_path: Path) -> None:
    """The thoughts, not the calls that are made on their channel."""
    script = write_script(tmp_path, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" + CALL, FINAL)
    done = ossia("run", "hi", "--engine", script, "--show-thinking", "--no-tools")
    assert (done.stdout, done.stderr) == (b"Done.\n", b"Hm.\n")


@pytest.mark.parametrize(
    ("thought", "flags"),
    [
        ("<|channel|>analysis<|message|>It says commands are sent to=python", ("--tools", "python")),
        ("First set to=a.b in the file, then save.", ("--no-tools",)),
    ],
)
def test_a_thought_that_names_a_recipient_makes_no_call(thought: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    answer = f'{thought}<|channel|>final<|message|>open("{tmp_path}/ran", "w")<|return|>'
    line = line_of(ossia("run", "hi", "--engine", write_script(tmp_path, answer, FINAL), "--json", *flags))
    assert line["answer"] == f'open("{tmp_path}/ran", "w")' and line["calls"] == []
    assert not (tmp_path / "ran").exists()


def test_verbose_says_more_and_quiet_says_nothing(tmp_path: Path) -> None:
    loud = ossia("run", "Hello!", "--verbose", "--temperature", "0")
    assert b"context 4,096 tokens" in loud.stderr and b"layers on the GPU" in loud.stderr and b"reused" in loud.stderr
    assert b"\nmemory 71.9 MB, weights not repacked: weights 5.0 MB, KV cache 5.0 MB, the rest 61.9 MB\n" in loud.stderr
    assert ossia("run", "Hello!", "--quiet", "--temperature", "0").stderr == b""


@pytest.mark.parametrize("flag", ["", "--raw", "--json", "--show-thinking"])
def test_closed_outputs(flag: str, tmp_path: Path) -> None:
    """Nothing that belongs to the one goes to the other, and nothing breaks."""
    think = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    script = write_script(tmp_path, think + FINAL)
    for closed in ("2>&-", ">&-", *(() if flag else (">&- 2>&-",))):
        command = f'exec "$0" run "what is <|end|>?" --engine {script} {flag} {closed}'
        done = subprocess.run(
            ["/bin/sh", "-c", command, str(OSSIA)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        assert b"warning" not in done.stdout and b"Done" not in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_turn(tmp_path: Path) -> None:
    """The rest of it, longer than the queue of events, isn't waited for."""
    script = write_script(tmp_path, "<|channel|>analysis<|message|>" + counted("word ", 5_000))
    with Path("/dev/full").open("wb") as full:
        command = [str(OSSIA), "run", "hi", "--engine", script, "--show-thinking", "--no-tools"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=full, timeout=60, check=False
        )
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.skipif(os.name != "posix", reason="a home below /dev/null, XDG folders")
def test_a_home_that_can_not_be_written(tmp_path: Path) -> None:
    """No log and no python then; one line says so, and the question is answered."""
    nowhere = {"HOME": "/dev/null", "XDG_DATA_HOME": "/dev/null/data", "XDG_STATE_HOME": "/dev/null/state"}
    done = ossia("run", "Hello!", "--model", "etude", "--temperature", "0", env=nowhere)
    assert (done.returncode, done.stdout) == (0, b"Hello! How can I help you?\n")
    assert done.stderr.startswith(b"ossia: warning: python is off: ")
    assert b"/dev/null" in done.stderr and done.stderr.count(b"\n") == 1


def test_a_python_of_ours_that_does_not_start(tmp_path: Path) -> None:
    """Then the model has no python; it isn't our own error."""
    script, gone = write_script(tmp_path, "<|channel|>final<|message|>Hi.<|return|>"), str(tmp_path / "gone")
    code = "import sys; sys.executable = sys.argv.pop(1); from ossia.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", code, gone, "run", "hi", "--engine", script]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False, text=True)
    assert (done.returncode, done.stdout) == (0, "Hi.\n")
    assert done.stderr.startswith(f"ossia: warning: python is off: {gone} isn't there any more")
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe(tmp_path: Path) -> None:
    script = write_script(tmp_path, "<|channel|>final<|message|>" + counted("word ", 10_000))
    process = start("run", "hi", "--engine", script, "--raw")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def _children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def _interrupt(process: subprocess.Popen[bytes]) -> tuple[float, bytes, bytes]:
    children = _children(process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    seconds = time.monotonic() - began
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive
    return seconds, out, err


class TestInterrupt:
    """Ctrl-C at a moment each: exit 130, no child left, no traceback. How long it took is printed, not judged."""

    def test_while_generating(self, tmp_path: Path) -> None:
        script = write_script(tmp_path, "<|channel|>analysis<|message|>" + counted("word ", 450), tokens_per_s=50)
        process = start("run", "hi", "--engine", script, "--show-thinking")
        assert process.stderr is not None
        assert process.stderr.read(4) == b"word"
        seconds, out, err = _interrupt(process)
        assert (process.returncode, out) == (130, b"")
        assert b"Traceback" not in err
        assert seconds < 10

    def test_in_the_answer_keeps_what_there_is(self, tmp_path: Path) -> None:
        think = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
        script = write_script(tmp_path, think + "<|channel|>final<|message|>" + counted("word ", 450), tokens_per_s=100)
        process = start("run", "hi", "--engine", script, "--show-thinking", "--json")
        assert process.stderr is not None
        process.stderr.read(3)
        time.sleep(0.5)
        _, out, _ = _interrupt(process)
        assert process.returncode == 130
        assert b'"end": "stopped"' in out and b'"exit": 130' in out and b"word" in out

    def test_while_a_server_says_nothing(self) -> None:
        with Site() as mute:
            mute.silent("/props")
            process = start("run", "hi", "--engine", mute.url(), "--json")
            wait_until(lambda: mute.requests, seconds=90)
            _, out, _ = _interrupt(process)
        line = json.loads(out)
        assert (process.returncode, line["end"], line["error"], line["exit"]) == (130, "stopped", "interrupted", 130)

    def test_while_python_runs(self, tmp_path: Path) -> None:
        code = "import time, os; print(os.getpid(), flush=True); time.sleep(100)"
        script = write_script(tmp_path, f"<|channel|>analysis to=python code<|message|>{code}<|call|>", FINAL)
        process = start("run", "hi", "--engine", script)
        wait_until(lambda: len(_children(process)) > 1, seconds=90)
        time.sleep(1.0)
        seconds, out, err = _interrupt(process)
        assert (process.returncode, out) == (130, b"")
        assert b"Traceback" not in err
        assert seconds < 10

    @pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
    @pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
    def test_other_signals_end_as_ctrl_c_does(self, name: str, tmp_path: Path) -> None:
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        call = "<|channel|>analysis to=python code<|message|>import time; time.sleep(100)<|call|>"
        script = write_script(tmp_path, call, FINAL)
        process = start("run", "hi", "--engine", script, env={"TMPDIR": str(temporary)})
        wait_until(lambda: len(_children(process)) > 1, seconds=90)
        process.send_signal(getattr(signal, name))
        _, err = process.communicate(timeout=30)
        assert (process.returncode, b"Traceback" in err, list(temporary.iterdir())) == (130, False, [])

    @pytest.mark.parametrize("after_s", [0.02, 0.06, 0.12, 0.25, 0.4, 0.6, 0.9])
    def test_at_any_moment(self, after_s: float) -> None:
        """From the first import through loading to the turn, of whose answer a part may be there; or it was over."""
        process = start("run", "What is 48*17?", "--temperature", "0", started=True)
        time.sleep(after_s)
        _, out, err = _interrupt(process) if process.poll() is None else (0.0, *process.communicate())
        # Python itself was still starting, and says so with a 1, or goes on
        pythons_own = (
            b"Fatal Python error: init_" in err
            or b"python: failed to set __main__" in err
            or err == b"KeyboardInterrupt\n"  # no frame at all: before the first line of any file
        )
        allowed = (130, 0, -signal.SIGINT)  # -SIGINT: it had not taken the signal over
        assert pythons_own or process.returncode in allowed, (process.returncode, err)
        assert not re.search(rb'cli/\w+\.py", line \d+, in (?!<module>)', err)  # a traceback with a frame of ours
        assert out == b"" or (out.endswith(b"\n") and b"The result is 816.".startswith(out[:-1]))
