"""The models that have a name: the built-in étude, and OpenAI's two with the place to get them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ETUDE: Final = "etude"
ETUDE_PATH: Final = Path(__file__).with_name("etude.gguf")


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model to download: its files are those of `repo` (on the Hugging Face hub) whose name matches `files`, a regex.

    `download_bytes` is the approximate size, for people; the hub's own numbers are what counts. `folder`: where the
    files go below the folder of models; "": there itself.
    """

    name: str
    repo: str
    files: str
    download_bytes: int
    folder: str = ""


DOWNLOADS: Final = (
    CatalogModel(
        "gpt-oss-20b", "ggml-org/gpt-oss-20b-GGUF", r"gpt-oss-20b-mxfp4(-\d{5}-of-\d{5})?\.gguf", 12_100_000_000
    ),
    CatalogModel(
        "gpt-oss-120b", "ggml-org/gpt-oss-120b-GGUF", r"gpt-oss-120b-mxfp4(-\d{5}-of-\d{5})?\.gguf", 63_400_000_000
    ),
)
"""In the order in which they are taken when no model is named."""

NAMES: Final = (ETUDE, *(model.name for model in DOWNLOADS))

_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})$")
# What may follow the size in the name of an unaltered conversion; with anything else it is another model. In front of
# the name there may only be its maker (`openai_`, llama.cpp's `ggml-org_gpt-oss-20b-GGUF_`).
_VARIANT = r"(?:[-._](?:mxfp4|moe|bf16|f16|f32|ud|i?q\d|[0-9]|k|nl|x*s|m|x?l|gguf))*"
_BESIDE = r"(?!(?:mmproj|draft|eagle\d*|lora|dflash)[-_.])"  # files that go with a model
_OFFICIAL = re.compile(rf"^{_BESIDE}(?:.*[_.])?gpt-oss-(20b|120b){_VARIANT}$", re.IGNORECASE)


def download_of(name: str) -> CatalogModel | None:
    """The catalogue's entry for `name`, e.g. `"gpt-oss-20b"`. None: no such download."""
    return next((model for model in DOWNLOADS if model.name == name), None)


def name_of(path: Path) -> str:
    """The user's name for the model in this file: a name of the catalogue, else the stem without its part number.

        name_of(Path("ggml-org_gpt-oss-20b-GGUF_gpt-oss-20b-mxfp4.gguf"))    # "gpt-oss-20b"
        name_of(Path("gpt-oss-120b-mxfp4-00001-of-00003.gguf"))              # "gpt-oss-120b"
        name_of(Path("gpt-oss-20b-abliterated.gguf"))                        # "gpt-oss-20b-abliterated"
    """
    if path == ETUDE_PATH:
        return ETUDE
    stem = stem_of(path.name)
    official = _OFFICIAL.search(stem)
    return f"gpt-oss-{official[1].lower()}" if official else stem


def stem_of(name: str) -> str:
    """A file's name without `.gguf` and its part's number: `"x"` for `"x-00001-of-00003.gguf"`."""
    return _SPLIT.sub("", name.removesuffix(".gguf"))


def goes_with_a_model(name: str) -> bool:
    """True for an addition to a model, not a model itself: `"mmproj-x.gguf"`."""
    return re.match(_BESIDE, name, re.IGNORECASE) is None


def part_of(path: Path) -> tuple[int, int] | None:
    """This part's number in a split model, and how many parts there are: `(1, 3)`; None: the name isn't a part's."""
    match = _SPLIT.search(path.name.removesuffix(".gguf"))
    return (int(match[1]), int(match[2])) if match else None


def part_path(path: Path, part: int, parts: int) -> Path:
    """The path of another part: `part_path(Path("x-00001-of-00003.gguf"), 2, 3)` is `x-00002-of-00003.gguf`."""
    return path.with_name(f"{stem_of(path.name)}-{part:05d}-of-{parts:05d}.gguf")
