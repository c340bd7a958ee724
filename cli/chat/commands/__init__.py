"""What the commands of the chat do: each gets the conversation, its face, and what was typed behind its name.

Begin with `table`, from which `/help` and completion are made.
"""
