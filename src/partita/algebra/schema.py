"""The columns of a table, and how a name finds one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from partita.algebra.type_text import parse_type
from partita.algebra.types import Field, LogicalType, StructType
from partita.errors import SchemaError, UnknownColumn


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
        return cls(
            tuple(
                Field(name, parse_type(given) if isinstance(given, str) else given) for name, given in columns.items()
            )
        )

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
        """The column of that name without regard to case, as Spark finds it; `a.b` goes into structs.

        The field that is returned has the schema's own spelling, with the dots of the way to it.
        """
        found = _found(self.fields, name)
        if len(found) == 1:
            return found[0]
        reason = f"is ambiguous: it could be {' or '.join(f.name for f in found)}" if found else "is not in the schema"
        raise UnknownColumn(name, self.names, reason)


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
