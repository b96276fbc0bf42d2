"""Read, write and change the rows of a table on Spark: the same for every format.

Each operation loads one table version, plans its files without Spark, lets executors write files, and commits them in
one step. Until then nothing of it is part of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from partita.algebra.predicate import Predicate, UnboundPredicate
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.schema import Schema, find_field
from partita.errors import SchemaError, TableError, value_repr
from partita.formats.capabilities import Operation
from partita.formats.file_plan import plan_files, referenced_columns
from partita.formats.operations.write_operation import (
    ChangeResult,
    TransactionId,
    WriteOperation,
    rows_in_partitions,
    source_columns,
)
from partita.formats.partition_selection import PartitionSelection, selection_from_partitions
from partita.formats.store import TableStore
from partita.formats.table_change import TableChange, total
from partita.spark.constraints import require_condition
from partita.spark.frames import to_dataframe
from partita.spark.merge import resolve_assignments, updated_rows
from partita.spark.rows import DataFrame, SparkSession, select_columns, select_fields
from partita.spark.session import spark_session
from partita.spark.sql_semantics import check_predicate_semantics, name_matching


def read_rows(
    store: TableStore, where: UnboundPredicate | None, columns: Sequence[str] | None, spark: SparkSession | None
) -> DataFrame:
    """Read the rows that match, from exactly the files that may hold one."""
    table_version = store.current_version_for(where)
    schema = table_version.schema
    predicate = None if where is None else bind_predicate(where, schema, spark)
    plan = plan_files(table_version, predicate)
    names = resolve_column_names(schema, columns, spark)
    session, table_rows = resolve_session(spark), table_version.rows()
    if columns is None:
        table_rows.check_unknown_columns(plan.file_indices)
    if predicate is None or table_version.must_match_when_read(predicate, plan):
        return table_rows.scan(session, plan.file_indices, names)
    scanned_names = list(dict.fromkeys([*names, *referenced_columns(predicate, schema)]))
    rows = table_rows.scan_matching(session, plan.file_indices, scanned_names, predicate)
    return select_columns(rows.filter(predicate.sql()), names)


def bind_predicate(where: UnboundPredicate | None, schema: Schema, spark: SparkSession | None = None) -> Predicate:
    """Bind a predicate to the table's columns; None matches every row.

    Raises `PredicateError` if a part of it means something else in the Spark session.
    """
    if where is None:
        return parse_predicate("true", schema)
    predicate = parse_predicate(where, schema)
    check_predicate_semantics(predicate, spark)
    return predicate


def resolve_session(spark: SparkSession | None) -> SparkSession:
    """Return the given Spark session, or the running one."""
    if spark is None:
        return spark_session()
    if not hasattr(spark, "createDataFrame"):
        raise TableError(f"spark is a Spark session, not {value_repr(spark)}")
    return spark


def resolve_column_names(schema: Schema, columns: Sequence[str] | None, spark: SparkSession | None) -> list[str]:
    """Return the names of some columns as the schema spells them; None stands for all columns."""
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str):
        raise SchemaError(f"columns must be a list of names; for a single column use [{columns!r}]")
    if not isinstance(columns, Iterable):
        raise SchemaError(f"columns must be a list of names, not {value_repr(columns)}")
    matching_rule = name_matching(spark)
    names = [find_field(schema, name, matching_rule).name for name in columns]
    if len(set(names)) < len(names):
        raise SchemaError(f"a column is asked for twice: {', '.join(names)}")
    return names


def append_rows(store: TableStore, new_rows: object, transaction: TransactionId) -> ChangeResult:
    """Append rows."""
    operation = WriteOperation.begin(store, Operation.APPEND, removes=False)
    if operation.is_committed(transaction):
        return ChangeResult(None)
    rows = operation.rows.conform_rows(to_dataframe(new_rows))
    written_files = operation.rows.write_data_files(rows)
    return operation.commit(
        TableChange(
            operation.kind,
            written_files,
            inserted_row_count=total(written_files["rows"]),
            transaction=transaction,
        )
    )


def overwrite_partitions(store: TableStore, new_rows: object, transaction: TransactionId) -> ChangeResult:
    """Replace each partition that the new rows have any row in."""
    operation = WriteOperation.begin(store, Operation.OVERWRITE_PARTITIONS, removes=True)
    if operation.is_committed(transaction):
        return ChangeResult(None)
    rows = operation.rows.conform_rows(to_dataframe(new_rows))
    written_files = operation.rows.write_data_files(rows)
    if not written_files.num_rows:
        return operation.commit(TableChange(operation.kind, transaction=transaction))
    with operation.discard_on_error(written_files):
        table_version = operation.table_version
        selection = selection_from_partitions(table_version, table_version.written_partitions(written_files))
    return commit_replacement(operation, written_files, selection, transaction)


def commit_replacement(
    operation: WriteOperation, written_files: pa.Table, selection: PartitionSelection, transaction: TransactionId
) -> ChangeResult:
    """Commit written files in place of all rows of the selected partitions."""
    with operation.discard_on_error(written_files):
        operation = operation.with_files_for(selection)
        table_version = operation.table_version
        whole_file_indices, partial_file_indices = selection.matching_indices(
            table_version.spec_history, table_version.partitions
        )
        change = TableChange(operation.kind)
        if len(partial_file_indices):
            rows = operation.scan_rows(partial_file_indices, source_columns(selection))
            change = operation.delete_rows(
                partial_file_indices, rows_in_partitions(operation.rows, rows, selection), whole_file_indices
            )
    return operation.commit(
        replace(
            change,
            added_files=pa.concat_tables([change.added_files, written_files]),
            removed_file_indices=np.concatenate([whole_file_indices, change.removed_file_indices]),
            read_scope=selection,
            read_file_indices=np.concatenate([whole_file_indices, partial_file_indices]),
            inserted_row_count=total(written_files["rows"]),
            transaction=transaction,
        )
    )


def overwrite_rows(
    store: TableStore, new_rows: object, where: UnboundPredicate | None, transaction: TransactionId
) -> ChangeResult:
    """Replace what a predicate on whole partitions matches; rows that don't match it are an error."""
    operation = WriteOperation.begin(store, Operation.OVERWRITE, removes=True)
    if operation.is_committed(transaction):
        return ChangeResult(None)
    predicate = bind_predicate(where, operation.table_version.schema)
    operation = operation.with_files_for(predicate)
    # Without statistics, a file must match by its partition.
    plan = plan_files(replace(operation.table_version, statistics=lambda *_: {}), predicate)
    if not plan.must_match.all():
        partial_file = plan.files.filter(pa.array(~plan.must_match))["path"][0].as_py()
        other_way = ", or delete and append" if store.format.supports(Operation.DELETE) else ""
        raise TableError(
            f"overwrite replaces whole partitions, and {predicate} may be true of a part of {partial_file}; "
            f"use partition columns alone{other_way}"
        )
    rows = operation.rows.conform_rows(to_dataframe(new_rows))
    rows = require_condition(rows, predicate.sql(), "a row does not match the predicate of the overwrite")
    written_files = operation.rows.write_data_files(rows)
    return operation.commit(
        TableChange(
            operation.kind,
            written_files,
            plan.file_indices,
            read_scope=predicate,
            parameters={"predicate": str(predicate)},
            inserted_row_count=total(written_files["rows"]),
            transaction=transaction,
        )
    )


