"""`ossia help`: the pages of docs/, which are installed with the program."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

import ossia
from ossia.cli.commands import exit_error
from ossia.cli.streams import stdout

_BEGINS = re.compile(r"\s*(?:$|[-*] |\d+\. |[|#])")
"""A line of Markdown that begins a block, or an empty one."""
_LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?:)(?:([a-z]+)\.md)?[^()]*\)")
"""A link to a page or a heading."""


def pages() -> dict[str, Path]:
    """The pages by topic: `{"safety": Path("…/docs/safety.md"), …}`."""
    folder = next((docs for root in ossia.__path__ if (docs := Path(root, "docs")).is_dir()), None)
    return {page.stem: page for page in sorted(folder.glob("[a-z]*.md") if folder else ())}


def help_(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC|COMMAND", help="[default: list the topics]")] = None,
) -> None:
    """Print a page of the documentation, or the help of a command."""
    found = pages()
    if topic is None:
        for name, page in found.items():
            heading = page.read_text(encoding="utf-8").partition("\n")[0].strip("# ").replace("`", "")
            print(f"{name:<{max(map(len, found))}}  {heading}")
        print("\nossia help TOPIC prints a page, ossia --help the commands and flags.")
        return
    group = context.parent.command if context.parent else None
    commands = getattr(group, "commands", {})
    if topic in commands:
        with commands[topic].make_context(topic, [], parent=context.parent, resilient_parsing=True) as one:
            print(one.get_help())
    elif topic not in found:
        near = get_close_matches(topic.lower(), list({**found, **commands}), n=2)
        like = f"did you mean {' or '.join(near)}? " if near else ""
        raise exit_error(f"no help on {topic!r}: {like}`ossia help` lists the topics")
    if topic in found:
        _print(found[topic].read_text(encoding="utf-8"))


def _print(page: str) -> None:
    """A page: drawn on a terminal, as it was written into a pipe."""
    if not stdout().isatty():
        print(page, end="")
        return
    from ossia.cli.oneshot.drawn import Drawn

    drawn = Drawn()
    drawn.write(_joined(page))
    drawn.end()


def _joined(page: str) -> str:
    """The page as it is drawn: a paragraph is one line; a link is its text and the other page's name; no comments."""
    lines: list[str] = []
    fenced = False
    for line in page.splitlines():
        fence = line.lstrip().startswith("```")
        if fence or fenced or not lines or not lines[-1] or _BEGINS.match(line):
            lines.append(line)
        elif not line.startswith("<!--"):
            lines[-1] += f" {line.strip()}"
        fenced ^= fence
    text = "\n".join(line for line in lines if not line.startswith("<!--")) + "\n"
    return _LINK.sub(
        lambda link: f"{link[1]} ({link[2]})" if link[2] and link[2] not in link[1].lower() else link[1], text
    )
