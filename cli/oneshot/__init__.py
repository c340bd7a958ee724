"""`ossia run` at work: one prompt, one turn, the answer on stdout.

Begin with `once`. `output` writes stdout, `report` is the account of the turn, `ask` the questions on a terminal.
"""
