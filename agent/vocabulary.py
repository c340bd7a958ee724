"""The vocabulary without a loaded model: of a GGUF file, else of tiktoken's file for gpt-oss."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ossia.agent.errors import DownloadFailed, ModelError, VocabularyMissing
from ossia.harmony.tokenizer import Tokenizer, Vocabulary, vocabulary_from_o200k
from ossia.tools.host import Host, Notice, Report, silent

_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""Of the file in tiktoken's cache: the SHA-1 of the address. The next two are its size and its hash."""
_BYTES, _SHA256 = 3_613_922, "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_O200K_TOKENS = 199_998
"""Ordinary tokens of o200k: a model with as many has gpt-oss's vocabulary."""


class TokenCounter:
    """Counts the tokens of texts in the vocabulary of `tokenizer`, the model's own; a chat replaces it with the model.

    Browser pages are counted in gpt-oss's, since their sizes are meant in it, whatever model runs: in `tokenizer`'s if
    it is that; else in that of a gpt-oss GGUF on this machine, or of tiktoken's file if it has been downloaded. It is
    looked for at the first count.

        count = TokenCounter(tokenizer, host)
        count("hello world")        # 2
        count.pages("hello world")  # 2
    """

    def __init__(self, tokenizer: Tokenizer, host: Host) -> None:
        self.tokenizer = tokenizer
        self._host = host
        self._gpt_oss: Tokenizer | None = None
        self._looked = self._warned = False

    def __call__(self, text: str) -> int:
        """The number of tokens of `text`."""
        return len(self.tokenizer.encode(text))

    def pages(self, text: str) -> int:
        """The number of gpt-oss's tokens of `text`; where that vocabulary is missing, of the model's own."""
        if not self._looked and len(self.tokenizer.vocabulary.tokens) < _O200K_TOKENS:
            vocabulary = _gpt_oss_here(self._host)
            self._gpt_oss, self._looked = Tokenizer(vocabulary) if vocabulary else None, True
        return len((self._gpt_oss or self.tokenizer).encode(text))

    def warning(self) -> str | None:
        """A line for the user, once, after pages were counted in the model's own vocabulary."""
        if self._warned or not self._looked or self._gpt_oss:
            return None
        self._warned = True
        return "no gpt-oss vocabulary on this machine: pages are measured with the model's own"


def tokenizer_for(model: str | None, host: Host, report: Report = silent) -> Tokenizer:
    """The tokenizer of `model` (the path of a GGUF, or a name).

    None: that of the first gpt-oss GGUF found on this machine (never the built-in étude's), else `o200k_harmony`
    from tiktoken's file, which is downloaded once. Raises ModelError: VocabularyMissing where neither can be had.
    """
    if model is None:
        return Tokenizer(_found(host, report) or _o200k(host, report))
    from ossia.agent.models.find import locations
    from ossia.agent.models.memory import read_memory
    from ossia.agent.models.resolve import resolve

    return Tokenizer(resolve(model, locations=locations(host), memory=read_memory()).vocabulary())


def own_tokenizer(model: str | None, host: Host) -> Tokenizer:
    """The tokenizer of `model`; None: gpt-oss's if it is on this machine, else the built-in étude's. No downloads."""
    vocabulary = _gpt_oss_here(host) if model is None else None
    return Tokenizer(vocabulary) if vocabulary else tokenizer_for(model or "etude", host)


def _gpt_oss_here(host: Host) -> Vocabulary | None:
    """gpt-oss's vocabulary, of a GGUF or an earlier download; None without either."""
    return _found(host, silent) or _cached(host)


def _found(host: Host, report: Report) -> Vocabulary | None:
    from ossia.agent.models.find import find_models, locations
    from ossia.agent.models.model import open_model

    for found in find_models(locations(host)):
        if found.origin != "built-in":
            try:
                return open_model(found.path, origin=found.origin).vocabulary()
            except ModelError as error:
                report(Notice("warning", f"skipped: {error}"))
    return None


def _o200k(host: Host, report: Report) -> Vocabulary:
    from ossia.agent.models.transfer import pull_known

    if vocabulary := _cached(host):
        return vocabulary
    report(Notice("note", "no gpt-oss model on this machine: downloading the vocabulary o200k_harmony (3.6 MB)"))
    target = _folders(host)[-1] / _NAME
    try:
        pull_known(_ADDRESS, target, _BYTES, _SHA256)
        return vocabulary_from_o200k(target.read_bytes())
    except (DownloadFailed, OSError) as error:
        raise VocabularyMissing(
            f"no vocabulary: no gpt-oss model on this machine, and o200k_harmony can't be downloaded ({error}): "
            "name a GGUF file with --model, or use the built-in one with --model etude"
        ) from None


def _cached(host: Host) -> Vocabulary | None:
    """tiktoken's file, if it is here. Known by its hash: anybody may put anything into the usual folder in /tmp."""
    from ossia.agent.models.transfer import is_size

    for path in (folder / _NAME for folder in _folders(host)):
        try:
            if is_size(path, _BYTES) and hashlib.sha256(content := path.read_bytes()).hexdigest() == _SHA256:
                return vocabulary_from_o200k(content)
        except OSError:
            continue
    return None


def _folders(host: Host) -> list[Path]:
    """The folders of the file: the user's choice, else tiktoken's and ossia's. The last one is downloaded to."""
    import tempfile

    named = host.environ.get("TIKTOKEN_CACHE_DIR") or host.environ.get("DATA_GYM_CACHE_DIR")
    return [Path(named)] if named else [Path(tempfile.gettempdir(), "data-gym-cache"), host.cache / "vocabulary"]
