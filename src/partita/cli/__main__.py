"""`python -m partita.cli` runs the command `partita`."""

import sys

from partita.cli.command import main

sys.exit(main())
