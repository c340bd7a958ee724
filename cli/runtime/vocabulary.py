"""The counter of browser pages, for `families` and `toolset` until they use `TokenCounter`."""

from __future__ import annotations

from ossia.agent.vocabulary import TokenCounter
from ossia.cli import paths
from ossia.harmony.tokenizer import Tokenizer


class ViewCounter(TokenCounter):
    """Counts the tokens of browser pages."""

    def __init__(self, own: Tokenizer) -> None:
        super().__init__(own, paths.host())

    def __call__(self, text: str) -> int:
        return self.pages(text)
