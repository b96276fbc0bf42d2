"""Where plans and runs join the site: whether this server may start any.

Previews of plans, runs and their progress become operations of `partita.web.api` and pages of `partita.web.pages`, with
what they need kept here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runs:
    """`allowed` only where the server was started with `--allow-run`."""

    allowed: bool = False
