"""`ossia run "… @file"`: what the prompt mentions is attached as in the chat."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.command import OSSIA, line_of, ossia_here, write_script

FINAL = "<|channel|>final<|message|>Done.<|return|>"


def _sent(done: subprocess.CompletedProcess[bytes]) -> str:
    text = line_of(done)["messages"][0]["content"][0]["text"]
    assert isinstance(text, str) and done.returncode == 0
    return text


def test_what_the_prompt_mentions_goes_along(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("walrus\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\n")
    flags = ("--engine", write_script(tmp_path, FINAL), "--no-tools", "--json")
    done = ossia_here("run", "Read @notes.md, and @src/", *flags, cwd=tmp_path)
    file, folder = "Attached file notes.md (7 bytes):\n```\nwalrus\n```", "Attached folder src/ (1 file, "
    assert _sent(done).startswith(f"Read @notes.md, and @src/\n\n{file}\n\n{folder}")
    assert done.stderr == b""


def test_what_is_not_attached_is_told_or_is_a_word(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "elsewhere" / "key").write_text("secret")
    (work / "README.md").symlink_to(tmp_path / "elsewhere" / "key")
    prompt = "Why @cache, me@example.org, `@a.md`, @gone.md and @README.md?"
    flags = ("--engine", write_script(tmp_path, FINAL), "--no-tools", "--json")
    done = ossia_here("run", prompt, *flags, cwd=work)
    assert _sent(done) == prompt
    gone, leads = done.stderr.decode().splitlines()
    assert gone == "ossia: warning: @gone.md: not attached: there is no such file"
    assert leads.startswith("ossia: warning: @README.md: not attached: it leads to ")


def test_a_file_that_is_cut_is_told_wherever_stderr_goes(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a line of it\n" * 50_000)
    flags = ("--engine", write_script(tmp_path, FINAL), "--no-tools", "--json")
    done = ossia_here("run", "Sum up @log.txt", *flags, cwd=tmp_path)
    told = done.stderr.decode()
    assert told.startswith("ossia: warning: @log.txt · ") and "of 650 kB, cut in the middle\n" in told


def test_what_is_piped_in_mentions_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("walrus\n")
    command = [OSSIA, "run", "Sum up", "--engine", write_script(tmp_path, FINAL), "--no-tools", "--json"]
    done = subprocess.run(command, input=b"@notes.md @gone.md", capture_output=True, cwd=tmp_path, check=False)
    assert _sent(done) == "Sum up\n\n@notes.md @gone.md" and done.stderr == b""
