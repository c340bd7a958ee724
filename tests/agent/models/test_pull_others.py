"""Models that aren't in the catalogue: from a repository of the hub, and from an address."""

from __future__ import annotations

import hashlib
import itertools
import re
from pathlib import Path

import pytest

from ossia.agent.errors import DownloadFailed, ModelNotFound
from ossia.agent.models.catalog import CatalogModel
from ossia.agent.models.pull import on_the_hub, parts_kept, pull
from ossia.agent.models.transfer import pull_known
from tests.support.hub import Hub
from tests.support.site import Reply, Site

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
            with pytest.raises(ModelNotFound) as several:
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
        with pytest.raises(ModelNotFound, match="has no GGUF model"):
            on_the_hub(REPO, None, tmp_path, endpoint=hub.endpoint)
        with pytest.raises(DownloadFailed, match="other/repo isn't on the hub"):
            on_the_hub("other/repo", None, tmp_path, endpoint=hub.endpoint)
        with pytest.raises(ModelNotFound, match="'a--b/c' can't be a repository"):
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


def test_a_file_of_known_size_and_hash(tmp_path: Path) -> None:
    target, size, sha256 = tmp_path / "a" / "file", len(CONTENT), hashlib.sha256(CONTENT).hexdigest()
    answers = {
        "/endless": (itertools.repeat(CONTENT), "more arrived than announced"),
        "/other": (iter([bytes(size)]), "127.0.0.1 sent another file"),
        "/compressed": (iter([CONTENT]), "the server compressed the file"),
    }
    with Site() as site:
        site.page("/file", CONTENT)
        site.redirect("/elsewhere", "/file")
        expected = {"/elsewhere": "it answered 30"}
        for path, (body, said) in answers.items():
            expected[path] = said
            headers = {"Content-Encoding": "gzip"} if path == "/compressed" else {}
            site.route(path, lambda request, body=body, headers=headers: Reply(body, 200, headers))  # type: ignore[misc]
        for path, said in expected.items():
            with pytest.raises(DownloadFailed, match=said):
                pull_known(site.url(path), target, size, sha256)
            left = [path.stat().st_size for path in target.parent.glob("*.part")]
            assert left in ([], [0]) and not target.exists()
        pull_known(site.url("/file"), target, size, sha256)
    assert target.read_bytes() == CONTENT
