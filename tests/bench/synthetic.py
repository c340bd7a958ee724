"""Writes gpt-oss models with random weights: what llama.cpp computes costs what it costs with the real ones.

    python -m tests.bench.synthetic --size tiny tiny.gguf        #  36 MB, a second or two
    python -m tests.bench.synthetic --size mid mid.gguf          # 0.8 GB
    python -m tests.bench.synthetic --size 20b 20b.gguf          # 12.1 GB, gpt-oss-20b's shapes tensor by tensor

All have gpt-oss's tensors, vocabulary (201,088 entries), head size, sliding window and 4 experts a token; attention and
embeddings are Q8_0, experts MXFP4, the rest F32, as in the file that OpenAI's weights are converted to. Blocks are
drawn as they are stored, and written as they are drawn: little memory is needed. The weights are scaled so that logits
have a standard deviation of about 3, and every expert gets its share of the tokens.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, Literal
from zlib import crc32

import gguf
import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from ossia.agent.models.gpt_oss import Architecture
from tests.support.gguf_vocabulary import REAL_SIZE, real_tokens, tokenizer_keys
from tests.support.toy_gguf import add_key

_CONTEXT: Final = 131_072
_CHUNK_BYTES: Final = 16 << 20

SIZES: Final = {
    "tiny": Architecture(8, 32, 4, 2, 64, 32, 4, 640, 128, _CONTEXT, REAL_SIZE),
    # 0.8 GB, 110 tokens a second on 2 cores. With this vocabulary that takes the 128 experts of gpt-oss-120b: of the
    # 84 MB read for a token, output, attention and experts are 66, 9 and 25 % (gpt-oss-20b: 24, 26 and 50 of 2.6 GB).
    # Nearer shares were tried: 24 layers, 384 wide, 32 experts (41, 22 and 37 %) make 30 tokens a second of it.
    "mid": Architecture(12, 256, 16, 2, 64, 128, 4, 1024, 128, _CONTEXT, REAL_SIZE),
    # openai/gpt-oss-20b, config.json
    "20b": Architecture(24, 2880, 64, 8, 64, 32, 4, 2880, 128, _CONTEXT, REAL_SIZE),
}
"""The measures of each model."""

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}<|start|>{{ message.role }}{% if message.role == 'assistant' %}<|channel|>final"
    "{% endif %}<|message|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
"""Harmony for other programs, which need one; OpenAI's own is 400 lines long. ossia reads none."""

Kind = Literal["F32", "Q8_0", "MXFP4"]
Chunk = NDArray[np.uint8]

_FP4: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # OCP Microscaling Formats 1.0, E2M1
_FP4_STD: Final = math.sqrt(sum(value * value for value in _FP4) / len(_FP4))
_INT8_STD: Final = 127 / math.sqrt(3)  # of -127 to 127, each as often as the others
_BLOCK: Final = 32
_BLOCK_BYTES: Final = {"F32": 128, "Q8_0": 34, "MXFP4": 17}


class SyntheticError(Exception):
    """The file can't be written; the message is one line."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor to draw: `Tensor("blk.0.attn_q.weight", (4096, 2880), "Q8_0", std=0.0224)`; outermost size first."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    std: float
    mean: float = 0.0

    @property
    def nbytes(self) -> int:
        """What it takes in the file."""
        return math.prod(self.shape) * _BLOCK_BYTES[self.kind] // _BLOCK


def tensors_of(network: Architecture) -> Iterator[Tensor]:
    """All tensors of a model, in the file's order; gpt-oss-20b has 459."""
    width, q, kv = network.embedding, network.heads * network.head_size, network.kv_heads * network.head_size
    experts, inner = network.experts, network.expert_size

    def matrix(name: str, kind: Kind, gain: float, *shape: int) -> Tensor:
        return Tensor(f"{name}.weight", shape, kind, gain / math.sqrt(shape[-1]))

    def vector(name: str, *shape: int, std: float = 0.05, mean: float = 0.0) -> Tensor:
        return Tensor(name, shape, "F32", std, mean)

    # Gains: attention is sharp enough to tell positions apart; what the layers add to the residual stream is small
    # enough to leave the last token's own embedding a part of it: else greedy text soon repeats itself.
    yield Tensor("token_embd.weight", (REAL_SIZE, width), "Q8_0", 1.0)
    for layer in range(network.layers):
        block = f"blk.{layer}"
        yield vector(f"{block}.attn_norm.weight", width, mean=1.0)
        for name, rows, gain in (("attn_q", q, 1.2), ("attn_k", kv, 1.2), ("attn_v", kv, 1.0)):
            yield matrix(f"{block}.{name}", "Q8_0", gain, rows, width)
            yield vector(f"{block}.{name}.bias", rows)
        yield matrix(f"{block}.attn_output", "Q8_0", 1.0, width, q)
        yield vector(f"{block}.attn_output.bias", width)
        yield vector(f"{block}.attn_sinks.weight", network.heads, std=0.5)
        yield vector(f"{block}.post_attention_norm.weight", width, mean=1.0)
        yield matrix(f"{block}.ffn_gate_inp", "F32", 2.0, experts, width)
        yield vector(f"{block}.ffn_gate_inp.bias", experts)
        for name, gain in (("ffn_gate_exps", 1.0), ("ffn_up_exps", 1.0)):
            yield matrix(f"{block}.{name}", "MXFP4", gain, experts, inner, width)
            yield vector(f"{block}.{name}.bias", experts, inner)
        yield matrix(f"{block}.ffn_down_exps", "MXFP4", 0.5, experts, width, inner)
        yield vector(f"{block}.ffn_down_exps.bias", experts, width)
    yield vector("output_norm.weight", width, mean=1.0)
    yield matrix("output", "Q8_0", 3.0, REAL_SIZE, width)


