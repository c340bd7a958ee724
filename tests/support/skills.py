"""Skills made on the spot."""

from __future__ import annotations

from pathlib import Path


def write_skill(
    folder: Path, name: str, description: str = "Does it. Use it for that.", body: str = "Do it.", *more: str
) -> Path:
    """`FOLDER/NAME/SKILL.md`. `more`: further lines of its front matter."""
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = "\n".join([f"name: {name}", f"description: {description}", *more])
    path.write_text(f"---\n{head}\n---\n\n{body}\n")
    return path
