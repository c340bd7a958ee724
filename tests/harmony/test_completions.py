"""The comparison of recorded completions with what was meant: `python -m tests.oracle.completions`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ossia.harmony.tokenizer import Tokenizer
from tests.oracle.completions import faults

CALL: Mapping[str, object] = {"channel": "analysis", "recipient": "python", "content_type": "code", "text_starts": "1+"}
COMPLETION = "Add them.<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>1+1<|call|>"
THOUGHT: Mapping[str, object] = {"channel": None, "recipient": None, "content_type": None, "text_starts": "Add"}


@pytest.mark.parametrize(
    ("thought", "call", "right"),
    [
        ({"meant": "analysis"}, {}, True),
        ({"meant": "analysis"}, {"text_len": 3}, True),
        ({"channel": "analysis", "text_starts": "Now add", "alt": "Add"}, {}, False),
        ({}, {}, False),
        ({"meant": "final"}, {}, False),
        ({"meant": "analysis", "role": ["tool"]}, {}, False),
        ({"meant": "analysis"}, {"text_len": 4}, False),
        ({"meant": "analysis"}, {"text_len": 2}, True),
        ({"meant": "analysis"}, {"text_starts": "2"}, False),
        ({"meant": "analysis"}, {"recipient": None}, False),
        ({"meant": "analysis"}, {"content_type": None}, True),
        ({"meant": "analysis"}, {"content_type": "json"}, False),
        ({"meant": "analysis"}, {"channel": "commentary"}, False),
    ],
)
def test_each_field_counts(
    thought: Mapping[str, object], call: Mapping[str, object], right: bool, wheel_tokenizer: Tokenizer
) -> None:
    row = {"completion": COMPLETION, "tools": ["python"], "intended": [{**THOUGHT, **thought}, {**CALL, **call}]}
    assert (faults(row, wheel_tokenizer) == []) is right
    assert faults({**row, "intended": row["intended"][:1]}, wheel_tokenizer) == ["2 messages, not 1"]
