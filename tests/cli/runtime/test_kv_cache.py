"""A stored session's KV cache: going on with it reads nothing again, and it goes where the session goes."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from ossia.cli import paths
from tests.support.command import line_of, ossia, ossia_text, start


def _kept(pattern: str = "*") -> list[Path]:
    """Of sessions, and of what prompts begin with: `prompt-*`."""
    return sorted((paths.cache_dir() / "kv").glob(pattern))


def _sessions() -> list[Path]:
    return [folder for folder in _kept() if not folder.name.startswith("prompt-")]


def test_a_run_that_goes_on_reads_only_what_is_new() -> None:
    ossia("run", "--save", "--seed", "1", "--no-tools", "Hello!")
    (folder,) = _sessions()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    usage = line_of(ossia("run", "--continue", "--seed", "1", "--no-tools", "--json", "Who are you?"))["usage"]
    assert usage["reused_tokens"] > 0.7 * usage["prompt_tokens"]
    folder.with_name(f"{folder.name}.x7y.new").mkdir()  # as a crash would leave it
    assert ossia("sessions", "rm", folder.name).returncode == 0
    assert _sessions() == []


def test_a_run_that_is_not_stored_keeps_nothing_of_what_was_said() -> None:
    ossia("run", "--seed", "1", "--no-tools", "Hello")
    assert _sessions() == []


def test_a_second_run_with_another_question_reads_only_its_own_part() -> None:
    run = ("run", "--temperature", "0", "--json")
    first = line_of(ossia(*run, "Hello"))["usage"]
    assert first["reused_tokens"] == 0
    lengths = sorted(int(folder.name.split("-")[1]) for folder in _kept("prompt-*"))
    expected = line_of(ossia(*run, "--private", "Who are you?", env={"XDG_CACHE_HOME": "/nonexistent"}))
    second = line_of(ossia(*run, "Who are you?"))
    assert second["usage"]["reused_tokens"] == lengths[-1] > 0.9 * second["usage"]["prompt_tokens"]
    assert second["answer"] == expected["answer"]
    other = line_of(ossia(*run, "--instructions", "Be kind.", "Who are you?"))["usage"]
    assert other["reused_tokens"] == lengths[0]
    assert expected["usage"]["reused_tokens"] == 0


def test_what_prompts_begin_with_is_read_beforehand(tmp_path: Path) -> None:
    """Then a run reads only its own question, in the workspace and without one."""
    work = ("--workspace", str(tmp_path))
    first = ossia_text("cache", "warm", *work)
    assert first.returncode == 0 and first.stdout == "", first
    told = re.findall(r"^ossia: run(.*): ([0-9,]+) of \2 tokens read in .* s, and stored$", first.stderr, re.MULTILINE)
    assert [where for where, _ in told] == ["", f" in {tmp_path}"]
    assert first.stderr.count("using étude") == 1
    for flags, (_, tokens) in zip(((), work), told, strict=True):
        usage = line_of(ossia("run", "--json", "--max-tokens", "1", *flags, "Hello"))["usage"]
        assert usage["reused_tokens"] == int(tokens.replace(",", "")) >= usage["prompt_tokens"] - 12
    again = ossia_text("cache", "warm")
    assert f"ossia: run: all {told[0][1]} tokens were stored already" in again.stderr


def test_what_can_not_be_kept_is_told() -> None:
    private = ossia("cache", "warm", "--private")
    assert (private.returncode, private.stderr.count(b"--private forbids storing a cache")) == (2, 1)
    (paths.cache_dir() / "kv").parent.mkdir(parents=True, exist_ok=True)
    (paths.cache_dir() / "kv").write_text("no folder")
    full = ossia_text("cache", "warm")
    assert full.returncode == 1 and "tokens can't be stored in" in full.stderr


def test_a_private_run_reads_what_is_there_and_leaves_nothing() -> None:
    """Its instructions are in no file."""
    ossia("run", "--no-tools", "Hello")
    before = {
        file: (file.read_bytes(), file.stat().st_mtime_ns) for file in paths.cache_dir().rglob("*") if file.is_file()
    }
    marked = ("--instructions", "Speak of llamas only.")
    done = ossia("run", "--json", "--no-tools", "--private", *marked, "Hello")
    assert line_of(done)["usage"]["reused_tokens"] > 0  # the system message's part
    after = {
        file: (file.read_bytes(), file.stat().st_mtime_ns) for file in paths.cache_dir().rglob("*") if file.is_file()
    }
    assert after == before


def test_private_and_save_is_one_too_many() -> None:
    done = ossia("run", "--private", "--save", "Hello")
    assert done.returncode == 2 and b"use --save or --private, not both" in done.stderr


def test_two_runs_at_once_leave_what_one_would() -> None:
    runs = [start("run", "--no-tools", "--json", question) for question in ("Hello", "Who are you?")]
    assert [run.wait(60) for run in runs] == [0, 0]
    for run in runs:
        run.communicate()
    assert len(_kept()) == 1  # no tools, no instructions: the system message is all
    usage = line_of(ossia("run", "--no-tools", "--json", "Hello"))["usage"]
    assert usage["reused_tokens"] == int(_kept()[0].name.split("-")[1])


def test_the_cache_is_shown_and_emptied() -> None:
    assert ossia("cache").stdout == b""
    ossia("run", "--no-tools", "--save", "--instructions", "Be kind.", "Hello")
    shown = ossia("cache", "show").stdout.decode().splitlines()
    assert sorted(line.split()[0] for line in shown) == ["KIND", "prompt", "prompt", "session"]
    kept = line_of(ossia("cache", "show", "--json"))["kept"]
    assert {(one["kind"], one["personal"], one["model"]) for one in kept} == {
        ("session", True, "etude"),
        ("prompt", True, "etude"),
        ("prompt", False, "etude"),
    }
    assert all(one["bytes"] > 1000 and one["tokens"] > 20 for one in kept)
    _kept()[0].with_name("prompt-5-x.y1.new").mkdir(mode=0o700)  # as a crash would leave it
    assert b"removed 3 stored caches, " in ossia("cache", "rm").stdout
    assert _kept() == []
    assert ossia("run", "--continue", "Who are you?").returncode == 0


def test_what_is_no_cache_of_ours_is_left_alone(tmp_path: Path) -> None:
    documents, folder = tmp_path / "documents", paths.cache_dir() / "kv"
    (documents / "letters").mkdir(parents=True, mode=0o700)
    (documents / "letters/a.txt").write_text("mine")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(documents)
    assert ossia("cache", "rm").stdout == b"no cache was stored\n"
    assert (documents / "letters/a.txt").exists()
    folder.unlink()
    for name in ("notes", "torn"):
        (folder / name).mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    (folder / "notes/a.txt").write_text("mine")
    os.mkfifo(folder / "torn/marks")
    assert [line["tokens"] for line in line_of(ossia("cache", "show", "--json"))["kept"]] == [None]
    assert ossia("cache", "rm").stdout.startswith(b"removed 1 stored cache, ")
    assert (folder / "notes/a.txt").exists() and not (folder / "torn").exists()
