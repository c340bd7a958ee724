"""`ossia docs`: the local library, which the model searches as the source `docs`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from cli.settings.flags import option

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from tools.browser.document import Loader
    from tools.convert import Converter
    from tools.library.indexing import Event
    from tools.library.library import Library, Root, RootKind

app = typer.Typer(no_args_is_help=False, rich_markup_mode=None)

VERSION = 1
"""Of what `--json` prints."""

Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


@app.callback(invoke_without_command=True)
def docs(context: typer.Context) -> None:
    """Keep documents of yours for the model to search."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def add(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH|URL]...", help="Folders, files, web pages. [default: all that were added]"),
    ] = None,
    allow_host: Annotated[list[str] | None, option("allow_host")] = None,
    proxy: Annotated[str | None, option("proxy")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Name every file that is passed by, and why.")] = False,
) -> None:
    """Add to the library, or bring it up to date. Text, Markdown, HTML, PDF, notebooks, source code.

    Only what has changed is read again; what is gone is taken out. Hidden files, links, what .gitignore names and what
    may hold secrets (.env, keys) are passed by. Ctrl-C keeps what is done.
    """
    import sys

    from cli.commands.docs_report import Report

    with faults():
        library, report = open_library(), Report(verbose=verbose)
        targets = [target_of(place) for place in places or ()]
        if not targets and not library.roots():
            raise typer.BadParameter("the library is empty, name what to add", param_hint="PATH|URL")
        try:
            index(library, targets, report, {"allow_host": allow_host, "proxy": proxy})
        except KeyboardInterrupt:
            report.end()
            print("ossia: stopped; what is done is kept, the same command goes on from there", file=sys.stderr)
            raise
    report.end()
    if report.code:
        raise typer.Exit(report.code)


@app.command("list")
def list_(json: Json = False) -> None:
    """Print what was added: how many documents, how much text, where."""
    import sys

    from agent.models.memory import size_text

    with faults():
        library = open_library()
        roots = library.roots()
    if json:
        keys = ("kind", "place", "documents", "characters")
        found = [{key: getattr(root, key) for key in keys} for root in roots]
        _print_json({"version": VERSION, "path": str(library.path), "roots": found})
        return
    if not roots:
        print("ossia: the library is empty; add to it: ossia docs add PATH", file=sys.stderr)
        return
    rows = [("DOCUMENTS", "TEXT", "PLACE")]
    rows += [(f"{root.documents:,}", size_text(root.characters), root.place) for root in roots]
    rows.append((f"{sum(root.documents for root in roots):,}", size_text(sum(r.characters for r in roots)), "in all"))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for documents, text, place in rows:
        _print(f"{documents:>{widths[0]}}  {text:>{widths[1]}}  {place}")


@app.command()
def rm(
    what: Annotated[list[str], typer.Argument(metavar="PATH|URL|ID...", help="As `list` and `search` print them.")],
) -> None:
    """Take out what was added, all of a folder, or single documents. The files themselves stay."""
    from cli.exits import ExitCode, ExitError

    with faults():
        library = open_library()
        for name in what:
            place = name if _is_id(name) else _place(name)
            removed = library.remove(place)
            if removed is None:
                raise ExitError(f"{name} isn't in the library; `ossia docs list` prints what is", ExitCode.USAGE)
            until = "; it stays out until it is added again" if removed.kept_out else ""
            _print(f"{name}: {_documents(removed.documents)} taken out{until}")


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words; the last one may be the beginning of one.")],
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="At most N documents.")] = 10,
    json: Json = False,
) -> None:
    """Search the library as the model does. Prints the ID, title, origin and a passage of each document."""
    import sys
    from dataclasses import asdict

    with faults():
        library = open_library()
        found = library.find(query, limit=limit)
        empty = not found and not library.count()
    if json:
        _print_json({"version": VERSION, "query": query, "results": [asdict(match) for match in found]})
        return
    for match in found:
        _print(f"{match.id:>5}  {match.title}\n       {match.origin}\n       {match.snippet}\n")
    if not found:
        said = "the library is empty; add to it: ossia docs add PATH" if empty else "nothing was found"
        print(f"ossia: {said}", file=sys.stderr)


@app.command()
def show(number: Annotated[str, typer.Argument(metavar="ID", help="As `search` prints it.")]) -> None:
    """Print the text of a document, as it was when it was indexed."""
    from cli.exits import ExitCode, ExitError
    from tools.library.library import without_links
    from tools.spec import NoStop, ToolFailed

    try:
        page = open_library().load(f"doc:{number.removeprefix('doc:')}", refresh=False, stop=NoStop())
    except ToolFailed as error:
        raise ExitError(str(error).removeprefix("Error: "), ExitCode.USAGE) from None
    _print(without_links(page.text))


