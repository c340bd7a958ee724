"""The flags that commands share, each once: its type, its name and its help.

    @with_run_flags
    def run(prompt: …, given: dict[str, object]) -> None: …

None means "not given". `cli.config` says what each may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_type_hints

import typer

Model = Annotated[
    str | None, typer.Option(metavar="PATH|NAME", help="A GGUF file, or etude, gpt-oss-20b, gpt-oss-120b.")
]
Engine = Annotated[
    str | None, typer.Option(metavar="ENGINE", help="llama, or script:FILE to replay given completions.")
]
Effort = Annotated[str | None, typer.Option(metavar="LEVEL", help="How much to think: low, medium or high.")]
Instructions = Annotated[str | None, typer.Option(metavar="TEXT|@FILE", help="Instructions for the whole turn.")]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="FILE.py: its functions, too. python, browser: these in place of both. PACKAGE: its tools.",
    ),
]
NoTools = Annotated[bool | None, typer.Option("--no-tools", help="No tools at all.")]
Workspace = Annotated[
    str | None, typer.Option(metavar="DIR", help="Let the model work in a folder: read, search, write, run commands.")
]
Trust = Annotated[bool | None, typer.Option("--trust", help="Trust the workspace's own rules and files, this once.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME[:PATTERN]", help="Allow a tool's calls, as in 'shell:git status*'. Repeatable."),
]
Deny = Annotated[
    list[str] | None, typer.Option(metavar="NAME[:PATTERN]", help="Never allow these calls; wins. Repeatable.")
]
Yes = Annotated[bool | None, typer.Option("--yes", help="Say yes to what is asked, but for what only you may allow.")]
StrictApprovals = Annotated[
    bool | None, typer.Option("--strict-approvals", help="Exit with 8 if nobody could be asked about a call.")
]
DryRun = Annotated[bool | None, typer.Option("--dry-run", help="Show writes and commands, carry none out.")]
Web = Annotated[
    str | None,
    typer.Option(
        metavar="URL|NAME",
        help="Search the web: a SearXNG's address, or brave, exa, mojeek, serper, tavily, you, ddgs.",
    ),
]
WebKey = Annotated[
    str | None, typer.Option(metavar="VARIABLE", help="The environment variable that holds the service's key.")
]
WebUrl = Annotated[str | None, typer.Option(metavar="URL", help="Another address for the service of --web.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST[:PORT]", help="Let pages of this private host be read. Repeatable."),
]
Proxy = Annotated[str | None, typer.Option(metavar="URL", help="An HTTP proxy for web pages and searches.")]
Python = Annotated[str | None, typer.Option(metavar="PATH", help="The Python that runs the model's code.")]
Unconfined = Annotated[bool | None, typer.Option("--unconfined", help="Run code even where nothing confines it.")]
ShowThinking = Annotated[bool | None, typer.Option("--show-thinking", help="Show the chain of thought, on stderr.")]
Verbose = Annotated[bool | None, typer.Option("--verbose", help="Say more, on stderr.")]
Quiet = Annotated[bool | None, typer.Option("--quiet", help="On stderr only errors, and what a command planted.")]
Guide = Annotated[
    bool | None,
    typer.Option(
        "--no-guide",
        help="Don't hold the model to valid headers, arguments and answers.",
        callback=lambda given: False if given else None,
    ),
]
MaxTokens = Annotated[int | None, typer.Option(metavar="N", help="Generate at most N tokens, thinking included.")]
Temperature = Annotated[float | None, typer.Option(metavar="T", help="Randomness; 0 is greedy. [default: 1.0]")]
TopP = Annotated[
    float | None, typer.Option(metavar="P", help="Keep the likeliest tokens that make up P. [default: 1.0]")
]
TopK = Annotated[int | None, typer.Option(metavar="K", help="Keep the K likeliest tokens; 0: all. [default: 0]")]
MinP = Annotated[
    float | None, typer.Option(metavar="P", help="Drop tokens below P times the likeliest. [default: 0.0]")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Make the drawing of tokens repeatable.")]
Context = Annotated[str | None, typer.Option(metavar="N|max", help="Context size in tokens. [default: what fits]")]
Threads = Annotated[int | None, typer.Option(metavar="N", help="Threads of the CPU. [default: its cores]")]
GpuLayers = Annotated[int | None, typer.Option(metavar="N", help="Layers on the GPU. [default: all that fit]")]
Repack = Annotated[
    str | None,
    typer.Option(metavar="HOW", help="A second copy of the weights, faster: auto (in a chat, where it fits), on, off."),
]
Timeout = Annotated[float | None, typer.Option(metavar="S", help="End the turn after S seconds, loading not counted.")]
Raw = Annotated[bool | None, typer.Option("--raw", help="Print the Harmony stream as it comes.")]
Json = Annotated[bool | None, typer.Option("--json", help="Print one line of JSON about the whole turn.")]
Private = Annotated[bool | None, typer.Option("--private", help="Store nothing, not even what the prompt begins with.")]


_ALL: dict[str, object] = {
    "model": Model,
    "engine": Engine,
    "effort": Effort,
    "instructions": Instructions,
    "tools": Tools,
    "no_tools": NoTools,
    "workspace": Workspace,
    "trust": Trust,
    "allow": Allow,
    "deny": Deny,
    "yes": Yes,
    "strict_approvals": StrictApprovals,
    "dry_run": DryRun,
    "web": Web,
    "web_key": WebKey,
    "web_url": WebUrl,
    "allow_host": AllowHost,
    "proxy": Proxy,
    "python": Python,
    "unconfined": Unconfined,
    "show_thinking": ShowThinking,
    "verbose": Verbose,
    "quiet": Quiet,
    "guide": Guide,
    "max_tokens": MaxTokens,
    "temperature": Temperature,
    "top_p": TopP,
    "top_k": TopK,
    "min_p": MinP,
    "seed": Seed,
    "context": Context,
    "threads": Threads,
    "gpu_layers": GpuLayers,
    "repack": Repack,
    "timeout": Timeout,
    "raw": Raw,
    "json": Json,
    "private": Private,
}
"""The flags of `ossia run`, by their setting, in the order of its help."""


def _hidden(kind: Any) -> object:
    """The same flag, taken and not listed in the help."""
    holds, option = get_args(kind)
    option = copy(option)
    option.hidden = True
    return Annotated[holds, option]


_OF_THE_CHAT: dict[str, object] = {
    "think": Annotated[
        str | None,
        typer.Option(metavar="HOW", help="The chain of thought: off (default), on, or peek: its last lines."),
    ],
    "bell": Annotated[float | None, typer.Option(metavar="S", help="Ring after turns of S seconds. [default: 20]")],
    "vi": Annotated[bool | None, typer.Option("--vi", help="Keys as in vi.")],
    "prefill_ahead": Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Read the prompt while you type: auto (default: spares others), on, off."),
    ],
    "private": Annotated[bool | None, typer.Option("--private", help="Store nothing of this chat.")],
}
_USUAL_IN_A_CHAT = frozenset(
    {"model", "engine", "effort", "instructions", "tools", "no_tools", "workspace", "trust", "allow", "web", "context"}
)
_OF_THE_MODEL = frozenset(
    {"engine", "effort", "instructions", "show_thinking", "max_tokens", "context", "threads", "gpu_layers", "raw"}
    | {"temperature", "top_p", "top_k", "min_p", "seed", "repack", "guide", "private"}
)
_FOR_TOOLS: dict[str, object] = {
    **{name: _hidden(kind) if name in _OF_THE_MODEL else kind for name, kind in _ALL.items()},
    "timeout": Annotated[float | None, typer.Option(metavar="S", help="End a call after S seconds.")],
    "json": Annotated[bool | None, typer.Option("--json", help="Print JSON, a line for each answer.")],
}


def with_run_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every flag of `ossia run` added; its parameter `given` gets them, by setting (None: not given).

    @app.command()
    @with_run_flags
    def run(prompt: …, given: dict[str, object]) -> None: …
    """
    return _with(command, _ALL)


def with_chat_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The same for the chat, with its own flags: all are taken, those that are seldom wanted there are not listed."""
    kinds = {name: kind if name in _USUAL_IN_A_CHAT else _hidden(kind) for name, kind in _ALL.items()}
    return _with(command, kinds | _OF_THE_CHAT)


def with_tool_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The same, for a command that calls tools by hand: flags that only a model needs are taken, but not listed."""
    return _with(command, _FOR_TOOLS)


def _with(command: Callable[..., None], kinds: Mapping[str, object]) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=hints[p.name]) for p in signature(command).parameters.values() if p.name != "given"]
    flags = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in kinds.items()]

    @wraps(command)
    def with_flags(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in kinds}
        command(**arguments, given=given)

    parameters = [*(p.replace(kind=Parameter.KEYWORD_ONLY) for p in own), *flags]
    with_flags.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_flags.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    del with_flags.__wrapped__  # typer would look at its signature
    return with_flags
