"""The chat: a conversation, and the `face` that a terminal gives it.

Begin with `app`, then `chat`, `turn`, `outbox` and `face`. `commands/` carries out lines that begin with `/`, `pager/`
shows the transcript on its own screen.
"""
