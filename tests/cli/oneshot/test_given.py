"""`ossia run -f FILE|DIR|URL|-`, and what `--truncate` leaves out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.command import line_of, ossia, ossia_here, write_script
from tests.support.site import Site

FINAL = "<|channel|>final<|message|>Done.<|return|>"
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("walrus\n")
    return folder


def flags(folder: Path, *more: str) -> tuple[str, ...]:
    return ("--engine", write_script(folder.parent, FINAL), "--no-tools", "--json", *more)


def sent(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 0, done
    text = line_of(done)["messages"][0]["content"][0]["text"]
    assert isinstance(text, str)
    return text


WALRUS = "Attached file a.txt (7 bytes):\n```\nwalrus\n```"


def test_what_is_named_stands_in_order_between_the_question_and_its_mentions(work: Path) -> None:
    (work / "src").mkdir()
    (work / "src" / "b.py").write_text("x = 1\n")
    done = ossia("run", "Why @a.txt?", "-f", "src", "--file", "./a.txt", *flags(work), stdin=b"piped\n", cwd=work)
    folder = (
        "Attached folder src (1 file, 43 bytes):\n```\nb.py (6 bytes)\n```\n\n"
        "Attached file b.py (6 bytes):\n```\nx = 1\n```"
    )
    named = WALRUS.replace("a.txt", "./a.txt")
    assert sent(done) == "\n\n".join(["Why @a.txt?", "piped", folder, named, WALRUS])
    assert done.stderr == b""


def test_standard_input_is_a_block_and_not_added_again(work: Path) -> None:
    done = ossia("-f", "a.txt", "-f", "-", "Why?", *flags(work), stdin=b"```\n@a.txt <|start|>\n", cwd=work)
    assert sent(done) == f"Why?\n\n{WALRUS}\n\nAttached standard input (21 bytes):\n````\n```\n@a.txt <|start|>\n````"
    question = ossia("run", "-f", "a.txt", *flags(work), stdin=b"Why?\n", cwd=work)
    assert sent(question) == f"Why?\n\n{WALRUS}"


@posix
def test_a_pipe_is_read_whole(work: Path) -> None:
    os.mkfifo(work / "pipe")
    writer = threading.Thread(target=(work / "pipe").write_text, args=("of a command\n",))
    writer.start()
    done = ossia_here("run", "Why?", "-f", "pipe", *flags(work), cwd=work)
    writer.join()
    assert sent(done) == "Why?\n\nAttached file pipe (13 bytes):\n```\nof a command\n```"


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["gone.md"], "-f gone.md: it can't be read (No such file or directory)"),
        ([""], "-f: the name is empty"),
        (["x" * 300], f"-f {'x' * 59}…: it can't be read (File name too long)"),
        (["picture.png"], "-f picture.png: it is a PNG picture, 0.0 kB"),
        (["late.bin"], "-f late.bin: it is a binary file, 3000.0 kB"),
        (["wide.txt"], "-f wide.txt: it is a binary file, 0.0 kB"),
        (["-"], "-f -: there is no standard input to read (a terminal, closed, or /dev/null)"),
        (["-", "/dev/stdin"], "-f -: standard input can be attached once"),
        (["a.txt", "new\nline\x1b[2J"], "-f new␊line␛[2J: it can't be read (No such file or directory)"),
    ],
)  # fmt: skip
@posix
def test_what_cannot_be_read_is_one_line_before_anything_is_loaded(work: Path, names: list[str], line: str) -> None:
    (work / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (work / "late.bin").write_bytes(b"text\n" * 599_999 + b"tex\0\n")
    (work / "wide.txt").write_bytes("grün".encode("utf-16")[:-1])
    named = [word for name in names for word in ("-f", name)]
    done = ossia_here("run", "Why?", *named, "--engine", "script:nowhere.json", "--json", cwd=work)
    line += ", not text (`ossia docs add` takes PDFs)" * line.endswith("kB")
    assert (done.returncode, done.stderr.decode()) == (2, f"ossia: error: {line}\n")
    assert (line_of(done)["error"], line_of(done)["exit"]) == (line, 2)


@posix
def test_a_link_elsewhere_is_refused_and_a_file_named_itself_is_read(work: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "id_rsa").write_text("KEY\n")
    (work / ".env").write_text("T=1\n")
    for link, target in (("docs", out), ("notes.md", out / "id_rsa"), ("plain", Path("a.txt")), ("env", Path(".env"))):
        (work / link).symlink_to(target)
    seen = {}
    for name in ("docs", "docs/id_rsa", "notes.md", "env", "/dev/zero", str(out / "id_rsa"), ".env", "plain"):
        done = ossia_here("run", "Why?", "-f", name, *flags(work), cwd=work)
        seen[name] = done.returncode, done.stderr.decode().removeprefix("ossia: error: ").strip()
    itself = "name that file itself"
    assert seen == {
        "docs": (2, f"-f docs: it leads to {out}, out of {work}: {itself}"),
        "docs/id_rsa": (2, f"-f docs/id_rsa: it leads to {out}/id_rsa, and that often holds secrets: {itself}"),
        "notes.md": (2, f"-f notes.md: it leads to {out}/id_rsa, and that often holds secrets: {itself}"),
        "env": (2, f"-f env: it leads to {work}/.env, and that often holds secrets: {itself}"),
        "/dev/zero": (2, "-f /dev/zero: it isn't a regular file (a pipe, a device)"),
        str(out / "id_rsa"): (0, ""),
        ".env": (0, ""),
        "plain": (0, ""),
    }


def test_a_name_begins_with_a_hyphen_and_an_encoding_is_said(work: Path) -> None:
    (work / "-x").write_bytes("grün\r\nrot\r\n".encode("utf-16"))
    (work / "old.txt").write_bytes("grün\n".encode("latin-1"))
    done = ossia_here("run", "Why?", "-f", "-x", "-f", "old.txt", *flags(work), cwd=work)
    warning = "old.txt · 6 bytes, not UTF-8: read as windows-1252, by guess"
    assert done.stderr.decode() == f"ossia: warning: {warning}\n"
    text = sent(done)
    assert "Attached file -x (10 bytes):\n```\ngrün\nrot\n```" in text
    assert "old.txt (6 bytes, not UTF-8: read as windows-1252, by guess):\n```\ngrün\n```" in text


def test_nothing_asked_and_stdin_for_two_things(work: Path) -> None:
    seen = [
        ossia("run", "-f", "a.txt", stdin=b" \n", cwd=work),
        ossia("run", "-f", "-", stdin=b"text", cwd=work),
        ossia("run", "-", "-f", "-", stdin=b"text", cwd=work),
        ossia("run", "Why?", "-f", "-", "--jsonl", "--control", "stdin", stdin=b"", cwd=work),
        ossia("run", "Why?", "--truncate", "end", cwd=work),
    ]
    nothing = 'no question: ask one, as in: ossia run -f notes.md "Sum this up."'
    assert [(done.returncode, done.stderr.decode()) for done in seen] == [
        (2, f"ossia: error: {line}\n")
        for line in (
            nothing, nothing,
            "standard input can be the question or an attachment: use one of - and -f -",
            "--control stdin and -f - both read stdin: attach a file instead",
            "--truncate end: expected head, tail or middle, the part to leave out",
        )
    ]  # fmt: skip


def test_a_page_is_loaded_first_and_a_failure_ends_the_run(work: Path) -> None:
    with Site() as site:
        site.page("/walrus", "<title>Tusks</title><p>It eats clams.")
        allowed = ("--allow-host", f"127.0.0.1:{site.port}")
        url, gone = site.url("/walrus"), site.url("/gone")
        read = ossia_here("run", "Why?", "-f", url, *flags(work, *allowed), cwd=work)
        failed = ossia_here("run", "Why?", "-f", gone, "--engine", "script:nowhere.json", *allowed, cwd=work)
        closed = ossia_here("run", "Why?", "-f", url, *flags(work), cwd=work)
    assert sent(read) == f'Why?\n\nAttached web page {url} "Tusks" (14 bytes):\n```\nIt eats clams.\n```'
    assert failed.returncode == 7 and failed.stderr.startswith(f"ossia: error: -f {gone}: ".encode())
    assert b"404" in failed.stderr and failed.stderr.count(b"\n") == 1
    assert closed.returncode == line_of(closed)["exit"] == 7 and b"isn't on the public internet" in closed.stderr


# -- what does not fit -------------------------------------------------------------------------------------------------

LINES = "".join(f"line {number}\n" for number in range(500_000))  # 5.9 MB


@pytest.mark.parametrize(
    ("cut", "said", "first", "last"),
    [
        ("head", "cut at the beginning", "[…", "line 499999"),
        ("tail", "cut at the end", "line 0", "…]"),
        ("middle", "cut in the middle", "line 0", "line 499999"),
    ],
)
def test_the_part_to_leave_out_is_chosen(work: Path, cut: str, said: str, first: str, last: str) -> None:
    (work / "log.txt").write_text(LINES)
    more = flags(work, "--truncate", cut, "--context", "3000")
    piped = ossia("run", "Why?", *more, stdin=LINES.encode(), cwd=work)
    asked, _, text = sent(piped).partition("\n\n")
    assert (asked, text.startswith(first), text.endswith((last, last + "\n"))) == ("Why?", True, True)
    assert f"of 5.9 MB, {said}\n" in piped.stderr.decode() and " bytes left out here …]" in text
    assert line_of(piped)["usage"]["prompt_tokens"] in range(1_800, 2_251)  # a quarter is for the answer
    for named in (("Why?", "-f", "log.txt"), ("Why @log.txt?",)):
        done = ossia_here("run", *named, *more, cwd=work)
        lines = sent(done).split("\n")
        assert lines[2].startswith("Attached file log.txt (") and lines[2].endswith(f" of 5.9 MB, {said}):")
        assert lines[4].startswith(first) and lines[-2].endswith(last)
        assert done.stderr.decode() == f"ossia: warning: {'@' * (len(named) == 1)}log.txt · {lines[2][23:-2]}\n"


def test_more_than_there_is_room_for_is_refused_with_the_flag(work: Path) -> None:
    (work / "log.txt").write_text(LINES)
    named = ossia_here("run", "Why?", "-f", "log.txt", cwd=work)
    piped = ossia("run", "Why?", *flags(work, "--context", "3000"), stdin=LINES[:20_000].encode(), cwd=work)
    cut = "cut it with --truncate head|tail|middle, or let the model search the file: --workspace DIR"
    assert named.stderr.decode() == f"ossia: error: -f log.txt has 5.9 MB, and at most 4.0 MB are read: {cut}\n"
    assert (named.returncode, piped.returncode, piped.stderr.count(b"\n")) == (4, 4, 1)
    assert b"cut the input with --truncate head|tail|middle, or use a larger --context" in piped.stderr


def test_many_files_share_the_room(work: Path) -> None:
    for number in range(12):
        (work / f"{number}.txt").write_text("a line of text\n" * 20 * number)
    named = [word for number in range(12) for word in ("-f", f"{number}.txt")]
    done = ossia_here("run", "Why?", *named, *flags(work, "--context", "4000"), cwd=work)
    text, cut = sent(done), done.stderr.decode().splitlines()
    assert text.count("Attached file ") == 12 and "2.txt (600 bytes):" in text
    assert [line.split()[2] for line in cut] == [f"{number}.txt" for number in range(12 - len(cut), 12)]
    assert 3 < len(cut) < 10 and line_of(done)["usage"]["prompt_tokens"] in range(2_500, 3_001)
    none = ossia_here("run", "Why?", *named, *flags(work, "--context", "1000"), cwd=work)
    assert none.returncode == 4 and b"the context has room for parts of " in none.stderr


def test_what_is_piped_in_must_be_text_to_its_end(work: Path) -> None:
    for end, fault in ((b"\xff", "isn't UTF-8 text (byte 4888894 is 0xff)"), (b"\0", "is binary (it has a NUL byte)")):
        done = ossia("run", "Why?", "--truncate", "tail", stdin=LINES[:4_888_890].encode() + "ü".encode() * 2 + end)
        assert done.returncode == 2 and f"ossia: error: standard input {fault}" in done.stderr.decode()
