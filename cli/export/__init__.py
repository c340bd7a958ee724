"""A session as a file: Markdown, an HTML page, JSON, or other programs' forms. Begin with `forms`."""
