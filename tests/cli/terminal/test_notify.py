"""The escape sequences of notifications, by terminal."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ossia.cli.terminal.notify import notification

KITTY = {"TERM": "xterm-kitty"}


@pytest.mark.parametrize(
    ("environ", "sequence"),
    [
        *((environ, "\x1b]9;ossia: done\x07") for environ in (KITTY, {"TERM": "xterm-256color"}, {})),
        *(
            (environ, "\x1b]777;notify;ossia;done\x07")
            for environ in (
                *({"TERM": "rxvt-unicode-256color"}, {"TERM": "foot"}, {"KONSOLE_VERSION": "240800"}),
                *({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, {"WT_SESSION": "8cf1"}),
            )
        ),
        ({"TERM": "tmux-256color", "TMUX": "/t,1,0"}, "\x1bPtmux;\x1b\x1b]9;ossia: done\x07\x1b\\"),
        ({"VTE_VERSION": "7600", "TMUX": "/t,1,0"}, "\x1bPtmux;\x1b\x1b]777;notify;ossia;done\x07\x1b\\"),
    ],
)
def test_each_terminal_gets_the_form_that_it_knows(environ: Mapping[str, str], sequence: str) -> None:
    assert notification("done", environ) == sequence


@pytest.mark.parametrize("environ", [KITTY, {"TERM": "foot"}])
def test_a_text_stays_a_text(environ: Mapping[str, str]) -> None:
    hostile = "4;1;50 a\x07b\x1b]0;title\x1b\\c\x9cd\x9d0;e\x1b\\\n\r\u202ef" + "g" * 300
    sequence = notification(hostile, environ)
    text = sequence.removeprefix("\x1b]9;ossia: ").removeprefix("\x1b]777;notify;ossia;").removesuffix("\x07")
    assert text.startswith("4,1,50 a␇b␛]0,title␛\\c") and text.endswith("g…") and len(text) <= 100
    assert text.isprintable() and ";" not in text
