"""Partita and a project's code on executors that have neither."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from partita.spark.shipping import archive_of, needs_shipping, ship
from tests.cli.terminal import PARTITA
from tests.conftest import RunInConnect
from tests.spark.standalone import standalone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDING = """
import pathlib, sys
sys.path[:] = [place for place in sys.path if not (pathlib.Path(place) / "partita").is_dir()]
"""
"""Takes every folder with a checkout of Partita off the path, as Python starts."""
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
    # Long enough for the other executor to take a part as well.
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
    with standalone(tmp_path, 2, PYTHONPATH=str(hidden)) as url:
        (shop / "partita.toml").write_text(
            f'[lake]\nuri = "lake"\n[pipeline]\nmodule = "pipeline"\n[spark]\nmaster = "{url}"\n'
            "[spark.conf]\n"
            'spark.driver.host = "127.0.0.1"\nspark.driver.bindAddress = "127.0.0.1"\n'
            'spark.executor.memory = "512m"\nspark.ui.enabled = false\nspark.sql.shuffle.partitions = 2\n'
            # Both executors are there before the first task is given out.
            "spark.scheduler.minRegisteredResourcesRatio = 1.0\nspark.cores.max = 2\n"
            'spark.scheduler.maxRegisteredResourcesWaitingTime = "120s"\n'
        )
        done = subprocess.run(
            [PARTITA, "run"],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=shop,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
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
from partita.spark import session
from partita.spark.shipping import ship

spark = session()
assert not ship(spark, sys.argv[1])
# As if the server ran on another machine.
local = os.environ.pop("SPARK_LOCAL_REMOTE")
names = ship(spark, sys.argv[1])
assert names == ship(spark, sys.argv[1])
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
    found = run_in_connect(script, str(code)).strip().splitlines()[-1]
    assert "partita-shipped-code-" in found


def test_a_local_spark_gets_nothing(spark: SparkSession) -> None:
    assert not needs_shipping(spark)
    assert ship(spark, "/nowhere") == []


def test_an_archive_has_the_code_and_no_more(tmp_path: Path) -> None:
    for path in (
        "pipeline.py", "shop/__init__.py", "shop/orders.py", "data.csv", ".hidden/x.py", "venv/pyvenv.cfg",
        "venv/lib/x.py", "lake/_partita/x.py", "lake/raw/orders/y.py", "shop/__pycache__/x.py", "raw/_delta_log/x.py",
        "raw/region=us/x.py",
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# {path}\n")
    archive = archive_of(tmp_path)
    with zipfile.ZipFile(archive) as found:
        assert found.namelist() == ["pipeline.py", "shop/__init__.py", "shop/orders.py"]
    os.utime(tmp_path / "pipeline.py", (0, 0))
    assert archive_of(tmp_path) == archive
    (tmp_path / "pipeline.py").write_text("# another\n")
    assert archive_of(tmp_path) != archive


def test_the_package_is_whole_in_its_archive() -> None:
    import partita

    package = Path(partita.__file__).parent
    with zipfile.ZipFile(archive_of(package, "partita")) as found:
        names = set(found.namelist())
    assert names == {f"partita/{path.relative_to(package)}" for path in package.rglob("*.py")}
