"""`functions.write_file`: writes a whole file of the workspace, new or in place of the old one."""

from __future__ import annotations

from tools.approval.sensitive import Caution
from tools.safe_files import MAX_FILE_BYTES, Content, locate
from tools.spec import Preview, ToolContext, ToolFailed, ToolResult
from tools.work import _diff
from tools.work._changes import Change, apply, caution, current, of_ossia, require_name
from tools.work._folder import FileTool, as_lines, as_mapping, count, workspace_of
from tools.work.text import Text, decode, describe
from tools.workspace import Workspace

_PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
    "additionalProperties": False,
}
_DESCRIPTION = (
    "Writes a text file: a new one, with the folders above it, or instead of what was there. For a change of some "
    "lines apply_patch is better."
)


class WriteFile(FileTool):
    """Writes a text file whole. Shows the difference first, and writes nothing if the file has changed since.

    An existing file keeps its permissions, its encoding, and CRLF if all its lines end so. If the path is a link that
    stays in the workspace, its target is written and the link stays.
    """

    def __init__(self) -> None:
        super().__init__("functions.write_file", _DESCRIPTION, _PARAMETERS, "write")

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        asked, workspace = as_mapping(args), workspace_of(context)
        place = locate(workspace.root, str(asked["path"]))
        if place.kind == "folder":
            raise ToolFailed(f"Error: {asked['path']!r} is a folder. Give the path of a file.")
        if place.kind == "other":
            raise ToolFailed(f"Error: {asked['path']!r} is no plain file (a pipe, a device), and isn't written.")
        require_name(place)
        before = current(workspace.root, place.name)
        change = Change(place.name, before, _encoded(str(asked["content"]), before, place.name))
        diff = _diff.unified(before.data if before else None, change.after, name=place.name)
        why = caution([change], place.subjects, workspace)
        if before is not None and not why.reason and decode(before.data) is None:
            why = Caution(f"it replaces {describe(before.data)}, with text")
        verb = "change" if before is not None else "make"
        summary = f"{verb} {place.name} (+{diff.added} -{diff.removed} lines)"
        return Preview(summary, diff.text, "diff", subjects=place.subjects, caution=why.reason, firm=why.firm,
                       own=of_ossia(place.subjects, workspace), plan=change)  # fmt: skip

    def _result(self, args: object, plan: Change, workspace: Workspace, context: ToolContext) -> ToolResult:
        assert plan.after is not None, "it is of our own preview"
        if plan.before is not None and plan.before.data == plan.after:
            return ToolResult(f"{plan.name} has this content already; nothing was written.")
        apply([plan], workspace)
        verb = "Changed" if plan.before is not None else "Made"
        text = decode(plan.after)
        lines = count(len(as_lines(text.text)) if text is not None else 0, "line")
        return ToolResult(f"{verb} {plan.name} ({lines}, {count(len(plan.after), 'byte')}).")


def _encoded(content: str, before: Content | None, name: str) -> bytes:
    old = decode(before.data) if before is not None else None
    if old is not None and "\r\n" in old.text and "\n" not in old.text.replace("\r\n", "") and "\r" not in content:
        content = content.replace("\n", "\r\n")
    encoding = "utf-8" if old is None or old.encoding == "latin-1" else old.encoding
    data = Text(content, encoding).encode(name)
    if len(data) > MAX_FILE_BYTES:
        raise ToolFailed(f"Error: {len(data) / 1e6:.1f} MB are too much for one file. Write at most 16 MB.")
    return data
