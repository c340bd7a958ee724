"""A workspace and the toolbox of its tools, for tests."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import ApprovalAsked, Decision, NoStop, ToolCall, ToolContext, ToolEvent, ToolResult
from ossia.tools.toolbox import Toolbox
from ossia.tools.work import workspace_tools
from ossia.tools.workspace import Workspace


@dataclass
class Kept:
    """A keeper that notes what it was told, and whether the file was still as before."""

    paths: list[Path] = field(default_factory=list)
    seen: list[bytes | None] = field(default_factory=list)

    def keep(self, path: Path) -> None:
        self.paths.append(path)
        try:
            self.seen.append(path.read_bytes())
        except OSError:  # it isn't there, or is no file
            self.seen.append(None)

    def commands_cannot_be_undone(self) -> str:
        return "this keeper keeps files only"

    def before_command(self) -> None:
        return None

    def after_command(self, before: object, moved: object = ()) -> None:
        raise AssertionError("no command was kept")

    def ignored_line(self) -> str:
        return ""

    def note_git(self, moved: object) -> None:
        raise AssertionError("this keeper keeps files only")

    def keep_changes(self, before: object, after: object, kept: object) -> None:
        raise AssertionError("this keeper keeps files only")


class Folder:
    """A folder, and calls of the tools that work in it. Every question is answered with yes and kept in `asked`."""

    def __init__(
        self,
        root: Path,
        *,
        rules: tuple[Rule, ...] = (),
        trusted: bool = True,
        count_tokens: Callable[[str], int] = lambda text: len(text.encode("utf-8", "replace")) // 4,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root.resolve()
        self.kept = Kept()
        self.asked: list[ApprovalAsked] = []
        self.events: list[ToolEvent] = []
        context = ToolContext(
            stop=NoStop(),
            workspace=Workspace(self.root, trusted=trusted, keeper=self.kept),
            data_dir=root.parent / "data",
            count_tokens=count_tokens,
        )
        self.toolbox = Toolbox(workspace_tools(), policy=Policy(rules), context=context)

    def write(self, name: str, data: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def call(self, name: str, /, **arguments: object) -> ToolResult:
        """The result of one call, e.g. `call("open_file", path="a.txt")`."""
        return self.send(name, json.dumps(arguments))

    def text(self, name: str, /, **arguments: object) -> str:
        """The output of a call that works, without its form; the whole text of one that doesn't."""
        result = self.call(name, **arguments)
        return result.text if result.error else self.output(result)

    def output(self, result: ToolResult) -> str:
        """What stands in a result's form, as it was or with a line end more."""
        found = re.fullmatch(r"<returncode>0</returncode>\n<output>\n(.*)</output>\ncwd: (.*)", result.text, re.DOTALL)
        assert found and found[2] == str(self.root), result.text
        return found[1]

    def put(self, path: str, content: str, **kinds: object) -> ToolResult:
        """A file made, or all of its lines changed, by a patch."""
        return self.send("apply_patch", self.patch(path, content), **kinds)  # type: ignore[arg-type]

    def patch(self, path: str, content: str) -> str:
        """The arguments for a patch that makes a file, or changes all of its lines."""
        return json.dumps({"patch": rewritten(self.root, path, content)})

    def send(self, name: str, arguments: str, *, answer: bool = True, between: object = None) -> ToolResult:
        """The same with the arguments as text. `between` is called, if it can be, when the question is asked."""
        call = ToolCall("call_1", f"repo_browser.{name}", arguments)
        running = self.toolbox.run(call, stop=NoStop())
        decision: Decision | None = None
        while True:
            try:
                event = running.send(decision)
            except StopIteration as stop:
                result = stop.value
                assert isinstance(result, ToolResult)
                return result
            decision = None
            self.events.append(event)
            if isinstance(event, ApprovalAsked):
                self.asked.append(event)
                if callable(between):
                    between()
                decision = Decision(call.id, answer)

    def tree(self) -> dict[str, bytes | str | None]:
        """Everything in the folder: a file's bytes, a link's target, None for a folder."""
        return tree(self.root)


def rewritten(root: Path, path: str, content: str) -> str:
    """A patch that makes a file, or takes all of its lines out and puts others in."""
    try:
        old = (root / path).read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    except (OSError, ValueError):
        old, head = [], f"*** Add File: {path}"
    else:
        head = f"*** Update File: {path}\n@@"
    new = content.removesuffix("\n").split("\n")
    lines = (*(f"-{line}" for line in old), *(f"+{line}" for line in new))
    return "\n".join(("*** Begin Patch", head, *lines, "*** End Patch"))


def tree(root: Path) -> dict[str, bytes | str | None]:
    found: dict[str, bytes | str | None] = {}
    for above, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(above, name)
            key = path.relative_to(root).as_posix()
            if path.is_symlink():
                found[key] = str(path.readlink())
            elif path.is_dir():
                found[key] = None
            else:
                found[key] = path.read_bytes() if path.is_file() else "special"
    return found
