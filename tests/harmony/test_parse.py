"""The parser: shapes as models have written them, and what holds for any ids whatever."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import openai_harmony
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossia.harmony.codec import Codec
from ossia.harmony.messages import Completion, Delta, Header, Message, Repaired, Role
from ossia.harmony.parse import StreamParser
from ossia.harmony.recipients import resolve
from ossia.harmony.tokenizer import Tokenizer
from tests.oracle.parse import differences
from tests.support.streams import Streams, harmony_ids

TOOLS = frozenset(
    (
        *("functions.f", "functions.get_weather", "functions.bash", "functions.shell", "functions.query_dataset"),
        *("functions.grep", "functions.web-browsing", "functions.Send Mail", "python"),
        *("browser.search", "browser.open", "tree_browser.walk"),
    )
)
NEXT = "<|start|>assistant"
THOUGHT = "<|channel|>analysis<|message|>t<|end|>"
CALL = "<|message|>{}<|call|>"


def said(text: str, channel: str | None = None, *, to: str | None = None, kind: str | None = None) -> Message:
    return Message("assistant", (text,), recipient=to, channel=channel, content_type=kind)


def call(to: str, kind: str | None = None, *, channel: str | None = "commentary", text: str = "{}") -> Message:
    return said(text, channel, to=to, kind=kind)


FOUR = said("4", "final")
T = said("t", "analysis")
JSON = "<|constrain|>json"
ANSWER = "<|channel|>final<|message|>4<|return|>"

# What came, the messages that it is, the repairs. One group for each row of the table, in its order.
SHAPES: list[tuple[str, list[Message], list[str]]] = [
    # refusal or plain text with no header
    ("I must  refuse<|end|>", [said("I must  refuse")], ["missing-message"]),
    (
        f"I must refuse<|end|><|start|>assistant{ANSWER}",
        [said("I must refuse", "analysis"), FOUR],
        ["missing-message"],
    ),
    (f"{THOUGHT}<|start|>assistant I  must\n<|end|>", [T, said("I  must\n")], ["missing-message"]),
    # an answer without <|message|>, closed or at the end of the ids
    (
        f'{THOUGHT}<|start|>assistant<|channel|>final {{"a": 4}}<|return|>',
        [T, said('{"a": 4}', "final")],
        ["missing-message"],
    ),
    (f'{THOUGHT}<|start|>assistant<|channel|>final {{"a": 4}}', [T, said('{"a": 4}', "final")], ["missing-message"]),
    ('<|channel|>final{"a": 4}<|return|>', [said('{"a": 4}', "final")], ["missing-message"]),
    (
        "<|channel|>analysis thinking<|channel|>final\n answer<|return|>",
        [said("thinking", "analysis"), said("answer", "final")],
        ["missing-message"],
    ),
    # bare content, no markup
    ("Just an answer.", [said("Just an answer.")], ["missing-message"]),
    (" analysis of it", [said(" analysis of it")], ["missing-message"]),
    # no markup but the words of two headers
    ("analysisAdd them.assistantfinal4<|return|>", [said("Add them.", "analysis"), FOUR], ["missing-message"]),
    (
        "analysis I add.assistantcommentary to=functions.f json{}",
        [said("I add.", "analysis"), call("functions.f", "json")],
        ["missing-message"],
    ),
    ("analysisOf an assistant's final", [said("analysisOf an assistant's final")], ["missing-message"]),
    (
        "An assistantfinal and an assistantanalysis",
        [said("An assistantfinal and an assistantanalysis")],
        ["missing-message"],
    ),
    # doubled stops, a tail after the stop
    ("<|channel|>final<|message|>4<|end|><|return|>", [FOUR], ["stray-stop"]),
    (f"{ANSWER}<|return|><|endoftext|> tail", [FOUR, said(" tail")], ["stray-stop", "stray-stop", "missing-message"]),
    # generation not stopped at <|call|>
    (
        f"<|channel|>commentary to=functions.f {CALL}<|call|><|constrain|>",
        [call("functions.f")],
        ["stray-stop", "missing-start", "missing-message"],
    ),
    # missing <|start|>assistant<|channel|>
    (
        f"{THOUGHT}commentary to=functions.f <|constrain|>json{CALL}",
        [T, call("functions.f", JSON)],
        ["missing-start", "unmarked-channel"],
    ),
    (f"{THOUGHT}comment<|message|>hi<|end|>", [T, said("hi", "commentary")], ["missing-start", "unmarked-channel"]),
    (f"{THOUGHT}assistant{ANSWER}", [T, FOUR], ["missing-start"]),
    # missing <|start|>; free text between messages
    (f"{THOUGHT}{ANSWER}", [T, FOUR], ["missing-start"]),
    (f"{THOUGHT}<|message|>4<|return|>", [T, said("4")], ["missing-start"]),
    (f"{THOUGHT}Some text<|start|>assistant{ANSWER}", [T, said("Some text", "analysis"), FOUR], ["missing-message"]),
    (f"{THOUGHT}Some text{ANSWER}", [T, said("Some text", "analysis"), FOUR], ["stray-text", "missing-start"]),
    (f"Some text{ANSWER}", [said("Some text", "analysis"), FOUR], ["stray-text", "missing-start"]),
    # <|start|><|start|>, assistantassistant, empty channel
    (f"{THOUGHT}<|start|><|start|>assistant{ANSWER}", [T, FOUR], ["restarted-header"]),
    (f"{THOUGHT}<|start|>assistantassistant{ANSWER}", [T, FOUR], ["glued-role"]),
    ("<|channel|><|message|>4<|return|>", [said("4")], ["empty-channel"]),
    # doubled channel
    ("<|channel|>commentary<|channel|>final<|message|>4<|return|>", [FOUR], ["doubled-channel"]),
    ("<|channel|>commentary to=assistant<|channel|>analysis<|message|>t<|end|>", [T], ["doubled-channel"]),
    # the channel leaks into the tool's name
    (f" to=functions.query_dataset<|channel|>commentary{CALL}", [call("functions.query_dataset")], []),
    (
        f"<|channel|>commentary to=functions.query_dataset<|channel|>json{CALL}",
        [call("functions.query_dataset", "json")],
        ["content-type-as-channel", "doubled-channel"],
    ),
    (
        f"<|channel|>commentary to=functions.query_dataset<|channel{CALL}",
        [call("functions.query_dataset")],
        ["cut-recipient"],
    ),
    # a tool in the place of the channel or the role
    (f"<|channel|>bash<|channel|>commentary{CALL}", [call("functions.bash")], ["tool-as-channel", "doubled-channel"]),
    (f"{THOUGHT}<|start|>bash<|channel|>commentary{CALL}", [T, call("functions.bash")], ["tool-as-role"]),
    (f"{THOUGHT}<|start|>final<|message|>4<|return|>", [T, FOUR], ["missing-role", "unmarked-channel"]),
    # a lone content type is never a recipient
    ("<|channel|>final <|constrain|>json<|message|>{}<|return|>", [said("{}", "final", kind=JSON)], []),
    ("<|channel|>final json<|message|>{}<|return|>", [said("{}", "final", kind="json")], []),
    # recipient twice, junk or prose after constrain
    (
        f" to=functions.web-browsing<|channel|>commentary to=functions.web-browsing{CALL}",
        [call("functions.web-browsing")],
        ["doubled-recipient"],
    ),
    (
        f"<|channel|>commentary to=functions.f <|constrain|>json We need to call{CALL}",
        [call("functions.f", JSON)],
        ["header-junk"],
    ),
    (
        f"<|channel|>commentary to=functions.f <|constrain|>commentary{CALL}",
        [call("functions.f")],
        ["misplaced-constrain", "header-junk"],
    ),
    (
        f"<|channel|>commentary to=functions.f <|constrain|> json{CALL}",
        [call("functions.f", JSON)],
        ["spaced-constrain"],
    ),
    (
        f"<|channel|>commentary to=functions.f <|constrain|>json<|constrain|>json{CALL}",
        [call("functions.f", JSON)],
        ["header-junk"],
    ),
    (
        f"<|channel|>commentary <|constrain|>to=functions.f json{CALL}",
        [call("functions.f", "json")],
        ["misplaced-constrain"],
    ),
    (f"<|channel|>commentary json to=functions.f{CALL}", [call("functions.f", "json")], ["header-order"]),
    # odd channels
    ("<|channel|>commentary?<|message|>hi<|end|>", [said("hi", "commentary")], ["mended-channel"]),
    ("<|channel|>??<|message|>hi<|end|>", [said("hi")], ["header-junk"]),
    ("<|channel|>commentary 2?<|message|>hi<|end|>", [said("hi", "commentary")], ["header-junk"]),
    ("<|channel|>final let me say<|message|>hi<|end|>", [said("hi", "final")], ["header-junk"]),
    ("<|channel|> final<|message|>4<|return|>", [FOUR], ["spaced-channel"]),
    ("<|channel|>assistant<|channel|>final<|message|>4<|return|>", [FOUR], ["header-junk", "doubled-channel"]),
    ("<|channel|>finalx<|message|>hi<|end|>", [said("hi", "final")], ["mended-channel"]),
    ("<|channel|>analysis––commentary<|message|>hi<|end|>", [said("hi", "commentary")], ["mended-channel"]),
    ("<|channel|>––commentary<|message|>hi<|end|>", [said("hi", "commentary")], ["mended-channel"]),
    ("<|channel|>comment<|message|>hi<|end|>", [said("hi", "commentary")], ["mended-channel"]),
    ("<|channel|>odd<|message|>hi<|end|>", [said("hi", "odd")], []),
    ("<|channel|>odd<|channel|>final<|message|>4<|return|>", [FOUR], ["doubled-channel", "header-junk"]),
    # a call on the analysis channel: the recipient decides
    (f"<|channel|>analysis to=functions.grep code{CALL}", [call("functions.grep", "code", channel="analysis")], []),
    # names to be matched with the tools on offer
    (
        f"<|channel|>commentary to=get_weather {JSON}{CALL}",
        [call("functions.get_weather", JSON)],
        ["resolved-recipient"],
    ),
    (
        f"<|channel|>commentary to=functions.browser.search code{CALL}",
        [call("browser.search", "code")],
        ["resolved-recipient"],
    ),
    (
        f"<|channel|>analysis to=functions.python code{CALL}",
        [call("python", "code", channel="analysis")],
        ["resolved-recipient"],
    ),
    (f"<|channel|>commentary to=search{CALL}", [call("browser.search")], ["resolved-recipient"]),
    (f"<|channel|>commentary to=Functions.F{CALL}", [call("functions.f")], ["resolved-recipient"]),
    (f'<|channel|>commentary to="functions.f",{CALL}', [call("functions.f")], ["cut-recipient"]),
    (f"<|channel|>commentary to= functions.f{CALL}", [call("functions.f")], ["empty-recipient", "bare-recipient"]),
    (f"<|channel|>commentary python{CALL}", [call("python")], ["bare-recipient"]),
    (f"<|channel|>to=functions.f{CALL}", [call("functions.f", channel=None)], ["empty-channel"]),
    # a glued content type
    (f"<|channel|>commentary to=functions.shelljson{CALL}", [call("functions.shell")], ["resolved-recipient"]),
    # tools that nobody offered
    (f"<|channel|>commentary to=container.exec code{CALL}", [call("container.exec", "code")], []),
    (
        "<|channel|>analysis to=python <|constrain|>code<|message|>ls -R<|call|>",
        [call("python", "<|constrain|>code", channel="analysis", text="ls -R")],
        [],
    ),
    # missing <|end|>
    (f"<|channel|>analysis<|message|>t<|start|>assistant{ANSWER}", [T, FOUR], ["missing-end"]),
    (f"<|channel|>analysis<|message|>t{ANSWER}", [T, FOUR], ["missing-end", "missing-start"]),
    (
        "<|channel|>final<|message|>a<|message|>b<|constrain|>c<|endoftext|>",
        [said("abc", "final")],
        ["stray-marker", "stray-marker"],
    ),
    # a malformed call is never lost
    (
        '<|channel|>commentary to=functions.f {"a": 1}<|call|>',
        [call("functions.f", text='{"a": 1}')],
        ["missing-message"],
    ),
    (
        '<|channel|>commentary to=get_weather json{"a": 1}<|call|>',
        [call("functions.get_weather", "json", text='{"a": 1}')],
        ["missing-message"],
    ),
    (
        '<|channel|>commentary to=functions.f <|constrain|>json{"a": 1}<|call|>',
        [call("functions.f", JSON, text='{"a": 1}')],
        ["missing-message"],
    ),
    (
        "<|channel|>commentary to=functions.f <|constrain|>We<|call|>",
        [call("functions.f", text="We")],
        ["missing-message"],
    ),
    (" to=python print(1)<|call|>", [call("python", channel=None, text="print(1)")], ["missing-message"]),
    ("commentary to=functions.f<|call|>", [call("functions.f", text="")], ["missing-message"]),
    # a preamble
    ("<|channel|>commentary<|message|>Let me look.<|end|>", [said("Let me look.", "commentary")], []),
    # made-up results and other people's messages
    (
        f"{THOUGHT}<|start|>functions.f to=assistant<|channel|>commentary<|message|>sunny<|end|>",
        [T, Message("tool", ("sunny",), name="functions.f", recipient="assistant", channel="commentary")],
        ["foreign-message"],
    ),
    (
        f"{THOUGHT}<|start|>functions.g<|message|>sunny<|end|>",
        [T, Message("tool", ("sunny",), name="functions.g")],
        ["tool-without-recipient", "foreign-message"],
    ),
    (
        f"{THOUGHT}<|start|>functions.f to=assistant sunny<|end|>",
        [T, Message("tool", ("sunny",), name="functions.f", recipient="assistant")],
        ["missing-message", "foreign-message"],
    ),
    (f"{THOUGHT}<|start|>user<|message|>q<|end|>", [T, Message("user", ("q",))], ["foreign-message"]),
    (
        f"{THOUGHT}<|start|>user:ann<|message|>q<|end|>",
        [T, Message("user", ("q",), name="ann")],
        ["named-role", "foreign-message"],
    ),
    # roles of other kinds
    (f"{THOUGHT}<|start|><|message|>4<|return|>", [T, said("4")], ["missing-role"]),
    (f"{THOUGHT}<|start|>assistantfinal<|message|>4<|return|>", [T, FOUR], ["glued-role", "unmarked-channel"]),
    (f"{THOUGHT}<|start|>assistants<|message|>4<|return|>", [T, said("4")], ["missing-role", "header-junk"]),
    (f"{THOUGHT}<|start|>Well then<|message|>4<|return|>", [T, said("4")], ["missing-role", "header-junk"]),
    (f"<|start|>assistant{ANSWER}", [FOUR], ["restarted-header"]),
    (f"<|channel|>analysis<|start|>assistant{ANSWER}", [FOUR], ["restarted-header"]),
    (f"<|channel|>analysis words<|start|>assistant{ANSWER}", [said("words", "analysis"), FOUR], ["missing-message"]),
    ("<|channel|>final user<|message|>4<|return|>", [FOUR], ["doubled-role"]),
    # a tool before a second channel, on offer or not
    (
        f"{THOUGHT}{NEXT}<|channel|>lamp.dim to=assistant<|channel|>analysis code{CALL}",
        [T, call("lamp.dim", "code", channel="analysis")],
        ["tool-as-channel", "doubled-channel", "doubled-recipient"],
    ),
    (
        f"<|channel|>browser.walk<|channel|>analysis{CALL}",
        [call("tree_browser.walk", channel="analysis")],
        ["tool-as-channel", "doubled-channel"],
    ),
    ("<|channel|>lamp.dim<|message|>hi<|end|>", [said("hi", "lamp.dim")], []),
    # names of channels and roles are no tools
    (
        f"<|channel|>commentary to=final {JSON}<|message|>{{}}<|return|>",
        [said("{}", "final", kind=JSON)],
        ["channel-as-recipient"],
    ),
    (" to=analysis<|channel|>commentary<|message|>t<|end|>", [T], ["channel-as-recipient"]),
    ("<|channel|>final to=system<|message|>4<|return|>", [FOUR], ["channel-as-recipient"]),
    ("<|channel|>commentary to=final 4<|return|>", [FOUR], ["missing-message"]),
    # a role that there isn't
    (
        f"{THOUGHT}<|start|>asistente dice to=assistant<|channel|>final<|message|>4<|return|>",
        [T, FOUR],
        ["missing-role", "header-order", "header-junk"],
    ),
    (
        f"{THOUGHT}<|start|>lamp to=assistant<|message|>on<|end|>",
        [T, Message("tool", ("on",), name="lamp", recipient="assistant")],
        ["foreign-message"],
    ),
    # a result never has a content type
    (
        f"{THOUGHT}<|start|>browser.open<|channel|>analysis to=assistant code{CALL}",
        [T, call("browser.open", "code", channel="analysis")],
        ["tool-as-role", "doubled-recipient"],
    ),
    (
        f"{THOUGHT}<|start|>functions.f to=assistant<|channel|>commentary {JSON}{CALL}",
        [T, call("functions.f", JSON)],
        ["tool-as-role", "doubled-recipient"],
    ),
    # `to=` anywhere before <|message|>
    (
        f"<|channel|>analysis<|message|>So: </thought to=functions.f<|channel|>commentary json{CALL}",
        [said("So: </thought to=functions.f", "analysis"), call("functions.f", "json")],
        ["missing-end", "missing-start"],
    ),
    (
        f"<|channel|>analysis<|message|>Set x to=5<|channel|>commentary{CALL}",
        [said("Set x to=5", "analysis"), said("{}", "commentary")],
        ["missing-end", "missing-start"],
    ),
    (
        f"{THOUGHT}@}};}} to=functions.f json{CALL}",
        [T, call("functions.f", "json", channel=None)],
        ["missing-start", "header-order", "header-junk"],
    ),
    (
        f"Now I look. commentary to=functions.f{CALL}",
        [said("Now I look. ", "analysis"), call("functions.f")],
        ["stray-text", "missing-start", "unmarked-channel"],
    ),
    (
        f"Set x to=5 and go{ANSWER}",
        [said("Set x to=5 and go", "analysis"), FOUR],
        ["stray-text", "missing-start"],
    ),
    # prose names no recipient of an answer, and only tools on offer
    (
        "<|channel|>analysis<|message|>It is sent to=functions.f<|channel|>final<|message|>4<|return|>",
        [said("It is sent to=functions.f", "analysis"), FOUR],
        ["missing-end", "missing-start"],
    ),
    (
        f"Now send it to=functions.f{ANSWER}",
        [said("Now send it to=functions.f", "analysis"), FOUR],
        ["stray-text", "missing-start"],
    ),
    (
        f"See to=functions.f json{ANSWER}",
        [said("See to=functions.f json", "analysis"), FOUR],
        ["stray-text"],
    ),
    (
        "Now send it to=functions.f<|channel|>final 4<|return|>",
        [said("Now send it to=functions.f", "analysis"), FOUR],
        ["stray-text", "missing-start", "missing-message"],
    ),
    (f"{THOUGHT}<|start|>See to=functions.f{ANSWER}", [T, FOUR], ["missing-role", "header-order", "header-junk"]),
    (
        f"First set to=a.b in the file, then save.{ANSWER}",
        [said("First set to=a.b in the file, then save.", "analysis"), FOUR],
        ["stray-text", "missing-start"],
    ),
    (
        f"Set to=functions.f in the file.{ANSWER}",
        [said("Set to=functions.f in the file.", "analysis"), FOUR],
        ["stray-text", "missing-start"],
    ),
    (
        f"to=a.b in the file.{ANSWER}",
        [said("to=a.b in the file.", "analysis"), FOUR],
        ["stray-text", "missing-start"],
    ),
    (
        "<|channel|>analysis<|message|>Set it to=a.b<|channel|>commentary<|message|>Now.<|end|>",
        [said("Set it to=a.b", "analysis"), said("Now.", "commentary")],
        ["missing-end", "missing-start"],
    ),
    (f" to=functions.f<|channel|>final{CALL}", [call("functions.f", channel="final")], []),
    (f" to=lamp.dim<|channel|>commentary{CALL}", [call("lamp.dim")], []),
    (f" to=Send Mail<|channel|>commentary{CALL}", [call("functions.Send Mail")], ["resolved-recipient"]),
    # a tool on offer beats `assistant`
    (f"<|channel|>commentary to=assistant grep json{CALL}", [call("functions.grep", "json")], ["bare-recipient"]),
    # where a recipient ends, and what it may begin with
    (
        f"<|channel|>commentary to=functions.f>q=high tide{CALL}",
        [call("functions.f")],
        ["cut-recipient", "header-junk"],
    ),
    (
        f"<|channel|>commentary to=grep=1 json{CALL}",
        [call("functions.grep", "json")],
        ["cut-recipient", "resolved-recipient"],
    ),
    (f"<|channel|>commentary to=functions.Send Mail json{CALL}", [call("functions.Send Mail", "json")], []),
    (f"<|channel|>commentary to=send mail{CALL}", [call("functions.Send Mail")], ["resolved-recipient"]),
    (
        f"<|channel|>commentary to=functions.Get_ Weather json{CALL}",
        [call("functions.get_weather", "json")],
        ["resolved-recipient"],
    ),
    (f"<|channel|>commentary to=tool.Shell code{CALL}", [call("functions.shell", "code")], ["resolved-recipient"]),
    (f"<|channel|>commentary to=tool_grep code{CALL}", [call("functions.grep", "code")], ["resolved-recipient"]),
    # rubble before a message
    (f"?!…<|end|>{NEXT}{ANSWER}", [FOUR], ["missing-message", "header-junk"]),
    (f"{THOUGHT}{NEXT}<|channel|>commentary 7…<|end|>{NEXT}{ANSWER}", [T, FOUR], ["missing-message", "header-junk"]),
    ("?!…<|message|>4<|return|>", [said("4")], ["header-junk"]),
    ("<|channel|>commentary 7…<|end|>", [said("7…", "commentary")], ["missing-message"]),
    (f"<|channel|>final 7<|end|>{NEXT}{ANSWER}", [said("7", "final"), FOUR], ["missing-message"]),
    # a message without a header, in the middle of which <|message|> stands
    ("Of course<|message|>, it is 4.<|return|>", [said("Of course, it is 4.")], ["stray-marker"]),
    (
        f"One<|end|>Two<|message|> more<|end|>{NEXT}{ANSWER}",
        [said("One", "analysis"), said("Two more"), FOUR],
        ["missing-message", "stray-marker"],
    ),
    (
        f"Read it.<|end|>And that.{ANSWER}",
        [said("Read it.", "analysis"), said("And that.", "analysis"), FOUR],
        ["missing-message", "stray-text", "missing-start"],
    ),
    # nothing, or nearly
    ("<|return|>", [], ["missing-message"]),
    ("<|channel|>final<|return|>", [said("", "final")], ["missing-message"]),
    ("<|channel|>comm", [said("", "commentary")], ["missing-message"]),
    ("<|channel|>f", [said("f")], ["missing-message"]),
]


def parse(
    tokenizer: Tokenizer, tokens: Iterable[int], role: Role | None = "assistant", *, cut: bool = False
) -> tuple[StreamParser, list[Delta | Repaired]]:
    parser = StreamParser(tokenizer, role=role, tools=TOOLS)
    out = [item for token in tokens for item in parser.push(token)]
    return parser, [*out, *parser.flush(cut=cut)]


@pytest.mark.parametrize(("text", "messages", "codes"), SHAPES, ids=[text for text, _, _ in SHAPES])
def test_a_shape_is_read_as_it_was_meant(
    text: str, messages: list[Message], codes: list[str], wheel_tokenizer: Tokenizer
) -> None:
    parser, out = parse(wheel_tokenizer, harmony_ids(wheel_tokenizer, text))
    assert list(parser.messages) == messages
    assert [repair.code for repair in parser.repairs] == codes
    assert [item for item in out if isinstance(item, Repaired)] == list(parser.repairs)
    assert joined(out) == [message.text for message in messages]
    assert all(repair.message and 0 <= repair.token < len(parser.tokens) for repair in parser.repairs)


@pytest.mark.parametrize(
    ("header", "recipient"),
    [
        ("<|channel|>final <|constrain|>functions.get_weather<|constrain|>json", "functions.get_weather"),
        ("<|channel|>commentary<|constrain|>get_weather json", "functions.get_weather"),
        ("<|channel|>commentary code<|constrain|>functions.get_weather", "functions.get_weather"),
        ("<|channel|>commentary <|constrain|>jsonfunctions.get_weather", "functions.get_weather"),
        ("<|constrain|>functions.get_weather", "functions.get_weather"),
        ("<|channel|>commentary_to=functions.get_weather json", "functions.get_weather"),
        ("<|channel|>commentary:functions.get_weather", "functions.get_weather"),
        ("<|channel|>commentary To:get_weather json", "functions.get_weather"),
        ("<|channel|>commentary <|constrain|>json name=get_weather", "functions.get_weather"),
        ("<|channel|>commentary to=functions::get_weather json", "functions.get_weather"),
        ("<|channel|>commentary to=functions get_weather json", "functions.get_weather"),
        ("<|channel|>commentary to=functions.get_weather.json", "functions.get_weather"),
        ("<|channel|>commentary to=json functions.get_weather", "functions.get_weather"),
        ("<|channel|>commentary to=x functions.get_weather json", "functions.get_weather"),
        ("functions.get_weather<|channel|>final<|constrain|>json", "functions.get_weather"),
        # another tool's name isn't taken for one on offer that it resembles
        ("<|channel|>commentary to=functions.get_weather.more json", "functions.get_weather.more"),
        ("<|channel|>commentary to=other/get_weather json", "other/get_weather"),
        ("<|channel|>commentary to=functions.x get_weather json", "functions.x"),
        ("<|channel|>final <|constrain|>my_functions.get_weather", None),
    ],
)
def test_the_name_of_an_offered_tool_is_the_recipient_wherever_it_stands(
    header: str, recipient: str | None, wheel_tokenizer: Tokenizer
) -> None:
    parser, _ = parse(wheel_tokenizer, harmony_ids(wheel_tokenizer, f"{header}{CALL}"))
    assert [(one.recipient, one.text) for one in parser.messages] == [(recipient, "{}")]


def joined(out: Sequence[Delta | Repaired]) -> list[str]:
    texts: dict[int, str] = defaultdict(str)
    for item in out:
        if isinstance(item, Delta):
            texts[item.index] += item.text
    return [texts[index] for index in sorted(texts)]


@pytest.fixture(scope="module")
def streams(wheel_tokenizer: Tokenizer) -> Streams:
    return Streams(wheel_tokenizer)


def test_well_formed_streams_are_read_as_the_reference_reads_them(
    streams: Streams, wheel_tokenizer: Tokenizer, wheel: openai_harmony.HarmonyEncoding
) -> None:
    for seed in range(1000):
        assert differences(seed, streams, wheel_tokenizer, wheel) == [], seed


def test_hostile_streams_lose_no_delta(streams: Streams, wheel_tokenizer: Tokenizer) -> None:
    for seed in range(1500):
        rng = random.Random(seed)
        parser, out = parse(wheel_tokenizer, streams.hostile(rng), rng.choice(("assistant", None, "user")))
        assert joined(out) == [message.text for message in parser.messages], seed


@given(data=st.data())
def test_no_ids_make_it_raise(data: st.DataObject, etude_tokenizer: Tokenizer) -> None:
    control = st.sampled_from(sorted(etude_tokenizer.vocabulary.control.values()))
    known = st.integers(0, etude_tokenizer.vocabulary.size)
    ids = st.lists(st.one_of(control, control, known, st.integers()), max_size=40)
    role = data.draw(st.sampled_from(("assistant", None, "tool")))
    parser, out = parse(etude_tokenizer, data.draw(ids), role)
    assert joined(out) == [message.text for message in parser.messages]
    assert not parser.flush()


def test_without_tools_a_text_before_a_thought_may_be_a_refusal(wheel_tokenizer: Tokenizer) -> None:
    """Only with tools, or before an answer, is it surely a thought."""
    for tools, following, channel in ((TOOLS, THOUGHT, "analysis"), ((), THOUGHT, None), ((), ANSWER, "analysis")):
        parser = StreamParser(wheel_tokenizer, tools=frozenset(tools))
        for token in harmony_ids(wheel_tokenizer, f"I won't.<|end|>{NEXT}{following}"):
            parser.push(token)
        assert parser.messages[0] == said("I won't.", channel)


def test_what_was_told_is_never_taken_back(streams: Streams, wheel_tokenizer: Tokenizer) -> None:
    """A message begins once, after the one before it, and its header stays."""
    for seed in range(500):
        _, out = parse(wheel_tokenizer, streams.hostile(random.Random(seed)))
        deltas = [replace(item, text="") for item in out if isinstance(item, Delta)]
        assert [item.index for item in deltas] == sorted(item.index for item in deltas), seed
        assert len(set(deltas)) == len({item.index for item in deltas}), seed


def test_ids_that_do_not_exist(wheel_tokenizer: Tokenizer) -> None:
    smile = wheel_tokenizer.encode("🫠")
    tokens = [
        *harmony_ids(wheel_tokenizer, "<|channel|>final<|message|>a"),
        300_000,
        -1,
        *smile[:1],
        2**40,
        65,
        200_002,
    ]
    parser, _ = parse(wheel_tokenizer, tokens)
    (message,) = parser.messages
    assert message.text == "a\ufffd\ufffd\ufffd\ufffdb"
    assert [repair.code for repair in parser.repairs] == ["unknown-token"] * 3
    assert message.sampled and message.sampled.repaired
    parser, _ = parse(wheel_tokenizer, [300_000, 200_008, 64, 200_007])
    assert [m.sampled and m.sampled.repaired for m in parser.messages] == [True]


def test_the_end_brings_what_was_held_back(wheel_tokenizer: Tokenizer) -> None:
    smile = wheel_tokenizer.encode("🫠")
    parser = StreamParser(wheel_tokenizer)
    for token in [*harmony_ids(wheel_tokenizer, "<|channel|>final<|message|>a"), *smile[:1]]:
        parser.push(token)
    open_message = parser.open_message
    assert open_message == said("a", "final") and parser.messages == ()
    assert parser.completion(end="tokens") == Completion((said("a", "final"),), "tokens", (), 5)
    assert list(parser.flush(cut=True)) == [Delta(0, "\ufffd", channel="final")]
    assert parser.open_message is None
    (message,) = parser.completion(end="tokens").messages
    assert message.text == "a\ufffd" and message.sampled and message.sampled.closed_by is None


@pytest.mark.parametrize(
    ("text", "messages"),
    [("", []), ("<|channel|>comm", []), (" to=functions.", []), ("<|channel|>final so far", [said("so far", "final")])],
)
def test_a_header_that_was_cut_is_no_fault(text: str, messages: list[Message], wheel_tokenizer: Tokenizer) -> None:
    parser, _ = parse(wheel_tokenizer, harmony_ids(wheel_tokenizer, text), cut=True)
    assert list(parser.messages) == messages
    assert len(parser.repairs) == len(messages)


@pytest.mark.parametrize("end", ["call", "end", "return", "endoftext"])
def test_a_call_ends_whatever_closes_it(end: str, wheel_tokenizer: Tokenizer) -> None:
    parser = Codec(wheel_tokenizer).parser(tools=TOOLS)
    *tokens, last = harmony_ids(wheel_tokenizer, f"<|channel|>commentary to=functions.f<|message|>{{}}<|{end}|>")
    for token in tokens:
        parser.push(token)
    assert not parser.call_ended
    parser.push(last)
    (message,) = parser.messages
    assert parser.call_ended and message.sampled
    assert message.sampled.closed_by == end and message.sampled.ids == (200_006, 173_781, *tokens, last)


@pytest.mark.parametrize("recipient", ["all", "assistant", "user"])
def test_nobodys_tool_ends_no_step(recipient: str, wheel_tokenizer: Tokenizer) -> None:
    parser, _ = parse(wheel_tokenizer, harmony_ids(wheel_tokenizer, f"<|channel|>commentary to={recipient}{CALL}"))
    assert not parser.call_ended and parser.messages == (call(recipient),)


def test_a_message_closed_by_the_next_one_counts_as_ended(wheel_tokenizer: Tokenizer) -> None:
    parser, _ = parse(
        wheel_tokenizer, harmony_ids(wheel_tokenizer, f" to=functions.f<|message|>{{}}<|start|>assistant{ANSWER}")
    )
    first = parser.messages[0].sampled
    assert first and (first.closed_by, first.repaired, first.headless) == ("end", True, False)
    assert first.ids[-2:] == (200_008, *wheel_tokenizer.encode("{}"))
    assert parser.call_ended


def test_what_is_repaired_is_marked_and_what_is_guessed_is_headless(wheel_tokenizer: Tokenizer) -> None:
    parser, _ = parse(wheel_tokenizer, harmony_ids(wheel_tokenizer, f"{THOUGHT}<|start|>assistant Hm<|end|>{ANSWER}"))
    marks = [(m.sampled.repaired, m.sampled.headless) for m in parser.messages if m.sampled]
    assert marks == [(False, False), (True, True), (True, False)]


def test_an_opened_step_starts_in_its_content(wheel_tokenizer: Tokenizer) -> None:
    opening = harmony_ids(wheel_tokenizer, "<|start|>assistant<|channel|>final<|message|>")
    parser = StreamParser(wheel_tokenizer, opening=opening)
    assert (parser.header, list(parser.tokens)) == (Header("assistant", channel="final"), [])
    assert list(parser.push(64)) == [Delta(0, "a", channel="final")]
    parser.push(200_002)
    (message,) = parser.messages
    assert message.sampled and message.sampled.ids == (*opening, 64, 200_002)
    assert not message.sampled.repaired and parser.repairs == ()


def test_an_opening_inside_the_header(wheel_tokenizer: Tokenizer) -> None:
    opening = harmony_ids(wheel_tokenizer, "<|start|>assistant<|channel|>")
    parser = StreamParser(wheel_tokenizer, opening=opening)
    assert parser.header is None
    for token in harmony_ids(wheel_tokenizer, "final<|message|>4<|return|>"):
        parser.push(token)
    assert parser.messages == (FOUR,) and parser.repairs == ()
    sampled = parser.messages[0].sampled
    assert sampled and sampled.ids[:3] == tuple(opening) and not sampled.repaired


def test_a_conversation_without_a_role_given(wheel_tokenizer: Tokenizer) -> None:
    messages = (
        Message("system", ("s",)),
        Message("user", ("q",)),
        Message("assistant", ("{}",), recipient="functions.f", channel="commentary", content_type=JSON),
        Message("tool", ("r",), name="functions.f", recipient="assistant", channel="commentary"),
        Message("assistant", ("4",), channel="final"),
    )
    ids = Codec(wheel_tokenizer).render(messages).ids
    parser, _ = parse(wheel_tokenizer, ids, None)
    assert parser.messages == messages and parser.repairs == ()
    assert [i for m in parser.messages if m.sampled for i in m.sampled.ids] == list(ids)
    assert parser.header is None


def test_a_header_as_long_as_a_completion(wheel_tokenizer: Tokenizer) -> None:
    junk = wheel_tokenizer.encode(" word") * 1000
    parser, _ = parse(wheel_tokenizer, [200_005, *wheel_tokenizer.encode("final"), *junk, 200_008, 64, 200_002])
    assert parser.messages == (said("a", "final"),)
    (repair,) = parser.repairs
    assert repair.code == "header-junk" and len(repair.message) < 300


def test_the_messages_of_one_header_share_no_ids(wheel_tokenizer: Tokenizer) -> None:
    tokens = harmony_ids(wheel_tokenizer, "<|channel|>analysis a<|channel|>final b<|return|>")
    parser, _ = parse(wheel_tokenizer, tokens)
    assert [m.sampled and m.sampled.ids for m in parser.messages] == [(200_006, 173_781, *tokens), ()]


def test_an_opening_that_the_model_repeats_stands_once_in_the_ids(wheel_tokenizer: Tokenizer) -> None:
    tokens = harmony_ids(wheel_tokenizer, f"<|start|>assistant{ANSWER}")
    parser, _ = parse(wheel_tokenizer, tokens)
    assert [m.sampled and m.sampled.ids for m in parser.messages] == [tuple(tokens)]


def test_only_the_assistant_calls(wheel_tokenizer: Tokenizer) -> None:
    parser, _ = parse(
        wheel_tokenizer, harmony_ids(wheel_tokenizer, f"{THOUGHT}<|start|>functions.g to=python<|message|>x")
    )
    assert [m.recipient for m in parser.messages] == [None, "python"] and not parser.call_ended


def test_a_content_type_is_no_recipient_even_if_a_tool_is_called_so(wheel_tokenizer: Tokenizer) -> None:
    parser = StreamParser(wheel_tokenizer, tools=frozenset({"functions.json"}))
    for token in harmony_ids(wheel_tokenizer, "<|channel|>final json<|message|>{}<|return|>"):
        parser.push(token)
    assert parser.messages == (said("{}", "final", kind="json"),)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("open", None),  # browser.open and files.open
        ("files.open", "files.open"),
        ("find", "browser.find"),
        ("browser.FIND", "browser.find"),
        ("findcode", "browser.find"),
        ("user", None),
        ("", None),
    ],
)
def test_a_name_means_one_tool_or_none(name: str, tool: str | None) -> None:
    offered = frozenset(("browser.open", "files.open", "browser.find", "functions.user"))
    assert resolve(name, offered) == tool
    assert resolve(name, frozenset()) is None


def test_every_code_is_documented_and_seen() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z, -]+) \|", page.partition("| repair |")[2].partition("\n## ")[0], re.MULTILINE)
    documented = {code for row in rows for code in row.split(", ")}
    seen = {code for _, _, codes in SHAPES for code in codes}
    assert documented == seen | {"unknown-token"}
