"""OpenAI's Harmony format: messages ⇄ token ids, purely. No I/O, no clock, no environment, no randomness."""

from __future__ import annotations

from harmony.builtins import BROWSER, PYTHON, TRAINED
from harmony.chat_form import conversation_from_chat
from harmony.chat_writer import conversation_to_chat
from harmony.codec import Codec, Rendered
from harmony.conversation import conversation_from_json, conversation_to_json, message_to_json
from harmony.errors import ConversationError, HarmonyError, ParseError, RenderError, VocabularyError
from harmony.messages import (
    ChannelConfig,
    Completion,
    Delta,
    DeveloperPrompt,
    FunctionDecl,
    Message,
    Namespace,
    Repaired,
    ResponseFormat,
    Sampled,
    SystemPrompt,
)
from harmony.parse import StreamParser
from harmony.render import drop_before_last_final, drop_nothing, drop_past_analysis, drop_reference
from harmony.tokenizer import Tokenizer, Vocabulary, vocabulary_from_byte_level, vocabulary_from_tiktoken
from harmony.tokens import ControlTokens

__all__ = [
    "BROWSER",
    "PYTHON",
    "TRAINED",
    "ChannelConfig",
    "Codec",
    "Completion",
    "ControlTokens",
    "ConversationError",
    "Delta",
    "DeveloperPrompt",
    "FunctionDecl",
    "HarmonyError",
    "Message",
    "Namespace",
    "ParseError",
    "RenderError",
    "Rendered",
    "Repaired",
    "ResponseFormat",
    "Sampled",
    "StreamParser",
    "SystemPrompt",
    "Tokenizer",
    "Vocabulary",
    "VocabularyError",
    "conversation_from_chat",
    "conversation_from_json",
    "conversation_to_chat",
    "conversation_to_json",
    "drop_before_last_final",
    "drop_nothing",
    "drop_past_analysis",
    "drop_reference",
    "message_to_json",
    "vocabulary_from_byte_level",
    "vocabulary_from_tiktoken",
]
