"""The strict parser is the reference's twin: after every token of every stream, errors included."""

from __future__ import annotations

import random

import openai_harmony
import pytest

from ossia.harmony.errors import ParseError
from ossia.harmony.header import rust_debug
from ossia.harmony.messages import Delta, Message
from ossia.harmony.parse import StreamParser
from ossia.harmony.tokenizer import Tokenizer
from tests.oracle.parse import differences, random_case
from tests.support.streams import Streams, harmony_ids


@pytest.fixture(scope="module")
def streams(wheel_tokenizer: Tokenizer) -> Streams:
    return Streams(wheel_tokenizer)


def test_random_streams(streams: Streams, wheel_tokenizer: Tokenizer, wheel: openai_harmony.HarmonyEncoding) -> None:
    for seed in range(500):
        tokens, role = random_case(streams, seed)
        assert differences(tokens, role, wheel_tokenizer, wheel) == [], seed


def test_random_streams_reach_every_error(streams: Streams, wheel_tokenizer: Tokenizer) -> None:
    seen = set()
    for seed in range(500):
        tokens, role = random_case(streams, seed)
        parser = StreamParser(wheel_tokenizer, role=role, strict=True)
        for token in [*tokens, None]:
            try:
                parser.flush() if token is None else parser.push(token)
            except ParseError as error:
                seen.add(str(error)[:16])
    assert seen == {
        *("Unexpected token", "Unexpected EOS w", "could not decode", "channel marker p"),
        *(
            "message header d",
            "Unknown role: as",
            "unexpected token",
            *{s for s in seen if s.startswith("Unknown role: ")},
        ),
    }


CASES = [
    ("assistant", "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>"),
    ("assistant", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"),
    ("assistant", " to=functions.f<|channel|>commentary code<|message|>{}<|call|>"),
    ("assistant", "<|channel|>final json<|message|>{}<|return|>"),
    ("assistant", "<|channel|>final <|constrain|>json<|message|>{}<|return|>"),
    ("assistant", "<|channel|>commentary to=f <|constrain|> json<|message|>{}<|call|>"),
    ("assistant", "<|channel|>commentary to=f to=f<|message|>{}<|call|>"),
    ("assistant", 'a "b\\ é\u0301 \u200b c d<|message|>x'),
    ("assistant", "<|channel|><|message|>x"),
    ("assistant", "<|channel|> final<|message|>x"),
    ("assistant", "<|start|>assistant<|message|>hi<|end|>"),
    ("assistant", "<|channel|>final<|message|>a<|channel|>b<|message|><|start|><|endoftext|>c<|end|>"),
    ("assistant", "I must refuse<|end|>"),
    ("assistant", " to=<|message|>x<|end|>"),
    (None, "<|start|>functions.f to=assistant<|channel|>commentary<|message|>x<|end|>"),
    (None, "<|start|>functions.f<|message|>x<|end|><|start|>user<|message|>y<|end|>"),
    (None, "<|start|>tool<|message|>x<|end|><|start|>user:alice<|message|>y<|end|>"),
    (None, "<|start|>to=x<|message|>x<|end|><|start|> <|message|>y<|end|>"),
    (None, "<|end|><|start|>assistantassistant<|message|>x<|end|><|start|><|start|>user<|message|>y"),
    ("assistant", "junk junk junk<|message|><|start|>user<|message|>whose is this<|end|>"),
]


@pytest.mark.parametrize(("role", "text"), CASES)
def test_shapes(role: None, text: str, wheel_tokenizer: Tokenizer, wheel: openai_harmony.HarmonyEncoding) -> None:
    assert differences(harmony_ids(wheel_tokenizer, text), role, wheel_tokenizer, wheel) == []


def test_broken_characters_and_unknown_ids(wheel_tokenizer: Tokenizer, wheel: openai_harmony.HarmonyEncoding) -> None:
    header = harmony_ids(wheel_tokenizer, "<|channel|>final<|message|>")
    smile = wheel_tokenizer.encode("🫠")
    assert len(smile) > 1
    for content in (
        [*smile[:1], 64, *smile],
        [*smile[:1]],
        [64, 300_000, 65],
        [*smile[:1], 300_000, 65],
        [*smile[:1], *wheel_tokenizer.encode("é"), 300_000, 65],
        [199_998, 201_088, 200_018, 200_014],
    ):
        for end in ([200_007], []):
            assert differences([*header, *content, *end], "assistant", wheel_tokenizer, wheel) == []
    assert differences([300_000, 200_008], "assistant", wheel_tokenizer, wheel) == []
    assert differences([*smile[:1], 200_008], "assistant", wheel_tokenizer, wheel) == []


def test_deltas_join_to_the_text_and_say_who_speaks(wheel_tokenizer: Tokenizer) -> None:
    parser = StreamParser(wheel_tokenizer, strict=True)
    smile = wheel_tokenizer.encode("🫠")
    tokens = [*harmony_ids(wheel_tokenizer, "<|channel|>final<|message|>Hi"), *smile, *smile[:1], 200_002]
    out = [item for token in tokens for item in parser.push(token)]
    assert out == [
        Delta(0, "", channel="final"),
        Delta(0, "Hi", channel="final"),
        Delta(0, "🫠", channel="final"),
        Delta(0, "\ufffd", channel="final"),
    ]
    assert parser.flush() == ()
    assert parser.messages == (Message("assistant", ("Hi🫠\ufffd",), channel="final"),)
    assert parser.repairs == ()


def test_sampled_ids_hold_the_whole_message(wheel_tokenizer: Tokenizer) -> None:
    tokens = harmony_ids(
        wheel_tokenizer, "<|channel|>final<|message|>Hi<|end|><|start|>assistant<|message|>Ho<|return|>"
    )
    parser = StreamParser(wheel_tokenizer, strict=True)
    for token in tokens:
        parser.push(token)
    sampled = [message.sampled for message in parser.messages]
    assert [s and (list(s.ids), s.closed_by, s.repaired) for s in sampled] == [
        ([200_006, 173_781, *tokens[:5]], "end", False),
        (tokens[5:], "return", False),
    ]


def test_an_opening_in_the_middle_of_a_header(wheel_tokenizer: Tokenizer) -> None:
    opening = harmony_ids(wheel_tokenizer, "<|start|>assistant<|channel|>final<|message|>")
    parser = StreamParser(wheel_tokenizer, strict=True, opening=opening)
    assert (parser.state, parser.current_channel, list(parser.tokens)) == ("Content", "final", [])
    parser.push(64)
    assert parser.push(200_002) == ()
    (message,) = parser.messages
    assert message.sampled and list(message.sampled.ids) == [*opening, 64, 200_002]


def test_the_escapes_of_an_error_text() -> None:
    assert (
        rust_debug('a"\\\0\t\r\n\x1b\u0301\u200b\u09beé') == '"a\\"\\\\\\0\\t\\r\\n\\u{1b}\\u{301}\\u{200b}\\u{9be}é"'
    )


@pytest.mark.parametrize("seed", range(3))
def test_well_formed_streams_parse(seed: int, streams: Streams, wheel_tokenizer: Tokenizer) -> None:
    tokens = streams.well_formed(random.Random(seed), completion=True)
    parser = StreamParser(wheel_tokenizer, strict=True)
    for token in tokens:
        parser.push(token)
    assert parser.messages
