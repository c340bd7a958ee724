"""A model built from its specification, and what is reported meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.build import begin, model, models
from ossia.agent.control import Control
from ossia.agent.engine.llama import LlamaEngine, processor_features
from ossia.agent.engine.remote.address import parse_url
from ossia.agent.errors import EngineFailed, ModelNotFound, ModelUnusable, ScriptInvalid, SettingRefused
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.memory import Memory
from ossia.agent.models.model import open_model
from ossia.agent.models.needs import reason_against
from ossia.agent.models.plan import plan
from ossia.agent.models.spec import ModelSpec
from ossia.agent.worker import Worker
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.host import Host, Loading, Notice
from tests.support.command import write_script
from tests.support.host import host_in
from tests.support.remote import serve
from tests.support.site import Site

ANSWER = "<|channel|>final<|message|>Done.<|return|>"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_in(tmp_path)


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


class Heard:
    """A `Report` that remembers."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.loading: list[str] = []

    def __call__(self, what: Notice | Loading) -> None:
        if isinstance(what, Notice):
            self.notices.append(what)
        else:
            self.loading.append(what.what)


def test_the_model_that_is_built_in(host: Host) -> None:
    heard = Heard()
    built = model(ModelSpec(context=4096), host, heard)
    try:
        assert (built.name, built.served) == ("etude", ())
        assert built.plan is not None and built.plan.context_tokens == 4096
        assert built.tokenizer.vocabulary.digest == built.engine.vocabulary.digest
    finally:
        built.close().result()
        built.worker.close()
    note, where, memory = heard.notices
    assert note.level == "note" and note.text.startswith("using étude, the built-in study model")
    assert where.level == memory.level == "detail" and where.text.startswith(f"etude: {ETUDE_PATH}, context 4,096 ")
    assert memory.text.startswith("memory ")
    assert heard.loading[-1] == "", "nothing is waited for any more"
    assert host.log.exists()


def test_the_tokenizer_is_there_before_the_weights_are(host: Host, worker: Worker) -> None:
    begun = begin(ModelSpec("etude", context=4096), host, Heard(), worker=worker, stop=Control())
    assert begun.name == "etude" and begun.note == ""
    assert begun.tokenizer.decode(begun.tokenizer.encode("48*17")) == "48*17"
    begun.finish().close().result()


def test_what_is_given_up_is_freed(host: Host, worker: Worker) -> None:
    begun = begin(ModelSpec("etude", context=4096), host, Heard(), worker=worker, stop=Control())
    begun.close()
    engine = begun.finish().engine
    worker.submit(lambda: None).result()
    assert isinstance(engine, LlamaEngine) and not engine.native.is_open


def test_several_lanes_share_the_weights(host: Host) -> None:
    heard = Heard()
    built = models(ModelSpec("etude", context=1024), host, heard, lanes=3)
    engines = [one.engine for one in built]
    assert all(isinstance(engine, LlamaEngine) for engine in engines)
    assert len({id(engine) for engine in engines}) == len({one.worker.thread for one in built}) == 3
    assert len({id(getattr(engine, "native")) for engine in engines}) == 1  # noqa: B009
    assert [one.plan and one.plan.lanes for one in built] == [3] * 3
    assert heard.loading[-1] == "" and len(heard.notices) == 2, "said once"
    for one in built:
        assert getattr(one.engine, "native").is_open  # noqa: B009
        one.close().result(10)
        one.worker.close()
    assert not getattr(engines[0], "native").is_open  # noqa: B009


def test_a_script_is_replayed_by_all_lanes_together(host: Host, tmp_path: Path) -> None:
    script = Path(write_script(tmp_path, ANSWER, ANSWER).removeprefix("script:"))
    one, other = models(ModelSpec(script=script), host, lanes=2)
    assert one.engine is other.engine and one.worker is not other.worker and one.codec is not other.codec
    for built in (one, other):
        built.close().result(10)
        built.worker.close()


