"""Writes THIRD_PARTY.md from the metadata of what is installed: `python -m tests.third_party`.

The page is about what a user gets: run-time dependencies, no extras, no test tools. What the dependencies bring along
changes with their releases, so a test holds only the direct ones to the page, and all of them to the rule against GPL.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.command import ROOT

PAGE = ROOT / "THIRD_PARTY.md"

_TEXT = """\
# Third party

`ossia` itself is under the Apache License 2.0 (`LICENSE`).

## Texts

The descriptions of `python` and `browser`, the system prompt's lines, and the way function schemas are written as
TypeScript are what gpt-oss was trained on. `harmony/` has them character for character as OpenAI's
[harmony](https://github.com/openai/harmony) writes them. They are by OpenAI, under the Apache License 2.0 (the same
text as in `LICENSE`). The code around them is our own, and so are the descriptions of `container` and `repo_browser`.

## Model

`agent/models/etude.gguf` was trained for this project, on synthetic dialogues; it contains nobody else's weights.
gpt-oss-20b and gpt-oss-120b are not part of this package: OpenAI publishes them under the Apache License 2.0.

## Packages

These packages are installed beside `ossia`, each from its own distribution. llama-cpp-python compiles
[llama.cpp](https://github.com/ggml-org/llama.cpp) (MIT), whose source it carries. Some wheels carry further libraries:

- numpy: OpenBLAS (BSD-3-Clause), GCC's libgfortran (GPL-3.0 with the GCC run-time exception) and libquadmath (LGPL-2.1)
- pyzmq: libzmq (MPL-2.0) and libsodium (ISC)
- lxml: libxml2 and libxslt (MIT), zlib (Zlib), GNU libiconv (LGPL-2.1)
- pypdfium2: PDFium (BSD-3-Clause and Apache-2.0) with its own parts, which the wheel lists (FreeType, ICU,
  libjpeg-turbo, OpenJPEG, LittleCMS, …)

This page is generated (`python -m tests.third_party`, on Linux). What `ossia` depends on:

{direct}

What those depend on:

{brought}
"""


def dependencies() -> Mapping[str, importlib.metadata.Distribution]:
    """Every distribution that running `ossia` needs in this environment, by canonical name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(_required("ossia"))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = importlib.metadata.distribution(name)
            waiting.extend(_required(name))
    return found


def direct() -> frozenset[str]:
    """The names in our own `project.dependencies` that hold on this platform."""
    return frozenset(_required("ossia"))


def _required(name: str) -> Iterator[str]:
    for line in importlib.metadata.requires(name) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def licence(distribution: importlib.metadata.Distribution) -> str:
    """The licence as the package declares it: its SPDX expression, else its classifiers, else the field's first line.

    "" when it declares none.
    """
    metadata = distribution.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = [line for line in metadata.get_all("Classifier", ()) if line.startswith("License ::")]
    if classifiers:
        return ", ".join(line.split(" :: ")[-1] for line in classifiers)
    return next(iter(metadata["License"].splitlines()), "") if "License" in metadata else ""


def is_copyleft(text: str) -> bool:
    """True for the GPL and its relatives (AGPL, LGPL), unless it is GCC's run-time library with its exception."""
    text = re.sub(r"\S*GPL\S* WITH GCC-exception\S*", "", text)
    return "GPL" in text or "General Public" in text


def page() -> str:
    """THIRD_PARTY.md as it should be."""
    found, asked_for = dependencies(), direct()
    return _TEXT.format(
        direct=_table({name: found[name] for name in sorted(asked_for)}),
        brought=_table({name: found[name] for name in sorted(found.keys() - asked_for)}),
    )


def row(name: str, distribution: importlib.metadata.Distribution) -> str:
    """One line of a table: `| rich | MIT License |`."""
    return f"| {name} | {licence(distribution)} |"


def _table(rows: Mapping[str, importlib.metadata.Distribution]) -> str:
    return "\n".join(["| package | licence, as it declares it |", "|---|---|", *(row(*item) for item in rows.items())])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
