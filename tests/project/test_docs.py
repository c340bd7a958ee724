"""The command lines, files and links of README.md and docs/ work, and no page is too long."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from ossia.cli.acp.commands import COMMANDS
from ossia.cli.app import command
from ossia.cli.chat.commands.table import GROUPS
from ossia.cli.commands import UsageError
from ossia.cli.settings.config import resolve
from ossia.cli.settings.mcp import configured_servers
from ossia.cli.settings.table import SETTINGS
from ossia.tools.approval.trust import Offer
from tests.support.command import ossia, write_script
from tests.support.manual import PAGES, Part, anchors, blocks, links, spans, target, words

TEXTS = {name: page.read_text(encoding="utf-8") for name, page in PAGES.items()}

REFERENCES = {f"docs/{name}.md" for name in ("approvals", "configuration", "confinement", "formats")}
MAX_WORDS, MAX_README_LINES = 1_500, 150

NOT_RUN = {
    "ossia --engine http*": "a server",
    "ossia --engine team": "a server",
    "OSSIA_ENGINE=team *": "a server",
    "ossia --engine hf *": "a server",
    "ossia models pull *": "the hub",
    "ossia serve": "a server goes on",
    "ossia serve * --parallel 2": "a server goes on",
    "ossia mcp test*": "another program",
    "ossia mcp login *": "a browser",
    "ossia run --allow files__read_text_file *": "another program",
    "ossia run --web ddgs *": "an extra",
    "ossia run -f https*": "the web",
    "ossia trust": "a person's answer",
    "ossia skills edit *": "a terminal",
    "ossia models * gpt-oss-20b": "the model",
    "ossia harmony *": "a vocabulary that is downloaded",
    "ossia eval*": "minutes",
}
"""Lines of ours that can't run here, by what they need. Their flags are checked nevertheless."""

PROGRAMS = {"bash", "cd", "curl", "git", "pip", "pipx", "uv", "ray", "vllm"}
"""Programs of others in the pages: only the part of a line that is ours is run."""

CODES = {"ossia run -x*": 10, "ossia undo": 1, "ossia trust --revoke .": 2, '*"count": -1*': 1, '*"noon"*': 1}
"""Exit codes other than 0: there is nothing to undo, nothing was trusted, a call fails, "Yes." has no code."""

ETUDE = ("48*17", "--schema", "set_lamp", "ossia batch")
"""Lines with these are answered by the built-in model, all others by a script."""

FOREIGN_FLAGS = {
    "--config-file",
    "--enable-prompt-tokens-details",
    "--offline",
    "--plain",
    "--ta",
    "--upload-pack",
}
"""Flags of other programs in the running text, but for the pages about these programs."""
OF_OTHERS = {"docs/cluster.md", "docs/comparison.md"}

FILES = {
    "notes/garden.md": "# Garden\n\nThe harmony format of the beds.\n",
    "papers/harmony.md": "# The harmony format\n\nChannels and messages.\n",
    ".agents/skills/commit/SKILL.md": "---\ndescription: Write a message.\n---\nFor this diff: $input",
    ".agents/skills/review/SKILL.md": "---\nname: review\ndescription: Review a file.\n---\nLook at $ARGUMENTS.\n",
    "project/README.md": "# A projct\n",
    "project/parser.py": "class Parser: ...\n",
    "project/letter.txt": "Ada Lovelace was born in 1815.\n",
    "project/questions.jsonl": '"What is 48*17?"\n{"prompt": "Hello"}\n',
    "project/schema.json": '{"enum": ["a letter", "a bill"]}',
    "servers/config.toml": "",
}
"""The home of the lines that are run; they run in its `project`, a git repository."""


