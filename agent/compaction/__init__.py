"""Makes room in the context: results become notes, the oldest turns become a summary.

Begin with `compaction`, which decides; `_shortening` and `_summing_up` do it.
"""
