"""The control tokens of Harmony, by name. Their ids come from the vocabulary in use: no number stands here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ossia.harmony.errors import VocabularyError

START = "<|start|>"
END = "<|end|>"
MESSAGE = "<|message|>"
CHANNEL = "<|channel|>"
CONSTRAIN = "<|constrain|>"
RETURN = "<|return|>"
CALL = "<|call|>"
ENDOFTEXT = "<|endoftext|>"

NAMES = (START, END, MESSAGE, CHANNEL, CONSTRAIN, RETURN, CALL, ENDOFTEXT)


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """The ids of the control tokens: `ControlTokens.of(vocabulary.control).start` is 200006 in gpt-oss's vocabulary."""

    start: int
    end: int
    message: int
    channel: int
    constrain: int
    return_: int
    call: int
    endoftext: int

    @classmethod
    def of(cls, control: Mapping[str, int]) -> ControlTokens:
        """The ids that `control` (name → id) gives to Harmony's names.

        Raises `VocabularyError`, which names what is missing, when the vocabulary isn't one of Harmony.
        """
        missing = [name for name in NAMES if name not in control]
        if missing:
            raise VocabularyError(f"the vocabulary has no {', '.join(missing)}: use a gpt-oss model")
        return cls(*(control[name] for name in NAMES))

    @property
    def generation_stops(self) -> frozenset[int]:
        """The tokens that end a generation. `<|end|>` isn't one of them: a turn would end after its analysis."""
        return frozenset((self.return_, self.call, self.endoftext))

    @property
    def message_ends(self) -> frozenset[int]:
        """The tokens that close a message in well-formed Harmony: `<|end|>`, `<|return|>`, `<|call|>`."""
        return frozenset((self.return_, self.end, self.call))
