"""The parts that a run, a chat and the commands share. Begin with `assembly`: a model and its tools by the settings."""
