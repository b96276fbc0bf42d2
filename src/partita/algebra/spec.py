"""Partition specs, and the history of the specs of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from partita.algebra.partition_functions import identity
from partita.algebra.schema import Schema
from partita.algebra.transforms import PartitionFunction, Transform, TransformFamily
from partita.algebra.types import LogicalType
from partita.errors import SpecError, UnknownSpec, value_repr

PARTITION_FIELD_ID_START = 1000
"""The first id of a partition field in Iceberg, whose ids are separate from those of columns."""

PartitionFunctions: TypeAlias = Iterable[PartitionFunction | str]
"""Partition functions; a string is the identity of the column with that name."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field of a spec: a transform of a column, with a name, and an id that does not change when it is renamed.

    Attributes:
        name: the name of the field.
        source: the name of the column.
        transform: the transform.
        field_id: the id of the field in its table.
        source_type: the type of the column.
    """

    name: str
    source: str
    transform: Transform
    field_id: int
    source_type: LogicalType

    def is_equivalent(self, other: PartitionField) -> bool:
        """Return whether two fields have the same transform of the same column."""
        return isinstance(other, PartitionField) and (self.source, self.transform) == (other.source, other.transform)

    @property
    def function(self) -> PartitionFunction:
        """The partition function of the field, as users write it."""
        return PartitionFunction(self.source, self.transform, self.name)

    @property
    def result_type(self) -> LogicalType:
        """The type of the field's values."""
        return self.transform.result_type(self.source_type)

    def key_type(self, family: TransformFamily) -> LogicalType:
        """Return the type of the field's values in partition keys, where Iceberg's `day` is a date."""
        return self.transform.key_type(self.source_type, family)


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How a table, or some of its files, are partitioned. `str(spec)` is text that `parse_spec` reads.

    Attributes:
        spec_id: the id of the spec in its table.
        fields: the partition fields, in order.
        family: the family of the partition functions, Iceberg's or Lance's.
    """

    spec_id: int
    fields: tuple[PartitionField, ...]
    family: TransformFamily

    @classmethod
    def of(cls, functions: PartitionFunctions, schema: Schema, family: str, spec_id: int = 0) -> PartitionSpec:
        """Return the spec of the given functions or column names.

        Raises:
            TransformError: a function does not take the type of its column.
        """
        transform_family = TransformFamily.of(family)
        if isinstance(functions, str | PartitionFunction) or not isinstance(functions, Iterable):
            raise SpecError(f"a spec needs a list of partition functions, not {value_repr(functions)}")
        if not isinstance(schema, Schema):
            raise SpecError(f"the schema of a spec must be a Schema, not {value_repr(schema)}")
        if not isinstance(spec_id, int) or isinstance(spec_id, bool) or abs(spec_id) >= 2**31:
            raise SpecError(f"the id of a spec must be a 32-bit integer, not {value_repr(spec_id)}")
        functions_by_id = enumerate(map(_to_partition_function, functions), PARTITION_FIELD_ID_START)
        fields = tuple(
            bind_partition_field(function, schema, transform_family, field_id) for field_id, function in functions_by_id
        )
        return cls(spec_id, _check_distinct_fields(fields, schema), transform_family)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(f.name for f in self.fields)

    def field(self, name: str) -> PartitionField:
        """Return the field with the given name, ignoring case.

        Raises:
            SpecError: there is no such field.
        """
        if not isinstance(name, str):
            raise SpecError(f"the name of a partition field must be a string, not {value_repr(name)}")
        for f in self.fields:
            if f.name.casefold() == name.casefold():
                return f
        raise SpecError(
            f"spec {self.spec_id} has no partition field {name!r}; its fields are {', '.join(self.names) or 'none'}"
        )

    def __str__(self) -> str:
        return ", ".join(str(f.function) for f in self.fields)


@dataclass(frozen=True, slots=True)
class SpecHistory:
    """All specs of a table; new files are written with the current one.

    Attributes:
        schema: the columns of the table.
        specs: the specs, in the order in which they were added.
        current_spec_id: the id of the current spec.
    """

    schema: Schema
    specs: tuple[PartitionSpec, ...]
    current_spec_id: int

    @classmethod
    def from_spec(cls, spec: PartitionSpec, schema: Schema) -> SpecHistory:
        """Return the history of a table with one spec."""
        if not isinstance(spec, PartitionSpec):
            raise SpecError(f"a spec must be a PartitionSpec, as parse_spec returns it, not {value_repr(spec)}")
        if not isinstance(schema, Schema):
            raise SpecError(f"the schema of a SpecHistory must be a Schema, not {value_repr(schema)}")
        return cls(schema, (spec,), spec.spec_id)

    @property
    def current(self) -> PartitionSpec:
        """The spec that new files are written with."""
        return self.spec(self.current_spec_id)

    def spec(self, spec_id: int) -> PartitionSpec:
        """Return the spec with the given id; raise `UnknownSpec` if there is none."""
        for spec in self.specs:
            if spec.spec_id == spec_id:
                return spec
        raise UnknownSpec(spec_id, tuple(s.spec_id for s in self.specs))

    def column_name(self, spec: PartitionSpec, field: PartitionField) -> str:
        """Return the name of a field's column in a table of partitions of all specs.

        That is the field's name, or `name@spec_id` if another spec has a different field with that name.
        """
        if not isinstance(spec, PartitionSpec) or not isinstance(field, PartitionField):
            raise SpecError(
                f"column_name takes a spec and a field of it, not {value_repr(spec)} and {value_repr(field)}"
            )
        other_fields = (f for other in self.specs if other.spec_id != spec.spec_id for f in other.fields)
        is_unique = all(f.is_equivalent(field) for f in other_fields if f.name.casefold() == field.name.casefold())
        return field.name if is_unique else f"{field.name}@{spec.spec_id}"

    def evolve(
        self,
        *,
        add: PartitionFunctions = (),
        drop: PartitionFunctions = (),
        rename: Mapping[str, str] | None = None,
    ) -> SpecHistory:
        """Return the history with a new current spec, or with an earlier spec as the current one if it is the same.

        Fields are dropped, then renamed, then added. A field that the table had before gets its old id.

        Args:
            add: partition functions or column names.
            drop: the fields to remove, by name or by function.
            rename: new names of fields, by their old names.

        Raises:
            SpecError: the change breaks a rule of the Iceberg specification.
        """
        for functions in (add, drop):
            if isinstance(functions, str | PartitionFunction) or not isinstance(functions, Iterable):
                raise SpecError(f"add and drop must be lists of partition fields, not {value_repr(functions)}")
        names = {} if rename is None else rename
        if not isinstance(names, Mapping) or not all(isinstance(name, str) for pair in names.items() for name in pair):
            raise SpecError(
                f"rename must be a mapping of old to new names of partition fields, not {value_repr(rename)}"
            )
        current = self.current
        dropped_names = {self._field_to_drop(f).name for f in drop}
        new_names = {current.field(old).name: new for old, new in names.items()}
        contradictory_names = sorted(dropped_names & set(new_names))
        if contradictory_names:
            raise SpecError(f"partition field {contradictory_names[0]!r} can't be both dropped and renamed")
        remaining = [
            replace(f, name=new_names.get(f.name, f.name)) for f in current.fields if f.name not in dropped_names
        ]
        fields = _check_distinct_fields((*remaining, *self._fields_to_add(add)), self.schema)
        for spec in self.specs:
            if spec.fields == fields:
                return replace(self, current_spec_id=spec.spec_id)
        new = PartitionSpec(max(s.spec_id for s in self.specs) + 1, fields, current.family)
        return SpecHistory(self.schema, (*self.specs, new), new.spec_id)

    def _field_to_drop(self, field: PartitionFunction | str) -> PartitionField:
        if isinstance(field, str):
            return self.current.field(field)
        dropped_field = bind_partition_field(_to_partition_function(field), self.schema, self.current.family, 0)
        for f in self.current.fields:
            if f.is_equivalent(dropped_field):
                return f
        raise SpecError(
            f"spec {self.current_spec_id} has no partition field {field}; its fields are {str(self.current) or 'none'}"
        )

    def _fields_to_add(self, functions: PartitionFunctions) -> Iterable[PartitionField]:
        past = [f for spec in self.specs for f in spec.fields]
        last = max((f.field_id for f in past), default=PARTITION_FIELD_ID_START - 1)
        for function in map(_to_partition_function, functions):
            field = bind_partition_field(function, self.schema, self.current.family, last + 1)
            equivalent = [f for f in past if f.is_equivalent(field)]
            if equivalent:
                yield replace(field, field_id=equivalent[0].field_id)
            else:
                last += 1
                yield field


def bind_partition_field(
    function: PartitionFunction, schema: Schema, family: TransformFamily, field_id: int
) -> PartitionField:
    """Return the partition field of a function; raise `TransformError` if it does not take the column's type."""
    column = schema.find_field(function.source)
    function.transform.check_type(column.type, family, column.name)
    name = function.name
    if name.casefold() == function.source.casefold():
        name = column.name
    return PartitionField(name, column.name, function.transform, field_id, column.type)


def _to_partition_function(function: PartitionFunction | str) -> PartitionFunction:
    if not isinstance(function, PartitionFunction | str):
        raise SpecError(
            f"a partition function must be made by bucket, day and the like, or be a column, not {value_repr(function)}"
        )
    return identity(function) if isinstance(function, str) else function


def _check_distinct_fields(fields: tuple[PartitionField, ...], schema: Schema) -> tuple[PartitionField, ...]:
    columns = {name.casefold(): name for name in schema.names}
    for index, field in enumerate(fields):
        for earlier in fields[:index]:
            if field.name.casefold() == earlier.name.casefold() and not field.is_equivalent(earlier):
                raise SpecError(f"two partition fields are called {field.name!r}; rename one of them")
            if field.is_equivalent(earlier):
                raise SpecError(f"{field.function} is a partition field twice")
        column = columns.get(field.name.casefold())
        if column is not None and not (field.transform.is_identity and field.source == column):
            raise SpecError(f"partition field {field.name!r} has the name of a column; give it another name")
    return fields
