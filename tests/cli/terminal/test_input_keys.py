"""What a terminal sends, as keys and text: kitty's protocol, modifyOtherKeys, replies that come late, reports."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossia.cli.terminal.input.keys import KeyParser
from ossia.cli.terminal.keyboard import without_sequences
from tests.support.command import write_script
from tests.support.documents import answer
from tests.support.pty import PtyChat

KEYS = {
    # kitty's protocol: the key, its modifiers, the type of the event, alternate codes, text
    "\x1b[13u": ["c-m"], "\x1b[13;1u": ["c-m"], "\x1b[13;2u": ["c-j"], "\x1b[13;3u": ["escape", "c-m"],
    "\x1b[13;5u": ["c-m"], "\x1b[13;1:3u": [], "\x1b[27u": ["escape"], "\x1b[9u": ["c-i"], "\x1b[9;2u": ["s-tab"],
    "\x1b[127u": ["c-h"], "\x1b[127;3u": ["escape", "c-h"], "\x1b[99;5u": ["c-c"], "\x1b[99;5:2u": ["c-c"],
    "\x1b[99;5:3u": [], "\x1b[99;133u": ["c-c"], "\x1b[99;69u": ["c-c"], "\x1b[100;6u": ["c-d"],
    "\x1b[32;5u": ["c-@"], "\x1b[45:95;6u": ["c-_"], "\x1b[59;5u": [], "\x1b[97;3u": ["escape", "a"],
    "\x1b[97:65;4u": ["escape", "A"], "\x1b[97u": ["a"], "\x1b[97;1:2u": ["a"], "\x1b[97;1:3u": [],
    "\x1b[97;2u": ["A"], "\x1b[97:65;2u": ["A"], "\x1b[97;65u": ["A"], "\x1b[97;66u": ["a"], "\x1b[49;2u": ["!"],
    "\x1b[55:47;2u": ["/"], "\x1b[97;2;65u": ["A"], "\x1b[0;;229u": ["å"], "\x1b[113;1;64u": ["@"],
    "\x1b[97;;97:769u": ["a", "\u0301"], "\x1b[223u": ["ß"], "\x1b[1089::99;5u": ["c-c"], "\x1b[1089;5u": [],
    "\x1b[1089:1057:99;2u": ["С"], "\x1b[59:58:122;5u": [], "\x1b[99;9u": [], "\x1b[27;5u": ["escape"],
    # keypad, functional keys, keys that are nothing here
    "\x1b[57399u": ["0"], "\x1b[57408;129u": ["9"], "\x1b[57413u": ["+"], "\x1b[57414u": ["c-m"],
    "\x1b[57414;2u": ["c-j"], "\x1b[57417u": ["left"], "\x1b[57419;5u": ["c-up"], "\x1b[57421u": ["pageup"],
    "\x1b[57426;1:3u": [], "\x1b[57358u": [], "\x1b[57441;2u": [], "\x1b[57376u": [], "\x1b[57454;1:3u": [],
    "\x1b[A": ["up"], "\x1b[1;5A": ["c-up"], "\x1b[1;129A": ["up"], "\x1b[1;1:2A": ["up"], "\x1b[1;1:3A": [],
    "\x1b[3~": ["delete"], "\x1b[3;1:1~": ["delete"], "\x1b[3;5:3~": [], "\x1b[5;65~": ["pageup"],
    "\x1b[1;1P": ["f1"], "\x1b[13~": ["f3"], "\x1bOA": ["up"], "\x1bOM": ["c-m"], "\x1bOw": ["7"], "\x1b[[A": ["f1"],
    "\x1b[2;6~": [], "\x1b[99~": [],
    # modifyOtherKeys
    "\x1b[27;5;13~": ["c-m"], "\x1b[27;2;13~": ["c-j"], "\x1b[27;3;13~": ["escape", "c-m"], "\x1b[27;5;99~": ["c-c"],
    "\x1b[27;6;67~": ["c-c"], "\x1b[27;2;47~": ["/"], "\x1b[27;3;97~": ["escape", "a"],
    # nothing that was pressed
    "\x1b[I": [], "\x1b[O": [], "\x1b[?62;22c": [], "\x1b[>0;276;0c": [], "\x1b[24;80R": [], "\x1b[1;5R": [],
    "\x1b[?2026;2$y": [], "\x1b[?7u": [], "\x1b[8;24;80t": [], "\x1b[>4;2m": [], "\x1b[201~": [], "\x1b[200;1~": [],
    "\x1b]11;rgb:0000/0000/0000\x1b\\": [], "\x1b]4;1;rgb:ff/ff/ff\x07": [], "\x1bP>|xterm(390)\x1b\\": [],
    "\x1bP1$r0 q\x1b\\": [], "\x1b_Gi=31;OK\x1b\\": [], "\x1b^pm\x1b\\": [], "\x1bXsos\x1b\\": [], "\x1bOz": [],
    "\x1b[<0;12;3M": [], "\x1b[<35;12;3m": [], "\x1b[96;14;13M": [], "\x1b[M !\xff".replace("\xff", "\udcff"): [],
    "\x1b[1114112u": [], "\x1b[55296u": [], "\x1b[133u": [], f"\x1b[{'9' * 5000}u": [], f"\x1b[{'1;' * 99}~": [],
}  # fmt: skip


def pressed(*pieces: str, pauses: bool = False) -> list[str]:
    """The keys and characters of what was read in these pieces; with `pauses`, each came alone."""
    keys: list[str] = []
    parser = KeyParser(lambda press: keys.append(getattr(press.key, "value", press.key)))
    for piece in pieces:
        parser.feed(piece)
        if pauses:
            parser.flush()
    parser.flush()
    return keys


def test_each_sequence_is_the_keys_it_means() -> None:
    wrong = {sequence: got for sequence, keys in KEYS.items() if (got := pressed(f"<{sequence}>")) != ["<", *keys, ">"]}
    assert wrong == {}


@given(st.lists(st.sampled_from([*KEYS, "a", "é", "\r", "\x1b[200~\x1b[13u\x1b[20\x1b[201~"])), st.data())
def test_it_is_the_same_in_any_pieces(sequences: list[str], data: st.DataObject) -> None:
    text = "".join(f"{one}." for one in sequences)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert pressed(*pieces) == pressed(text)


def test_a_pause_within_a_sequence_changes_nothing() -> None:
    for sequence, keys in KEYS.items():
        for at in range(min(3, len(sequence)), len(sequence)):
            assert pressed(f"a{sequence[:at]}", f"{sequence[at:]}b", pauses=True) == ["a", *keys, "b"], (sequence, at)


@pytest.mark.parametrize(
    ("pieces", "keys"),
    [
        (["\x1b"], ["escape"]),
        (["\x1b", "a"], ["escape", "a"]),
        (["\x1b["], ["escape", "["]),
        (["\x1b[", "hello"], ["escape", "[", *"hello"]),
        (["\x1bO", "x"], ["escape", "O", "x"]),
        (["\x1b]", "x"], ["escape", "]", "x"]),
        (["\x1bP", "x"], ["escape", "P", "x"]),
        (["\x1b\x1b[A"], ["escape", "up"]),
        (["\x1b\r"], ["escape", "c-m"]),
        (["\x1b[é"], ["escape", "[", "é"]),
        (["\x1b[1;", "\x03"], ["c-c"]),  # the end of these never comes
        (["\x1b]11;rgb", "typed\x03on"], ["c-c", "o", "n"]),
        (["\x1bP>|", "typed\x1b", "a"], ["escape", "a"]),
        (["\x1b[M!", "\x03"], ["c-c"]),
    ],
)
def test_what_only_looks_like_the_beginning_of_a_sequence_swallows_nothing(pieces: list[str], keys: list[str]) -> None:
    assert pressed(*pieces, pauses=True) == keys


def test_a_paste_is_handed_on_as_it_came() -> None:
    pasted: list[tuple[str, str]] = []
    parser = KeyParser(lambda press: pasted.append((press.key, press.data)))
    text = "\x1b[13u\x1b]x\x03\x1b[M \x1b[2"
    for piece in ("\x1b[200~", *text, "\x1b[201~", "\x1b[13u"):
        parser.feed(piece)
        parser.flush()
    assert pasted == [("<bracketed-paste>", text), ("c-m", "\r")]


def test_no_length_is_too_much() -> None:
    many = 300_000
    for text in ("\x1b]52;c;" + "A" * many, "\x1b[" + "1" * many, "\x1b[200~" + "\x1b[20" * many, "\x1b[" * many):
        pieces = [text[at : at + 1024] for at in range(0, len(text), 1024)]
        assert pressed(*pieces, "\x1b[201~\x1b\\\x03")[-1] == "c-c"


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_enter_and_ctrl_c_under_kittys_protocol_and_its_end(tmp_path: Path) -> None:
    script = write_script(tmp_path, answer("Done."))
    with PtyChat("--engine", script, "--no-tools") as chat:
        chat.idle()
        chat.press("hi\x1b[I\x1b[97;1:3u\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[57358u")
        chat.until("› hi")
        chat.press("\x1b[13u")
        chat.until("Done.")
        chat.idle()
        chat.press("\x1b[111;5u")  # Ctrl-O: the pager, on a screen that has a stack of its own
        chat.until("q")
        chat.press("\x1b[I\x1b[113;1:1u")
        chat.until("script · medium")  # the chat's own last row: the pager is left
        assert "› hi" in chat.rows
        chat.press("\x1b[99;5u\x1b[99;5u")
        assert chat.wait() == 0 and chat.cooked
    assert "rgb:" not in chat.plain()
    found = re.findall(rb"\x1b\[(?:>0u|<u|\?1049[hl])", chat.sent)
    assert found == [f"\x1b[{one}".encode() for one in (">0u", "<u", "?1049h", ">0u", "<u", "?1049l", ">0u", "<u")]


def test_a_line_without_sequences() -> None:
    assert without_sequences("\x1b[Iy\x1b]11;rgb:0/0\x07\x1b[?62c\x1bPx\x1b\\es\n") == "yes\n"
