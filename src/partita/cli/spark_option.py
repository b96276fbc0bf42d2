"""Which Spark a command works on: `--master` and `--conf`, the environment, or the project's file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from partita.cli.pair import pair
from partita.cli.project import Project

if TYPE_CHECKING:
    from partita.spark.rows import SparkSession


def add_spark(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which Spark."""
    on = parser.add_argument_group("on", "else as partita.toml says, or all cores of this machine")
    on.add_argument("--master", metavar="URL", help="local[N], spark://, yarn, k8s://; sc:// is Spark Connect")
    on.add_argument("--conf", action="append", default=[], type=pair, metavar="NAME=VALUE", help="a setting of Spark")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A Spark: the remote of Spark Connect, or else a master where one was named, and settings."""

    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def chosen(arguments: argparse.Namespace, project: Project | None) -> Chosen:
    """What the arguments say, then `SPARK_REMOTE`, then the project; settings of the arguments win one by one."""
    conf = {**({} if project is None else project.conf), **dict(arguments.conf)}
    master = arguments.master
    remote = None if master is not None else os.environ.get("SPARK_REMOTE")
    if master is None and remote is None and project is not None:
        master, remote = project.master, project.remote
    if master is not None and master.startswith("sc://"):
        master, remote = None, master
    return Chosen(remote, conf if master is None or remote is not None else {**conf, "spark.master": master})


def start_spark(wanted: Chosen, time_zone: str) -> SparkSession:
    """The session, in that time zone unless a setting says another; this process speaks with it from now on."""
    if wanted.remote is None:
        os.environ.pop("SPARK_REMOTE", None)
    else:
        os.environ["SPARK_REMOTE"] = wanted.remote
    from partita.spark.session import session, started_in

    with started_in(time_zone):
        return session(**wanted.conf)
