"""The input line: typing, pasting, completion, history, the user's own editor. Begin with `editor`."""
