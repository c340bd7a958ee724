"""Markdown as it streams: cut into chunks that are final (`segment`), drawn as rows (`paint`)."""
