"""`ossia models pull` of what isn't in the catalogue: run as users run it."""

from __future__ import annotations

from pathlib import Path

from ossia.cli import paths
from tests.support.command import ossia, ossia_here
from tests.support.hub import HOST, Hub
from tests.support.toy_gguf import write_toy_gguf

REPO = "someone/gpt-oss-20b-tuned-GGUF"


def test_a_repository_then_its_name(tmp_path: Path) -> None:
    toy = write_toy_gguf(tmp_path / "toy.gguf").read_bytes()
    files = {"gpt-oss-20b-tuned-Q8_0.gguf": toy, "gpt-oss-20b-tuned-Q4_0.gguf": b"not a GGUF"}
    with Hub(files, repo=REPO) as hub:
        env = {"HF_ENDPOINT": hub.endpoint}
        several = ossia("models", "pull", REPO, env=env)
        assert (several.returncode, several.stdout) == (3, b"")
        assert b"name one, ossia models pull someone/gpt-oss-20b-tuned-GGUF:FILE" in several.stderr
        done = ossia("models", "pull", f"{REPO}:Q8_0", env=env)
        path = paths.data_dir() / "models" / REPO / "gpt-oss-20b-tuned-Q8_0.gguf"
        assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{path}\n", b"")
        other = ossia("models", "pull", f"{REPO}:Q4_0", env=env)
        assert (other.returncode, other.stdout) == (3, b"")
        assert b"gpt-oss-20b-tuned-Q4_0.gguf: not a GGUF file" in other.stderr
        asked = {request.path for request in hub.requests if request.host == "hub"}
    assert all(path.startswith((f"/api/models/{REPO}", f"/{REPO}/")) for path in asked), asked  # of nothing else
    assert ossia_here("models", "path", "gpt-oss-20b-tuned-Q8_0").stdout.decode() == f"{path}\n"
    removed = ossia_here("models", "rm", "--yes", "gpt-oss-20b-tuned-Q8_0")
    assert (removed.returncode, path.exists()) == (0, False)


def test_a_model_that_may_be_here_by_another_name(tmp_path: Path) -> None:
    here = paths.data_dir() / "models" / "gpt-oss-20b-mxfp4.gguf"
    here.parent.mkdir(parents=True)
    toy = write_toy_gguf(here).read_bytes()
    with Hub({"tuned-Q8_0.gguf": toy}, repo=REPO) as hub:
        done = ossia("models", "pull", REPO, env={"HF_ENDPOINT": hub.endpoint})
        again = ossia("models", "pull", REPO, env={"HF_ENDPOINT": hub.endpoint})
    hint = f"{here} (gpt-oss-20b) has the same size: if it is the same model, Ctrl-C ends this download"
    assert (done.returncode, done.stderr.decode(), again.stderr) == (0, f"ossia: {hint}\n", b"")


def test_no_token_goes_where_it_could_be_read(tmp_path: Path) -> None:
    toy = write_toy_gguf(tmp_path / "toy.gguf").read_bytes()
    kept_back = b"ossia: HF_ENDPOINT isn't https://: your token of Hugging Face isn't sent there\n"
    with Hub({"tuned-Q8_0.gguf": toy}, repo=REPO) as hub:
        env = {"HF_ENDPOINT": f"http://{HOST}", "HTTP_PROXY": hub.endpoint, "NO_PROXY": "127.0.0.1"}
        assert ossia("models", "pull", REPO, env=env | {"HF_TOKEN": "hf_secret"}).stderr == kept_back
        assert {request.headers.get("authorization") for request in hub.requests} == {None}
        assert len(hub.transfers()) == 1
        assert ossia("models", "pull", REPO, env=env).stderr == b""
        hub.requests.clear()
        assert ossia("models", "pull", REPO, env={"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "hf_secret"}).stderr == b""
        listed = [request for request in hub.requests if request.path.startswith("/api/models/")]
        assert {request.headers.get("authorization") for request in listed} == {"Bearer hf_secret"}


def test_an_address_is_refused() -> None:
    done = ossia_here("models", "pull", "https://example.test/x.gguf?key=secret")
    assert (done.returncode, done.stdout) == (2, b"")
    said = done.stderr.decode()
    assert "not an address: download that with `curl -LOC -`" in said and "secret" not in said
