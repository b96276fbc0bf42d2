"""How a table stores the partitions of an asset: each dimension is the partition field of the same name.

| dimension | field that can store it |
|---|---|
| days, weeks, months | a date column |
| days in UTC | Iceberg's `day` of a timestamp |
| months in UTC | Iceberg's `month`, which counts months from 1970 |
| hours | a timestamp column with a time zone |
| hours in UTC | Iceberg's `hour`, which counts hours from 1970 |
| static or dynamic values | a field whose values are of their type |

The table may have more fields than the asset has dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum

import numpy as np
import pyarrow as pa

from partita.algebra.calendar import DAY, HOUR, MONTH
from partita.algebra.key import PartitionKey
from partita.algebra.key_text import KeyValue
from partita.algebra.mappings import DimensionSelection
from partita.algebra.partition_sets import Dimension, PartitionSet, StaticDimension
from partita.algebra.spec import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec, SpecHistory
from partita.algebra.time_windows import TimeWindows
from partita.algebra.transforms import TransformFamily
from partita.algebra.types import DATE, INTEGER_KINDS, TypeKind
from partita.arrow.buffers import dense_array
from partita.arrow.key import key_texts
from partita.arrow.prune import spec_columns
from partita.arrow.schema import to_arrow_type
from partita.assets.asset import TableOptions
from partita.errors import DefinitionError
from partita.formats.arguments import partition_functions_of
from partita.formats.capabilities import Operation
from partita.formats.lake_tables import new_table_spec
from partita.formats.registry import table_format
from partita.status.definitions import AssetDefinition


class OrdinalUnit(Enum):
    """What the integers of a field count from 1970 on."""

    HOURS = "hours"
    MONTHS = "months"


@dataclass(frozen=True, slots=True)
class DimensionField:
    """A dimension and the partition field that stores it.

    `name` is the dimension, `type` the Arrow type of the key's values, and `ordinal_unit` what the field counts if it
    stores timestamps or dates as integers.
    """

    name: str
    field: PartitionField
    type: pa.DataType
    ordinal_unit: OrdinalUnit | None = None

    def to_field_values(self, values: Iterable[KeyValue]) -> pa.Array:
        """Convert values of keys to values of the field."""
        if self.ordinal_unit is None:
            return pa.array(list(values), self.type)
        return pa.array([None if value is None else _ordinal_since_epoch(value) for value in values], self.type)

    def to_key_values(self, column: pa.ChunkedArray | pa.Array) -> pa.Array:
        """Convert values of the field to values of keys."""
        values = dense_array(column)
        if self.ordinal_unit is OrdinalUnit.HOURS:
            hours = pa.array(values.to_numpy(zero_copy_only=False), pa.int64(), from_pandas=True)
            return pa.compute.multiply(hours, 3_600_000_000).cast(pa.timestamp("us", "UTC"))
        if self.ordinal_unit is OrdinalUnit.MONTHS:
            months = values.fill_null(0).to_numpy().astype("datetime64[M]").astype("datetime64[D]")
            return pa.array(months, pa.date32(), mask=np.asarray(values.is_null()))
        return values.cast(self.type)


@dataclass(frozen=True, slots=True)
class DimensionFields:
    """The partition fields that store the dimensions of an asset, in the order of its keys."""

    fields: tuple[DimensionField, ...]

    @classmethod
    def of(cls, asset: str, partitions: PartitionSet, spec: PartitionSpec) -> DimensionFields:
        """Find the field of each dimension. Raise `DefinitionError` for a dimension that the spec can't store."""
        return cls(tuple(_dimension_field(asset, dimension, spec) for dimension in partitions.dimensions))

    def partition_rows(self, selection: DimensionSelection) -> pa.Table:
        """Return a row of field values for each selected partition; no columns if nothing is selected by."""
        fields_by_name = {field.name: field for field in self.fields}
        names = selection.names
        columns = list(zip(*selection.values, strict=True)) if selection.values else [()] * len(names)
        return pa.table({
            fields_by_name[name].field.name: fields_by_name[name].to_field_values(values)
            for name, values in zip(names, columns, strict=True)
        })  # fmt: skip

    def partition_rows_of_keys(self, keys: Sequence[PartitionKey]) -> pa.Table:
        """Return a row of field values for each key."""
        return self.partition_rows(
            DimensionSelection(tuple(field.name for field in self.fields), tuple(tuple(key.values()) for key in keys))
        )

    def partition_keys(self, partitions: pa.Table) -> pa.Array:
        """Return the canonical key of each row of field values."""
        if not self.fields:
            return pa.array([""] * partitions.num_rows, pa.string())
        return key_texts({field.name: field.to_key_values(partitions[field.field.name]) for field in self.fields})


