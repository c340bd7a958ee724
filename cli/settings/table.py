"""Every setting, declared once, and the flags made from that; `cli.settings.config` checks what was given.

The key of the config file, the environment variable, the flag, `/set` in a chat, `ossia config show` and the table of
docs/configuration.md come from that. `seed` is `seed = 7` in the file, `OSSIA_SEED=7`, `--seed 7` and `/set seed 7`:

    seed: int | None = _setting(None, kinds.whole(0),                       # its default (not set), what it may hold
        Flag("Make sampling repeatable.", "N"),                             # in the help of `ossia run`
        InChat("make sampling repeatable", "sampling"))                     # `/set` takes it; what it says of it there
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast, get_type_hints

import typer

from ossia.cli.settings import kinds

_T = TypeVar("_T")

Listing = Literal["run", "chat", "tools", "acp", "batch", "serve"]
"""The help in which a flag stands: of `ossia run`, of `ossia` (the chat), of `ossia tools`; `ossia acp`, `ossia batch`
and `ossia serve` have those of the first one that mean something there."""


class Flag(NamedTuple):
    """The flag of a setting.

    `run`, the chat and `tools` all take every flag, except those that are only the chat's; `listed`: the commands whose
    help shows it. `tools` replaces `help` in theirs. `off` is the flag that turns off a setting which is on by default:
    `--no-guide`. `short`: its letter, as in `-m`.

    (This and the next ones are NamedTuples: `ossia --help` reads this table, and defining a dataclass takes 0.5 ms.)
    """

    help: str
    metavar: str | None = None
    listed: tuple[Listing, ...] = ("run",)
    tools: str = ""
    off: str = ""
    short: str = ""


class InChat(NamedTuple):
    """`/set` can change the setting; `help` describes it there. `part`: the place of the change, and so its time.

    "options", "sampling" and "limits" take effect with the next turn, "screen" at once. The first two are stored with
    the session.
    """

    help: str
    part: Literal["options", "sampling", "limits", "screen"]


class Setting(NamedTuple):
    """One setting. `replaces` names another one that this one overrides, as `--quiet` does a `verbose` in the file."""

    name: str
    default: kinds.Value
    kind: kinds.ValueKind
    flag: Flag
    in_chat: InChat | None = None
    replaces: str = ""

    @property
    def long_flag(self) -> str:
        """Its flag, e.g. `--top-p`."""
        return self.flag.off or f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """Its environment variable, e.g. `OSSIA_TOP_P`."""
        return f"OSSIA_{self.name.upper()}"


def _setting(
    default: _T, kind: kinds.ValueKind, flag: Flag, in_chat: InChat | None = None, *, replaces: str = ""
) -> _T:
    return field(default=default, metadata={"kind": kind, "flag": flag, "in_chat": in_chat, "replaces": replaces})


_ALL: tuple[Listing, ...] = ("run", "chat", "tools")
_RUN_CHAT: tuple[Listing, ...] = ("run", "chat")
_RUN_TOOLS: tuple[Listing, ...] = ("run", "tools")
_CHAT: tuple[Listing, ...] = ("chat",)


# fmt: off
@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, in the order of `ossia config show`. None: not set, the program decides."""

    model: str | None = _setting(None, kinds.path(),
        Flag("A GGUF file, etude, gpt-oss-20b or -120b; with a server, its model.", "PATH|NAME", _ALL, short="-m"))
    engine: str = _setting("llama", kinds.engine(),
        Flag("Where the model runs: llama (here), http://HOST:PORT, NAME of [engines.NAME], script:FILE.", "ENGINE",
             _RUN_CHAT))
    allow_engine: tuple[str, ...] = _setting((), kinds.texts("a list of hosts, e.g. 'gpu.example:8000'"),
        Flag("Send prompts to this host without asking. Repeatable.", "HOST", _RUN_CHAT))
    effort: Literal["low", "medium", "high"] = _setting("medium", kinds.one_of("low", "medium", "high"),
        Flag("Reasoning effort: low, medium or high.", "LEVEL", _RUN_CHAT, short="-e"),
        InChat("how long it thinks", "options"))
    instructions: str | None = _setting(None, kinds.text_or_file(),
        Flag("Your instructions to the model.", "TEXT|@FILE", _RUN_CHAT, short="-s"))
    # None: the default set; else names of trained tools, files (`*.py`) and packages. `--tools python` overrides
    # a `no_tools` in the file; where both are in one place, `no_tools` wins.
    tools: tuple[str, ...] | None = _setting(None, kinds.names(), Flag(
        "Add the functions in FILE.py[:NAME,NAME] or PACKAGE; `python` or `browser` keeps only that tool.",
        "NAMES", _ALL), replaces="no_tools")
    no_tools: bool = _setting(False, kinds.switch(), Flag("No tools at all.", listed=_ALL))
    workspace: str | None = _setting(None, kinds.path(),
        Flag("Let the model work in a folder: read, search, write, run commands.", "DIR", _ALL, short="-w"))
    trust: bool = _setting(False, kinds.switch(),
        Flag("Trust the workspace's own rules and files, this time only.", listed=_ALL))
    # Rules, as `tools.approval.rules.parse_rule` reads them.
    allow: tuple[str, ...] = _setting((), kinds.texts("a list of rules, e.g. 'container.exec:git status*'"),
        Flag("Allow a tool's calls, as in 'container.exec:git status*'. Repeatable.", "NAME[:PATTERN]", _ALL))
    allow_network: tuple[str, ...] = _setting((), kinds.texts("a list of commands, e.g. 'uv sync'"),
        Flag("Give this command network, as in 'uv sync' or 'npm ci*'. Repeatable.", "COMMAND", _ALL))
    allow_git: bool = _setting(False, kinds.switch(),
        Flag("Let git change the repository: commit, stash, switch.", listed=_ALL))
    deny: tuple[str, ...] = _setting((), kinds.texts("a list of rules, e.g. 'container.exec:git push*'"),
        Flag("Never allow these calls; overrides --allow. Repeatable.", "NAME[:PATTERN]", _RUN_TOOLS))
    yes: bool = _setting(False, kinds.switch(),
        Flag("Approve calls without asking, except those that need your own answer.", listed=_RUN_TOOLS))
    strict_approvals: bool = _setting(False, kinds.switch(),
        Flag("Exit with 8 if a call was refused because nobody could be asked.", listed=_RUN_TOOLS))
    plan: bool = _setting(False, kinds.switch(),
        Flag("Look and make a plan; nothing can be changed.", listed=_RUN_CHAT))
    dry_run: bool = _setting(False, kinds.switch(),
        Flag("Show writes and commands instead of running them.", listed=_RUN_TOOLS))
    web: str | None = _setting(None, kinds.text(), Flag(
        "Search the web: a SearXNG's address, or brave, exa, mojeek, serper, tavily, you, ddgs.", "URL|NAME", _ALL))
    web_key: str | None = _setting(None, kinds.variable(),
        Flag("The environment variable that holds the service's key.", "VARIABLE", _RUN_TOOLS))
    web_url: str | None = _setting(None, kinds.text(),
        Flag("Another address for the service of --web.", "URL", _RUN_TOOLS))
    allow_host: tuple[str, ...] = _setting((), kinds.texts("a list of hosts, e.g. 'intranet:8080'"),
        Flag("Allow reading pages of this private host. Repeatable.", "HOST[:PORT]", _RUN_TOOLS))
    proxy: str | None = _setting(None, kinds.text(),
        Flag("An HTTP proxy for web pages and searches.", "URL", _RUN_TOOLS))
    python: str | None = _setting(None, kinds.path(),
        Flag("The Python or environment (.venv) that runs the model's code.", "PATH", _RUN_TOOLS))
    readable: tuple[str, ...] = _setting((), kinds.folders(),
        Flag("Let commands read this folder, too. Repeatable.", "DIR", _RUN_TOOLS))
    unconfined: bool = _setting(False, kinds.switch(),
        Flag("Run code even where nothing confines it.", listed=_RUN_TOOLS))
    show_thinking: bool = _setting(False, kinds.switch(), Flag("Show the thinking, on stderr."))
    verbose: bool = _setting(False, kinds.switch(),
        Flag("Say more, on stderr.", listed=_RUN_TOOLS, short="-v"), replaces="quiet")
    quiet: bool = _setting(False, kinds.switch(),
        Flag("Print only errors and security notices.", listed=_RUN_TOOLS, short="-q"), replaces="verbose")
    plain: bool = _setting(False, kinds.switch(), Flag("On a terminal, print the answer as written, not drawn."))
    raw: bool = _setting(False, kinds.switch(), Flag("Print the Harmony stream as it comes."), replaces="json")
    json: bool = _setting(False, kinds.switch(), Flag("Print one line of JSON about the whole turn.", listed=_RUN_TOOLS,
        tools="Print JSON, one line per result.", short="-j"), replaces="raw")
    jsonl: bool = _setting(False, kinds.switch(), Flag("Print a line of JSON for each event, the result last."),
        replaces="json")
    guide: Literal["on", "off"] = _setting("on", kinds.on_or_off(),
        Flag("Don't constrain the model to valid headers, arguments and answers.", off="--no-guide"))
    max_tokens: int | None = _setting(None, kinds.whole(1),  # None: to the end of the context
        Flag("Generate at most N tokens, thinking included.", "N"), InChat("the most tokens per turn", "limits"))
    think_tokens: int | str | None = _setting(None, kinds.thinking(), Flag(
        "Cap reasoning at N tokens (or per effort: low=N,high=N), then answer.", "N", _RUN_CHAT),
        InChat("cap thinking at N tokens, then answer", "limits"))
    temperature: float | None = _setting(None, kinds.number("a number from 0 to 2", lambda number: 0 <= number <= 2),
        Flag("Randomness; 0 is greedy. [default: 1.0; étude: 0]", "T"), InChat("randomness; 0 is greedy", "sampling"))
    top_p: float = _setting(1.0, kinds.number("a number above 0, up to 1", lambda number: 0 < number <= 1),
        Flag("Sample from the most likely tokens that make up P. [default: 1.0]", "P"),
        InChat("sample from the most likely tokens that make up P", "sampling"))
    top_k: int = _setting(0, kinds.whole(0),
        Flag("Sample from the K most likely tokens; 0: all. [default: 0]", "K"),
        InChat("sample from the K most likely tokens; 0: all", "sampling"))
    min_p: float = _setting(0.0, kinds.number("a number from 0 to 1", lambda number: 0 <= number <= 1),
        Flag("Drop tokens below P times the most likely one. [default: 0.0]", "P"),
        InChat("drop tokens below P times the most likely one", "sampling"))
    seed: int | None = _setting(None, kinds.whole(0),
        Flag("Make sampling repeatable.", "N"), InChat("make sampling repeatable", "sampling"))
    context: int | Literal["max"] | None = _setting(None, kinds.whole(1, "max"),
        Flag("Context size in tokens. [default: what fits]", "N|max", _RUN_CHAT))
    threads: int | None = _setting(None, kinds.whole(1), Flag("CPU threads. [default: one per core]", "N"))
    gpu_layers: int | None = _setting(None, kinds.whole(0), Flag("Layers on the GPU. [default: all that fit]", "N"))
    n_cpu_moe: int | None = _setting(None, kinds.whole(0),
        Flag("Keep the experts of the first N layers on the CPU. [default: as few as possible]", "N"))
    kv_type: Literal["f16", "q8_0"] = _setting("f16", kinds.one_of("f16", "q8_0"),
        Flag("The KV cache's precision: f16, or q8_0 (half the memory, coarser). [default: f16]", "TYPE"))
    repack: Literal["auto", "on", "off"] = _setting("auto", kinds.one_of("auto", "on", "off"),
        Flag("Keep a faster, repacked copy of the weights: auto (in a chat, if it fits), on, off.", "HOW"))
    timeout: float | None = _setting(None, kinds.number("a number of seconds above 0", lambda number: number > 0), Flag(
        "End the turn after S seconds; also covers a server's start-up requests, not the loading of a local model.",
        "S", _RUN_TOOLS, tools="End a call after S seconds."),
        InChat("the most seconds per turn", "limits"))
    think: Literal["off", "on", "peek"] = _setting("off", kinds.one_of("off", "on", "peek"),
        Flag("Show the thinking: off (default), on, or peek (its last lines).", "HOW", _CHAT),
        InChat("the thinking on screen", "screen"))
    bell: float = _setting(20.0, kinds.number("a number of seconds, 0 for never", lambda number: number >= 0),
        Flag("Ring, and notify if you look elsewhere, after turns of S seconds or more. [default: 20]", "S", _CHAT),
        InChat("ring, or notify, after turns of S seconds or more; 0: never", "screen"))
    vi: bool = _setting(False, kinds.switch(), Flag("Use vi keys.", listed=_CHAT))
    # "auto": not on battery, nor where others need the processors.
    prefill_ahead: Literal["auto", "on", "off"] = _setting("auto", kinds.one_of("auto", "on", "off"),
        Flag("Read the prompt while you type: auto (idle, not on battery), on, off.", "WHEN", _CHAT))
    titles: Literal["model", "question"] = _setting("model", kinds.one_of("model", "question"),
        Flag("Session titles: model (written when idle) or question (what you asked first).", "HOW", _CHAT))
    store: Literal["chats", "always"] = _setting("chats", kinds.one_of("chats", "always"),
        Flag("Store conversations: chats, or always, also those of `ossia run` and `serve`.", "WHAT"))
    private: bool = _setting(False, kinds.switch(), Flag(
        "Store no conversation and no prompt cache; undo still keeps changed files.", listed=_RUN_CHAT))
