"""What a run and a chat are made of: the model with its tools, progress, kept caches, words for questions and failures.

Begin with `assemble`, which loads a model and collects its tools (`toolset`).
"""
