"""The tools that the settings ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.vocabulary import TokenCounter
from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.config import Resolved, config_path, rules_of, unknown_rules_of_folder, unmatched_rules
from ossia.cli.settings.engines import certificate_files
from ossia.cli.settings.mcp import configured_servers, mcp_file
from ossia.cli.settings.table import Settings
from ossia.cli.streams import give_stdout_to_others
from ossia.tools.build import TRAINED, Toolset, ToolsSpec, toolset
from ossia.tools.folder import Folder
from ossia.tools.pages import Web

if TYPE_CHECKING:
    from ossia.cli.runtime.failures import Fixes
    from ossia.harmony.tokenizer import Tokenizer


def collect(resolved: Resolved, folder: Folder | None, display: Display, tokenizer: Tokenizer) -> Toolset:
    """The tools that the settings ask for. Raises ExitError or FunctionsError for one that isn't available."""
    spec = tools_spec(resolved, folder)
    if spec.files or spec.packages:
        give_stdout_to_others()
    host = paths.host()
    tools = toolset(spec, host, display.report, TokenCounter(tokenizer, host), skippable=display.skippable)
    for line in unmatched_rules(resolved, tools.toolbox.every_spec):
        display.warn(line)
    if not any(name.startswith("mcp ") for name in tools.off):  # a server that is away may have such a tool
        for where, rule in unknown_rules_of_folder(resolved, tools.toolbox.every_spec):
            display.warn(f"{where} {rule!r}: no tool of that name is on")
    return tools


def tools_spec(resolved: Resolved, folder: Folder | None) -> ToolsSpec:
    """The same for `tools.build`. Raises ExitError for a file or a package that doesn't exist, McpConfigInvalid."""
    settings, environ = resolved.settings, os.environ
    names = () if settings.no_tools else settings.tools or ()
    files = tuple(Path(name) for name in names if name.endswith(".py"))
    missing = next((path for path in files if paths.is_folder(path) or not path.is_file()), None)
    if missing is not None:
        raise ExitError(f"--tools: file {missing} doesn't exist")
    packages = tuple(name for name in names if name not in TRAINED and not name.endswith(".py"))
    if packages:
        _require_packages(packages)
    return ToolsSpec(
        trained=trained_tools(settings),
        files=files,
        packages=packages,
        servers=() if settings.no_tools else configured_servers(environ, folder=folder.brought if folder else None),
        folder=folder,
        rules=rules_of(resolved),
        web=web_of(settings),
        always_browse="browser" in names,
        python=settings.python,
        unconfined=settings.unconfined,
        planning=settings.plan,
        dry_run=settings.dry_run,
        private=settings.private,
        configs=own_files(environ),
    )


def trained_tools(settings: Settings) -> tuple[str, ...]:
    """Those of python and the browser that are asked for: all, unless `--tools` names some."""
    named = tuple(name for name in settings.tools or () if name in TRAINED)
    return () if settings.no_tools else named or TRAINED


def web_of(settings: Settings) -> Web:
    """How the settings use the web."""
    return Web(settings.web, settings.web_url, settings.web_key, settings.allow_host, settings.proxy)


def own_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The user's files that configure us; they need not exist."""
    return config_path(environ), mcp_file(environ), *certificate_files(environ)


def fixes_for(
    tools: Toolset, settings: Settings, *, chat: bool = False, turned_off: Callable[[str], bool] = lambda name: False
) -> Fixes:
    """What a user can do about calls that fail."""
    from ossia.cli.runtime.failures import Fixes

    specs, folder = tools.toolbox.by_name, tools.folder is not None
    return Fixes(settings, specs, tools.missing, folder=folder, chat=chat, turned_off=turned_off)


def _require_packages(names: Sequence[str]) -> None:
    from importlib.metadata import entry_points

    from ossia.tools.functions.user import ENTRY_POINTS

    installed = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    missing = next((name for name in names if name not in installed), None)
    if missing is not None:
        packages = f" ({', '.join(installed)})" if installed else ", of which none is installed"
        expected = f"python, browser, a file (FILE.py) or a package with tools{packages}"
        raise ExitError(f"--tools: must be {expected}, not {missing!r}")
