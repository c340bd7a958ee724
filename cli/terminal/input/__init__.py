"""The input line: typing, pasting, completion, history, the user's own editor.

Begin with `editor`; `typed` is what comes out of it.
"""
