"""Which lake a command speaks of: `--lake`, `--tenant` and `--workspace`, or the environment."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partita.lake import Lake


def add_lake(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which lake."""
    where = parser.add_argument_group("where")
    where.add_argument("--lake", metavar="URI", help="the lake; else $PARTITA_LAKE, or the folder where you are")
    where.add_argument("--tenant", metavar="NAME", help="else $PARTITA_TENANT, or 'default'")
    where.add_argument("--workspace", metavar="NAME", help="else $PARTITA_WORKSPACE, or 'default'")


def open_lake(arguments: argparse.Namespace) -> Lake:
    """The lake that the arguments name."""
    from partita.lake import Lake

    return Lake(
        _given(arguments.lake, "PARTITA_LAKE", "."),
        tenant=_given(arguments.tenant, "PARTITA_TENANT", "default"),
        workspace=_given(arguments.workspace, "PARTITA_WORKSPACE", "default"),
    )


def _given(value: str | None, variable: str, otherwise: str) -> str:
    return value if value is not None else os.environ.get(variable) or otherwise
