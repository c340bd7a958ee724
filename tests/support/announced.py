"""Models of gpt-oss's true measures whose weights are only announced: for what is decided before any is loaded."""

from __future__ import annotations

from dataclasses import replace

from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.gguf_parts import TensorInfo
from ossia.agent.models.gpt_oss import Architecture
from ossia.agent.models.model import ModelFile, open_model
from tests.bench.synthetic import SIZES, tensors_of

REAL = SIZES["20b"]
"""gpt-oss-20b's measures."""
LARGE = replace(REAL, layers=36, experts=128)
"""gpt-oss-120b's: openai/gpt-oss-120b, config.json."""


def announced(network: Architecture = REAL, name: str = "gpt-oss-20b") -> ModelFile:
    """A model of these measures: gpt-oss-20b has 12.1 GB in 459 tensors, 120b has 63.4 GB in 687."""
    tensors = {one.name: TensorInfo(one.name, one.shape[::-1], one.kind, 0, one.nbytes) for one in tensors_of(network)}
    return replace(open_model(ETUDE_PATH), name=name, architecture=network, tensors=tensors)
