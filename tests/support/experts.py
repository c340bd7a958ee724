"""Which experts a model chooses for each id of a prompt, seen through llama.cpp's evaluation callback."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
from llama_cpp._ggml import libggml
from numpy.typing import NDArray


class _TensorHead(ctypes.Structure):
    """How a `ggml_tensor` begins (ggml.h)."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("sizes", ctypes.c_int64 * 4),
        ("strides", ctypes.c_size_t * 4),
    ]


def chosen_experts(path: Path, ids: Sequence[int], *, layers: int) -> NDArray[np.int32]:
    """The experts of each layer for each of `ids`: (layers, ids, experts used) int32. At most 512 ids."""
    chosen: dict[int, NDArray[np.int32]] = {}

    @lib.ggml_backend_sched_eval_callback  # type: ignore[untyped-decorator]
    def look(tensor: int, ask: bool, _data: object) -> bool:
        layer = re.fullmatch(rb"ffn_moe_topk-(\d+)", _name(tensor))
        if layer and not ask:
            chosen[int(layer[1])] = _rows(tensor)
        return bool(layer) or not ask

    params = lib.llama_model_default_params()
    params.use_extra_bufts = False  # see agent/models/needs.py about AMX
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    options = lib.llama_context_default_params()
    options.n_ctx, options.n_threads, options.n_threads_batch, options.cb_eval = 512, 1, 1, look
    context = lib.llama_init_from_model(model, options)
    array = (ctypes.c_int32 * len(ids))(*ids)
    assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(ids))) == 0
    lib.llama_free(context)
    lib.llama_model_free(model)
    return np.stack([chosen[layer] for layer in range(layers)])


def _name(tensor: int) -> bytes:
    get_name = libggml.ggml_get_name
    get_name.argtypes, get_name.restype = [ctypes.c_void_p], ctypes.c_char_p
    name: bytes = get_name(tensor)
    return name


def _rows(tensor: int) -> NDArray[np.int32]:
    head = _TensorHead.from_address(tensor)
    width, rows, stride = head.sizes[0], head.sizes[1], head.strides[1]
    read: Any = libggml.ggml_backend_tensor_get
    read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    out = np.empty((rows, width), np.int32)
    for row in range(rows):  # a view into what was sorted: its rows lie apart
        read(tensor, out[row].ctypes.data, row * stride, width * out.itemsize)
    return out
