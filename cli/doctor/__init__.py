"""The checks of `ossia doctor`.

Begin with `check.py`, then `examine.py`, which runs them. `installed.py` has the commands that compile llama.cpp for a
GPU.
"""
