"""The user's documents, for the model to search: an index in SQLite (`library`), kept up to date (`indexing`).

Begin with `library`.
"""
