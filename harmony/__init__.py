"""OpenAI's Harmony format: messages ⇄ token ids, purely. No I/O, no clock, no environment, no randomness."""

from __future__ import annotations

from harmony.errors import ConversationError, HarmonyError, ParseError, RenderError, VocabularyError
from harmony.tokenizer import Tokenizer, Vocabulary, vocabulary_from_byte_level, vocabulary_from_tiktoken
from harmony.tokens import ControlTokens

__all__ = [
    "ControlTokens",
    "ConversationError",
    "HarmonyError",
    "ParseError",
    "RenderError",
    "Tokenizer",
    "Vocabulary",
    "VocabularyError",
    "vocabulary_from_byte_level",
    "vocabulary_from_tiktoken",
]
