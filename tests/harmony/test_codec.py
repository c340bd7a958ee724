"""The codec: purposes, offsets, what is kept between renders, the replay of sampled ids."""

from __future__ import annotations

import gc
from dataclasses import replace

import openai_harmony
import pytest

from ossia.harmony.codec import Codec, Rendered
from ossia.harmony.errors import RenderError
from ossia.harmony.messages import DeveloperPrompt, FunctionDecl, Message, Namespace, Sampled, SystemPrompt
from ossia.harmony.render import drop_nothing, drop_reference
from ossia.harmony.tokenizer import Tokenizer
from tests.support.reference import Reference

SYSTEM = Message("system", (SystemPrompt(date="2025-06-28"),))
ASKED = Message("user", ("What is 2+2?",))
THOUGHT = Message("assistant", ("Easy.",), channel="analysis")
CALL = Message("assistant", ("print(2+2)",), recipient="python", channel="analysis", content_type="code")
RESULT = Message("tool", ("4",), name="python", recipient="assistant", channel="analysis")
ANSWER = Message("assistant", ("4",), channel="final")


def functions(default: object) -> Message:
    schema = {"type": "object", "properties": {"a": {"default": default}}}
    namespace = Namespace("functions", None, (FunctionDecl("f", "", schema),))
    return Message("developer", (DeveloperPrompt(tools={"functions": namespace}),))


def text(rendered: Rendered, tokenizer: Tokenizer) -> str:
    return tokenizer.decode(rendered.ids)


# -- purposes and offsets ----------------------------------------------------------------------------------------------


