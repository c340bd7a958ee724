"""`ossia tools list`: the tools that are on, with their texts for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ossia.agent.prompt import tool_texts
from ossia.agent.vocabulary import own_tokenizer
from ossia.cli import paths
from ossia.cli.runtime.assembly import collect
from ossia.cli.runtime.progress import make_display
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.streams import shown, stdout
from ossia.cli.words import json_line
from ossia.tools.approval.rules import ACTION_WORDS
from ossia.tools.build import Toolset
from ossia.tools.spec import ToolSpec


def print_tools(flags: Mapping[str, object]) -> None:
    """One block for each section: the tools' names, sources and approvals, then the text that the model is given."""
    resolved, folder = resolve_with_folder(flags)
    display = make_display(resolved.settings)
    for warning in resolved.warnings:
        display.warn(warning)
    toolset = collect(resolved, folder, display, own_tokenizer(resolved.settings.model, paths.host()))
    try:
        if resolved.settings.json:
            print(json_line(_as_json(toolset)), file=stdout())
        else:
            _print_text(toolset)
        if why := toolset.missing.get("browser"):
            display.aside(f"browser is off: {why}", whole=True)
    finally:
        toolset.close()


def _print_text(toolset: Toolset) -> None:
    specs = toolset.toolbox.by_name
    width = max(map(len, specs), default=0)
    for names, text in tool_texts(toolset.toolbox.specs):
        for name in names:
            about = [rule for rule in toolset.rules_about(specs[name]) if rule.pattern is not None]
            rules = "".join(f"; {ACTION_WORDS[rule.action]}: {rule}" for rule in about)
            line = f"{name:<{width}}  {specs[name].source}, {toolset.approval_of(specs[name])}{rules}"
            print(shown(line), file=stdout())
        print(shown("".join(f"    {line}".rstrip() + "\n" for line in text.split("\n"))), file=stdout())


def _as_json(toolset: Toolset) -> dict[str, object]:
    texts = {name: text for names, text in tool_texts(toolset.toolbox.specs) for name in names}
    return {"version": 1, "tools": [_tool(toolset, spec, texts[spec.name]) for spec in toolset.toolbox.specs]}


def _tool(toolset: Toolset, spec: ToolSpec, text: str) -> dict[str, object]:
    rules: Sequence[object] = [[str(rule), ACTION_WORDS[rule.action]] for rule in toolset.rules_about(spec)]
    approval = toolset.approval_of(spec)
    effects, about = sorted(spec.effects), {"approval": approval, "rules": rules}
    return {"name": spec.name, "source": spec.source, "effects": effects, **about, "text": text}
