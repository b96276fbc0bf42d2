"""One catalog, in Postgres, behind REST, in a Hive metastore or in Glue, that several engines share."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from moto import mock_aws
from pyiceberg.catalog import load_catalog

import partita as pt
from partita.errors import TableExists, TableMissing
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.hive_server import free_port, run_metastore
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.rest_server import run_rest_server
from tests.formats.iceberg.tables import check_layout, read_with_pyiceberg, with_catalog, with_jdbc_catalog
from tests.formats.iceberg.test_evolution import SCHEMA, orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLACES = "/usr/lib/postgresql/*/bin"


def program(name: str) -> str:
    """A program of Postgres, which the system's package brings; root installs it where it is missing."""
    for _ in range(2):
        path = shutil.which(name) or next((str(p) for p in sorted(Path("/").glob(f"{_PLACES[1:]}/{name}"))), None)
        if path is not None:
            return path
        if os.geteuid() == 0 and shutil.which("apt-get"):
            settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", "install", "-y", "-qq", "postgresql"], check=True, env=settings)  # noqa: S607
    pytest.fail(f"no {name}; install your system's package of PostgreSQL")


def as_postgres(*command: str) -> list[str]:
    """A command as a user that Postgres lets start a server, which root isn't."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else list(command)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of its own, as host, port and database."""
    folder = Path("/tmp") / f"partita-postgres-{os.getpid()}"  # noqa: S108 - pytest's folders are root's alone
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    port = free_port()
    data = str(folder / "data")
    subprocess.run(
        as_postgres(program("initdb"), "-D", data, "-U", "lake", "-A", "trust", "--no-sync"),
        check=True, capture_output=True, cwd="/",
    )  # fmt: skip
    options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off"
    control = as_postgres(program("pg_ctl"), "-D", data, "-w", "-l", str(folder / "log"))
    subprocess.run([*control, "-o", options, "start"], check=True, stdout=subprocess.DEVNULL, cwd="/")
    try:
        yield f"127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd="/")
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Shared:
    """A catalog as pyiceberg and Partita are told of it, and as the JVM is."""

    ours: dict[str, str]
    jvm: SparkSession


@pytest.fixture
def postgres(spark: SparkSession, tmp_path: Path, server: str) -> Shared:
    ours = {"name": "ice", "type": "sql", "uri": f"postgresql+psycopg2://lake@{server}", "warehouse": str(tmp_path)}
    uri, more = f"jdbc:postgresql://{server}", {"jdbc.user": "lake"}
    return Shared(ours, with_jdbc_catalog(spark, uri, f"file://{tmp_path}", "ice", **more))


@pytest.fixture
def rest(spark: SparkSession, tmp_path: Path) -> Iterator[Shared]:
    with run_rest_server(tmp_path) as running:
        ours = {"name": "ice", "type": "rest", "uri": running.uri}
        yield Shared(ours, with_catalog(spark, "ice", {"type": "rest", "uri": running.uri}))
        commits = [path for method, path in running.seen if method == "POST" and path.endswith("/tables/orders")]
        assert len(commits) == 7, "three of Partita's, three of the JVM's, and pyiceberg's"


@pytest.fixture
def hive(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with run_metastore(tmp_path_factory.mktemp("hive")) as uri:
        # The metastore that Spark brings is of version 2.
        ours = {"name": "ice", "type": "hive", "uri": uri, "warehouse": str(tmp_path), "hive.hive2-compatible": "true"}
        settings = {"type": "hive", "uri": uri, "warehouse": f"file://{tmp_path}"}
        yield Shared(ours, with_catalog(spark, "ice", settings))


@pytest.mark.parametrize("kind", ["postgres", "rest", pytest.param("hive", marks=pytest.mark.long)])
def test_three_engines_share_a_catalog(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    shared: Shared = request.getfixturevalue(kind)
    ours, jvm = shared.ours, shared.jvm
    lake = pt.Lake(str(tmp_path), catalog=ours)
    table = lake.create_table("sales.orders", SCHEMA, format="iceberg", partition_by=[pt.day("ts")])
    table.append(orders(0, 18))
    catalog = load_catalog(**ours)
    truth = ReferenceTable(spark, orders(0, 18))

    def check_all_readers() -> None:
        rows = sorted_rows(lake.table("sales.orders").read())
        assert rows == sorted_rows(jvm.table("ice.sales.orders"))
        assert rows == sorted_rows(catalog.load_table("sales.orders").scan().to_arrow())
        assert rows == truth.rows

    jvm.sql("alter table ice.sales.orders add partition field region")
    jvm.createDataFrame(orders(18, 9)).writeTo("ice.sales.orders").append()
    truth.append(orders(18, 9))
    catalog.load_table("sales.orders").append(orders(27, 9))
    truth.append(orders(27, 9))
    check_all_readers()
    table.delete("amount % 4 = 2")
    truth.delete("amount % 4 = 2")
    table.update({"region": "note"}, "id % 7 = 1")
    truth.update({"region": "note"}, "id % 7 = 1")
    jvm.sql("delete from ice.sales.orders where id % 5 = 3")
    truth.delete("id % 5 = 3")
    check_all_readers()
    check_layout(table, piled=True)
    # What the others make is found, by the lake and by its name in the catalog; what is there is not made again.
    jvm.sql("create table ice.sales.made (id bigint) using iceberg")
    jvm.sql("insert into ice.sales.made values (1), (2)")
    created = pt.open_table("sales.made", catalog=ours, format="iceberg")
    created.delete("id = 1")
    assert (
        sorted_rows(created.read())
        == sorted_rows(jvm.table("ice.sales.made"))
        == sorted_rows(read_with_pyiceberg(created))
        == [(2,)]
    )
    for name in ("sales.made", "sales.orders"):
        with pytest.raises(TableExists):
            lake.create_table(name, SCHEMA, format="iceberg")
    assert not (tmp_path / "catalog.db").exists()


def test_pyiceberg_and_partita_share_a_catalog_in_glue(spark: SparkSession, tmp_path: Path) -> None:
    keys = {"client.access-key-id": "any", "client.secret-access-key": "any", "client.region": "eu-central-1"}
    ours = {"name": "ice", "type": "glue", "warehouse": str(tmp_path), **keys}
    with mock_aws():
        lake = pt.Lake(str(tmp_path), catalog=ours)
        table = lake.create_table("sales.orders", SCHEMA, format="iceberg", partition_by=[pt.day("ts")])
        table.append(orders(0, 18))
        theirs = load_catalog(**ours)
        theirs.load_table("sales.orders").append(orders(18, 9))
        table.evolve(add=["region"])
        table.delete("amount % 4 = 2")
        table.update({"note": "region"}, "id % 7 = 1")
        truth = ReferenceTable(spark, orders(0, 27))
        truth.delete("amount % 4 = 2")
        truth.update({"note": "region"}, "id % 7 = 1")
        assert sorted_rows(lake.table("sales.orders").read()) == truth.rows
        assert sorted_rows(theirs.load_table("sales.orders").scan().to_arrow()) == truth.rows
        check_layout(table)
        with pytest.raises(TableExists):
            lake.create_table("sales.orders", SCHEMA, format="iceberg")
        with pytest.raises(TableMissing, match=r"sales\.none"):
            pt.open_table("sales.none", catalog=ours, format="iceberg")
