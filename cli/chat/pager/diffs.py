"""Diffs of calls, in a few words."""

from __future__ import annotations

import re

from ossia.tools.spec import Preview

_HUNK = re.compile(r"@@ -\d+,(\d+) \+\d+,(\d+) @@")


def diff_of(preview: Preview | None) -> str:
    """The diff that a preview shows; "" if it shows none."""
    return preview.detail if preview is not None and preview.language == "diff" else ""


def diffstat(diff: str) -> str:
    """Which files it changes, and by how many lines: `"a.py +3 −1, b.py +2 −0"`; "" if it was cut."""
    files: dict[str, list[int]] = {}
    old = name = ""
    left = [0, 0]  # lines of the hunk that are still to come: old, new
    for line in diff.split("\n"):
        if any(left) and line[:1] in ("+", "-", " "):
            counts = files.setdefault(name, [0, 0])
            left[0] -= line[0] != "+"
            left[1] -= line[0] != "-"
            counts[0] += line[0] == "+"
            counts[1] += line[0] == "-"
        elif line.startswith("--- "):
            old = line[4:]
        elif line.startswith("+++ "):
            name = (old if line[4:] == "/dev/null" else line[4:])[2:]
            files.setdefault(name, [0, 0])
        elif found := _HUNK.match(line):
            left = [int(found[1]), int(found[2])]
    return "" if any(left) else ", ".join(f"{name} +{added} −{removed}" for name, (added, removed) in files.items())
