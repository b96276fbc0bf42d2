"""The Spark of a command, from its arguments, the environment or the project file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from partita.cli.argument_types import name_value_argument
from partita.cli.project import Project

if TYPE_CHECKING:
    from partita.spark.rows import SparkSession


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a Spark."""
    group = parser.add_argument_group("spark", "default: as partita.toml says, or all cores of this machine")
    group.add_argument("--master", metavar="URL", help="local[N], spark://, yarn, k8s://, or sc:// for Spark Connect")
    group.add_argument(
        "--conf", action="append", default=[], type=name_value_argument, metavar="NAME=VALUE",
        help="a Spark property; may be repeated",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start Spark: the URL of Spark Connect, if it is used, and Spark properties."""

    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def spark_settings(arguments: argparse.Namespace, project: Project | None) -> SparkSettings:
    """Return the settings of the arguments, of `SPARK_REMOTE` and of the project, in this order of precedence.

    Properties are merged by name.
    """
    conf = {**({} if project is None else project.spark_conf), **dict(arguments.conf)}
    master = arguments.master
    remote = None if master is not None else os.environ.get("SPARK_REMOTE")
    if master is None and remote is None and project is not None:
        master, remote = project.spark_master, project.spark_remote
    if master is not None and master.startswith("sc://"):
        master, remote = None, master
    return SparkSettings(remote, conf if master is None or remote is not None else {**conf, "spark.master": master})


def start_spark(settings: SparkSettings, time_zone: str) -> SparkSession:
    """Start a Spark session in this time zone, unless the settings name another, and make it that of this process."""
    if settings.remote is None:
        os.environ.pop("SPARK_REMOTE", None)
    else:
        os.environ["SPARK_REMOTE"] = settings.remote
    from partita.spark.session import new_session_time_zone, spark_session

    with new_session_time_zone(time_zone):
        return spark_session(**settings.conf)
