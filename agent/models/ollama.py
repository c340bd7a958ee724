"""The models that Ollama has downloaded: files named by their hash, which its manifests give names to.

Below its `models` folder, `manifests/HOST/OWNER/MODEL/TAG` is JSON whose layer of `application/vnd.ollama.image.model`
names `blobs/sha256-…`, a GGUF (docs of Ollama: template.md and its `manifest` package). What its own library calls
gpt-oss is in a form of Ollama's (architecture `gptoss`), which llama.cpp can't read; `hf.co/…` are the usual files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from ossia.agent.models.catalog import name_of

MODEL_LAYER: Final = "application/vnd.ollama.image.model"
GPT_OSS: Final = re.compile(r"gpt[-_. ]?oss", re.IGNORECASE)
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_LIBRARY: Final = ("registry.ollama.ai", "library")
_MAX_MANIFESTS: Final = 2_000
_MAX_MANIFEST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """A model of Ollama's: `OllamaModel("gpt-oss:20b", "gpt-oss:20b", Path("…/blobs/sha256-b112…"))`.

    `called` is its name there (`ollama rm` takes it), `name` is ours: `gpt-oss-20b` for `hf.co/…/gpt-oss-20b-GGUF`.
    """

    name: str
    called: str
    path: Path


def ollama_models(folder: Path) -> Iterator[OllamaModel]:
    """Ollama's gpt-oss models below `folder` (`~/.ollama/models`), by name. What can't be read is passed over."""
    manifests = folder / "manifests"
    for path in sorted(islice(_manifests(manifests), _MAX_MANIFESTS)):
        host, owner, model, tag = path.relative_to(manifests).parts
        blob = _blob(path, folder) if GPT_OSS.search(model) else None
        if blob is not None:
            called = f"{model}:{tag}" if (host, owner) == _LIBRARY else f"{host}/{owner}/{model}:{tag}"
            name = called if (host, owner) == _LIBRARY else name_of(Path(f"{model}.gguf"))
            yield OllamaModel(name, called, blob)


def called_there(blob: Path) -> tuple[str, ...]:
    """The names that Ollama has for the model in this blob: `("gpt-oss:20b",)`. Empty: no manifest names it."""
    return tuple(one.called for one in ollama_models(blob.parent.parent) if one.path == blob)


def _manifests(folder: Path) -> Iterator[Path]:
    try:
        yield from (path for path in folder.glob("*/*/*/*") if path.is_file())
    except OSError:
        return


def _blob(manifest: Path, folder: Path) -> Path | None:
    try:
        if manifest.stat().st_size > _MAX_MANIFEST_BYTES:
            return None
        layers = json.loads(manifest.read_bytes())["layers"]
        digests = [_DIGEST.fullmatch(one["digest"]) for one in layers if one["mediaType"] == MODEL_LAYER]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    found = next(filter(None, digests), None)
    return folder / "blobs" / f"sha256-{found[1]}" if found else None
