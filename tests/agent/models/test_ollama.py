"""Ollama's models: named by manifests, stored as blobs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ossia.agent.errors import ModelUnusable
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.find import (
    MODEL_LAYER,
    Found,
    Locations,
    OllamaModel,
    called_there,
    find_models,
    found_at,
    ollama_models,
)
from ossia.agent.models.memory import Memory
from ossia.agent.models.resolve import resolve
from tests.support.gguf_edit import STRING, GgufEdit, text

LIBRARY, HUB = "registry.ollama.ai/library/gpt-oss/20b", "hf.co/ggml-org/gpt-oss-20b-GGUF/latest"


def add(folder: Path, manifest: str, content: bytes) -> Path:
    """As `ollama pull` leaves a model; returns its blob."""
    digest = hashlib.sha256(content).hexdigest()
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": f"sha256:{'0' * 64}", "size": 1},
        {"mediaType": MODEL_LAYER, "digest": f"sha256:{digest}", "size": len(content)},
    ]
    path = folder / "manifests" / manifest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    blob = folder / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(exist_ok=True)
    blob.write_bytes(content)
    return blob


def _its_own_form(toy: Path, folder: Path) -> bytes:
    edit = GgufEdit.of(toy)
    edit.entries["general.architecture"] = (STRING, text("gptoss"))
    return edit.write(folder / "changed.gguf").read_bytes()


def test_its_models_by_their_names(tmp_path: Path, toy: Path) -> None:
    own = add(tmp_path, LIBRARY, _its_own_form(toy, tmp_path))
    usual = add(tmp_path, HUB, toy.read_bytes())
    add(tmp_path, "registry.ollama.ai/library/llama3/8b", b"another one")
    assert list(ollama_models(tmp_path)) == [
        OllamaModel("gpt-oss-20b", "hf.co/ggml-org/gpt-oss-20b-GGUF:latest", usual),
        OllamaModel("gpt-oss:20b", "gpt-oss:20b", own),
    ]
    assert called_there(own) == ("gpt-oss:20b",)
    places = Locations(tmp_path / "data", (("ollama", tmp_path),))
    assert find_models(places) == (
        Found("gpt-oss-20b", usual, "ollama", usual.stat().st_size),
        Found("gpt-oss:20b", own, "ollama", own.stat().st_size),
        Found("etude", ETUDE_PATH, "built-in", ETUDE_PATH.stat().st_size),
    )
    assert resolve(None, locations=places, memory=Memory(1 << 40)).path == usual
    assert found_at(own, places) == Found("gpt-oss:20b", own, "ollama", own.stat().st_size)
    with pytest.raises(ModelUnusable, match=r"'gptoss' \(Ollama's own form of it, which llama\.cpp can't read\)"):
        resolve("gpt-oss:20b", locations=places, memory=Memory(1 << 40))


def test_a_model_of_two_names(tmp_path: Path, toy: Path) -> None:
    blob = add(tmp_path, HUB, toy.read_bytes())
    add(tmp_path, LIBRARY, toy.read_bytes())
    places = Locations(tmp_path / "data", (("ollama", tmp_path),))
    assert [one.name for one in find_models(places)] == ["gpt-oss-20b", "gpt-oss:20b", "etude"]
    assert {resolve(name, locations=places, memory=Memory(1)).path for name in ("gpt-oss-20b", "gpt-oss:20b")} == {blob}


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b'{"layers": 3}',
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../etc/passwd"}]}',
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": 7}]}',
        b"[" * 100_000,
        b" " * (1 << 20) + b"{}",
    ],
)
def test_a_manifest_that_is_none(tmp_path: Path, manifest: bytes) -> None:
    path = tmp_path / "manifests" / LIBRARY
    path.parent.mkdir(parents=True)
    path.write_bytes(manifest)
    assert list(ollama_models(tmp_path)) == []


def test_a_blob_that_is_gone_and_a_folder_that_is_not_there(tmp_path: Path) -> None:
    add(tmp_path, LIBRARY, b"x").unlink()
    assert [one.name for one in find_models(Locations(tmp_path / "data", (("ollama", tmp_path),)))] == ["etude"]
    assert list(ollama_models(tmp_path / "none")) == []
