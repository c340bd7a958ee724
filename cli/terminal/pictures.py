"""Pictures between the rows: kitty's protocol or half blocks; and always the path.

The environment alone decides which: the terminal is never asked, since its answer would come among the keys. The output
is made from decoded pixels; not a byte of the file reaches the terminal. Without the extra `pictures` (Pillow) only the
path is shown.
"""

from __future__ import annotations

import base64
import io
import os
import stat
import struct
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ossia.cli import streams

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.segment import Segment

    from ossia.cli.terminal.markdown.paint import Painter, Row

Way = Literal["kitty", "blocks", "off"]

MAX_FILE_BYTES: Final = 32 << 20
MAX_PIXELS: Final = 40_000_000  # a PNG of so many takes 0.7 s of CPU and 210 MB (measured)
FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_BEGINNINGS: Final = (b"\x89PNG", b"\xff\xd8", b"GIF8", b"RIFF")  # of their files, in that order
_CELL: Final = (10, 20)  # pixels, of a terminal that doesn't report them
_MAX_SENT: Final = (2400, 1600)
_CHUNK_CHARS: Final = 4096  # kitty's protocol allows no longer ones
_KONSOLE_WITH_KITTY = 220400


class Drawn(list["Segment"]):
    """A picture as a row: `escapes` for the terminal; as text it is a word."""

    def __init__(self, escapes: str) -> None:
        from rich.segment import Segment

        super().__init__([Segment("[picture]")])
        self.escapes = escapes


class Pictures:
    """Draws pictures in one way. `cell`: the pixels of a cell, width and height.

    pictures = Pictures(way_of(os.environ), cell=cell_size())
    screen.commit(pictures.rows(Path("plot.png"), painter, max_rows=20))
    """

    def __init__(self, way: Way, *, cell: tuple[int, int] = _CELL) -> None:
        self.way = way
        self._cell = cell

    def rows(self, path: Path, painter: Painter, max_rows: int) -> list[Row]:
        """The picture, if it can be shown, and a line with its path. As slow as `drawn`."""
        picture = self.drawn(path, painter.width, max_rows)
        return [*([picture] if picture else []), *painter.text(f"[picture: {path}]", "dim")]

    def knows(self, path: Path) -> bool:
        """Does the file begin as a picture of `FORMATS` does? False if it can't be read."""
        try:
            with path.open("rb") as file:
                return file.read(4).startswith(_BEGINNINGS)
        except OSError:
            return False

    def drawn(self, path: Path, columns: int, max_rows: int) -> Drawn | None:
        """The picture, never enlarged; None: it can't be shown. Never raises.

        Takes up to a second: call it on a thread. No link is followed: a path that the user named is resolved
        beforehand.
        """
        if self.way == "off" or max_rows < 2:
            return None
        try:
            picture = _decoded(path)
            size = _cells(picture.size, self._cell, columns - 1, max_rows)
            return _kitty(picture, size, self._cell) if self.way == "kitty" else _blocks(picture, size)
        except Exception:  # the file may be made to break a decoder: then the path is shown
            return None


def way_of(environ: Mapping[str, str]) -> Way:
    """The terminal's way to show pictures; "off" in tmux and screen (they swallow them), and without colours.

    way_of({"TERM": "xterm-kitty"})                                    # "kitty"
    way_of({"TERM": "xterm-256color", "COLORTERM": "truecolor"})       # "blocks"
    """
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if term in ("", "dumb", "linux") or environ.get("NO_COLOR") or term.startswith(("screen", "tmux")):
        return "off"
    if environ.get("TMUX") or environ.get("STY"):
        return "off"
    konsole = environ.get("KONSOLE_VERSION", "")
    new_konsole = konsole.isdecimal() and int(konsole) >= _KONSOLE_WITH_KITTY
    if term in ("xterm-kitty", "xterm-ghostty") or program in ("ghostty", "WezTerm") or new_konsole:
        return "kitty"
    if environ.get("KITTY_WINDOW_ID"):
        return "kitty"
    return "blocks" if environ.get("COLORTERM") in ("truecolor", "24bit") else "off"


