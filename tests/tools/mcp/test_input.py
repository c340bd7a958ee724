"""What servers ask the user for in the middle of a call: forms and pages, over stdio and HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.tools.mcp.servers import McpServers
from ossia.tools.spec import Decision
from tests.support.calls import Called, call
from tests.support.mcp_servers import hostile, over_http, servers, study

BOOK = "functions.study__book"
NOTE = "[the server asked the user for input: "


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServers]:
    """A server of the protocol before 2026, which asks whatever it is told to."""
    with servers(tmp_path_factory.mktemp("asking"), {"asks": hostile("asks", timeout_s=20)}) as made:
        made.connect()
        yield made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServers]:
    with servers(tmp_path_factory.mktemp("input"), {"study": {**study(), "timeout_s": 20}}) as made:
        made.connect()
        yield made


def _gives(values: object) -> Decision:
    return Decision("call_1", True, arguments=json.dumps(values))


def test_a_form_is_a_question(made: McpServers, tmp_path: Path) -> None:
    values = {"day": "2027-01-02", "people": "3", "where": "out", "quiet": "y"}
    called = call(made.tools, BOOK, folder=tmp_path, answers=[_gives(values)])
    told = '{"day":"2027-01-02","people":3,"where":"out","quiet":true}'
    assert called.text == f"accept {told}\n{NOTE}they answered]"
    assert called.shown == f"{NOTE}they answered]\n" and called.result.taints == {"outside", "private"}
    _, asked = called.asked
    assert (asked.firm, asked.preview.summary) == (True, "study asks you for input")
    assert asked.arguments == {"day": None, "people": 2, "where": "in", "quiet": False}
    assert asked.form == {
        "day": "Day · When it begins · date · needed",
        "people": "People · integer, 1 to 9",
        "where": "Where · one of in, out",
        "quiet": "Quiet · boolean",
    }
    assert asked.preview.detail.startswith("Which table")
    assert asked.preview.detail.splitlines()[2:] == [
        "day: Day · When it begins · date · needed",
        "people: People · integer, 1 to 9 = 2",
        'where: Where · one of in, out = "in"',
        "quiet: Quiet · boolean = false",
    ]


@pytest.mark.parametrize(
    ("answer", "said", "told"),
    [
        (None, "decline", "they declined"),
        (Decision("call_1", False), "decline", "they declined"),
        (Decision("call_1", False, unasked=True), "decline", "nobody could be asked"),
    ],
)
def test_it_may_be_declined(made: McpServers, tmp_path: Path, answer: Decision | None, said: str, told: str) -> None:
    called = call(made.tools, BOOK, folder=tmp_path, answers=[answer])
    assert called.text == f"{said}\n{NOTE}{told}]"


def test_values_that_do_not_fit_are_asked_for_again(made: McpServers, tmp_path: Path) -> None:
    day = {"day": "2027-01-02"}
    wrong: list[tuple[Decision, str]] = [
        (Decision("call_1", True), "day: a value is needed"),
        (_gives({"day": "tomorrow"}), "day: 'tomorrow' is not a 'date'"),
        (_gives({**day, "people": 10}), "people: 10 is greater than the maximum of 9"),
        (_gives({**day, "where": "up"}), "where: 'up' is not one of ['in', 'out']"),
        (_gives({**day, "quiet": "maybe"}), "quiet: 'maybe' is not of type 'boolean'"),
        (_gives({**day, "tip": 1}), "unknown argument 'tip' (it has: day, people, where, quiet)"),
        (_gives([]), "the values must be a JSON object"),
        (Decision("call_1", True, arguments="{"), "no JSON: Expecting property name"),
    ]
    called = call(made.tools, BOOK, folder=tmp_path, answers=[*(answer for answer, _ in wrong), _gives(day)])
    assert called.text.startswith("accept {")
    again = called.asked[2:]
    assert [asked.rejected for asked in again[1:]] == [answer.arguments for answer, _ in wrong[1:]]
    for asked, (_, fault) in zip(again, wrong, strict=True):
        assert asked.fault.startswith(fault)
    called = call(made.tools, BOOK, folder=tmp_path)  # nobody gives what is needed
    assert called.text.startswith("decline") and len(called.asked) == 11


def _asks(made: McpServers, what: dict[str, Any], folder: Path, *answers: Decision | None) -> Called:
    return call(made.tools, "functions.asks__echo", {"text": json.dumps(what)}, folder=folder, answers=answers)


def _form(**properties: object) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"mode": "form", "message": "Which?", "requestedSchema": schema}


RED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


@pytest.mark.parametrize(
    ("schema", "hint", "value", "wrong"),
    [
        ({"type": "string", "minLength": 2, "maxLength": 3}, "text, 2 to 3 characters", "ab", "abcd"),
        ({"type": "string", "format": "email"}, "email", "a@b.test", "a@"),
        ({"type": "string", "format": "uri"}, "uri", "mailto:a@b.test", "a b"),
        ({"type": "string", "format": "date-time"}, "date-time", "2027-01-02T03:04:05Z", "2027-01-02"),
        ({"type": "string", "pattern": "(a+)+$"}, "text", "a" * 40 + "!", None),
        ({"type": "number", "minimum": 0}, "number, 0 to …", 0.5, -1),
        ({"type": "string", "oneOf": RED}, "one of r (Red), g (Green)", "g", "Green"),
        ({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}, "one of r (Red), g (Green)", "r", "x"),
        ({"type": "array", "items": {"anyOf": RED}, "minItems": 1}, "some of r (Red), g (Green), 1 to … of them",
         ["r", "g"], []),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "some of a, b", ["b"], "a,c"),
    ],
)  # fmt: skip
def test_fields(
    asking: McpServers, tmp_path: Path, schema: dict[str, Any], hint: str, value: object, wrong: object
) -> None:
    wrongs = [] if wrong is None else [_gives({"x": wrong})]
    called = _asks(asking, _form(x=schema), tmp_path, *wrongs, _gives({"x": value}))
    assert json.loads(called.text.partition("\n")[0]) == {"action": "accept", "content": {"x": value}}
    assert called.asked[1].form == {"x": f"{hint} · needed"}
    assert [bool(asked.fault) for asked in called.asked[1:]] == [False] + [True] * len(wrongs)


def test_a_page_is_shown_with_its_host(asking: McpServers, tmp_path: Path) -> None:
    url = "https://bank.test@evil.test/login?x=1"
    page = {"mode": "url", "message": "Log in there", "url": url, "elicitationId": "1"}
    called = _asks(asking, page, tmp_path)
    assert called.text == f'{{"action": "accept"}}\n{NOTE}they answered]'
    preview = called.asked[1].preview
    assert (preview.summary, preview.detail) == ("asks asks you to open a page of evil.test", f"Log in there\n\n{url}")
    called = _asks(asking, {**page, "url": "https://b\u00fccher.test/"}, tmp_path, None)
    assert '"decline"' in called.text and called.asked[1].preview.summary.endswith(" xn--bcher-kva.test")
    for bad in ("file:///etc/passwd", "javascript:alert(1)", "https:///x", "https://a.test/ b", "https://a..test/"):
        called = _asks(asking, {**page, "url": bad}, tmp_path)
        assert called.text == '{"action": "cancel"}' and len(called.asked) == 1
    pages = {"pages": [page], "n": 1}
    assert _asks(asking, pages, tmp_path).text == f"[no content]\n{NOTE}they answered]"
    refused = _asks(asking, {**pages, "n": 2}, tmp_path, None)
    assert refused.result.error and "it wants a page to be opened first, which the user didn't do" in refused.text


def test_what_a_form_may_not_do(asking: McpServers, tmp_path: Path) -> None:
    """A form for a secret is warned of; one that asks for ever, or for what no form may hold, ends."""
    for name, words in (("api_key", {}), ("x", {"title": "Your Password"}), ("x", {"description": "the PIN"})):
        (_, asked) = _asks(asking, _form(**{name: {"type": "string", **words}}), tmp_path, None).asked
        assert "IT SEEMS TO ASK FOR A SECRET" in asked.reason
    assert "SECRET" not in _asks(asking, _form(spin={"type": "string"}), tmp_path, None).asked[1].reason
    (_, asked) = _asks(asking, {**_form(), "message": "a\u202eb\n" + "x" * 10_000}, tmp_path, None).asked
    assert len(asked.preview.detail) < 5_000


def test_over_http(tmp_path: Path) -> None:
    with over_http() as url, servers(tmp_path, {"web": {"url": url}}) as made:
        made.connect()
        called = call(made.tools, "functions.web__book", folder=tmp_path, answers=[_gives({"day": "2027-01-02"})])
    assert called.text.startswith('accept {"day":"2027-01-02","people":2')


def test_a_stop_while_it_is_asked(made: McpServers, tmp_path: Path) -> None:
    control = Control()

    def stopping() -> Iterator[Decision | None]:
        control.stop()
        yield None

    called = call(made.tools, BOOK, folder=tmp_path, stop=control, answers=stopping())
    assert called.text == "[interrupted by the user]"
    assert call(made.tools, "functions.study__weird_name_1", folder=tmp_path).text == "called by another name"


def test_time_to_answer_is_not_the_calls(tmp_path: Path) -> None:
    def slowly() -> Iterator[Decision | None]:
        threading.Event().wait(2.1)  # longer than a call may take
        yield _gives({"day": "2027-01-02"})

    with servers(tmp_path, {"study": {**study(), "timeout_s": 2}}) as made:
        made.connect()
        called = call(made.tools, BOOK, folder=tmp_path, answers=slowly())
    assert called.text.startswith("accept")
