"""Conversations: a session in memory (`session`), as JSON (`json`), in SQLite (`store`).

Begin with `session`. The modules with an underscore are the store's tables and locks; only `store` imports them.
"""
