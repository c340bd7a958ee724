"""`python -m ossia` runs a clone. (Call an installed ossia by its name: `-m` puts the current folder on `sys.path`.)"""

from __future__ import annotations

import sys

from ossia.cli.main import main

sys.exit(main())
