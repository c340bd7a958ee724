"""From an agent's arguments to the parts of its conversation, with the user's configuration or without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ossia.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from ossia.agent.limits import Limits
    from ossia.agent.models.spec import ModelSpec
    from ossia.agent.sessions.session import Options
    from ossia.harmony.messages import Effort
    from ossia.tools.approval.rules import Action, Rule
    from ossia.tools.build import ToolsSpec
    from ossia.tools.folder import Folder
    from ossia.tools.host import Host

_TRAINED = ("python", "browser")
_EFFORTS = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of an agent, checked as far as that needs nothing heavy. `tools` None: none, or as configured.

    Raises ArgumentError.
    """

    tools: Sequence[Callable[..., object] | str | os.PathLike[str]] | None = None
    workspace: str | os.PathLike[str] | None = None
    instructions: str | None = None
    effort: Effort | None = None
    web: str | None = None
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    seed: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    max_steps: int | None = None
    timeout: float | None = None
    trust: bool = False
    config: bool = False

    def __post_init__(self) -> None:
        for name in ("tools", "allow", "deny"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Iterable | None):
                raise ArgumentError(f"{name}: must be a list, not {value!r:.80}: write {name}=[…]")
            object.__setattr__(self, name, None if value is None else tuple(value))  # it may be a generator
        for tool in self.tools or ():
            _require_tool(tool)
        for name in ("instructions", "web"):
            if not isinstance(value := getattr(self, name), str | None):
                raise ArgumentError(f"{name}: must be a text, not {value!r:.80}")
        if self.effort not in (None, *_EFFORTS):
            raise ArgumentError(f"effort: must be low, medium or high, not {self.effort!r}")
        if self.workspace is not None and not _path(self.workspace).is_dir():
            raise ArgumentError(f"workspace: {os.fspath(self.workspace)!r} is not a folder")
        if self.web and not self.config and "browser" not in self.names:
            raise ArgumentError('web: is for the browser: write tools=["browser"], too')
        for name, least in (("max_tokens", 1), ("max_steps", 1), ("temperature", 0), ("timeout", 0), ("seed", None)):
            require_number(name, getattr(self, name), least)
        if self.allow or self.deny:
            self.rules()

    @property
    def names(self) -> tuple[str, ...]:
        """The named tools, and the files of functions."""
        return tuple(os.fspath(tool) for tool in self.tools or () if not callable(tool))

    @property
    def functions(self) -> tuple[Callable[..., object], ...]:
        """The program's own functions."""
        return tuple(tool for tool in self.tools or () if callable(tool))

    def rules(self) -> tuple[Rule, ...]:
        """The rules of `allow` and `deny`. Raises ArgumentError."""
        return (*_rules("allow", self.allow), *_rules("deny", self.deny))


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a conversation. `model` None: the agent's own. `private`: nothing of it is stored."""

    tools: ToolsSpec
    options: Options
    limits: Limits
    model: ModelSpec | None = None
    private: bool = False


def plain(given: Given, host: Host) -> Parts:
    """The parts by the arguments alone. Raises ArgumentError and TrustError."""
    from ossia.agent.engine.base import Sampling
    from ossia.agent.limits import Limits
    from ossia.agent.prompt import WORK
    from ossia.agent.sessions.session import Options
    from ossia.cli import paths
    from ossia.tools.build import ToolsSpec
    from ossia.tools.pages import Web

    folder, config = _folder(given, host), paths.config_file()
    notes = folder.notes if folder else None
    whole = "\n\n".join(filter(None, (given.instructions or (WORK if folder else None), notes)))
    tools = ToolsSpec(
        trained=tuple(name for name in given.names if name in _TRAINED),
        files={_path(name): () for name in given.names if name not in _TRAINED},
        folder=folder,
        rules=given.rules(),
        web=Web(given.web),
        always_browse=True,
        configs=(config, config.with_name("mcp.json")),
    )
    options = Options(
        given.effort or "medium",
        whole or None,
        host.now().date().isoformat(),
        sampling=Sampling(given.temperature, seed=given.seed),
        taints=folder.workspace.taints if folder and notes else frozenset(),
    )
    limits = Limits(max_tokens=given.max_tokens, max_seconds=given.timeout)
    return Parts(tools, options, replace(limits, max_steps=given.max_steps or limits.max_steps))


