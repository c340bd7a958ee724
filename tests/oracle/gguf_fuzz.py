"""Mutated models that our check lets through are given to the real llama.cpp: none may end the process.

    python -m tests.oracle.gguf_fuzz [--files 300] [--seed 0] [--known]

`--known` leaves our check out and shows what llama.cpp does with the faults that we know of. Exit 1 if a file that
passed the check killed the process; that file is kept and named.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from ossia.agent.errors import ModelError
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.model import open_model
from tests.support.gguf_edit import BOOL, F32, I32, STRING, U16, U32, U64, GgufEdit, list_of, text, texts
from tests.support.toy_gguf import write_toy_gguf

_INTEGERS = [0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 100, 127, 128, 129, 255, 256, 257, 512, 4095, 4096, 8192]
_INTEGERS += [65_535, 65_536, 131_072, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
_FLOATS = [0.0, -1.0, 1e-30, 1e-12, 1e-6, 1e-5, 0.05, 0.5, 1.0, 2.0, 32.0, 1e4, 1e12, 1e30, float("nan"), float("inf")]
_MORE_KEYS = [
    *("attention.causal", "pooling_type", "nextn_predict_layers", "expert_group_count", "expert_group_used_count"),
    *("attention.sliding_window_pattern", "embedding_length_out", "rope.dimension_count", "rope.dimension_count_swa"),
    *("attention.key_length_swa", "attention.value_length_swa", "rope.freq_base_swa", "rope.scaling.attn_factor"),
    *("rope.scaling.alpha", "rope.scaling.finetuned", "rope.scale_linear", "expert_weights_scale", "vocab_size"),
    *("rope.scaling.yarn_ext_factor", "rope.scaling.yarn_beta_fast", "expert_weights_norm", "expert_gating_func"),
    *(
        "attention.scale",
        "attention.clamp_kqv",
        "attention.max_alibi_bias",
        "tensor_data_layout",
        "leading_dense_block_count",
    ),
    *("expert_shared_count", "interleave_moe_layer_step", "final_logit_softcapping", "attn_logit_softcapping"),
    *("rope.dimension_sections", "attention.layer_norm_epsilon", "logit_scale", "embedding_scale", "residual_scale"),
    *("swiglu_clamp_exp", "attention.temperature_length", "attention.output_scale", "attention.relative_buckets_count"),
]
_TOKENIZER_KEYS = [
    *("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id", "seperator_token_id"),
    *("padding_token_id", "mask_token_id", "fim_pre_token_id", "fim_pad_token_id", "add_bos_token", "add_eos_token"),
    *("add_sep_token", "add_space_prefix", "token_type_count", "remove_extra_whitespaces", "scores", "suppress_tokens"),
    *("prefix_token_id", "normalizer.lowercase"),
]
_GENERAL_KEYS = [
    "general.file_type",
    "general.alignment",
    "general.quantization_version",
    "general.name",
    "general.type",
]
_SPLIT_KEYS = ["split.count", "split.no", "split.tensors.count"]

Mutation = Callable[[GgufEdit, random.Random], None]


def _scalar(draw: random.Random) -> tuple[int, bytes]:
    kind = draw.choice([U32, U32, U32, F32, BOOL, I32, U16, U64, STRING])
    if kind == F32:
        return kind, struct.pack("<f", draw.choice(_FLOATS))
    if kind == BOOL:
        return kind, bytes([draw.randrange(2)])
    if kind == STRING:
        return kind, text(draw.choice(["", "none", "yarn", "linear", "gpt2", "gpt-4o", "default", "x\0y"]))
    form = {U32: "<I", I32: "<i", U16: "<H", U64: "<Q"}[kind]
    bound = {U32: 1 << 32, I32: 1 << 31, U16: 1 << 16, U64: 1 << 63}[kind]
    return kind, struct.pack(form, draw.choice([value for value in _INTEGERS if value < bound]))


def _change_value(edit: GgufEdit, draw: random.Random) -> None:
    keys = [key for key, (kind, _) in edit.entries.items() if kind in (U32, F32)]
    key = draw.choice(keys)
    kind, _ = edit.entries[key]
    raw = struct.pack("<f", draw.choice(_FLOATS)) if kind == F32 else struct.pack("<I", draw.choice(_INTEGERS))
    edit.entries[key] = (kind, raw)


def _change_type(edit: GgufEdit, draw: random.Random) -> None:
    edit.entries[draw.choice(list(edit.entries))] = _scalar(draw)


def _add_key(edit: GgufEdit, draw: random.Random) -> None:
    names = [f"gpt-oss.{name}" for name in _MORE_KEYS] + [f"tokenizer.ggml.{name}" for name in _TOKENIZER_KEYS]
    edit.entries[draw.choice(names + _GENERAL_KEYS + _SPLIT_KEYS)] = _scalar(draw)


def _drop_key(edit: GgufEdit, draw: random.Random) -> None:
    edit.entries.pop(draw.choice(list(edit.entries)))


def _drop_tensor(edit: GgufEdit, draw: random.Random) -> None:
    edit.tensors.pop(draw.choice(list(edit.tensors)))


def _change_tensor(edit: GgufEdit, draw: random.Random) -> None:
    tensor = edit.tensors[draw.choice(list(edit.tensors))]
    match draw.randrange(4):
        case 0:
            tensor.kind = draw.randrange(44)
        case 1:
            draw.shuffle(tensor.shape)
        case 2:
            tensor.shape = [*tensor.shape, 1]
        case 3:
            tensor.shape[draw.randrange(len(tensor.shape))] = draw.choice(_INTEGERS)


def _swap_tensors(edit: GgufEdit, draw: random.Random) -> None:
    one, other = draw.sample(list(edit.tensors), 2)
    edit.tensors[one], edit.tensors[other] = edit.tensors[other], edit.tensors[one]


def _reorder(edit: GgufEdit, draw: random.Random) -> None:
    edit.tensors = dict(draw.sample(list(edit.tensors.items()), len(edit.tensors)))
    edit.entries = dict(draw.sample(list(edit.entries.items()), len(edit.entries)))


def _change_strings(edit: GgufEdit, draw: random.Random) -> None:
    key = draw.choice(["tokenizer.ggml.tokens", "tokenizer.ggml.merges"])
    if key in edit.entries and edit.entries[key][0] == 9:
        values = list_of(edit.entries[key][1])
        for _ in range(draw.randrange(1, 4)):
            noise = [
                b"",
                b" ",
                b"  ",
                b"a",
                b"<|end|>",
                b"\xff\xfe",
                b"\0",
                b"[EMPTY_3]",
                "\u4e2d".encode(),
                b"x" * 70_000,
            ]
            values[draw.randrange(len(values))] = draw.choice([*noise, draw.randbytes(3)])
        edit.entries[key] = (9, texts(values))


def _change_types(edit: GgufEdit, draw: random.Random) -> None:
    kind, raw = edit.entries.get("tokenizer.ggml.token_type", (0, b""))
    if kind == 9:
        at = 12 + 4 * draw.randrange((len(raw) - 12) // 4)
        edit.entries["tokenizer.ggml.token_type"] = (
            9,
            raw[:at] + struct.pack("<i", draw.randrange(-1, 9)) + raw[at + 4 :],
        )


def _change_weights(edit: GgufEdit, draw: random.Random) -> None:
    tensor = edit.tensors[draw.choice(list(edit.tensors))]
    raw = bytearray(tensor.data)
    for _ in range(draw.choice([1, 10, 1000])):
        raw[draw.randrange(len(raw))] = draw.choice([0, 0x7F, 0x80, 0xFF, draw.randrange(256)])
    tensor.data = bytes(raw)


_MUTATIONS: list[tuple[Mutation, int]] = [
    (_change_value, 8), (_change_type, 3), (_add_key, 5), (_drop_key, 2), (_drop_tensor, 1), (_change_tensor, 4),
    (_swap_tensors, 1), (_reorder, 1), (_change_strings, 3), (_change_types, 2), (_change_weights, 2),
]  # fmt: skip


def _flip(path: Path, draw: random.Random, header_bytes: int) -> None:
    raw = bytearray(path.read_bytes())
    for _ in range(draw.randrange(1, 4)):
        raw[draw.randrange(header_bytes)] ^= 1 << draw.randrange(8)
    path.write_bytes(raw[: draw.randrange(len(raw)) if draw.random() < 0.05 else len(raw)])


def mutants(bases: list[Path], folder: Path, draw: random.Random) -> Iterator[tuple[Path, str]]:
    """Mutated files without end, each with the names of what was done to it; a file is gone when the next one comes."""
    functions, weights = zip(*_MUTATIONS, strict=True)
    while True:
        base = draw.choice(bases)
        edit = GgufEdit.of(base)
        chosen = draw.choices(functions, weights, k=draw.choice([1, 1, 1, 2, 3]))
        for mutation in chosen:
            mutation(edit, draw)
        path = edit.write(folder / "mutant.gguf")
        done = [mutation.__name__ for mutation in chosen]
        if draw.random() < 0.25:
            _flip(path, draw, len(edit.header()))
            done.append("_flip")
        yield path, f"{base.stem}: {' '.join(done)}"


_CHILD = """
import ctypes, sys
import llama_cpp as L

