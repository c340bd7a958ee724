"""Models that aren't in the catalogue: from a repository of the hub, and from an address."""

from __future__ import annotations

import hashlib
import itertools
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.agent.errors import AgentError, DownloadFailed, ModelMissing, SettingRefused
from ossia.agent.models.catalog import CatalogModel
from ossia.agent.models.pull import on_the_hub, parts_kept, pull
from ossia.agent.models.pull_url import Pulled, pull_known, pull_url
from ossia.agent.models.pulled import files_of
from ossia.agent.models.transfer import PullProgress
from tests.support.hub import Hub
from tests.support.site import Reply, Request, Site

CONTENT = b"GGUF" + (3).to_bytes(4, "little") + bytes(16) + bytes(range(256)) * 400
REPO = "someone/gpt-oss-20b-GGUF"


# -- a repository ------------------------------------------------------------------------------------------------------


def _files(*names: str) -> dict[str, bytes]:
    return {name: f"{name} ".encode() * 50 for name in names}


def test_the_only_model_of_a_repository(tmp_path: Path) -> None:
    files = _files("gpt-oss-20b-Q8_0.gguf", "mmproj-x.gguf", "notes.txt")
    with Hub(files, repo=REPO) as hub:
        model = on_the_hub(REPO, None, tmp_path, endpoint=hub.endpoint)
        size = len(files["gpt-oss-20b-Q8_0.gguf"])
        assert model == CatalogModel(REPO, REPO, re.escape("gpt-oss-20b-Q8_0.gguf"), size, folder=REPO)
        path = pull(model, tmp_path, on_progress=[].append, endpoint=hub.endpoint)
    assert path == tmp_path / "models" / REPO / "gpt-oss-20b-Q8_0.gguf"
    assert path.read_bytes() == files[path.name]


def test_one_of_several_by_its_name_or_a_part_of_it(tmp_path: Path) -> None:
    names = ("a-Q4_K_M.gguf", "sub/a-Q8_0-00001-of-00002.gguf", "sub/a-Q8_0-00002-of-00002.gguf", "a-Q8_0-L.gguf")
    with Hub(_files(*names), repo=REPO) as hub:

        def chosen(wanted: str | None) -> list[str]:
            pattern = on_the_hub(REPO, wanted, tmp_path, endpoint=hub.endpoint).files
            return [name for name in names if re.fullmatch(pattern, Path(name).name)]

        assert chosen("q4_k") == chosen("a-Q4_K_M.gguf") == [names[0]]
        assert chosen("a-Q8_0") == chosen("sub/a-Q8_0-00001-of-00002.gguf") == list(names[1:3])
        for wanted, among in (
            (None, "a-Q4_K_M.gguf, a-Q8_0.gguf, a-Q8_0-L.gguf"),
            ("Q8", "a-Q8_0.gguf, a-Q8_0-L.gguf"),
        ):
            with pytest.raises(ModelMissing) as several:
                chosen(wanted)
            named = f"{REPO}:{wanted}" if wanted else REPO
            assert str(several.value) == f"{named}: {REPO} has {among}: name one, ossia models pull {REPO}:FILE"
        path = pull(
            on_the_hub(REPO, "a-Q8_0", tmp_path, endpoint=hub.endpoint),
            tmp_path,
            on_progress=[].append,
            endpoint=hub.endpoint,
        )
        assert [one.name for one in sorted(path.parent.glob("*.gguf"))] == [Path(name).name for name in names[1:3]]


def test_what_is_no_repository_or_has_no_model(tmp_path: Path) -> None:
    with Hub(_files("README.txt"), repo=REPO) as hub:
        with pytest.raises(ModelMissing, match="has no GGUF model"):
            on_the_hub(REPO, None, tmp_path, endpoint=hub.endpoint)
        with pytest.raises(DownloadFailed, match="other/repo isn't on the hub"):
            on_the_hub("other/repo", None, tmp_path, endpoint=hub.endpoint)
        with pytest.raises(ModelMissing, match="'a--b/c' can't be a repository"):
            on_the_hub("a--b/c", None, tmp_path, endpoint=hub.endpoint)


def test_a_part_of_it_is_gone_on_with(tmp_path: Path) -> None:
    name = "gpt-oss-20b-Q8_0.gguf"
    with Hub({name: CONTENT}, repo=REPO, cut_after=[1000] * 9) as hub:
        model = on_the_hub(REPO, None, tmp_path, endpoint=hub.endpoint)
        hub.status = {"storage": 500}
        with pytest.raises(DownloadFailed):
            pull(model, tmp_path, on_progress=[].append, endpoint=hub.endpoint, retry_pause_s=0)
        assert parts_kept(model, tmp_path) == []
        hub.status, hub.cut_after = {}, [1000]
        pull(model, tmp_path, on_progress=[].append, endpoint=hub.endpoint, retry_pause_s=0)
        assert [one.headers.get("range") for one in hub.transfers()][-2:] == [None, "bytes=1000-"]


# -- an address --------------------------------------------------------------------------------------------------------


