"""The shared parts of run, chat and commands. Begin with `assembly`: a model and its tools by the settings."""
