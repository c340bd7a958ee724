"""`ossia run`: one question, one answer."""

from __future__ import annotations

from typing import Annotated

import typer

from ossia.cli.settings.table import with_flags


@with_flags("run")
def run(
    given: dict[str, object],
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", help="The question. Piped input is added after it.")
    ] = None,
    skill: Annotated[
        str | None,
        typer.Option("-t", "--skill", metavar="NAME", help="Call a skill: its instructions come with the question."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|JSON|LINE",
            help='Answer in JSON by this schema and nothing else, as in "name, age int, tags[]"; off: free text.',
        ),
    ] = None,
    schema_multi: Annotated[
        str | None,
        typer.Option(metavar="SCHEMA", help='The same for each of several: {"items": […]}.'),
    ] = None,
    extract: Annotated[
        bool, typer.Option("-x", "--extract", help="Print only the last code block of the answer.")
    ] = False,
    extract_language: Annotated[
        str | None, typer.Option("--xl", metavar="LANG", help="Print only its last code block in LANG.")
    ] = None,
    extract_all: Annotated[
        bool, typer.Option("--xa", "--extract-all", help="Print only its code blocks, all of them (in LANG).")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write the answer to a file, whole, and only if all went well."
        ),
    ] = None,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Print the answer when it is whole, on a terminal, too.")
    ] = False,
    control: Annotated[
        str | None,
        typer.Option(metavar="stdin", help="With --jsonl: answer questions, steer and stop by lines on stdin."),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("-f", "--file", metavar="FILE|DIR|URL|-", help="Attach it behind the question; - is piped input."),
    ] = None,
    truncate: Annotated[
        str | None,
        typer.Option(metavar="head|tail|middle", help="Leave out this part of input that the context has no room for."),
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Store the session. (A run stores nothing otherwise.)")] = False,
    latest: Annotated[
        bool,
        typer.Option(
            "-c", "--continue", help="Continue this folder's last session, or else the last of all, and store it."
        ),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "-r", "--resume", metavar="ID|TEXT", help="Continue a session, and store it: its id, or part of its title."
        ),
    ] = None,
) -> None:
    """Ask once. The answer goes to stdout, everything else to stderr."""
    from ossia.cli.code_blocks import Extract
    from ossia.cli.oneshot.once import Wanted, run_once
    from ossia.cli.runtime.session import Resume

    code = extract or extract_all or extract_language is not None
    wanted = Wanted(
        prompt,
        Resume(latest, resume),
        save=save,
        schema=schema,
        schema_multi=schema_multi,
        extract=Extract(extract_language, extract_all) if code else None,
        output=output,
        stream=not no_stream,
        skill=skill,
        control=control,
        files=tuple(file or ()),
        truncate=truncate,
    )
    raise typer.Exit(run_once(wanted, given))
