"""`python -m partita.cli` is `partita`."""

import sys

from partita.cli.command import main

sys.exit(main())
