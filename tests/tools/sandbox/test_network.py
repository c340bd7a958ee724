"""A command with network: TCP, UDP and names, and nothing else of the machine; without it, none of them."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ossia.tools.sandbox import Confinement
from ossia.tools.sandbox._seatbelt import profile
from ossia.tools.sandbox.job import Place, Toolchains
from tests.support.jobs import homes, job_in, output_of, started
from tests.support.kernels import BACKENDS, descendants, shell_confinement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")

PYTHON = Path(sys.executable).resolve()
TRIED = """\
import os, socket, sys
from socket import *
for expression in sys.argv[1:]:
    try:
        print("DONE", repr(eval(expression)))
    except OSError as error:
        print(type(error).__name__, error)
"""


@pytest.fixture(params=BACKENDS)
def confinement(request: pytest.FixtureRequest) -> Confinement:
    return shell_confinement(request.param)


def tried(confinement: Confinement, home: Path, workspace: Path, *expressions: str, network: bool) -> list[str]:
    """Each expression's value in a command's Python, `DONE 5`, or its error. Our own Python may lie in a home."""
    python = Toolchains((Place(Path(sys.base_prefix).resolve(), "the tests"),))
    job = job_in(home, workspace, network=network, toolchains=python)
    (workspace / "tried.py").write_text(TRIED)
    words = " ".join(f'"{expression}"' for expression in expressions)
    lines = output_of(confinement, job, f"{PYTHON} -I tried.py {words}").splitlines()
    assert len(lines) == len(expressions), lines
    return lines


@contextmanager
def echoing(family: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP and a UDP server on one loopback, each answering the first message."""
    here = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    with socket.socket(family) as tcp, socket.socket(family, socket.SOCK_DGRAM) as udp:
        tcp.bind((here, 0))
        udp.bind((here, 0))
        tcp.listen()
        threading.Thread(target=_answer, args=(tcp, udp), daemon=True).start()
        yield tcp, udp


def _answer(tcp: socket.socket, udp: socket.socket) -> None:
    message, sender = udp.recvfrom(100)
    udp.sendto(message.upper(), sender)
    with tcp.accept()[0] as one:
        one.sendall(one.recv(100).upper())


def asked(tcp: socket.socket, udp: socket.socket, *, wait_s: float) -> Sequence[str]:
    family = "AF_INET6" if tcp.family == socket.AF_INET6 else "AF_INET"
    begin = f"(s := socket({family}, SOCK_{{}}), s.settimeout({wait_s}), "
    return (
        f"{begin.format('DGRAM')}s.sendto(b'udp', {udp.getsockname()}), s.recv(9))[-1]",
        f"{begin.format('STREAM')}s.connect({tcp.getsockname()}), s.send(b'tcp'), s.recv(9))[-1]",
    )


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_with_network_servers_answer_and_without_they_are_not_reached(confinement: Confinement, family: int) -> None:
    try:
        socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with echoing(family) as servers, homes() as (home, workspace):
        refused = tried(confinement, home, workspace, *asked(*servers, wait_s=0.5), network=False)
        assert [line for line in refused if line.startswith("DONE")] == []
        answers = tried(confinement, home, workspace, *asked(*servers, wait_s=9), network=True)
        assert answers == ["DONE b'UDP'", "DONE b'TCP'"]


