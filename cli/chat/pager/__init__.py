"""The transcript of a conversation (`transcript`), and reading it on a screen of its own (`pager`).

Begin with `transcript`. What is shown is made from its items, by `sections`, and only what is in sight (`scroll`).
"""
