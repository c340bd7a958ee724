"""Downloads from a hub on loopback: whole, cut and continued, wrong, refused."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.errors import DownloadFailed
from ossia.agent.models.catalog import CatalogModel
from ossia.agent.models.pull import on_the_hub, parts_kept, pull
from ossia.agent.models.transfer import PullProgress
from tests.support.hub import SIGNATURE, Hub
from tests.support.site import Site

CONTENT = bytes(range(256)) * 400
NAME = "gpt-oss-20b-mxfp4.gguf"
MODEL = CatalogModel("gpt-oss-20b", "ggml-org/gpt-oss-20b-GGUF", r"gpt-oss-20b-mxfp4(-\d{5}-of-\d{5})?\.gguf", 1)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def _hub(**changes: object) -> Hub:
    hub = Hub({NAME: CONTENT}, repo=MODEL.repo)
    for name, value in changes.items():
        setattr(hub, name, value)
    return hub


def _pull(hub: Hub, data: Path, seen: list[PullProgress] | None = None) -> Path:
    return pull(
        MODEL, data, on_progress=(seen if seen is not None else []).append, endpoint=hub.endpoint, retry_pause_s=0
    )


def _partial(data: Path) -> Path:
    return data / "models" / f"{NAME}.{DIGEST[:12]}.part"


def test_a_file_arrives_whole_and_is_reported(tmp_path: Path) -> None:
    seen: list[PullProgress] = []
    with _hub() as hub:
        path = _pull(hub, tmp_path, seen)
    assert path == tmp_path / "models" / NAME
    assert path.read_bytes() == CONTENT
    assert not _partial(tmp_path).exists()
    assert seen[0] == PullProgress("download", 0, len(CONTENT))
    assert [progress.done for progress in seen if progress.phase == "check"] == [len(CONTENT)]
    assert PullProgress("download", len(CONTENT), len(CONTENT)) in seen


def test_what_is_there_is_not_downloaded_again(tmp_path: Path) -> None:
    with _hub() as hub:
        _pull(hub, tmp_path)
        hub.requests.clear()
        path = _pull(hub, tmp_path)
        assert path.read_bytes() == CONTENT
        assert hub.transfers() == []


@pytest.mark.parametrize("cut_by", ["close", "reset"])
def test_a_connection_cut_in_the_middle_goes_on_where_it_was(tmp_path: Path, cut_by: str) -> None:
    with _hub(cut_after=[30_000, 20_000], cut_by=cut_by) as hub:
        assert _pull(hub, tmp_path).read_bytes() == CONTENT
        ranges = [request.headers.get("range") for request in hub.transfers()]
    assert ranges[0] is None
    if cut_by == "close":  # what a reset leaves of the bytes before it is the system's choice
        assert ranges == [None, "bytes=30000-", "bytes=50000-"]


def test_a_later_pull_goes_on_where_a_failed_one_ended(tmp_path: Path) -> None:
    with _hub(cut_after=[40_000]) as hub:
        hub.cut_by = "close"
        partial = _partial(tmp_path)
        partial.parent.mkdir(parents=True)
        partial.write_bytes(CONTENT[:25_000])
        hub.status["storage"] = 500
        with pytest.raises(DownloadFailed, match=r"answered 500; partial download kept, `ossia models pull"):
            _pull(hub, tmp_path)
        assert partial.read_bytes() == CONTENT[:25_000]
        del hub.status["storage"]
        hub.cut_after = []
        hub.requests.clear()
        assert _pull(hub, tmp_path).read_bytes() == CONTENT
        assert [request.headers.get("range") for request in hub.transfers()] == ["bytes=25000-"]


def test_an_interrupt_leaves_what_came(tmp_path: Path) -> None:
    def interrupt(progress: PullProgress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with _hub() as hub:
        with pytest.raises(KeyboardInterrupt):
            pull(MODEL, tmp_path, on_progress=interrupt, endpoint=hub.endpoint)
        kept = _partial(tmp_path).read_bytes()
        assert kept
        assert CONTENT.startswith(kept)
        assert _pull(hub, tmp_path).read_bytes() == CONTENT


def test_a_server_that_ignores_the_range_starts_over(tmp_path: Path) -> None:
    with _hub(ignores_range=True) as hub:
        _partial(tmp_path).parent.mkdir(parents=True)
        _partial(tmp_path).write_bytes(b"x" * 1000)
        assert _pull(hub, tmp_path).read_bytes() == CONTENT


def test_a_transfer_that_claims_to_be_complete_goes_on(tmp_path: Path) -> None:
    with _hub(cut_after=[30_000, 0, 20_000], says_less=3) as hub:
        assert _pull(hub, tmp_path).read_bytes() == CONTENT
        ranges = [request.headers.get("range") for request in hub.transfers()]
    assert ranges == [None, "bytes=30000-", "bytes=30000-", "bytes=50000-"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sent": {NAME: CONTENT + b"x"}}, "more arrived than announced|another part than"),
        ({"sent": {NAME: CONTENT * 2}, "chunked": True}, "more arrived than announced|another part than"),
        ({"sent": {NAME: CONTENT + b"x"}, "ignores_range": True}, "more arrived than announced"),
        ({"endless": "storage"}, "more arrived than announced"),
        ({"sent": {NAME: bytes(4 << 20)}, "compressed": True}, "compressed the file"),
        ({"endless": "/api/models/"}, "isn't the hub's list of files"),
        ({"endless": "/api/models/", "status": {"/api/models/": 500}}, "the hub answered 500"),
        ({"endless": f"/{MODEL.repo}", "status": {f"/{MODEL.repo}": 404}}, "the hub answered 404"),
    ],
)
@pytest.mark.parametrize("came", [0, 1000, len(CONTENT) + 1])
def test_no_answer_is_read_beyond_what_was_announced(
    tmp_path: Path, wrong: dict[str, object], said: str, came: int
) -> None:
    _partial(tmp_path).parent.mkdir(parents=True)
    _partial(tmp_path).write_bytes((CONTENT * 2)[:came])
    with _hub(**wrong) as hub, pytest.raises(DownloadFailed, match=said):
        _pull(hub, tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= len(CONTENT) + 1


def test_chunks_without_a_length_arrive_whole(tmp_path: Path) -> None:
    with _hub(chunked=True) as hub:
        assert _pull(hub, tmp_path).read_bytes() == CONTENT


def test_a_server_without_ranges_that_breaks_off_at_another_place_each_time_is_given_up(tmp_path: Path) -> None:
    with _hub(cut_after=[1000, 2000] * 20, ignores_range=True) as hub:
        with pytest.raises(DownloadFailed, match="no connection to the hub"):
            _pull(hub, tmp_path)
        assert len(hub.transfers()) < 10


def test_a_server_that_never_sends_anything_is_given_up(tmp_path: Path) -> None:
    with _hub(cut_after=[0] * 9, says_less=9) as hub:
        with pytest.raises(DownloadFailed, match=r"ended early; nothing was downloaded, `ossia models pull"):
            _pull(hub, tmp_path)
        assert len(hub.transfers()) == 5


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with _hub() as hub, pytest.raises(DownloadFailed, match=r"gpt-oss-20b can't be downloaded: \w+ exists; nothing"):
        _pull(hub, tmp_path)


def test_what_does_not_match_its_hash_is_deleted(tmp_path: Path) -> None:
    with _hub(sent={NAME: CONTENT[:-1] + b"!"}) as hub:
        with pytest.raises(
            DownloadFailed, match=rf"its sha256 is \w{{12}}…, the hub says {DIGEST[:12]}…: the file was deleted"
        ):
            _pull(hub, tmp_path)
        assert [path.name for path in (tmp_path / "models").glob("*gguf*")] == []
        hub.sent.clear()
        assert _pull(hub, tmp_path).read_bytes() == CONTENT


def test_a_partial_file_that_is_wrong_is_found_out(tmp_path: Path) -> None:
    with _hub() as hub:
        _partial(tmp_path).parent.mkdir(parents=True)
        _partial(tmp_path).write_bytes(b"x" * 1000)
        with pytest.raises(DownloadFailed, match="the file was deleted; pull it again"):
            _pull(hub, tmp_path)
        assert _pull(hub, tmp_path).read_bytes() == CONTENT


def test_a_disk_that_is_too_small_is_said_before_anything_comes(tmp_path: Path) -> None:
    with _hub() as hub:
        with pytest.raises(DownloadFailed, match=r"needs 102 kB of disk, 102 kB are free in .*models: free up"):
            pull(MODEL, tmp_path, on_progress=[].append, endpoint=hub.endpoint, free_bytes=lambda _: len(CONTENT) - 1)
        assert hub.transfers() == []
        _partial(tmp_path).write_bytes(CONTENT[:1])  # what is there already needs no room
        pull(MODEL, tmp_path, on_progress=[].append, endpoint=hub.endpoint, free_bytes=lambda _: len(CONTENT) - 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repo": "someone/else"}, r"ggml-org/gpt-oss-20b-GGUF isn't on the hub \(or needs a token\)"),
        ({"status": {"/api": 503}}, r"the hub answered 503"),
        ({"files": {"other.gguf": b"x"}}, r"has no file like .* any more"),
        ({"without_hash": True}, r"has no hash of gpt-oss-20b-mxfp4.gguf"),
        ({"gated": True}, r"asks for a token: set HF_TOKEN"),
    ],
)
def test_a_hub_that_refuses(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with _hub(**changes) as hub, pytest.raises(DownloadFailed, match=message):
        _pull(hub, tmp_path)


def _listing(file: object) -> str:
    return json.dumps({"id": MODEL.repo, "sha": "0" * 40, "tags": [], "siblings": [file]})


@pytest.mark.parametrize(
    "answer",
    [
        "<html>Sign in to the network</html>",
        "[]",
        '{"siblings": 5}',
        _listing({"rfilename": 7}),
        _listing({"rfilename": NAME, "size": 1, "lfs": {"sha256": "../x", "size": 1, "pointerSize": 1}}),
        _listing({"rfilename": NAME, "size": -1, "lfs": {"sha256": DIGEST, "size": 1, "pointerSize": 1}}),
        _listing({"rfilename": "a\0.gguf", "size": 1}),
    ],
)
def test_an_answer_that_is_not_the_hubs(tmp_path: Path, answer: str) -> None:
    with Site() as site:
        site.page(f"/api/models/{MODEL.repo}", answer, type="application/json")
        endpoint = site.url("").rstrip("/")
        said = "the answer isn't the hub's list of files: check HF_ENDPOINT"
        with pytest.raises(DownloadFailed, match=said):
            pull(MODEL, tmp_path, on_progress=[].append, endpoint=endpoint)
        with pytest.raises(DownloadFailed, match=said):
            on_the_hub(MODEL.repo, None, tmp_path, endpoint=endpoint)


def test_a_file_that_is_gone_from_the_hub(tmp_path: Path) -> None:
    with _hub(status={f"/{MODEL.repo}/resolve": 404}) as hub, pytest.raises(DownloadFailed, match="answered 404"):
        _pull(hub, tmp_path)


def test_without_a_connection(tmp_path: Path) -> None:
    with _hub() as hub:
        endpoint = hub.endpoint
    with pytest.raises(DownloadFailed, match=r"no connection to the hub \(ConnectError\)"):
        pull(MODEL, tmp_path, on_progress=[].append, endpoint=endpoint, retry_pause_s=0)


def test_a_split_model_is_found_only_when_all_its_parts_are_there(tmp_path: Path) -> None:
    files = {f"gpt-oss-20b-mxfp4-0000{part}-of-00003.gguf": CONTENT[part:] for part in (1, 2, 3)}
    seen: list[PullProgress] = []

    def watch(progress: PullProgress) -> None:
        seen.append(progress)
        assert list((tmp_path / "models").glob("*.gguf")) == [], "in its place before all hashes are checked"

    with Hub(files, repo=MODEL.repo) as hub:
        path = pull(MODEL, tmp_path, on_progress=watch, endpoint=hub.endpoint)
    total = sum(map(len, files.values()))
    assert path.name == "gpt-oss-20b-mxfp4-00001-of-00003.gguf"
    assert {one.name: one.read_bytes() for one in path.parent.glob("*.gguf")} == files
    assert {progress.total for progress in seen} == {total}
    assert [progress.done for progress in seen] == sorted(
        progress.done for progress in seen if progress.phase == "download"
    ) + sorted(progress.done for progress in seen if progress.phase == "check")


def test_a_wrong_first_part_leaves_no_part_in_its_place(tmp_path: Path) -> None:
    files = {f"gpt-oss-20b-mxfp4-0000{part}-of-00003.gguf": CONTENT[part:] for part in (1, 2, 3)}
    first = "gpt-oss-20b-mxfp4-00001-of-00003.gguf"
    with Hub(files, repo=MODEL.repo, sent={first: files[first][:-1] + b"!"}) as hub:
        with pytest.raises(DownloadFailed, match="the file was deleted"):
            _pull(hub, tmp_path)
        assert list((tmp_path / "models").glob("*.gguf")) == []
        assert len(parts_kept(MODEL, tmp_path)) == 2
        hub.sent, hub.requests = {}, []
        assert _pull(hub, tmp_path).read_bytes() == files[first]
        assert len(hub.transfers()) == 1


def test_a_damaged_file_is_downloaded_again(tmp_path: Path) -> None:
    with _hub() as hub:
        path = _pull(hub, tmp_path)
        path.write_bytes(CONTENT[:50_000] + b"!" + CONTENT[50_001:])
        assert _pull(hub, tmp_path).read_bytes() == CONTENT
        assert len(hub.transfers()) == 2


def test_two_pulls_at_once_also_by_another_name(tmp_path: Path) -> None:
    with _hub() as hub:

        def second(progress: PullProgress) -> None:
            if progress.phase == "download" and progress.done:
                for model in (MODEL, replace(MODEL, name=f"{MODEL.repo}:{NAME}")):
                    with pytest.raises(DownloadFailed, match="gpt-oss-20b-mxfp4 is being downloaded by another ossia"):
                        pull(model, tmp_path, on_progress=[].append, endpoint=hub.endpoint)

        pull(MODEL, tmp_path, on_progress=second, endpoint=hub.endpoint)


def test_a_token_goes_to_the_hub_alone_and_into_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_a_secret_of_the_user")
    with _hub(cut_after=[10]) as hub:
        _pull(hub, tmp_path)
        tokens = {(request.host, request.headers.get("authorization")) for request in hub.requests}
        hub.status["storage"] = 500
        (tmp_path / "models" / NAME).unlink()
        with pytest.raises(DownloadFailed) as failure:
            _pull(hub, tmp_path)
    assert tokens == {("hub", "Bearer hf_a_secret_of_the_user"), ("storage", None)}
    said = f"{failure.value}{caplog.text}{''.join(capfd.readouterr())}"
    assert not re.search(f"hf_a_secret|{SIGNATURE}", said)
