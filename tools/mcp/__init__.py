"""Tools of MCP servers: their config file (`config`), the servers and their tools (`servers`).

Begin with `servers`. All of it runs on a separate thread with its own asyncio loop (`_thread`).
"""
