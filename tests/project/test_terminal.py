"""Only the functions named here write to the terminal while the chat is on it: painted rows, and our own codes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import ROOT

_FOLDER = ROOT / "cli" / "terminal"
# Of cli/'s own modules those that print, for commands that run and end. Everything else may be at work in a chat.
_PRINTS = {
    *("main", "oneshot/drawn", "oneshot/given", "oneshot/output", "runtime/consent", "runtime/progress"),
    "streams",
    "acp/server",
    "completion/command",
    *(f"commands/{name}" for name in ("cache", "config", "docs", "docs_report", "harmony", "help", "logs")),
    *("commands/models", "commands/models_files"),
    *(f"commands/{name}" for name in ("mcp", "python", "sessions", "skills", "tools", "tools_call")),
    *("commands/trust", "commands/undo", "doctor/examine", "eval/evaluation", "serve/serving"),
}

# Who may call `write_raw`, which escapes nothing. Text from outside comes through Painter.ansi; copied text as base64.
_WRITERS = {
    ("links.py", "ask_name"): {"_ASK"},
    ("screen.py", "_print_held"): {"self._ansi(row) + '\\r\\n'"},
    ("vt.py", "erase_down"): {"erase_down(self.get_size().rows)"},
    ("vt.py", "copy"): {"f'\\x1b]52;c;{encoded}\\x07'"},
    ("vt.py", "notify"): {"notification(text, os.environ)"},
    ("vt.py", "take_keys"): {"PLAIN_KEYS + FOCUS_REPORTS"},
    ("vt.py", "give_keys_back"): {"NO_FOCUS_REPORTS + KEYS_BACK"},
    ("vt.py", "push_title"): {"_PUSH_TITLE"},
    ("vt.py", "pop_title"): {"_POP_TITLE"},
}
_BYPASSES = frozenset({"print_formatted_text", "patch_stdout", "run_in_terminal", "ANSI", "HTML"})
_STREAMS = ("sys.stdout.", "sys.stderr.", "sys.__std", "stdout().", "streams.stdout().")
_HARMLESS = (".fileno", ".isatty")  # of a stream


def _functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Each node with the name of the function it stands in, "" for none."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else name
        yield inside, node
        yield from _functions(node, inside)


def _called(node: ast.AST) -> str:
    """`print`, `write_raw`, `sys.stdout.write`: the end of what is called, with the stream it belongs to."""
    if not isinstance(node, ast.Call):
        return ""
    name = ast.unparse(node.func)
    return name if name.startswith(_STREAMS) else name.rpartition(".")[2]


def offences(source: str, file: str) -> list[str]:
    """What this module writes, or could write, past the doors."""
    found = []
    tree = ast.parse(source)
    called_names = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for function, node in _functions(tree):
        called = _called(node)
        to_a_stream = called.startswith(_STREAMS) and not called.endswith(_HARMLESS)
        name = _name(node)
        imported = isinstance(node, ast.ImportFrom) and node.module == "ossia.cli.streams"
        says = imported and "say" in map(_name, node.names)
        says = says or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("streams.say"))
        if called == "print" or to_a_stream or name in _BYPASSES or says:
            found.append(f"{file}: {function} uses {called or name or 'say'}")
        if isinstance(node, ast.Call) and called == "write_raw":
            written = ", ".join(map(ast.unparse, node.args))
            if written not in _WRITERS.get((file, function), ()):
                found.append(f"{file}: {function} writes {written}")
        elif name == "write_raw" and id(node) not in called_names:
            found.append(f"{file}: {function} passes write_raw on")
    return found


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return name
    return ""


@pytest.mark.parametrize("path", sorted(_FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_only_these_functions_write(path: Path) -> None:
    assert offences(path.read_text(encoding="utf-8"), path.name) == []


def test_of_the_other_modules_only_those_of_other_commands_print() -> None:
    cli = ROOT / "cli"
    paths = [path for path in cli.rglob("*.py") if _FOLDER not in path.parents]
    found = [path for path in paths if offences(path.read_text(encoding="utf-8"), path.name)]
    assert {path.relative_to(cli).with_suffix("").as_posix() for path in found} == _PRINTS


def test_the_writers_are_there() -> None:
    """A function that was renamed leaves the list."""
    there = {
        (path.name, function)
        for path in _FOLDER.rglob("*.py")
        for function, node in _functions(ast.parse(path.read_text(encoding="utf-8")))
        if _called(node) == "write_raw"
    }
    assert there == set(_WRITERS)


@pytest.mark.parametrize(
    "source",
    [
        *("print(text)", "sys.stdout.write(text)", "import sys\nsys.stderr.write(text)", "output.write_raw(text)"),
        *("def commit(self): self.output.write_raw(text)", "def copy(self): self.write_raw(text)", "f = out.write_raw"),
        *("stdout().write(text)", "streams.stdout().write(text)"),
        "from ossia.cli.streams import say",
        *("from prompt_toolkit import print_formatted_text", "sys.__stdout__.write(x)", "show(ANSI(text))"),
    ],
)
def test_a_way_past_the_doors_is_found(source: str) -> None:
    assert offences(source, "vt.py")
