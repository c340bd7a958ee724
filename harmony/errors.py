"""Every error this package raises on purpose. Each message is one line: what was expected, what came, what to do next.

HarmonyError
├── VocabularyError           the tokens don't make a Harmony vocabulary
├── RenderError               a message can't be written as it stands
└── ConversationError         a file isn't a conversation
"""

from __future__ import annotations


class HarmonyError(Exception):
    """The root of the tree."""


class VocabularyError(HarmonyError):
    """The tokens don't make a vocabulary that Harmony can be written in."""


class RenderError(HarmonyError):
    """A message can't be written as it stands: a tool without a name, a system prompt under another role."""


class ConversationError(HarmonyError):
    """The input isn't a conversation in the expected JSON shape."""
