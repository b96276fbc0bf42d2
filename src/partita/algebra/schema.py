"""The columns of a table, and how a name finds one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from partita.algebra.type_text import parse_type
from partita.algebra.types import Field, LogicalType, StructType
from partita.errors import SchemaError, UnknownColumn, value_repr


class NameMatching(Enum):
    """Which columns a name finds."""

    EXACT_FIRST = "exact first"
    """The column of exactly that name, or else those that differ by case: where no Spark session judges."""
    ANY_CASE = "any case"
    """Every column that differs by case at most, as in a Spark session by default."""
    CASE_SENSITIVE = "case sensitive"
    """The column of exactly that name, as in a Spark session with spark.sql.caseSensitive."""


def matching_names(name: str, names: Iterable[str], matching: NameMatching) -> list[str]:
    """Those of some names that a name finds."""
    alike = [each for each in names if each.casefold() == name.casefold()]
    exact = [each for each in alike if each == name]
    if matching is NameMatching.CASE_SENSITIVE or (exact and matching is NameMatching.EXACT_FIRST):
        return exact
    return alike


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, columns: Schema | Mapping[str, LogicalType | str]) -> Schema:
        """A schema from names and types, the types as objects or as text: `{"ts": "timestamp"}`."""
        if isinstance(columns, Schema):
            return columns
        if not isinstance(columns, Mapping):
            raise SchemaError(
                f"{type(columns).__name__} is not a schema; give names and types, or an Arrow or Spark schema"
            )
        return cls(tuple(_field(name, given) for name, given in columns.items()))

    def __hash__(self) -> int:
        # Of the names alone: it is asked for at every plan, and types are nested.
        return hash(self.names)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> Field:
        """The column of that name, or else the one that differs by case alone; `a.b` goes into structs.

        The field that is returned has the schema's own spelling, with the dots of the way to it.
        """
        return find_field(self, name, NameMatching.EXACT_FIRST)


def find_field(schema: Schema, name: str, matching: NameMatching) -> Field:
    """The column that a name finds, as in `Schema.find`; none and several are an `UnknownColumn`."""
    if not isinstance(name, str):
        raise SchemaError(f"the name of a column is text, not {value_repr(name)}")
    alike = _found(schema.fields, name)
    names = matching_names(name, (f.name for f in alike), matching)
    found = [f for f in alike if f.name in names]
    if len(found) == 1:
        return found[0]
    raise UnknownColumn(name, schema.names, _problem([f.name for f in alike], is_ambiguous=bool(found)))


def _problem(alike: list[str], *, is_ambiguous: bool) -> str:
    if is_ambiguous:
        return f"is ambiguous: it could be {' or '.join(alike)}"
    if alike:
        return f"is not in the schema, which has {' and '.join(map(repr, alike))}, and the session is case sensitive"
    return "is not in the schema"


def _field(name: object, given: object) -> Field:
    if not isinstance(name, str):
        raise SchemaError(f"the name of a column is text, not {value_repr(name)}")
    type_ = parse_type(given) if isinstance(given, str) else given
    if not isinstance(type_, LogicalType):
        raise SchemaError(f"the type of column {name!r} is one of Partita's or its name, not {value_repr(given)}")
    return Field(name, type_)


def _found(fields: tuple[Field, ...], name: str) -> list[Field]:
    """The fields of that name, those of structs too: a name with dots may be both."""
    found = [f for f in fields if f.name.casefold() == name.casefold()]
    for f in fields:
        head, rest = name[: len(f.name)], name[len(f.name) :]
        if isinstance(f.type, StructType) and head.casefold() == f.name.casefold() and rest.startswith("."):
            inner = _found(f.type.fields, rest[1:])
            found += [Field(f"{f.name}.{i.name}", i.type, f.nullable or i.nullable) for i in inner]
    return found


def check_distinct(names: Iterable[str]) -> None:
    """Refuse names that Spark can't tell apart."""
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            twin = seen[name.casefold()]
            raise SchemaError(f"columns {twin!r} and {name!r} differ by case alone at most; give one another name")
        seen[name.casefold()] = name
