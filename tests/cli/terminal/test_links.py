"""Whether the terminal can link: what it says of itself, else its variables. In a real pty, and in tmux."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ossia.cli.terminal.links import knows_links
from tests.support.command import OSSIA, write_script
from tests.support.documents import answer
from tests.support.pty import IDLE, PtyChat
from tests.support.tmux import Tmux, needs_tmux, tmux_links

LINKED = b"\x1b]8;;https://a.test/x\x1b\\"
SHOWN = "See docs (https://a.test/x)."
needs_pty = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")


@pytest.fixture
def script(tmp_path: Path) -> str:
    return write_script(tmp_path, answer("See [docs](https://a.test/x)."))


@pytest.mark.parametrize(
    "name",
    [
        *("kitty(0.35.2)", "WezTerm 20240203-110809", "iTerm2 3.5.0", "foot(1.16.2)", "ghostty 1.0.1", "VTE(7600)"),
        *("Konsole 23.08.1", "contour 0.3.1", "xterm.js(5.6.0)", "mintty 3.6.4", "tmux 3.4", "tmux next-3.5"),
        "Rio 0.2",
    ],
)
def test_who_says_so_can_link(name: str) -> None:
    assert knows_links({"TERM": "screen"}, name)


@pytest.mark.parametrize("name", ["tmux 3.3a", "tmux 2.9", "tmux master", "XTerm(390)", "a kitty", f"tmux {9:05000}.4"])
def test_who_says_another_name_can_not(name: str) -> None:
    assert not knows_links({"TERM": "xterm-kitty", "VTE_VERSION": "7600"}, name)


@pytest.mark.parametrize("environ", [{"TERM": "xterm-kitty"}, {"VTE_VERSION": "7600"}, {"TERM_PROGRAM": "iTerm.app"}])
def test_of_who_says_nothing_the_variables_tell(environ: dict[str, str]) -> None:
    assert knows_links({"TERM": "xterm-256color"} | environ)
    assert not knows_links(environ | {"TMUX": "/tmp/tmux-0/default,1,0"})
    assert not knows_links(environ | {"TERM": "tmux-256color"})


@pytest.mark.parametrize(
    "environ",
    [{}, {"TERM": "xterm-256color"}, {"TERM": "dumb"}, {"VTE_VERSION": "4600"}, {"TERM_PROGRAM": "tmux"}],
)
def test_who_cannot_be_known(environ: dict[str, str]) -> None:
    assert not knows_links(environ)


@needs_pty
@pytest.mark.parametrize(("name", "links"), [("kitty(0.35.2)", True), ("tmux 3.3a", False)])
def test_what_the_terminal_says_counts_and_what_was_typed_is_kept(name: str, links: bool, script: str) -> None:
    with PtyChat("--engine", script, "--no-tools", environ={"TERM_PROGRAM": "iTerm.app"}) as chat:
        chat.press(f"wh\x1bP>|{name}\x1b\\y ü\x1b[?62;22c?")  # it stands there before it is asked for
        chat.idle()
        assert chat.sent.count(b"\x1b[>q\x1b[c") == 1
        assert "› why ü?" in chat.display
        chat.press("\r")
        chat.until("See docs")
        chat.idle()
        assert (LINKED in chat.sent, SHOWN in chat.text) == (links, not links)


@needs_pty
@pytest.mark.parametrize("environ", [{"TERM_PROGRAM": "iTerm.app"}, {}])
def test_an_answer_that_comes_late_is_nothing_typed(environ: dict[str, str], script: str) -> None:
    with PtyChat("--engine", script, "--no-tools", environ=environ) as chat:
        chat.idle()
        chat.press("a\x1bP>|VTE(76")
        chat.until("› a")
        chat.press("00)\x1b\\b\x1b[?62;22cc\x1b[Ad\r")
        chat.until("See docs")
        chat.idle()
        assert "› abcd" in chat.rows
        assert (LINKED in chat.sent) == bool(environ)


@needs_pty
def test_without_colours_nothing_is_asked(script: str) -> None:
    with PtyChat("--engine", script, "--no-tools", environ={"NO_COLOR": "1"}) as chat:
        chat.idle()
        assert b"\x1b[>q" not in chat.sent


@needs_tmux
def test_tmux_says_whether_it_can_link(script: str, home: Path) -> None:
    with Tmux([str(OSSIA), "--engine", script, "--no-tools"], environ={"VTE_VERSION": "7600"}) as tmux:
        tmux.type("why")
        tmux.until(lambda: tmux.title == IDLE)
        assert "› why" in tmux.display
        tmux.keys("Enter")
        tmux.until(lambda: any("See docs" in line for line in tmux.lines))
        tmux.until(lambda: tmux.title == IDLE)
        assert (SHOWN in tmux.lines) != tmux_links()
