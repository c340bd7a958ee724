"""The shell commands besides the chat: `ossia run`, `ossia models`, `ossia docs` and others, a module each.

`cli.app` lists them. A module named after a command reads its flags; one that ends in `_report`, `_list` or `_call`
does its work.
"""
