"""Allowing calls: rules and the defaults without them (`policy`), stored answers and trusted folders (`trust`).

Begin with `policy`. `sensitive` and `autorun` know the files that are secret, or that run or instruct later tools.
"""
