"""A model and its tools, by the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.agent.limits import Limits
from ossia.agent.models.spec import ModelSpec
from ossia.agent.vocabulary import TokenCounter
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.runtime.consent import must_be_agreed
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.skills import few, skills_of
from ossia.cli.settings.config import Resolved, config_path
from ossia.cli.settings.engines import address_of, certificate_files, is_server, keys
from ossia.cli.settings.kinds import source_and_function, thinking_limit
from ossia.cli.settings.mcp import configured_servers, mcp_file
from ossia.cli.settings.rules import rules_of, unknown_rules_of_folder, unmatched_rules
from ossia.cli.settings.table import Settings
from ossia.cli.streams import give_stdout_to_others
from ossia.harmony.messages import Effort
from ossia.tools.build import TRAINED, Toolset, ToolsSpec, toolset
from ossia.tools.folder import Folder
from ossia.tools.pages import Web
from ossia.tools.skills import NO_SKILLS
from ossia.tools.spec import Stop

if TYPE_CHECKING:
    from ossia.agent.build import Begun, Model
    from ossia.agent.conversation import Conversation
    from ossia.agent.respond import Tap
    from ossia.cli.runtime.failures import Fixes
    from ossia.harmony.tokenizer import Tokenizer


def limits_of(settings: Settings, effort: Effort) -> Limits:
    """The limits of a turn with this effort."""
    thinking = thinking_limit(settings.think_tokens, effort)
    return Limits(max_tokens=settings.max_tokens, max_thinking=thinking, max_seconds=settings.timeout)


def control_names(text: str, model: Model, where: str) -> str:
    """A warning about text from outside that spells control tokens, which the model gets as plain text; "": none."""
    spelled = [name for name in model.engine.vocabulary.control if name in text]
    names = ", ".join(sorted(spelled)[:3])
    return f"{where} spells {names}: it is sent as plain text, not as a control token" if spelled else ""


def end_tools(talk: Conversation, display: Display) -> None:
    """Stop the turn under way and end the tools; name the folder with files of the model's code."""
    folder = talk.tools.python.kept_folder if talk.tools and talk.tools.python else None
    talk.end()
    if folder is not None:
        display.aside(f"python's files: {folder}", whole=True)


def begin_model(
    resolved: Resolved,
    display: Display,
    worker: Worker,
    *,
    stays: bool = False,
    stop: Control | None = None,
    lanes: int = 1,
) -> Begun:
    """The model of the settings, on its way, in so many lanes. `stop` ends the wait for a server.

    Raises what `model_spec` and `begin` do. Call `tools_spec` first: it refuses before anything is loaded.
    """
    from ossia.agent.build import begin

    spec = replace(model_spec(resolved, stays=stays), lanes=lanes)
    return begin(spec, paths.host(), display.report, worker=worker, stop=stop or Control())


def finish(
    begun: Begun, spec: ToolsSpec, resolved: Resolved, display: Display, *, tap: Tap | None = None
) -> tuple[Model, Toolset]:
    """The model and the tools, collected while it loads."""
    tools = None
    try:
        tools = collect(spec, resolved, display, begun.tokenizer)
        return begun.finish(tap), tools
    except BaseException:
        begun.close()
        if tools:
            tools.close()
        raise


_FIELDS = {"n_cpu_moe": "cpu_moe"}
"""Settings whose field has another name."""


def model_spec(resolved: Resolved, *, stays: bool = False) -> ModelSpec:
    """The model of the settings, and where it is: the address that is used is the one that was agreed to.

    `stays`: it will answer again and again. Raises ExitError for a server that nobody agreed to, ConfigError and
    AddressUnusable.
    """
    settings = resolved.settings
    spec = local_spec(settings, stays=stays)
    if settings.engine.startswith("script:"):
        return replace(spec, script=Path(settings.engine.removeprefix("script:")))
    if not is_server(settings.engine):
        return spec
    address = address_of(settings.engine, os.environ)
    must_be_agreed(address, settings)
    return replace(
        spec,
        server=address,
        by_file=resolved.origins.get("model", "").startswith("file "),
        explicit=frozenset(_FIELDS.get(key, key) for key, said in resolved.origins.items() if said.startswith("--")),
        secrets=keys(os.environ),
    )


