"""Which confinement is chosen, what it says of itself, and the parts it is made of."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.tools import sandbox
from ossia.tools._scratch import Scratch
from ossia.tools.python._kernel import Kernel
from ossia.tools.python.tool import PythonTool
from ossia.tools.sandbox import PYTHON_LIMITS, Job, Unconfined, _seatbelt, _seccomp, hostile_folder
from ossia.tools.sandbox._bwrap import Bwrap, find
from ossia.tools.sandbox._landlock import Landlock
from ossia.tools.sandbox.usage import Usage, usage_in_all, usage_of_folders
from tests.support.jobs import homes, job_in
from tests.support.kernels import BACKENDS, NO_BWRAP, confinement, run, shell_confinement

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


# -- choosing ----------------------------------------------------------------------------------------------------------


@pytest.mark.needs_bwrap
def test_bubblewrap_is_the_first_choice() -> None:
    found = confinement("bwrap")
    assert (found.name, found.reason, found.data_path) == ("bwrap", "", "/mnt/data")


@linux_only
def test_without_bubblewrap_landlock_and_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    confinement("landlock")
    interpreter = sandbox.inspect()
    monkeypatch.setenv("PATH", str(tmp_path))
    found = sandbox.choose(interpreter)
    assert found.name == "landlock"
    assert found.reason == "bubblewrap isn't installed (package `bubblewrap`)"
    assert f"why: {found.reason}" in found.describe()


@linux_only
def test_a_bwrap_of_the_folder_one_stands_in_is_never_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It would run unconfined, to confine; and one of a project's own `bin` comes behind the system's."""
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in (":", ".:", "bin::/nowhere"):
        monkeypatch.setenv("PATH", path)
        assert find() is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find() == str(tmp_path / "bwrap")
    if os.access("/usr/bin/bwrap", os.X_OK):
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
        assert find() == "/usr/bin/bwrap"


@linux_only
@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("bwrap: setting up uid map: Permission denied", "AppArmor profile"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor profile"),
        ("bwrap: No permissions to create new namespace", "AppArmor profile"),
        ("bwrap: Unknown option --disable-userns", "0.8 or later"),
    ],
)
def test_a_bubblewrap_that_does_not_work_is_named_with_its_fix(tmp_path: Path, said: str, advice: str) -> None:
    broken = program(tmp_path / "bwrap", f"echo '{said}' >&2; exit 1")
    found = sandbox.choose(sandbox.inspect(), bwrap=broken, allow_landlock=False)
    assert found.name == "off"
    assert said in found.reason and advice in found.reason and "--unconfined" in found.reason


@pytest.mark.needs_bwrap
def test_an_older_bubblewrap_does_without_the_flag(tmp_path: Path) -> None:
    real = confinement("bwrap")
    assert isinstance(real, Bwrap)
    older = program(
        tmp_path / "bwrap",
        'for word in "$@"; do [ "$word" = --disable-userns ] && '
        f"{{ echo 'bwrap: Unknown option --disable-userns' >&2; exit 1; }}; done\nexec {real.program} \"$@\"",
    )
    assert sandbox.choose(sandbox.inspect(), bwrap=older) == Bwrap("python", program=Path(older), nested=False)


@linux_only
def test_with_nothing_it_is_off_unless_asked_for() -> None:
    interpreter = sandbox.inspect()
    off = sandbox.choose(interpreter, bwrap=NO_BWRAP, allow_landlock=False)
    assert (off.name, off.confines, off.gaps) == ("off", (), ())
    assert "--unconfined" in off.reason
    unconfined = sandbox.choose(interpreter, unconfined=True)
    assert unconfined.name == "unconfined"
    assert "everything" in unconfined.gaps[0] and "--unconfined" in unconfined.reason


@pytest.mark.parametrize(("platform", "name"), [("win32", "off"), ("freebsd14", "off")])
def test_other_systems(monkeypatch: pytest.MonkeyPatch, platform: str, name: str) -> None:
    interpreter = sandbox.inspect()
    monkeypatch.setattr(sys, "platform", platform)
    found = sandbox.choose(interpreter)
    assert found.name == name
    assert ("WSL2" in found.reason) == (platform == "win32")
    assert sandbox.choose(interpreter, unconfined=True).name == ("off" if platform == "win32" else "unconfined")


def test_unconfined_runs_and_says_so(tmp_path: Path) -> None:
    tool = PythonTool(data_dir=tmp_path, confinement=sandbox.choose(sandbox.inspect(), unconfined=True))
    try:
        outside = tmp_path / "outside"
        assert run(tool, f"open({str(outside)!r}, 'w').write('x'); print('/mnt/data')").text == "/mnt/data"
        assert outside.read_text() == "x"
    finally:
        tool.close()


