"""Markdown as it streams: cut into chunks that are final (`segment`), drawn as rows (`paint`).

Begin with these two; the modules with an underscore draw one kind of block each.
"""
