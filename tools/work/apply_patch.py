"""`repo_browser.apply_patch`: changes files by a V4A patch, all of them or none."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ossia.tools.approval import sensitive
from ossia.tools.decoding import Text, decode, describe
from ossia.tools.names import same_names
from ossia.tools.present import PATCH
from ossia.tools.safe_files import MAX_FILE_BYTES, Content, Place, locate
from ossia.tools.saying import patch_line, read_line
from ossia.tools.spec import Effect, Preview, ToolContext, ToolFailed, ToolResult
from ossia.tools.work import _diff
from ossia.tools.work._changes import Change, apply, caution, current, of_ossia, require_name
from ossia.tools.work._folder import FileTool, as_mapping, workspace_of
from ossia.tools.work._hunks import Misfit, apply_hunks
from ossia.tools.work._v4a import Add, Delete, Section, Update, parse
from ossia.tools.work.result import formed
from ossia.tools.workspace import Workspace

_PARAMETERS = {
    "type": "object",
    "properties": {"patch": {"type": "string"}},
    "required": ["patch"],
    "additionalProperties": False,
}
_DESCRIPTION = """\
Changes, makes, deletes and renames files: all of the patch is applied, or nothing.
*** Begin Patch
*** Update File: src/app.py
@@ def greet():
-    print("Hi")
+    print("Hello")
*** Add File: notes/todo.md
+- say goodbye, too
*** Delete File: old.txt
*** End Patch
A hunk begins with @@, or with @@ and a line above it (a class, a function) where its lines stand more than once. Show \
3 lines that stay before and after a change, with a blank in front. `*** Move to: PATH` below an Update line renames."""

MAX_DIFF_CHARS = 50_000
"""Of a diff that is stored with a result."""
CUT = "[... "
"""The beginning of its last line where it was longer."""
_MAX_BYTES = 128 << 20
"""The limit for all files of a patch, old and new together: they are in memory at once."""


_MAX_SHOWN_BYTES = 1 << 20
"""The limit for all files of a patch, to be shown with their whole texts."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The changes, and what is reported of each file once they are made; `said` and `diff` for people."""

    changes: tuple[Change, ...]
    lines: tuple[str, ...]
    said: str
    diff: str


def texts_of(preview: Preview) -> tuple[tuple[str, str | None, str], ...]:
    """The files of a patch's preview with their texts before (None: new) and after ("": deleted).

    Empty for another call, and where the texts are too long: its `detail` is the diff.

        texts_of(preview)    # (("src/app.py", "print(1)\n", "print(2)\n"),)
    """
    changes = preview.plan.changes if isinstance(preview.plan, _Plan) else ()
    pairs = [(change.name, change.before.data if change.before else None, change.after or b"") for change in changes]
    if sum(len(before or b"") + len(after) for _, before, after in pairs) > _MAX_SHOWN_BYTES:
        return ()
    return tuple((name, before if before is None else _shown(before), _shown(after)) for name, before, after in pairs)


def _shown(data: bytes) -> str:
    text = decode(data)
    return describe(data) if text is None else text.text


class ApplyPatch(FileTool):
    """Applies a patch in the format that gpt-oss knows (V4A), exactly or not at all.

    A file keeps its line ends, its encoding and its permissions. Refused are: adding a file that exists, a path that
    leads out of the workspace (also as the new name of a move), context that fits nowhere or in more than one place.
    """

    def __init__(self) -> None:
        super().__init__("apply_patch", _DESCRIPTION, _PARAMETERS, "write", PATCH)

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        workspace = workspace_of(context)
        planner = _Planner(workspace)
        try:
            folder, sections = parse(str(as_mapping(args)["patch"]))
            if locate(workspace.root, folder).kind != "folder":
                raise ToolFailed(f"Error: there is no folder {folder!r}. Send the patch alone, without 'cd'.")
            for section in sections:
                planner.take(section)
        except Misfit as misfit:
            names = planner.subjects
            text = f"Error: {misfit}. Nothing was changed. Open the file there, then send the whole patch again."
            summary, why = f"{read_line(names[-1])}, which the patch doesn't fit", sensitive.of_reading(*names)
            reads: frozenset[Effect] = frozenset({"read"})
            # it quotes the files, so the policy treats it like reading them
            return Preview(summary, str(misfit), subjects=names, effects=reads, caution=why, plan=text)
        diff, names = "".join(diff.text for diff in planner.diffs), planner.subjects
        summary = patch_line(planner.files)
        plan = _Plan(tuple(planner.changes), tuple(planner.lines), summary, _cut(diff))
        warned = caution(plan.changes, names, workspace)
        gone = tuple(change.name for change in plan.changes if change.after is None)
        return Preview(summary, diff, "diff", subjects=names, deletes=gone, caution=warned.reason, firm=warned.firm,
                       own=of_ossia(names, workspace), plan=plan)  # fmt: skip

    def _result(self, args: object, plan: _Plan | str, workspace: Workspace, context: ToolContext) -> ToolResult:
        if isinstance(plan, str):  # why it doesn't fit
            return ToolResult(plan, error=True, taints=workspace.taints)
        if all(change.before is not None and change.before.data == change.after for change in plan.changes):
            return self._done("The files are as the patch wants them already; nothing was written.", workspace)
        apply(plan.changes, workspace)
        done = self._done("\n".join(("Success. Updated the following files:", *plan.lines)), workspace)
        return replace(done, state={"said": plan.said, "diff": plan.diff})

    def _done(self, text: str, workspace: Workspace) -> ToolResult:
        """Without `taints`: it holds only what the patch itself named."""
        return ToolResult(formed(text, workspace.root))