def open_library() -> Library:
    """The library in the data folder, made or not."""
    from cli import paths
    from tools.library.library import Library

    return Library(paths.library_file())


# -- adding ------------------------------------------------------------------------------------------------------------


class Follower(Protocol):
    """Sees what comes of the indexing. `unreadable`: the places that couldn't be read as a whole."""

    unreadable: set[str]

    def follow(self, events: Generator[Event, None, None], root: Root) -> None:
        """Take in the events of a root, to the end. What ends it early closes `events`, which stores what is ready."""
        ...


def index(
    library: Library, targets: list[tuple[RootKind, str]], report: Follower, network: Mapping[str, object]
) -> None:
    """Bring these places up to date, or with none all that were added. Raises ExitError for a network that can't be."""
    from contextlib import closing

    from tools.convert import Converter
    from tools.library.indexing import Indexer

    before = {root.place for root in library.roots()}
    with closing(Converter()) as converter:
        for root in _roots(library, targets):
            web = _web(network, converter) if root.kind == "url" else None
            report.follow(Indexer(library, converter=Converter, web=web).run(root), root)
            if root.place in report.unreadable and root.place not in before:
                library.remove(root.place)  # so that a name mistyped isn't tried again at every update


def target_of(name: str) -> tuple[RootKind, str]:
    """What a word of the command line means: a folder, a file or a URL. Raises `ExitError`."""
    from pathlib import Path

    from cli.exits import ExitCode, ExitError

    place = _place(name)
    if _is_url(place):
        return "url", place
    path = Path(place)
    if not path.exists():
        raise ExitError(f"{name}: no such file or folder", ExitCode.USAGE)
    return "folder" if path.is_dir() else "file", place


def _roots(library: Library, targets: list[tuple[RootKind, str]]) -> Iterator[Root]:
    """The roots to bring up to date, each made when its turn comes: all of them when nothing was named."""
    from tools.library.library import is_within

    done: set[str] = set()
    for kind, place in targets or [(root.kind, root.place) for root in library.roots()]:
        above = library.root_of(place) if kind == "file" else None
        first = above or library.add_root(kind, place)
        below = [root for root in library.roots() if kind == "folder" and is_within(root.place, place)]
        for root in (first, *below):
            if root.place not in done:
                done.add(root.place)
                yield root


def _web(network: Mapping[str, object], converter: Converter) -> Loader:
    """Gets URLs, by the rules that `browser.open` is under. Raises `ExitError`."""
    import os

    from cli.exits import ExitCode, ExitError
    from cli.settings.config import resolve
    from tools.fetch.client import Fetcher
    from tools.fetch.guard import parse_allow_host
    from tools.fetch.loader import WebLoader

    settings = resolve(network, environ=os.environ).settings
    try:
        hosts = [host for text in settings.allow_host for host in parse_allow_host(text)]
        return WebLoader(Fetcher(allow_hosts=hosts, proxy=settings.proxy), converter)
    except ValueError as error:  # the line names the value
        raise ExitError(str(error), ExitCode.USAGE) from None


# -- names and lines ---------------------------------------------------------------------------------------------------


def _is_url(name: str) -> bool:
    return name.lower().startswith(("http://", "https://"))


def _is_id(name: str) -> bool:
    return name.removeprefix("doc:").isdecimal()


def _place(name: str) -> str:
    """A URL as it is, or the absolute path of a file, without links. Raises `ExitError` for another scheme."""
    from pathlib import Path

    from cli.exits import ExitCode, ExitError

    if _is_url(name):
        return name
    if not name.strip():
        raise ExitError(f"expected a path or a URL, came {name!r}", ExitCode.USAGE)
    if "://" in name:
        raise ExitError(f"{name}: expected a path or an http(s) URL", ExitCode.USAGE)
    try:
        path = str(Path(name).expanduser().resolve())
        path.encode()
    except (OSError, RuntimeError, ValueError):  # a loop of links, no home, a NUL, bytes that are no text
        raise ExitError(f"{name}: not a path that can be used", ExitCode.USAGE) from None
    return path


def _documents(count: int) -> str:
    return f"{count:,} document{'' if count == 1 else 's'}"


@contextmanager
def faults() -> Iterator[None]:
    """What is wrong with the library's file, in one line."""
    from cli.exits import ExitCode, ExitError
    from tools.library.library import LibraryError

    try:
        yield
    except LibraryError as error:
        raise ExitError(str(error), ExitCode.FAILED) from None


def _print_json(value: object) -> None:
    """Into a pipe as it is; on a terminal with all that could act there escaped: it is the same JSON."""
    import json
    import sys

    print(json.dumps(value, ensure_ascii=sys.stdout.isatty()))


def _print(text: str) -> None:
    """On a terminal without what acts there; into a pipe as it is."""
    import sys

    from cli.clean import clean

    print(clean(text) if sys.stdout.isatty() else text)
