"""What a run, a chat and the commands share: the model and its tools, the session, caches, the library, progress.

Begin with `assemble`, which loads a model and collects its tools (`toolset`, family by family in `families`).
"""
