"""What the commands of the chat do. `cli/commands.py` is their table."""
