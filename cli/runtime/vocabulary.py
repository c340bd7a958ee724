"""The vocabulary of commands that need no model: that of a GGUF, else gpt-oss's own from tiktoken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ossia.cli.streams import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ossia.harmony.tokenizer import Tokenizer, Vocabulary

_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""Of the file in tiktoken's cache: the SHA-1 of the address. The next two are its size and its hash."""
_BYTES, _SHA256 = 3_613_922, "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_FOLDER = "TIKTOKEN_CACHE_DIR"
_O200K_TOKENS = 199_998
"""Ordinary tokens of o200k: a model with as many has gpt-oss's vocabulary."""


def tokenizer_for(model: str | None, *, say: Callable[[str], object] = say) -> Tokenizer:
    """The tokenizer of `model` (the path of a GGUF, or a name).

    None: that of the first gpt-oss GGUF found on this machine (never the built-in étude's), else `o200k_harmony`
    from tiktoken, which downloads it once; `say` gets a line about that, else stderr. Raises ModelError when the
    model is missing or unusable, ExitError (3) when there is no vocabulary at all.
    """
    from ossia.harmony.tokenizer import Tokenizer

    if model is None:
        return Tokenizer(_found(say) or _o200k(say))
    from ossia.agent.models.memory import read_memory
    from ossia.agent.models.resolve import resolve
    from ossia.cli.runtime.models import locations

    return Tokenizer(resolve(model, locations=locations(), memory=read_memory()).vocabulary())


def _found(say: Callable[[str], object]) -> Vocabulary | None:
    from ossia.agent.errors import ModelError
    from ossia.agent.models.find import find_models
    from ossia.agent.models.model import open_model
    from ossia.cli.runtime.models import locations

    for found in find_models(locations()):
        if found.origin != "built-in":
            try:
                return open_model(found.path, origin=found.origin).vocabulary()
            except ModelError as error:
                say(f"warning: skipped: {error}")
    return None


def _o200k(say: Callable[[str], object]) -> Vocabulary:
    from ossia.agent.errors import DownloadFailed
    from ossia.agent.models.transfer import pull_known
    from ossia.cli.exits import ExitCode, ExitError

    if (cached := _cached()) is not None:
        return _read(cached)
    say("no gpt-oss model on this machine: downloading the vocabulary o200k_harmony (3.6 MB)")
    target = _folders()[-1] / _NAME
    try:
        pull_known(_ADDRESS, target, _BYTES, _SHA256)
        return _read(target)
    except (DownloadFailed, OSError, ValueError) as error:
        raise ExitError(
            f"no vocabulary: no gpt-oss model on this machine, and o200k_harmony can't be downloaded ({error}): "
            "name a GGUF file with --model, or use the built-in one with --model etude",
            ExitCode.MODEL,
        ) from None


def _cached() -> Path | None:
    """The file, if it is on this machine. By its hash: anybody may put anything into the usual folder in /tmp."""
    from ossia.agent.models.transfer import digest, is_size

    for path in (folder / _NAME for folder in _folders()):
        try:
            if is_size(path, _BYTES) and digest(path, lambda done: None) == _SHA256:
                return path
        except OSError:
            continue
    return None


def _folders() -> list[Path]:
    """Where the file may be: the user's choice, else tiktoken's own folder and ours. The last one is downloaded to."""
    import os
    import tempfile
    from pathlib import Path

    from ossia.cli import paths

    named = os.environ.get(_FOLDER) or os.environ.get("DATA_GYM_CACHE_DIR")
    return [Path(named)] if named else [Path(tempfile.gettempdir(), "data-gym-cache"), paths.cache_dir() / "vocabulary"]


def _read(file: Path) -> Vocabulary:
    import os

    import tiktoken

    from ossia.harmony.tokenizer import vocabulary_from_tiktoken

    before = os.environ.get(_FOLDER)
    os.environ[_FOLDER] = str(file.parent)
    try:
        return vocabulary_from_tiktoken(tiktoken.get_encoding("o200k_harmony"))
    finally:
        del os.environ[_FOLDER]
        if before is not None:
            os.environ[_FOLDER] = before


def own_tokenizer(model: str | None) -> Tokenizer:
    """The tokenizer of `model`; None: gpt-oss's if it is on this machine, else the built-in étude's. No downloads."""
    if model is not None:
        return tokenizer_for(model)
    from ossia.harmony.tokenizer import Tokenizer

    vocabulary = _gpt_oss_here()
    return Tokenizer(vocabulary) if vocabulary else tokenizer_for("etude")


def _gpt_oss_here() -> Vocabulary | None:
    """gpt-oss's vocabulary, of a GGUF or of what tiktoken downloaded before; None when neither is on this machine."""
    vocabulary = _found(lambda line: None)
    if vocabulary is None and (cached := _cached()) is not None:
        return _read(cached)
    return vocabulary


class ViewCounter:
    """Counts the tokens of browser pages in gpt-oss's vocabulary: page sizes are meant in it, whatever model runs.

    The vocabulary is looked for at the first count: `own`, if it is that of a gpt-oss model; one of a gpt-oss GGUF on
    this machine; tiktoken's, if it has been downloaded. Where there is none, `own` counts, and `fell_back` says so.
    """

    def __init__(self, own: Tokenizer) -> None:
        self._own = own
        self._counting: Tokenizer | None = None
        self.fell_back = self._told = False

    def warning(self) -> str | None:
        """A line for the user, once, after pages were counted in `own`."""
        if not self.fell_back or self._told:
            return None
        self._told = True
        return "no gpt-oss vocabulary on this machine: pages are measured with the model's own"

    def __call__(self, text: str) -> int:
        """The number of tokens of `text`."""
        if self._counting is None:
            self._counting = self._found()
        return len(self._counting.encode(text))

    def _found(self) -> Tokenizer:
        from ossia.harmony.tokenizer import Tokenizer

        if len(self._own.vocabulary.tokens) >= _O200K_TOKENS:
            return self._own
        vocabulary = _gpt_oss_here()
        self.fell_back = vocabulary is None
        return self._own if vocabulary is None else Tokenizer(vocabulary)
