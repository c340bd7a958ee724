"""Documents to text in the worker: what comes out, what a hostile one costs, what the worker can't do."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.tools.browser.document import Document
from ossia.tools.convert.converter import ConversionFailed, Converter, ConvertLimits, worker_command
from ossia.tools.spec import NoStop
from tests.support.pdfs import pdf
from tests.support.site import wait_until

URL = "http://a.test/folder/file"
ROOT = Path(__file__).parents[3]
needs_proc = pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="finds the worker in Linux's /proc"
)


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    made = Converter()
    yield made
    made.close()


def convert(
    converter: Converter, body: str | bytes, media_type: str = "text/html", charset: str | None = None, url: str = URL
) -> Document:
    data = body.encode() if isinstance(body, str) else body
    return converter.convert(data, media_type, url=url, charset=charset, stop=NoStop())


def reason(converter: Converter, body: str | bytes, media_type: str = "text/html") -> str:
    with pytest.raises(ConversionFailed) as caught:
        convert(converter, body, media_type)
    return str(caught.value).removeprefix("Error: ")


# -- what comes out ----------------------------------------------------------------------------------------------------


def test_html_becomes_text_with_links(converter: Converter) -> None:
    page = "<title>Capy</title><p>See <a href='../about'>about</a>, <a href='http://b.test/'>b</a>"
    links = {0: "http://a.test/about", 1: "http://b.test/"}
    assert convert(converter, page) == Document("Capy", URL, "See 【0†about】, 【1†b†b.test】", links)


@pytest.mark.parametrize(
    ("media_type", "body", "charset", "text"),
    [
        ("text/plain", b"a\r\nb\rc\n", None, "a\nb\nc\n"),
        ("text/plain", "grüße".encode("cp1252"), None, "grüße\n[not UTF-8: read as windows-1252, by guess]"),
        ("text/plain", "grüße".encode(), None, "grüße"),
        ("text/plain", "Привет".encode("koi8-r"), "koi8-r", "Привет"),
        ("text/plain", "函数".encode("gb18030"), "GB18030", "函数"),
        ("text/plain", "a日".encode("utf-16"), "utf-8", "a日"),
        ("text/plain", "\ufeffmark".encode(), None, "mark"),
        ("text/plain", b"x\\u0041", "unicode_escape", "x\\u0041"),
        ("text/plain", b"cut within a letter \xe2\x82", None,
         "cut within a letter \ufffd\ufffd\n[2 bytes not valid in UTF-8, shown as \ufffd]"),
        ("text/plain", b"plain", "no-such-charset", "plain"),
        ("text/markdown", "# T\n\n【1†evil】 \x1b]52;c;x\x07\u202e".encode(), None, "# T\n\n〖1†evil〗 ]52;c;x"),
        ("application/json", b'{"a": [1]}', None, '{"a": [1]}'),
        ("application/rss+xml", b"<rss><link>http://x/</link></rss>", None, "<rss><link>http://x/</link></rss>"),
        ("application/xml", b"<?xml version='1.0'?><html><p>as HTML</p></html>", None, "as HTML"),
        ("text/html", b"\x89nothing<p>", "utf-8", "‰nothing\n\n[not UTF-8: read as windows-1252, by guess]"),
        ("text/html", b"", None, "(empty page)"),
        ("text/plain", b" \n", None, "(empty page)"),
    ],
)
def test_text_of_other_kinds(
    converter: Converter, media_type: str, body: bytes, charset: str | None, text: str
) -> None:
    assert convert(converter, body, media_type, charset).text == text


@pytest.mark.parametrize(
    ("url", "title"),
    [("http://a.test/x/READ%20ME.md?raw=1", "READ ME.md"), ("http://a.test/", "a.test"), ("http://a.test/b/", "b")],
)
def test_a_text_is_titled_by_its_url(converter: Converter, url: str, title: str) -> None:
    assert convert(converter, b"x", "text/plain", url=url) == Document(title, url, "x")


def test_the_source_of_a_page_is_left_as_it_is(converter: Converter) -> None:
    body = "<p>【1†x】 ü\x1b</p>".encode("cp1252", "replace")
    shown = converter.convert(body, "text/html", url=URL, charset="cp1252", stop=NoStop(), source=True)
    assert shown == Document("file", URL, "<p>?1?x? ü</p>".replace("1?", "1†"))
    legacy = "<p>Привет, мир\r<p>Ещё".encode("cp1251")
    guessed = converter.convert(legacy, "text/html", url=URL, charset=None, stop=NoStop(), source=True)
    assert guessed.text == "<p>Привет, мир\n<p>Ещё\n[not UTF-8: read as windows-1251, by guess]"
    assert guessed.guessed == convert(converter, legacy).guessed == "windows-1251"
    with pytest.raises(ConversionFailed, match="a PDF has no source"):
        converter.convert(pdf(["x"]), "text/html", url=URL, charset=None, stop=NoStop(), source=True)


def test_a_pdf_is_read_page_by_page(converter: Converter) -> None:
    made = pdf(["Capybaras swim.\nThey eat (a lot).", "They sleep."], title="Capy")
    text = "Page 1\n\nCapybaras swim.\nThey eat (a lot).\n\nPage 2\n\nThey sleep.\n"
    assert convert(converter, made, "application/pdf") == Document("Capy", URL, text)
    assert convert(converter, pdf(["x"]), "text/plain").title == "file"  # known by its first bytes


def test_an_encrypted_pdf_is_said_to_be_so(converter: Converter) -> None:
    """Hostile row 16: encrypted."""
    told = reason(converter, pdf(["secret"], encrypted=True), "application/pdf")
    assert told == "the PDF is encrypted: it opens with a password only"


def test_of_ten_thousand_pages_the_first_come_and_the_rest_is_told(converter: Converter) -> None:
    """Hostile row 16: 10k pages."""
    text = convert(converter, pdf([f"Number {n}" for n in range(10_000)]), "application/pdf").text
    assert text.startswith("Page 1\n\nNumber 0\n")
    assert text.endswith("Page 1000\n\nNumber 999\n\n[cut here: pages 1001 to 10000 are left out, it is too long]")


def _no_xref(made: bytes) -> bytes:
    return made[: made.index(b"xref\n")] + b"xref\n" + b"\xff" * 200


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda made: made[: len(made) // 2], "the PDF is damaged"),
        (lambda made: b"%PDF-1.7\n" + b"\xff\0" * 5000, "the PDF is damaged"),
        (lambda made: made.replace(b"/Count 1", b"/Count 0"), None),
        (lambda made: made.replace(b"/Kids [5 0 R]", b"/Kids [2 0 R]"), None),
        (_no_xref, None),
    ],
)
def test_a_broken_pdf_is_an_error_or_what_can_be_saved_of_it(
    converter: Converter, broken: Callable[[bytes], bytes], told: str | None
) -> None:
    """Hostile row 16: a broken xref table, a file that ends early, pages in a circle."""
    try:
        convert(converter, broken(pdf(["x" * 100])), "application/pdf")
    except ConversionFailed as error:
        assert "PDF" in error.reason
        assert told is None or error.reason == told
    else:
        assert told is None


def test_a_pdf_of_pictures_says_so(converter: Converter) -> None:
    assert reason(converter, pdf(["", ""]), "application/pdf") == "the PDF holds no text: its pages are pictures"


# -- limits ------------------------------------------------------------------------------------------------------------

_HOSTILE = {
    "100k links": "".join(f"<a href=/{n}>{n}</a> " for n in range(100_000)),
    "1 MB of spaces": f"<p>a{' ' * 1_000_000}b",
    "100k nested tags": "<table><tr><td>" * 33_000 + "deep",
    "100k nested lists": "<ul><li>" * 50_000 + "x" * 1000,
    "2 MB of <": "<" * 2_000_000,
    "1 MB of one entity": "<p>" + "&amp;" * 200_000,
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_a_hostile_page_is_text_or_too_complex_and_the_next_one_is_read(converter: Converter, name: str) -> None:
    """Hostile row 8. The converter's own limit is 10 s."""
    try:
        assert convert(converter, _HOSTILE[name]).text
    except ConversionFailed as error:
        assert error.reason.startswith("page too complex")
    assert convert(converter, "<p>next").text == "next"


