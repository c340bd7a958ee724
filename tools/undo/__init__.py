"""Files as they were before a turn changed them.

Begin with `journal`; `restore` puts them back; `snapshot` and `tree` find what a command changed.
"""
