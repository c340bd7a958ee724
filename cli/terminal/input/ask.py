"""A line typed behind a question, below a command's output."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.utils import get_cwidth

from ossia.cli.terminal.input.keys import KeyParser
from ossia.cli.terminal.keyboard import Keyboard

_TICK_S = 0.05


def ask_line(
    keyboard: Keyboard, prompt: str, *, pastes: bool = False, given_up: Callable[[], bool] = lambda: False
) -> str | None:
    """The line typed behind `prompt`; None at the end of input (Ctrl-D) or once `given_up`.

    Nothing typed before the question was shown answers it, nor, without `pastes`, anything pasted.
    """
    line = _Line(keyboard, prompt, pastes)
    ignored: list[KeyPress] = []
    parser = KeyParser(ignored.append)
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    with keyboard.by_key(line.show):
        while keyboard.waits() and (data := keyboard.read()):
            parser.feed(decoder.decode(data))
        parser.feed_key_callback = line.press
        line.show()
        try:
            while not line.over and not given_up():
                if not keyboard.waits(_TICK_S):
                    parser.flush()
                elif data := keyboard.read():
                    parser.feed(decoder.decode(data))
                else:
                    break
        except EOFError:
            return None
        finally:
            keyboard.write("\n")
    return line.text if line.over else None


class _Line:
    """The line so far; `over`: Enter ended it."""

    def __init__(self, keyboard: Keyboard, prompt: str, pastes: bool) -> None:
        self._keyboard, self._prompt, self._pastes = keyboard, prompt, pastes
        self.text, self.over = "", False

    def show(self) -> None:
        self._keyboard.write(self._prompt + self.text)

    def press(self, press: KeyPress) -> None:
        match press.key:
            case Keys.ControlM | Keys.ControlJ:
                self.over = True
            case Keys.ControlC:
                raise KeyboardInterrupt
            case Keys.ControlD if not self.text:
                raise EOFError
            case Keys.ControlZ:
                self._keyboard.suspend()
            case Keys.ControlH:
                self._erase(1)
            case Keys.ControlU:
                self._erase(len(self.text))
            case Keys.ControlW:
                self._erase(len(self.text) - self.text.rstrip().rfind(" ") - 1)
            case Keys.BracketedPaste if self._pastes:
                self._type(press.data)
            case str() as char if len(char) == 1 and char.isprintable():
                self._type(char)

    def _type(self, text: str) -> None:
        text = "".join(char if char.isprintable() else " " for char in text)
        self.text += text
        self._keyboard.write(text)

    def _erase(self, chars: int) -> None:
        kept = self.text[: len(self.text) - chars]
        self._keyboard.write("\b \b" * (get_cwidth(self.text) - get_cwidth(kept)))
        self.text = kept