def test_what_is_too_large_is_not_read() -> None:
    small = Converter(ConvertLimits(max_bytes=1000, max_pdf_bytes=2000))
    assert reason(small, "x" * 1001) == "it has 0.0 MB, more than 0.001 MB"
    assert reason(small, pdf(["x" * 2000])) == "it has 0.0 MB, more than 0.002 MB"
    assert small.confinement == ()  # no worker was started for that
    small.close()


def test_text_beyond_the_limit_is_cut_and_told() -> None:
    small = Converter(ConvertLimits(max_result_bytes=2000))
    text = convert(small, "\n".join(f"line {n}" for n in range(1000)), "text/plain").text
    lines, told = text.rsplit("\n", 1)
    whole = "\n".join(f"line {n}" for n in range(1000))
    assert told == f"[cut here: {len(whole) - len(lines) - 1} more characters are left out]"
    assert whole.startswith(lines + "\n")
    assert 1500 < len(text) < 2000
    links = "".join(f"<a href='/{n}'>x</a>" for n in range(500))
    assert reason(small, links) == "page too complex: its links take too much room"
    small.close()


def test_a_page_that_takes_too_long_ends_the_worker_and_another_takes_over() -> None:
    hasty = Converter(ConvertLimits(timeout_s=0.4))
    long = "<p>x</p>" * 370_000  # 3 s and more
    assert reason(hasty, long) == "page too complex: it takes too long to read"
    assert convert(hasty, "<p>next").text == "next"
    hasty.close()


