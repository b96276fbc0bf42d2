"""Partitions that are chosen by the values of some fields, and the files that lie in them, whatever their spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
from partita.algebra.types import CharType
from partita.arrow.buffers import is_text
from partita.arrow.groups import are_among, distinct
from partita.arrow.plain import padded
from partita.errors import PartitionsError
from partita.formats.plan import State


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The partitions whose values of `fields` are a row of `values`, null being null; without fields, all.

    `values` has a column for each field under its name, of the type that `State.partitions` has it in.
    """

    fields: tuple[PartitionField, ...]
    values: pa.Table

    @property
    def results(self) -> pa.Table:
        """The values as the fields' functions give them: Iceberg's day as a number."""
        columns = [
            column.cast(pa.int32()) if _is_day(field, column.type) else column
            for field, column in zip(self.fields, self.values.columns, strict=True)
        ]
        return pa.table(columns, names=self.values.column_names)

    def places(self, specs: SpecHistory, partitions: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Which rows of a table like `State.partitions` lie in them: as a whole, and perhaps in part.

        A row of a spec that lacks some of the fields is told by those that it has.
        """
        ids = partitions["spec_id"].to_numpy()
        whole, part = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        for spec in specs.specs if not self.fields or self.values.num_rows else ():
            rows = np.flatnonzero(ids == spec.spec_id)
            if not len(rows):
                continue
            shared = self._shared(specs, spec)
            found = rows[self._are_in(partitions.take(pa.array(rows)), shared)] if shared else rows
            (whole if len(shared) == len(self.fields) else part)[found] = True
        return np.flatnonzero(whole), np.flatnonzero(part)

    def touches(self, specs: SpecHistory, partitions: pa.Table) -> bool:
        """Whether any row of a table like `State.partitions` may lie in them."""
        return any(len(places) for places in self.places(specs, partitions))

    def _shared(self, specs: SpecHistory, spec: PartitionSpec) -> dict[str, str]:
        """What the fields that a spec has are called in a table of partitions, by their own names."""
        return {own.name: specs.column_name(spec, f) for own in self.fields for f in spec.fields if f.same_as(own)}

    def _are_in(self, partitions: pa.Table, shared: dict[str, str]) -> np.ndarray:
        rows = pa.table([partitions[under] for under in shared.values()], names=list(shared))
        found: np.ndarray = are_among(rows, self.values.select(list(shared)))
        return found


def choose(state: State, partitions: pa.Table) -> Chosen:
    """The partitions that the rows of a table say by fields of the current spec; what doesn't fit it is refused."""
    if not isinstance(partitions, pa.Table):
        raise PartitionsError(
            f"partitions are an Arrow table with a column for each field, not {type(partitions).__name__}"
        )
    fields: dict[str, PartitionField] = {}
    columns = []
    for name, values in zip(partitions.column_names, partitions.columns, strict=True):
        field = state.spec.field(name)
        if field.name in fields:
            raise PartitionsError(f"partition field {field.name!r} is given twice")
        fields[field.name] = field
        fitted = _fitted(values, field, _type_in(state, field))
        if isinstance(field.source_type, CharType):
            fitted = pa.chunked_array([padded(fitted, field.source_type).cast(fitted.type)])
        columns.append(fitted)
    return Chosen(tuple(fields.values()), distinct(pa.table(columns, names=list(fields))))


def chosen_by_all(state: State, partitions: pa.Table) -> Chosen:
    """The partitions that the rows of a table like `State.partitions` are, all of the current spec."""
    return Chosen(state.spec.fields, distinct(fields_of(state, state.spec.fields, partitions)))


def fields_of(state: State, fields: Sequence[PartitionField], partitions: pa.Table) -> pa.Table:
    """Some fields' columns of a table like `State.partitions`, whose rows are of the current spec."""
    columns = [partitions[state.specs.column_name(state.spec, field)] for field in fields]
    return pa.table(columns, names=[field.name for field in fields])


def _type_in(state: State, field: PartitionField) -> pa.DataType:
    return state.partitions.schema.field(state.specs.column_name(state.spec, field)).type


def _is_day(field: PartitionField, type_: pa.DataType) -> bool:
    return field.transform.name == "day" and pa.types.is_date32(type_)


def _fitted(values: pa.ChunkedArray, field: PartitionField, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    fits = values.type == wanted or pa.types.is_null(values.type) or _kind(values.type) == _kind(wanted)
    if _is_day(field, wanted) and pa.types.is_integer(values.type):
        fits, values = True, _cast(values, field, pa.int32())
    if not fits:
        raise PartitionsError(f"partition field {field.name!r} is {wanted}, and {values.type} is given; cast it")
    return _cast(values, field, wanted)


def _cast(values: pa.ChunkedArray, field: PartitionField, wanted: pa.DataType) -> pa.ChunkedArray:
    if values.type == pa.uuid() and wanted != values.type:
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], pa.binary(16))
    try:
        return values.cast(wanted)
    except pa.ArrowException as error:
        raise PartitionsError(f"partition field {field.name!r} is {wanted}: {error}") from error


def _kind(type_: pa.DataType) -> object:
    """What two types share between which values can be cast without becoming others."""
    if is_text(type_):
        return "text"
    if pa.types.is_timestamp(type_):
        return "instant" if type_.tz else "local time"
    if type_ == pa.uuid() or type_ == pa.binary(16):
        return "uuid"
    kinds = {
        "integer": pa.types.is_integer, "date": pa.types.is_date, "decimal": pa.types.is_decimal,
        "bytes": lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), "time": pa.types.is_time,
    }  # fmt: skip
    return next((kind for kind, is_one in kinds.items() if is_one(type_)), type_)