@pytest.mark.parametrize(
    "found", [Bwrap("python", program=Path("bwrap")), Landlock("python", abi=7), _seatbelt.Seatbelt("python"),
              Unconfined("python")]
)
def test_each_says_what_it_does_not_hold(found: sandbox.Confinement) -> None:
    text = found.describe()
    assert text.startswith(f"python: {found.name}\n")
    assert [gap for gap in found.gaps if f"  not confined: {gap}" not in text.splitlines()] == []
    assert found.gaps and (found.confines or found.name == "unconfined")


@linux_only
def test_as_root_the_weaker_limit_on_processes_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    for uid, said in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        for found in (Bwrap("python", program=Path("bwrap")), Landlock("python", abi=7)):
            assert any("as root" in gap for gap in found.gaps) == said


def test_an_old_landlock_names_signals() -> None:
    assert any("signalled" in gap for gap in Landlock("python", abi=4).gaps)
    assert not any("signalled" in gap for gap in Landlock("python", abi=7).gaps)


# -- the interpreter ---------------------------------------------------------------------------------------------------


def test_what_our_interpreter_needs() -> None:
    ours = sandbox.inspect()
    assert ours.executable == Path(sys.executable)
    assert all(root.exists() for root in ours.roots)
    assert Path("/") not in ours.roots and Path(sys.prefix) not in ours.roots
    assert any((folder / "ipykernel").is_dir() for folder in ours.site)


def test_the_kernels_packages_are_compiled_once(tmp_path: Path) -> None:
    """The confined kernel can't write bytecode: without it, each start would compile everything again."""
    packages = ("ipykernel", "tornado", "tornado/platform", "zmq", "traitlets", "IPython")
    names = [*(f"{name}/__init__" for name in packages), "tornado/platform/asyncio",
             *(f"ipykernel/{part}" for part in ("kernelapp", "zmqshell", "ipkernel", "debugger"))]  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.py").touch()
    code = (f"import sys; sys.path += [{str(tmp_path)!r}, {str(Path(__file__).parents[3])!r}]\n"
            "from ossia.tools.sandbox import inspect; print(inspect().site)")  # fmt: skip
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"({tmp_path!r},)\n"
    assert (tmp_path / "ipykernel" / "__pycache__" / f"ipkernel.{sys.implementation.cache_tag}.pyc").exists()


# -- the parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("strength", ["bwrap", "landlock"])
def test_the_filter_is_a_program(machine: str, strength: _seccomp.Strength) -> None:
    """Jumps stay inside, and forward; the end is an answer: what the kernel checks as well."""
    for given in ({}, {"unix": False}, {"network": True}):
        program_ = _seccomp.build(strength, machine, **given)
        count, rest = divmod(len(program_), 8)
        assert rest == 0 and 0 < count < 4096
        instructions = [program_[8 * i : 8 * i + 8] for i in range(count)]
        for index, (code, _, if_true, if_false, *_) in enumerate(instructions):
            if code & 0x07 == 0x05:
                assert index + 1 + max(if_true, if_false) < count
        assert instructions[-1] == b"\x06\0\0\0" + (0x7FFF0000).to_bytes(4, "little")


def test_a_machine_without_a_filter() -> None:
    with pytest.raises(ValueError, match="no seccomp filter for 'riscv64'"):
        _seccomp.build("bwrap", "riscv64")


def test_the_profile_for_macos(tmp_path: Path) -> None:
    """Not run here: that it names what may be read and written, and quotes it."""
    job = Job(tmp_path / 'da"ta', tmp_path, PYTHON_LIMITS, sandbox.inspect())
    text = _seatbelt.profile(job)
    assert text.splitlines()[:2] == ["(version 1)", "(deny default)"]
    assert text.count("(") == text.count(")")
    writes = next(line for line in text.splitlines() if line.startswith("(allow file-write*"))
    assert 'da\\"ta' in writes and str(job.fixed) not in writes


def test_a_filter_or_a_bubblewrap_that_fails_is_not_run_without(tmp_path: Path) -> None:
    """The kernel that can't be confined isn't started in another way: the call says why."""
    broken = program(tmp_path / "bwrap", "echo 'bwrap: no' >&2; exit 1")
    tool = PythonTool(data_dir=tmp_path, confinement=Bwrap("python", program=Path(broken)))
    try:
        ran = run(tool, "1")
        assert (ran.text, ran.result.error) == ("[ERROR] the kernel didn't start: exit status 1: bwrap: no", True)
    finally:
        tool.close()


