"""Partition specs, and the history of specs that a table has had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from partita.algebra.functions import identity
from partita.algebra.schema import Schema
from partita.algebra.transforms import Family, PartitionFunction, Transform
from partita.algebra.types import LogicalType
from partita.errors import SpecError, UnknownSpec, value_repr

FIRST_FIELD_ID = 1000
"""Iceberg counts partition fields from here, apart from the ids of columns."""

Functions: TypeAlias = Iterable[PartitionFunction | str]
"""Partition functions; a bare name is the column itself."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a spec: a transform of a column, under a name and an id that outlives renaming."""

    name: str
    source: str
    transform: Transform
    field_id: int
    source_type: LogicalType

    def same_as(self, other: PartitionField) -> bool:
        """Whether both hold the same values: the same transform of the same column."""
        return isinstance(other, PartitionField) and (self.source, self.transform) == (other.source, other.transform)

    @property
    def function(self) -> PartitionFunction:
        """The field as people write it."""
        return PartitionFunction(self.source, self.transform, self.name)

    @property
    def result_type(self) -> LogicalType:
        """The type of the field's values."""
        return self.transform.result_type(self.source_type)


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How a table, or a part of its files, is partitioned."""

    spec_id: int
    fields: tuple[PartitionField, ...]
    family: Family

    @classmethod
    def of(cls, functions: Functions, schema: Schema, family: str, spec_id: int = 0) -> PartitionSpec:
        """The spec of these functions, each checked against the type of its column."""
        known = Family.of(family)
        if isinstance(functions, str | PartitionFunction) or not isinstance(functions, Iterable):
            raise SpecError(f"a spec is made of a list of partition functions, not {value_repr(functions)}")
        if not isinstance(schema, Schema):
            raise SpecError(f"a spec is checked against a Schema, not {value_repr(schema)}")
        if not isinstance(spec_id, int) or isinstance(spec_id, bool) or abs(spec_id) >= 2**31:
            raise SpecError(f"the id of a spec is a whole number of 32 bits, not {value_repr(spec_id)}")
        numbered = enumerate(map(_as_function, functions), FIRST_FIELD_ID)
        fields = tuple(bind(function, schema, known, field_id) for field_id, function in numbered)
        return cls(spec_id, _distinct(fields, schema), known)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(f.name for f in self.fields)

    def field(self, name: str) -> PartitionField:
        """The field of that name, without regard to case."""
        if not isinstance(name, str):
            raise SpecError(f"the name of a partition field is text, not {value_repr(name)}")
        for f in self.fields:
            if f.name.casefold() == name.casefold():
                return f
        raise SpecError(f"no partition field {name!r} in spec {self.spec_id}; it has {', '.join(self.names) or 'none'}")

    def __str__(self) -> str:
        return ", ".join(str(f.function) for f in self.fields)


@dataclass(frozen=True, slots=True)
class SpecHistory:
    """All specs of a table; the current one is what new files are written with."""

    schema: Schema
    specs: tuple[PartitionSpec, ...]
    current_id: int

    @classmethod
    def start(cls, spec: PartitionSpec, schema: Schema) -> SpecHistory:
        """The history of a table that has had one spec."""
        if not isinstance(spec, PartitionSpec):
            raise SpecError(f"a spec is made by parse_spec, not {value_repr(spec)}")
        if not isinstance(schema, Schema):
            raise SpecError(f"a history of specs has a Schema, not {value_repr(schema)}")
        return cls(schema, (spec,), spec.spec_id)

    @property
    def current(self) -> PartitionSpec:
        """The spec that new files are written with."""
        return self.spec(self.current_id)

    def spec(self, spec_id: int) -> PartitionSpec:
        """The spec of that id; any other id is `UnknownSpec`."""
        for spec in self.specs:
            if spec.spec_id == spec_id:
                return spec
        raise UnknownSpec(spec_id, tuple(s.spec_id for s in self.specs))

    def column_name(self, spec: PartitionSpec, field: PartitionField) -> str:
        """What the values of a field are called in a table of partitions of all specs.

        That is its name, or `name@spec_id` where another spec has a field of that name that holds something else.
        """
        if not isinstance(spec, PartitionSpec) or not isinstance(field, PartitionField):
            raise SpecError(
                f"a column is named by a spec and a field of it, not {value_repr(spec)} and {value_repr(field)}"
            )
        others = (f for other in self.specs if other.spec_id != spec.spec_id for f in other.fields)
        is_alone = all(f.same_as(field) for f in others if f.name.casefold() == field.name.casefold())
        return field.name if is_alone else f"{field.name}@{spec.spec_id}"

    def evolve(
        self,
        *,
        add: Functions = (),
        drop: Functions = (),
        rename: Mapping[str, str] | None = None,
    ) -> SpecHistory:
        """The history with one more spec, or with an earlier one current again where that says the same.

        Fields are dropped, then renamed, then added. A field that the table has had before keeps its id.
        """
        for given in (add, drop):
            if isinstance(given, str | PartitionFunction) or not isinstance(given, Iterable):
                raise SpecError(f"partition fields are added and dropped by lists, not {value_repr(given)}")
        names = {} if rename is None else rename
        if not isinstance(names, Mapping) or not all(isinstance(name, str) for pair in names.items() for name in pair):
            raise SpecError(
                f"partition fields are renamed by texts: the new name by the old one, not {value_repr(rename)}"
            )
        current = self.current
        dropped = {self._dropped(f).name for f in drop}
        renamed = {current.field(old).name: new for old, new in names.items()}
        gone = sorted(dropped & set(renamed))
        if gone:
            raise SpecError(f"partition field {gone[0]!r} can't be both dropped and renamed")
        kept = [replace(f, name=renamed.get(f.name, f.name)) for f in current.fields if f.name not in dropped]
        fields = _distinct((*kept, *self._added(add)), self.schema)
        for spec in self.specs:
            if spec.fields == fields:
                return replace(self, current_id=spec.spec_id)
        new = PartitionSpec(max(s.spec_id for s in self.specs) + 1, fields, current.family)
        return SpecHistory(self.schema, (*self.specs, new), new.spec_id)

    def _dropped(self, given: PartitionFunction | str) -> PartitionField:
        if isinstance(given, str):
            return self.current.field(given)
        wanted = bind(_as_function(given), self.schema, self.current.family, 0)
        for f in self.current.fields:
            if f.same_as(wanted):
                return f
        raise SpecError(f"no partition field {given} in spec {self.current_id}; it has {str(self.current) or 'none'}")

    def _added(self, functions: Functions) -> Iterable[PartitionField]:
        past = [f for spec in self.specs for f in spec.fields]
        last = max((f.field_id for f in past), default=FIRST_FIELD_ID - 1)
        for function in map(_as_function, functions):
            field = bind(function, self.schema, self.current.family, last + 1)
            equivalent = [f for f in past if f.same_as(field)]
            if equivalent:
                yield replace(field, field_id=equivalent[0].field_id)
            else:
                last += 1
                yield field


def bind(function: PartitionFunction, schema: Schema, family: Family, field_id: int) -> PartitionField:
    """The field of a function on a schema's column; a type that it does not take is a `TransformError`."""
    column = schema.find(function.source)
    function.transform.check(column.type, family, column.name)
    name = function.name
    if name.casefold() == function.source.casefold():
        name = column.name
    return PartitionField(name, column.name, function.transform, field_id, column.type)


def _as_function(given: PartitionFunction | str) -> PartitionFunction:
    if not isinstance(given, PartitionFunction | str):
        raise SpecError(
            f"a partition function is made by bucket, day and the like, or is a column, not {value_repr(given)}"
        )
    return identity(given) if isinstance(given, str) else given


def _distinct(fields: tuple[PartitionField, ...], schema: Schema) -> tuple[PartitionField, ...]:
    columns = {name.casefold(): name for name in schema.names}
    for at, field in enumerate(fields):
        for earlier in fields[:at]:
            if field.name.casefold() == earlier.name.casefold() and not field.same_as(earlier):
                raise SpecError(f"two partition fields are called {field.name!r}; give one another name")
            if field.same_as(earlier):
                raise SpecError(f"{field.function} is a partition field twice")
        column = columns.get(field.name.casefold())
        if column is not None and not (field.transform.name == "identity" and field.source == column):
            raise SpecError(f"partition field {field.name!r} has the name of a column; give it another")
    return fields
