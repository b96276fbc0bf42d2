"""What forks the Python workers of the tests' Spark, named by `spark.python.daemon.module`.

Spark replaces a worker after each task that fails or is cancelled, and a new worker spends two seconds on imports. Here
the parent of all workers has imported them, so a new one has them at once. Production uses PySpark's own daemon.
"""

from __future__ import annotations

import warnings

import lance
import pandas as pd
import pyarrow as pa
from pyspark import daemon, worker
from pyspark.sql.pandas import serializers

import partita.formats.delta.spark.rows
import partita.formats.iceberg.spark.rows
import partita.formats.lance.spark.rows

PRELOADED_MODULES = (
    pd, pa, lance, worker, serializers, partita.formats.delta.spark.rows, partita.formats.iceberg.spark.rows,
    partita.formats.lance.spark.rows,
)  # fmt: skip

if __name__ == "__main__":
    # Lance warns of each fork; the parent of the workers starts none of its threads.
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    daemon.manager()  # type: ignore[no-untyped-call] # PySpark's own