class _Server:
    """Serves `/gpt-oss.gguf` from the asked range on; `cut_after`: what each answer ends after."""

    def __init__(self, site: Site) -> None:
        self.site, self.content, self.tag, self.cut_after = site, CONTENT, '"one"', list[int]()
        self.ranges, self.total = True, 0
        site.route("/gpt-oss.gguf", self.answer)

    def answer(self, request: Request) -> Reply:
        start, status, headers = 0, 200, {"ETag": self.tag}
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        if asked and self.ranges and request.headers.get("if-range") == self.tag:
            start, status = int(asked[1]), 206
            headers["Content-Range"] = f"bytes {start}-{len(self.content) - 1}/{self.total or len(self.content)}"
        body = self.content[start:]
        cut = self.cut_after.pop(0) if self.cut_after else len(body)
        headers["Content-Length"] = str(len(body))
        return Reply(iter([body[:cut]]), status, headers)

    @property
    def asked(self) -> list[str | None]:
        return [one.headers.get("range") for one in self.site.requests]


@pytest.fixture
def server() -> Iterator[_Server]:
    with Site() as site:
        yield _Server(site)


def _pull(server: _Server, data: Path, seen: list[PullProgress] | None = None) -> Pulled:
    seen = [] if seen is None else seen
    return pull_url(server.site.url("/gpt-oss.gguf?key=secret"), data, on_progress=seen.append, retry_pause_s=0)


def test_an_address(tmp_path: Path, server: _Server) -> None:
    seen: list[PullProgress] = []
    pulled = _pull(server, tmp_path, seen)
    assert pulled == Pulled(pulled.path, hashlib.sha256(CONTENT).hexdigest())
    assert pulled.path.parent.parent == tmp_path / "models" / "127.0.0.1"
    assert pulled.path.name == "gpt-oss.gguf"
    assert pulled.path.read_bytes() == CONTENT
    assert seen[-1] == PullProgress("check", len(CONTENT), len(CONTENT))
    before = len(server.asked)
    assert _pull(server, tmp_path) == pulled
    assert len(server.asked) == before + 1, "only a look at its size"


def test_two_addresses_and_two_versions_are_files_of_their_own(tmp_path: Path, server: _Server) -> None:
    def pulled(path: str) -> Path:
        return pull_url(server.site.url(path), tmp_path, on_progress=[].append).path

    server.site.page("/b/gpt-oss.gguf", CONTENT[:-1] + b"!", ETag='"one"')
    one, other = pulled("/gpt-oss.gguf"), pulled("/b/gpt-oss.gguf")
    server.content, server.tag = CONTENT[:-1] + b"?", '"two"'
    files = [one, other, pulled("/gpt-oss.gguf")]
    assert [path.read_bytes()[-1:] for path in files] == [CONTENT[-1:], b"!", b"?"]
    assert list(files_of(server.site.url("/gpt-oss.gguf?key=x"), tmp_path)) == sorted([files[0], files[2]])


def test_what_is_no_gguf_is_fetched_again(tmp_path: Path, server: _Server) -> None:
    whole, server.content = server.content, b"<html>Sign in".ljust(len(CONTENT))
    assert not _pull(server, tmp_path).path.read_bytes().startswith(b"GGUF")
    server.content = whole
    assert _pull(server, tmp_path).path.read_bytes() == CONTENT


def test_a_cut_transfer_goes_on_where_it_was(tmp_path: Path, server: _Server) -> None:
    server.cut_after = [len(CONTENT), 1000, 500]
    assert _pull(server, tmp_path).path.read_bytes() == CONTENT
    assert server.asked == [None, None, "bytes=1000-", "bytes=1500-"]


def test_another_version_is_begun_anew(tmp_path: Path, server: _Server) -> None:
    server.cut_after = [len(CONTENT), *[1000] * 2, *[0] * 9]
    with pytest.raises(DownloadFailed):
        _pull(server, tmp_path)
    server.cut_after, server.tag, server.content = [], '"two"', CONTENT[::-1]
    assert _pull(server, tmp_path).path.read_bytes() == CONTENT[::-1]


def test_more_than_was_announced(tmp_path: Path, server: _Server) -> None:
    answers = [CONTENT, CONTENT * 2]
    server.site.route("/gpt-oss.gguf", lambda _: Reply(answers.pop(0), headers={"ETag": '"one"'}))
    with pytest.raises(DownloadFailed, match="more came than was announced"):
        _pull(server, tmp_path)
    assert list((tmp_path / "models").rglob("*.gguf")) == []


def test_a_part_of_another_file_is_refused(tmp_path: Path, server: _Server) -> None:
    server.cut_after, server.total = [len(CONTENT), 1000], len(CONTENT) + 1
    with pytest.raises(DownloadFailed, match="another part than was asked for"):
        _pull(server, tmp_path)
    assert list((tmp_path / "models").rglob("*.gguf")) == []


