"""Partitioning by columns, as Delta tables and plain folders have it."""

from __future__ import annotations

from collections.abc import Iterable

from partita.algebra.schema import Schema
from partita.algebra.spec import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from partita.algebra.transforms import IdentityTransform, PartitionFunction, TransformFamily
from partita.errors import SpecError
from partita.formats.capabilities import COLUMN_PARTITIONING


def identity_spec(names: Iterable[str], schema: Schema) -> PartitionSpec:
    """Return a spec of identity fields, of every type that has partition texts."""
    columns = enumerate((schema.find_field(name) for name in names), PARTITION_FIELD_ID_START)
    return PartitionSpec(
        0,
        tuple(PartitionField(c.name, c.name, IdentityTransform(), field_id, c.type) for field_id, c in columns),
        TransformFamily.ICEBERG,
    )


def not_a_column_error(format_title: str, function: PartitionFunction) -> SpecError:
    """Return the error for a partition function that is neither a column nor stored as one."""
    reason, way_out = COLUMN_PARTITIONING.reason, COLUMN_PARTITIONING.way_out
    return SpecError(f"a {format_title} table {reason}, and {function} is not a column; {way_out}")
