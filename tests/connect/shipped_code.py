"""Ship code of the driver to a server that seems to run on another machine, and import it in a Python worker."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from partita.spark import spark_session
from partita.spark.artifacts import add_code_artifacts


def check_shipped_code() -> None:
    def module_path(_: Any) -> Any:
        import far_away  # type: ignore[import-not-found] # it is in the shipped folder

        return far_away.__file__

    spark = spark_session()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "far_away.py").write_text("", encoding="utf-8")
        assert not add_code_artifacts(spark, folder)
        # As if the server ran on another machine.
        local = os.environ.pop("SPARK_LOCAL_REMOTE")
        names = add_code_artifacts(spark, folder)
        assert names == add_code_artifacts(spark, folder)
        spark.conf.set("spark.sql.execution.pyspark.udf.faulthandler.enabled", "false")
        row = spark.range(1).select(F.udf(module_path)("id")).first()
        os.environ["SPARK_LOCAL_REMOTE"] = local
    assert row is not None
    print(row[0])  # noqa: T201 - read by the test
