"""Programs that take memory of the Linux kernel's: none of it is the resident memory of any process.

Each is text for Python's standard library alone, so that the python tool and a shell command can both run it. `$MOST`
is how many bytes it tries to take; what can't be had in one way is left out. They stay as they are when they are done.
"""

from __future__ import annotations

_SPREAD = """
import array, contextlib, fcntl, mmap, os, resource, socket, struct, time
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
def in_children(count, flood):
    for _ in range(count):
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            try:
                flood()
            except BaseException:
                pass
            while True:
                time.sleep(60)
def fill(end):
    end.setblocking(False)
    for size in (65536, 1):
        try:
            while True:
                end.send(bytes(size))
        except OSError:
            pass
def pair(kind=socket.SOCK_STREAM):
    ends = socket.socketpair(socket.AF_UNIX, kind)
    for end in ends:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            try:
                end.setsockopt(socket.SOL_SOCKET, option, 1 << 22)
            except OSError:
                pass
        fill(end)
    return ends
"""
_END = "\nprint('all of it', flush=True)\ntime.sleep(60)\n"

_SOCKETS = """
kept = []
def flood():
    while True:
        kept.append(pair())
in_children(30, flood)
"""
_SOCKETS_ON_THEIR_WAY = """
kept = []
def flood():
    while True:
        ends = socket.socketpair()
        kept.append(ends)
        for _ in range(200):
            try:
                sent = pair()
                socket.send_fds(ends[0], [b'x'], [end.fileno() for end in sent])
            finally:
                for end in sent:
                    end.close()
in_children(30, flood)
"""
_LOOPBACK = """
kept = []
def flood():
    listening = socket.create_server(('127.0.0.1', 0), backlog=100)
    while True:
        a = socket.create_connection(listening.getsockname())
        b, _ = listening.accept()
        kept.append((a, b))
        fill(a)
        fill(b)
in_children(20, flood)
"""
_PIPES = """
kept = []
def flood():
    while True:
        reading, writing = os.pipe()
        kept.append((reading, writing))
        try:
            fcntl.fcntl(writing, 1031, 1 << 20)
        except OSError:
            pass
        os.set_blocking(writing, False)
        try:
            while True:
                os.write(writing, bytes(65536))
        except OSError:
            pass
in_children(100, flood)
"""
_INODES = """
made = 0
for folder in ('/dev/shm', '/tmp', os.environ.get('HOME', '/tmp')):
    try:
        while made < $MOST // 1000:
            os.close(os.open(f'{folder}/{made:x}', os.O_CREAT | os.O_WRONLY))
            made += 1
    except OSError as error:
        print(folder, error)
print(made, 'files')
"""
_PAGE_TABLES = """
def flood():
    size = 2 << 30
    maps = []
    for _ in range($MOST // 30 // 4096 * (2 << 20) // size + 1):
        maps.append(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000))
        for place in range(0, size, 2 << 20):
            maps[-1][place]
in_children(30, flood)
"""

FLOODS = {
    "sockets": _SOCKETS,
    "sockets on their way": _SOCKETS_ON_THEIR_WAY,
    "TCP on the loopback": _LOOPBACK,
    "pipes": _PIPES,
    "files in memory": _INODES,
    "page tables": _PAGE_TABLES,
}


def flood(name: str, most_bytes: int) -> str:
    """The program of one flood."""
    return (_SPREAD + FLOODS[name] + _END).replace("$MOST", str(most_bytes))
