"""Tools of MCP servers: their config file (`config`), the servers and their tools (`servers`).

Begin with `servers`. All of it runs on a thread with a loop of its own (`_thread`).
"""