def delete_rows(store: TableStore, where: UnboundPredicate) -> ChangeResult:
    """Delete the rows that match; files of which all rows match are removed without reading them."""
    operation = WriteOperation.begin(store, Operation.DELETE, removes=True)
    predicate = bind_predicate(where, operation.table_version.schema)
    operation = operation.with_files_for(predicate)
    plan = plan_files(operation.table_version, predicate)
    whole_file_indices, partial_file_indices = plan.file_indices[plan.must_match], plan.file_indices[~plan.must_match]
    change = TableChange(operation.kind)
    if len(partial_file_indices):
        rows = operation.scan_rows(partial_file_indices, referenced_columns(predicate, operation.table_version.schema))
        change = operation.delete_rows(partial_file_indices, rows.filter(predicate.sql()), whole_file_indices)
    return operation.commit_rows(replace(change, read_file_indices=partial_file_indices), predicate, whole_file_indices)


def update_rows(store: TableStore, assignments: Mapping[str, str], where: UnboundPredicate | None) -> ChangeResult:
    """Assign new values to columns of the rows that match."""
    operation = WriteOperation.begin(store, Operation.UPDATE, removes=True)
    if not assignments:
        raise SchemaError("update sets no column")
    predicate = bind_predicate(where, operation.table_version.schema)
    operation = operation.with_files_for(predicate)
    file_indices = plan_files(operation.table_version, predicate).file_indices
    schema = operation.rows.spark_schema()
    assigned_values = resolve_assignments(assignments, schema, schema.fieldNames(), name_matching())
    needed_fields = select_fields(schema, operation.needed_columns(file_indices, set(assigned_values)))
    matching_rows = operation.scan_rows(file_indices).filter(predicate.sql())
    rows = updated_rows(matching_rows, assigned_values, needed_fields)
    return operation.commit_rows(operation.apply_row_changes(file_indices, rows, set(assigned_values)), predicate)
