"""Work in a folder: reading, writing, searching and patching files, and commands. A module for each function.

Begin with `read_file`, the shortest one.
"""
