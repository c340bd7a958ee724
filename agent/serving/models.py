"""The served model: its name, as clients write it, and its description for them."""

from __future__ import annotations

import re

from ossia.agent.serving.asked import BadRequest

CODEX = """\
You are a coding agent on the user's machine, in the folder that <environment_context> names.
1. Look first: list files and read what the task is about with exec_command (rg, sed -n, cat).
2. Change files with apply_patch, no more than the task needs. Keep to the style of the code around.
3. Run the tests, or what you changed, and mend what fails. Go on until the task is done; don't stop to ask.
4. Follow the AGENTS.md files. Don't commit, and leave alone what isn't yours.
5. In the end say in a few lines what you changed and what you saw work; say what is missing, too."""
"""The instructions of Codex for this model."""


def id_of(name: str) -> str:
    """The id of a model by its name: of `"gpt-oss-20b @ gpu.example:8000"` it is `"gpt-oss-20b"`."""
    return name.partition(" @ ")[0]


def require(asked: str | None, model: str) -> None:
    """Raise BadRequest (404) if a request asks for another model than `model`. None: it names none.

    `openai/gpt-oss-20b`, `gpt-oss:20b` and `GPT-OSS-20B` are `gpt-oss-20b`.
    """
    if asked is not None and _plain(asked) != _plain(id_of(model)):
        message = f"model: there is no {asked[:80]!r} here, only {id_of(model)!r}"
        raise BadRequest(message, status=404, code="model_not_found", param="model")


def _plain(name: str) -> str:
    return re.sub(r"[:\s_]", "-", name.lower().removeprefix("openai/").removesuffix(".gguf"))


def listed(model: str, *, context_tokens: int | None, created: int) -> dict[str, object]:
    """The body of `GET /v1/models`: `data` as OpenAI has it, and `models` as Codex reads it.

    `context_tokens` None: the model isn't loaded yet.
    """
    name = id_of(model)
    efforts = [
        {"effort": effort, "description": f"Reasoning: {effort}"} for effort in ("low", "medium", "high")
    ]
    codex = {
        "slug": name,
        "display_name": name,
        "description": "gpt-oss, served by ossia",
        "default_reasoning_level": "medium",
        "supported_reasoning_levels": efforts,
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 0,
        "upgrade": None,
        "base_instructions": CODEX,
        "supports_reasoning_summaries": True,
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "supports_parallel_tool_calls": False,
        "context_window": context_tokens or 32_768,
        "experimental_supported_tools": [],
        "input_modalities": ["text"],
    }
    about = {"id": name, "object": "model", "created": created, "owned_by": "ossia"}
    if context_tokens:
        about["context_length"] = context_tokens
    return {"object": "list", "data": [about], "models": [codex]}
