"""The toolchains in the user's home: those that a command may see, found without running anything."""

from ossia.tools.toolchains.find import find_toolchains

__all__ = ["find_toolchains"]
