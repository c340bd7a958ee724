"""The header reader: equal to the gguf package on good files, bounded and one line on bad ones."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ossia.agent.errors import ModelError, ModelNotFound, ModelUnusable
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.gguf import MAX_ALL_STRINGS, MAX_STRINGS, read_header
from ossia.agent.models.gguf_parts import BLOCKS, GgufHeader, StringArray
from tests.support.gguf_edit import ARRAY, STRING, U32, GgufEdit, text, texts


def _plain(header: GgufHeader) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, entry in header.metadata.items():
        value = entry.value
        if isinstance(value, StringArray):
            value = value.texts()
        values[key] = value.tolist() if isinstance(value, np.ndarray) else value
    return values


@pytest.mark.parametrize("which", ["etude", "toy"])
def test_equal_to_the_gguf_package(which: str, toy: Path) -> None:
    path = ETUDE_PATH if which == "etude" else toy
    theirs, ours = gguf.GGUFReader(path), read_header(path)
    fields = {name: field.contents() for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    assert _plain(ours) == fields
    assert [(one.name, one.kind, one.shape, one.bytes) for one in ours.tensors.values()] == [
        (one.name, one.tensor_type.name, tuple(one.shape.tolist()), one.n_bytes) for one in theirs.tensors
    ]
    assert [ours.data_offset + one.offset for one in ours.tensors.values()] == [
        one.data_offset for one in theirs.tensors
    ]
    assert (ours.version, ours.file_bytes, ours.path) == (3, path.stat().st_size, path)


def test_the_tensor_types_are_those_of_the_gguf_package() -> None:
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert dict(BLOCKS) == theirs


def test_every_kind_of_metadata(tmp_path: Path) -> None:
    edit = GgufEdit()
    scalars = {0: ("<B", 7), 1: ("<b", -7), 2: ("<H", 300), 3: ("<h", -300), 4: ("<I", 70_000), 5: ("<i", -70_000)}
    scalars |= {10: ("<Q", 1 << 40), 11: ("<q", -1 << 40), 12: ("<d", 0.1)}
    for kind, (form, value) in scalars.items():
        edit.entries[f"one.{kind}"] = (kind, struct.pack(form, value))
        edit.entries[f"many.{kind}"] = (ARRAY, struct.pack("<IQ", kind, 2) + 2 * struct.pack(form, value))
    edit.entries["yes"] = (7, b"\1")
    edit.entries["text"] = (STRING, text("é\0\n"))
    edit.entries["texts"] = (ARRAY, texts([b"a", b"bc" * 200, b"\xff"]))
    edit.entries["empty"] = (ARRAY, texts([]))
    read = read_header(edit.write(tmp_path / "x.gguf"))
    for kind, (_, value) in scalars.items():
        many = read.metadata[f"many.{kind}"].value
        assert isinstance(many, np.ndarray)
        assert (read.metadata[f"one.{kind}"].value, many.tolist()) == (value, [value, value])
    assert read.metadata["yes"].value is True
    assert read.metadata["text"].value == "é\0\n"
    assert list(read.metadata["texts"].value) == [b"a", b"bc" * 200, b"\xff"]  # type: ignore[arg-type]
    assert read.metadata["texts"].kind == "str[]"
    assert list(read.metadata["empty"].value) == []  # type: ignore[arg-type]


@given(
    st.lists(
        st.binary(max_size=300) | st.sampled_from([b"", b"\0", b"a" * 255, b"a" * 256, b"b" * 70_000]), max_size=40
    )
)
@example([b"", b"", b"x"])
@example([b"x" * 256, b"y"])
@example([b"a\0\0\0\0\0\0\0b", b"c"])
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_string_arrays_of_any_content(tmp_path: Path, values: list[bytes]) -> None:
    edit = GgufEdit(entries={"a": (ARRAY, texts(values)), "b": (U32, struct.pack("<I", 5))})
    read = read_header(edit.write(tmp_path / "strings.gguf"))
    strings = read.metadata["a"].value
    assert isinstance(strings, StringArray)
    assert list(strings) == values
    assert strings[: len(values)] == values
    assert read.metadata["b"].value == 5
    try:
        expected = [value.decode() for value in values]
    except UnicodeDecodeError:
        expected = ["\0"]
    if any("\0" in value for value in expected):
        with pytest.raises(ValueError, match=r"zero byte|codec can't decode"):
            strings.texts()
    else:
        assert strings.texts() == expected


def test_a_header_larger_than_the_first_read(tmp_path: Path) -> None:
    big = "x" * (17 << 20)
    edit = GgufEdit(entries={"a": (STRING, text(big)), "b": (U32, struct.pack("<I", 5))})
    read = read_header(edit.write(tmp_path / "big.gguf"))
    assert read.metadata["a"].value == big
    assert read.metadata["b"].value == 5


def _raw(*parts: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "bad.gguf").write_bytes(b"".join(parts))
        return folder / "bad.gguf"

    return write


def _u32(value: int) -> bytes:
    return struct.pack("<I", value)


def _u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def _start(tensors: int = 0, entries: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + _u32(version) + _u64(tensors) + _u64(entries)


def _directory(folder: Path) -> Path:
    return folder


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


_TENSOR = text("t") + _u32(1) + _u64(32) + _u32(0)
_LONG = ((0, MAX_STRINGS), (1, MAX_STRINGS), (2, 1))
_BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a directory": (_directory, "is a directory, not a GGUF file; name a gpt-oss model in GGUF format"),
    "a named pipe": (_pipe, "is not a regular file"),
    "empty": (_raw(), "is empty; download it again"),
    "a text": (_raw(b"hello world"), "not a GGUF file (it begins with b'hell')"),
    "three bytes": (_raw(b"GGU"), "not a GGUF file (it begins with b'GGU')"),
    "cut in the version": (
        _raw(b"GGUF\3"),
        "cut off in its header (at byte 4 it announces 4 more bytes, the file has 5)",
    ),
    "big-endian": (_raw(b"GGUF\0\0\0\3", bytes(16)), "is a big-endian GGUF"),
    "version 1": (_raw(_start(version=1)), "the GGUF version must be 2 or 3, not 1"),
    "version 4": (_raw(_start(version=4)), "the GGUF version must be 2 or 3, not 4"),
    "a lying entry count": (_raw(_start(entries=1 << 60)), "claims 1152921504606846976 metadata entries"),
    "a lying tensor count": (_raw(_start(tensors=1 << 60)), "claims 1152921504606846976 tensors"),
    "a cut entry": (_raw(_start(entries=1), text("k")), "cut off in its header"),
    "a lying key length": (
        _raw(_start(entries=1), _u64(1 << 62), bytes(99)),
        "announces 4611686018427387904 more bytes",
    ),
    "a lying text length": (_raw(_start(entries=1), text("k"), _u32(8), _u64(1 << 40)), "cut off in its header"),
    "a lying string count": (
        _raw(_start(entries=1), text("k"), _u32(9), _u32(8), _u64(1 << 40)),
        f"'k' claims 1099511627776 texts, more than {MAX_STRINGS}",
    ),
    "too many texts in all": (
        _raw(
            _start(entries=3),
            *(text(f"k{at}") + _u32(9) + struct.pack("<IQ", STRING, n) + text("x") * n for at, n in _LONG),
        ),
        f"its arrays have more than {MAX_ALL_STRINGS} texts",
    ),
    "empty texts only": (
        _raw(_start(entries=1), text("k"), _u32(9), struct.pack("<IQ", STRING, 100_000), text("") * 100_000),
        "'k' has 100000 texts, and some of them are empty, far too long or hold zeros",
    ),
    "a lying array count": (
        _raw(_start(entries=1), text("k"), _u32(9), _u32(4), _u64(1 << 62)),
        "cut off in its header",
    ),
    "a nested array": (_raw(_start(entries=1), text("k"), _u32(9), _u32(9), _u64(1)), "an array of the unknown type 9"),
    "an unknown type": (_raw(_start(entries=1), text("k"), _u32(13)), "'k' has the unknown type 13"),
    "a key twice": (_raw(_start(entries=2), 2 * (text("k") + _u32(0) + b"\1")), "the metadata key 'k' comes twice"),
    "an empty key": (_raw(_start(entries=1), text("") + _u32(0) + b"\1"), "a metadata key is named b''"),
    "a key with a zero byte": (_raw(_start(entries=1), text("k\0") + _u32(0) + b"\1"), r"is named b'k\x00'"),
    "an odd alignment": (
        _raw(_start(entries=1), text("general.alignment"), _u32(4), _u32(33)),
        "general.alignment must be a power of two, not 33",
    ),
    "an alignment of 0": (_raw(_start(entries=1), text("general.alignment"), _u32(4), _u32(0)), "power of two, not 0"),
    "an alignment that is a text": (
        _raw(_start(entries=1), text("general.alignment"), _u32(8), text("32")),
        "must be a power of two, not '32'",
    ),
    "a long tensor name": (_raw(_start(tensors=1), text("t" * 64), bytes(64)), "a tensor has 64 bytes, more than 63"),
    "five dimensions": (_raw(_start(tensors=1), text("t"), _u32(5), bytes(99)), "'t' has 5 dimensions"),
    "an empty tensor": (_raw(_start(tensors=1), text("t"), _u32(1), _u64(0), _u32(0), _u64(0)), "impossible shape [0]"),
    "a huge tensor": (
        _raw(_start(tensors=1), text("t"), _u32(2), _u64(1 << 40), _u64(1 << 40), _u32(0), _u64(0)),
        "impossible shape [1099511627776, 1099511627776] for F32",
    ),
    "half a block": (
        _raw(_start(tensors=1), text("t"), _u32(1), _u64(48), _u32(39), _u64(0)),
        "impossible shape [48] for MXFP4",
    ),
    "an unknown tensor type": (
        _raw(_start(tensors=1), text("t"), _u32(1), _u64(32), _u32(4), _u64(0)),
        "'t' has the unknown type 4",
    ),
    "a wrong offset": (
        _raw(_start(tensors=1), _TENSOR, _u64(32), bytes(999)),
        "'t' should begin at byte 0 of the data, not 32",
    ),
    "a tensor twice": (
        _raw(_start(tensors=2), _TENSOR, _u64(0), _TENSOR, _u64(128), bytes(999)),
        "the tensor 't' comes twice",
    ),
    "cut in the tensors": (
        _raw(_start(tensors=1), _TENSOR, _u64(0), bytes(100)),
        "cut off in its tensors (t ends at byte 192, the file has 157); download it again (ossia models pull NAME",
    ),
}


@pytest.mark.parametrize("case", _BAD)
def test_a_bad_file_is_one_line_that_names_it(case: str, tmp_path: Path) -> None:
    write, message = _BAD[case]
    path = write(tmp_path)
    with pytest.raises(ModelUnusable) as failure:
        read_header(path)
    said = str(failure.value)
    assert said.startswith(f"{path}: ")
    assert message in said
    assert "; " in said, "the next step"
    assert "\n" not in said


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(
        ModelNotFound, match=r"none\.gguf: no such file; name a gpt-oss model in GGUF format, or get one"
    ):
        read_header(tmp_path / "none.gguf")


@pytest.mark.parametrize("name", ["x\0y", "x" * 5000])
def test_a_name_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match="can't be read"):
        read_header(tmp_path / name)


_AS_PLAIN_USER = """
import os, sys
from pathlib import Path
from ossia.agent.errors import ModelUnusable
from ossia.agent.models.gguf import read_header
if os.geteuid() == 0:  # what is imported is imported: the interpreter itself need not be readable for nobody
    os.setgroups([])
    os.setegid(65534)
    os.seteuid(65534)
