"""The chat: a `conversation`, and the `face` that a terminal gives it.

Begin with `app`, which brings the two together, then `conversation` and `face`. `commands/` holds what begins with
`/`, `pager/` the transcript on a screen of its own.
"""
