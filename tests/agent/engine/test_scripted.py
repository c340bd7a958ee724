"""The script engine: files that are wrong, ids, limits, pace."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.engine.scripted import Script, ScriptedEngine, read_script
from ossia.agent.errors import ContextFull, ScriptEnded, ScriptInvalid
from ossia.harmony.tokenizer import Tokenizer


def _write(folder: Path, content: object) -> Path:
    path = folder / "script.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_whole_script(tmp_path: Path) -> None:
    path = _write(tmp_path, {"version": 1, "tokens_per_s": 40, "pause_s": 2, "steps": ["<|return|>", [1, 2]]})
    script = read_script(path)
    assert script == Script(("<|return|>", (1, 2)), 40.0, 2.0)
    assert script.has_ids
    assert not read_script(_write(tmp_path, {"version": 1, "steps": ["a"]})).has_ids


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "a script must be JSON"),
        ("[]", "a script must be an object"),
        ({"steps": []}, '"version" must be 1, not None'),
        ({"version": 2, "steps": []}, '"version" must be 1, not 2'),
        ({"version": True, "steps": []}, '"version" must be 1, not True'),
        ({"version": 1}, '"steps" must be a list'),
        ({"version": 1, "steps": [3]}, "step 0 must be a string or a list of ids, not 3"),
        ({"version": 1, "steps": ["a", [1, -1]]}, "step 1 must be a string or a list of ids"),
        ({"version": 1, "steps": [[True]]}, "step 0 must be"),
        ({"version": 1, "steps": [], "tokens_per_s": -1}, '"tokens_per_s" must be 0 or more'),
        ({"version": 1, "steps": [], "pause_s": "1"}, '"pause_s" must be 0 or more'),
        ({"version": 1, "steps": [], "pace": 1}, "not pace"),
        ("[" * 100_000, "a script must be JSON"),
    ],
)
def test_a_malformed_script_is_one_line(content: object, complaint: str, tmp_path: Path) -> None:
    path = _write(tmp_path, content)
    with pytest.raises(ScriptInvalid) as raised:
        read_script(path)
    assert complaint in str(raised.value) and str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_such_script(tmp_path: Path) -> None:
    with pytest.raises(ScriptInvalid, match="No such file"):
        read_script(tmp_path / "none.json")
    with pytest.raises(ScriptInvalid):
        read_script(tmp_path)


def test_what_the_vocabulary_lacks(etude_tokenizer: Tokenizer) -> None:
    with pytest.raises(ScriptInvalid, match=r"step 1: there is no control token <\|nope\|>"):
        ScriptedEngine(Script(("<|return|>", "a<|nope|>")), etude_tokenizer)
    with pytest.raises(ScriptInvalid, match="step 0: the id 999999 isn't in the vocabulary"):
        ScriptedEngine(Script(((999_999,),)), etude_tokenizer)


def _play(engine: ScriptedEngine, *, prompt: int = 3, max_tokens: int | None = None) -> tuple[list[object], str]:
    generation = engine.generate(
        Task(
            Prompt(tuple(range(prompt))),
            stops=frozenset({engine.vocabulary.control["<|return|>"]}),
            max_tokens=max_tokens,
        ),
        control=Control(),
    )
    return list(generation), generation.stats.end


def test_text_and_ids_and_their_ends(etude_tokenizer: Tokenizer) -> None:
    control = etude_tokenizer.control
    hi = etude_tokenizer.encode("hi <|x")
    steps = ("<|message|>hi <|x<|return|>unread", tuple(hi), "")
    engine = ScriptedEngine(Script(steps), etude_tokenizer)
    assert _play(engine) == ([control.message, *hi, control.return_], "stop")
    assert _play(engine) == ([*hi, control.endoftext], "stop")
    assert _play(engine) == ([control.endoftext], "stop")
    with pytest.raises(ScriptEnded):
        _play(engine)


def test_limits(etude_tokenizer: Tokenizer) -> None:
    def engine() -> ScriptedEngine:
        return ScriptedEngine(Script(((1, 2, 3, 4),)), etude_tokenizer, context_tokens=6)

    assert _play(engine(), max_tokens=2) == ([1, 2], "tokens")
    assert _play(engine()) == ([1, 2, 3], "context")
    with pytest.raises(ContextFull, match="the prompt has 6 tokens, the context holds 6"):
        _play(engine(), prompt=6)


def test_pace_and_stop(etude_tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(Script(((1,) * 100,), tokens_per_s=2), etude_tokenizer)
    control = Control()
    generation = engine.generate(Task(Prompt((1,))), control=control)
    began = time.monotonic()
    next(generation)
    assert time.monotonic() - began >= 0.4  # a delay there is; how exact it is depends on the machine
    control.stop()
    assert list(generation) == []
    assert generation.stats.end == "stopped" and generation.stats.completion_tokens == 1


def test_a_pause_comes_once(etude_tokenizer: Tokenizer) -> None:
    engine = ScriptedEngine(Script(((1,) * 100,), pause_s=0.4), etude_tokenizer)
    generation = engine.generate(Task(Prompt((1,))), control=Control())
    assert len(list(generation)) == 101
    assert generation.stats.prefill_s == 0.4 > generation.stats.decode_s
