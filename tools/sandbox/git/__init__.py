"""A repository that a command may change: `copy.py` gives it a copy, and takes over what was done there."""