def test_what_is_private_is_read_and_not_stored(host: Host) -> None:
    for private in (False, True):
        built = model(ModelSpec("etude", context=4096, private=private), host)
        assert getattr(built.engine, "prompts").writes is not private  # noqa: B009
        assert getattr(built.engine, "prompts").folder == host.kv  # noqa: B009
        built.close().result()
        built.worker.close()


@pytest.mark.skipif(reason_against(processor_features()) is not None, reason="this build can't repack")
def test_a_repacked_copy_is_made_where_it_is_asked_for(host: Host, worker: Worker) -> None:
    spec = ModelSpec("etude", context=4096, repack="on")
    options = spec.load_options(0.0)
    expected = plan(open_model(ETUDE_PATH), memory=Memory(None), options=options, processor=processor_features())
    for one, bytes_ in ((spec, expected.needs.repacked), (replace(spec, repack="auto"), 0)):
        built = begin(one, host, Heard(), worker=worker, stop=Control()).finish()
        assert built.plan is not None and built.plan.needs.repacked == bytes_
        built.close().result()


def test_a_script(host: Host, tmp_path: Path, worker: Worker) -> None:
    script = Path(write_script(tmp_path, ANSWER).removeprefix("script:"))
    built = begin(ModelSpec(script=script), host, Heard(), worker=worker, stop=Control()).finish()
    assert (built.engine.context_tokens, built.plan) == (131_072, None)
    short = begin(ModelSpec(script=script, context=500), host, Heard(), worker=worker, stop=Control()).finish()
    assert short.engine.context_tokens == 500


def test_a_server(host: Host, site: Site, etude_tokenizer: Tokenizer) -> None:
    serve(site, etude_tokenizer)
    heard = Heard()
    spec = ModelSpec(server=parse_url(site.url()), threads=2, explicit=frozenset({"threads"}))
    built, other = models(spec, host, heard, lanes=2)
    assert built.engine is not other.engine and other.worker.submit(other.engine.close).result(10) is None
    other.worker.close()
    assert built.name == f"etude @ 127.0.0.1:{site.port}"
    assert [one.level for one in heard.notices] == ["note", "warning"]
    assert heard.notices[1].text == "--threads: ignored, since the server decides this"
    assert set(heard.loading) <= {"asking the server", ""}
    built.close().result()
    built.worker.close()


def test_a_server_that_is_given_up(host: Host, site: Site, worker: Worker) -> None:
    site.silent("/props")
    stop = Control()
    asked: list[str] = []

    def report(what: Notice | Loading) -> None:
        if isinstance(what, Loading):
            asked.append(what.what)
            stop.stop()

    with pytest.raises(EngineFailed):
        begin(ModelSpec(server=parse_url(site.url())), host, report, worker=worker, stop=stop)
    assert asked[0] == "asking the server"


def test_an_interrupt_while_a_server_is_asked_ends_the_asking(host: Host, site: Site, worker: Worker) -> None:
    site.silent("/props")
    stop = Control()

    def report(what: Notice | Loading) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin(ModelSpec(server=parse_url(site.url())), host, report, worker=worker, stop=stop)
    assert stop.stopped
    assert worker.submit(lambda: "free").result(30) == "free"


def test_ids_are_not_to_be_had_from_messages(host: Host, worker: Worker) -> None:
    from tests.support.served import Server

    with Server("responses", ()) as server:
        server.list_models("openai/gpt-oss-20b")
        spec = ModelSpec(server=parse_url(server.url()))
        begun = begin(spec, host, Heard(), worker=worker, stop=Control())
        with pytest.raises(SettingRefused, match="--raw shows ids"):
            begun.finish(tap=lambda ids: None)


def test_what_can_not_be_built(host: Host, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        model(ModelSpec("gpt-oss-20b"), host)
    with pytest.raises(ScriptInvalid):
        model(ModelSpec(script=tmp_path / "none"), host)
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelUnusable, match=r"broken\.gguf"):
        model(ModelSpec(str(tmp_path / "broken.gguf")), host)
