"""`ossia docs`, run as users run it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ossia.cli import paths
from ossia.tools.library.library import Library
from ossia.tools.spec import NoStop
from tests.support.command import OSSIA, ossia_here, ossia_text, start

TIMEOUT_S = 60


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "sub").mkdir(parents=True)
    (folder / "ideas.md").write_text("# Ideas\nAn idea about capybaras and green grass.\n")
    (folder / "sub" / "page.html").write_text("<title>A page</title><p>Water for <a href='../ideas.md'>capybaras</a>.")
    (folder / ".env").write_text("TOKEN=1")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder.resolve()


def _library() -> Library:
    return Library(paths.library_file())


def test_without_a_command_the_help() -> None:
    done = ossia_text("docs")
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("add", "list", "rm", "search", "show"):
        assert f"\n  {command} " in done.stdout


def test_an_empty_library_says_how_to_fill_it() -> None:
    hint = "ossia: the library is empty; add to it: ossia docs add PATH\n"
    for arguments in (["list"], ["search", "x"]):
        done = ossia_text("docs", *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", hint)
    done = ossia_text("docs", "add")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the library is empty: name something to add" in done.stderr
    assert not _library().path.exists()


def test_add_list_search_show_update_rm(notes: Path) -> None:
    done = ossia_text("docs", "add", str(notes))
    sums, passed = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert sums.startswith("2 added (")
    assert sums.endswith(" documents/s)")
    assert passed == "skipped: may hold secrets (1), binary (1)"
    skipped = [f"{notes}/.env: may hold secrets", f"{notes}/picture.png: binary"]
    assert done.stderr == "".join(f"ossia: skipped: {one}\n" for one in skipped), "no bar into a pipe"

    listed = ossia_text("docs", "list").stdout.splitlines()
    assert [line.split(maxsplit=3)[-1] for line in listed] == ["PLACE", str(notes), "in all"]
    assert "  69 bytes  " in listed[1]
    assert json.loads(ossia_text("docs", "list", "--json").stdout) == {
        "version": 1,
        "path": str(_library().path),
        "roots": [{"kind": "folder", "place": str(notes), "documents": 2, "characters": 69}],
    }

    assert ossia_text("docs", "search", "capybaras grass", "--limit", "1").stdout == (
        f"    1  Ideas\n       {notes}/ideas.md\n       # Ideas An idea about capybaras and green grass.\n\n"
    )
    found = json.loads(ossia_text("docs", "search", "water", "--json").stdout)
    page = {"id": 2, "title": "A page", "origin": f"{notes}/sub/page.html", "snippet": "Water for capybaras."}
    assert found == {"version": 1, "query": "water", "results": [page]}
    assert ossia_text("docs", "show", "2").stdout.strip() == "Water for capybaras."
    nothing = ossia_text("docs", "search", "nowhere")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "ossia: nothing found\n")

    (notes / "ideas.md").write_text("# Other ideas\n")
    (notes / "sub" / "page.html").unlink()
    (notes / "new.txt").write_text("new")
    updated = ossia_text("docs", "add")
    assert updated.stdout.startswith("1 added, 1 updated, 1 removed (")

    gone = ossia_text("docs", "rm", "1", cwd=notes)
    assert (gone.returncode, gone.stdout) == (0, "1: 1 document removed; it stays out until you add it again\n")
    assert ossia_text("docs", "add").stdout.splitlines()[0] == "0 added, 1 unchanged"
    assert ossia_text("docs", "rm", ".", cwd=notes).stdout == ".: 1 document removed\n"
    assert json.loads(ossia_text("docs", "list", "--json").stdout)["roots"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["add", "nowhere"], 2, "nowhere: no such file or folder"),
        (["add", "ftp://a.test/x"], 2, "ftp://a.test/x: must be a path or an http(s) URL"),
        (["add", ""], 2, "'' is neither a path nor a URL"),
        (["rm", ""], 2, "'' is neither a path nor a URL"),
        (["rm", "nowhere"], 2, "nowhere isn't in the library; `ossia docs list` prints what is"),
        (["rm", "17"], 2, "17 isn't in the library"),
        (["show", "17"], 2, "no document `doc:17` in the local library"),
        (["show", "../x"], 2, "no document"),
        (["search", "x", "--limit", "0"], 2, "--limit"),
        (["search"], 2, "QUERY"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    done = ossia_here("docs", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, b"")
    assert message in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_a_file_that_is_no_document_is_an_error_and_is_not_remembered(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x00\x01")
    done = ossia_text("docs", "add", "x.bin", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "0 added, 1 failed\n")
    assert done.stderr == f"ossia: error: {tmp_path.resolve()}/x.bin: binary\n"
    assert _library().roots() == ()


def test_what_fails_in_a_folder_is_named_and_the_rest_is_there(notes: Path) -> None:
    (notes / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    done = ossia_text("docs", "add", str(notes))
    assert done.returncode == 0
    assert done.stdout.startswith("2 added, 1 failed (")
    assert f"ossia: error: {notes}/broken.pdf: " in done.stderr


def test_verbose_names_what_was_to_be_expected_too(notes: Path) -> None:
    (notes / ".hidden.md").touch()
    told = f"ossia: skipped: {notes}/.hidden.md: hidden\n"
    assert told not in ossia_text("docs", "add", str(notes)).stderr
    assert told in ossia_text("docs", "add", "--verbose", str(notes)).stderr


def test_a_file_of_a_known_folder_that_was_named_and_cannot_be_read_is_a_failure(notes: Path) -> None:
    assert ossia_text("docs", "add", str(notes)).returncode == 0
    (notes / "ideas.md").write_bytes(b"\x00\x01")
    done = ossia_text("docs", "add", "ideas.md", cwd=notes)
    assert done.returncode == 1 and f"ossia: error: {notes}/ideas.md: binary\n" in done.stderr


def test_a_file_of_a_folder_that_is_in_it_brings_the_folder_up_to_date(notes: Path) -> None:
    ossia_text("docs", "add", str(notes))
    (notes / "ideas.md").write_text("# New\n")
    done = ossia_text("docs", "add", "ideas.md", cwd=notes)
    assert done.stdout.startswith("0 added, 1 updated, 1 unchanged (")
    assert [root.place for root in _library().roots()] == [str(notes)]


def test_a_library_that_is_newer_is_one_line(notes: Path) -> None:
    ossia_text("docs", "add", str(notes))
    path = _library().path
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=9")
    db.close()
    for arguments in (["list"], ["search", "x"], ["add", str(notes)], ["rm", str(notes)], ["show", "1"]):
        done = ossia_text("docs", *arguments)
        assert done.returncode in (1, 2)
        assert (done.stdout, done.stderr.count("\n")) == ("", 1)
        assert "must be of version 1, not 9: use the ossia that wrote it" in done.stderr


class _Pages(BaseHTTPRequestHandler):
    """One page, whose text is the server's `page`; anything else is not found."""

    def do_GET(self) -> None:
        page = getattr(self.server, "page", b"") if self.path == "/page" else b""
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        pass


