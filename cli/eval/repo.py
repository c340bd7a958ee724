"""The suite `repo`: small repositories, made by a script from a seed, each with a job that hidden tests judge.

A job's texts are a file in `jobs/`: the prompt, then the files that it is about, each below a line `%%% PATH`. With
`before` or `after` in front of it, that is the file as it is, or as a right solution leaves it; one that is in one of
the two only is deleted or made. `hidden` is the test that judges, `crlf` a file with line ends of Windows. All are
templates:
`$pkg` is the package, `$noun` and `$Noun` a thing, `$n` a number. `modules.txt` has modules that no job is about.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from string import Template

from ossia.cli.eval.task import Call, Task
from ossia.cli.eval.workbench import RUNNER

_JOBS = ("pages", "import", "slow", "conflict", "errors", "quotes", "rename", "flag", "crlf", "field", "setting",
         "test", "docstring", "move", "remove", "version")  # fmt: skip
_TEXTS = Path(__file__).with_name("jobs")
_TEST: Call = ("container.exec", {"command": ["bash", "-lc", "python3 run_tests.py"]})
_PACKAGES = ("granary", "harbour", "orchard", "foundry", "atelier", "lantern", "quarry", "tannery")
_NOUNS = ("crate", "ticket", "parcel", "recipe", "sensor", "badge", "voucher", "barrel", "ledger", "spool")
_README = """\
# $pkg

Keeps track of every $noun. Run the tests with: python3 run_tests.py
(pytest runs them too, where it is installed.)
"""
_INIT = '"""Keeps track of every $noun."""\n'


def tasks(seed: int) -> list[Task]:
    """Each kind of job twice, in repositories of different names and sizes: `repo/pages-1`, `repo/pages-2`, …"""
    chance = random.Random(f"repo {seed}")
    made = []
    for kind in _JOBS:
        packages, nouns = chance.sample(_PACKAGES, 2), chance.sample(_NOUNS, 2)
        for n, (package, noun) in enumerate(zip(packages, nouns, strict=True), 1):
            made.append(_task(f"repo/{kind}-{n}", kind, chance, package=package, noun=noun))
    return made


def _task(name: str, kind: str, chance: random.Random, *, package: str, noun: str) -> Task:
    names = {"pkg": package, "noun": noun, "Noun": noun.capitalize(), "n": str(chance.randrange(3, 9))}
    prompt, texts = _filled(kind, names)
    files: dict[str, str] = {}
    after: dict[str, str | None] = {}
    crlf: set[str] = set()
    hidden = texts.pop("hidden")
    for head, text in texts.items():
        *marks, path = head.split()
        if "after" not in marks:
            files[path] = text
        if "before" not in marks:
            after[path] = text
        if "crlf" in marks:
            crlf.add(path)
    changed = {path: text for path, text in after.items() if files.get(path) != text}
    changed |= dict.fromkeys(path for path in files if path not in after)
    others = _filled("modules", names)[1]
    modules = sorted(path for path in others if not path.startswith("tests/"))
    rest = {"README.md": Template(_README).substitute(names), "run_tests.py": RUNNER}
    rest[f"{package}/__init__.py"] = Template(_INIT).substitute(names)
    for path in chance.sample(modules, chance.randrange(1, len(modules))):
        test = f"tests/test_{Path(path).name}"
        rest |= {path: others[path], test: others[test]}
    whole = rest | files
    change: Call = ("repo_browser.apply_patch", {"patch": _patch(whole, changed)})
    return Task(
        name,
        prompt,
        files={path: _bytes(text, crlf=path in crlf) for path, text in sorted(whole.items())},
        hidden={"test_hidden.py": hidden.encode()},
        calls=(change, _TEST),
    )


def _filled(name: str, names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A file of `jobs/` with its names filled in: the prompt, and the texts by what stands behind `%%%`."""
    text = Template(_TEXTS.joinpath(f"{name}.txt").read_text(encoding="utf-8")).safe_substitute(names)
    prompt, *parts = text.split("%%% ")
    return " ".join(prompt.split()), dict(part.split("\n", 1) for part in parts)


def _patch(files: Mapping[str, str], after: Mapping[str, str | None]) -> str:
    """The change in the form of `repo_browser.apply_patch`. None: deleted."""
    lines = ["*** Begin Patch"]
    for name, text in after.items():
        old = files.get(name)
        if text is None:
            lines.append(f"*** Delete File: {name}")
        elif old is None:
            lines += [f"*** Add File: {name}", *(f"+{line}" for line in text.splitlines())]
        else:
            lines += [f"*** Update File: {name}", "@@"]
            lines += [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in text.splitlines()]
    return "\n".join([*lines, "*** End Patch"])


def _bytes(text: str, *, crlf: bool) -> bytes:
    return (text.replace("\n", "\r\n") if crlf else text).encode()
