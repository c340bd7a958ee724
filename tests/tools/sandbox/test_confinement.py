"""The attack list of spec tools §4, rows 17–26, under each confinement; where Landlock holds less, that is asserted."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.tools.python.tool import NO_OUTPUT, PythonTool
from ossia.tools.sandbox import PYTHON_LIMITS, _cgroup, _seccomp, hostile_folder
from ossia.tools.sandbox.usage import available_bytes, own_memory_bytes, usage_of_folders
from tests.support.floods import flood
from tests.support.kernels import BACKENDS, confinement, descendants, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")

MIB = 1 << 20
SECRET = "a-secret-of-the-user"
ROOT = os.geteuid() == 0
LIMITS = replace(
    PYTHON_LIMITS, address_space_bytes=700 * MIB, memory_bytes=700 * MIB, processes=120, data_bytes=48 * MIB,
    data_files=1000, file_bytes=24 * MIB,
)  # fmt: skip
PRELUDE = """
import ctypes, os, socket, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what):
    try:
        return f"DONE {what()!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
def put(place, data='x'):
    with open(place, 'ab') as file:
        file.write(data if isinstance(data, bytes) else data.encode())
def call(number, *arguments):
    ctypes.set_errno(0)
    if libc.syscall(ctypes.c_long(number), *arguments) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""


