"""The transcript of a conversation (`transcript`), and reading it on a screen of its own (`pager`).

Begin with `transcript`: what is shown is made from its items, by `sections` for what is in sight (`scroll`).
"""
