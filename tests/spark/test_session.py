"""Settings of the session that Partita starts."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from partita.errors import PartitaError
from partita.spark import spark_session
from partita.spark.session import _jvm_environment, _require_java, _session_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def test_settings(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in SETTINGS} == SETTINGS


@pytest.mark.usefixtures("spark")
def test_the_running_session_is_used() -> None:
    # An earlier test may have made a second session of the same Spark the active one.
    running = spark_session()
    running.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        assert spark_session() is running
        assert running.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
        spark_session(**{"spark.sql.session.timeZone": "UTC"})
        assert running.conf.get("spark.sql.session.timeZone") == "UTC"
    finally:
        running.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.usefixtures("spark")
def test_numbers_and_bools_are_settings() -> None:
    running = spark_session()
    try:
        settings: dict[str, Any] = {"spark.app.number": 3, "spark.app.share": 0.5, "spark.app.flag": False}
        spark_session(**settings)
        texts = [running.conf.get(f"spark.app.{name}") for name in ("number", "share", "flag")]
        assert texts == ["3", "0.5", "false"]
    finally:
        for name in ("number", "share", "flag"):
            running.conf.unset(f"spark.app.{name}")


def test_names_of_files_are_utf8_in_any_locale(spark: SparkSession, tmp_path: Path) -> None:
    script = (
        "from partita.spark import spark_session\n"
        "import sys\n"
        "spark = spark_session()\n"
        "rows = spark.sql(\"select 'x' as v, '日本語' as p\")\n"
        "rows.write.partitionBy('p').text(sys.argv[1])\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("LC_ALL", "LC_CTYPE", "LANG", "SPARK_REMOTE")}
    process = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", script, str(tmp_path / "t")],
        env={**environment, "LC_ALL": "C"}, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert [path.name for path in (tmp_path / "t").iterdir() if path.is_dir()] == ["p=日本語"]
    noise = [line for line in process.stderr.splitlines() if "incubator" not in line]
    assert noise == []


def test_a_cluster_may_reach_the_driver_and_keeps_its_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    settings = _session_settings(is_local=False)
    assert settings["spark.sql.session.timeZone"] == "UTC"
    local_settings = {"spark.master", "spark.driver.host", "spark.driver.bindAddress",
             "spark.sql.shuffle.partitions", "spark.sql.files.minPartitionNum"}  # fmt: skip
    assert not local_settings & set(settings)
    assert local_settings <= set(_session_settings(is_local=True))
    monkeypatch.setenv("PYSPARK_PYTHON", "/of/the/cluster")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with _jvm_environment(is_local=False):
        assert (os.environ["PYSPARK_PYTHON"], os.environ.get("SPARK_LOCAL_IP")) == ("/of/the/cluster", None)
    with _jvm_environment(is_local=True):
        assert (os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]) == (sys.executable, "127.0.0.1")


def test_missing_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PartitaError, match="Java 17"):
        _require_java()
