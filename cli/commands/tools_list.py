"""What `ossia tools list` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from agent.prompt import tool_texts
from cli.clean import clean
from cli.runtime.progress import make_display
from cli.runtime.toolset import Toolset, collect
from cli.runtime.vocabulary import own_tokenizer
from cli.settings.workspace import settle
from cli.streams import stdout
from tools.approval.policy import ACTIONS, Policy
from tools.spec import Preview, ToolSpec

WORDS = {action: word for word, action in ACTIONS.items()}


def print_tools(flags: Mapping[str, object]) -> None:
    """One block a section: the tools' names, sources and approvals, and the text that the model is given."""
    resolved, folder = settle(flags)
    display = make_display(resolved.settings)
    for warning in resolved.warnings:
        display.warn(warning)
    toolset = collect(resolved, folder, display, own_tokenizer(resolved.settings.model))
    try:
        if resolved.settings.json:
            print(json.dumps(_as_json(toolset), ensure_ascii=stdout().isatty()), file=stdout())
        else:
            _print_text(toolset)
    finally:
        toolset.close()


def _print_text(toolset: Toolset) -> None:
    show = clean if stdout().isatty() else str
    specs = toolset.toolbox.by_name
    width = max(map(len, specs), default=0)
    for names, text in tool_texts(toolset.toolbox.specs):
        for name in names:
            about = [rule for rule in toolset.rules_about(specs[name]) if rule.pattern is not None]
            rules = "".join(f"; {WORDS[rule.action]}: {rule}" for rule in about)
            line = f"{name:<{width}}  {specs[name].source}, {approval_of(toolset, specs[name])}{rules}"
            print(show(line), file=stdout())
        print(show("".join(f"    {line}".rstrip() + "\n" for line in text.split("\n"))), file=stdout())


def _as_json(toolset: Toolset) -> dict[str, object]:
    texts = {name: text for names, text in tool_texts(toolset.toolbox.specs) for name in names}
    return {"version": 1, "tools": [_tool(toolset, spec, texts[spec.name]) for spec in toolset.toolbox.specs]}


def _tool(toolset: Toolset, spec: ToolSpec, text: str) -> dict[str, object]:
    rules: Sequence[object] = [[str(rule), WORDS[rule.action]] for rule in toolset.rules_about(spec)]
    approval = approval_of(toolset, spec)
    effects, about = sorted(spec.effects), {"approval": approval, "rules": rules}
    return {"name": spec.name, "source": spec.source, "effects": effects, **about, "text": text}


def approval_of(toolset: Toolset, spec: ToolSpec) -> str:
    """`auto`, `ask` or `never`: for a call that no rule with a pattern is about, in an untainted conversation."""
    general = Policy(rule for rule in toolset.policy.rules if rule.pattern is None)
    return WORDS[general.rule_on(spec, Preview("")).action]
