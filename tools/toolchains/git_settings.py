"""The few of git's settings that commands get: the user's name, and what a commit's text and files look like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ossia.tools.sandbox.repository import setting_text
from ossia.tools.toolchains.look import absolute, real, text

_SHOWN = ("user.name", "user.email", "core.autocrlf", "core.eol", "init.defaultbranch", "pull.rebase", "push.default",
          "merge.conflictstyle", "commit.cleanup")  # fmt: skip
_HEADER = re.compile(r"\[[ \t]*([\w.-]+)[ \t]*\]")
_SETTING = re.compile(r"([A-Za-z][\w-]*)[ \t]*=[ \t]*(.*)")
_VALUE = re.compile(r'(?:"((?:[^"\\]|\\["\\])*)"|([^"\\#;]*))[ \t]*(?:[#;].*)?')
_MAX_BYTES, _MAX_CHARS = 1 << 18, 200


def git_settings(home: Path, environ: Mapping[str, str]) -> str:
    """The text of a `.gitconfig` with those of the user's: `[user]\\n\\tname = "Ada"\\n`. Nothing included is read."""
    folder = absolute(environ.get("XDG_CONFIG_HOME", "")) or home / ".config"
    found: dict[str, str] = {}
    for file in (folder / "git" / "config", home / ".gitconfig"):
        found.update(_settings(text(real(file), _MAX_BYTES)))
    return "".join(setting_text(key, found[key]) for key in _SHOWN if key in found)


def _settings(content: str) -> Iterator[tuple[str, str]]:
    """Each setting on one line, in a section without a part in quotes."""
    section = ""
    for line in (line.strip() for line in content.split("\n")):
        if line.startswith("["):
            header = _HEADER.match(line)
            section = header[1].lower() if header else ""
            line = line[header.end() :].strip() if header else ""
        setting = _SETTING.fullmatch(line)
        value = setting and _VALUE.fullmatch(setting[2])
        if section and setting and value:
            said = value[2].strip() if value[1] is None else value[1].replace('\\"', '"').replace("\\\\", "\\")
            if said.isprintable() and len(said) <= _MAX_CHARS:
                yield f"{section}.{setting[1].lower()}", said
