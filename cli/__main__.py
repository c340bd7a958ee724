"""`python -m cli`: for the clone. (An installed ossia is called by its name: here the current folder comes first.)"""

from __future__ import annotations

import sys

from cli.main import main

sys.exit(main())