@linux_only
def test_usage_of_a_folder_at_any_depth(tmp_path: Path) -> None:
    here = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(60):  # far beyond the length that a path can have
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
        Path("file").write_bytes(bytes(1 << 20))
        Path("file").chmod(0o4755)
    finally:
        os.chdir(here)
    before = _open_descriptors()
    used = usage_of_folders((tmp_path,))
    assert used.data_files == 61 and used.data_bytes >= 1 << 20
    assert hostile_folder.clear_setid_bits(tmp_path) == 1
    assert _open_descriptors() <= before  # a thread of another test may have closed one


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_usage_of_all_processes() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60"], start_new_session=True) as shell:
        try:
            while usage_in_all(shell.pid, 1 << 40, 100).processes < 3:
                assert shell.poll() is None
            assert usage_in_all(shell.pid, 1 << 40, 100).memory_bytes > 100_000
        finally:
            os.killpg(shell.pid, 9)


@pytest.mark.parametrize(
    ("used", "before", "why"),
    [
        (Usage(), Usage(), ""),
        (Usage(memory_bytes=5 << 30), Usage(), "used more than 4.0 GB of memory"),
        (Usage(processes=257), Usage(), "ran more than 256 processes and threads"),
        (Usage(data_bytes=3 << 30), Usage(), "wrote more than 2.0 GB: delete files in /mnt/data first"),
        (Usage(data_bytes=3 << 30), Usage(data_bytes=3 << 30), ""),
        (Usage(data_files=100_200), Usage(), "made more than 100000 files: delete files in /mnt/data first"),
        (Usage(data_files=100_200), Usage(data_files=100_150), ""),
    ],
)
def test_which_limit_is_broken(used: Usage, before: Usage, why: str) -> None:
    assert used.breach(PYTHON_LIMITS, before) == why


def test_the_machine_keeps_some_memory() -> None:
    limits, least = replace(PYTHON_LIMITS, available_bytes=1 << 50), 1 << 50
    said = "left the machine less than 1048576.0 GB of memory"
    assert [Usage(available_bytes=now).breach(limits, Usage(available_bytes=before)) for now, before in [
        (least, 2 * least), (least - 1, 2 * least),  # whoever took it
        (least // 2 - (256 << 20), least // 2), (least // 2 - (257 << 20), least // 2),  # too little at the start
    ]] == ["", said, "", said]  # fmt: skip


def test_nothing_heavy_is_imported_before_a_kernel_starts() -> None:
    heavy = ("zmq", "jupyter_client", "IPython", "psutil", "filelock")
    code = f"import sys, ossia.tools.python.tool, ossia.tools.sandbox; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[3])  # fmt: skip
    assert done.stdout == "[]\n"


def test_a_tree_deeper_than_python_recurses_is_removed(tmp_path: Path) -> None:
    """What the model's code can leave in the kernel's folder must not break its end."""
    folder = tmp_path / "run"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    hostile_folder.remove(folder)
    assert not folder.exists()


# -- a start whose program ended meanwhile -----------------------------------------------------------------------------


@linux_only
@pytest.mark.parametrize("name", BACKENDS)
def test_a_command_whose_program_has_gone_never_runs(name: str, tmp_path: Path) -> None:
    """The confinement ends with the program that starts it only from its own start on."""
    found = shell_confinement(name)
    with homes() as (home, workspace), closing(Scratch()) as scratch:
        job = job_in(home, workspace, scratch=scratch.path, command="touch ran; sleep 600")
        launch = found.launch(job)
        ours, theirs = socket.socketpair()
        ours.close()
        with theirs, subprocess.Popen(
            launch.command, env=launch.env, pass_fds=launch.fds, stdin=theirs, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                assert process.wait(20) != 0
            finally:
                process.kill()
        for fd in launch.fds:
            os.close(fd)
        assert not list(workspace.iterdir()) or name == "landlock"


@linux_only
@pytest.mark.parametrize("name", BACKENDS)
def test_a_kernel_whose_program_has_gone_ends(name: str, tmp_path: Path) -> None:
    found, interpreter = confinement(name), sandbox.inspect()
    with closing(Kernel(found, interpreter, data=tmp_path, limits=PYTHON_LIMITS)) as kernel:
        kernel.process.kill()
        for left in kernel.job.sockets.iterdir():
            left.unlink()
        launch = found.launch(kernel.job)
        reader, writer = os.pipe()
        os.close(reader)
        with subprocess.Popen(
            launch.command, env=launch.env, pass_fds=launch.fds, stdin=subprocess.DEVNULL, stderr=writer,
            stdout=subprocess.DEVNULL, start_new_session=True,
        ) as process:  # fmt: skip
            os.close(writer)
            try:
                assert process.wait(20) != 0
            finally:
                process.kill()
        for fd in launch.fds:
            os.close(fd)