@pytest.fixture(scope="module", params=BACKENDS)
def tool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonTool]:
    found = confinement(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSSIA_SECRET", SECRET)
        made = PythonTool(data_dir=tmp_path_factory.mktemp("s"), confinement=found, timeout_s=60, limits=LIMITS)
        yield made
        made.close()


under_the_strongest = pytest.mark.parametrize("tool", [""], ids=["strongest"], indirect=True, scope="module")
"""For what is watched and taken in outside: it is the same under each confinement."""


@pytest.fixture
def attack(tool: PythonTool) -> Iterator[PythonTool]:
    """The tool with the prelude loaded, in a kernel that may have been restarted since."""
    assert run(tool, PRELUDE).text.endswith(NO_OUTPUT)
    yield tool
    assert "2" in run(tool, "1+1").text  # whatever the attack did, the next call works


def landlocked(tool: PythonTool) -> bool:
    return tool.confinement.name == "landlock"


def tried(tool: PythonTool, *expressions: str) -> list[str]:
    """What each expression came to inside: `DONE value` or `Error: text`."""
    lines = [f"print(attempt(lambda: {expression}))" for expression in expressions]
    text = run(tool, "\n".join(lines)).text.splitlines()
    assert len(text) == len(expressions), text
    return text


def none_was_done(answers: list[str]) -> bool:
    return not any(answer.startswith("DONE") for answer in answers)


# -- hostile row 17: what the user has ---------------------------------------------------------------------------------


def test_attributes_beside_the_content_are_neither_read_nor_set(attack: PythonTool, tmp_path: Path) -> None:
    """Landlock knows nothing of them; a program's flags can be set through an open that only reads."""
    file = tmp_path / "download.txt"
    file.write_text("x")
    with contextlib.suppress(OSError):  # not every file system has them
        os.setxattr(file, "user.xdg.origin.url", b"https://bank.example/doc")
    python = "__import__('sys').executable"
    answers = tried(
        attack,
        f"os.getxattr({str(file)!r}, 'user.xdg.origin.url')",
        f"os.listxattr({str(file)!r})",
        f"__import__('fcntl').ioctl(os.open({python}, os.O_RDONLY), 0x40086602, b'\\x40' + bytes(7))",
    )
    assert none_was_done(answers), answers
    copied = "__import__('shutil').copy2('/mnt/data/a', '/mnt/data/b')"
    assert run(attack, f"put('/mnt/data/a'); {copied}; print(Path('/mnt/data/b').read_text())").text == "x"


def test_files_of_the_user_are_not_readable(attack: PythonTool, tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text(SECRET)
    answers = tried(
        attack,
        f"open({str(tmp_path / 'id_rsa')!r}).read()",
        f"os.listdir({str(tmp_path)!r})",
        "open('/etc/shadow').read()",
        "open('/root/.bashrc').read()",
        f"open({__file__!r}).read()",
        f"os.link({str(tmp_path / 'id_rsa')!r}, 'linked')",
        f"os.rename({str(tmp_path / 'id_rsa')!r}, 'moved')",
    )
    assert none_was_done(answers), answers
    assert (tmp_path / "id_rsa").read_text() == SECRET


def test_the_environment_is_clean(attack: PythonTool) -> None:
    text = run(
        attack,
        "for p in ['/proc/self/environ', '/proc/1/environ', *map(str, Path('/proc').glob('[0-9]*/environ'))]:\n"
        "    print(p, attempt(lambda: open(p).read()))\nprint(sorted(os.environ))",
    ).text
    assert SECRET not in text and "JPY_PARENT_PID" not in text and "OSSIA" not in text
    assert "DONE" in text  # its own


def test_other_processes_cannot_be_looked_into(attack: PythonTool) -> None:
    mine = os.getpid()
    files = [f"open('/proc/{mine}/{name}', 'rb').read(10)" for name in ("environ", "cmdline", "maps", "mem")]
    answers = tried(attack, *files, f"os.listdir('/proc/{mine}/fd')", f"os.readlink('/proc/{mine}/cwd')")
    assert none_was_done(answers), answers
    listing = tried(attack, "[n for n in os.listdir('/proc') if n.isdigit()]")[0]
    assert f"'{mine}'" not in listing


# -- hostile row 18: ways out ------------------------------------------------------------------------------------------


def test_no_network(attack: PythonTool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answers = tried(
            attack,
            f"socket.create_connection(('127.0.0.1', {port}), timeout=2)",
            f"socket.create_connection(('192.0.2.1', {port}), timeout=2)",
            "socket.getaddrinfo('example.com', 80)",
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
            "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
            "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
            "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
            "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
        )
        assert none_was_done(answers), answers
        assert select.select([server], [], [], 0)[0] == []


def test_no_unix_sockets_of_others(attack: PythonTool, tmp_path: Path) -> None:
    """A socket that has a path was reachable under Landlock in the prototype; the filter refuses connect()."""
    path, name = str(tmp_path / "docker.sock"), f"\0ossia-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as abstract:
        by_path.bind(path)
        abstract.bind(name)
        by_path.listen()
        abstract.listen()
        Path(path).chmod(0o777)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(path + ".dgram")
            datagrams.setblocking(False)
            answers = tried(
                attack,
                f"socket.socket(socket.AF_UNIX).connect({path!r})",
                f"socket.socket(socket.AF_UNIX).connect({name!r})",
                f"socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', {path + '.dgram'!r})",
                f"socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', {path + '.dgram'!r})",
                f"socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]"
                f".sendmsg([b'x'], [], 0, {path + '.dgram'!r})",
                f"socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0]"
                f".sendmsg([b'x'], [], 0, {path + '.dgram'!r})",
            )
            assert none_was_done(answers), answers
            assert select.select([by_path, abstract, datagrams], [], [], 0)[0] == []


# -- hostile row 19: changing the machine ------------------------------------------------------------------------------


def test_nothing_outside_is_writable(attack: PythonTool, tmp_path: Path) -> None:
    here = Path(__file__)
    places = ["/x", "/usr/x", "/etc/x", "/dev/x", "/mnt/x", f"{sys.prefix}/lib/x", f"{sys.base_prefix}/lib/x",
              str(tmp_path / "x"), str(here), str(here.parent / "x")]  # fmt: skip
    answers = tried(attack, *(f"put({place!r})" for place in places))
    assert none_was_done(answers), answers
    answers = tried(attack, *(f"os.mkdir({place + '.d'!r})" for place in places), f"os.truncate({str(here)!r}, 0)",
                    f"os.unlink({str(here)!r})", "os.symlink('a', '/usr/x')", "os.sethostname('x')")  # fmt: skip
    assert none_was_done(answers), answers


def test_settings_of_the_machine_are_read_only(attack: PythonTool) -> None:
    """Whoever is root outside may write them without any capability: core_pattern would run a program as root."""
    names = ("kernel/core_pattern", "kernel/hostname", "vm/overcommit_memory", "kernel/modprobe")
    paths = [*(f"/proc/sys/{name}" for name in names), "/proc/sysrq-trigger", "/sys/power/state"]
    answers = tried(attack, *(f"os.open({path!r}, os.O_WRONLY)" for path in paths))
    assert none_was_done(answers), answers


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64's calls")
def test_the_kernels_rarer_calls_are_refused(attack: PythonTool) -> None:
    names = (*_seccomp._ALWAYS_REFUSED, *_seccomp._ALWAYS_MISSING)
    numbers = {**_seccomp._ALWAYS_REFUSED, **_seccomp._ALWAYS_MISSING}
    answers = tried(attack, *(f"call({numbers[name][0]}, 0, 0, 0, 0, 0, 0)" for name in names))
    wrong = [
        (name, answer)
        for name, answer in zip(names, answers, strict=True)
        if "Operation not permitted" not in answer and "Function not implemented" not in answer
    ]
    assert wrong == []
    new_user, new_namespace, child_signal = 0x10000000, 0x20000, 17
    answers = tried(
        attack,
        f"call(56, {new_user | child_signal}, 0, 0, 0, 0)",
        f"call(56, {new_namespace | child_signal}, 0, 0, 0, 0)",
        "os.mknod('/mnt/data/null', 0o20666, os.makedev(1, 3))",
        "call(0x40000000 + 101, 0, 0, 0, 0)",
        "os.setuid(0) or os.setgid(0) or open('/etc/shadow')",
    )
    assert none_was_done(answers), answers


def test_no_privileges_are_held(attack: PythonTool) -> None:
    lines = run(attack, "print(open('/proc/self/status').read())").text.splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    bounding = ("CapBnd",) if ROOT or not landlocked(attack) else ()  # only root can lower it, only root would need to
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", *bounding)} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert ("0" in status["Uid"].split()) == (ROOT and landlocked(attack))


def test_others_cannot_be_signalled(attack: PythonTool) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            run(attack, f"for pid in ({victim.pid}, {os.getpid()}): attempt(lambda: os.kill(pid, 0))")
            answers = tried(attack, f"os.kill({victim.pid}, 15)", f"os.kill({os.getpid()}, 0)",
                            f"call(424, os.pidfd_open({victim.pid}), 15, 0, 0)")  # fmt: skip
            assert none_was_done(answers), answers
            assert victim.poll() is None
        finally:
            victim.kill()


def test_the_kernels_own_files_are_out_of_reach(attack: PythonTool) -> None:
    """The launcher runs before it confines itself: the code must not be able to change it for the next start."""
    assert attack._kernel is not None
    fixed = attack._kernel.job.fixed
    answers = tried(attack, *(f"open({str(fixed / name)!r}, 'a')" for name in sorted(p.name for p in fixed.iterdir())),
                    f"open({str(fixed / 'new')!r}, 'w')", f"os.rename({str(fixed)!r}, '/mnt/data/fixed')")  # fmt: skip
    assert none_was_done(answers), answers


# -- hostile row 20: using everything up -------------------------------------------------------------------------------


def test_too_much_memory_is_an_error(attack: PythonTool) -> None:
    answers = tried(attack, "bytearray(8 << 30)", "[bytearray(16 << 20) for _ in range(10000)] and 0")
    assert [answer[:12] for answer in answers] == ["MemoryError:"] * 2


def test_memory_of_many_processes_is_watched(attack: PythonTool) -> None:
    ran = run(attack, """
import time
for _ in range(6):
    if os.fork() == 0:
        b = b'x' * (200 << 20)
        time.sleep(60)
time.sleep(50)
""")
    assert "[ERROR] kernel died (used more than 700 MB of memory" in ran.text


def test_memory_that_belongs_to_no_process(attack: PythonTool) -> None:
    answers = tried(attack, "os.memfd_create('x')", "libc.shmget(0, 1 << 20, 0o600 | 0o1000) >= 0 or call(29, 0, 1, 0)")
    assert none_was_done(answers), answers


@pytest.mark.parametrize("name", BACKENDS)
def test_a_flood_leaves_the_machine_some_memory(name: str, tmp_path: Path) -> None:
    """Sockets, which are no process's own memory."""
    limits = replace(LIMITS, available_bytes=available_bytes() - 200 * MIB)
    tool = PythonTool(data_dir=tmp_path, confinement=confinement(name), timeout_s=120, limits=limits)
    with contextlib.closing(tool):
        text = run(tool, flood("sockets", 1 << 30)).text
        assert "kernel died (left the machine less than" in text or (_cgroup.found() and "more than 700 MB" in text)
        assert run(tool, "1 + 1").text.endswith("2")


def test_buffers_of_sockets_stay_as_large_as_they_are(attack: PythonTool) -> None:
    ran = run(attack, """
a, b = socket.socketpair()
size = lambda option: a.getsockopt(socket.SOL_SOCKET, option)
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33):
    before = size(socket.SO_SNDBUF), size(socket.SO_RCVBUF)
    print(attempt(lambda: a.setsockopt(socket.SOL_SOCKET, option, 1 << 22)))
    assert before == (size(socket.SO_SNDBUF), size(socket.SO_RCVBUF))
a.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
print(size(socket.SO_PASSCRED))
""")
    assert ran.text.split() == [*("DONE", "None") * 4, "1"]


def test_a_fork_bomb_ends(attack: PythonTool) -> None:
    ran = run(attack, """
import time
made = 0
try:
    for _ in range(2000):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as error:
    print('stopped after', made, error)
if made > 120:
    time.sleep(60)  # until it is found
""")
    if ROOT or landlocked(attack):  # RLIMIT_NPROC doesn't hold root; without namespaces it counts the user's own too
        assert "kernel died (ran more than 120 processes and threads)" in ran.text
    else:
        assert "stopped after" in ran.text
        run(attack, "os._exit(0)")  # with its children, who still sleep


def test_threads_end_too(attack: PythonTool) -> None:
    ran = run(attack, """
import threading, time
threads = []
try:
    for _ in range(2000):
        threads.append(threading.Thread(target=time.sleep, args=(20,), daemon=True))
        threads[-1].start()
except (RuntimeError, MemoryError) as error:
    print('stopped after', len(threads) > 20, type(error).__name__)
else:
    time.sleep(3)  # for whoever counts them from outside
""")
    assert "stopped after True" in ran.text or "kernel died (ran more than 120 processes and threads)" in ran.text
    run(attack, "os._exit(0)")  # with its threads, and what they take of the address space


def test_a_large_file_is_refused(attack: PythonTool) -> None:
    answers = tried(attack, "put('/mnt/data/large', bytes(30 << 20))",
                    "os.truncate('/mnt/data/large', 1 << 40)")  # fmt: skip
    assert [answer[:26] for answer in answers] == ["OSError: [Errno 27] File to"[:26]] * 2
    (attack.folder / "large").unlink()


def test_memory_behind_files_has_an_end(attack: PythonTool) -> None:
    code = """
def fill(folder):
    for n in range(1000):
        with open(f'{folder}/{n}', 'wb') as f: f.write(bytes(8 << 20))
for folder in ('/dev/shm', '/tmp', '/home', os.environ['HOME'], '/run', '/'):
    print(folder, attempt(lambda: fill(folder)))
"""
    ran = run(attack, code)
    if landlocked(attack):
        assert "/dev/shm PermissionError" in ran.text or "kernel died (wrote more than 48 MB" in ran.text
    else:
        assert "DONE" not in ran.text and "No space left on device" in ran.text


@under_the_strongest
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("for n in range(2000): open(f'/mnt/data/f{n}', 'w').close()", "made more than 1000 files"),
        ("for n in range(8): open(f'/mnt/data/l{n}', 'wb').write(bytes(8 << 20))", "wrote more than 48 MB"),
        (
            "for n in range(40): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
            "for n in range(12): open(f'l{n}', 'wb').write(bytes(8 << 20))",
            "wrote more than 48 MB",
        ),
        (  # closed to a plain user
            "os.mkdir('c', 0o300); os.mkdir('c/c', 0); os.mkdir('c/d', 0o200)\n"
            "for n in range(8): open(f'c/l{n}', 'wb').write(bytes(8 << 20))",
            "wrote more than 48 MB",
        ),
    ],
    ids=["files", "bytes", "depth", "closed"],
)
def test_a_data_folder_that_fills_up_ends_the_kernel(attack: PythonTool, code: str, why: str) -> None:
    ran = run(attack, f"{code}\nimport time; time.sleep(20)")
    assert f"[ERROR] kernel died ({why}" in ran.text
    # over the limit it starts all the same, so that the model can clean up
    cleaned = run(attack, """
import os, shutil
for name in os.listdir('/mnt/data'):
    path = '/mnt/data/' + name
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
os.listdir('/mnt/data')
""")
    assert cleaned.text.endswith("[]")


@pytest.mark.parametrize("name", BACKENDS)
def test_some_of_the_disk_is_left(name: str) -> None:
    """However it is taken: a file that has neither a name nor a descriptor, only a mapping, is counted nowhere.

    Other tests take and give back much more meanwhile: then it is tried again.
    """
    for _ in range(5):
        free = _free("/dev/shm")
        if free < 60 * MIB or _free(tempfile.gettempdir()) < free:  # the fullest disk counts
            pytest.skip("/dev/shm is too small, or another disk fuller")
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            limits = replace(LIMITS, free_bytes=free - 20 * MIB)
            tool = PythonTool(data_dir=Path(folder), confinement=confinement(name), limits=limits)
            ran = run(tool, """
import mmap, os, time
maps = []
for n in range(20):
    with open('m', 'w+b') as file:
        os.unlink('m')
        file.write(bytes(8 << 20))
        file.flush()
        maps.append(__import__('ctypes').CDLL(None).mmap(None, 8 << 20, 1, 1, file.fileno(), 0))
time.sleep(5)
""")
            tool.close()
        if (died := "[ERROR] kernel died (the disk has less than") in ran.text:
            break
    assert died in ran.text


def _free(path: str) -> int:
    return shutil.disk_usage(path).free


def test_depth_takes_no_descriptors(tmp_path: Path) -> None:
    """A folder in a folder in a folder…, deeper than this process may open any."""
    depth, name = 3000, "d" * 200
    code = f"import os\nfor _ in range({depth}): os.mkdir({name!r}); os.chdir({name!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 20, hard))
    try:
        used = usage_of_folders([tmp_path])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        hostile_folder.remove(tmp_path / name)
    assert (used.data_files, used.hidden) == (depth, 0)


def test_a_folder_that_moves_leads_nobody_out(tmp_path: Path) -> None:
    """The look goes up by `..`; where a folder was moved meanwhile, that is another folder."""
    for name in ("data/a/b/c", "data/x", "mine"):
        (tmp_path / name).mkdir(parents=True)
    names = []
    for entry in hostile_folder.walk(tmp_path / "data"):
        names.append(entry.name if entry else None)
        if entry and entry.name == "c":
            (tmp_path / "data/a/b").rename(tmp_path / "b")
    assert None in names and "mine" not in names


# -- hostile row 21: flooding us ---------------------------------------------------------------------------------------


class Growth:
    """How far this process grew at its highest while something ran, in bytes; sampled each 10 ms."""

    def __enter__(self) -> Growth:
        self._before = self._highest = own_memory_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def _sample(self) -> None:
        while not self._done.wait(0.01):
            self._highest = max(self._highest, own_memory_bytes())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        return self._highest - self._before


@under_the_strongest
@pytest.mark.parametrize(
    "code",
    [
        "import time; t = time.monotonic()\nwhile time.monotonic() < t + 1: print('z' * 10_000)",
        "'r' * (60 << 20)",
        "print('s' * (20 << 20))",
        "import subprocess; subprocess.run('head -c 50000000 /dev/zero | tr \"\\\\0\" x', shell=True) and None",
        "for _ in range(1500): display('d' * 1000)",
    ],
    ids=["endless", "repr", "one print", "a child", "displays"],
)
def test_a_flood_is_bounded(attack: PythonTool, code: str) -> None:
    with Growth() as growth:
        ran = run(attack, code)
    assert growth.bytes < 60 * MIB
    assert sum(len(output.text) for output in ran.outputs) <= 200_000
    assert len(ran.text) < 20_000 and "characters omitted]" in ran.text and not ran.result.error


@under_the_strongest
def test_a_flood_past_our_patches(attack: PythonTool) -> None:
    """Straight to the socket, messages larger than the client takes: it hangs up, and the kernel is replaced."""
    with Growth() as growth:
        ran = run(attack, """
socket_ = get_ipython().kernel.iopub_thread
for _ in range(100):
    socket_.send_multipart([b'x' * (20 << 20)])
""")
    assert growth.bytes < 60 * MIB
    assert ran.text.startswith("[ERROR] the code broke the kernel's output; kernel restarted")


@under_the_strongest
def test_a_message_without_an_end(attack: PythonTool) -> None:
    """Past libzmq too: parts of one message, each of a size that is taken. The client keeps them till the last."""
    ran = run(attack, """
import struct, time
for name in os.listdir('/proc/self/fd'):
    try:
        end = socket.socket(fileno=os.dup(int(name)))
        listens = end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if str(end.getsockname()).endswith('/k-2') and not listens:
            end.setblocking(True)
            for _ in range(80):
                end.sendall(b'\\3' + struct.pack('>Q', 7 << 20) + bytes(7 << 20))
                time.sleep(0.02)
    except OSError:
        pass
time.sleep(20)
""")
    assert "kernel died (sent more output than can be taken in)" in ran.text


@under_the_strongest
def test_a_flood_between_two_calls_goes_nowhere(attack: PythonTool) -> None:
    """A thread that stays fills what it finds of our connections, when no watcher knows whose growth ours is."""
    run(attack, """
import struct, threading, time
def flood():
    time.sleep(0.3)
    for name in os.listdir('/proc/self/fd'):
        try:
            end = socket.socket(fileno=os.dup(int(name)))
            if '/k-' in str(end.getsockname()) and not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                end.setblocking(True)
                for _ in range(40):
                    end.sendall(b'\\3' + struct.pack('>Q', 7 << 20) + bytes(7 << 20))
        except OSError:
            pass
kept = 1
threading.Thread(target=flood, daemon=True).start()
""")
    with Growth() as growth:
        time.sleep(1.2)
    assert growth.bytes < 30 * MIB
    assert run(attack, "kept").text == "1"


def test_a_socket_of_others_in_the_kernels_place(attack: PythonTool, tmp_path: Path) -> None:
    """We connect again at each call: to the kernel, whatever its name leads to by then."""
    assert attack._kernel is not None
    names = [str(attack._kernel._socket_path(channel)) for channel in ("shell", "iopub", "control")]
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "agent.sock"))
        other.listen()
        run(attack, f"for n in {names}: os.unlink(n); os.symlink({str(tmp_path / 'agent.sock')!r}, n)")
        assert run(attack, "6*7").text == "42"
        assert select.select([other], [], [], 0)[0] == []


