"""Executors get Partita and the code of a project as archives."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from partita.spark.artifacts import add_code_artifacts, make_archive, needs_artifacts
from tests.cli.terminal import PARTITA_COMMAND
from tests.conftest import RunInConnect
from tests.spark.standalone_cluster import run_standalone_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDING = """
import pathlib, sys
sys.path[:] = [place for place in sys.path if not (pathlib.Path(place) / "partita").is_dir()]
"""
"""Removes every folder with a checkout of Partita from the path when Python starts."""
PIPELINE = """
from pyspark.sql import functions as F

import partita as pt
from places import place

DAYS = pt.daily("date", start="2025-01-01", end="2025-01-09")


@pt.asset(table="placed", partitions=DAYS)
def placed(ctx):
    days = sorted(key["date"] for key in ctx.keys)
    first = F.lit(days[0])
    numbers = ctx.spark.range(0, 10 * len(days), 1, len(days))
    return numbers.select(
        "id", F.date_add(first, (F.col("id") / 10).cast("int")).alias("date"), F.udf(place)("id").alias("place")
    )
"""
PLACES = """
import os
import time


def place(number):
    # Long enough for the other executor to get tasks too.
    time.sleep(0.05)
    import partita
    import partita.algebra.key

    return os.path.abspath(partita.__file__)
"""


@pytest.mark.jvm
def test_a_run_on_two_workers_that_have_no_partita(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDING)
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "pipeline.py").write_text(PIPELINE)
    (shop / "places.py").write_text(PLACES)
    with run_standalone_cluster(tmp_path, 2, PYTHONPATH=str(hidden)) as url:
        (shop / "partita.toml").write_text(
            f'[lake]\nuri = "lake"\n[pipeline]\nmodule = "pipeline"\n[spark]\nmaster = "{url}"\n'
            "[spark.conf]\n"
            'spark.driver.host = "127.0.0.1"\nspark.driver.bindAddress = "127.0.0.1"\n'
            'spark.executor.memory = "512m"\nspark.ui.enabled = false\nspark.sql.shuffle.partitions = 2\n'
            # Executors live for one job over a few rows, as the tests' own JVM does.
            'spark.executor.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"\n'
            'spark.sql.codegen.wholeStage = false\nspark.sql.codegen.factoryMode = "NO_CODEGEN"\n'
            # Both executors register before the first task is scheduled.
            "spark.scheduler.minRegisteredResourcesRatio = 1.0\nspark.cores.max = 2\n"
            'spark.scheduler.maxRegisteredResourcesWaitingTime = "120s"\n'
        )
        process = subprocess.run(
            [PARTITA_COMMAND, "run"],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=shop,
            capture_output=True,
            text=True,
            check=False,
        )
    assert process.returncode == 0, process.stdout + process.stderr[-5000:]
    rows = DeltaTable(shop / "lake" / "placed").to_pyarrow_table().sort_by("id")
    assert rows["id"].to_pylist() == list(range(80))
    assert [day.day for day in rows["date"].to_pylist()] == [1 + number // 10 for number in range(80)]
    places = set(rows["place"].to_pylist())
    assert all("partita-shipped-partita-" in place for place in places), places
    for worker in ("worker-0", "worker-1"):
        assert [place for place in places if f"/{worker}/" in place], places


CONNECT = """
import os
import sys
from partita.spark import spark_session
from partita.spark.artifacts import add_code_artifacts

spark = spark_session()
assert not add_code_artifacts(spark, sys.argv[1])
# As if the server ran on another machine.
local = os.environ.pop("SPARK_LOCAL_REMOTE")
names = add_code_artifacts(spark, sys.argv[1])
assert names == add_code_artifacts(spark, sys.argv[1])
spark.conf.set("spark.sql.execution.pyspark.udf.faulthandler.enabled", "false")

def place(_):
    import far_away
    return far_away.__file__

from pyspark.sql import functions as F
print(spark.range(1).select(F.udf(place)("id")).first()[0])
os.environ["SPARK_LOCAL_REMOTE"] = local
"""


def test_a_connect_server_gets_the_code(run_in_connect: RunInConnect, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "far_away.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text(CONNECT)
    path = run_in_connect(script, str(code)).strip().splitlines()[-1]
    assert "partita-shipped-code-" in path


def test_a_local_spark_gets_nothing(spark: SparkSession) -> None:
    assert not needs_artifacts(spark)
    assert add_code_artifacts(spark, "/nowhere") == []


def test_an_archive_has_only_python_files_of_the_project(tmp_path: Path) -> None:
    for path in (
        "pipeline.py", "shop/__init__.py", "shop/orders.py", "data.csv", ".hidden/x.py", "venv/pyvenv.cfg",
        "venv/lib/x.py", "lake/_partita/x.py", "lake/raw/orders/y.py", "shop/__pycache__/x.py", "raw/_delta_log/x.py",
        "raw/region=us/x.py",
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# {path}\n")
    archive = make_archive(tmp_path)
    with zipfile.ZipFile(archive) as content:
        assert content.namelist() == ["pipeline.py", "shop/__init__.py", "shop/orders.py"]
    os.utime(tmp_path / "pipeline.py", (0, 0))
    assert make_archive(tmp_path) == archive
    (tmp_path / "pipeline.py").write_text("# another\n")
    assert make_archive(tmp_path) != archive


def test_the_archive_has_the_whole_package() -> None:
    import partita

    package = Path(partita.__file__).parent
    with zipfile.ZipFile(make_archive(package, "partita")) as content:
        names = set(content.namelist())
    assert names == {f"partita/{path.relative_to(package)}" for path in package.rglob("*.py")}
