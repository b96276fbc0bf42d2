"""Rewrite data files: merge small ones, move those of earlier specs to the current one, drop deleted rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from partita.algebra.predicate import UnboundPredicate
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.errors import TableError
from partita.formats.capabilities import Operation
from partita.formats.file_plan import partition_identities, plan_files
from partita.formats.operations.write_operation import ChangeResult, WriteOperation
from partita.formats.parquet_files import TARGET_FILE_BYTES
from partita.formats.store import TableStore
from partita.formats.table_change import TableChange, total
from partita.formats.table_version import TableVersion
from partita.spark.rows import repartition_by_size
from partita.spark.session import spark_session

SMALL_FILE_BYTES = TARGET_FILE_BYTES * 3 // 4
"""A file with fewer bytes is small."""


def rewrite_table_files(store: TableStore, where: UnboundPredicate | None) -> ChangeResult:
    """Rewrite the files for which it is worth it; the rows of the table stay the same.

    It is worth it for a file of another spec, for one with deleted rows, and for a small one if its partition has
    another small one or gets rows of rewritten files.
    """
    operation = WriteOperation.begin(store, Operation.REWRITE, removes=False)
    operation = operation.with_files_for("true" if where is None else where)
    table_version = operation.table_version
    candidates = plan_files(table_version, where).file_indices
    is_outdated = operation.rows.is_outdated(candidates)
    is_small = table_version.files["bytes"].to_numpy()[candidates] < SMALL_FILE_BYTES
    is_small &= _have_small_siblings(table_version, candidates, is_small) | _may_receive_rows(
        table_version, candidates, candidates[is_outdated]
    )
    file_indices = candidates[is_outdated | is_small]
    if not len(file_indices):
        return ChangeResult(None)
    rows = operation.rows.scan(spark_session(), file_indices, table_version.schema.names)
    if not table_version.spec.fields:
        rows = repartition_by_size(rows, int(table_version.files["bytes"].to_numpy()[file_indices].sum()))
    written_files = operation.rows.write_data_files(rows)
    with operation.discard_on_error(written_files):
        _check_row_count(table_version, file_indices, written_files)
    return operation.commit(
        TableChange(operation.kind, written_files, file_indices, read_file_indices=file_indices),
        {
            "rows_rewritten": total(written_files["rows"]),
            "files_added": written_files.num_rows,
            "files_removed": len(file_indices),
        },
    )


def _check_row_count(table_version: TableVersion, file_indices: np.ndarray, written_files: pa.Table) -> None:
    """Raise `TableError` if Spark read fewer rows than the files have: it reads none of an empty object or folder."""
    expected, actual = total(table_version.row_counts(file_indices)), total(written_files["rows"])
    if actual < expected:
        raise TableError(
            f"files of the table at {table_version.uri} have {expected} rows by its metadata, and Spark read {actual}; "
            "nothing was changed. A data file is damaged: restore it, or the table"
        )


def _have_small_siblings(table_version: TableVersion, file_indices: np.ndarray, is_small: np.ndarray) -> np.ndarray:
    """Return for which files the partition has several small files."""
    spec_ids = table_version.files["spec_id"].to_numpy()[file_indices]
    identities = partition_identities(table_version.partitions.take(pa.array(file_indices)))
    keys = list(zip(spec_ids, identities, strict=True))
    counts = Counter(key for key, small in zip(keys, is_small, strict=True) if small)
    return np.array([counts[key] > 1 for key in keys], bool)


def _may_receive_rows(table_version: TableVersion, file_indices: np.ndarray, source_indices: np.ndarray) -> np.ndarray:
    """Return which files' partitions may get rows of the source files, by the fields that their specs share."""
    specs, partitions = table_version.spec_history, table_version.partitions
    spec_ids = table_version.files["spec_id"].to_numpy()
    may_receive = np.zeros(len(file_indices), bool)
    for spec_id in np.unique(spec_ids[source_indices]).tolist():
        shared_columns = sorted(
            _partition_columns(specs, specs.spec(spec_id)) & _partition_columns(specs, specs.current)
        )
        if not shared_columns:
            return np.ones(len(file_indices), bool)
        values = partitions.select(shared_columns)
        sources = source_indices[spec_ids[source_indices] == spec_id]
        source_keys = set(partition_identities(values.take(pa.array(sources))))
        target_keys = partition_identities(values.take(pa.array(file_indices)))
        may_receive |= np.array([key in source_keys for key in target_keys], bool)
    return may_receive


def _partition_columns(specs: SpecHistory, spec: PartitionSpec) -> set[str]:
    return {specs.column_name(spec, field) for field in spec.fields if not field.transform.is_void}