def test_a_web_page_is_kept_and_read_again(home: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.page = b"<title>A page</title><p>old words, <a href='/other'>a link</a>"  # type: ignore[attr-defined]
        host = f"127.0.0.1:{server.server_port}"
        url, allowed = f"http://{host}/page", ["--allow-host", host]
        refused = ossia_text("docs", "add", url)
        assert (refused.returncode, refused.stdout) == (7, "0 added, 1 failed\n")
        assert refused.stderr.startswith(f"ossia: error: {url}: ")
        assert _library().roots() == ()
        assert ossia_text("docs", "add", url, *allowed).stdout.startswith("1 added (")
        (match,) = _library().find("words", limit=5)
        assert (match.title, match.origin, match.snippet) == ("A page", url, "old words, a link")
        page = _library().load(f"doc:{match.id}", refresh=False, stop=NoStop())
        assert (page.text.strip(), page.links) == ("old words, 【0†a link】", {0: f"http://{host}/other"})
        server.page = b"<title>A page</title><p>new words"  # type: ignore[attr-defined]
        assert ossia_text("docs", "add", *allowed).stdout.startswith("0 added, 1 updated (")
        server.page = b""  # type: ignore[attr-defined]
        assert ossia_text("docs", "add", url, *allowed).returncode == 7
        assert [match.snippet for match in _library().find("words", limit=5)] == ["new words"], "what there was stays"
        assert ossia_text("docs", "rm", url).stdout == f"{url}: 1 document removed\n"
        server.shutdown()
    bad = ossia_text("docs", "add", url, "--allow-host", "a b")
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)