try:
    print(read_header(Path(sys.argv[1])).version)
except ModelUnusable as error:
    print(error)
"""


def _run(script: str, path: Path, *, memory_bytes: int | None = None) -> str:
    def bound() -> None:
        import resource

        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, str(path)]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=60, preexec_fn=bound, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_permission_as_a_plain_user() -> None:
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    try:
        folder.chmod(0o755)
        path = folder / "secret.gguf"
        shutil.copy(ETUDE_PATH, path)
        path.chmod(0o644)
        assert _run(_AS_PLAIN_USER, path) == "3\n"
        path.chmod(0)
        said = _run(_AS_PLAIN_USER, path)
        assert said == f"{path}: no permission to read it; change that, or name another file\n"
        folder.chmod(0)
        assert "no permission to read it" in _run(_AS_PLAIN_USER, path)
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


# --- whatever is in the file: one kind of error, little memory, little time ---


def _damaged(raw: bytes, header_bytes: int, draw: random.Random) -> bytes:
    damaged = bytearray(raw)
    for _ in range(draw.choice([1, 1, 2, 8])):
        at = draw.randrange(header_bytes)
        match draw.randrange(4):
            case 0:
                damaged[at] ^= 1 << draw.randrange(8)
            case 1:
                damaged[at] = draw.randrange(256)
            case 2:
                damaged[at : at + 8] = draw.choice([b"\xff" * 8, bytes(8), _u64(1 << 31), _u64(1 << 20), _u64(1 << 62)])
            case 3:
                damaged = damaged[: draw.randrange(len(damaged))]
                header_bytes = min(header_bytes, max(1, len(damaged)))
    return bytes(damaged)


@pytest.mark.parametrize("which", ["etude", "toy"])
def test_damaged_headers_raise_nothing_else(which: str, toy: Path, tmp_path: Path) -> None:
    from ossia.agent.models.model import open_model

    source = ETUDE_PATH if which == "etude" else toy
    raw, header_bytes = source.read_bytes(), read_header(source).data_offset
    draw, path = random.Random(1), tmp_path / "damaged.gguf"
    refused = 0
    for _ in range(200):
        path.write_bytes(_damaged(raw, header_bytes, draw))
        try:
            open_model(path).vocabulary()
        except ModelError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 50


@pytest.mark.parametrize("claim", [1 << 20, 1 << 31, 1 << 62])
def test_a_lying_header_takes_no_memory(claim: int, tmp_path: Path) -> None:
    path = tmp_path / "lying.gguf"
    many = [
        _start(entries=1) + text("k") + _u32(9) + _u32(8) + _u64(claim) + bytes(64),
        _start(entries=1) + text("k") + _u32(9) + _u32(4) + _u64(claim) + bytes(64),
        _start(entries=1) + text("k") + _u32(8) + _u64(claim) + bytes(64),
        _start(tensors=1) + text("t") + _u32(1) + _u64(claim) + _u32(0) + _u64(0) + bytes(64),
    ]
    for raw in many:
        path.write_bytes(raw)
        tracemalloc.start()
        with pytest.raises(ModelUnusable):
            read_header(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20


def test_a_sparse_giant_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse.gguf"
    path.write_bytes(_start(entries=1) + text("k") + _u32(8) + _u64(1 << 34))
    os.truncate(path, 64 << 30)
    said = _run(_AS_PLAIN_USER.replace("os.geteuid() == 0", "False"), path, memory_bytes=1 << 30)
    assert "its header is larger than 64 MiB" in said


def test_many_small_arrays_cost_no_scan_of_the_rest_each(tmp_path: Path) -> None:
    """A header made to hang the reader: 4,000 arrays of one string before 14 MB of numbers. It took 40 s once."""
    path = tmp_path / "many.gguf"
    writer = gguf.GGUFWriter(path, "gpt-oss")
    for n in range(4000):
        writer.add_array(f"a{n}", ["x" * 30])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    head = bytearray(path.read_bytes())
    count = struct.unpack_from("<Q", head, 16)[0]
    struct.pack_into("<Q", head, 16, count + 1)
    head += struct.pack("<Q4sIIQ", 4, b"long", 9, 0, 14_000_000) + bytes(14_000_000)
    path.write_bytes(head)
    code = "import sys, pathlib, ossia.agent.models.gguf as g; g.read_header(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=20, cwd=Path(__file__).parents[3])
