"""Alter a Lance table: add empty partitions, drop whole ones, add a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from partita.algebra.predicate import UnboundPredicate
from partita.algebra.spec import PartitionField
from partita.algebra.transforms import TransformFamily
from partita.arrow.schema import to_arrow_type
from partita.arrow.transforms import impossible_results
from partita.errors import PartitionValueError, SchemaError, TableError
from partita.formats.file_plan import plan_files
from partita.formats.lance.columns import UNPARTITIONED_LEAF_NAME, check_column_name, check_column_type
from partita.formats.lance.commit import WriteRequest
from partita.formats.lance.files import leaf_identifier
from partita.formats.lance.leaf_operations import LeafOperation, LeafOperationKind, leaf_operation
from partita.formats.lance.log import LanceLogOperation, WriteOutcome
from partita.formats.lance.schema_json import schema_to_json
from partita.formats.lance.values import ID_SEPARATOR, partition_texts

if TYPE_CHECKING:
    from partita.formats.lance.state import LanceTableVersion
    from partita.formats.lance.store import LanceTableStore


def add_partitions(store: LanceTableStore, partitions: Sequence[Mapping[str, object]]) -> int:
    """Create empty leaves in one change of the manifest, and return how many are new; existing ones stay.

    Each partition is given by the values of its fields, by name. Raises `PartitionValueError` for a value that the
    partition field can't have.
    """
    table_version = store.current_version()
    for values in partitions:
        unknown = sorted(set(values) - set(table_version.spec.names))
        if unknown:
            raise PartitionValueError(unknown[0], f"one of {', '.join(table_version.spec.names)}", "no such field")
    columns = [_partition_texts(partitions, field) for field in table_version.spec.fields]
    leaves = dict.fromkeys(leaf_identifier(table_version.spec.names, texts) for texts in zip(*columns, strict=True))
    leaves = leaves or {(UNPARTITIONED_LEAF_NAME,): None}
    existing_ids = table_version.file_indices_by_id()
    new_leaves = [names for names in leaves if ID_SEPARATOR.join(names) not in existing_ids]
    if new_leaves:
        operations = [
            LeafOperation(names, table_version.root.leaf_location(names), LeafOperationKind.ADD, True)
            for names in new_leaves
        ]
        table_version.committer().commit(
            WriteRequest(LanceLogOperation.ADD_PARTITION, operations), table_version.log_snapshot
        )
    return len(new_leaves)


def _partition_texts(partitions: Sequence[Mapping[str, object]], field: PartitionField) -> list[str | None]:
    """Return the texts of the values of a field; raise `PartitionValueError` for impossible ones."""
    if any(field.name not in values for values in partitions):
        raise PartitionValueError(field.name, "a value", "none; for null give None")
    try:
        values = pa.array([values[field.name] for values in partitions], to_arrow_type(field.result_type))
    except (pa.ArrowException, TypeError) as error:
        raise PartitionValueError(field.name, str(field.result_type), str(error)) from error
    impossible_values = impossible_results(field.transform, values, field.source_type, TransformFamily.LANCE)
    if len(impossible_values):
        possible_values = field.transform.results_text(TransformFamily.LANCE)
        raise PartitionValueError(field.name, possible_values, repr(impossible_values[0].as_py()))
    return cast("list[str | None]", partition_texts(values, field).to_pylist())


def drop_partitions(store: LanceTableStore, where: UnboundPredicate) -> int:
    """Drop the partitions that match a predicate, and return how many.

    Raises `TableError` if the predicate may be true of only a part of a partition, and `CommitConflict` if another
    write changed one of them.
    """
    table_version = store.current_version()
    plan = plan_files(table_version, where)
    if not plan.must_match.all():
        partial_leaf = plan.files.filter(pa.array(~plan.must_match))["path"][0].as_py()
        raise TableError(
            f"drop_partition drops whole partitions, and {where} may be true of only a part of {partial_leaf}; "
            "use delete"
        )
    if len(plan.file_indices):
        operations = [
            leaf_operation(table_version, index, LeafOperationKind.DROP) for index in plan.file_indices.tolist()
        ]
        dropped_ids = {operation.id for operation in operations}

        def conflict_reason(outcome: WriteOutcome) -> str | None:
            written_ids = {leaf_id for leaf_id, *_ in outcome.leaves}
            return "wrote to partitions that this write drops" if dropped_ids & written_ids else None

        request = WriteRequest(LanceLogOperation.DROP_PARTITION, operations, conflict_reason, {"predicate": str(where)})
        table_version.committer().commit(request, table_version.log_snapshot)
    return len(plan.file_indices)


def add_column(store: LanceTableStore, field: pa.Field) -> None:
    """Add a nullable column, null in all existing rows: one write over all leaves and the root namespace.

    Raises `SchemaError` for a column that the table can't have, `TableError` if its leaves can't take another column,
    and `CommitConflict` if another write added or dropped partitions.
    """
    store.recover_unfinished_write()
    table_version = store.current_version()
    _check_new_column(table_version, field)
    new_schema = schema_to_json(table_version.definition.arrow_schema.append(field))
    columns = schema_to_json(pa.schema([field]))
    file_indices = range(len(table_version.leaf_ids))
    operations = [
        replace(leaf_operation(table_version, index, LeafOperationKind.WIDEN), columns=columns)
        for index in file_indices
    ]
    leaf_ids = {operation.id for operation in operations}

    def conflict_reason(outcome: WriteOutcome) -> str | None:
        changes_partitions = any(leaf_id not in leaf_ids or rows is None for leaf_id, _, rows, _ in outcome.leaves)
        return "added or dropped partitions" if changes_partitions else None

    request = WriteRequest(
        LanceLogOperation.ADD_COLUMN, operations, conflict_reason, {"column": field.name}, schema_json=new_schema
    )
    table_version.committer().commit(request, table_version.log_snapshot)


def _check_new_column(table_version: LanceTableVersion, field: pa.Field) -> None:
    if not field.nullable:
        raise SchemaError(f"column {field.name!r} must be nullable, since it is null in the existing rows")
    if field.name.casefold() in {name.casefold() for name in table_version.schema.names}:
        raise SchemaError(f"the table has a column {field.name!r} already")
    if any(f.name.casefold() == field.name.casefold() for f in table_version.spec.fields):
        raise SchemaError(f"{field.name!r} is the name of a partition field")
    if _has_only_partition_columns(table_version) and len(table_version.leaf_ids):
        raise TableError(
            "the table has only partition columns, which its leaves store because a leaf needs a column; create a new "
            f"table with {field.name!r}, and append the rows of this one"
        )
    check_column_name(field.name)
    check_column_type(field.name, field.type)


def _has_only_partition_columns(table_version: LanceTableVersion) -> bool:
    """Whether all columns are partition columns, so that leaves store them."""
    sources = {f.source for f in table_version.spec.fields if f.transform.is_identity}
    return not table_version.definition.omitted_columns and sources >= set(table_version.definition.arrow_schema.names)
