"""The settings: `table` declares each of them once, `config` finds out their values and where those came from.

`workspace`, `rules` and `mcp` open what the settings name.
"""