@pytest.fixture
def project(home: Path) -> Path:
    for name, text in FILES.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    folder = home / "project"
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def _known() -> set[str]:
    """Every flag of every command."""
    found, left = set(), [command]
    while left:
        one: Any = left.pop()
        found |= {name for param in one.params for name in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
        left += getattr(one, "commands", {}).values()
    return found


def _check(args: list[str]) -> None:
    """Parse a command line of ours without running it; settings are checked, too. Raises UsageError, ConfigError."""
    one: Any = command
    context: Any = None
    name = "ossia"
    while True:
        context = one.make_context(name, args, parent=context)
        if context.params.keys() >= {"allow", "tools"}:  # else these are no settings: `ossia harmony render --tools`
            given = {key: value for key, value in context.params.items() if key in SETTINGS}
            resolve(given, environ={"OSSIA_CONFIG": os.devnull})
        rest = [*context._protected_args, *context.args] if hasattr(one, "commands") else []
        if not rest:
            return
        name, one, args = one.resolve_command(context, rest)


def _code(part: Part) -> int:
    return next((code for pattern, code in CODES.items() if fnmatchcase(part.text, pattern)), 0)


def _is_run(part: Part) -> bool:
    return "--help" not in part.words and not any(fnmatchcase(part.text, pattern) for pattern in NOT_RUN)


def _ours(page: str) -> list[Part]:
    lines = [line for block in blocks(TEXTS[page]) for line in block.lines()]
    return [part for line in lines for part in line.parts() if part.words[:1] == ("ossia",)]


@pytest.mark.parametrize("page", TEXTS)
def test_each_command_line_runs(page: str, project: Path) -> None:
    script = write_script(project.parent, "<|channel|>final<|message|>Yes.<|return|>")
    env = {"OSSIA_ENGINE": script, "EDITOR": "true", "EXA_API_KEY": "x", "TICKETS_TOKEN": "x"}
    for block in blocks(TEXTS[page]):
        if block.language == "python":
            compile(block.text, block.name or page, "exec")
        if block.language == "python" and block.name:
            (project / block.name).write_text(block.text, encoding="utf-8")
        for line in block.lines():
            for part in line.parts():
                if part.words[:1] != ("ossia",):
                    assert not part.words or part.words[0] in PROGRAMS, f"{page}: {line.text}"
                    continue
                if not _is_run(part):
                    continue
                args = [os.path.expanduser(word) for word in part.words[1:]]  # noqa: PTH111 - as a shell does
                own = {"OSSIA_ENGINE": "llama", "OSSIA_MODEL": "etude"} if any(x in part.text for x in ETUDE) else {}
                if args[:1] == ["mcp"]:  # else each later line would start the servers
                    own = {"OSSIA_CONFIG": str(project.parent / "servers/config.toml")}
                done = ossia(*args, stdin=b"Hello", env={**env, **own, **part.variables}, cwd=project)
                assert done.returncode == _code(part), f"{page}: {line.text}\n{done.stderr.decode()}"
                _compare(f"{page}: {line.text}", done.stdout.decode(), line.output)


def _compare(line: str, stdout: str, shown: Any) -> None:
    """What the page shows of stdout is there; `…` stands for anything. The page may show stderr, too."""
    printed = stdout.splitlines()
    patterns = [".*".join(map(re.escape, text.split("…"))) for text in shown]
    missing = [text for text in printed if not any(re.fullmatch(pattern, text) for pattern in patterns)]
    assert not shown or not missing, f"{line}\nprints {missing}, which the page doesn't show"


@pytest.mark.parametrize("page", TEXTS)
def test_our_commands_and_flags_in_a_page_exist(page: str) -> None:
    for part in _ours(page):
        try:
            _check(list(part.words[1:]))
        except UsageError as error:
            raise AssertionError(f"{page}: {part.text}: {error.format_message()}") from None
        except SystemExit:  # --help, --version
            pass
        except Exception as error:
            assert type(error).__name__ == "Exit", f"{page}: {part.text}: {error}"
    known = _known()
    for span in spans(TEXTS[page]):
        flags = [word.partition("=")[0] for word in span.split() if re.match(r"--[a-z]", word)]
        if page not in OF_OTHERS and span.startswith(("-", "ossia")):
            assert set(flags) <= known | FOREIGN_FLAGS, f"{page}: `{span}`"
        if span.startswith("ossia "):
            _check_span(page, span)


def _check_span(page: str, span: str) -> None:
    try:
        _check(shlex.split(span)[1:])
    except UsageError as error:
        said = error.format_message()
        unfinished = type(error).__name__ == "MissingParameter" or "requires an argument" in said  # `ossia mcp login`
        assert unfinished, f"{page}: `{span}`: {said}"
    except Exception as error:
        assert type(error).__name__ in ("Exit", "ConfigError"), f"{page}: `{span}`: {error}"


@pytest.mark.parametrize("page", sorted(TEXTS.keys() - {"docs/cluster.md", "docs/confinement.md"}))
def test_the_chats_commands_in_a_page_exist(page: str) -> None:
    """`/undo` is one, `/mnt/data` isn't. (The pages left out name folders and addresses.)"""
    names = {name for _, group in GROUPS for one in group for name in (one.name, *one.aliases)} | {"review"}  # a skill
    names |= COMMANDS.keys() if page == "docs/editors.md" else set()
    written = {match[1] for span in spans(TEXTS[page]) if (match := re.match(r"/([a-z]+)(?![\w/.-])", span))}
    assert written <= names


def test_each_line_that_is_not_run_is_in_a_page() -> None:
    every = [part for page in TEXTS for part in _ours(page)]
    patterns = (*NOT_RUN, *CODES)
    assert [one for one in patterns if not any(fnmatchcase(part.text, one) for part in every)] == []


@pytest.mark.parametrize("page", TEXTS)
def test_the_files_in_a_page_can_be_read(page: str, tmp_path: Path) -> None:
    for block in blocks(TEXTS[page]):
        if block.language == "json":
            json.loads(block.text)
        if block.language != "toml":
            continue
        tomllib.loads(block.text)
        if block.name == ".ossia/config.toml":
            offer = Offer(tmp_path, {block.name: block.text.encode(), ".ossia/parts.py": b""}, "")
            resolve({}, environ={"OSSIA_CONFIG": os.devnull}, folder=offer)
        elif block.name in ("", "config.toml"):
            path = tmp_path / "config.toml"
            path.write_text(block.text, encoding="utf-8")
            resolve({}, environ={}, path=path)
            configured_servers({"OSSIA_CONFIG": str(path)})


@pytest.mark.parametrize("page", TEXTS)
def test_each_link_leads_to_a_heading(page: str) -> None:
    for link in links(TEXTS[page]):
        path, anchor = target(PAGES[page], link)
        assert path.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), f"{page}: {link}"


def test_no_page_is_too_long() -> None:
    counts = {page: words(text) for page, text in TEXTS.items() if page not in REFERENCES}
    assert {page: count for page, count in counts.items() if count > MAX_WORDS} == {}
    assert len(TEXTS["README.md"].splitlines()) <= MAX_README_LINES