@under_the_strongest
def test_a_kernel_that_hears_nobody_is_replaced(attack: PythonTool) -> None:
    run(attack, """
for name in os.listdir('/proc/self/fd'):
    try:
        end = socket.socket(fileno=os.dup(int(name)))
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            os.dup2(os.open('/dev/null', os.O_RDONLY), int(name))
        end.close()
    except OSError:
        pass
""")
    text = run(attack, "6*7").text
    assert text.startswith("[WARN] the kernel died since the last call (the code closed the kernel's sockets)")
    assert text.endswith("\n42")


@under_the_strongest
@pytest.mark.parametrize(
    "content",
    [
        "{'name': 5, 'text': {'a': []}}",
        "{'text': None}",
        "[]",
        "{'data': [], 'traceback': 7}",
        "{'data': {'image/png': '***'}}",
        "{'execution_state': ['idle']}",
    ],
)
def test_malformed_messages_are_harmless(attack: PythonTool, content: str) -> None:
    kinds = ("stream", "error", "display_data", "execute_result", "status", "nonsense")
    send = f"k.session.send(k.iopub_socket, kind, {content}, parent=k.get_parent())"
    run(attack, f"k = get_ipython().kernel\nfor kind in {kinds}: {send}")
    assert run(attack, "1+1").text.endswith("2")


