"""The lake of a command, from its arguments, the environment or the project file."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from partita.cli.project import Project, find_project

if TYPE_CHECKING:
    from partita.lake import Lake


def add_lake_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a lake."""
    group = parser.add_argument_group("lake", "the nearest partita.toml may set other defaults")
    group.add_argument("--lake", metavar="URI", help="location (default: $PARTITA_LAKE, or the current folder)")
    group.add_argument("--tenant", metavar="NAME", help="tenant (default: $PARTITA_TENANT, or 'default')")
    group.add_argument(
        "--time-zone", metavar="ZONE", help="zone of times without an offset (default: $PARTITA_TIME_ZONE, or UTC)"
    )
    group.add_argument("--workspace", metavar="NAME", help="workspace (default: $PARTITA_WORKSPACE, or 'default')")


def open_lake(arguments: argparse.Namespace) -> Lake:
    """Return the lake that the arguments, the environment or the current project name."""
    return lake_from_arguments(arguments, find_project())


def lake_from_arguments(arguments: argparse.Namespace, project: Project | None) -> Lake:
    """Return the lake that the arguments, the environment or this project name.

    The storage options and the catalog of the project apply only to the project's own lake.
    """
    from partita.lake import Lake

    uri = _argument_or_variable(arguments.lake, "PARTITA_LAKE")
    lake_project = project if uri is None else None
    return Lake(
        uri if uri is not None else "." if project is None else project.lake_uri,
        tenant=_setting(arguments.tenant, "PARTITA_TENANT", None if project is None else project.tenant),
        workspace=_setting(arguments.workspace, "PARTITA_WORKSPACE", None if project is None else project.workspace),
        options=None if lake_project is None else lake_project.lake_options,
        catalog=None if lake_project is None else lake_project.lake_catalog,
        time_zone=_setting(
            arguments.time_zone, "PARTITA_TIME_ZONE", None if project is None else project.time_zone, "UTC"
        ),
    )


def _argument_or_variable(value: str | None, variable: str) -> str | None:
    return value if value is not None else os.environ.get(variable) or None


def _setting(value: str | None, variable: str, project_value: str | None, default: str = "default") -> str:
    choices = (_argument_or_variable(value, variable), project_value, default)
    return next(choice for choice in choices if choice is not None)
