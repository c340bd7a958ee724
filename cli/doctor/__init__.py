"""The checks of `ossia doctor`. Begin with `check.py`, then `examine.py`, their runner."""