@L.llama_log_callback
def quiet(level, text, data): pass

L.llama_log_set(quiet, None)
L.llama_backend_init()

def run(path):
    params = L.llama_model_default_params()
    params.use_extra_bufts = False  # as ossia on a processor with AMX (agent/models/needs.py)
    model = L.llama_model_load_from_file(path.encode(), params)
    if not model:
        return "refused"
    settings = L.llama_context_default_params()
    settings.n_ctx, settings.n_threads, settings.n_threads_batch = 512, 1, 1
    settings.n_batch = settings.n_ubatch = 128
    context = L.llama_init_from_model(model, settings)
    if not context:
        L.llama_model_free(model)
        return "no context"
    done = "ran"
    for ids in ([1, 2, 3, 4, 5, 6, 7, 8] * 16, [9], [10]):
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        if L.llama_decode(context, L.llama_batch_get_one(tokens, len(ids))):
            done = "decode failed"
    L.llama_free(context)
    L.llama_model_free(model)
    return done

for line in sys.stdin:
    print("=> " + run(line.rstrip("\\n")), flush=True)
"""


class _Llama:
    """llama.cpp in a process of its own, started anew after each death."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, path: Path) -> str:
        if self._process is None:
            command = [sys.executable, "-c", _CHILD]
            without_debugger = os.environ | {"GGML_NO_BACKTRACE": "1"}  # else abort() runs gdb on the process
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self._process = subprocess.Popen(command, text=True, env=without_debugger, **pipes)
        process = self._process
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        if answer.startswith("=> "):
            return answer.removeprefix("=> ")
        last = [line for line in process.stderr.read().splitlines() if "GGML_" in line or "Assert" in line]
        self.close()
        where = last[0].rsplit("/", 1)[-1] if last else ""
        return f"DIED {process.returncode} {where}"

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


