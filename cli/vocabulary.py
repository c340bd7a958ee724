"""Which vocabulary the commands work in that need no model: one of a GGUF, else gpt-oss's own from tiktoken."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harmony.tokenizer import Tokenizer, Vocabulary

# Under which tiktoken keeps its file of o200k: the SHA-1 of the address it comes from.
_CACHED_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"


def tokenizer_for(model: str | None) -> Tokenizer:
    """The tokenizer of `model` (the path of a GGUF, or a name).

    None: of the first gpt-oss GGUF that is found on this machine (never the built-in étude's), else `o200k_harmony`
    from tiktoken, which downloads it once; stderr says so. Raises ModelError when the model is missing or unusable,
    ExitError (3) when there is no vocabulary at all.
    """
    from harmony.tokenizer import Tokenizer

    vocabulary = _found() if model is None else _named(model)
    return Tokenizer(vocabulary or _o200k())


def _named(model: str) -> Vocabulary:
    from agent.models.memory import read_memory
    from agent.models.resolve import resolve
    from cli.models import locations

    return resolve(model, locations=locations(), memory=read_memory()).vocabulary()


def _found() -> Vocabulary | None:
    from agent.errors import ModelError
    from agent.models.find import find_models
    from agent.models.model import open_model
    from cli.models import locations

    for found in find_models(locations()):
        if found.origin != "built-in":
            try:
                return open_model(found.path, origin=found.origin).vocabulary()
            except ModelError as error:
                _say(f"warning: passed over: {error}")
    return None


def _o200k() -> Vocabulary:
    import tiktoken

    from cli.exits import ExitCode, ExitError
    from harmony.tokenizer import vocabulary_from_tiktoken

    cached = _cache_file()
    if cached is None or not cached.exists():
        _say("no gpt-oss model on this machine: downloading the vocabulary o200k_harmony (3.6 MB)")
    try:
        return vocabulary_from_tiktoken(tiktoken.get_encoding("o200k_harmony"))
    except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong checksum is a ValueError
        reason = type(error).__name__ if isinstance(error, OSError) else error
        raise ExitError(
            f"no vocabulary: no gpt-oss model on this machine, and o200k_harmony can't be had ({reason}): "
            "name a GGUF file with --model, or take the built-in one with --model etude",
            ExitCode.MODEL,
        ) from None


def _cache_file() -> Path | None:
    """Where tiktoken looks before it downloads (its `load.py`); None: it is told to keep nothing."""
    import os
    import tempfile
    from pathlib import Path

    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    return Path(folder) / _CACHED_NAME if folder else None


def _say(line: str) -> None:
    import sys

    from cli.clean import clean

    print(f"ossia: {clean(line)}", file=sys.stderr)