class _Planner:
    """Turns sections into changes, each checked against the files as they are."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.changes: list[Change] = []
        self.lines: list[str] = []
        self.diffs: list[_diff.Diff] = []
        self._subjects: dict[str, None] = {}
        self.files: list[tuple[str, str, int, int]] = []  # for `patch_line`
        self._bytes = 0

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(self._subjects)

    def take(self, section: Section) -> None:
        match section:
            case Add(path, lines):
                place = self._new(path)
                data = _bounded(_encoded(Text("".join(f"{line}\n" for line in lines)), Text(""), place.name), path)
                self._change(place.name, None, data)
                self._say("new", _named(place), f"A {place.name}", _diff.unified(None, data, name=place.name))
            case Delete(path):
                place, before = self._there(path, may_be_link=False)
                self._change(place.name, before, None)
                self._say("delete", _named(place), f"D {place.name}", _diff.unified(before.data, None, name=place.name))
            case Update(path, move_to, hunks):
                place, before = self._there(path, may_be_link=move_to is None)
                data = before.data
                if hunks:
                    text = decode(before.data)
                    if text is None:
                        raise ToolFailed(f"Error: {path!r} is {describe(before.data)}, which no patch can update.")
                    if text.encode() != before.data:
                        raise ToolFailed(f"Error: {path!r} holds bytes that {text.name} can't write back as they are.")
                    updated = apply_hunks(text.text, hunks, place.name)
                    data = _bounded(_encoded(replace(text, text=updated), text, place.name), path)
                self._update(place, before, data, move_to)

    def _update(self, place: Place, before: Content, data: bytes, move_to: str | None) -> None:
        target = place if move_to is None else locate(self._workspace.root, move_to)
        if target.name == place.name:
            self._change(place.name, before, data)
            self._say("edit", _named(place), f"M {place.name}", _diff.unified(before.data, data, name=place.name))
            return
        target = self._new(str(move_to))
        self._change(target.name, None, data, like=before)
        self._change(place.name, before, None)
        diff = _diff.unified(before.data, data, name=place.name, new_name=target.name)
        self._say("rename", f"{_named(place)} to {_named(target)}", f"M {target.name}", diff)

    def _new(self, path: str) -> Place:
        place = locate(self._workspace.root, path)
        self._note(place)
        if place.kind != "missing":
            raise ToolFailed(
                f"Error: {path!r} is there already, and nothing was changed. Use '*** Update File:', or another path."
            )
        require_name(place)
        return place

    def _there(self, path: str, *, may_be_link: bool) -> tuple[Place, Content]:
        place = locate(self._workspace.root, path)
        self._note(place)
        if place.link and not may_be_link:
            raise ToolFailed(f"Error: {path!r} is a link to {place.name!r}, and nothing was changed. Name the file.")
        found = current(self._workspace.root, place.name) if place.kind != "missing" else None
        if found is None:
            raise ToolFailed(f"Error: there is no file {path!r}; nothing was changed. List the folder to see what is.")
        return place, found

    def _note(self, place: Place) -> None:
        self._subjects |= dict.fromkeys(place.subjects)

    def _change(self, name: str, before: Content | None, after: bytes | None, like: Content | None = None) -> None:
        if any(change.name == name for change in self.changes):
            raise ToolFailed(f"Error: {name!r} stands in the patch twice. Put all changes of a file in one section.")
        self._bytes += len(before.data if before is not None else b"") + len(after or b"")
        if self._bytes > _MAX_BYTES:
            problem = f"the patch takes more than {_MAX_BYTES / 1e6:.0f} MB of files at once"
            raise ToolFailed(f"Error: {problem}. Split it into smaller ones.")
        self.changes.append(Change(name, before, after, like))

    def _say(self, verb: str, name: str, line: str, diff: _diff.Diff) -> None:
        self.files.append((verb, name, diff.added, diff.removed))
        self.lines.append(line)
        self.diffs.append(diff)


def _named(place: Place) -> str:
    """Its real name, and the given one if that is another."""
    return place.name if same_names(place.asked, [place.name]) else f"{place.name} (through {place.asked})"


def _cut(diff: str) -> str:
    """The diff as it is stored; of a long one the first lines."""
    if len(diff) <= MAX_DIFF_CHARS:
        return diff
    shown = diff[: diff.rfind("\n", 0, MAX_DIFF_CHARS) + 1]
    return f"{shown}{CUT}{diff.count(chr(10)) - shown.count(chr(10)):,} more lines of the diff are not kept]\n"


def _encoded(text: Text, before: Text, name: str) -> bytes:
    """The file's bytes. Raises `ToolFailed` for a new character that its encoding lacks, or that stands for a byte."""
    if text.broken > before.broken or (before.broken and text.text.count("\ufffd") > before.text.count("\ufffd")):
        raise ToolFailed(f"Error: a new line of {name} holds \ufffd, which stands for a byte that isn't text there.")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        character = text.text[error.start]
        raise ToolFailed(
            f"Error: {name} is written in {text.name}, which has no {character!r}. Use another character."
        ) from None


def _bounded(data: bytes, path: str) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise ToolFailed(f"Error: {path!r} would have {len(data) / 1e6:.1f} MB. A file may have at most 16 MB.")
    return data
