"""`ossia serve`: the Responses and Chat Completions APIs over HTTP, for other programs.

Begin with `server.py`.
"""
