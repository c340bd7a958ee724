"""The commands of the chat: each gets the chat, its face, and the argument behind its name.

Begin with `table`, from which `/help` and completion are made.
"""
