"""What the commands of the chat do: each gets the conversation, its face, and what stands behind its name.

Begin with `table`, from which `/help` and completion are made.
"""
