"""Does llama.cpp compute what training computed? `python -m tests.etude.parity OUT.pt etude.gguf [--dialogues N]`.

Logits at every position that is learnt, of unseen dialogues, by torch with experts rounded to MXFP4 and by llama.cpp.
They differ a little: ggml rounds activations as well, and then the choice of experts can flip.
"""

from __future__ import annotations

import argparse
import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

import llama_cpp.llama_cpp as lib
import numpy as np
import torch

from tests.etude import tokenizer
from tests.etude.dialogues import make_dialogue
from tests.etude.exam.figures import sha256_of
from tests.etude.export import Array, read_checkpoint
from tests.etude.lessons import sheet_of
from tests.etude.network import Weights, logits, prepared
from tests.etude.prompts import make_prefix
from tests.etude.shape import Shape
from tests.etude.words.values import Values


class Model:
    """llama.cpp's side: the logits of every position, which nothing else here asks of it."""

    def __init__(self, path: Path, context: int = 4096) -> None:
        params = lib.llama_model_default_params()
        params.use_extra_bufts = False  # see agent/models/needs.py: AMX there ends the process
        self._model = lib.llama_model_load_from_file(os.fsencode(path), params)
        settings = lib.llama_context_default_params()
        settings.n_ctx = settings.n_batch = settings.n_ubatch = context
        settings.n_threads = settings.n_threads_batch = 1
        self._context = lib.llama_init_from_model(self._model, settings)
        self._vocabulary = lib.llama_model_get_vocab(self._model)

    def tokenize(self, text: str) -> list[int]:
        content = text.encode()
        ids = (lib.llama_token * len(content))()
        count = lib.llama_tokenize(self._vocabulary, content, len(content), ids, len(ids), False, True)
        return list(ids[:count])

    def logits(self, ids: Sequence[int]) -> Array:
        """[ids, vocabulary]"""
        lib.llama_memory_clear(lib.llama_get_memory(self._context), True)
        batch = lib.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for place, number in enumerate(ids):
            batch.token[place], batch.pos[place], batch.logits[place] = number, place, 1
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, 0
        if lib.llama_decode(self._context, batch):
            raise RuntimeError("llama_decode failed")
        lib.llama_batch_free(batch)
        found = lib.llama_get_logits(self._context)
        size = lib.llama_vocab_n_tokens(self._vocabulary)
        return np.ctypeslib.as_array(ctypes.cast(found, ctypes.POINTER(ctypes.c_float)), (len(ids), size)).copy()


@torch.no_grad()
def compared(weights: Weights, shape: Shape, model: Model, values: Values) -> tuple[Array, Array]:
    """[positions, vocabulary] by torch and by llama.cpp, for one more dialogue. Raises ValueError if ids differ."""
    prefix = make_prefix(values)
    dialogue = make_dialogue(values, prefix)
    sheet = sheet_of(prefix, [dialogue])
    parts = tokenizer.load().encode_batch([prefix.text, *(text for text, _ in dialogue.segments)])
    ids = [number for part in parts for number in part.ids]
    text = prefix.text + "".join(text for text, _ in dialogue.segments)
    if model.tokenize(text) != ids:
        raise ValueError(f"llama.cpp splits this otherwise than training does: {text[-400:]!r}")
    real = sheet.owners >= 0
    places = sheet.positions[sheet.predicted[real]].numpy()
    return logits(weights, shape, sheet)[real].numpy(), model.logits(ids[:-1])[places]


def main() -> None:
    """Print how far the two are apart."""
    parser = argparse.ArgumentParser(prog="python -m tests.etude.parity", description="Compare torch and llama.cpp.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--dialogues", type=int, default=12)
    arguments = parser.parse_args()
    arrays, shape, _ = read_checkpoint(arguments.checkpoint)
    exact = {name: torch.from_numpy(value) for name, value in arrays.items()}
    weights = prepared(exact, dtype=torch.float32)
    model, values = Model(arguments.gguf), Values(4711, "values")
    pairs = [compared(weights, shape, model, values) for _ in range(arguments.dialogues)]
    ours, theirs = (np.concatenate(part) for part in zip(*pairs, strict=True))
    apart = np.abs(ours - theirs)
    alike = (ours.argmax(1) == theirs.argmax(1)).mean()
    print(f"{len(ours)} positions of {len(pairs)} dialogues: the same token at {alike:.2%};", end=" ")
    print(f"logits (of spread {ours.std():.2f}) apart by {apart.mean():.3f} on average, {apart.max():.2f} at most")
    print(f"of sha256 {sha256_of(arguments.gguf)}")


if __name__ == "__main__":
    main()
