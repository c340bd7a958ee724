"""Files as they were before a turn changed them.

Begin with `journal`; `restore` gives them back, `snapshot` and `tree` see what a command changed.
"""
