"""The settings: `table` declares each of them once, `config` finds out their values and where those came from.

`workspace` and `mcp` open what the settings name.
"""
