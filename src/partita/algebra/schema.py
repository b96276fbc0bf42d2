"""Schemas of tables, and the lookup of columns by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from partita.algebra.type_text import parse_type
from partita.algebra.types import Field, LogicalType, StructType
from partita.errors import SchemaError, UnknownColumn, value_repr


class NameMatching(Enum):
    """How column names are matched."""

    EXACT_FIRST = "exact first"
    """The column with exactly the name, or else those that differ in case only: the rule without a Spark session."""
    CASE_INSENSITIVE = "any case"
    """All columns that differ in case at most, as in a Spark session by default."""
    CASE_SENSITIVE = "case sensitive"
    """The column with exactly the name, as in a Spark session with spark.sql.caseSensitive."""


def matching_names(name: str, names: Iterable[str], matching: NameMatching) -> list[str]:
    """Return those of the names that match a name."""
    candidates = [candidate for candidate in names if candidate.casefold() == name.casefold()]
    exact = [candidate for candidate in candidates if candidate == name]
    if matching is NameMatching.CASE_SENSITIVE or (exact and matching is NameMatching.EXACT_FIRST):
        return exact
    return candidates


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order. An Arrow or Spark schema can be passed wherever a schema is an argument."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, columns: Schema | Mapping[str, LogicalType | str]) -> Schema:
        """Return the schema with the given names and types.

        Examples:
            >>> Schema.of({"ts": "timestamp", "price": "decimal(10,2)"}).names
            ('ts', 'price')
        """
        if isinstance(columns, Schema):
            return columns
        if not isinstance(columns, Mapping):
            raise SchemaError(
                f"{type(columns).__name__} is not a schema; give names and types, or an Arrow or Spark schema"
            )
        return cls(tuple(_make_field(name, data_type) for name, data_type in columns.items()))

    def __hash__(self) -> int:
        # The hash covers the names only: every plan needs it, and nested types are slow to hash.
        return hash(self.names)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(f.name for f in self.fields)

    def find_field(self, name: str) -> Field:
        """Return the column with the given name, or else the one that differs in case only; `a.b` is in a struct.

        The name of the returned field is the path to it in the spelling of the schema, with dots. Raises
        `UnknownColumn` if no column or several match.
        """
        return find_field(self, name, NameMatching.EXACT_FIRST)


def find_field(schema: Schema, name: str, matching: NameMatching) -> Field:
    """Return the column that a name matches; raise `UnknownColumn` if no column or several match."""
    if not isinstance(name, str):
        raise SchemaError(f"the name of a column must be a string, not {value_repr(name)}")
    candidates = _fields_named(schema.fields, name)
    names = matching_names(name, (f.name for f in candidates), matching)
    matches = [f for f in candidates if f.name in names]
    if len(matches) == 1:
        return matches[0]
    raise UnknownColumn(name, schema.names, _match_problem([f.name for f in candidates], is_ambiguous=bool(matches)))


def _match_problem(candidates: list[str], *, is_ambiguous: bool) -> str:
    if is_ambiguous:
        return f"is ambiguous: it could be {' or '.join(candidates)}"
    if candidates:
        return (
            f"is not in the schema, which has {' and '.join(map(repr, candidates))}, and the session is case sensitive"
        )
    return "is not in the schema"


def _make_field(name: object, data_type: object) -> Field:
    if not isinstance(name, str):
        raise SchemaError(f"the name of a column must be a string, not {value_repr(name)}")
    type_ = parse_type(data_type) if isinstance(data_type, str) else data_type
    if not isinstance(type_, LogicalType):
        raise SchemaError(
            f"the type of column {name!r} must be a LogicalType or the name of one, not {value_repr(data_type)}"
        )
    return Field(name, type_)


def _fields_named(fields: tuple[Field, ...], name: str) -> list[Field]:
    """Return the fields with the given name in any case, including fields of structs: a dotted name may be both."""
    matches = [f for f in fields if f.name.casefold() == name.casefold()]
    for f in fields:
        head, rest = name[: len(f.name)], name[len(f.name) :]
        if isinstance(f.type, StructType) and head.casefold() == f.name.casefold() and rest.startswith("."):
            inner = _fields_named(f.type.fields, rest[1:])
            matches += [Field(f"{f.name}.{i.name}", i.type, f.nullable or i.nullable) for i in inner]
    return matches


def check_distinct_names(names: Iterable[str]) -> None:
    """Raise `SchemaError` if two names differ in case only, as Spark can't tell such columns apart."""
    earlier_names: dict[str, str] = {}
    for name in names:
        if name.casefold() in earlier_names:
            earlier = earlier_names[name.casefold()]
            raise SchemaError(f"columns {earlier!r} and {name!r} differ in case only; rename one of them")
        earlier_names[name.casefold()] = name
