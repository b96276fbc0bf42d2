"""Read and replace partitions that are selected by the values of some fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from partita.algebra.spec import PartitionField
from partita.arrow.distinct_rows import distinct_row_ids
from partita.errors import RowsOutsidePartitions
from partita.formats.capabilities import Operation
from partita.formats.operations.row_operations import commit_replacement, resolve_column_names, resolve_session
from partita.formats.operations.write_operation import (
    ChangeResult,
    TransactionId,
    WriteOperation,
    rows_in_partitions,
    source_columns,
)
from partita.formats.partition_selection import PartitionSelection, partition_field_columns, select_partitions
from partita.formats.store import TableStore
from partita.spark.frames import frame_from_arrow, to_dataframe
from partita.spark.rows import DataFrame, SparkSession, drop_matching_rows, select_columns

_SAMPLE_ROWS, _SAMPLE_PARTITIONS = 3, 5
"""How many rows and partitions an error shows."""


def read_partitions(
    store: TableStore, partitions: pa.Table, columns: Sequence[str] | None, spark: SparkSession | None
) -> DataFrame:
    """Read the rows of some partitions; files of other specs are filtered on Spark."""
    table_version = store.current_version_without_files()
    selection = select_partitions(table_version, partitions)
    table_version.check_selection(selection)
    table_version = table_version.with_files_for(selection)
    names = resolve_column_names(table_version.schema, columns, spark)
    session, table_rows = resolve_session(spark), table_version.rows()
    whole_file_indices, partial_file_indices = selection.matching_indices(
        table_version.spec_history, table_version.partitions
    )
    if columns is None:
        table_rows.check_unknown_columns(np.concatenate([whole_file_indices, partial_file_indices]))
    if not len(partial_file_indices):
        return table_rows.scan(session, whole_file_indices, names)
    scanned_names = list(dict.fromkeys([*names, *source_columns(selection)]))
    part_rows = rows_in_partitions(table_rows, table_rows.scan(session, partial_file_indices, scanned_names), selection)
    part_rows = select_columns(part_rows, names)
    return (
        table_rows.scan(session, whole_file_indices, names).unionAll(part_rows)
        if len(whole_file_indices)
        else part_rows
    )


def replace_partitions(
    store: TableStore, new_rows: object, partitions: pa.Table, transaction: TransactionId
) -> ChangeResult:
    """Replace all rows of some partitions; new rows outside of them are `RowsOutsidePartitions`."""
    operation = WriteOperation.begin(store, Operation.REPLACE_PARTITIONS, removes=True)
    table_version = operation.table_version
    selection = select_partitions(table_version, partitions)
    table_version.check_selection(selection)
    if operation.is_committed(transaction):
        return ChangeResult(None)
    rows = operation.rows.conform_rows(to_dataframe(new_rows))
    written_files = operation.rows.write_data_files(rows)
    with operation.discard_on_error(written_files):
        file_partitions = table_version.written_partitions(written_files)
        inside_indices, _ = selection.matching_indices(table_version.spec_history, file_partitions)
        if len(inside_indices) < written_files.num_rows:
            outside_indices = pa.array(np.setdiff1d(np.arange(written_files.num_rows), inside_indices))
            raise _outside_partitions_error(
                operation, selection, rows, written_files.take(outside_indices), file_partitions.take(outside_indices)
            )
        written_partitions = _written_by_fields(operation, selection.fields, written_files, file_partitions)
    return replace(
        commit_replacement(operation, written_files, selection, transaction), written_partitions=written_partitions
    )


def _written_by_fields(
    operation: WriteOperation, fields: Sequence[PartitionField], written_files: pa.Table, file_partitions: pa.Table
) -> pa.Table:
    """Sum the written files by partition fields: the fields' values, rows, files, bytes."""
    values = partition_field_columns(operation.table_version, fields, file_partitions)
    _, first_indices, group_of_file = np.unique(
        distinct_row_ids(values.columns, written_files.num_rows), return_index=True, return_inverse=True
    )
    counts = {name: np.zeros(len(first_indices), np.int64) for name in ("rows", "files", "bytes")}
    np.add.at(counts["rows"], group_of_file, written_files["rows"].to_numpy())
    np.add.at(counts["files"], group_of_file, 1)
    np.add.at(counts["bytes"], group_of_file, written_files["bytes"].to_numpy())
    columns = [*values.take(pa.array(first_indices)).columns, *map(pa.array, counts.values())]
    return pa.table(columns, names=[*values.column_names, *counts])


def _outside_partitions_error(
    operation: WriteOperation,
    selection: PartitionSelection,
    rows: DataFrame,
    written_files: pa.Table,
    file_partitions: pa.Table,
) -> RowsOutsidePartitions:
    """Return an error with the partitions outside of the selection, and a few rows, which Spark computes again."""
    fields = [field for field in operation.table_version.spec.fields if not field.transform.is_void]
    row_totals = _written_by_fields(operation, fields, written_files, file_partitions)
    row_counts = row_totals.column(len(fields)).to_numpy()
    largest_partitions = row_totals.take(pa.array(np.argsort(-row_counts, kind="stable")[:_SAMPLE_PARTITIONS]))
    values = largest_partitions.select(range(len(fields))).to_pylist()
    partition_counts = zip(values, largest_partitions.column(len(fields)).to_pylist(), strict=True)
    columns = operation.rows.partition_value_columns(rows, selection.fields)
    outside_rows = drop_matching_rows(rows, columns, frame_from_arrow(rows.sparkSession, selection.transform_results))
    samples = outside_rows.limit(_SAMPLE_ROWS).toArrow().to_pylist()
    return RowsOutsidePartitions(tuple(samples), tuple(partition_counts))
