"""`ossia run -x`, `-o` and `--no-stream`: the part of an answer, in the place where it is wanted."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.command import OSSIA, line_of, ossia, ossia_here, start, write_script
from tests.support.documents import counted
from tests.support.pty import PtyChat
from tests.support.work_calls import runs

ANSWER = "Here:\n\n```python\nprint(1)\n```\n\nor\n\n```sh\nls\x1b[2J\n```\n\nBye.\n"
FINAL = f"<|channel|>final<|message|>{ANSWER}<|return|>"


@pytest.mark.parametrize(
    ("flags", "code", "out", "error"),
    [
        ("-x", 0, "ls\x1b[2J\n", ""),
        ("--extract", 0, "ls\x1b[2J\n", ""),
        ("--xl py", 0, "print(1)\n", ""),
        ("--xl bash -x", 0, "ls\x1b[2J\n", ""),
        ("--xa", 0, "print(1)\n\nls\x1b[2J\n", ""),
        ("--extract-all --xl PYTHON", 0, "print(1)\n", ""),
        ("--xl sql", 10, "", "error: the answer has no code block in sql, so nothing is printed: it has python, sh"),
        (
            "-x --max-tokens 12", 6, "",
            "the answer is cut: --max-tokens was reached; nothing is printed, since the code may be cut, too",
        ),
        (
            "-q --xa --max-tokens 12", 6, "",
            "the answer is cut: --max-tokens was reached; nothing is printed, since the code may be cut, too",
        ),
        ("-x --schema a", 2, "", "error: use -x or --schema, not both"),
        ("--xa --schema-multi a", 2, "", "error: use -x or --schema-multi, not both"),
        ("--xl py --raw", 2, "", "error: use -x or --raw, not both"),
        ("-o out.md --raw", 2, "", "error: use -o or --raw, not both"),
    ],
)  # fmt: skip
def test_code_alone(flags: str, code: int, out: str, error: str, tmp_path: Path) -> None:
    done = ossia_here("run", "hi", "--engine", write_script(tmp_path, FINAL), *flags.split())
    assert (done.returncode, done.stdout.decode()) == (code, out)
    assert done.stderr.decode() == (f"ossia: {error}\n" if error else "")


def test_an_answer_without_code(tmp_path: Path) -> None:
    script = write_script(tmp_path, "<|channel|>final<|message|>Done.<|return|>")
    done = ossia_here("run", "hi", "--engine", script, "-x")
    assert (done.returncode, done.stdout) == (10, b"")
    assert done.stderr == b"ossia: error: the answer has no code block, so nothing is printed\n"
    line = line_of(ossia_here("run", "hi", "--engine", script, "-x", "--json"))
    assert (line["answer"], line["extracted"], line["exit"]) == ("Done.", None, 10)
    assert line["error"] == "the answer has no code block"


def test_the_line_of_json_stays_whole(tmp_path: Path) -> None:
    line = line_of(ossia_here("run", "hi", "--engine", write_script(tmp_path, FINAL), "--xl", "python", "--json"))
    assert (line["answer"], line["extracted"]) == (ANSWER, "print(1)\n")
    result = ossia_here("run", "hi", "--engine", write_script(tmp_path, FINAL), "-x", "--jsonl")
    last = json.loads(result.stdout)
    assert (last["type"], last["exit"], last["error"]) == ("result", 2, "use -x or --jsonl, not both")


def test_a_sessions_schema_leaves_no_code(tmp_path: Path) -> None:
    home = {"XDG_DATA_HOME": str(tmp_path)}
    script = write_script(tmp_path, '<|channel|>final<|message|>{"a": "b"}<|return|>')
    ossia("run", "hi", "--save", "--schema", "a", "--engine", script, env=home)
    done = ossia("run", "hi", "--continue", "-x", "--engine", script, env=home)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.endswith(b"-x needs --schema off\n")


def test_a_question_may_come_after_the_flag(tmp_path: Path) -> None:
    done = ossia_here("--engine", write_script(tmp_path, FINAL), "-x", "hi")
    assert (done.returncode, done.stdout) == (0, b"ls\x1b[2J\n")


def _names() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


class TestFile:
    """`-o FILE`: whole or not at all."""

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        self.script = write_script(tmp_path, FINAL)

    def _run(self, *flags: str) -> subprocess.CompletedProcess[bytes]:
        return ossia("run", "hi", "--engine", self.script, *flags)

    def test_a_new_one_is_by_the_umask_and_an_old_one_keeps_its_mode(self) -> None:
        old = Path("old.md")
        old.write_text("old")
        old.chmod(0o640)
        before = os.umask(0o022)
        try:
            for name in ("new.md", "old.md"):
                done = self._run("-o", name)
                assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
                assert Path(name).read_bytes().decode() == ANSWER
        finally:
            os.umask(before)
        assert [stat.S_IMODE(Path(name).stat().st_mode) for name in ("new.md", "old.md")] == [0o644, 0o640]
        assert _names() == ["new.md", "old.md"]

    def test_the_code_or_the_line_of_json(self) -> None:
        assert self._run("-x", "-o", "a").stdout == self._run("--json", "--output", "b").stdout == b""
        assert Path("a").read_bytes() == b"ls\x1b[2J\n"
        assert json.loads(Path("b").read_bytes())["answer"] == ANSWER

    @pytest.mark.parametrize(
        ("flags", "code"), [("--xl sql", 10), ("--max-tokens 5", 6), ("--schema a", 10), ("--json --xl sql", 10)]
    )
    def test_an_older_file_stays_when_it_failed(self, flags: str, code: int) -> None:
        Path("old.md").write_text("old")
        done = self._run("-o", "old.md", *flags.split())
        assert (done.returncode, done.stdout, Path("old.md").read_text()) == (code, b"", "old")
        assert _names() == ["old.md"] and done.stderr.count(b"\n") == 1
        if code == 6:
            assert done.stderr.endswith(b"; old.md isn't written\n")

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            ("folder", "is a folder; name a file in it"),
            ("none/", "is a folder; name a file in it"),
            ("", "is a folder; name a file in it"),
            ("none/out.md", "its folder doesn't exist: make it first"),
            ("file/out.md", "can't be written: Not a directory"),
            ("x" * 300, "can't be written: File name too long"),
        ],
    )
    def test_a_place_that_cannot_be_used_is_refused_before_anything_runs(self, name: str, error: str) -> None:
        Path("folder").mkdir()
        Path("file").touch()
        done = ossia_here("run", "hi", "--engine", "script:none.json", "-o", name)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
        assert done.stderr.startswith(b"ossia: error: -o ") and done.stderr.decode().endswith(f": {error}\n")
        assert _names() == ["file", "folder"]

    def test_a_link_is_followed_if_it_was_there_before(self) -> None:
        Path("real.md").write_text("old")
        Path("link.md").symlink_to("real.md")
        Path("dangling.md").symlink_to("new.md")
        assert self._run("-o", "link.md").returncode == self._run("-o", "dangling.md").returncode == 0
        assert Path("link.md").is_symlink() and Path("real.md").read_text() == ANSWER
        assert Path("dangling.md").is_symlink() and Path("new.md").read_text() == ANSWER

    def test_what_a_command_puts_there_is_replaced_and_never_followed(self, tmp_path: Path) -> None:
        """Neither a link of that name, nor one in place of its folder."""
        Path("sub").mkdir()
        (tmp_path / "victim").mkdir()
        (tmp_path / "victim" / "out.md").write_text("old")
        call = runs(f"ln -s {tmp_path}/victim/out.md sub/out.md; mv sub moved; ln -s {tmp_path}/victim sub")
        script = write_script(tmp_path, call, FINAL)
        done = ossia(
            "run", "hi", "--engine", script, "--workspace", ".", "--allow", "container.exec", "--unconfined",
            "-o", "sub/out.md",
        )  # fmt: skip
        assert done.returncode == 0 and Path("sub").is_symlink(), done.stderr
        assert (tmp_path / "victim" / "out.md").read_text() == "old"
        assert not Path("moved/out.md").is_symlink() and Path("moved/out.md").read_text() == ANSWER

    @pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
    def test_stdout_by_its_names(self, name: str) -> None:
        done = self._run("-o", name)
        assert (done.returncode, done.stdout.decode()) == (0, ANSWER)

    def test_a_device_and_a_pipe(self) -> None:
        assert self._run("-o", "/dev/null").returncode == 0 and Path("/dev/null").is_char_device()
        os.mkfifo("pipe")
        read: list[str] = []
        reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()))
        reader.start()
        assert self._run("-o", "pipe").returncode == 0
        reader.join()
        assert read == [ANSWER] and Path("pipe").is_fifo()

    def test_a_disk_that_is_full_at_the_end(self, tmp_path: Path) -> None:
        Path("old.md").write_text("old")
        script = write_script(tmp_path, f"<|channel|>final<|message|>{counted('word ', 2000)}<|return|>")
        done = subprocess.run(
            [OSSIA, "run", "hi", "--engine", script, "-o", "old.md", "--private"],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # Python would leave half of a module's bytecode
            capture_output=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        )
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr == b"ossia: error: -o old.md: can't be written: File too large\n"
        assert Path("old.md").read_text() == "old" and _names() == ["old.md"]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_an_interrupt_leaves_nothing(self, number: signal.Signals, tmp_path: Path) -> None:
        script = write_script(tmp_path, runs("touch started; sleep 30"), FINAL)
        Path("out.md").write_text("old")
        process = start("run", "hi", "--engine", script, "--workspace", ".", "--yes", "-o", "out.md", "--quiet")
        while not Path("started").exists() and process.poll() is None:
            pass
        process.send_signal(number)
        out, error = process.communicate()
        assert (process.returncode, out) == (130, b""), error
        assert Path("out.md").read_text() == "old" and _names() == ["out.md", "started"]

    def test_a_terminal_is_shown_where_it_was_written(self) -> None:
        with PtyChat("run", "hi", "--engine", self.script, "-o", "out.md") as shown:
            assert shown.wait() == 0
            assert "written: out.md" in shown.text and "print(1)" not in shown.text
        with PtyChat("run", "hi", "--engine", self.script, "-o", "out.md", "--quiet") as shown:
            assert shown.wait() == 0 and "written" not in shown.text
        with PtyChat("run", "hi", "--engine", self.script, "-o", "/dev/tty", "--quiet") as shown:
            assert shown.wait() == 0 and b"print(1)" in shown.sent and b"\x1b[2J" not in shown.sent


def test_code_on_a_terminal_is_cleaned(tmp_path: Path) -> None:
    with PtyChat("run", "hi", "--engine", write_script(tmp_path, FINAL), "--xa", "--quiet") as shown:
        assert shown.wait() == 0
        assert shown.rows == ["print(1)", "", "ls␛[2J"] and b"\x1b[2J" not in shown.sent


def test_on_a_terminal_the_answer_waits_for_its_end(tmp_path: Path) -> None:
    """With `--no-stream` its Markdown is drawn once; streamed, its last block is drawn again and again."""
    final = "<|channel|>final<|message|># Title\n\nSome **bold** words, and more of them.<|return|>"
    script = write_script(tmp_path, final, tokens_per_s=40)
    screens: dict[str, list[str]] = {}
    for flag in ("--no-stream", "--show-thinking"):
        with PtyChat("run", "hi", "--engine", script, "--quiet", flag) as shown:
            assert shown.wait() == 0
            screens[flag] = shown.rows
            assert (shown.sent.count(b"Some") == 1) == (flag == "--no-stream")
    assert screens["--no-stream"] == screens["--show-thinking"]
    piped = [ossia_here("run", "hi", "--engine", script, *flags) for flags in ((), ("--no-stream",))]
    assert piped[0].stdout == piped[1].stdout