def search(count: int, seed: int, folder: Path) -> int:
    """How many of `count` mutated files that passed our check ended the process; says which, and the sums."""
    bases = [ETUDE_PATH, write_toy_gguf(folder / "toy.gguf"), write_toy_gguf(folder / "f32.gguf", quantized=False)]
    bases.append(write_toy_gguf(folder / "wide.gguf", embd=256, heads=8, experts=8))
    draw, llama = random.Random(seed), _Llama()
    outcomes: Counter[str] = Counter()
    refused, deaths = 0, 0
    for path, what in mutants(bases, folder, draw):
        if outcomes.total() >= count:
            break
        try:
            open_model(path).vocabulary()
        except ModelError:
            refused += 1
            continue
        outcome = llama.run(path)
        outcomes[outcome.split(" ")[0] if outcome.startswith("DIED") else outcome] += 1
        if outcome.startswith("DIED"):
            deaths += 1
            kept = Path(tempfile.gettempdir()) / f"gguf-fuzz-{seed}-{deaths}.gguf"
            shutil.copy(path, kept)
            print(f"{outcome}\n  {what}\n  kept as {kept}", flush=True)
    llama.close()
    print(f"{refused} refused by our check; of {outcomes.total()} that passed: {dict(outcomes)}")
    return deaths


