"""The blocks of a prompt as one text."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossia.agent.sessions.session import UserText
from ossia.cli.acp.prompt import text_of
from ossia.cli.acp.rpc import RpcError
from ossia.tools.spec import Taint

FOLDER = Path("/work")
UNTRUSTED: frozenset[Taint] = frozenset({"outside", "private"})


def _text(*blocks: object) -> UserText:
    return text_of(list(blocks), FOLDER, UNTRUSTED)


def test_typed_text_and_links_are_the_users_words() -> None:
    said = _text(
        {"type": "text", "text": "Explain"},
        {"type": "resource_link", "uri": "file:///work/my%20notes.md", "name": "my notes.md"},
        {"type": "text", "text": " and "},
        {"type": "resource_link", "uri": "https://example.org/a", "name": "a"},
    )
    words = 'Explain @"my notes.md" and https://example.org/a'
    assert said == UserText(words, words)


def test_embedded_text_stands_behind_it_with_the_taints_of_the_folder() -> None:
    resource = {"uri": "file:///work/src/a.py", "text": "```\n"}
    said = _text({"type": "text", "text": "Explain."}, {"type": "resource", "resource": resource})
    assert said == UserText("Explain.\n\nAttached file src/a.py:\n````\n```\n````", "Explain.", UNTRUSTED)


@pytest.mark.parametrize(("uri", "taint"), [("file:///etc/hosts", "private"), ("https://example.org/a", "outside")])
def test_embedded_text_from_elsewhere_is_no_text_of_the_folder(uri: str, taint: Taint) -> None:
    assert _text({"type": "resource", "resource": {"uri": uri, "text": "x"}}).taints == {taint}


@pytest.mark.parametrize(
    "blocks",
    [
        None,
        [],
        ["Hi."],
        [{}],
        [{"type": "text"}],
        [{"type": "text", "text": " \n"}],
        [{"type": "text", "text": 7}],
        [{"type": "text", "text": "x" * 4_000_001}],
        [{"type": "image", "data": "", "mimeType": "image/png"}],
        [{"type": "audio", "data": "", "mimeType": "audio/wav"}],
        [{"type": "resource", "resource": {"uri": "file:///work/a.png", "blob": "AAAA"}}],
    ],
    ids=lambda blocks: str(blocks)[:60],
)
def test_what_cannot_be_read_is_refused(blocks: object) -> None:
    with pytest.raises(RpcError):
        text_of(blocks, FOLDER, UNTRUSTED)
