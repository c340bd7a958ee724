"""The tools that gpt-oss was trained with, described in the words it was trained on: not to be edited.

The texts are those of the reference library (openai/harmony, `src/chat.rs`, Apache-2.0); a test compares them with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ossia.harmony.messages import FunctionDecl, Namespace

_SEARCH = FunctionDecl(
    "search",
    "Searches for information related to `query` and displays `topn` results.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "topn": {"type": "number", "default": 10},
            "source": {"type": "string"},
        },
        "required": ["query"],
    },
)

_OPEN = FunctionDecl(
    "open",
    "\n".join(
        (
            "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, "
            "showing `num_lines` lines.",
            "Valid link ids are displayed with the formatting: `【{id}†.*】`.",
            "If `cursor` is not provided, the most recent page is implied.",
            "If `id` is a string, it is treated as a fully qualified URL associated with `source`.",
            "If `loc` is not provided, the viewport will be positioned at the beginning of the document or centered "
            "on the most relevant passage, if available.",
            "Use this function without `id` to scroll to a new location of an opened page.",
        )
    ),
    {
        "type": "object",
        "properties": {
            "id": {"type": ["number", "string"], "default": -1},
            "cursor": {"type": "number", "default": -1},
            "loc": {"type": "number", "default": -1},
            "num_lines": {"type": "number", "default": -1},
            "view_source": {"type": "boolean", "default": False},
            "source": {"type": "string"},
        },
    },
)

_FIND = FunctionDecl(
    "find",
    "Finds exact matches of `pattern` in the current page, or the page given by `cursor`.",
    {
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "cursor": {"type": "number", "default": -1}},
        "required": ["pattern"],
    },
)

BROWSER = Namespace(
    "browser",
    "\n".join(
        (
            "Tool for browsing.",
            "The `cursor` appears in brackets before each browsing display: `[{cursor}]`.",
            "Cite information from the tool using the following format:",
            "`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.",
            "Do not quote more than 10 words directly from the tool output.",
            "sources=web (default: web)",
        )
    ),
    (_SEARCH, _OPEN, _FIND),
)

PYTHON = Namespace(
    "python",
    "Use this tool to execute Python code in your chain of thought. The code will not be shown to the user. "
    "This tool should be used for internal reasoning, but not for code that is intended to be visible to the user "
    "(e.g. when creating plots, tables, or files)."
    "\n\n"
    "When you send a message containing Python code to python, it will be executed in a stateful Jupyter notebook "
    "environment. python will respond with the output of the execution or time out after 120.0 seconds. "
    "The drive at '/mnt/data' can be used to save and persist user files. "
    "Internet access for this session is UNKNOWN. Depends on the cluster.",
)

TRAINED: Mapping[str, Namespace] = MappingProxyType({"browser": BROWSER, "python": PYTHON})
"""The blocks of the system prompt's `# Tools`, by the key that orders them there."""

TRAINED_NAMES = (
    "python",
    "browser.search",
    "browser.open",
    "browser.find",
    "container.exec",
    "repo_browser.apply_patch",
    "repo_browser.list_dir",
    "repo_browser.open_file",
    "repo_browser.print_tree",
    "repo_browser.search",
)
"""Tools that the model calls since it was trained with them, whether or not anybody offers them."""
