"""`ossia run`: one question, one answer."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli import flags


def run(
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", help="The question. Piped input is added after it.")
    ] = None,
    model: flags.Model = None,
    engine: flags.Engine = None,
    effort: flags.Effort = None,
    instructions: flags.Instructions = None,
    tools: flags.Tools = None,
    no_tools: flags.NoTools = None,
    workspace: flags.Workspace = None,
    trust: flags.Trust = None,
    allow: flags.Allow = None,
    deny: flags.Deny = None,
    yes: flags.Yes = None,
    dry_run: flags.DryRun = None,
    web: flags.Web = None,
    web_key: flags.WebKey = None,
    web_url: flags.WebUrl = None,
    allow_host: flags.AllowHost = None,
    proxy: flags.Proxy = None,
    python: flags.Python = None,
    unconfined: flags.Unconfined = None,
    show_thinking: flags.ShowThinking = None,
    verbose: flags.Verbose = None,
    quiet: flags.Quiet = None,
    max_tokens: flags.MaxTokens = None,
    temperature: flags.Temperature = None,
    top_p: flags.TopP = None,
    top_k: flags.TopK = None,
    min_p: flags.MinP = None,
    seed: flags.Seed = None,
    context: flags.Context = None,
    threads: flags.Threads = None,
    gpu_layers: flags.GpuLayers = None,
    timeout: flags.Timeout = None,
    raw: flags.Raw = None,
    json: flags.Json = None,
) -> None:
    """Ask once. The answer goes to stdout, everything else to stderr."""
    given: dict[str, Any] = {key: value for key, value in locals().items() if key != "prompt"}
    from cli.once import run_once

    raise typer.Exit(run_once(prompt, given))
