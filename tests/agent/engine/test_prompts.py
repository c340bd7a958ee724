"""The static parts of prompts on disk: a later process reads only what is its own, and nothing else is kept."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Prompt, Static, Task
from ossia.agent.engine.llama import LlamaEngine
from ossia.agent.engine.prompts import StoredPrompts, stored_in
from ossia.agent.engine.stored import About, inspect, take
from tests.support.engines import ETUDE, GREEDY, Logits, fresh_logits, load_engine, prefill

SYSTEM, HEAD = tuple(range(100, 400)), tuple(range(100, 640))
"""What the system message has, and with the developer message: both are longer than the window."""
PARTS = (Static(len(SYSTEM)), Static(len(HEAD), personal=True))


def _prompt(*own: int, head: tuple[int, ...] = HEAD) -> Prompt:
    ids = (*head, *own)
    return Prompt(ids, (len(SYSTEM), len(head), len(ids)), (PARTS[0], Static(len(head), personal=True)))


_NOISE = 0.4
"""Between two ways to cut a prompt into batches: 0.13 to 0.24 measured; with one id of 555 changed 0.75."""
FIRST, SECOND = _prompt(*range(700, 720)), _prompt(*range(800, 815))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kv"


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., LlamaEngine]]:
    """A process after another, as far as an engine can tell."""
    engines = []

    def begin(*, writes: bool = True, max_bytes: int = 64 << 20, context: int = 2048) -> LlamaEngine:
        engine = load_engine(ETUDE, context_tokens=context, step_tokens=64)
        engine.prompts = StoredPrompts(folder, max_bytes=max_bytes, writes=writes)
        engines.append(engine)
        return engine

    yield begin
    for engine in engines:
        engine.close()


def _answer(engine: LlamaEngine, prompt: Prompt) -> tuple[list[int], int]:
    """Greedy ids, and how many ids of the prompt needed no reading."""
    generation = engine.generate(Task(prompt, max_tokens=24, sampling=GREEDY), control=Control())
    ids = [item for item in generation if isinstance(item, int)]
    return ids, generation.stats.reused_tokens


def _distance(one: Logits, other: Logits) -> float:
    return float(abs(one - other).max())


def _lengths(folder: Path) -> list[int]:
    return sorted(int(one.name.split("-")[1]) for one in folder.glob("prompt-*"))


def test_a_later_process_reads_only_what_is_its_own(folder: Path, start: Callable[..., LlamaEngine]) -> None:
    before = start()
    _answer(before, FIRST)
    assert before.save_prompts() > 0
    expected, _ = _answer(before, SECOND)
    after = start()
    assert _answer(after, SECOND) == (expected, len(HEAD))
    other = _prompt(*range(900, 930), head=(*SYSTEM, *range(1000, 1100)))  # other instructions
    assert _answer(start(), other)[1] == len(SYSTEM)
    assert _lengths(folder) == [len(SYSTEM), len(HEAD)]
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, *sorted(folder.glob("*")))] == [0o700] * 3
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.glob("*/*")} == {0o600}


def test_nothing_behind_the_static_part_reaches_the_disk(folder: Path, start: Callable[..., LlamaEngine]) -> None:
    """The same bytes, whatever was asked and answered after it."""
    written = []
    for prompt in (FIRST, SECOND):
        engine = start()
        _answer(engine, prompt)
        engine.save_prompts()
        written.append({file.relative_to(folder): file.read_bytes() for file in folder.glob("*/*")})
        shutil.rmtree(folder)
    assert len(written[0]) == 4 and written[0] == written[1]


def test_the_file_says_whether_texts_of_the_users_are_in_it(folder: Path, start: Callable[..., LlamaEngine]) -> None:
    engine = start()
    _answer(engine, FIRST)
    engine.save_prompts()
    found = {one.name.split("-")[1]: inspect(one) for one in folder.glob("prompt-*")}
    assert {name: about and (about[0].personal, about[0].model, about[1]) for name, about in found.items()} == {
        "300": (False, "etude", 300),
        "540": (True, "etude", 540),
    }


def test_where_nothing_may_be_written_what_is_there_is_read(folder: Path, start: Callable[..., LlamaEngine]) -> None:
    silent = start(writes=False)
    _answer(silent, FIRST)
    assert silent.save_prompts() == 0
    silent.prefill(SECOND, control=Control())
    assert silent.prompts is not None and not silent.prompts.wants(HEAD, silent.native.fingerprint)
    under_way = take(silent.lane.cache, silent.memory, About("any", "etude", False), max_bytes=64 << 20)
    assert under_way is not None and silent.prompts.add(under_way) == 0  # it became private meanwhile
    silent.close()
    assert not folder.exists()
    writer = start()
    _answer(writer, FIRST)
    writer.save_prompts()
    for one in folder.iterdir():
        os.utime(one, (1, 1))
    assert _answer(start(writes=False), SECOND)[1] == len(HEAD)
    assert {one.stat().st_mtime for one in folder.iterdir()} == {1}


def test_a_copy_is_what_llama_cpp_would_write(tmp_path: Path, start: Callable[..., LlamaEngine]) -> None:
    engine = start()
    _answer(engine, FIRST)
    ids = engine.lane.cache.ids
    assert engine.memory.save_state(tmp_path / "state", ids)
    assert engine.memory.copy_state(ids) == (tmp_path / "state").read_bytes()


# -- what is wrong with it is as if it weren't there -------------------------------------------------------------------


def _each_file(change: Callable[[Path], object]) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        for file in folder.glob("*/state"):
            change(file)

    return harm


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _to_another_user(folder: Path) -> None:
    if sys.platform == "win32" or os.getuid() != 0:
        pytest.skip("only root can give files away")
    for one in folder.iterdir():
        os.chown(one, 12345, 12345)


def _as_link(folder: Path) -> None:
    for one in list(folder.iterdir()):
        elsewhere = folder.parent / one.name
        one.rename(elsewhere)
        one.symlink_to(elsewhere)


HARMS: dict[str, tuple[Callable[[Path], object], bool]] = {
    "cut": (_each_file(lambda file: file.write_bytes(file.read_bytes()[:-100])), True),
    "flipped": (_each_file(_flip), True),
    "empty": (_each_file(lambda file: file.write_bytes(b"")), True),
    "gone": (_each_file(Path.unlink), True),
    "another user's": (_to_another_user, False),
    "links": (_as_link, False),
    "open to all": (lambda folder: folder.chmod(0o777), False),
    "a file in its place": (lambda folder: (shutil.rmtree(folder), folder.touch()), False),
}
"""What is done to the folder, and whether the next process puts it right: ours that is torn."""


@pytest.mark.parametrize(("harm", "mended"), HARMS.values(), ids=HARMS.keys())
@pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are POSIX's")
def test_the_answer_is_the_same(
    harm: Callable[[Path], object], mended: bool, folder: Path, start: Callable[..., LlamaEngine]
) -> None:
    before = start()
    _answer(before, FIRST)
    before.save_prompts()
    expected, _ = _answer(before, SECOND)
    harm(folder)
    after = start()
    assert _answer(after, SECOND) == (expected, 0)
    after.save_prompts()
    assert _answer(start(), SECOND) == (expected, len(HEAD) if mended else 0)


def test_another_model_another_build_and_a_small_context_have_no_use_for_it(
    folder: Path, start: Callable[..., LlamaEngine]
) -> None:
    before = start()
    _answer(before, FIRST)
    before.save_prompts()
    other = start()
    other.native.fingerprint += " of another build"
    assert _answer(other, SECOND)[1] == 0
    other.save_prompts()
    assert len(_lengths(folder)) == 4  # beside the first one's
    assert _answer(start(), SECOND)[1] == len(HEAD)


def test_a_folder_that_cannot_be_written_is_no_harm(tmp_path: Path, start: Callable[..., LlamaEngine]) -> None:
    engine = start()
    assert engine.prompts is not None
    (tmp_path / "file").touch()
    engine.prompts.folder = tmp_path / "file" / "kv"
    ids, _ = _answer(engine, FIRST)
    assert engine.save_prompts() == 0
    assert _answer(engine, FIRST)[0] == ids


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
def test_a_full_disk_leaves_nothing_behind(folder: Path, start: Callable[..., LlamaEngine]) -> None:
    """A limit on the size of files stands for it: writing fails in the middle of one."""
    import resource
    import signal

    engine = start()
    _answer(engine, FIRST)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        assert engine.save_prompts() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(folder.iterdir()) == []


def test_two_that_write_the_same_leave_one(folder: Path, start: Callable[..., LlamaEngine]) -> None:
    one, other = start(), start()
    for engine in (one, other):
        _answer(engine, FIRST)
    assert one.prompts is not None and other.prompts is not None
    one.prompts.wants = other.prompts.wants = lambda ids, fingerprint: True  # type: ignore[method-assign]
    assert one.save_prompts() > 0
    assert other.save_prompts() == 0
    assert _lengths(folder) == [len(SYSTEM), len(HEAD)] and len(list(folder.iterdir())) == 2
    assert _answer(start(), SECOND)[1] == len(HEAD)


# -- room --------------------------------------------------------------------------------------------------------------


def test_those_that_were_not_used_for_longest_go(folder: Path, start: Callable[..., LlamaEngine]) -> None:
    engine = start()
    assert engine.prompts is not None
    size = 0
    for number in range(4):
        prompt = _prompt(7, head=(*SYSTEM, *range(1000 + 300 * number, 1300 + 300 * number)))
        _answer(engine, prompt)
        engine.save_prompts()
        size = max(bytes_ for _, bytes_, _ in stored_in(folder, prompts=True))
        for one in folder.iterdir():
            os.utime(one, (number, number)) if one.stat().st_mtime > 100 else None
    assert len(_lengths(folder)) == 5
    engine.prompts.max_bytes = 3 * size
    _answer(engine, FIRST)
    engine.save_prompts()
    assert len(_lengths(folder)) == 3
    assert _answer(start(), FIRST)[1] == len(HEAD)  # the newest is still there


def test_what_a_crash_left_goes_in_time(folder: Path, start: Callable[..., LlamaEngine]) -> None:
    old, new = folder / "prompt-5-aa.x1.new", folder / "prompt-5-aa.x2.new"
    for one in (old, new):
        one.mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    os.utime(old, (1, 1))
    engine = start()
    _answer(engine, FIRST)
    engine.save_prompts()
    assert not old.exists() and new.exists()


# -- reading ahead -----------------------------------------------------------------------------------------------------


def test_what_is_read_ahead_is_kept_and_the_rest_is_not_read_again(
    folder: Path, start: Callable[..., LlamaEngine]
) -> None:
    engine = start()
    steps: list[Progress] = []
    ahead = Prompt((*HEAD, *SECOND.ids[540:545]), (len(SYSTEM), len(HEAD)), PARTS)
    engine.prefill(ahead, control=Control(), on_progress=steps.append)
    assert engine.prompts is not None
    engine.prompts.close()
    assert _lengths(folder) == [len(SYSTEM), len(HEAD)]
    assert [steps[0].done, steps[-1].done] == [0, 545] and len(steps) > 10  # in short batches
    assert engine.lane.cache.checkpoint_lengths == (len(SYSTEM), len(HEAD))
    again: list[Progress] = []
    engine.prefill(ahead, control=Control(), on_progress=again.append)
    assert again == []
    logits, reused = prefill(engine, SECOND)
    assert reused == 545 and _distance(logits, fresh_logits(ETUDE, SECOND.ids)) < _NOISE


@pytest.mark.parametrize("batches", [0, 1, 3, 7])
def test_a_stop_loses_only_the_batch_under_way(batches: int, start: Callable[..., LlamaEngine]) -> None:
    engine, control = start(), Control()
    steps: list[Progress] = []

    def told(progress: Progress) -> None:
        steps.append(progress)
        if len(steps) > batches:
            control.stop()

    engine.prefill(SECOND, control=control, on_progress=told)
    engine.native.new_abort_flag()  # as each generation begins
    logits, reused = prefill(engine, SECOND)
    assert reused == steps[-1].done and _distance(logits, fresh_logits(ETUDE, SECOND.ids)) < _NOISE