def cell_size() -> tuple[int, int]:
    """The pixels of a cell, width and height, by the terminal's driver; else a usual size."""
    if sys.platform == "win32":
        return _CELL
    import fcntl
    import termios

    try:
        size = fcntl.ioctl(streams.stdout().fileno(), termios.TIOCGWINSZ, bytes(8))
    except (OSError, ValueError):
        return _CELL
    rows, columns, width, height = struct.unpack("4H", size)
    return (width // columns, height // rows) if rows and columns and width >= columns and height >= rows else _CELL


# -- pixels ------------------------------------------------------------------------------------------------------------


def _decoded(path: Path) -> Image:
    """The picture's first frame, upright, on white. Raises whatever its decoder does."""
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of damaged files would be written across the screen
        picture: Image.Image = Image.open(io.BytesIO(_bytes_of(path)), formats=FORMATS)
        if picture.width * picture.height > MAX_PIXELS:
            raise ValueError(f"{picture.width} by {picture.height} pixels")
        picture.draft("RGB", _MAX_SENT)  # a JPEG comes smaller at once
        picture = picture.convert("RGBA") if picture.mode == "P" else picture
        picture.thumbnail(_MAX_SENT)
        upright = ImageOps.exif_transpose(picture).convert("RGBA")
    ground = Image.new("RGBA", upright.size, "white")  # a plot without a background has dark letters
    return Image.alpha_composite(ground, upright).convert("RGB")


def _bytes_of(path: Path) -> bytes:
    """The bytes of a plain file, not of a link or a pipe: the model's code can write there."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags | getattr(os, "O_CLOEXEC", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            raise ValueError(f"{path} is no plain file of at most {MAX_FILE_BYTES} bytes")
        return file.read(MAX_FILE_BYTES)


def _cells(pixels: tuple[int, int], cell: tuple[int, int], columns: int, rows: int) -> tuple[int, int]:
    """The columns and rows of the picture: its own size, unless that is too large."""
    width, height = pixels[0] / cell[0], pixels[1] / cell[1]
    scale = min(1.0, columns / width, rows / height)
    return max(1, min(columns, round(width * scale))), max(1, min(rows, round(height * scale)))


# -- ways of drawing ---------------------------------------------------------------------------------------------------


def _kitty(picture: Image, size: tuple[int, int], cell: tuple[int, int]) -> Drawn:
    """A PNG in kitty's protocol: placed at the cursor, which stays, and without an answer (`q=2`)."""
    columns, rows = size
    data = io.BytesIO()
    shrunk = picture.copy()
    shrunk.thumbnail((min(columns * cell[0], _MAX_SENT[0]), min(rows * cell[1], _MAX_SENT[1])))
    shrunk.save(data, format="PNG", compress_level=2)
    encoded = base64.b64encode(data.getvalue()).decode("ascii")
    chunks = [encoded[at : at + _CHUNK_CHARS] for at in range(0, len(encoded), _CHUNK_CHARS)]
    first = f"a=T,f=100,q=2,C=1,c={columns},r={rows},"
    last = len(chunks) - 1
    parts = [f"\x1b_G{first if at == 0 else ''}m={int(at < last)};{chunk}\x1b\\" for at, chunk in enumerate(chunks)]
    # Make room for the rows and one more (some terminals go there), draw from the first, end in the last.
    down = f"\x1b[{rows - 1}B" if rows > 1 else ""
    return Drawn("\r\n" * rows + f"\x1b[{rows}A\x1b7{''.join(parts)}\x1b8{down}")


def _blocks(picture: Image, size: tuple[int, int]) -> Drawn:
    """Two pixels a cell: the upper one in the colour of the text, the lower one in that of its background."""
    columns, rows = size
    pixels = picture.resize((columns, 2 * rows)).tobytes()

    def at(x: int, y: int) -> str:
        red, green, blue = pixels[3 * (y * columns + x) : 3 * (y * columns + x) + 3]
        return f"2;{red};{green};{blue}"

    lines = []
    for y in range(0, 2 * rows, 2):
        pairs = [(at(x, y), at(x, y + 1)) for x in range(columns)]
        same = [x > 0 and pairs[x - 1] == pair for x, pair in enumerate(pairs)]
        cells = ("▀" if same[x] else f"\x1b[38;{top};48;{bottom}m▀" for x, (top, bottom) in enumerate(pairs))
        lines.append("".join(cells) + "\x1b[0m")
    return Drawn("\r\n".join(lines))
