"""Select partitions by the values of some fields, and find their files, whatever the spec of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from partita.algebra.calendar import DAY
from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
from partita.algebra.types import CharType
from partita.arrow.buffers import is_string_type
from partita.arrow.distinct_rows import (
    bits_of_floats,
    distinct_row_ids,
    distinct_rows,
    first_row_indices,
    membership_mask,
)
from partita.arrow.physical_values import pad_char_values
from partita.errors import PartitionsError
from partita.formats.table_version import TableVersion


@dataclass(frozen=True, slots=True, eq=False)
class PartitionSelection:
    """The partitions whose values of `fields` are a row of `values`, null equal to null; all if there are no fields.

    `values` has a column for each field under its name, of its type in `TableVersion.partitions`. An exact selection
    tells -0.0 from 0.0, which are two partitions; another one selects both, as SQL finds them equal.
    """

    fields: tuple[PartitionField, ...]
    values: pa.Table
    is_exact: bool = False

    @property
    def transform_results(self) -> pa.Table:
        """The values as the transforms return them: Iceberg's day as an integer."""
        columns = [
            column.cast(pa.int32()) if _is_day_field(field, column.type) else column
            for field, column in zip(self.fields, self.values.columns, strict=True)
        ]
        return pa.table(columns, names=self.values.column_names)

    def matching_indices(self, spec_history: SpecHistory, partitions: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows of `partitions` (`TableVersion.partitions`) are in the selection: surely, and possibly.

        A row whose spec lacks some of the fields is compared by the others, and is possibly in the selection.
        """
        ids = partitions["spec_id"].to_numpy()
        is_whole, is_partial = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        for spec in spec_history.specs if not self.fields or self.values.num_rows else ():
            rows = np.flatnonzero(ids == spec.spec_id)
            if not len(rows):
                continue
            shared_columns = self._shared_columns(spec_history, spec)
            matching_rows = (
                rows[self._is_selected(partitions.take(pa.array(rows)), shared_columns)] if shared_columns else rows
            )
            (is_whole if len(shared_columns) == len(self.fields) else is_partial)[matching_rows] = True
        return np.flatnonzero(is_whole), np.flatnonzero(is_partial)

    def may_match(self, spec_history: SpecHistory, partitions: pa.Table) -> bool:
        """Whether any row of `partitions` (`TableVersion.partitions`) may be in the selection."""
        return any(len(indices) for indices in self.matching_indices(spec_history, partitions))

    def _shared_columns(self, spec_history: SpecHistory, spec: PartitionSpec) -> dict[str, str]:
        """Return the columns of the selected fields that a spec has in `TableVersion.partitions`, by field name."""
        return {
            selected_field.name: spec_history.column_name(spec, field)
            for selected_field in self.fields
            for field in spec.fields
            if field.is_equivalent(selected_field)
        }

    def _is_selected(self, partitions: pa.Table, shared_columns: dict[str, str]) -> np.ndarray:
        rows = pa.table([partitions[column] for column in shared_columns.values()], names=list(shared_columns))
        values = self.values.select(list(shared_columns))
        if self.is_exact:
            rows, values = _with_bits_of_floats(rows), _with_bits_of_floats(values)
        is_selected: np.ndarray = membership_mask(rows, values)
        return is_selected


def select_partitions(table_version: TableVersion, partitions: pa.Table) -> PartitionSelection:
    """Select the partitions that are the rows of a table, which has columns for fields of the current spec.

    Raises `PartitionsError` for anything but an Arrow table, for a column that is no field of the spec or is there
    twice, and for values of another type.
    """
    if not isinstance(partitions, pa.Table):
        raise PartitionsError(
            f"partitions are an Arrow table with a column for each field, not {type(partitions).__name__}"
        )
    fields: dict[str, PartitionField] = {}
    columns = []
    for name, values in zip(partitions.column_names, partitions.columns, strict=True):
        field = table_version.spec.field(name)
        if field.name in fields:
            raise PartitionsError(f"partition field {field.name!r} is given twice")
        fields[field.name] = field
        column = _fit_values(values, field, _partition_column_type(table_version, field))
        if isinstance(field.source_type, CharType):
            column = pa.chunked_array([pad_char_values(column, field.source_type).cast(column.type)])
        columns.append(column)
    return PartitionSelection(tuple(fields.values()), distinct_rows(pa.table(columns, names=list(fields))))


def selection_from_partitions(table_version: TableVersion, partitions: pa.Table) -> PartitionSelection:
    """Select exactly the rows of `partitions` (`TableVersion.partitions`), all of the current spec."""
    fields = table_version.spec.fields
    values = partition_field_columns(table_version, fields, partitions)
    row_ids = distinct_row_ids(map(bits_of_floats, values.columns), values.num_rows)
    return PartitionSelection(fields, values.take(pa.array(np.sort(first_row_indices(row_ids)))), is_exact=True)


def partition_field_columns(
    table_version: TableVersion, fields: Sequence[PartitionField], partitions: pa.Table
) -> pa.Table:
    """Return some fields of `partitions`, whose rows are of the current spec, as columns under the field names."""
    columns = [partitions[table_version.spec_history.column_name(table_version.spec, field)] for field in fields]
    return pa.table(columns, names=[field.name for field in fields])


def _with_bits_of_floats(rows: pa.Table) -> pa.Table:
    return pa.table([bits_of_floats(column) for column in rows.columns], names=rows.column_names)


def _partition_column_type(table_version: TableVersion, field: PartitionField) -> pa.DataType:
    return table_version.partitions.schema.field(table_version.spec_history.column_name(table_version.spec, field)).type


def _is_day_field(field: PartitionField, type_: pa.DataType) -> bool:
    return field.transform.time_unit == DAY and pa.types.is_date32(type_)


def _fit_values(values: pa.ChunkedArray, field: PartitionField, target_type: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    fits = (
        values.type == target_type
        or pa.types.is_null(values.type)
        or _type_kind(values.type) == _type_kind(target_type)
    )
    if _is_day_field(field, target_type) and pa.types.is_integer(values.type):
        fits, values = True, _cast_values(values, field, pa.int32())
    if not fits:
        raise PartitionsError(f"partition field {field.name!r} is {target_type}, and {values.type} is given; cast it")
    return _cast_values(values, field, target_type)


def _cast_values(values: pa.ChunkedArray, field: PartitionField, target_type: pa.DataType) -> pa.ChunkedArray:
    if values.type == pa.uuid() and target_type != values.type:
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], pa.binary(16))
    try:
        return values.cast(target_type)
    except pa.ArrowException as error:
        raise PartitionsError(f"partition field {field.name!r} is {target_type}: {error}") from error


def _type_kind(type_: pa.DataType) -> object:
    """Return the kind of a type; values can be cast between types of the same kind without changing."""
    if is_string_type(type_):
        return "text"
    if pa.types.is_timestamp(type_):
        return "instant" if type_.tz else "local time"
    if type_ == pa.uuid() or type_ == pa.binary(16):
        return "uuid"
    kinds = {
        "integer": pa.types.is_integer, "date": pa.types.is_date, "decimal": pa.types.is_decimal,
        "bytes": lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), "time": pa.types.is_time,
    }  # fmt: skip
    return next((kind for kind, is_kind in kinds.items() if is_kind(type_)), type_)
