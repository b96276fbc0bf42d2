"""Which lake a command speaks of: `--lake`, `--tenant` and `--workspace`, the environment, or the project's file."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from partita.cli.project import Project, find_project

if TYPE_CHECKING:
    from partita.lake import Lake


def add_lake(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which lake."""
    where = parser.add_argument_group("where", "what is not said, the nearest partita.toml may say")
    where.add_argument("--lake", metavar="URI", help="the lake; else $PARTITA_LAKE, or the folder where you are")
    where.add_argument("--tenant", metavar="NAME", help="else $PARTITA_TENANT, or 'default'")
    where.add_argument("--time-zone", metavar="ZONE", help="of times that name none; else $PARTITA_TIME_ZONE, or 'UTC'")
    where.add_argument("--workspace", metavar="NAME", help="else $PARTITA_WORKSPACE, or 'default'")


def open_lake(arguments: argparse.Namespace) -> Lake:
    """The lake that the arguments name, or the environment, or the project where you are."""
    return lake_of(arguments, find_project())


def lake_of(arguments: argparse.Namespace, project: Project | None) -> Lake:
    """The same for a project that was found before.

    Options and catalog are those of the project's own lake, and not of another that was named instead.
    """
    from partita.lake import Lake

    uri = _given(arguments.lake, "PARTITA_LAKE")
    own = project if uri is None else None
    return Lake(
        uri if uri is not None else "." if project is None else project.lake_uri,
        tenant=_name(arguments.tenant, "PARTITA_TENANT", None if project is None else project.tenant),
        workspace=_name(arguments.workspace, "PARTITA_WORKSPACE", None if project is None else project.workspace),
        options=None if own is None else own.options,
        catalog=None if own is None else own.catalog,
        time_zone=_name(
            arguments.time_zone, "PARTITA_TIME_ZONE", None if project is None else project.time_zone, "UTC"
        ),
    )


def _given(value: str | None, variable: str) -> str | None:
    return value if value is not None else os.environ.get(variable) or None


def _name(value: str | None, variable: str, in_project: str | None, otherwise: str = "default") -> str:
    given = _given(value, variable)
    return given if given is not None else in_project if in_project is not None else otherwise
