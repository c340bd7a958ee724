"""The toolchains in the user's home: those that a command may see, found without running anything."""

from ossia.tools.toolchains.find import find_toolchains
from ossia.tools.toolchains.places import READABLE
from ossia.tools.toolchains.summary import in_words

__all__ = ["READABLE", "find_toolchains", "in_words"]
