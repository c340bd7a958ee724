"""`ossia eval`: tasks with known answers, run through the same loop, tools and confinement as a user's.

Begin with `task`, then `evaluation` (all of them, one after another), `play` (one of them), `results`. A module for
each suite: `harmony`, `chain`, `sums` (`math`), `repo`.
"""
