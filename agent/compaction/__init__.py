"""Makes room in the context: results become notes, the oldest turns become a summary.

Begin with `compaction`; `_shortening` cuts single texts.
"""
