"""Fold events into status rows on Spark: what `partita.status.fold` does, for ledgers of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from partita.status.events import PARTITION_EVENT_KINDS
from partita.status.fold import COLUMN_GROUP_SOURCES
from partita.status.ledger import Ledger, LedgerFiles, workspace_condition
from partita.status.schema import KEY_COLUMNS, LAST_MATERIALIZATION, LAST_WIPE, conform_to_status_schema, status_schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StatusRowPart:
    """A column group of a status row: its columns, the SQL of their values, and the condition on events that fill it.

    The first `order_count` columns order the events; the last event fills the group, or with `takes_first` the first.
    """

    name: str
    condition: str
    columns: tuple[str, ...]
    values: tuple[str, ...]
    order_count: int
    takes_first: bool = False


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


def fold_events(
    events: DataFrame, key: Sequence[str], parts: Sequence[StatusRowPart], wipe_part: str, wiped_part: str
) -> DataFrame:
    """Return one row for each partition: the key, `row_version`, `partition_values`, and the columns of each part.

    The part named `wiped_part` is null where the part named `wipe_part` comes after it.
    """
    structs = [_part_struct(part).alias(part.name) for part in parts]
    status_rows = events.groupBy(*key).agg(F.max("event_id").alias("row_version"), *structs)
    by_name = {part.name: part for part in parts}
    is_wiped = (_order_struct(by_name[wiped_part]) < _order_struct(by_name[wipe_part])) & F.col(wipe_part).isNotNull()
    status_rows = status_rows.withColumn(wiped_part, F.when(F.coalesce(~is_wiped, F.lit(True)), F.col(wiped_part)))
    columns = [F.col(part.name)[column].alias(column) for part in parts for column in part.columns]
    return status_rows.select(*key, "row_version", partition_values_map(F.col("partition_key")), *columns)


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


def _part_struct(part: StatusRowPart) -> Column:
    values = [F.expr(value).alias(column) for column, value in zip(part.columns, part.values, strict=True)]
    whole = F.when(F.expr(part.condition), F.struct(*values))
    order = F.when(F.expr(part.condition), F.struct(*values[: part.order_count]))
    return F.min_by(whole, order) if part.takes_first else F.max_by(whole, order)


def _order_struct(part: StatusRowPart) -> Column:
    return F.struct(
        *(F.col(part.name)[column].alias(str(i)) for i, column in enumerate(part.columns[: part.order_count]))
    )


def fold_events_on_spark(events: DataFrame) -> pa.Table:
    """Fold a DataFrame of partition events into status rows on Spark, as `partita.status.fold` does in DuckDB."""
    parts = [
        StatusRowPart(
            source.column_group.name,
            source.condition,
            source.column_group.columns,
            source.value_expressions,
            len(source.column_group.order_columns),
            source.column_group.is_earliest,
        )
        for source in COLUMN_GROUP_SOURCES
    ]
    return conform_to_status_schema(
        fold_events(events, KEY_COLUMNS, parts, LAST_WIPE.name, LAST_MATERIALIZATION.name).toArrow()
    )


def fold_ledger_files(spark: SparkSession, ledger: Ledger, location: str, files: LedgerFiles) -> pa.Table:
    """Fold all partition events in a ledger's files on Spark; `location` is the ledger's, as Hadoop names it."""
    events = read_events(spark, location, files.data_files, PARTITION_EVENT_KINDS)
    if events is None:
        return status_schema().empty_table()
    return fold_events_on_spark(events.where(workspace_condition(ledger.tenant, ledger.workspace)))
