"""From settings to the specification of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossia.agent.models.spec import ModelSpec
from ossia.cli.exits import ExitError
from ossia.cli.runtime.assembly import model_spec
from ossia.cli.settings.config import resolve


def test_a_model_here() -> None:
    flags = {"model": "etude", "n_cpu_moe": 3, "context": 8192, "guide": False, "seed": 1, "private": True}
    spec = model_spec(resolve(flags, environ={}), stays=True)
    expected = ModelSpec("etude", context=8192, cpu_moe=3, guided=False, seed=1, private=True, stays=True)
    assert spec == expected


def test_a_script() -> None:
    spec = model_spec(resolve({"engine": "script:a.json"}, environ={}))
    assert spec == ModelSpec(script=Path("a.json"))


def test_a_server_and_what_may_not_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.toml"
    team = '[engines.team]\nurl = "https://gpu.example/v1"\nkey_env = "TEAM_KEY"\nmodel = "own"\n'
    config.write_text(f'model = "theirs"\n{team}')
    monkeypatch.setenv("OSSIA_CONFIG", str(config))
    monkeypatch.setenv("TEAM_KEY", "sesame")
    flags = {"engine": "team", "allow_engine": ["gpu.example"], "gpu_layers": 3, "n_cpu_moe": 2}
    spec = model_spec(resolve(flags, environ={"OSSIA_CONFIG": str(config)}))
    assert spec.server is not None and (spec.server.url, spec.server.model) == ("https://gpu.example", "own")
    assert (spec.model, spec.by_file, spec.secrets) == ("theirs", True, ("sesame",))
    assert {"gpu_layers", "cpu_moe"} <= spec.explicit and "model" not in spec.explicit
    assert "sesame" not in repr(spec)
    with pytest.raises(ExitError, match="nothing was sent to gpu"):
        model_spec(resolve({"engine": "team"}, environ={"OSSIA_CONFIG": str(config)}))