def keys_of(size: str, network: Architecture) -> dict[str, object]:
    """The metadata but for the architecture's name: what the converted gpt-oss-20b has, in its order."""
    values = {
        "block_count": network.layers,
        "context_length": network.context_tokens,
        "embedding_length": network.embedding,
        "feed_forward_length": network.expert_size,
        "attention.head_count": network.heads,
        "attention.head_count_kv": network.kv_heads,
        "rope.freq_base": 150000.0,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "expert_count": network.experts,
        "expert_used_count": network.experts_used,
        "attention.key_length": network.head_size,
        "attention.value_length": network.head_size,
        "attention.sliding_window": network.window,
        "expert_feed_forward_length": network.expert_size,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 32.0,
        "rope.scaling.original_context_length": 4096,
    }
    return {
        "general.type": "model",
        "general.name": f"synthetic {size}",
        "general.basename": "synthetic",
        "general.size_label": size,
        "general.license": "apache-2.0",
        "general.tags": ["random weights"],
        **{f"gpt-oss.{name}": value for name, value in values.items()},
        **tokenizer_keys(real_tokens()),
        "tokenizer.chat_template": CHAT_TEMPLATE,
        "general.quantization_version": 2,
        "general.file_type": 38,  # mostly MXFP4 experts (llama.cpp's LLAMA_FTYPE_MOSTLY_MXFP4_MOE)
    }


