"""`ossia demo`: the recorded turn on a terminal and without one."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ossia.cli.demo.demo import BEGIN, END
from ossia.cli.terminal.question import QUIET_S
from tests.picture import PAGE, play, text_in, text_of
from tests.support.command import ossia_text
from tests.support.pty import PtyChat

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
BUG, TESTED = "Yes, it was a bug.", "All tests pass."


@posix_only
def test_the_picture_of_the_readme_is_what_the_demo_shows() -> None:
    shown = text_of(play({}, speed=50))
    if TESTED not in " ".join(shown.split()):
        pytest.skip("nothing confines commands here: the picture shows the tests that then can't run")
    assert text_in(PAGE.read_text(encoding="utf-8")) == shown
    assert PAGE.stat().st_size < 60_000


@posix_only
@pytest.mark.parametrize(("columns", "rows"), [(50, 15), (120, 40)])
def test_no_ends_the_recording(columns: int, rows: int, tmp_path: Path) -> None:
    """What comes after a refusal isn't recorded."""
    environ = {"TMPDIR": str(tmp_path)}
    with PtyChat("demo", "--speed", "50", columns=columns, rows=rows, environ=environ) as chat:
        chat.until(lambda: chat.title == "ossia: asks")
        time.sleep(2 * QUIET_S)
        chat.press("n")
        chat.until("type why not")
        chat.press("\r")
        chat.until(END[-1].split("  ")[0])
        chat.idle()
        told = " ".join(chat.text.split())
        chat.press("Why?\r")
        chat.until("a recording can't answer")
        chat.press("\x04")
        assert chat.wait() == 0
    expected = (" ".join(line.split()) for line in (*BEGIN, "the recording ends here", *END))
    assert [line for line in expected if line not in told] == [] and BUG not in told
    assert list(tmp_path.iterdir()) == []


@posix_only
def test_ctrl_c_leaves_at_once() -> None:
    with PtyChat("demo") as chat:
        chat.until("thinking")
        chat.press("\x03")
        assert chat.wait() == 0 and BUG not in chat.text


def test_without_a_terminal_it_is_printed(tmp_path: Path) -> None:
    """Neither the user's settings nor their rules have a part in it."""
    settings = {"OSSIA_DENY": "repo_browser.*", "OSSIA_MODEL": "none", "HOME": str(tmp_path)}
    done = ossia_text("demo", env=settings)
    assert done.returncode == 0 and done.stdout.startswith(BUG)
    assert done.stderr.startswith(f"ossia: {BEGIN[0]}")
    assert (TESTED in done.stdout) == ("the test run is left out" not in done.stderr)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