# -- hostile row 25: traps for the host in /mnt/data -------------------------------------------------------------------


def test_a_setuid_file_cannot_be_made(attack: PythonTool) -> None:
    run(attack, "Path('/mnt/data/s').write_bytes(Path('/bin/true').read_bytes())")
    answers = tried(
        attack,
        "os.chmod('/mnt/data/s', 0o4755)",
        "os.fchmod(os.open('/mnt/data/s', os.O_RDONLY), 0o2755)",
        "os.open('/mnt/data/t', os.O_CREAT | os.O_WRONLY, 0o4755)",
        "os.mknod('/mnt/data/u', 0o104755)",
    )
    assert none_was_done(answers[2:]) and (landlocked(attack) or none_was_done(answers)), answers
    assert [path.name for path in attack.folder.iterdir() if path.stat().st_mode & 0o6000] == []


def test_setid_bits_are_cleared_after_each_call(attack: PythonTool, tmp_path: Path) -> None:
    """As another program of the user's, or a filesystem that the filter doesn't see, might leave them."""
    (tmp_path / "host").touch()
    (tmp_path / "host").chmod(0o4755)
    (attack.folder / "deep").mkdir(exist_ok=True)
    (attack.folder / "deep" / "suid").touch()
    (attack.folder / "deep" / "suid").chmod(0o6711)
    (attack.folder / "deep" / "link").symlink_to(tmp_path / "host")
    run(attack, "1")
    assert (attack.folder / "deep" / "suid").stat().st_mode & 0o7777 == 0o711
    assert (tmp_path / "host").stat().st_mode & 0o7777 == 0o4755
    run(attack, "import shutil; shutil.rmtree('/mnt/data/deep')")