def configured(given: Given, model: str | None, context: int | None) -> Parts:
    """The parts as `ossia run` has them, by the user's settings, rules, servers and trust. Raises ArgumentError."""
    from ossia.api.host import no_exit, report
    from ossia.cli.runtime.assembly import limits_of, model_spec, tools_spec
    from ossia.cli.runtime.session import fresh_options
    from ossia.cli.settings.workspace import resolve_with_folder
    from ossia.tools.host import Notice

    keys = ("instructions", "effort", "web", "seed", "temperature", "max_tokens", "timeout")
    flags: dict[str, object] = {key: getattr(given, key) for key in keys}
    flags |= {"model": model, "context": context, "trust": given.trust or None, "tools": list(given.names)}
    flags |= {"allow": list(given.allow), "deny": list(given.deny)}
    flags["no_tools"] = (given.tools is not None and not given.tools) or None
    flags["workspace"] = None if given.workspace is None else os.fspath(given.workspace)
    with no_exit():
        resolved, folder = resolve_with_folder(flags)
        for line in resolved.warnings:
            report(Notice("warning", line))
        options = fresh_options(resolved, folder)
        limits = limits_of(resolved.settings, options.effort)
        limits = replace(limits, max_steps=given.max_steps or limits.max_steps)
        spec = tools_spec(resolved, folder)
        return Parts(spec, options, limits, model_spec(resolved), resolved.settings.private)


def _folder(given: Given, host: Host) -> Folder | None:
    """The workspace, without its own settings: if it is trusted, its AGENTS.md counts."""
    from ossia.tools.approval.trust import look
    from ossia.tools.folder import Folder
    from ossia.tools.undo.journal import Journal
    from ossia.tools.workspace import Workspace

    if given.workspace is None:
        return None
    root = _path(given.workspace).resolve()
    if host.data.resolve().is_relative_to(root):
        raise ArgumentError(f"workspace: {str(root)!r} holds ossia's own data ({host.data}): choose another folder")
    journal = Journal(host.data, root)
    workspace = Workspace(root, trusted=given.trust, keeper=journal)
    return Folder(workspace, journal, look(root) if given.trust else None)


def _path(name: str | os.PathLike[str]) -> Path:
    from pathlib import Path  # 9 ms that `from ossia import Agent` needn't take

    return Path(name).expanduser()


def _require_tool(tool: Any) -> None:
    if callable(tool) or tool in _TRAINED:
        return
    if isinstance(tool, str | os.PathLike) and os.fspath(tool).endswith(".py"):
        if not _path(tool).is_file():
            raise ArgumentError(f"tools: file {os.fspath(tool)!r} doesn't exist")
        return
    raise ArgumentError(f'tools: must be functions, "python", "browser" or files FILE.py, not {tool!r:.80}')


def require_number(name: str, value: Any, least: int | None) -> None:
    """Raise ArgumentError for anything but None and numbers from `least` on (None: any)."""
    if value is None:
        return
    whole = name not in ("temperature", "timeout")
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise ArgumentError(f"{name}: must be a {'whole ' if whole else ''}number, not {value!r:.80}")
    if least is not None and value < least:
        raise ArgumentError(f"{name}: must be {least} or more, not {value}")


def _rules(name: str, texts: Sequence[str]) -> tuple[Rule, ...]:
    from ossia.tools.approval.rules import parse_rule

    action: Action = "allow" if name == "allow" else "deny"
    try:
        return tuple(parse_rule(text, action) for text in texts)
    except ValueError as error:
        raise ArgumentError(f"{name}: {error}") from None