def write_synthetic(
    path: Path,
    size: str,
    *,
    seed: int = 0,
    free_bytes: int | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Write the model `size` (a name of `SIZES`) to `path`, which is returned. The same seed gives the same bytes.

    `free_bytes` may be taken on the disk; None: as many as are free. `on_progress` gets the bytes written and those of
    the whole file. Until it is whole, the file is called `path` with `.part` behind it; that is removed when anything
    goes wrong, an interrupt too. Raises `SyntheticError` when the disk lacks the room or can't be written to.
    """
    if path.is_dir():
        raise SyntheticError(f"{path}: expected a file to write, this is a folder")
    part = path.with_name(path.name + ".part")
    try:
        try:
            part.touch()  # this and the room first: the vocabulary takes seconds
            free = shutil.disk_usage(part.parent).free if free_bytes is None else free_bytes
            data_bytes = sum(_padded(tensor.nbytes) for tensor in tensors_of(SIZES[size]))
            if data_bytes > free:  # without the header's 13 MB: who lacks these is told when they are missing
                raise SyntheticError(f"{path}: {size} takes {data_bytes / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")
            total = write_header(part, size)
            _write_tensors(part, size, seed, lambda done: on_progress and on_progress(done, total))
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SyntheticError(f"{path}: can't be written ({error.strerror or error})") from error
    return path


def write_header(path: Path, size: str) -> int:
    """Write the file up to its first tensor; returns the bytes that the whole file will have."""
    network = SIZES[size]
    writer = gguf.GGUFWriter(path, "gpt-oss")
    for name, value in keys_of(size, network).items():
        add_key(writer, name, value)
    data_bytes = 0
    for tensor in tensors_of(network):
        kind = GGMLQuantizationType[tensor.kind]
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), tensor.nbytes, kind)
        data_bytes += _padded(tensor.nbytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    header_bytes = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(_padded(header_bytes) - header_bytes))
    return _padded(header_bytes) + data_bytes


def _write_tensors(part: Path, size: str, seed: int, on_progress: Callable[[int], object]) -> None:
    done = part.stat().st_size
    with part.open("ab", buffering=0) as file:
        for tensor in tensors_of(SIZES[size]):
            padding = np.zeros(_padded(tensor.nbytes) - tensor.nbytes, np.uint8)
            for chunk in chain(draw(tensor, seed), [padding]):
                _write_all(file, chunk)
                done += chunk.nbytes
                on_progress(done)


def _write_all(file: BinaryIO, chunk: Chunk) -> None:
    rest = memoryview(chunk.tobytes())
    while rest:
        rest = rest[file.write(rest) :]


def draw(tensor: Tensor, seed: int) -> Iterator[Chunk]:
    """The tensor's bytes, in pieces. Each tensor has a source of its own: its bytes don't depend on those before."""
    bits = np.random.SFC64([seed, crc32(tensor.name.encode())])
    draw_blocks = {"F32": _draw_floats, "Q8_0": _draw_q8_0, "MXFP4": _draw_mxfp4}[tensor.kind]
    blocks = -(-math.prod(tensor.shape) // _BLOCK)
    at_once = _CHUNK_BYTES // _BLOCK_BYTES[tensor.kind]
    rest = tensor.nbytes
    for start in range(0, blocks, at_once):
        chunk = draw_blocks(bits, min(at_once, blocks - start), tensor).reshape(-1)[:rest]
        rest -= chunk.nbytes
        yield chunk


def _draw_floats(bits: np.random.SFC64, blocks: int, tensor: Tensor) -> Chunk:
    values = np.random.Generator(bits).standard_normal(blocks * _BLOCK, np.float32)
    return (values * np.float32(tensor.std) + np.float32(tensor.mean)).view(np.uint8)


def _draw_q8_0(bits: np.random.SFC64, blocks: int, tensor: Tensor) -> Chunk:
    """Blocks of a float16 scale and 32 whole numbers, -127 to 127."""
    chunk = _random_bytes(bits, blocks, 34)
    numbers = chunk[:, 2:].view(np.int8)
    np.maximum(numbers, -127, out=numbers)  # as a quantiser gives them: some of llama.cpp's ways can't negate -128
    spread = chunk[:, :1].astype(np.float32) * np.float32(1 / 255) + np.float32(0.5)  # 0.5 to 1.5
    scale = np.float32(tensor.std / _INT8_STD / math.sqrt(13 / 12))  # the mean square of the spread is 13/12
    chunk[:, :2] = (spread * scale).astype("<f2").view(np.uint8)
    return chunk


def _draw_mxfp4(bits: np.random.SFC64, blocks: int, tensor: Tensor) -> Chunk:
    """Blocks of an exponent (a power of two, with 127 added) and 32 four-bit floats."""
    chunk = _random_bytes(bits, blocks, 17)
    exponent = math.floor(math.log2(tensor.std / _FP4_STD))
    larger = ((tensor.std / _FP4_STD / 2.0**exponent) ** 2 - 1) / 3  # share of the next one: keeps the variance
    chunk[:, 0] = np.where(chunk[:, 0] < round(larger * 256), 127 + exponent + 1, 127 + exponent)
    return chunk


def _random_bytes(bits: np.random.SFC64, rows: int, columns: int) -> Chunk:
    words = np.asarray(bits.random_raw(-(-rows * columns // 8)), "<u8")
    return words.view(np.uint8)[: rows * columns].reshape(rows, columns)


def _padded(count: int) -> int:
    return -(-count // 32) * 32  # GGUF's alignment


class _Report:
    """The share that is written, on stderr: a line that changes in a terminal, else a line for each tenth."""

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        terminal = sys.stderr.isatty()
        share = done * 100 // total // (1 if terminal else 10)
        if share != self._shown:
            self._shown = share
            begin, end = ("\r", "" if done < total else "\n") if terminal else ("", "\n")
            print(f"{begin}{done / 1e9:6.2f} of {total / 1e9:.2f} GB", end=end, file=sys.stderr, flush=True)


def main() -> int:
    """Write the model that the command line names; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.synthetic", description="Write a random gpt-oss.")
    parser.add_argument("--size", choices=sorted(SIZES), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("file", type=Path)
    chosen = parser.parse_args()
    try:
        write_synthetic(chosen.file, chosen.size, seed=chosen.seed, on_progress=_Report())
    except SyntheticError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