def test_a_server_without_ranges(tmp_path: Path, server: _Server) -> None:
    server.ranges, server.cut_after = False, [len(CONTENT), 1000]
    assert _pull(server, tmp_path).path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.test/x.gguf?key=secret", "must be https:// to download from 'example.test', not 'http'"),
        ("ftp://example.test/x.gguf", "must be https:// to download from 'example.test', not 'ftp'"),
        ("https://me:secret@example.test/x.gguf", "example.test: an address with a password in it isn't used"),
        ("https://example.test/x.zip?key=secret", "example.test: the address must end in the name of a .gguf file"),
        ("https://example.test/..%2F.gguf", "example.test: the address must end in the name of a .gguf file"),
        ("https://example.test/x-00001-of-00003.gguf", "example.test: x-00001-of-00003.gguf is one of several files"),
        ("https://[::1/x.gguf", "the address can't be read: it must be https://HOST/PATH.gguf"),
        ("https://h:99999/x.gguf", "the address can't be read: it must be https://HOST/PATH.gguf"),
        ("https://a..b/x.gguf", "the address can't be read: it must be https://HOST/PATH.gguf"),
        ("https://../x.gguf", "the address can't be read: it must be https://HOST/PATH.gguf"),
        ("https://./x.gguf", "the address can't be read: it must be https://HOST/PATH.gguf"),
        (f"https://{'a' * 300}/x.gguf", "the address can't be read: it must be https://HOST/PATH.gguf"),
        ("https://h/a b.gguf", "the address can't be read: it must be https://HOST/PATH.gguf"),
    ],
)
def test_an_address_that_will_not_do(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        pull_url(url, tmp_path, on_progress=[].append)
    assert str(refused.value).startswith(said)
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def _reason(url: str, data: Path) -> str:
    with pytest.raises(AgentError) as failed:
        pull_url(url, data, on_progress=[].append, retry_pause_s=0)
    return str(failed.value)


def test_servers_that_do_what_they_should_not(tmp_path: Path, server: _Server) -> None:
    site = server.site
    site.redirect("/leads/x.gguf", "http://example.test/x.gguf?key=secret")
    site.redirect("/odd/x.gguf", "http://[/x.gguf")
    site.redirect("/dots/x.gguf", "https://a..b/x.gguf")
    site.redirect("/long/x.gguf", f"https://example.test/{'x' * 100_000}")
    site.redirect("/named/x.gguf", "https://me:secret@example.test/x.gguf")
    site.redirect("/round/x.gguf", "/round/x.gguf")
    site.redirect("/on/gpt-oss.gguf", "/gpt-oss.gguf")
    site.route("/endless/x.gguf", lambda _: Reply(iter([b"x"])))
    site.page("/gone/x.gguf", "", status=410)
    for away in ("leads", "odd", "dots", "long", "named"):
        said = "127.0.0.1: it leads to an address that isn't https://HOST/PATH: that isn't followed"
        assert _reason(site.url(f"/{away}/x.gguf"), tmp_path) == said
    assert _reason(site.url("/round/x.gguf"), tmp_path) == "127.0.0.1: more than 5 redirects"
    assert _reason(site.url("/gone/x.gguf"), tmp_path) == "127.0.0.1: it answered 410"
    assert "it doesn't say how large the file is" in _reason(site.url("/endless/x.gguf"), tmp_path)
    pulled = pull_url(site.url("/on/gpt-oss.gguf"), tmp_path, on_progress=[].append)
    assert pulled.path.read_bytes() == CONTENT
    with pytest.raises(DownloadFailed, match=r"needs 102 kB of disk, 5 bytes are free"):
        pull_url(site.url("/gpt-oss.gguf"), tmp_path / "b", on_progress=[].append, free_bytes=lambda _: 5)


def test_no_token_of_the_hub_goes_along(tmp_path: Path, server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    _pull(server, tmp_path)
    assert all("authorization" not in one.headers for one in server.site.requests)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_a_certificate_that_nobody_signed(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Site(tls=context) as site:
        site.page("/x.gguf", CONTENT)
        said = _reason(site.url("/x.gguf", host="localhost"), tmp_path)
    assert said == "x.gguf: no connection to localhost (ConnectError): pull it again to go on"


def test_a_file_of_known_size_and_hash(tmp_path: Path, server: _Server) -> None:
    target, size, sha256 = tmp_path / "a" / "file", len(CONTENT), hashlib.sha256(CONTENT).hexdigest()
    answers = {
        "/endless": (itertools.repeat(CONTENT), "more came than was announced"),
        "/other": (iter([bytes(size)]), "127.0.0.1 sent another file"),
        "/compressed": (iter([CONTENT]), "the server sends the file compressed"),
    }
    for path, (body, said) in answers.items():
        headers = {"Content-Encoding": "gzip"} if path == "/compressed" else {}
        server.site.route(path, lambda request, body=body, headers=headers: Reply(body, 200, headers))  # type: ignore[misc]
        with pytest.raises(DownloadFailed, match=said):
            pull_known(server.site.url(path), target, size, sha256)
        assert [path.stat().st_size for path in target.parent.glob("*.part")] in ([], [0]) and not target.exists()
    pull_known(server.site.url("/gpt-oss.gguf"), target, size, sha256)
    assert target.read_bytes() == CONTENT
