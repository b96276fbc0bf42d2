"""DataFrames from rows in Arrow and pandas."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import is_remote

from partita.errors import SchemaError
from partita.spark.arrow_types import cast_to_spark_types
from partita.spark.session import spark_session
from partita.spark.session_state import override_settings


def to_dataframe(rows: object, spark: SparkSession | None = None) -> DataFrame:
    """Return rows of Spark, Arrow or pandas as a DataFrame.

    Raises `SchemaError` for any other object, and for columns that no Spark type can hold.
    """
    if isinstance(rows, DataFrame):
        return rows
    if hasattr(rows, "sparkSession") and hasattr(rows, "mapInArrow"):
        return rows  # type: ignore[return-value] # a DataFrame of Spark Connect
    session = spark or spark_session()
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pd.DataFrame):
        rows = _arrow_from_pandas(rows)
    if isinstance(rows, pa.Table):
        return frame_from_arrow(session, cast_to_spark_types(rows))
    raise SchemaError(f"rows are a Spark DataFrame, an Arrow table or a pandas DataFrame, not {type(rows).__name__}")


def frame_from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return an Arrow table as a DataFrame; timestamps without a zone become TIMESTAMP_NTZ."""
    # Without a schema Spark reads them in the session's time zone, where some local times don't exist.
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    settings = (
        {_ARROW_BATCH_SETTING: _ARROW_BATCH_ROWS}
        if not is_remote() and spark.conf.get(_ARROW_BATCH_SETTING) != _ARROW_BATCH_ROWS
        else {}
    )
    with override_settings(spark, settings):
        return spark.createDataFrame(table, schema)


_ARROW_BATCH_SETTING, _ARROW_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch", "10000"
"""PySpark splits an Arrow table by this setting into tasks, and fails where it is 0 or less, which means no limit."""


def _arrow_from_pandas(frame: pd.DataFrame) -> pa.Table:
    """Convert a pandas DataFrame; raise `SchemaError` naming a column of mixed types, or one that is there twice."""
    duplicates = frame.columns[frame.columns.duplicated()]
    if len(duplicates):
        raise SchemaError(f"the pandas DataFrame has column {duplicates[0]!r} more than once; rename one of them")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = "; ".join(str(argument) for argument in error.args)
        raise SchemaError(
            f"column {_unconvertible_column(frame)!r} of the pandas DataFrame can't be converted to Arrow: {reason}; "
            "give it values of one type, for example by astype"
        ) from error


def _unconvertible_column(frame: pd.DataFrame) -> object:
    """Return the first column that Arrow can't convert; None if it converts each by itself."""
    for name in frame.columns:
        try:
            pa.Array.from_pandas(frame[name])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return name
    return None