def test_names_are_resolved_as_outside(confinement: Confinement) -> None:
    """The resolver's settings are often a link into /run. glibc wants netlink, and does without."""
    with homes() as (home, workspace):
        answers = tried(
            confinement,
            home,
            workspace,
            "getaddrinfo('localhost', 80, AF_INET, SOCK_STREAM, 0, AI_ADDRCONFIG)[0][4]",
            "open('/etc/resolv.conf').read()",
            "open('/etc/hosts').read()",
            "open('/etc/nsswitch.conf').read()",
            network=True,
        )
    settings = [Path(path).read_text() for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")]
    assert answers == ["DONE ('127.0.0.1', 80)", *(f"DONE {text!r}" for text in settings)]


def test_sockets_of_the_machine_stay_closed(confinement: Confinement) -> None:
    """With network the abstract ones lie in the same namespace; those with a path may lie in the workspace."""
    with homes() as (home, workspace), tempfile.TemporaryDirectory(dir="/tmp") as folder:
        places = [str(workspace / "s"), f"{folder}/s", f"\0ossia-{os.getpid()}"]
        streams, datagrams = [socket.socket(socket.AF_UNIX) for _ in places], []
        for place, stream in zip(places, streams, strict=True):
            stream.bind(place)
            stream.listen()
            datagrams.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            datagrams[-1].bind(place + ".dgram")
            datagrams[-1].setblocking(False)
        spelled = [place.replace("\0", "\\0") for place in places]
        reached = [f"socket(AF_UNIX).connect('{place}')" for place in spelled]
        for kind in ("socket(AF_UNIX, SOCK_DGRAM)", "socketpair(AF_UNIX, SOCK_DGRAM)[0]",
                     "socketpair(AF_UNIX, SOCK_RAW)[0]", "socketpair(AF_UNIX, SOCK_STREAM)[0]"):  # fmt: skip
            reached += [f"{kind}.sendto(b'x', '{place}.dgram')" for place in spelled]
            reached += [f"{kind}.sendmsg([b'x'], [], 0, '{place}.dgram')" for place in spelled]
        reached += [f"socketpair()[0].connect('{place}')" for place in spelled]
        for network in (True, False):
            answers = tried(confinement, home, workspace, *reached, network=network)
            seen = not network and confinement.name == "bwrap"  # docs/confinement.md says so
            done = [what for what, said in zip(reached, answers, strict=True) if said.startswith("DONE")]
            assert [what for what in done if not (seen and str(workspace) in what)] == []
        for one in (*streams, *datagrams):
            one.close()
        pair = "(p := socketpair(), p[0].send(b'own'), p[1].recv(9))[-1]"
        assert tried(confinement, home, workspace, pair, network=True) == ["DONE b'own'"]


def test_other_kinds_of_sockets_are_refused(confinement: Confinement) -> None:
    kinds = ["AF_INET, SOCK_RAW, 1", "AF_INET, SOCK_DGRAM, 1", "AF_INET6, SOCK_RAW, 58", "AF_INET, SOCK_STREAM, 132",
             "AF_INET, SOCK_STREAM, 262", "AF_PACKET, SOCK_RAW", "AF_PACKET, SOCK_DGRAM", "AF_NETLINK, SOCK_DGRAM, 0",
             "AF_NETLINK, SOCK_DGRAM, 15", "AF_VSOCK, SOCK_STREAM", "AF_ALG, SOCK_SEQPACKET", "AF_CAN, SOCK_RAW, 1",
             "AF_UNIX, SOCK_SEQPACKET", "AF_INET, 10"]  # fmt: skip
    with homes() as (home, workspace):
        expressions = [f"socket({kind})" for kind in kinds]
        answers = tried(confinement, home, workspace, *expressions, "socket(AF_INET, SOCK_STREAM, 6)", network=True)
    assert [line for line in answers[:-1] if line.startswith("DONE")] == [] and answers[-1].startswith("DONE")


def test_with_network_the_rest_is_as_confined_as_without(confinement: Confinement) -> None:
    with homes() as (home, workspace):
        (home / ".ssh").mkdir()
        (home / ".ssh" / "id").write_text("a-secret-of-the-user")
        hidden = [str(home / ".ssh/id"), "/etc/shadow", f"/proc/{os.getpid()}/environ", "/run/docker.sock"]
        expressions = [*(f"open('{path}').read()" for path in hidden), f"os.kill({os.getpid()}, 0)",
                       f"open('{home}/.ssh/id', 'a')", "open('/usr/x', 'w')",
                       "open('/proc/sys/net/core/somaxconn', 'w')", "os.listdir('/run/systemd')"]  # fmt: skip
        answers = tried(confinement, home, workspace, *expressions, network=True)
    assert [line for line in answers if line.startswith("DONE")] == []


def test_a_server_left_running_ends_with_the_command(confinement: Confinement) -> None:
    with homes() as (home, workspace):
        before = set(descendants(os.getpid()))
        job = job_in(home, workspace, network=True)
        with started(confinement, job, "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo left") as process:
            assert b"".join(process.output) == b"left\n"
        end = time.monotonic() + 20
        while (left := set(descendants(os.getpid())) - before) and time.monotonic() < end:
            time.sleep(0.02)
        assert left == set()


def test_macos_opens_ip_and_the_systems_resolver(tmp_path: Path) -> None:
    """Not run here."""
    (tmp_path / "work").mkdir()
    job = job_in(tmp_path, tmp_path / "work", network=True)
    lines = [line for line in profile(job).splitlines() if "network-" in line]
    assert lines == [
        '(allow network-outbound (remote ip) (literal "/private/var/run/mDNSResponder"))',
        "(allow network-bind network-inbound (local ip))",
    ]
