"""Add empty partitions to a Lance table, and drop whole ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from partita.algebra.predicate import UnboundPredicate
from partita.algebra.spec import PartitionField
from partita.algebra.transforms import TransformFamily
from partita.arrow.schema import to_arrow_type
from partita.arrow.transforms import impossible_results
from partita.errors import PartitionValueError, TableError
from partita.formats.file_plan import plan_files
from partita.formats.lance.commit import WriteRequest
from partita.formats.lance.definition import UNPARTITIONED_LEAF_NAME
from partita.formats.lance.files import leaf_identifier
from partita.formats.lance.log import WriteOutcome
from partita.formats.lance.namespace import ID_SEPARATOR
from partita.formats.lance.operations import LeafOperation, leaf_operation
from partita.formats.lance.values import partition_value_texts

if TYPE_CHECKING:
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
            LeafOperation(names, table_version.root.leaf_location(names), "add", True) for names in new_leaves
        ]
        table_version.committer().commit(WriteRequest("add partition", operations), table_version.log_snapshot)
    return len(new_leaves)


def _partition_texts(partitions: Sequence[Mapping[str, object]], field: PartitionField) -> list[str | None]:
    """Return the texts of the values of a field; raise `PartitionValueError` for impossible ones."""
    if any(field.name not in values for values in partitions):
        raise PartitionValueError(field.name, "a value", "none; for null give None")
    try:
        values = pa.array([values[field.name] for values in partitions], to_arrow_type(field.result_type))
    except (pa.ArrowException, TypeError) as error:
        raise PartitionValueError(field.name, str(field.result_type), str(error)) from error
    impossible = impossible_results(field.transform, values, field.source_type, TransformFamily.LANCE)
    if len(impossible):
        possible_values = field.transform.results_text(TransformFamily.LANCE)
        raise PartitionValueError(field.name, possible_values, repr(impossible[0].as_py()))
    return cast("list[str | None]", partition_value_texts(values, field).to_pylist())


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
        operations = [leaf_operation(table_version, index, "drop") for index in plan.file_indices.tolist()]
        dropped_ids = {operation.id for operation in operations}

        def conflict_reason(outcome: WriteOutcome) -> str | None:
            written_ids = {leaf_id for leaf_id, *_ in outcome.leaves}
            return "wrote to partitions that this write drops" if dropped_ids & written_ids else None

        request = WriteRequest("drop partition", operations, conflict_reason, {"predicate": str(where)})
        table_version.committer().commit(request, table_version.log_snapshot)
    return len(plan.file_indices)
