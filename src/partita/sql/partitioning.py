"""CREATE TABLE, and ALTER TABLE as Iceberg has it for partition fields; neither needs a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from partita.algebra.parse import unescape
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionField, PartitionSpec
from partita.algebra.spec_text import parse_spec
from partita.algebra.transforms import PartitionFunction
from partita.algebra.type_text import parse_type
from partita.algebra.types import Field
from partita.errors import PartitaError, SpecError, TableExists
from partita.formats.table import Table
from partita.sql.statements import Create, Evolve, unsupported
from partita.sql.words import Piece, Words, word_of

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


class Tables(Protocol):
    """Where tables are found and made: a lake."""

    time_zone: str

    def table(self, name: str) -> Table: ...

    def create_table(
        self,
        name: str,
        schema: object,
        *,
        format: str,  # noqa: A002
        partition_by: Sequence[PartitionFunction | str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Table: ...


def create(tables: Tables, said: Create) -> Table:
    """Make the table; with IF NOT EXISTS, the one that there is stays as it is."""
    schema = Schema(tuple(Field(name, parse_type(text), nullable) for name, text, nullable in said.columns))
    family = "lance" if said.format == "lance" else "iceberg"
    fields = parse_spec(said.partition_by, schema, family).fields
    try:
        return tables.create_table(
            str(said.table),
            schema,
            format=said.format,
            partition_by=[field.function for field in fields],
            properties=dict(said.properties),
        )
    except TableExists:
        if not said.if_not_exists:
            raise
        return tables.table(str(said.table))


def evolve(tables: Tables, said: Evolve) -> Table:
    """Partition what is written from now on another way.

    A field that is replaced by the same function under another name is renamed, as Iceberg does it.
    """
    table = tables.table(str(said.table))
    added = None if said.add is None else _function(said.add, table)
    dropped = None if said.drop is None else _field(said.drop, table)
    if added is not None and dropped is not None and _is_same(added, dropped):
        if added.name != dropped.name:
            table.evolve(rename={dropped.name: added.name})
    else:
        table.evolve(add=[] if added is None else [added], drop=[] if dropped is None else [dropped.name])
    return table


def _is_same(function: PartitionFunction, field: PartitionField) -> bool:
    return (function.source, function.transform) == (field.source, field.transform)


def _function(text: str, table: Table) -> PartitionFunction:
    spec = _one(text, table)
    return spec.fields[0].function


def _one(text: str, table: Table) -> PartitionSpec:
    spec = parse_spec(text, table.schema, table.spec.family)
    if len(spec.fields) != 1:
        raise SpecError(f"one partition field at a time; {text!r} says {len(spec.fields)}")
    return spec


def _field(text: str, table: Table) -> PartitionField:
    """The field of that name, or else of that function."""
    fields = [field for field in table.spec.fields if field.transform.name != "void"]
    name = text[1:-1].replace("``", "`") if text.startswith("`") and text.endswith("`") else text
    for field in fields:
        if field.name.casefold() == name.casefold():
            return field
    known = ", ".join(field.name for field in fields) or "none"
    problem = f"there is no partition field {text}; the table has {known}"
    try:
        wanted = _function(text, table)
    except PartitaError:
        raise SpecError(problem) from None
    for field in fields:
        if _is_same(wanted, field):
            return field
    raise SpecError(problem)


def read_alter(words: Words) -> Evolve:
    """What stands after ALTER."""
    words.expect("table")
    table = words.name()
    what = f"ALTER TABLE ... {words.peek()} {words.peek(1)}".rstrip()
    if words.accept("add", "partition", "field"):
        return Evolve(table, add=words.until().text, drop=None)
    if words.accept("drop", "partition", "field"):
        return Evolve(table, add=None, drop=words.until().text)
    if words.accept("replace", "partition", "field"):
        dropped = words.until("with").text
        words.expect("with")
        return Evolve(table, add=words.until().text, drop=dropped)
    raise unsupported(what)


def read_create(words: Words) -> Create:
    """What stands after CREATE."""
    if words.peek() != "table":
        raise unsupported(f"CREATE {words.peek()}")
    words.expect("table")
    if_not_exists = words.accept("if", "not", "exists")
    table = words.name()
    if words.peek() != "(":
        words.fail("the columns are expected here: (id BIGINT NOT NULL, ...)")
    pieces = _split(words.inside())
    format_, partition_by = "", ""
    properties: tuple[tuple[str, str], ...] = ()
    while words.peek():
        if not format_ and words.accept("using"):
            format_ = words.part().lower()
        elif not partition_by and words.accept("partitioned by"):
            partition_by = words.inside().text
        elif not properties and words.accept("tblproperties"):
            properties = tuple(_property(piece) for piece in words.inside().split(","))
        elif words.peek() in ("as", "select", "with"):
            words.fail("CREATE TABLE ... AS is not supported; create the table, then INSERT INTO it")
        else:
            break
    words.end()
    if not format_:
        words.fail("the table's format is expected: USING iceberg, or USING delta")
    columns = tuple(_column(piece, format_) for piece in pieces)
    return Create(table, if_not_exists, columns, format_, partition_by, properties)


def _split(piece: Piece) -> list[Piece]:
    """The columns of a table; a comma inside of a type is not one between columns."""
    depth = 0
    pieces: list[list[Token]] = [[]]
    for token in piece.tokens:
        word = word_of(token)
        depth += word.count("<") + word.count("(") - word.count(">") - word.count(")")
        if word == "," and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    if not all(pieces):
        piece.fail("a column is missing")
    return [Piece(piece.source, tuple(tokens)) for tokens in pieces]


_REFUSED = ("comment", "default", "generated", "primary", "unique", "check", "references", "collate")
_LIMITED = ("varchar", "char", "character")


def _column(piece: Piece, format_: str) -> tuple[str, str, bool]:
    words = Words(piece.source, piece.tokens)
    name = words.part()
    type_ = words.until("not", "null", *_REFUSED)
    if format_ != "delta" and any(token.text.lower() in _LIMITED for token in type_.tokens):
        type_.fail(f"{format_} doesn't keep the length of a text; use STRING")
    nullable = not words.accept("not", "null")
    if words.peek() in _REFUSED:
        words.fail(f"{words.peek().upper()} is not supported here")
    words.end()
    return name, type_.text, nullable


def _property(piece: Piece) -> tuple[str, str]:
    sides = piece.split("=")
    if len(sides) != 2:
        piece.fail("a property is 'name' = 'value'")
    name, value = map(_plain, sides)
    return name, value


def _plain(piece: Piece) -> str:
    """A quoted text without its quotes; other text as it is, such as `write.merge.mode` or 5."""
    raw = piece.text
    if piece.tokens[0].token_type.name == "STRING":
        if len(piece.tokens) > 1:
            piece.fail("one text is expected here")
        return unescape(raw[1:-1])
    return raw
