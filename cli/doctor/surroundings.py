"""The surroundings: the confinement of the model's Python and commands, and the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ossia.cli import paths, streams
from ossia.cli.doctor.check import Finding, Machine
from ossia.cli.terminal.links import knows_links
from ossia.cli.terminal.pictures import way_of
from ossia.tools.python.choice import confinement_of, interpreter_of, own_environment
from ossia.tools.sandbox import Confinement, choose
from ossia.tools.sandbox.account import has_control_groups
from ossia.tools.sandbox.private import too_wide
from ossia.tools.toolchains import READABLE, find_toolchains, in_words

_NARROW = 60
"""With fewer columns, diffs and tables are hard to read."""


def sandbox(machine: Machine) -> Iterator[Finding]:
    """The confinements of a run, found by starting something in each."""
    settings, search_path = machine.settings, machine.search_path
    python = confinement_of(unconfined=settings.unconfined, search_path=search_path)
    ways = [python, choose(unconfined=settings.unconfined, search_path=search_path)]
    if python.name != "off":
        interpreter_of(settings.python, paths.host(), python)
    yield from (_about(way, machine.resolved.origins["unconfined"]) for way in ways)
    if any(way.name in ("bwrap", "landlock") for way in ways):
        how = "by a control group" if has_control_groups() else "by checks four times a second (no control group)"
        yield Finding("ok", f"a call's memory is limited {how}")
    if settings.python is None and own_environment(paths.host()).executable is None:
        text = "the model's Python has only the standard library"
        yield Finding("ok", text, "give it numpy, pandas, matplotlib and sympy", "ossia python setup")


def toolchains(machine: Machine) -> Iterator[Finding]:
    """The folders of the home that commands would see with this folder as their workspace."""
    host, here = paths.host(), paths.here()
    if machine.settings.unconfined:
        return
    root = host.data if too_wide(here, host.home) or here == host.home.resolve() else here
    readable = paths.all_of(machine.settings.readable)
    found = find_toolchains(root, home=host.home, environ=machine.environ, data=host.data, readable=readable)
    if line := in_words(found, host.home):
        yield Finding("ok", line, f"the model reads: commands can use {found.summary}" if found.summary else "")
    for line in found.refused:
        yield Finding("warning" if line.startswith(READABLE) else "ok", line)


def _about(way: Confinement, set_by: str) -> Finding:
    what = {"python": "python", "shell": "container.exec"}[way.runs]
    if way.name == "off":
        reason, _, unconfined = way.reason.partition("; ")
        return Finding("warning", f"{what} is off, since nothing confines it here: {reason}", unconfined)
    if way.name == "unconfined":
        text = f"{what} runs unconfined: it can do whatever you can"
        by_variable = set_by.startswith("OSSIA_")
        command = "unset OSSIA_UNCONFINED" if by_variable else "ossia config unset unconfined"
        return Finding("warning", text, "turn the confinement on again", command)
    if way.reason:
        text = f"{what} is confined by {way.name}, which holds back less than bubblewrap: {way.reason}"
        fix = "get bubblewrap 0.8 or later; `ossia help confinement` says what isn't confined until then"
        return Finding("warning", text, fix)
    return Finding("ok", f"{what} is confined by {way.name}")


def terminal(machine: Machine) -> Iterator[Finding]:
    """The characters, colours, links, pictures and keys of the terminal, by the environment: it isn't asked."""
    from ossia.cli.terminal.vt import terminal_size

    out, environ = streams.stdout(), machine.environ
    if (out.encoding or "").lower().replace("-", "") not in ("utf8", "utf8sig"):
        text = f"output is encoded as {out.encoding}: other characters become `?`"
        yield Finding("warning", text, "use a UTF-8 locale", "export LANG=C.UTF-8")
    if not (sys.stdin.isatty() and out.isatty()):
        text = "stdin or stdout isn't a terminal: there, `ossia` alone is `ossia run`"
        yield Finding("ok", text)
        return
    term, size = environ.get("TERM", ""), terminal_size()
    if term == "dumb":
        text = "TERM is dumb: the chat prints plain lines"
        yield Finding("ok", text, "set TERM to your terminal's name if it can do more")
        return
    if size.columns < _NARROW:
        text = f"the terminal has {size.columns} columns: diffs and tables are hard to read"
        yield Finding("warning", text, f"make it at least {_NARROW} columns wide")
    parts = [
        f"{term or 'no TERM'}, {size.columns} by {size.rows}",
        "no colours (NO_COLOR)" if environ.get("NO_COLOR") else "colours",
        "links" if knows_links(environ) else "links only if the terminal says so itself",
        {"off": "no pictures", "blocks": "pictures as blocks", "kitty": "pictures (kitty)"}[way_of(environ)],
        "the keys of vi" if machine.settings.vi else "the keys of Emacs",
    ]
    yield Finding("ok", "; ".join(parts))
