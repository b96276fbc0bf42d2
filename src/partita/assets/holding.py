"""How a table holds the partitions of an asset: each dimension is a partition field of that name.

| dimension | field that can hold it |
|---|---|
| days, weeks, months | a date column |
| days in UTC | Iceberg's `day` of a timestamp |
| months in UTC | Iceberg's `month`, which counts months from 1970 |
| hours | a timestamp column with a time zone |
| hours of UTC | Iceberg's `hour`, which counts hours from 1970 |
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

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import KeyValue
from partita.algebra.mappings import Choice
from partita.algebra.partition_sets import Dimension, PartitionSet, Static
from partita.algebra.spec import FIRST_FIELD_ID, PartitionField, PartitionSpec, SpecHistory
from partita.algebra.transforms import Family
from partita.algebra.types import DATE, INTEGERS, Kind
from partita.algebra.windows import DAY, HOUR, MONTH, Windows
from partita.arrow.buffers import one_array
from partita.arrow.key import key_texts
from partita.arrow.schema import to_arrow
from partita.arrow.spec import spec_columns
from partita.assets.asset import Making
from partita.errors import DefinitionError
from partita.formats.arguments import functions_of
from partita.formats.opening import new_spec
from partita.status.definitions import Definition


class Count(Enum):
    """What a field's whole numbers count, where they stand for moments."""

    HOURS = "hours"
    MONTHS = "months"


@dataclass(frozen=True, slots=True)
class Held:
    """A dimension and the partition field that holds it; `count` where the field has whole numbers for moments."""

    name: str
    field: PartitionField
    type: pa.DataType
    count: Count | None = None

    def stored(self, values: Iterable[KeyValue]) -> pa.Array:
        """Values of keys as those of the field."""
        if self.count is None:
            return pa.array(list(values), self.type)
        return pa.array([None if value is None else _number(value) for value in values], self.type)

    def shown(self, column: pa.ChunkedArray | pa.Array) -> pa.Array:
        """Values of the field as those of keys."""
        found = one_array(column)
        if self.count is Count.HOURS:
            micros = pa.array(found.to_numpy(zero_copy_only=False), pa.int64(), from_pandas=True)
            return pa.compute.multiply(micros, 3_600_000_000).cast(pa.timestamp("us", "UTC"))
        if self.count is Count.MONTHS:
            months = found.fill_null(0).to_numpy().astype("datetime64[M]").astype("datetime64[D]")
            return pa.array(months, pa.date32(), mask=np.asarray(found.is_null()))
        return found.cast(self.type)


@dataclass(frozen=True, slots=True)
class Holding:
    """How a spec holds the dimensions of an asset, in the order of its keys."""

    held: tuple[Held, ...]

    @classmethod
    def of(cls, asset: str, partitions: PartitionSet, spec: PartitionSpec) -> Holding:
        """The holding; a dimension that the spec can't hold is a `DefinitionError` that says why."""
        return cls(tuple(_held(asset, dimension, spec) for dimension in partitions.dimensions))

    def chosen(self, choice: Choice) -> pa.Table:
        """Partitions by the fields of the table, a row each; without dimensions there is one row for all."""
        by_name = {held.name: held for held in self.held}
        columns = list(zip(*choice.values, strict=True)) if choice.values else [()] * len(choice.names)
        return pa.table({
            by_name[name].field.name: by_name[name].stored(values)
            for name, values in zip(choice.names, columns, strict=True)
        })  # fmt: skip

    def of_keys(self, keys: Sequence[PartitionKey]) -> pa.Table:
        """The same of whole keys."""
        return self.chosen(Choice(tuple(h.name for h in self.held), tuple(tuple(key.values()) for key in keys)))

    def keys(self, partitions: pa.Table) -> pa.Array:
        """The canonical keys of partitions that are given by the table's fields."""
        if not self.held:
            return pa.array([""] * partitions.num_rows, pa.string())
        return key_texts({held.name: held.shown(partitions[held.field.name]) for held in self.held})


def keys_by_spec(
    asset: str, wanted: PartitionSet, specs: SpecHistory, partitions: pa.Table
) -> Iterator[tuple[PartitionSet, np.ndarray, pa.Array]]:
    """For each spec, which of the asset's dimensions it holds, its rows of a table like `State.partitions`, their keys.

    A key has the held dimensions alone.
    """
    ids = np.asarray(partitions["spec_id"])
    for spec in specs.specs:
        places = np.flatnonzero(ids == spec.spec_id)
        if len(places):
            held = PartitionSet(tuple(d for d in wanted.dimensions if d.dimension in spec.names))
            columns = spec_columns(specs, spec, partitions.take(pa.array(places)))
            yield held, places, Holding.of(asset, held, spec).keys(columns)


def check_format(definition: Definition, format_: str) -> None:
    """Refuse values that no table of a format can hold."""
    for dimension in definition.partitions.dimensions:
        if format_ == "delta" and isinstance(dimension, Static) and "" in dimension.values:
            raise DefinitionError(
                f"the asset {definition.asset!r} has an empty text in {dimension.dimension!r}, which a Delta table "
                "can't tell from null; use None, another text, or another format"
            )


