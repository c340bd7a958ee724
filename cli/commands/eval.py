"""`ossia eval`: does it work with your weights?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ossia.cli.settings.table import option


def evaluate(
    suites: Annotated[
        list[str] | None, typer.Argument(metavar="[SUITE]...", help="harmony, chain, repo, math. [default: all]")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this task. Repeatable.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Print the tasks' ids and run nothing.")] = False,
    runs: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Run each task N times.")] = 1,
    new: Annotated[bool, typer.Option("--new", help="Start over; ignore stored results.")] = False,
    aime: Annotated[
        str | None, typer.Option(metavar="FILE", help="AIME's problems: JSON lines or CSV, with problem and answer.")
    ] = None,
    model: Annotated[str | None, option("model")] = None,
    engine: Annotated[str | None, option("engine")] = None,
    allow_engine: Annotated[list[str] | None, option("allow_engine")] = None,
    effort: Annotated[str | None, option("effort")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="The seed of sampling and of the tasks of math and repo.")
    ] = None,
    temperature: Annotated[str | None, option("temperature")] = None,
    context: Annotated[str | None, option("context")] = None,
    threads: Annotated[str | None, option("threads")] = None,
    gpu_layers: Annotated[str | None, option("gpu_layers")] = None,
    max_tokens: Annotated[
        str | None, typer.Option(metavar="N", help="End a task after N generated tokens. [default: 32768]")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="S", help="End a task after S seconds. [default: 1800]")
    ] = None,
    json: Annotated[
        bool | None, typer.Option("-j", "--json", help="Print JSON: one line per run, then the table.")
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also draw the table into this file, as an SVG picture.")
    ] = None,
    quiet: Annotated[bool | None, option("quiet")] = None,
) -> None:
    """Run tasks with known answers, and print how many were solved.

    After an interrupt, the same command resumes. Each run is stored as a session: `ossia sessions show ID`.
    """
    from ossia.cli.eval.evaluation import TaskRequest, list_tasks
    from ossia.cli.eval.evaluation import evaluate as evaluated

    given: dict[str, object] = {
        "model": model, "engine": engine, "allow_engine": allow_engine, "effort": effort, "seed": seed,
        "temperature": temperature, "context": context, "threads": threads, "gpu_layers": gpu_layers,
        "max_tokens": max_tokens, "timeout": timeout, "json": json, "quiet": quiet,
    }  # fmt: skip
    problems = Path(aime) if aime is not None else None
    request = TaskRequest(tuple(suites or ()), tuple(task or ()), runs, new, problems, svg)
    if list_:
        return list_tasks(request, given)
    raise typer.Exit(evaluated(request, given))
