"""ossia: a terminal chat and tool-calling agent for OpenAI's open-weight gpt-oss models, on your own machine.

Its parts are `ossia.cli`, `ossia.agent`, `ossia.tools` and `ossia.harmony`. In a clone they lie beside this folder.
"""

from os.path import dirname, isdir, join

__version__ = "0.1.0"

if not isdir(join(__path__[0], "cli")):  # noqa: PTH112, PTH118 - pathlib isn't loaded yet
    __path__.append(dirname(__path__[0]))  # noqa: PTH120
del dirname, isdir, join
