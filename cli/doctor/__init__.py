"""What `ossia doctor` looks at: one small check a function, each of which only reads, and the report.

Begin with `finding.py`, then `examine.py`, which runs the checks. `rebuild.py` has the commands that compile llama.cpp
for a GPU.
"""
