"""The settings and commands of clients, for `ossia serve --print CLIENT`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_ANY_KEY = "none"
"""For clients that want a key where none is needed."""


def curl(url: str, model: str, header: str) -> str:
    """A command to try the server with. `header`: that of the token, as a word of the shell; "": none."""
    body = json.dumps({"model": model, "input": "Hello"})
    key = f"-H {header} " if header else ""
    return f"curl {shlex.quote(f'{url}/responses')} {key}-H 'Content-Type: application/json' -d {shlex.quote(body)}"


def _curl(url: str, model: str, token: str | None) -> str:
    return curl(url, model, shlex.quote(f"Authorization: Bearer {token}") if token else "")


def _openai(url: str, model: str, token: str | None) -> str:
    return "\n".join(
        [
            "from openai import OpenAI",
            "",
            f"client = OpenAI(base_url={json.dumps(url)}, api_key={json.dumps(token or _ANY_KEY)})",
            f'print(client.responses.create(model={json.dumps(model)}, input="Hello").output_text)',
        ]
    )


def codex(url: str, model: str, token: str | None, file: Path | None = None) -> str:
    """The settings of Codex. `file`: where the token is, so that no command line has it."""
    windows = ["cmd", "/c"] if sys.platform == "win32" else []
    reading = ["type" if windows else "cat", str(file)] if token and file else ["echo", token or _ANY_KEY]
    command, *words = *windows, *reading
    return "\n".join(
        [
            "# ~/.codex/config.toml",
            f"model = {json.dumps(model)}",
            'model_provider = "ossia"',
            "",
            "[model_providers.ossia]",
            'name = "ossia"',
            f"base_url = {json.dumps(url)}",
            'wire_api = "responses"',
            "",
            "[model_providers.ossia.auth]  # a command: only then Codex asks how long the context is",
            f"command = {json.dumps(command)}",
            f"args = {json.dumps(words)}",
        ]
    )


def _llm(url: str, model: str, token: str | None) -> str:
    return "\n".join(
        [
            "# extra-openai-models.yaml, beside the file that `llm logs path` names",
            *([f"# then: llm keys set ossia --value {shlex.quote(token)}"] if token else []),
            "# then: llm -m ossia Hello",
            "- model_id: ossia",
            f"  model_name: {json.dumps(model)}",
            f"  api_base: {json.dumps(url)}",
            *(["  api_key_name: ossia"] if token else []),
            "  supports_tools: true",
            "  supports_schema: true",
        ]
    )


CLIENTS: Mapping[str, Callable[[str, str, str | None], str]] = {
    "codex": codex,
    "openai": _openai,
    "llm": _llm,
    "curl": _curl,
}
"""By name: the text for an address (`http://127.0.0.1:8321/v1`), a model and a token."""
