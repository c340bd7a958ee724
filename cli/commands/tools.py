"""`ossia tools`: the tools that are on, with their descriptions for the model; a tool called by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ossia.cli import paths
from ossia.cli.commands import group
from ossia.cli.settings.table import with_flags
from ossia.cli.streams import shown, stdout

if TYPE_CHECKING:
    from ossia.tools.build import Toolset

app = group("Show the tools that are on, or call one by hand.")


@app.command("list")
@with_flags("tools")
def list_(given: dict[str, object]) -> None:
    """Print the tools that are on.

    For each: its source, whether its calls need approval, and the exact text for the model. Then those that are off,
    with the reason.
    """
    from ossia.agent.vocabulary import own_tokenizer
    from ossia.cli.runtime.assembly import collect, tools_spec
    from ossia.cli.runtime.progress import make_display
    from ossia.cli.settings.workspace import resolve_with_folder
    from ossia.cli.words import json_line

    resolved, folder = resolve_with_folder(given)
    display = make_display(resolved.settings)
    for warning in resolved.warnings:
        display.warn(warning)
    spec, tokenizer = tools_spec(resolved, folder), own_tokenizer(resolved.settings.model, paths.host())
    tools = collect(spec, resolved, display, tokenizer)
    try:
        if resolved.settings.json:
            print(json_line(_as_json(tools)), file=stdout())
        else:
            _print_text(tools)
        if why := tools.missing.get("browser"):
            display.aside(f"browser is off: {why}", whole=True)
    finally:
        tools.close()


@app.command()
@with_flags("tools")
def call(
    given: dict[str, object],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The tool, as in browser.search.")] = None,
    arguments: Annotated[
        str | None, typer.Argument(metavar="[JSON]", help="Its arguments; for python, the code. [default: none]")
    ] = None,
    script: Annotated[
        str | None, typer.Option(metavar="FILE|-", help='A file of calls, one per line: {"name": …, "arguments": …}.')
    ] = None,
) -> None:
    """Call a tool by hand, as the model would.

    Prints exactly what the model would read, errors included. Takes every other flag of `ossia run`, too.
    """
    from ossia.cli.commands.tools_call import call_once, call_script

    if script is not None and name is not None:
        raise typer.BadParameter("use NAME or --script, not both", param_hint="--script")
    if script is not None:
        raise typer.Exit(call_script(script, given))
    if name and name.strip():
        raise typer.Exit(call_once(name, arguments or "", given))
    raise typer.BadParameter("give the name of a tool, or --script FILE", param_hint="NAME")


def _print_text(tools: Toolset) -> None:
    """One block for each section: the tools' names, sources and approvals, then the text that the model is given."""
    from ossia.agent.prompt import tool_texts
    from ossia.tools.approval.rules import ACTION_WORDS

    specs = tools.toolbox.by_name
    width = max(map(len, specs), default=0)
    for names, text in tool_texts(tools.toolbox.specs):
        for name in names:
            about = [rule for rule in tools.rules_about(specs[name]) if rule.pattern is not None]
            rules = "".join(f"; {ACTION_WORDS[rule.action]}: {rule}" for rule in about)
            line = f"{name:<{width}}  {specs[name].source}, {tools.approval_of(specs[name])}{rules}"
            print(shown(line), file=stdout())
        print(shown("".join(f"    {line}".rstrip() + "\n" for line in text.split("\n"))), file=stdout())
    for name, why in tools.off.items():
        print(shown(f"{name}  off: {why}"), file=stdout())


def _as_json(tools: Toolset) -> dict[str, object]:
    from ossia.agent.prompt import tool_texts
    from ossia.tools.approval.rules import ACTION_WORDS

    texts = {name: text for names, text in tool_texts(tools.toolbox.specs) for name in names}
    listed = [
        {
            "name": spec.name,
            "source": spec.source,
            "effects": sorted(spec.effects),
            "approval": tools.approval_of(spec),
            "rules": [[str(rule), ACTION_WORDS[rule.action]] for rule in tools.rules_about(spec)],
            "text": texts[spec.name],
        }
        for spec in tools.toolbox.specs
    ]
    return {"version": 1, "tools": listed, "off": dict(tools.off)}
