"""`ossia models show|plan|path|default|rm` on models of every owner, run in this process."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from ossia.agent.engine.llama import gpu_memory
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.memory import GpuMemory, Memory
from ossia.cli import paths
from tests.agent.models.test_ollama import HUB, LIBRARY, add
from tests.oracle.model_headers import CODES, show
from tests.support.command import ossia_here
from tests.support.gguf_edit import STRING, U32, GgufEdit, inflated_gguf, split_gguf, text
from tests.support.pty import spawn

without_gpu = pytest.mark.skipif(gpu_memory().free != (), reason="tells of this machine's GPU")


def _own(toy: Path, name: str = "gpt-oss-tuned.gguf") -> Path:
    path = paths.data_dir() / "models" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(toy, path)
    return path


def _out(done: subprocess.CompletedProcess[bytes], code: int = 0) -> str:
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode()


def _said(*arguments: str, code: int) -> str:
    done = ossia_here("models", *arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    return done.stderr.decode()


# -- show --------------------------------------------------------------------------------------------------------------


def test_show_the_built_in_one() -> None:
    assert _out(ossia_here("models", "show")).splitlines() == [
        f"etude  {ETUDE_PATH}",
        "title         etude",
        "usable        yes",
        "architecture  gpt-oss, 4 layers of 256, 8 experts, 2 for a token, 4 heads of 64, 2 for keys and values",
        "context       4,096 tokens; every other layer sees 128",
        "vocabulary    2,726 tokens",
        "size          5.1 MB",
        "from          built-in",
        "experts       MXFP4 2.5 MB, F32 81.9 kB",
        "attention     Q8_0 836 kB, F32 12.4 kB",
        "router        F32 32.9 kB",
        "norms         F32 9.22 kB",
        "embedding     Q8_0 741 kB",
        "output        Q8_0 741 kB",
    ]


def test_show_a_split_model_as_json(toy: Path) -> None:
    first = split_gguf(toy, paths.data_dir() / "models", "gpt-oss-120b-mxfp4")
    told = json.loads(_out(ossia_here("models", "show", "gpt-oss-120b", "--json")))
    tensors = told.pop("tensors")
    assert told == {
        "version": 1,
        "model": "gpt-oss-120b",
        "path": str(first),
        "from": "ossia",
        "usable": True,
        "problem": None,
        "title": told["title"],
        "architecture": "gpt-oss",
        "layers": 2,
        "embedding": 64,
        "heads": 2,
        "kv_heads": 1,
        "head_size": 32,
        "experts": 4,
        "experts_used": told["experts_used"],
        "window": 128,
        "context": 4096,
        "vocabulary": told["vocabulary"],
        "files": [str(path) for path in sorted(first.parent.iterdir())],
        "bytes": sum(path.stat().st_size for path in first.parent.iterdir()),
    }
    assert [row["group"] for row in tensors][:2] == ["experts", "experts"]
    assert {row["type"] for row in tensors if row["group"] == "experts"} == {"MXFP4", "F32"}
    assert sum(row["count"] for row in tensors) == len(GgufEdit.of(toy).tensors)


def test_show_another_network(toy: Path, tmp_path: Path) -> None:
    edit = GgufEdit.of(toy)
    edit.entries["general.architecture"] = (STRING, text("llama"))
    edit.entries["llama.block_count"] = (U32, (7).to_bytes(4, "little"))
    path = edit.write(tmp_path / "x.gguf")
    shown = _out(ossia_here("models", "show", str(path)), 3).splitlines()
    assert (
        "usable        no: its architecture is 'llama', ossia runs only gpt-oss; "
        "get a whole gpt-oss model: ossia models pull gpt-oss-20b"
    ) in shown
    assert "architecture  llama, 7 layers" in shown
    told = json.loads(_out(ossia_here("models", "show", str(path), "--json"), 3))
    assert (told["usable"], told["problem"].split(",")[0]) == (False, "its architecture is 'llama'")


def test_show_what_has_no_header(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"#!/bin/sh")
    assert "not a GGUF file" in _said("show", str(tmp_path / "x.gguf"), code=3)
    told = json.loads(_out(ossia_here("models", "show", str(tmp_path / "x.gguf"), "--json"), 3))
    assert told.pop("problem").startswith("not a GGUF file")
    assert told == {
        "version": 1,
        "model": "x",
        "path": str(tmp_path / "x.gguf"),
        "from": "path",
        "usable": False,
        "title": None,
        "architecture": None,
        "vocabulary": None,
        "files": [str(tmp_path / "x.gguf")],
        "bytes": 9,
        "tensors": [],
    }
    assert "is a directory" in _said("show", str(tmp_path), code=2)
    assert "no such file" in _said("show", str(tmp_path / "none.gguf"), code=3)
    assert "ossia models pull gpt-oss-20b" in _said("show", "gpt-oss-20b", code=3)


def test_show_a_title_that_is_longer_than_it_should_be(toy: Path, tmp_path: Path) -> None:
    edit = GgufEdit.of(toy)
    edit.entries["general.name"] = (STRING, text("a\nb\x1b]0;x\x07" + "y" * 500))
    path = edit.write(tmp_path / "x.gguf")
    title = _out(ossia_here("models", "show", str(path))).splitlines()[1]
    assert title.startswith("title         a b\x1b]0;x\x07yyy"), "exact into a pipe, but for the line"
    assert len(title) < 100


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("command", ["show", "plan"])
def test_rows_are_wrapped_on_a_terminal(command: str) -> None:
    whole = _out(ossia_here("models", command, "etude")).splitlines()
    child = spawn("models", command, "etude", columns=50)
    rows = child.read().splitlines()
    child.close()
    assert rows[0] == whole[0], "a path is left whole, to be copied"
    assert max(map(len, rows[1:])) <= 50 < max(map(len, whole[1:]))
    indent = " " * (len(whole[1]) - len(whole[1].partition(" ")[2].lstrip()))
    joined = "\n".join(rows).replace(f"\n{indent}", " ").splitlines()
    assert [row for row in joined if not row.startswith("memory")] == [
        row for row in whole if not row.startswith("memory")
    ]


def test_ollama_s_own_form_is_told(toy: Path, home: Path, tmp_path: Path) -> None:
    edit = GgufEdit.of(toy)
    edit.entries["general.architecture"] = (STRING, text("gptoss"))
    folder = home / ".ollama" / "models"
    add(folder, LIBRARY, edit.write(tmp_path / "own.gguf").read_bytes())
    blob = add(folder, HUB, toy.read_bytes())
    assert "Ollama's own form" in _out(ossia_here("models", "show", "gpt-oss:20b"), 3)
    assert _out(ossia_here("models", "path", "gpt-oss-20b")) == f"{blob}\n"
    assert "`ollama rm gpt-oss:20b` removes it there" in _said("rm", "--yes", "gpt-oss:20b", code=2)


def test_mutated_headers(tmp_path: Path) -> None:
    """A hundredth of `python -m tests.oracle.model_headers`."""
    shown = list(show(100, 7, tmp_path))
    assert [one for one in shown if one.wrong and not one.wrong.startswith("it took")] == []
    assert {one.code for one in shown} == set(CODES)


# -- plan --------------------------------------------------------------------------------------------------------------


@without_gpu
def test_the_plan_of_the_built_in_one() -> None:
    shown = _out(ossia_here("models", "plan", "etude", "--context", "1000", "--repack", "off")).splitlines()
    assert shown[:3] == [
        f"etude  {ETUDE_PATH}",
        "context  1,000 of 4,096 tokens, KV cache 1.8 MB as f16",
        "GPU      none that llama.cpp can use",
    ]
    figures = r"memory   [\d.]+ MB, [\d.]+ GB are free: weights 5.0 MB, KV cache 1.8 MB, the rest .*; not repacked"
    assert len(shown) == 4 and re.fullmatch(figures, shown[3]), shown[3]


@without_gpu
def test_the_plan_of_lanes() -> None:
    shown = _out(ossia_here("models", "plan", "etude", "--context", "1000", "--parallel", "4")).splitlines()
    assert shown[1] == "context  1,000 of 4,096 tokens in each of 4 lanes, KV cache 5.2 MB as f16"


@without_gpu
def test_the_plan_as_json(home: Path) -> None:
    flags = ("--kv-type", "q8_0", "--n-cpu-moe", "2", "--parallel", "3")
    told = json.loads(_out(ossia_here("models", "plan", "--json", *flags)))
    assert told["needs"].pop("total") == sum(told["needs"].values())
    assert list(told["needs"]) == ["weights", "kv", "buffers", "own", "repacked"]
    keys = ("version", "model", "context", "parallel", "gpu_layers", "n_cpu_moe", "kv_type", "gpus")
    assert {key: told[key] for key in keys} == {
        "version": 1,
        "model": "etude",
        "context": 4096,
        "parallel": 3,
        "gpu_layers": 0,
        "n_cpu_moe": 2,
        "kv_type": "q8_0",
        "gpus": [],
    }


def test_a_plan_that_can_not_be(toy: Path) -> None:
    assert "must be f16 or q8_0, not 'q4'" in _said("plan", "--kv-type", "q4", code=2)
    assert "ossia models pull gpt-oss-20b" in _said("plan", "gpt-oss-20b", code=3)


# -- path and default --------------------------------------------------------------------------------------------------


def test_the_path_of_a_model(toy: Path) -> None:
    own = _own(toy)
    assert _out(ossia_here("models", "path")) == f"{ETUDE_PATH}\n"
    assert _out(ossia_here("models", "path", "gpt-oss-tuned")) == f"{own}\n"
    assert json.loads(_out(ossia_here("models", "path", "gpt-oss-tuned", "--json"))) == {
        "version": 1,
        "model": "gpt-oss-tuned",
        "path": str(own),
        "from": "ossia",
        "bytes": own.stat().st_size,
    }


def test_the_path_of_a_later_part(toy: Path) -> None:
    first = split_gguf(toy, paths.data_dir() / "models", "gpt-oss-120b-mxfp4")
    third = str(first).replace("-00001-", "-00003-")
    assert _out(ossia_here("models", "path", third)) == f"{first}\n"
    assert json.loads(_out(ossia_here("models", "path", third, "--json")))["path"] == str(first)
    first.unlink()
    assert f"{third} is part of a split model, but {first} is missing" in _said("path", third, code=3)


@pytest.mark.parametrize("command", ["show", "plan", "path", "default"])
def test_an_empty_name(command: str) -> None:
    assert "must not be empty" in _said(command, "", code=2)


@pytest.mark.skipif(sys.platform == "win32", reason="needs files with holes")
def test_gpus_count_as_they_do_in_a_run(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = _own(toy, "gpt-oss-20b-mxfp4.gguf")
    inflated_gguf(toy, large)
    monkeypatch.setattr("ossia.agent.engine.llama.gpu_memory", lambda: GpuMemory((10**12,)))
    monkeypatch.setattr("ossia.agent.models.memory.read_memory", lambda gpus: Memory(10**12, gpus.free))
    assert _out(ossia_here("models", "path")) == f"{large}\n"
    assert _out(ossia_here("models", "show")).startswith(f"gpt-oss-20b  {large}\n")
    assert json.loads(_out(ossia_here("models", "plan", "--json")))["path"] == str(large)
    assert " 236.2 GB  yes   ossia " in _out(ossia_here("models", "list"))


def test_the_default_is_written_into_the_config(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = _own(toy)
    config = paths.config_file()
    assert _said("default", "gpt-oss-tuned", code=0) == f'ossia: {config}: model = "gpt-oss-tuned"\n'
    assert config.read_text() == 'model = "gpt-oss-tuned"\n'
    assert _out(ossia_here("models", "path")) == f"{own}\n"
    monkeypatch.setenv("OSSIA_MODEL", "etude")
    said = _said("default", "gpt-oss-tuned", code=0)
    assert said == f'ossia: {config}: model = "gpt-oss-tuned"; OSSIA_MODEL is set and overrides it\n'


def test_a_default_that_can_not_be_used_is_not_written(tmp_path: Path) -> None:
    assert "ossia models pull gpt-oss-20b" in _said("default", "gpt-oss-20b", code=3)
    (tmp_path / "x.gguf").write_bytes(b"x")
    assert "not a GGUF file" in _said("default", str(tmp_path / "x.gguf"), code=3)
    assert not paths.config_file().exists()


def test_a_default_in_this_folder_is_found_from_any_other(toy: Path, tmp_path: Path) -> None:
    shutil.copy(toy, tmp_path / "x.gguf")
    done = ossia_here("models", "default", "x.gguf", cwd=tmp_path)
    assert done.returncode == 0
    assert str(tmp_path / "x.gguf") in paths.config_file().read_text()


# -- rm ----------------------------------------------------------------------------------------------------------------


def test_removed_without_asking(toy: Path) -> None:
    first = split_gguf(toy, paths.data_dir() / "models", "gpt-oss-120b-mxfp4")
    other = _own(toy)
    parts = sorted(first.parent.glob("*-of-*"), reverse=True)  # the first one last: the rest is found by it
    assert _said("rm", "--yes", "gpt-oss-120b", code=0) == "".join(f"ossia: removed {path}\n" for path in parts)
    assert list(first.parent.iterdir()) == [other]


def test_nothing_is_removed_where_nobody_can_be_asked(toy: Path) -> None:
    own = _own(toy)
    said = _said("rm", "gpt-oss-tuned", code=2)
    assert said == f"{own}\nossia: error: rm: there is no terminal to ask on: --yes removes without asking\n"
    assert own.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_it_asks(toy: Path) -> None:
    own = _own(toy)
    for answer, left in (("", True), ("y", False)):
        child = spawn("models", "rm", "gpt-oss-tuned")
        child.expect_exact("? [y/N] ")
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert (child.exitstatus, own.exists()) == (0, left)


def test_a_partial_download_is_removed() -> None:
    part = paths.data_dir() / "models" / "gpt-oss-20b-mxfp4.gguf.0123456789ab.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x")
    assert _said("rm", "--yes", "gpt-oss-20b", code=0) == f"ossia: removed {part}\n"


def test_what_another_program_owns_stays(
    toy: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "llama"))
    snapshot = home / ".cache/huggingface/hub/models--ggml-org--gpt-oss-20b-GGUF/snapshots/0/gpt-oss-20b.gguf"
    studio = home / ".lmstudio/models/someone/gpt-oss-x-GGUF/gpt-oss-x.gguf"
    llama, elsewhere = tmp_path / "llama/gpt-oss-y.gguf", tmp_path / "my own.gguf"
    for path in (snapshot, studio, llama, elsewhere):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(toy, path)
    for model, how in (
        ("gpt-oss-20b", "`hf cache rm model/ggml-org/gpt-oss-20b-GGUF` removes it there"),
        (str(snapshot), "`hf cache rm model/ggml-org/gpt-oss-20b-GGUF` removes it there"),
        ("gpt-oss-x", "LM Studio's; remove it there, under My Models"),
        ("gpt-oss-y", f"`rm {llama}` removes it there"),
        (str(elsewhere), f"wasn't downloaded by ossia; `rm '{elsewhere}'` removes it"),
        ("etude", "étude is a part of ossia, and stays"),
    ):
        assert how in _said("rm", "--yes", model, code=2)
    assert all(path.exists() for path in (snapshot, studio, llama, elsewhere))


def test_a_link_in_our_folder_is_removed_and_not_what_it_leads_to(toy: Path, tmp_path: Path) -> None:
    target = tmp_path / "gpt-oss-x.gguf"
    shutil.copy(toy, target)
    link = paths.data_dir() / "models" / "gpt-oss-x.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    assert _said("rm", "--yes", "gpt-oss-x", code=0) == f"ossia: removed {link}\n"
    assert target.exists()


def test_a_link_to_ours_from_elsewhere_stays(toy: Path, tmp_path: Path) -> None:
    own, link = _own(toy), tmp_path / "gpt-oss-x.gguf"
    link.symlink_to(own)
    assert "wasn't downloaded by ossia" in _said("rm", "--yes", str(link), code=2)
    assert link.is_symlink()
    assert own.exists()