def keys_by_spec(
    asset: str, dimensions: PartitionSet, specs: SpecHistory, partitions: pa.Table
) -> Iterator[tuple[PartitionSet, np.ndarray, pa.Array]]:
    """Yield, for each spec of a table's partitions, the stored dimensions, the indices of its rows, and their keys.

    A spec may store only some of the asset's dimensions; the keys then have these dimensions alone.
    """
    spec_ids = np.asarray(partitions["spec_id"])
    for spec in specs.specs:
        row_indices = np.flatnonzero(spec_ids == spec.spec_id)
        if len(row_indices):
            stored_dimensions = PartitionSet(tuple(d for d in dimensions.dimensions if d.name in spec.names))
            columns = spec_columns(specs, spec, partitions.take(pa.array(row_indices)))
            yield (
                stored_dimensions,
                row_indices,
                DimensionFields.of(asset, stored_dimensions, spec).partition_keys(columns),
            )


def check_values_fit_format(definition: AssetDefinition, format_name: str) -> None:
    """Refuse values that no table of a format can hold."""
    for dimension in definition.partitions.dimensions:
        gap = table_format(format_name).gaps.get(Operation.EMPTY_TEXT_PARTITIONS)
        if gap is not None and isinstance(dimension, StaticDimension) and "" in dimension.values:
            raise DefinitionError(
                f"the asset {definition.asset!r} has an empty text in {dimension.name!r}, which a "
                f"{table_format(format_name).title} table can't tell from null; {gap.way_out}"
            )


def check_new_table(definition: AssetDefinition, table_options: TableOptions) -> None:
    """Refuse dimensions that the table of an asset could not hold, where it is not made yet.

    With a schema, everything is known; without, the names of fields and what they do are.
    """
    partition_by = table_options.partition_by
    if table_options.schema is not None:
        spec = new_table_spec(
            table_options.schema,
            table_options.format,
            definition.partitions.names if partition_by is None else partition_by,
        )
        DimensionFields.of(definition.asset, definition.partitions, spec)
        return
    functions = {
        function.name.casefold(): function for function in partition_functions_of(partition_by or (), "partition_by")
    }
    own_format = table_format(table_options.format)
    transform_gap = own_format.gaps.get(Operation.TRANSFORM_PARTITIONING)
    has_transforms = transform_gap is None
    for function in functions.values():
        if transform_gap is not None and not own_format.can_partition_by(function):
            raise DefinitionError(
                f"the asset {definition.asset!r} has partition_by={function}, and a {own_format.title} table "
                f"{transform_gap.reason}; {transform_gap.way_out}"
            )
    for dimension in () if partition_by is None else definition.partitions.dimensions:
        function_of_dimension = functions.get(dimension.name.casefold())
        if function_of_dimension is None:
            raise _missing_field_error(definition.asset, dimension, [f.name for f in functions.values()])
        if isinstance(dimension, TimeWindows) and not function_of_dimension.transform.is_identity and has_transforms:
            # The results of such a field don't depend on the type of its column.
            field = PartitionField(
                function_of_dimension.name,
                function_of_dimension.source,
                function_of_dimension.transform,
                PARTITION_FIELD_ID_START,
                DATE,
            )
            _window_field(definition.asset, dimension, field, own_format.family, TypeKind.DATE)


