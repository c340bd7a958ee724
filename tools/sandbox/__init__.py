"""Confinement of the model's code and commands on this machine.

`choice.py` picks the strongest way available; `job.py` is what is run, with its limits; `account.py` lists what
each way holds back and what not. `_process.py` starts a job and watches its use.
"""

from __future__ import annotations

from ossia.tools.sandbox._interpreter import Interpreter, InterpreterUnusable, inspect
from ossia.tools.sandbox.choice import choose
from ossia.tools.sandbox.confinement import Confinement, ConfinementName, Off, Unconfined
from ossia.tools.sandbox.job import DATA_PATH, PYTHON_LIMITS, SHELL_LIMITS, Job, Launch, Limits

__all__ = [
    "DATA_PATH",
    "PYTHON_LIMITS",
    "SHELL_LIMITS",
    "Confinement",
    "ConfinementName",
    "Interpreter",
    "InterpreterUnusable",
    "Job",
    "Launch",
    "Limits",
    "Off",
    "Unconfined",
    "choose",
    "inspect",
]