# fmt: on


SETTINGS: Mapping[str, Setting] = {
    spec.name: Setting(spec.name, cast("kinds.Value", spec.default), **spec.metadata) for spec in fields(Settings)
}
"""The settings by name."""

SAMPLING = tuple(one.name for one in SETTINGS.values() if one.in_chat and one.in_chat.part == "sampling")
"""The settings that say how tokens are drawn: fields of `agent.engine.base.Sampling`."""

# -- flags -------------------------------------------------------------------------------------------------------------

_LAST = ("plain", "raw", "json", "jsonl", "store", "private")
"""These are at the end of the help of `ossia run`: what is printed, and what is stored."""
_RUN_KEYS = sorted((key for key, one in SETTINGS.items() if "run" in one.flag.listed), key=lambda key: key in _LAST)
_OUTPUT = {"plain", "raw", "json", "jsonl", "show_thinking", "store"}
_BATCH_KEYS = [key for key in _RUN_KEYS if key not in _OUTPUT]
_SERVE_KEYS = [key for key in _BATCH_KEYS if key not in ("strict_approvals", "plan")]
_NOT_ACP = ("workspace", "trust", "quiet", "strict_approvals", "dry_run")
_ACP_KEYS = [key for key in _BATCH_KEYS if key not in _NOT_ACP]
_CHAT_KEYS = [*_RUN_KEYS, *(key for key in SETTINGS if key not in _RUN_KEYS)]


