"""Files of our own: written whole, for nobody else's eyes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a private file so that there is the old one or the new one, never half of one. Raises OSError.

    The folders above it are made. `write_whole(Path("data/trust.json"), "{}\\n")`: mode 0600, UTF-8.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # made for its owner only
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
