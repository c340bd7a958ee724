"""Every error this package raises on purpose. Each message is one line: what was expected, what came, what to do next.

AgentError
├── ModelError                a model can't be used (the command line exits 3)
│   ├── ModelNotFound         it isn't on this machine
│   ├── VocabularyMissing     nor is gpt-oss's vocabulary, for what needs only that
│   └── ModelUnusable         the file is not what it should be
├── DoesNotFit                memory or context (exits 4)
│   ├── OutOfMemory
│   └── ContextFull
├── AddressUnusable           the address or the key of an engine's server (exits 2)
│   └── KeyUnusable           the variable of the key isn't set, or holds none
├── SettingRefused            this machine, or this build of llama.cpp, can't do what a setting asks for (exits 2)
├── EngineFailed              the engine or its connection broke in the middle of a turn (exits 7)
│   ├── ServerRefused         a server answered with an error
│   └── ScriptEnded           a script engine was asked for more steps than it has
├── DownloadFailed            a model can't be fetched: network, hub, disk, or a wrong hash (exits 7)
├── SchemaUnusable            a JSON Schema that sampling can't be held to (exits 2)
├── ScriptInvalid             a script file is missing or malformed (exits 2)
├── SessionInvalid            a file is no session that can be imported (exits 2)
└── SessionsError             stored sessions
    ├── SessionMissing        no session has that name (exits 2)
    ├── SessionUnclear        several may be meant (exits 2)
    ├── SessionInUse          another process is using it (exits 2)
    └── SessionsUnusable      their file is damaged, of a newer version, or something else (exits 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ossia.errors import OssiaError
from ossia.harmony.messages import Completion


class AgentError(OssiaError):
    """The root of the tree."""


class ModelError(AgentError):
    """A model can't be used."""


class ModelNotFound(ModelError):
    """The model isn't on this machine."""


class VocabularyMissing(ModelError):
    """No gpt-oss vocabulary is on this machine, and none can be downloaded."""


class ModelUnusable(ModelError):
    """The file isn't a gpt-oss GGUF that can be run; the message names it, what was expected, and the next step."""


class DoesNotFit(AgentError):
    """Something is larger than the room there is."""


class OutOfMemory(DoesNotFit):
    """The weights or the KV cache don't fit into memory."""


class ContextFull(DoesNotFit):
    """The prompt is longer than the context."""

    def __init__(self, prompt_tokens: int, context_tokens: int) -> None:
        super().__init__(
            f"the prompt has {prompt_tokens:,} tokens, the context holds {context_tokens:,}: shorten the prompt "
            "or the instructions (AGENTS.md too), use fewer tools or a larger context (--context), up to the model's"
        )
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens


class SettingRefused(AgentError):
    """A setting can't be followed on this machine, or with this build of llama.cpp."""


class AddressUnusable(AgentError):
    """The address of an engine's server, or the key for it, can't be used as it is given."""


class KeyUnusable(AddressUnusable):
    """The variable that an engine's `key_env` names isn't set, or holds no key."""


class EngineFailed(AgentError):
    """The engine broke in the middle of a turn. `partial`: the step's messages so far."""

    partial: Completion | None = None


class ServerRefused(EngineFailed):
    """A server answered with an error: `status` is HTTP's (404), 200 if it came in the middle of an answer.

    `error`: the object that says what went wrong, `{"message": …, "code": …}`; empty without one.
    """

    def __init__(self, message: str, status: int, error: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.status, self.error = status, error


class ScriptEnded(EngineFailed):
    """A script engine was asked for more steps than its file has."""


class DownloadFailed(AgentError):
    """A model can't be fetched: the network, the hub or the disk failed, or the hash is wrong."""


class SchemaUnusable(AgentError):
    """Generation can't be held to this JSON Schema; the message names the keyword."""


class ScriptInvalid(AgentError):
    """A script file is missing or malformed."""


class SessionInvalid(AgentError):
    """A session to import is damaged, newer than this program, or no session at all."""


class SessionsError(AgentError):
    """Something about the stored sessions."""


class SessionMissing(SessionsError):
    """No stored session is called that."""


class SessionUnclear(SessionsError):
    """Several stored sessions match: `found`, each a `SessionInfo`."""

    def __init__(self, ref: str, found: Sequence[Any]) -> None:
        super().__init__(f"{len(found)} sessions may be meant by {ref!r}: name one by its id")
        self.found = found


class SessionInUse(SessionsError):
    """Another process is using this session: if both added to it, two conversations would be mixed."""


class SessionsUnusable(SessionsError):
    """The file of the stored sessions can't be used. It is left as it is."""