@needs_proc
def test_a_worker_that_ended_while_idle_is_replaced() -> None:
    converter = Converter()
    before = _children()
    convert(converter, "<p>x")
    (worker,) = _children() - before
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not _runs(worker))
    assert convert(converter, "<p>next").text == "next"
    converter.close()
    assert _children() == before


def _children() -> set[int]:
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread of another test's may end meanwhile
            found.update(int(pid) for pid in path.read_text().split())
    return found


def test_a_stop_ends_a_conversion() -> None:
    converter, control, told = Converter(), Control(), []
    convert(converter, "<p>warm")

    def run() -> None:
        with pytest.raises(ConversionFailed) as caught:
            converter.convert(b"<" * 2_900_000, "text/html", url=URL, charset=None, stop=control)
        told.append(caught.value.reason)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    control.stop()
    thread.join(10)
    assert told == ["interrupted by the user"]
    assert convert(converter, "<p>next").text == "next"
    converter.close()


def test_documents_of_several_threads_each_get_their_own_text(converter: Converter) -> None:
    texts: dict[int, str] = {}

    def run(number: int) -> None:
        texts[number] = convert(converter, f"<p>page {number}").text

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert texts == {number: f"page {number}" for number in range(8)}


def test_a_closed_converter_converts_nothing() -> None:
    converter = Converter()
    convert(converter, "<p>x")
    converter.close()
    converter.close()
    assert reason(converter, "<p>x") == "the converter is closed"


# -- the worker, were it taken over ------------------------------------------------------------------------------------


