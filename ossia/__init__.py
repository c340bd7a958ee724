"""ossia: a terminal chat and tool-calling agent for OpenAI's open-weight gpt-oss models, on your own machine.

From Python (docs/python.md):

    from ossia import Agent

    with Agent("gpt-oss-20b") as agent:
        print(agent.ask("What is 48*17?").text)            # 816

Its parts are `ossia.cli`, `ossia.agent`, `ossia.tools` and `ossia.harmony`. In a clone they lie beside this folder. Its
public names are loaded when they are first used; their types stand in `__init__.pyi`.
"""

from os.path import dirname, isdir, join

__version__ = "0.1.0"

if not isdir(join(__path__[0], "cli")):  # noqa: PTH112, PTH118 - pathlib isn't loaded yet
    __path__.append(dirname(__path__[0]))  # noqa: PTH120
del dirname, isdir, join

_PLACES = {
    "api.agent": "Agent",
    "api.model": "Model",
    "agent.stream.events": "Begin Text Reasoning Arguments ToolCall Approval ApprovalDecided ToolStarted ToolOutput "
    "ToolResult Steered Progress Loading Notice Usage Call Source Result Event",
    "errors": "OssiaError ArgumentError AgentBusy AgentClosed",
    "agent.errors": "ModelError ModelNotFound ModelUnusable DoesNotFit OutOfMemory ContextFull AddressUnusable "
    "SettingRefused EngineFailed SchemaUnusable SessionsError SessionMissing SessionUnclear SessionInUse",
    "tools.functions": "FunctionsError FunctionsInvalid",
}
_HOMES = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    """A public name, loaded with its module."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ossia' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"ossia.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