def check_new(definition: Definition, making: Making) -> None:
    """Refuse dimensions that the table of an asset could not hold, where it is not made yet.

    With a schema, everything is known; without, the names of fields and what they do are.
    """
    by = making.partition_by
    if making.schema is not None:
        spec = new_spec(making.schema, making.format, definition.partitions.names if by is None else by)
        Holding.of(definition.asset, definition.partitions, spec)
        return
    functions = {function.name.casefold(): function for function in functions_of(by or (), "partition_by")}
    for function in functions.values():
        if making.format == "delta" and function.transform.name in ("bucket", "hash", "void"):
            raise DefinitionError(
                f"the asset {definition.asset!r} has partition_by={function}, and Delta partitions by columns: return "
                "a column that holds it and name that, or use another format"
            )
    for dimension in () if by is None else definition.partitions.dimensions:
        found = functions.get(dimension.dimension.casefold())
        if found is None:
            raise _nameless(definition.asset, dimension, [f.name for f in functions.values()])
        if isinstance(dimension, Windows) and found.transform.name != "identity" and making.format != "delta":
            # What such a field holds doesn't hang on the type of its column.
            field = PartitionField(found.name, found.source, found.transform, FIRST_FIELD_ID, DATE)
            _held_windows(definition.asset, dimension, field, Family.of(making.format), Kind.DATE)


def _nameless(asset: str, dimension: Dimension, names: Sequence[str]) -> DefinitionError:
    return DefinitionError(
        f"the asset {asset!r} has the dimension {dimension.dimension!r}, and its table is partitioned by "
        f"{', '.join(names) or 'nothing'}; name a partition field so, or leave the dimension out"
    )


def _held(asset: str, dimension: Dimension, spec: PartitionSpec) -> Held:
    name = dimension.dimension
    field = next((f for f in spec.fields if f.name == name), None)
    if field is None:
        raise _nameless(asset, dimension, spec.names)
    kind = field.transform.key_type(field.source_type, spec.family).kind
    if isinstance(dimension, Windows):
        return _held_windows(asset, dimension, field, spec.family, kind)
    values = dimension.values if isinstance(dimension, Static) else ()
    wrong = [value for value in values if value is not None and not _fits(value, kind)]
    if wrong or kind not in _KEYED:
        what = f"{wrong[0]!r}" if wrong else "such values"
        raise _refused(asset, dimension, field, f"can't hold {what} in a key")
    return Held(name, field, _arrow(field, spec.family))


def _held_windows(asset: str, dimension: Windows, field: PartitionField, family: Family, kind: Kind) -> Held:
    name, transform = dimension.dimension, field.transform.name
    if transform == "identity":
        if kind is not (Kind.TIMESTAMP if dimension.unit == HOUR else Kind.DATE):
            needed = "timestamps with a time zone" if dimension.unit == HOUR else "dates"
            raise _refused(asset, dimension, field, f"holds {kind}, and windows by {dimension.unit} need {needed}")
        return Held(name, field, _arrow(field, family))
    counts = {DAY: None, HOUR: Count.HOURS, MONTH: Count.MONTHS}
    if family is not Family.ICEBERG or transform != dimension.unit or dimension.unit not in counts:
        raise _refused(asset, dimension, field, f"can't hold windows by {dimension.unit}")
    is_utc = dimension.time_zone == "UTC" and not dimension.offset
    if not is_utc and (dimension.unit != HOUR or dimension.starts_at(0).minute):
        raise _refused(asset, dimension, field, f"counts each {dimension.unit} in UTC, and the windows don't")
    return Held(name, field, _arrow(field, family), counts[dimension.unit])


def _refused(asset: str, dimension: Dimension, field: PartitionField, why: str) -> DefinitionError:
    return DefinitionError(
        f"the asset {asset!r} has the dimension {dimension.dimension!r}, and the partition field {field.function} {why}"
    )


_KEYED = frozenset({Kind.STRING, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, *INTEGERS})


def _fits(value: KeyValue, kind: Kind) -> bool:
    """Whether a key's value can be one of a field of that kind."""
    if isinstance(value, bool):
        return kind is Kind.BOOLEAN
    if isinstance(value, int):
        return kind in INTEGERS
    if isinstance(value, datetime):
        return kind is Kind.TIMESTAMP
    return kind is (Kind.DATE if isinstance(value, date) else Kind.STRING)


def _arrow(field: PartitionField, family: Family) -> pa.DataType:
    return to_arrow(field.transform.key_type(field.source_type, family))


def _number(value: KeyValue) -> int:
    """The hour or the month from 1970 on that starts at a key's value."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(hours=1)
    assert isinstance(value, date)  # noqa: S101 - a window's value
    return (value.year - 1970) * 12 + value.month - 1


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