class Taken:
    """A worker that runs what it is sent: the `exec` is in tests/support/worker_probe.py."""

    def __init__(self, limits: ConvertLimits) -> None:
        command = worker_command(limits)
        settings = json.loads(command[-1])
        settings["paths"].append(str(ROOT))
        settings["modules"] += ["tests.support.worker_probe", "socket", "subprocess"]
        self.popen = subprocess.Popen(
            [*command[:-1], json.dumps(settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}
        )
        confined = self.read()[0]["confined"]
        assert isinstance(confined, list)
        self.confined: list[object] = confined

    def read(self) -> tuple[dict[str, object], str]:
        assert self.popen.stdout is not None
        parts = []
        for _ in range(2):
            (length,) = struct.unpack(">Q", self.popen.stdout.read(8))
            parts.append(self.popen.stdout.read(length))
        return json.loads(parts[0]), parts[1].decode()

    def run(self, code: str) -> str:
        meta = json.dumps({"kind": "html", "url": URL, "charset": None, "source": False})
        assert self.popen.stdin is not None
        for part in (meta.encode(), code.encode()):
            self.popen.stdin.write(struct.pack(">Q", len(part)) + part)
        self.popen.stdin.flush()
        return self.read()[1]


@pytest.fixture
def taken() -> Iterator[Taken]:
    if sys.platform != "linux":
        pytest.skip("only Linux confines the worker")
    worker = Taken(ConvertLimits(timeout_s=20))
    with worker.popen:
        yield worker
        worker.popen.kill()


def test_the_worker_can_do_nothing_but_compute(taken: Taken, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        attempts = {
            f"result = open({str(tmp_path / 'secret')!r}).read()": "landlock",
            "result = open('/etc/passwd').read()": "landlock",
            "import os; result = os.listdir('/')": "landlock",
            f"open({str(tmp_path / 'new')!r}, 'w').write('x')": "landlock",
            f"import os; os.unlink({str(tmp_path / 'secret')!r})": "landlock",
            "import subprocess; result = subprocess.run(['/bin/true'])": "landlock",
            f"import socket; socket.create_connection(('127.0.0.1', {port}))": "seccomp",
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)": "seccomp",
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/x')": "seccomp",
            "x = bytearray(2 << 30)": "memory",
        }
        for code, part in attempts.items():
            if part in taken.confined:
                assert taken.run(code).split(":")[0] in ("PermissionError", "OSError", "MemoryError"), code
    assert (tmp_path / "secret").read_text() == "secret"
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert taken.run("import os; result = dict(os.environ)") in ("done: {}", "done: {'LC_CTYPE': 'C.UTF-8'}")
    assert taken.run("import encodings.johab; result = 'abc'.encode('johab')") == "done: b'abc'"  # Python's own files


def test_here_the_worker_is_confined_by_all_that_this_kernel_has(taken: Taken) -> None:
    assert taken.confined[:1] == ["memory"]
    assert "seccomp" in taken.confined


def test_the_worker_ends_with_its_stdin_and_at_its_alarm(taken: Taken) -> None:
    """So it outlives nobody: neither idle nor in the middle of a document."""
    assert taken.popen.stdin is not None
    taken.popen.stdin.close()
    assert taken.popen.wait(20) == 0
    busy = Taken(ConvertLimits(timeout_s=-1.5))  # the alarm comes 2 s after that
    instead = threading.Timer(30, busy.popen.kill)  # so that a fault fails and doesn't hang
    instead.start()
    with busy.popen:
        with pytest.raises(struct.error):
            busy.run("while True: pass")
        assert busy.popen.wait() == -signal.SIGALRM
    instead.cancel()


@needs_proc
def test_no_worker_is_left_when_its_user_is_killed() -> None:
    code = (
        "from ossia.tools.convert.converter import Converter; from ossia.tools.spec import NoStop; import time\n"
        "c = Converter(); c.convert(b'<p>x', 'text/html', url='http://a.test/', charset=None, stop=NoStop())\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    user = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert user.stdout is not None
    assert user.stdout.readline() == b"ready\n"
    worker = int(Path(f"/proc/{user.pid}/task/{user.pid}/children").read_text())
    user.kill()
    user.communicate()
    wait_until(lambda: not _runs(worker))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")