def option(key: str, of: Listing = "run", *, help_: str = "") -> Any:
    """The flag of a setting, for typer: `Annotated[str | None, option("proxy")]`. `help_`: instead of its own help."""
    one = SETTINGS[key]
    flag = one.flag
    return typer.Option(
        *filter(None, (flag.short, one.long_flag)),
        metavar=flag.metavar,
        help=help_ or (flag.tools if of == "tools" and flag.tools else flag.help),
        hidden=(of if of in ("chat", "tools") else "run") not in flag.listed,
        callback=(lambda given: False if given else None) if flag.off else None,
    )


def with_flags(of: Listing) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds every flag of `ossia run` to a command; its parameter `given` gets them, by setting (None: not given).

    `of` says whose help it is. The chat has flags of its own besides. It and `ossia tools` take all the others too, but
    don't list those that they seldom need.

        @app.command()
        @with_flags("run")
        def run(prompt: …, given: dict[str, object]) -> None: …
    """
    keys = {"chat": _CHAT_KEYS, "acp": _ACP_KEYS, "batch": _BATCH_KEYS, "serve": _SERVE_KEYS}.get(of, _RUN_KEYS)

    def with_them(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [p.replace(annotation=hints[p.name]) for p in signature(command).parameters.values() if p.name != "given"]
        kinds = {key: Annotated[SETTINGS[key].kind.flag | None, option(key, of)] for key in keys}
        flags = [Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for key, kind in kinds.items()]

        @wraps(command)
        def with_flags(**arguments: Any) -> None:
            given = {key: arguments.pop(key) for key in keys}
            command(**arguments, given=given)

        parameters = [*(p.replace(kind=Parameter.KEYWORD_ONLY) for p in own), *flags]
        with_flags.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        del with_flags.__wrapped__  # typer would look at its signature
        return with_flags

    return with_them
