"""Fold events into status rows on Spark: what `partita.status.fold` does, for ledgers of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from partita.status.events import PARTITION_EVENT_KINDS
from partita.status.fold import COLUMN_GROUP_SOURCES, ColumnGroupSource
from partita.status.ledger import Ledger, LedgerFiles, workspace_condition
from partita.status.schema import (
    KEY_COLUMNS,
    LAST_MATERIALIZATION,
    LAST_WIPE,
    ColumnGroup,
    conform_to_status_schema,
    status_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa


def read_events(spark: SparkSession, location: str, paths: Mapping[str, str], kinds: Sequence[str]) -> DataFrame | None:
    """Return the events of some kinds in the files of a ledger; None where there are no such files."""
    frames = [
        spark.read.option("recursiveFileLookup", "true").parquet(*files).withColumn("kind", F.lit(str(kind)))
        for kind in kinds
        if (files := [f"{location}/{path}" for path, file_kind in sorted(paths.items()) if file_kind == kind])
    ]
    if not frames:
        return None
    return reduce(lambda union, frame: union.unionByName(frame), frames)


def fold_events_on_spark(events: DataFrame) -> pa.Table:
    """Fold a DataFrame of partition events into status rows on Spark, as `partita.status.fold` does in DuckDB.

    The last materialization is null where a wipe comes after it.
    """
    structs = [_group_struct(source).alias(source.column_group.name) for source in COLUMN_GROUP_SOURCES]
    status_rows = events.groupBy(*KEY_COLUMNS).agg(F.max("event_id").alias("row_version"), *structs)
    wipe, materialization = LAST_WIPE.name, LAST_MATERIALIZATION.name
    is_wiped = (_order_struct(LAST_MATERIALIZATION) < _order_struct(LAST_WIPE)) & F.col(wipe).isNotNull()
    status_rows = status_rows.withColumn(
        materialization, F.when(F.coalesce(~is_wiped, F.lit(True)), F.col(materialization))
    )
    groups = [source.column_group for source in COLUMN_GROUP_SOURCES]
    columns = [F.col(group.name)[column].alias(column) for group in groups for column in group.columns]
    values = partition_values_map(F.col("partition_key"))
    return conform_to_status_schema(status_rows.select(*KEY_COLUMNS, "row_version", values, *columns).toArrow())


def partition_values_map(key: Column) -> Column:
    """Return the dimensions of a canonical key and the texts of their values, as a map."""

    def value_text(part: Column) -> Column:
        value = F.regexp_extract(part, "^[^=]*=[a-z]:(.*)$", 1)
        octets = F.unbase64(F.translate(value, "-_", "+/"))
        tag = F.regexp_extract(part, "^[^=]*=([a-z]):", 1)
        return F.when(tag == "s", F.decode(octets, "UTF-8")).when(tag != "n", value)

    parts = F.filter(F.split(key, ","), lambda part: part != "")
    names = F.transform(parts, lambda part: F.substring_index(part, "=", 1))
    return F.map_from_arrays(names, F.transform(parts, value_text)).alias("partition_values")


def _group_struct(source: ColumnGroupSource) -> Column:
    """Return the values of a column group by the last event that fills it, or the first if the group is of that."""
    group = source.column_group
    named_values = zip(group.columns, source.value_expressions, strict=True)
    values = [F.expr(value).alias(column) for column, value in named_values]
    whole = F.when(F.expr(source.condition), F.struct(*values))
    order = F.when(F.expr(source.condition), F.struct(*values[: len(group.order_columns)]))
    return F.min_by(whole, order) if group.is_earliest else F.max_by(whole, order)


def _order_struct(group: ColumnGroup) -> Column:
    return F.struct(*(F.col(group.name)[column].alias(str(i)) for i, column in enumerate(group.order_columns)))


def fold_ledger_files(spark: SparkSession, ledger: Ledger, location: str, files: LedgerFiles) -> pa.Table:
    """Fold all partition events in a ledger's files on Spark; `location` is the ledger's, as Hadoop names it."""
    events = read_events(spark, location, files.data_files, PARTITION_EVENT_KINDS)
    if events is None:
        return status_schema().empty_table()
    return fold_events_on_spark(events.where(workspace_condition(ledger.tenant, ledger.workspace)))
