"""`ossia harmony`: what is printed, which vocabulary it is in, and how each bad input ends."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import openai_harmony
import pytest

from ossia.cli.main import invoke
from ossia.harmony.tokenizer import Tokenizer
from tests.support.command import OSSIA, ossia_text
from tests.support.streams import harmony_ids
from tests.support.vocabularies import ETUDE, O200K_CACHE_NAME

CONVERSATION = {
    "messages": [
        {"role": "user", "content": "Hi <|end|>"},
        {"role": "assistant", "content": "t", "channel": "analysis"},
        {"role": "assistant", "content": "yo", "channel": "final"},
    ]
}
USER = "<|start|>user<|message|>Hi <|end|><|end|>"
THOUGHT = "<|start|>assistant<|channel|>analysis<|message|>t<|end|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>yo"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps(CONVERSATION))
    return path


def stdin(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# -- render ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], USER + THOUGHT + FINAL + "<|end|>"),
        (["--for", "completion"], USER + FINAL + "<|end|><|start|>assistant"),
        (["--for", "completion", "--drop", "none"], USER + THOUGHT + FINAL + "<|end|><|start|>assistant"),
        (["--for", "training", "--drop", "none"], USER + THOUGHT + FINAL + "<|return|>"),
        (["--for", "training"], USER + FINAL + "<|return|>"),
        (["--drop", "reference"], USER + FINAL + "<|end|>"),
        (["--drop", "before-last-final"], USER + FINAL + "<|end|>"),
    ],
)
def test_render_as_text(options: list[str], text: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["harmony", "render", "--text", "--model", "etude", *options, str(file)]) == 0
    assert capsys.readouterr() == (text + "\n", "")


def test_render_as_ids_is_the_references(
    file: Path,
    wheel: openai_harmony.HarmonyEncoding,
    o200k_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(o200k_dir))
    assert invoke(["harmony", "render", "--drop", "reference", str(file)]) == 0
    conversation = openai_harmony.Conversation.from_json(file.read_text())
    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err) == (wheel.render_conversation(conversation), "")


def test_render_reads_the_chat_form_and_a_bare_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(monkeypatch, '[{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]')
    assert invoke(["harmony", "render", "--text", "--from", "chat", "--model", "etude", "-"]) == 0
    developer = "<|start|>developer<|message|># Instructions\n\ns<|end|>"
    assert capsys.readouterr().out == developer + "<|start|>user<|message|>q<|end|>\n"


# -- parse -------------------------------------------------------------------------------------------------------------


def test_parse_prints_messages_and_repairs(
    etude_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = harmony_ids(etude_tokenizer, "<|channel|>commentary to=f <|constrain|>json<|message|>é<|call|>")
    stdin(monkeypatch, json.dumps(ids))
    assert invoke(["harmony", "parse", "--tools", "python, functions.f", "--model", "etude", "-"]) == 0
    message = {
        "role": "assistant",
        "name": None,
        "content": [{"type": "text", "text": "é"}],
        "channel": "commentary",
        "recipient": "functions.f",
        "content_type": "<|constrain|>json",
    }
    repair = {
        "code": "resolved-recipient",
        "message": "the recipient 'f' is read as 'functions.f'",
        "token": ids.index(etude_tokenizer.control.message),
    }
    assert json.loads(capsys.readouterr().out) == {"messages": [message], "repairs": [repair]}


def test_parse_takes_the_end_of_the_ids_for_the_end_of_the_completion(
    etude_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = harmony_ids(etude_tokenizer, "<|channel|>final answer")
    stdin(monkeypatch, json.dumps(ids))
    assert invoke(["harmony", "parse", "--model", "etude", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["code"] for one in report["repairs"]] == ["missing-message"]
    assert report["messages"][0]["content"] == [{"type": "text", "text": "answer"}]
    stdin(monkeypatch, json.dumps(ids))
    assert invoke(["harmony", "parse", "--strict", "--model", "etude", "-"]) == 1
    (repair,) = report["repairs"]
    expected = f"ossia: error: standard input: missing-message at token {repair['token']}: {repair['message']}\n"
    assert capsys.readouterr() == ("", expected)


def test_strict_names_the_first_repair_and_prints_what_needs_none(
    etude_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = ["harmony", "parse", "--strict", "--model", "etude", "-"]
    for text, named in (
        ("<|channel|>final<|message|>4<|return|>", None),
        ("<|channel|>finalx<|message|>4<|end|>4<|return|>", "mended-channel at token "),
        ("<|channel|>final<|message|>4<|end|><|start|>user<|message|>\x1b[31m<|end|>", "foreign-message at token "),
        ("<|channel|>final \x1b[31m\nx<|message|>4<|return|>", "header-junk at token "),
    ):
        stdin(monkeypatch, json.dumps(harmony_ids(etude_tokenizer, text)))
        assert invoke(begin) == (1 if named else 0), text
        out, err = capsys.readouterr()
        if named is None:
            assert json.loads(out)["messages"][0]["content"] == [{"type": "text", "text": "4"}] and err == ""
        else:
            assert err.startswith(f"ossia: error: standard input: {named}") and out == ""
            assert err.count("\n") == 1 and "\x1b" not in err


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_tokens_shows_the_split(
    o200k_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(o200k_dir))
    assert invoke(["harmony", "tokens", 'hello "日本 🫠<|end|>']) == 0
    assert capsys.readouterr().out.splitlines() == [
        ' 24912  "hello"',
        '   392  " \\""',
        '  9048  "日本"',
        "  9552  20 f0 9f",
        "   104  ab",
        "   254  a0",
        '    27  "<"',
        '    91  "|"',
        '   419  "end"',
        '    91  "|"',
        '    29  ">"',
    ]


def test_tokens_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stdin(monkeypatch, "")
    assert invoke(["harmony", "tokens", "--model", "etude", "-"]) == 0
    assert capsys.readouterr().out == ""
    stdin(monkeypatch, "a\n")
    assert invoke(["harmony", "tokens", "--model", "etude", "-"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ['"a"', '"\\n"']


# -- the vocabulary ----------------------------------------------------------------------------------------------------


def test_a_model_on_this_machine_lends_its_vocabulary(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], etude_tokenizer: Tokenizer
) -> None:
    folder = home / "llama"
    folder.mkdir()
    (folder / "a-gpt-oss-broken.gguf").write_bytes(b"GGUF")
    shutil.copy(ETUDE, folder / "gpt-oss-20b-mxfp4.gguf")
    monkeypatch.setenv("LLAMA_CACHE", str(folder))
    assert invoke(["harmony", "tokens", "hi"]) == 0
    printed = capsys.readouterr()
    assert [int(line.split()[0]) for line in printed.out.splitlines()] == etude_tokenizer.encode("hi")
    assert "skipped" in printed.err and printed.err.count("\n") == 1


def test_without_any_vocabulary_it_says_what_to_do(tmp_path: Path) -> None:
    offline = {"TIKTOKEN_CACHE_DIR": str(tmp_path), "https_proxy": "http://127.0.0.1:9"}
    (tmp_path / "ids").write_text("[1]")
    done = ossia_text("harmony", "parse", str(tmp_path / "ids"), env=offline)
    first, second = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (3, "")
    assert "downloading the vocabulary" in first and "--model etude" in second
    done = ossia_text("harmony", "tokens", "Hello there", env=offline)
    etude = ossia_text("harmony", "tokens", "Hello there", "--model", "etude")
    assert (done.returncode, done.stdout) == (0, etude.stdout)
    assert "using the built-in model's; its ids differ" in done.stderr.splitlines()[1]
    (tmp_path / "said").write_text('[{"role": "user", "content": "Hello there"}]')
    done = ossia_text("harmony", "render", str(tmp_path / "said"), env=offline)
    etude = ossia_text("harmony", "render", str(tmp_path / "said"), "--model", "etude")
    assert (done.returncode, done.stdout) == (0, etude.stdout)
    assert "using the built-in model's; its ids differ" in done.stderr.splitlines()[1]


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs")
def test_what_others_put_in_place_of_the_vocabulary_is_not_read(tmp_path: Path) -> None:
    planted = tmp_path / "data-gym-cache" / O200K_CACHE_NAME
    planted.parent.mkdir()
    os.mkfifo(planted)
    offline = {"TMPDIR": str(tmp_path), "https_proxy": "http://127.0.0.1:9"}
    done = ossia_text("harmony", "tokens", "Hello there", env=offline)
    etude = ossia_text("harmony", "tokens", "Hello there", "--model", "etude")
    assert (done.returncode, done.stdout) == (0, etude.stdout)


def test_a_model_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.gguf").write_bytes(b"nothing")
    for model in (str(tmp_path / "x.gguf"), str(tmp_path / "missing.gguf"), "gpt-oss-20b", "nope"):
        assert invoke(["harmony", "tokens", "--model", model, "hi"]) == 3
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.count("\n") == 1 and Path(model).name in printed.err


# -- bad input ---------------------------------------------------------------------------------------------------------

BAD: list[tuple[list[str], bytes, str]] = [
    (["render", "-"], b"{", "standard input: not valid JSON: Expecting property name"),
    (["render", "-"], b"[" * 100_000, "standard input: not valid JSON: nested too deep"),
    (["render", "-"], b"\xff", "standard input: not UTF-8 text (byte 0 is 0xff)"),
    (["render", "-"], b"5", 'standard input: the conversation: must be an object with "messages"'),
    (["render", "-"], b'[{"role": "x", "content": ""}]', "standard input: messages[0].role: must be one of"),
    (["render", "-"], b'[{"role": "tool", "content": ""}]', "standard input: Tools should have a name!"),
    (
        ["render", "--from", "chat", "-"],
        b'[{"role": "tool", "content": ""}]',
        "standard input: messages[0].tool_call_id",
    ),
    (["render", "no/such/file"], b"", "no/such/file: can't be read: No such file or directory"),
    (["render", "."], b"", ".: can't be read: Is a directory"),
    (["render", "a\0b"], b"", "a␀b: can't be read: "),
    (["render", "--drop", "most", "-"], b"[]", "Invalid value for '--drop'"),
    (["parse", "-"], b"{}", "standard input: must be a JSON array of ids"),
    (["parse", "-"], b"[1, true]", "standard input: [1]: must be an id (a whole number), not 'True'"),
    (["parse", "-"], b'["1"]', "standard input: [0]: must be an id (a whole number), not '1'"),
    (["tokens", "-"], b"a\xff", "standard input: not UTF-8 text (byte 1 is 0xff)"),
    (["tokens"], b"", "Missing argument 'TEXT|-'"),
]


@pytest.mark.parametrize(("arguments", "data", "message"), BAD)
def test_bad_input_is_one_line(
    arguments: list[str],
    data: bytes,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stdin(monkeypatch, data)
    assert invoke(["harmony", arguments[0], "--model", "etude", *arguments[1:]]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert printed.err.startswith(f"ossia: error: {message}")


def test_a_closed_standard_input_is_empty(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert invoke(["harmony", "render", "--model", "etude", "-"]) == 2
    assert "standard input: not valid JSON" in capsys.readouterr().err
    sys.stdin.close()  # what took its place


def test_alone_it_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["harmony"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in ("render", "parse", "tokens"))


# -- on a terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("no_color", "user"), [("", "\x1b[36m<|start|>\x1b[39muser"), ("1", "<|start|>user")])
def test_a_terminal_sees_colours_and_no_control_characters(no_color: str, user: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps([{"role": "user", "content": "\x1b[2J\u202e\x9bok"}]))
    shown = on_a_terminal("render", "--text", "--model", "etude", str(path), env={"NO_COLOR": no_color})
    assert user in shown
    assert "␛[2J\ufffdok" in shown
    assert "\x1b[2J" not in shown and "\u202e" not in shown and "\x9b" not in shown


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_gets_clean_json(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    path = tmp_path / "ids.json"
    path.write_text(json.dumps(harmony_ids(etude_tokenizer, "<|channel|>final<|message|>\u202e\x9bok<|return|>")))
    shown = on_a_terminal("parse", "--model", "etude", str(path), env={})
    assert '"\ufffdok"' in shown


def on_a_terminal(*arguments: str, env: dict[str, str]) -> str:
    """What `ossia harmony ARGUMENTS` writes to a terminal."""
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(OSSIA), "harmony", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", **env},
    ) as child:
        os.close(theirs)
        data = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux: the other side was closed
                break
            if not piece:
                break
            data += piece
        assert child.stderr and child.stderr.read() == b""
    os.close(ours)
    assert child.returncode == 0
    return data.decode()
