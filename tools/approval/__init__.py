"""May a call run? Rules and the defaults without them (`policy`); what the user stored (`trust`).

Begin with `policy`. `sensitive` and `autorun` know the files that are secret, or that run or instruct later tools.
"""