def test_links_are_never_followed_by_the_host(attack: PythonTool, tmp_path: Path) -> None:
    run(attack, f"os.symlink({str(tmp_path / 'new.png')!r}, 'out_1.png')")
    picture = run(attack, "display({'image/png': 'aGVsbG8='}, raw=True)")
    assert picture.text == "[image saved: /mnt/data/out_2.png]"
    assert not (tmp_path / "new.png").exists() and (attack.folder / "out_2.png").read_bytes() == b"hello"
    run(attack, "os.unlink('out_1.png'); os.unlink('out_2.png')")


# -- hostile row 26: our own death -------------------------------------------------------------------------------------

_HOST = """
import sys, time
from pathlib import Path
from tests.support.floods import flood
from tests.support.kernels import confinement, run
from ossia.tools.python.tool import PythonTool
tool = PythonTool(data_dir=Path(sys.argv[1]), confinement=confinement(sys.argv[2]))
run(tool, "import subprocess; p = subprocess.Popen(['sleep', '300'], start_new_session=True)")
run(tool, "import os, time\\nif os.fork() == 0:\\n    if os.fork() == 0:\\n        os.setsid(); time.sleep(300)\\n"
          "    os._exit(0)")
print("ready", flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_us(name: str, way: signal.Signals, tmp_path: Path) -> None:
    confinement(name)
    command = [sys.executable, "-c", _HOST, str(tmp_path), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as host:
        assert host.stdout is not None and host.stdout.readline() == b"ready\n"
        below = descendants(host.pid)
        assert len(below) >= 4
        host.send_signal(way)
        host.wait(10)
    assert _left_of(below) == []


def _left_of(processes: list[int]) -> list[int]:
    """Those still there, once Linux has had its time to end what was in a process namespace."""
    end = time.monotonic() + 10
    while (left := [pid for pid in processes if _is_alive(pid)]) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_kernel_leaves_no_process(attack: PythonTool) -> None:
    run(attack, "import subprocess; p = [subprocess.Popen(['sleep', '300'], start_new_session=True) for _ in range(3)]")
    assert attack._kernel is not None
    process = attack._kernel.process._popen
    assert process is not None
    below = descendants(process.pid)
    assert len(below) >= 4
    run(attack, "os._exit(0)")
    assert _left_of(below) == []


# -- what Landlock doesn't hold ----------------------------------------------------------------------------------------


only_landlock = pytest.mark.parametrize("tool", ["landlock"], indirect=True)


@only_landlock
def test_gap_that_a_path_exists_can_be_seen(attack: PythonTool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(SECRET)
    assert tried(attack, f"os.stat({str(tmp_path / 'file')!r}).st_size") == [f"DONE {len(SECRET)}"]


@only_landlock
def test_gap_that_a_process_exists_can_be_seen(attack: PythonTool) -> None:
    answers = tried(attack, f"os.path.exists('/proc/{os.getpid()}')", "os.path.exists('/proc/4194305')")
    assert answers == ["DONE True", "DONE False"]


@only_landlock
def test_gap_modes_and_times_do_not_change(attack: PythonTool, tmp_path: Path) -> None:
    """Closed on purpose, Landlock lets them through for any file: they answer success and do nothing."""
    (tmp_path / "file").touch(0o600)
    before = (tmp_path / "file").stat()
    answers = tried(attack, f"os.chmod({str(tmp_path / 'file')!r}, 0o666)",
                    f"os.utime({str(tmp_path / 'file')!r}, (1, 1))",
                    "open('own', 'w').close() or os.chmod('own', 0o777) or oct(os.stat('own').st_mode)")  # fmt: skip
    after = (tmp_path / "file").stat()
    assert (after.st_mode, after.st_mtime) == (before.st_mode, before.st_mtime)
    assert answers[:2] == ["DONE None", "DONE None"] and not answers[2].endswith("777'")


@only_landlock
def test_gap_no_mnt_data(attack: PythonTool) -> None:
    assert tried(attack, "os.path.exists('/mnt' + '/data')") == ["DONE False"]
    said = run(attack, "print('/mnt/data/a', '/mnt/database', '/mnt/data.csv')").text
    assert said == "/mnt/data/a /mnt/database /mnt/data.csv"


@only_landlock
def test_gap_no_terminals_and_no_shared_memory(attack: PythonTool) -> None:
    answers = tried(attack, "__import__('pty').openpty()", "__import__('multiprocessing').Lock()")
    assert none_was_done(answers), answers


@only_landlock
def test_gap_the_machines_name_can_be_seen(attack: PythonTool) -> None:
    assert tried(attack, "os.uname().nodename") == [f"DONE {os.uname().nodename!r}"]


def test_every_gap_is_described() -> None:
    from ossia.tools.sandbox._landlock import Landlock

    text = Landlock("python", abi=4).describe()
    for gap_ in ("path exists", "no /mnt/data", "changing modes", "process ID", "machine's name", "multiprocessing",
                 "signalled"):  # fmt: skip
        assert gap_ in text
