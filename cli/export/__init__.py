"""A session as a file: Markdown, a page, JSON, the forms of others.

Begin with `forms`, which knows all of them.
"""
