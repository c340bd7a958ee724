"""Pictures in the terminal: what is sent for them, read back; what is no picture; which way a terminal gets."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import sys
from pathlib import Path

import pyte
import pytest
from PIL import Image, PngImagePlugin

from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.pictures import MAX_FILE_BYTES, MAX_PIXELS, Drawn, Pictures, Way, cell_size, way_of
from tests.support.command import write_script
from tests.support.screen import ChatScreen

RED, BLUE = (255, 0, 0), (0, 0, 255)
PAINTER = Painter(60)


def _picture(folder: Path, name: str = "a.png", size: tuple[int, int] = (200, 160)) -> Path:
    """Red above, blue below."""
    picture = Image.new("RGB", size, RED)
    picture.paste(BLUE, (0, size[1] // 2, *size))
    picture.save(folder / name)
    return folder / name


def _rows(path: Path, way: Way = "blocks", max_rows: int = 20) -> list[Row]:
    return Pictures(way, cell=(10, 20)).rows(path, PAINTER, max_rows)


def _drawn(rows: list[Row]) -> Drawn:
    assert isinstance(rows[0], Drawn)
    return rows[0]


def _text(rows: list[Row]) -> str:
    """The lines as one: they are broken at a blank."""
    return " ".join("".join(segment.text for segment in row) for row in rows)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.webp"])
def test_half_blocks_have_the_colours_of_the_pixels(name: str, tmp_path: Path) -> None:
    rows = _rows(_picture(tmp_path, name))
    drawn = _drawn(rows)
    screen = pyte.Screen(60, 12)
    pyte.Stream(screen).feed(drawn.escapes)
    assert len(drawn.escapes.split("\r\n")) == 8
    assert [screen.buffer[y][x].data for y in range(8) for x in range(21)] == [*["▀"] * 20, " "] * 8
    for y in (0, 1, 2, 5, 6, 7):  # where both meet, they are mixed
        for colour in (screen.buffer[y][0].fg, screen.buffer[y][19].bg):
            seen = [int(colour[at : at + 2], 16) for at in (0, 2, 4)]
            off = max(abs(a - b) for a, b in zip(seen, RED if y < 4 else BLUE, strict=True))
            assert off < 12, (y, seen)  # JPEG and WebP are not exact
    assert _text(rows[1:]) == f"[picture: {tmp_path / name}]"


def test_half_blocks_pixel_by_pixel(tmp_path: Path) -> None:
    picture = Image.new("RGB", (3, 2), BLUE)
    picture.putpixel((0, 0), RED)
    picture.save(tmp_path / "a.png")
    drawn = Pictures("blocks", cell=(1, 2)).drawn(tmp_path / "a.png", 60, 20)
    red, blue = "2;255;0;0", "2;0;0;255"
    assert drawn and drawn.escapes == f"\x1b[38;{red};48;{blue}m▀\x1b[38;{blue};48;{blue}m▀▀\x1b[0m"


def test_kittys_protocol_gets_a_png_of_ours(tmp_path: Path) -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("Comment", "\x1b]52;c;ZXZpbA==\x07 secret")
    with Image.open(_picture(tmp_path, size=(600, 600))) as picture:
        noise = Image.effect_noise(picture.size, 80).convert("RGB")
        noise.save(tmp_path / "b.png", pnginfo=info)
    drawn = _drawn(_rows(tmp_path / "b.png", "kitty"))
    found = re.fullmatch(r"((?:\r\n)+)\x1b\[(\d+)A\x1b7(.*)\x1b8\x1b\[(\d+)B", drawn.escapes, re.DOTALL)
    assert found and (len(found[1]) // 2, int(found[2]), int(found[4])) == (20, 20, 19)
    messages = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", found[3])
    assert "".join(f"\x1b_G{keys};{data}\x1b\\" for keys, data in messages) == found[3]
    assert messages[0][0] == "a=T,f=100,q=2,C=1,c=40,r=20,m=1"
    assert {keys for keys, _ in messages[1:-1]} == {"m=1"} and messages[-1][0] == "m=0"
    assert all(len(data) <= 4096 for _, data in messages)
    sent = base64.b64decode("".join(data for _, data in messages))
    assert b"secret" not in sent
    with Image.open(io.BytesIO(sent)) as image:
        assert (image.format, image.size, image.info) == ("PNG", (400, 400), {})


def test_a_picture_of_one_row_is_not_left_downwards(tmp_path: Path) -> None:
    one = _drawn(_rows(_picture(tmp_path, size=(200, 20)), "kitty"))
    assert one.escapes.endswith("\x1b8"), "there is no going down by none"


@pytest.mark.parametrize(
    ("size", "columns", "height"),
    [((4000, 40), 59, 1), ((100, 4000), 1, 20), ((1500, 1500), 40, 20), ((1, 1), 1, 1), ((300, 300), 30, 15)],
)
def test_it_fits_and_is_not_made_larger(size: tuple[int, int], columns: int, height: int, tmp_path: Path) -> None:
    drawn = _drawn(_rows(_picture(tmp_path, size=size)))
    assert (drawn.escapes.count("▀"), drawn.escapes.count("\r\n") + 1) == (columns * height, height)


def test_a_plot_without_a_ground_is_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (10, 20), (0, 0, 0, 0)).save(tmp_path / "a.png")
    assert "38;2;255;255;255;48;2;255;255;255" in _drawn(_rows(tmp_path / "a.png")).escapes


def _bomb(path: Path) -> None:
    Image.new("1", (MAX_PIXELS // 1000 + 1, 1000)).save(path)


def _huge(path: Path) -> None:
    with _picture(path.parent, path.name).open("ab") as file:
        file.truncate(MAX_FILE_BYTES + 1)


def _pipe(path: Path) -> None:
    """One in which a picture waits; its other end is open as long as the process lives."""
    os.mkfifo(path)
    os.write(os.open(path, os.O_RDWR | os.O_NONBLOCK), _png())


def _cut(path: Path) -> None:
    Image.effect_noise((100, 100), 50).save(path)
    path.write_bytes(path.read_bytes()[:2000])


def _link(path: Path) -> None:
    path.symlink_to(_picture(path.parent, "real.png"))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_bomb, id="bomb"),
        pytest.param(_huge, id="huge"),
        pytest.param(_cut, id="cut"),
        pytest.param(_link, id="link"),
        pytest.param(lambda path: path.write_text("\x1b[2Jno picture"), id="text"),
        pytest.param(lambda path: Image.new("RGB", (9, 9)).save(path, format="BMP"), id="another format"),
        pytest.param(lambda path: None, id="not there"),
        pytest.param(lambda path: path.mkdir(), id="folder"),
        pytest.param(os.mkfifo, id="empty pipe"),
        pytest.param(_pipe, id="pipe"),
    ],
)
def test_what_cannot_be_shown_has_its_path(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "a.png"
    make(path)
    rows = _rows(path)
    assert not any(isinstance(row, Drawn) for row in rows)
    assert _text(rows) == f"[picture: {path}]"


def test_a_path_is_no_escape_sequence(tmp_path: Path) -> None:
    rows = _rows(_picture(tmp_path, "a\x1b[2J\u202e\nb.png"))
    assert _text(rows[1:]) == f"[picture: {tmp_path}/a␛[2J b.png]"


@pytest.mark.parametrize(
    ("environ", "way"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "kitty"),
        ({"TERM": "xterm-ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "KONSOLE_VERSION": "230400"}, "kitty"),
        ({"TERM": "xterm-256color", "KONSOLE_VERSION": "210400", "COLORTERM": "truecolor"}, "blocks"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app", "COLORTERM": "truecolor"}, "blocks"),
        ({"TERM": "foot"}, "off"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "blocks"),
        ({"TERM": "xterm-256color"}, "off"),
        ({"TERM": "xterm"}, "off"),
        ({"TERM": "xterm-kitty", "NO_COLOR": "1"}, "off"),
        ({"TERM": "tmux-256color", "COLORTERM": "truecolor"}, "off"),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, "off"),
        ({"TERM": "screen.xterm-256color"}, "off"),
        ({"TERM": "dumb", "KITTY_WINDOW_ID": "1"}, "off"),
        ({}, "off"),
    ],
)
def test_which_way_a_terminal_gets(environ: dict[str, str], way: Way) -> None:
    assert way_of(environ) == way


def test_off_and_too_small_a_screen_have_the_path(tmp_path: Path) -> None:
    path = _picture(tmp_path)
    for rows in (_rows(path, "off"), _rows(path, max_rows=1)):
        assert _text(rows) == f"[picture: {path}]"


def test_the_cell_of_no_terminal_is_a_usual_one() -> None:
    assert cell_size() == (10, 20) or sys.__stdout__ is None or sys.__stdout__.isatty()


def _png() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (30, 40), RED).save(data, format="PNG")
    return data.getvalue()


def test_a_plot_of_the_models_code_is_shown_in_the_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in ("TMUX", "STY", "KITTY_WINDOW_ID", "TERM_PROGRAM", "KONSOLE_VERSION"):
        monkeypatch.delenv(name, raising=False)
    code = f"from IPython.display import Image\nImage(data={_png()!r})"
    call = f"<|channel|>analysis to=python code<|message|>{code}<|call|>"
    script = write_script(tmp_path, call, "<|channel|>final<|message|>There.<|return|>")

    async def scene() -> None:
        async with ChatScreen(engine=script, no_tools=None, tools=("python",)) as stage:
            await stage.type("draw\r")
            await stage.settle()
            await stage.until(lambda: any("▀" in row for row in stage.rows))
            (shown,) = [row.strip() for row in stage.rows if row.endswith(".png")]
            assert Path(shown).read_bytes() == _png()
            assert [row for row in stage.rows if "▀" in row] == ["▀▀▀"] * 2
            assert "There." in stage.rows
        assert Path(shown).is_file(), "it stays when the chat is over"

    asyncio.run(scene())
