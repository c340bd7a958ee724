"""`ossia demo`: what the chat looks like, before there is a model."""

from __future__ import annotations

from typing import Annotated

import typer

from ossia import __version__
from ossia.cli.terminal.first_paint import painted


def demo(
    speed: Annotated[float, typer.Option(metavar="X", min=0.1, max=100, help="Play it X times as fast.")] = 1.0,
) -> None:
    """Watch a recorded turn: a search, a patch, a test run.

    The tools, the question about the patch and the tests are real, in a temporary folder. The model's words are
    recorded: no model is loaded, nothing is stored, nothing goes over the network. Ctrl-C leaves.
    """
    with painted(f"ossia {__version__}"):
        from ossia.cli.demo.demo import play

        code = play(speed)
    raise typer.Exit(code)
