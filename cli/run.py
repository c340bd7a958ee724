"""`ossia run`: one question, one answer."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def run(
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", help="The question. Piped input is added after it.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="PATH|NAME", help="A GGUF file, or etude, gpt-oss-20b, gpt-oss-120b.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(metavar="ENGINE", help="llama, or script:FILE to replay given completions.")
    ] = None,
    effort: Annotated[str | None, typer.Option(metavar="LEVEL", help="How much to think: low, medium or high.")] = None,
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT|@FILE", help="Instructions for the whole turn.")
    ] = None,
    tools: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="The tools that are on, in place of: python.")
    ] = None,
    no_tools: Annotated[bool | None, typer.Option("--no-tools", help="No tools at all.")] = None,
    unconfined: Annotated[
        bool | None, typer.Option("--unconfined", help="Run python even where nothing confines it.")
    ] = None,
    show_thinking: Annotated[
        bool | None, typer.Option("--show-thinking", help="Show the chain of thought, on stderr.")
    ] = None,
    verbose: Annotated[bool | None, typer.Option("--verbose", help="Say more, on stderr.")] = None,
    quiet: Annotated[bool | None, typer.Option("--quiet", help="Nothing but errors on stderr.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Generate at most N tokens, thinking included.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Randomness; 0 is greedy. [default: 1.0]")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Keep the likeliest tokens that make up P. [default: 1.0]")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(metavar="K", help="Keep the K likeliest tokens; 0: all. [default: 0]")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(metavar="P", help="Drop tokens below P times the likeliest. [default: 0.0]")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Make the drawing of tokens repeatable.")] = None,
    context: Annotated[
        str | None, typer.Option(metavar="N|max", help="Context size in tokens. [default: what fits]")
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads of the CPU. [default: its cores]")] = None,
    gpu_layers: Annotated[
        int | None, typer.Option(metavar="N", help="Layers on the GPU. [default: all that fit]")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="End the turn after S seconds, loading not counted.")
    ] = None,
    raw: Annotated[bool | None, typer.Option("--raw", help="Print the Harmony stream as it comes.")] = None,
    json: Annotated[bool | None, typer.Option("--json", help="Print one line of JSON about the whole turn.")] = None,
) -> None:
    """Ask once. The answer goes to stdout, everything else to stderr."""
    flags: dict[str, Any] = {key: value for key, value in locals().items() if key != "prompt"}
    from cli.once import run_once

    raise typer.Exit(run_once(prompt, flags))
