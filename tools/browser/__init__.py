"""The trained built-in tool `browser`: search, open, find, over the web and a local library. Begin with `browser`."""
