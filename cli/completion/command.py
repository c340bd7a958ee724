"""`ossia completion`: the script by which a shell completes command lines of ossia, and the answers to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_ASKED_BY_BASH = 3  # words: see `answer`


def completion(
    invocation: typer.Context,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> None:
    """Print the script with which a shell completes ossia.

    bash: source <(ossia completion bash). zsh: the same, after compinit. fish: ossia completion fish | source.
    """
    asked = invocation.args  # where a script asks: `ossia completion fish -- ossia run --sch`
    if not asked:
        print(Path(__file__).with_name(f"ossia.{shell}").read_text(encoding="utf-8"), end="")
        return
    from ossia.cli.commands import exit_error
    from ossia.cli.completion.answer import answer

    if shell == "bash" and len(asked) != _ASKED_BY_BASH:
        raise exit_error(f"prints the script of one shell: ossia completion {shell}")

    print(*answer(shell, asked, invocation.find_root().command), sep="\n")