def _missing_field_error(asset: str, dimension: Dimension, names: Sequence[str]) -> DefinitionError:
    return DefinitionError(
        f"the asset {asset!r} has the dimension {dimension.name!r}, and its table is partitioned by "
        f"{', '.join(names) or 'nothing'}; name a partition field so, or leave the dimension out"
    )


def _dimension_field(asset: str, dimension: Dimension, spec: PartitionSpec) -> DimensionField:
    name = dimension.name
    field = next((f for f in spec.fields if f.name == name), None)
    if field is None:
        raise _missing_field_error(asset, dimension, spec.names)
    kind = field.key_type(spec.family).kind
    if isinstance(dimension, TimeWindows):
        return _window_field(asset, dimension, field, spec.family, kind)
    values = dimension.values if isinstance(dimension, StaticDimension) else ()
    invalid_values = [value for value in values if value is not None and not _is_value_of_kind(value, kind)]
    if invalid_values or kind not in _KEY_KINDS:
        problem = (
            f"can't hold {invalid_values[0]!r} in a key" if invalid_values else f"holds {kind}, which a key can't hold"
        )
        raise _unsupported_field_error(asset, dimension, field, problem)
    return DimensionField(name, field, _arrow_key_type(field, spec.family))


def _window_field(
    asset: str, dimension: TimeWindows, field: PartitionField, family: TransformFamily, kind: TypeKind
) -> DimensionField:
    name = dimension.name
    if field.transform.is_identity:
        if kind is not (TypeKind.TIMESTAMP if dimension.unit == HOUR else TypeKind.DATE):
            value_noun = "timestamps with a time zone" if dimension.unit == HOUR else "dates"
            raise _unsupported_field_error(
                asset, dimension, field, f"holds {kind}, and windows by {dimension.unit} need {value_noun}"
            )
        return DimensionField(name, field, _arrow_key_type(field, family))
    ordinal_units = {DAY: None, HOUR: OrdinalUnit.HOURS, MONTH: OrdinalUnit.MONTHS}
    if (
        family is not TransformFamily.ICEBERG
        or field.transform.time_unit != dimension.unit
        or dimension.unit not in ordinal_units
    ):
        raise _unsupported_field_error(asset, dimension, field, f"can't hold windows by {dimension.unit}")
    is_utc = dimension.time_zone == "UTC" and not dimension.offset
    if not is_utc and (dimension.unit != HOUR or dimension.window_start(0).minute):
        raise _unsupported_field_error(
            asset, dimension, field, f"counts each {dimension.unit} in UTC, and the windows don't"
        )
    return DimensionField(name, field, _arrow_key_type(field, family), ordinal_units[dimension.unit])


def _unsupported_field_error(asset: str, dimension: Dimension, field: PartitionField, reason: str) -> DefinitionError:
    return DefinitionError(
        f"the asset {asset!r} has the dimension {dimension.name!r}, and the partition field {field.function} {reason}"
    )


_KEY_KINDS = frozenset({TypeKind.STRING, TypeKind.BOOLEAN, TypeKind.DATE, TypeKind.TIMESTAMP, *INTEGER_KINDS})


def _is_value_of_kind(value: KeyValue, kind: TypeKind) -> bool:
    """Return whether a field of this kind can store a value of a key."""
    if isinstance(value, bool):
        return kind is TypeKind.BOOLEAN
    if isinstance(value, int):
        return kind in INTEGER_KINDS
    if isinstance(value, datetime):
        return kind is TypeKind.TIMESTAMP
    return kind is (TypeKind.DATE if isinstance(value, date) else TypeKind.STRING)


def _arrow_key_type(field: PartitionField, family: TransformFamily) -> pa.DataType:
    return to_arrow_type(field.key_type(family))


def _ordinal_since_epoch(value: KeyValue) -> int:
    """Return the number of the hour or month from 1970 on that starts at a value of a key."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(hours=1)
    assert isinstance(value, date)  # noqa: S101 - a window's value
    return (value.year - 1970) * 12 + value.month - 1


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
