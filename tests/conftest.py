"""What holds for every test: a clean environment, a home of its own, no network but loopback."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support.started import end_all
from tests.support.vocabularies import (  # noqa: F401  (fixtures)
    etude_tokenizer,
    o200k_dir,
    o200k_encoding,
    o200k_tokenizer,
    wheel,
    wheel_tokenizer,
)

if TYPE_CHECKING:
    from tests.support.site import Site

# No deadline: these machines are shared, and no test asserts a time. In CI the examples are the same in each run.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

# The tests are compiled once, not once more in each process of each run: 12 s of CPU time each.
sys.dont_write_bytecode = False

# A shell starts what it puts in the background with SIGINT ignored, and children inherit that: tests that interrupt one
# would wait for ever. A handler here is the default in a child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as nohup leaves it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Three more than there are processors: half of the time, tests wait for a process, a kernel or a terminal.

    On two processors, four of them took 375 s where three took 418 s; by the tests' CPU times and waits, five take a
    twentieth less than four, and a sixth wins nothing.
    """
    return 3 + (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing is garbage while tests are collected: looking for it took 1.4 of 6.4 s, in each worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@cache
def _no_bwrap() -> str:
    """Why bubblewrap confines nothing here, tried once; empty if it does."""
    from ossia.tools.sandbox import choose

    found = choose(allow_landlock=False)
    return "" if found.name == "bwrap" else found.reason


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Gives `needs_bwrap` its meaning."""
    if item.get_closest_marker("needs_bwrap") and (why := _no_bwrap()):
        pytest.skip(f"needs bubblewrap: {why}")


_DROPPED_PREFIXES = (
    *("OSSIA_", "HF_", "HUGGINGFACE_", "HUGGING_FACE_", "XDG_", "LLAMA_", "TIKTOKEN_"),
    *("JUPYTER", "IPYTHON", "LC_", "CLICOLOR", "TYPER_"),
)
_DROPPED = (
    *("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONSAFEPATH", "PYTHONWARNINGS"),
    "PYTHONDONTWRITEBYTECODE",  # each of the commands that the tests start would compile everything: half a second
    *("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PAGER", "LANGUAGE"),
)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def _is_foreign(name: str) -> bool:
    return name.startswith(_DROPPED_PREFIXES) or name in _DROPPED or name.lower() in _PROXIES


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-screens", action="store_true", help="write tests/golden/screens as they are now")


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> Iterator[None]:
    """The user's own settings must not decide a test. Session-wide, so that session fixtures see it too."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if _is_foreign(name)]:
            patch.delenv(name)
        patch.setenv("LANG", "C.UTF-8")
        patch.setenv("TERM", "dumb")
        patch.setenv("OMP_WAIT_POLICY", "passive")  # llama.cpp's threads leave the processors to the other workers
        yield


@pytest.fixture(autouse=True)
def home(_clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home for each test. Its path is short: Unix sockets under it have 108 bytes for theirs."""
    folder = Path(tempfile.mkdtemp(prefix="ossia-"))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("APPDATA", str(folder / "AppData" / "Roaming"))
    monkeypatch.setenv("LOCALAPPDATA", str(folder / "AppData" / "Local"))
    yield folder
    end_all()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, to be read. Nothing is written beside it: many tests share it."""
    from tests.support.toy_gguf import write_toy_gguf

    return write_toy_gguf(tmp_path_factory.mktemp("toy") / "toy.gguf")


@pytest.fixture
def site() -> Iterator[Site]:
    """A web site on loopback."""
    from tests.support.site import Site

    with Site() as made:
        yield made


class OutsideNetwork(ConnectionError):
    """A test reached for another machine. It is an OSError: to the code under test it looks like being offline."""


_HERE = frozenset({"", "localhost", "localhost.", socket.gethostname()})


def _is_here(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host is None or host in _HERE:
        return True
    try:
        return ipaddress.ip_address(str(host).split("%")[0]).is_loopback
    except ValueError:
        return False


def _is_number(host: object) -> bool:
    try:
        ipaddress.ip_address(str(host).split("%")[0])
    except ValueError:
        return False
    return True


def _guard(event: str, args: tuple[object, ...]) -> None:
    """An audit hook: it sees the sockets that Python code opens in this process (not libzmq's, not children's)."""
    if event in ("socket.connect", "socket.sendto", "socket.bind"):
        sock, address = args[0], args[1]
        if isinstance(sock, socket.socket) and sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        if isinstance(address, tuple) and address and not (address[0] != "" and _is_here(address[0])):
            raise OutsideNetwork(f"{event} to {address[0]!r}: tests use loopback addresses only")
    elif event == "socket.getaddrinfo" and not _is_here(args[0]) and not _is_number(args[0]):
        raise OutsideNetwork(f"looking up {args[0]!r}: tests use loopback addresses only")


sys.addaudithook(_guard)
