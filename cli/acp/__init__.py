"""The Agent Client Protocol, version 1 (agentclientprotocol.com): ossia in an editor, over stdin and stdout.

Begin with `server.py`.
"""
