"""Constrained decoding in process: which ids may come next, and which must.

    guides = GuideCompiler(tokenizer)
    guide = guides(Constraint(("functions.f",), {"functions.f": {"type": "object", …}}))

Headers are guided, the arguments of calls, and an answer with a schema (`schemas`). Free text isn't, except that it
can't contain stray control tokens.
"""

from ossia.agent.guide.follower import GuideCompiler
from ossia.agent.guide.schemas import idle_keywords, require_usable

__all__ = ["GuideCompiler", "idle_keywords", "require_usable"]