def test_the_ends_are_the_offsets_after_the_messages_that_were_kept(o200k_tokenizer: Tokenizer) -> None:
    messages = [ASKED, THOUGHT, CALL, RESULT, ANSWER, ASKED]
    rendered = Codec(o200k_tokenizer).render(messages, purpose="completion")
    assert [index for index, _ in rendered.ends] == [0, 4, 5]
    starts = [0, *(end for _, end in rendered.ends)]
    pieces = [o200k_tokenizer.decode(rendered.ids[a:b]) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    assert pieces == [
        "<|start|>user<|message|>What is 2+2?<|end|>",
        "<|start|>assistant<|channel|>final<|message|>4<|end|>",
        "<|start|>user<|message|>What is 2+2?<|end|>",
        "<|start|>assistant",
    ]


def test_an_empty_conversation(o200k_tokenizer: Tokenizer) -> None:
    codec = Codec(o200k_tokenizer)
    assert codec.render([]) == codec.render([], purpose="training") == Rendered([], ())
    assert codec.render([], purpose="completion") == Rendered([200006, 173781], ())


@pytest.mark.parametrize(
    "messages",
    [
        [ASKED, THOUGHT, ANSWER],
        [ASKED, THOUGHT, replace(ANSWER, recipient="all")],  # its <|call|> too becomes <|return|>
        [ASKED, ANSWER, ASKED],
        [ASKED, replace(ANSWER, role="user")],
        [ASKED, THOUGHT],
        [ASKED, ANSWER, replace(THOUGHT, channel="analysis")],
    ],
)
@pytest.mark.parametrize("drop", [drop_reference, drop_nothing])
def test_training_ends_a_last_final_with_return(
    messages: list[Message], drop: object, wheel: openai_harmony.HarmonyEncoding, wheel_tokenizer: Tokenizer
) -> None:
    rendered = Codec(wheel_tokenizer).render(messages, purpose="training", drop=drop)  # type: ignore[arg-type]
    theirs = Reference(wheel).conversation(messages, purpose="training", drop=drop is drop_reference, role="assistant")
    assert rendered.ids == theirs
    ends_in_final = (messages[-1].role, messages[-1].channel) == ("assistant", "final")
    assert (rendered.ids[-1] == wheel_tokenizer.control.return_) is ends_in_final
    assert rendered.ends[-1][1] == len(rendered.ids)


def test_training_leaves_the_kept_ids_alone(o200k_tokenizer: Tokenizer) -> None:
    codec = Codec(o200k_tokenizer)
    codec.render([ASKED, ANSWER], purpose="training")
    assert text(codec.render([ASKED, ANSWER]), o200k_tokenizer).endswith("4<|end|>")


def test_the_etude_s_vocabulary_has_its_own_ids(etude_tokenizer: Tokenizer) -> None:
    rendered = Codec(etude_tokenizer, recipient_position="channel").render([ASKED, THOUGHT, CALL], purpose="completion")
    assert text(rendered, etude_tokenizer) == (
        "<|start|>user<|message|>What is 2+2?<|end|><|start|>assistant<|channel|>analysis<|message|>Easy.<|end|>"
        "<|start|>assistant<|channel|>analysis to=python code<|message|>print(2+2)<|call|><|start|>assistant"
    )
    assert max(rendered.ids) < etude_tokenizer.vocabulary.size


# -- what is kept between renders --------------------------------------------------------------------------------------


class Counting(Tokenizer):
    """A tokenizer that notes what it encoded."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.vocabulary)
        self.texts: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.texts.append(text)
        return super().encode(text)


def test_a_second_render_encodes_the_new_message_only(etude_tokenizer: Tokenizer) -> None:
    tokenizer = Counting(etude_tokenizer)
    codec = Codec(tokenizer)
    first = codec.render([SYSTEM, functions(1), ASKED])
    tokenizer.texts.clear()
    equal = Message("user", ("What is 2+2?",))
    system, developer = Codec(etude_tokenizer).render([SYSTEM]), functions(1)
    second = codec.render([SYSTEM, ANSWER, equal])
    assert tokenizer.texts[-3:] == ["assistant", "final", "4"]  # the equal text was known; SYSTEM lost a line
    assert first.ids[: len(system.ids)] != system.ids == second.ids[: len(system.ids)]
    tokenizer.texts.clear()
    codec.render([SYSTEM, ANSWER, equal, THOUGHT])
    assert tokenizer.texts == ["assistant", "analysis", "Easy."]
    tokenizer.texts.clear()
    codec.render([SYSTEM, developer])
    codec.render([SYSTEM, developer])
    assert len(tokenizer.texts) == 2  # the role and the text of the new prompt, once


def test_what_no_render_needs_is_forgotten(etude_tokenizer: Tokenizer) -> None:
    tokenizer = Counting(etude_tokenizer)
    codec = Codec(tokenizer)
    codec.render([THOUGHT, ASKED])
    for _ in range(200):
        codec.render([ASKED])
    assert tokenizer.texts.count("What is 2+2?") == 1
    codec.render([THOUGHT])
    assert tokenizer.texts.count("Easy.") == 2


def test_what_python_calls_equal_and_the_model_does_not(o200k_tokenizer: Tokenizer) -> None:
    codec = Codec(o200k_tokenizer)
    for default, shown in [(1, "1"), (True, "true"), (1.0, "1.0")]:
        assert f"default: {shown}\n" in text(codec.render([functions(default)]), o200k_tokenizer)


def test_the_line_about_functions_comes_and_goes(o200k_tokenizer: Tokenizer) -> None:
    codec = Codec(o200k_tokenizer)
    messages = [SYSTEM, functions(1)]
    for conversation in ([SYSTEM], messages, [SYSTEM], messages):
        assert codec.render(conversation) == Codec(o200k_tokenizer).render(conversation)


def test_an_error_leaves_the_codec_usable(o200k_tokenizer: Tokenizer) -> None:
    codec = Codec(o200k_tokenizer)
    before = codec.render([ASKED])
    with pytest.raises(RenderError):
        codec.render([ASKED, Message("tool", ("x",))])
    assert codec.render([ASKED]) == before


# -- replay ------------------------------------------------------------------------------------------------------------


def sampled(message: Message, spelled: Sampled) -> Message:
    return replace(message, sampled=spelled)


def test_a_sampled_message_is_replayed_as_its_ids(o200k_tokenizer: Tokenizer) -> None:
    control, encode = o200k_tokenizer.control, o200k_tokenizer.encode
    head = (control.start, *encode("assistant"), control.channel, *encode("analysis"), control.message)
    split_oddly = (*head, *encode("Ea"), *encode("sy."))
    for last, replayed in [
        (control.end, control.end),
        (control.return_, control.end),
        (control.endoftext, control.end),
        (control.call, control.end),  # it calls nothing
    ]:
        message = sampled(THOUGHT, Sampled((*split_oddly, last), "end"))
        assert Codec(o200k_tokenizer, replay=True).render([message]).ids == [*split_oddly, replayed]
        assert Codec(o200k_tokenizer).render([message]) == Codec(o200k_tokenizer).render([THOUGHT])
    call = sampled(replace(THOUGHT, recipient="python"), Sampled((*split_oddly, control.call), "call"))
    assert Codec(o200k_tokenizer, replay=True).render([call]).ids == [*split_oddly, control.call]


@pytest.mark.parametrize("closed_by", ["end", None])
def test_a_repaired_or_cut_message_is_rendered(closed_by: str | None, o200k_tokenizer: Tokenizer) -> None:
    spelled = Sampled((1, 2, 3), closed_by, repaired=closed_by is not None)  # type: ignore[arg-type]
    replaying = Codec(o200k_tokenizer, replay=True)
    assert replaying.render([sampled(THOUGHT, spelled)]) == Codec(o200k_tokenizer).render([THOUGHT])


def test_equal_messages_with_other_ids_are_told_apart(o200k_tokenizer: Tokenizer) -> None:
    codec = Codec(o200k_tokenizer, replay=True)
    end = o200k_tokenizer.control.end
    one, two = (sampled(THOUGHT, Sampled((number, end), "end")) for number in (1, 2))
    assert one == two == THOUGHT
    assert codec.render([one]).ids == [1, end]
    assert codec.render([two, one]).ids == [2, end, 1, end]
    assert codec.render([THOUGHT]) == Codec(o200k_tokenizer).render([THOUGHT])


def test_training_closes_a_replayed_final_with_return(o200k_tokenizer: Tokenizer) -> None:
    control = o200k_tokenizer.control
    final = sampled(ANSWER, Sampled((1, control.return_), "return"))
    codec = Codec(o200k_tokenizer, replay=True)
    assert codec.render([final], purpose="training").ids == [1, control.return_]
    assert codec.render([final, ASKED]).ids[:2] == [1, control.end]


def test_what_is_kept_of_long_texts_is_bounded(etude_tokenizer: Tokenizer) -> None:
    """A client may send megabytes that fit no context, again and again."""
    codec, before = Codec(etude_tokenizer), {id(one) for one in _long_lists()}
    for word in "abcdefghijkl":
        codec.render([Message("user", (word * 300_000,))])
    codec.render([Message("user", ("m" * 1_100_000,))])
    kept = [one for one in _long_lists() if id(one) not in before]
    assert len(kept) <= 8 and max(map(len, kept)) < 400_000


def _long_lists() -> list[list[object]]:
    return [one for one in gc.get_objects() if type(one) is list and len(one) > 290_000]
