"""Constrained decoding in process: which ids may come next, and which must.

    guides = GuideCompiler(tokenizer)
    guide = guides(Constraint(("functions.f",), {"functions.f": {"type": "object", …}}))

What is guided: headers (`headers`), the arguments of calls and an answer with a schema (`schemas`). Free text isn't,
except that it can't contain stray control tokens (`follower`).
"""

from ossia.agent.guide._keywords import idle_keywords
from ossia.agent.guide.follower import GuideCompiler
from ossia.agent.guide.schemas import require_usable

__all__ = ["GuideCompiler", "idle_keywords", "require_usable"]