def local_spec(settings: Settings, *, stays: bool = False) -> ModelSpec:
    """The model as it is loaded in this process, whatever `engine` says."""
    return ModelSpec(
        settings.model,
        context=settings.context,
        threads=settings.threads,
        gpu_layers=settings.gpu_layers,
        cpu_moe=settings.n_cpu_moe,
        kv_type=settings.kv_type,
        repack=settings.repack,
        guided=settings.guide == "on",
        temperature=settings.temperature,
        seed=settings.seed,
        private=settings.private,
        stays=stays,
    )


def collect(
    spec: ToolsSpec, resolved: Resolved, display: Display, tokenizer: Tokenizer, *, skip: Stop | None = None
) -> Toolset:
    """The tools of `spec`, which is that of the settings. `skip`: stops the wait for MCP servers; None: the display's.

    Raises FunctionsError for an unavailable one.
    """
    if spec.files or spec.packages:
        give_stdout_to_others()
    host = paths.host()
    counter = TokenCounter(tokenizer, host)
    skippable = display.skippable if skip is None else lambda: nullcontext((skip, ""))
    tools = toolset(spec, host, display.report, counter, skippable=skippable)
    for line in (*few(spec.skills.skipped), *unmatched_rules(resolved, tools.toolbox.every_spec)):
        display.warn(line)
    if spec.only is None and not any(name.startswith("mcp ") for name in tools.off):  # one that is away may have it
        for where, rule in unknown_rules_of_folder(resolved, tools.toolbox.every_spec):
            display.warn(f"{where} {rule!r}: no tool of that name is on")
    return tools


def tools_spec(resolved: Resolved, folder: Folder | None) -> ToolsSpec:
    """The tools of the settings for `tools.build`. Raises ExitError for a missing file or package, McpConfigInvalid."""
    settings, environ = resolved.settings, os.environ
    names = () if settings.no_tools else settings.tools or ()
    only, brought = resolved.only, folder.brought if folder else None
    chosen = _chosen(name for name in names if only is None and name not in TRAINED)
    files = {Path(name): functions for name, functions in chosen.items() if name.endswith(".py")}
    missing = next((path for path in files if paths.is_folder(path) or not path.is_file()), None)
    if missing is not None:
        raise ExitError(f"--tools: file {missing} doesn't exist")
    packages = {name: functions for name, functions in chosen.items() if not name.endswith(".py")}
    if packages:
        _require_packages(packages)
    return ToolsSpec(
        trained=tuple(name for name in trained_tools(settings) if only is None or name in _namespaces(only)),
        files=files,
        packages=packages,
        servers=() if settings.no_tools or only is not None else configured_servers(environ, folder=brought),
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
        skills=skills_of(folder) if folder else NO_SKILLS,
        only=only,
        readable=paths.all_of(settings.readable),
    )


def _namespaces(names: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def _chosen(entries: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The named functions of each file or package, () for all: `{"weather.py": ("look", "tell"), "wx": ()}`."""
    chosen: dict[str, tuple[str, ...]] = {}
    for source, function in map(source_and_function, entries):
        whole = not function or chosen.get(source) == ()
        chosen[source] = () if whole else (*chosen.get(source, ()), function)
    return chosen


def trained_tools(settings: Settings) -> tuple[str, ...]:
    """The requested ones of python and the browser: all, unless `--tools` names some."""
    named = tuple(name for name in settings.tools or () if name in TRAINED)
    return () if settings.no_tools else named or TRAINED


def web_of(settings: Settings) -> Web:
    """The use of the web by the settings."""
    return Web(settings.web, settings.web_url, settings.web_key, settings.allow_host, settings.proxy)


def own_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The user's configuration files; they need not exist."""
    return config_path(environ), mcp_file(environ), *certificate_files(environ)


def fixes_for(
    tools: Toolset, settings: Settings, *, chat: bool = False, turned_off: Callable[[str], bool] = lambda name: False
) -> Fixes:
    """The user's next steps after failed calls."""
    from ossia.cli.runtime.failures import Fixes

    specs, folder = tools.toolbox.by_name, tools.folder is not None
    return Fixes(settings, specs, tools.missing, folder=folder, chat=chat, turned_off=turned_off)


def _require_packages(names: Iterable[str]) -> None:
    from importlib.metadata import entry_points

    from ossia.tools.functions.user import ENTRY_POINTS

    installed = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    missing = next((name for name in names if name not in installed), None)
    if missing is not None:
        packages = f" ({', '.join(installed)})" if installed else ", of which none is installed"
        expected = f"python, browser, a file (FILE.py) or a package with tools{packages}"
        raise ExitError(f"--tools: must be {expected}, not {missing!r}")
