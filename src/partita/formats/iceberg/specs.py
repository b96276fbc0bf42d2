"""The partition specs of a table's metadata as a `SpecHistory`.

A field's source is found by its id, and bears the name that the column has now. Where the column is gone, it bears the
last name that it had, told apart from a column that took the name since: nothing that is asked of a column is answered
by another's partition values.

A transform that Partita doesn't know, or a column of a type that it doesn't compute with, leaves a field that is read
and never pruned by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.transforms import BucketTransform, TruncateTransform, UnknownTransform
from pyiceberg.transforms import Transform as IcebergTransform

from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
from partita.algebra.transforms import Family, Transform
from partita.algebra.types import NESTED, Kind, LogicalType, other
from partita.arrow.schema import to_arrow
from partita.errors import UnknownColumn
from partita.formats.iceberg.columns import to_logical, to_schema

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField as IcebergField
    from pyiceberg.partitioning import PartitionSpec as IcebergSpec
    from pyiceberg.schema import Schema as IcebergSchema
    from pyiceberg.table.metadata import TableMetadata

_NEVER_KNOWN = other("unknown")


def spec_history(metadata: TableMetadata) -> SpecHistory:
    """All specs of a table, each field under the current name of its source."""
    current = metadata.schema()
    specs = sorted(metadata.specs().values(), key=lambda spec: spec.spec_id)
    return SpecHistory(to_schema(current), tuple(_spec(spec, metadata) for spec in specs), metadata.default_spec_id)


def is_dropped(field: PartitionField, history: SpecHistory) -> bool:
    """Whether the column that a field was made from is no longer in the table."""
    try:
        return history.schema.find(field.source).name != field.source
    except UnknownColumn:
        return True


def arrow_type(field: PartitionField) -> pa.DataType | None:
    """The Arrow type of a field's values; None where it is whatever manifests say."""
    if field.transform.name == "day":
        return pa.date32()
    if not field.transform.known or field.result_type.kind is Kind.OTHER:
        return None
    if field.result_type.kind is Kind.UUID:
        # Arrow groups by no extension types.
        return pa.binary(16)
    return to_arrow(field.result_type)


def _spec(spec: IcebergSpec, metadata: TableMetadata) -> PartitionSpec:
    return PartitionSpec(spec.spec_id, tuple(_field(f, metadata) for f in spec.fields), Family.ICEBERG)


def _field(field: IcebergField, metadata: TableMetadata) -> PartitionField:
    name, type_ = _source(field.source_id, metadata)
    return PartitionField(field.name, name, _transform(field.transform, type_), field.field_id, type_)


def _source(source_id: int, metadata: TableMetadata) -> tuple[str, LogicalType]:
    current = metadata.schema()
    name = current.find_column_name(source_id)
    if name is not None:
        return name, to_logical(current.find_type(source_id))
    for schema in _newest_first(metadata):
        name = schema.find_column_name(source_id)
        if name is not None:
            return _told_apart(name, source_id, current), to_logical(schema.find_type(source_id))
    return f"#{source_id}", _NEVER_KNOWN


def _newest_first(metadata: TableMetadata) -> list[IcebergSchema]:
    return sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)


def _told_apart(name: str, source_id: int, current: IcebergSchema) -> str:
    taken = {column.casefold() for column in current.column_names}
    return f"{name}#{source_id}" if name.casefold() in taken else name


def _transform(given: IcebergTransform[Any, Any], type_: LogicalType) -> Transform:
    if isinstance(given, UnknownTransform):
        return Transform(given._transform)  # noqa: SLF001 - the only place where the name is
    if isinstance(given, BucketTransform):
        return Transform("bucket", given.num_buckets)
    if isinstance(given, TruncateTransform):
        return _computed(Transform("truncate", given.width), type_)
    return _computed(Transform(str(given)), type_)


def _computed(transform: Transform, type_: LogicalType) -> Transform:
    """A transform that keeps the type of its column, under a name that is not known where that type has no order."""
    if transform.name in ("identity", "truncate") and type_.kind in NESTED | {Kind.OTHER}:
        return Transform(f"{transform} of {type_}")
    return transform
