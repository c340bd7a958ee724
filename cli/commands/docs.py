"""`ossia docs`: the local library, the source `docs` of the model's searches."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from ossia.cli.commands import exit_error, group
from ossia.cli.settings.table import option
from ossia.cli.streams import shown
from ossia.cli.terminal.keyboard import plain_keys

app = group("Index your documents for the model to search.")

VERSION = 1
"""The version of what `--json` prints."""

Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


@app.command()
@plain_keys()
def add(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH|URL]...", help="Folders, files, web pages. [default: update all]"),
    ] = None,
    allow_host: Annotated[list[str] | None, option("allow_host")] = None,
    proxy: Annotated[str | None, option("proxy")] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Name every skipped file, and why.")] = False,
) -> None:
    """Add documents to the library, or update it. Text, Markdown, HTML, PDF, notebooks, source code.

    Only what has changed is read again; what is gone is removed. Hidden files, links, what .gitignore names and what
    may hold secrets (.env, keys) are skipped. Ctrl-C keeps what is done.
    """
    from ossia.agent.control import Control
    from ossia.cli.commands.docs_report import Report
    from ossia.cli.runtime.ending import stoppable
    from ossia.cli.runtime.library import faults, index, open_library, target_of

    with faults():
        library, report = open_library(), Report(verbose=verbose)
        targets = [target_of(place) for place in places or ()]
        if not targets and not library.roots():
            raise typer.BadParameter("the library is empty: name something to add", param_hint="PATH|URL")
        network, control = {"allow_host": allow_host, "proxy": proxy}, Control()
        try:
            stoppable(lambda: index(library, targets, report, network, control), control)
        except KeyboardInterrupt:
            report.end()
            print("ossia: stopped; finished documents stay, the same command continues", file=sys.stderr)
            raise
    report.end()
    if report.code:
        raise typer.Exit(report.code)


@app.command("list")
def list_(json: Json = False) -> None:
    """Print what was added: number of documents, amount of text, place."""
    from ossia.agent.models.memory import size_text
    from ossia.cli.runtime.library import faults, open_library
    from ossia.cli.words import json_line

    with faults():
        library = open_library()
        roots = library.roots()
    if json:
        keys = ("kind", "place", "documents", "characters")
        found = [{key: getattr(root, key) for key in keys} for root in roots]
        print(json_line({"version": VERSION, "path": str(library.path), "roots": found}))
        return
    if not roots:
        print("ossia: the library is empty; add to it: ossia docs add PATH", file=sys.stderr)
        return
    rows = [("DOCUMENTS", "TEXT", "PLACE")]
    rows += [(f"{root.documents:,}", size_text(root.characters), root.place) for root in roots]
    rows.append((f"{sum(root.documents for root in roots):,}", size_text(sum(r.characters for r in roots)), "in all"))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for documents, text, place in rows:
        print(shown(f"{documents:>{widths[0]}}  {text:>{widths[1]}}  {place}"))


@app.command()
def rm(
    what: Annotated[list[str], typer.Argument(metavar="PATH|URL|ID...", help="As `list` and `search` print them.")],
) -> None:
    """Remove folders, pages or single documents from the library. The files themselves stay."""
    from ossia.cli.runtime.library import faults, open_library, place_of
    from ossia.cli.words import count

    with faults():
        library = open_library()
        for name in what:
            is_id = name.removeprefix("doc:").isdecimal()
            removed = library.remove(name if is_id else place_of(name))
            if removed is None:
                raise exit_error(f"{name} isn't in the library; `ossia docs list` prints what is")
            until = "; it stays out until you add it again" if removed.kept_out else ""
            print(shown(f"{name}: {count(removed.documents, 'document')} removed{until}"))


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words; the last one may be incomplete.")],
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="At most N documents.")] = 10,
    json: Json = False,
) -> None:
    """Search the library as the model does. Prints the ID, title, origin and a passage of each document."""
    from ossia.cli.runtime.library import faults, open_library
    from ossia.cli.words import json_line

    with faults():
        library = open_library()
        found = library.find(query, limit=limit)
        empty = not found and not library.count()
    if json:
        print(json_line({"version": VERSION, "query": query, "results": [asdict(match) for match in found]}))
        return
    for match in found:
        print(shown(f"{match.id:>5}  {match.title}\n       {match.origin}\n       {match.snippet}\n"))
    if not found:
        said = "the library is empty; add to it: ossia docs add PATH" if empty else "nothing found"
        print(f"ossia: {said}", file=sys.stderr)


@app.command()
def show(number: Annotated[str, typer.Argument(metavar="ID", help="As `search` prints it.")]) -> None:
    """Print the indexed text of a document."""
    from ossia.cli.runtime.library import open_library
    from ossia.tools.library.library import without_links
    from ossia.tools.spec import NoStop, ToolFailed

    try:
        page = open_library().load(f"doc:{number.removeprefix('doc:')}", refresh=False, stop=NoStop())
    except ToolFailed as error:
        raise exit_error(str(error).removeprefix("Error: ")) from None
    print(shown(without_links(page.text)))
