"""`ossia eval`: tasks with known answers, run through the same loop, tools and confinement as a user's.

Begin with `task` (what a task is), then `evaluation` (all of them, one after another), `play` (one of them), `keep`
(results on disk). A module for each suite: `harmony`, `chain`, `sums` (`math`), the folder `repo`.
"""
