"""From settings to the specification of a model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ossia.agent.models.spec import ModelSpec
from ossia.cli.runtime.consent import must_be_agreed
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.engines import address_of, is_server, keys
from ossia.cli.settings.table import Settings

_FIELDS = {"n_cpu_moe": "cpu_moe"}
"""Settings whose field has another name."""


def model_spec(resolved: Resolved, *, stays: bool = False) -> ModelSpec:
    """The model of the settings, and where it is: the address that is used is the one that was agreed to.

    `stays`: it will answer again and again. Raises ExitError for a server that nobody agreed to, ConfigError and
    AddressUnusable.
    """
    settings = resolved.settings
    spec = local_spec(settings, stays=stays)
    if settings.engine.startswith("script:"):
        return replace(spec, script=Path(settings.engine.removeprefix("script:")))
    if not is_server(settings.engine):
        return spec
    address = address_of(settings.engine, os.environ)
    must_be_agreed(address, settings)
    return replace(
        spec,
        server=address,
        by_file=resolved.origins.get("model", "").startswith("file "),
        explicit=frozenset(_FIELDS.get(key, key) for key, said in resolved.origins.items() if said.startswith("--")),
        secrets=keys(os.environ),
    )


def local_spec(settings: Settings, *, stays: bool = False) -> ModelSpec:
    """The model as it is loaded in this process, whatever `engine` says."""
    return ModelSpec(
        settings.model,
        context=settings.context,
        threads=settings.threads,
        gpu_layers=settings.gpu_layers,
        cpu_moe=settings.n_cpu_moe,
        kv_type=settings.kv_type,
        repack=settings.repack,
        guided=settings.guide == "on",
        temperature=settings.temperature,
        seed=settings.seed,
        private=settings.private,
        stays=stays,
    )
