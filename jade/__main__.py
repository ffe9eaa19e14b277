"""Make ``python -m jade`` the same as ``jade``."""

import sys

from jade.cli import main

sys.exit(main())
