"""How the model's code and its commands are confined on this machine, and what is not confined.

`choice.py` takes the strongest way there is; `confinement.py` says what each has in common, `job.py` what is run, with
its limits; `account.py` what holds and what doesn't. `_process.py` starts a job and watches over what it uses.
"""

from __future__ import annotations

from tools.sandbox._interpreter import Interpreter, InterpreterUnusable, inspect
from tools.sandbox.choice import choose
from tools.sandbox.confinement import Confinement, ConfinementName, Off, Unconfined
from tools.sandbox.job import DATA_PATH, PYTHON_LIMITS, SHELL_LIMITS, Job, Launch, Limits

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
