"""A session as a file: Markdown, an HTML page, our JSON, or other programs' forms.

Begin with `forms`, which knows all of them.
"""
