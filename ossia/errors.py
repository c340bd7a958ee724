"""The root of all errors raised on purpose, and the errors of the Python face.

OssiaError
├── ArgumentError         an argument, or an answer of `approve`, can't be used (a ValueError, too)
├── AgentBusy             another question to the same agent is under way
├── AgentClosed           the agent, or its model, is closed
├── agent.errors          a model, its memory, an engine, a schema, stored sessions
├── tools.functions       functions and settings of tools
└── tools.approval.trust  a folder can't be trusted as it is

Each message is one line: what was expected, what came, what to do next.
"""

from __future__ import annotations


class OssiaError(Exception):
    """The root of the tree: `except OssiaError` catches all errors raised on purpose."""


class ArgumentError(OssiaError, ValueError):
    """`effort: must be low, medium or high, not 'hi'`."""


class AgentBusy(OssiaError, RuntimeError):
    """The agent is at another question; it takes one at a time. `fork()` gives another agent."""


class AgentClosed(OssiaError, RuntimeError):
    """The agent or its model is closed."""
