"""What compares other builds of llama.cpp: on two of the processor, since no other one is at hand."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing

import pytest

from tests.backends.beside import Other, alike, main
from tests.support.command import ROOT

SCRIPT = ROOT / "tests" / "backends" / "vulkan.sh"


def test_what_another_build_answers_is_compared_id_by_id() -> None:
    with closing(Other(sys.executable)) as other:
        tally = alike(other, 2)
        wrong = _Wrong(other)
        assert (tally.prompts, tally.compared_tokens, tally.partings) == (2, 96, [])
        assert alike(wrong, 1).faults


class _Wrong:
    """The same, whose third id is another one."""

    def __init__(self, other: Other) -> None:
        self._other = other

    def greedy(self, ids: list[int], count: int) -> list[int]:
        right = self._other.greedy(ids, count)
        return [*right[:2], right[2] ^ 1, *right[3:]]


def test_a_build_that_sees_no_gpu_is_none_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    from ossia.agent.engine.llama import build

    if build().gpus:
        pytest.skip("this build sees a GPU")
    assert main([sys.executable, "1"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {sys.executable} sees no GPU; it was compiled for ['CPU'")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_says_what_it_does() -> None:
    said = subprocess.run(["bash", SCRIPT, "--help"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("Compiles llama.cpp for Vulkan (or CUDA)") and "bash tests/backends/vulkan.sh" in said
    other = subprocess.run(["bash", SCRIPT, "metal"], capture_output=True, text=True, check=False)
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr == "error: expected vulkan, cuda or nothing, not metal: see --help\n"
