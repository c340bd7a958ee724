"""The settings: `table` declares each of them once, `config` finds out their values and where those came from.

`flags` makes the flags of commands from the table; `workspace`, `rules` and `mcp` open what the settings name.
"""