def _show_known(folder: Path) -> int:
    base, llama = ETUDE_PATH, _Llama()
    for name, change in KNOWN.items():
        edit = GgufEdit.of(base)
        change(edit)
        path = edit.write(folder / "known.gguf")
        try:
            open_model(path).vocabulary()
            ours = "passed"
        except ModelError as error:
            ours = str(error).removeprefix(str(path))
        print(f"{name}: llama.cpp: {llama.run(path)} | ours{ours if ours[0] == ':' else ' ' + ours}", flush=True)
    llama.close()
    return 0


def _set(key: str, kind: int, raw: bytes) -> Callable[[GgufEdit], None]:
    return lambda edit: edit.entries.__setitem__(key, (kind, raw))


def _drop(key: str) -> Callable[[GgufEdit], None]:
    return lambda edit: edit.entries.__delitem__(key)


def _u32(value: int) -> bytes:
    return struct.pack("<I", value)


def _twice(edit: GgufEdit) -> None:
    values = list_of(edit.entries["tokenizer.ggml.tokens"][1])
    edit.entries["tokenizer.ggml.tokens"] = (9, texts([values[1], *values[1:]]))


KNOWN: dict[str, Callable[[GgufEdit], None]] = {
    "no expert_count": _drop("gpt-oss.expert_count"),
    "no expert_used_count": _drop("gpt-oss.expert_used_count"),
    "expert_used_count > expert_count": _set("gpt-oss.expert_used_count", U32, _u32(9)),
    "expert_used_count 0": _set("gpt-oss.expert_used_count", U32, _u32(0)),
    "block_count 0": _set("gpt-oss.block_count", U32, _u32(0)),
    "block_count 513": _set("gpt-oss.block_count", U32, _u32(513)),
    "head_count 0": _set("gpt-oss.attention.head_count", U32, _u32(0)),
    "head_count_kv 0": _set("gpt-oss.attention.head_count_kv", U32, _u32(0)),
    "head_count_kv 3": _set("gpt-oss.attention.head_count_kv", U32, _u32(3)),
    "context_length 0": _set("gpt-oss.context_length", U32, _u32(0)),
    "sliding_window 0": _set("gpt-oss.attention.sliding_window", U32, _u32(0)),
    "sliding_window_pattern 0": _set("gpt-oss.attention.sliding_window_pattern", U32, _u32(0)),
    "sliding_window_pattern 1": _set("gpt-oss.attention.sliding_window_pattern", U32, _u32(1)),
    "rope.dimension_count 33": _set("gpt-oss.rope.dimension_count", U32, _u32(33)),
    "rope.scaling.type 'x'": _set("gpt-oss.rope.scaling.type", STRING, text("x")),
    "pooling_type 1": _set("gpt-oss.pooling_type", U32, _u32(1)),
    "attention.causal false": _set("gpt-oss.attention.causal", BOOL, b"\0"),
    "expert_group_count 3": _set("gpt-oss.expert_group_count", U32, _u32(3)),
    "nextn_predict_layers 4": _set("gpt-oss.nextn_predict_layers", U32, _u32(4)),
    "nextn_predict_layers 9": _set("gpt-oss.nextn_predict_layers", U32, _u32(9)),
    "embedding_length_out 64": _set("gpt-oss.embedding_length_out", U32, _u32(64)),
    "negative epsilon": _set("gpt-oss.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", -1.0)),
    "a token twice": _twice,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        sys.exit(_show_known(place) if options.known else min(1, search(options.files, options.seed, place)))