def test_a_guessed_encoding_is_told_in_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    legacy = {
        "a.txt": "Das ist “größer” als 5 €.".encode("cp1252"),
        "b.html": "<title>Привет</title><p>Это страница о дорогах.".encode("koi8_r"),
        "c.md": "# 設定ファイル\nこれは本文です。".encode("cp932"),
        "d.txt": "中文网页内容，价格 100 元。".encode("gbk"),
        "marked.txt": "größer".encode("utf-16"),
        "named.html": "<meta charset=koi8-r><p>Привет".encode("koi8_r"),
        "plain.txt": "größer".encode(),
    }
    for name, data in legacy.items():
        (folder / name).write_bytes(data)
    files = "a.txt (windows-1252), b.html (KOI8-R), c.md (Shift_JIS) and 1 more"
    done = ossia_here("docs", "add", str(folder))
    assert done.stdout.decode().splitlines()[1:] == [f"encoding guessed for 4 files: {files}"]
    titles = {word: {match.title for match in _library().find(word, limit=5)} for word in ("дорогах", "größer", "本文")}
    assert titles == {"дорогах": {"Привет"}, "größer": {"a.txt", "marked.txt", "plain.txt"}, "本文": {"設定ファイル"}}
    assert ossia_here("docs", "add").stdout.decode() == "0 added, 7 unchanged\n", "nothing was read"


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_an_interrupted_add_keeps_what_it_did_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(4_000):
        (folder / f"{number}.txt").write_text(f"text number{number} " * 20)
    process = start("docs", "add", str(folder))
    deadline = time.monotonic() + TIMEOUT_S
    while not (_library().path.exists() and _library().count()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    kept = _library().count()
    assert process.returncode == 130
    assert err.decode() == "ossia: stopped; finished documents stay, the same command continues\n"
    assert out.decode().startswith(f"{kept} added (")
    assert 0 < kept < 4_000
    again = ossia_text("docs", "add", str(folder))
    assert again.stdout.startswith(f"{4_000 - kept} added, {kept} unchanged (")


def _on_a_terminal(*arguments: str, stdout: bool) -> tuple[int, str, str]:
    """(exit code, what came on the terminal, what came through the pipe)."""
    import pty

    ours, theirs = pty.openpty()
    streams = {"stdout": theirs, "stderr": subprocess.PIPE} if stdout else {"stdout": subprocess.PIPE, "stderr": theirs}
    process = subprocess.Popen([str(OSSIA), *arguments], env=os.environ, **streams)  # type: ignore[call-overload]
    piped = b"".join(part or b"" for part in process.communicate(timeout=TIMEOUT_S))
    os.close(theirs)
    drawn = os.read(ours, 1 << 20).decode()
    os.close(ours)
    return process.returncode, drawn, piped.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_a_bar_and_nothing_that_acts(tmp_path: Path) -> None:
    """Hostile row 10, for the library: titles, names and texts of files."""
    folder = tmp_path / "notes\u202e\x9b2J"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.txt").write_text("text " * 50)
    evil = "\x1b]52;c;eA==\x07\x1b[2J\u202e"
    (folder / "evil.md").write_text(f"# {evil} title\n{evil} unique words")
    (folder / f"{evil}.pdf").write_bytes(b"%PDF-1.4 broken")
    code, drawn, piped = _on_a_terminal("docs", "add", str(folder), stdout=False)
    assert (code, piped.startswith("301 added, 1 failed (")) == (0, True)
    assert "╌ " in drawn
    assert " of 302" in drawn
    assert drawn.endswith(("\r\x1b[K", "\n")), "the bar is gone at the end"
    shown = drawn.replace("\r\x1b[K", "")
    code, found, _ = _on_a_terminal("docs", "search", "unique", stdout=True)
    assert code == 0
    assert "unique words" in found
    code, page, _ = _on_a_terminal("docs", "show", "1", stdout=True)
    code, as_json, _ = _on_a_terminal("docs", "search", "unique", "--json", stdout=True)
    for text in (shown, found, page, as_json):
        assert not set(text) & {"\x1b", "\x07", "\u202e", "\x9b"}
