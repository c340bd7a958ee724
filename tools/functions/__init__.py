"""The user's functions as tools: found in a file or a package (`user`), described by their type hints (`schema`).

Begin with `user`.
"""
