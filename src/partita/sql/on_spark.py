"""Queries and changes of rows, on Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partita.algebra.parse import Condition, parse_predicate
from partita.algebra.predicate import Predicate, any_of
from partita.errors import SchemaError, TableError, TableMissing
from partita.formats.merge import Action, Clause, When
from partita.formats.on_spark.job import Outcome
from partita.formats.table import Table
from partita.spark.meaning import name_matching, reads_as_we_do
from partita.spark.rows import DataFrame, SparkSession, as_frame, fits, required_sql, translated
from partita.spark.rows import StructType as Frame
from partita.spark.schema import quoted
from partita.spark.session import session
from partita.spark.time_zones import session_time_zone
from partita.sql.names import Edit, Side, column_of, edited, rewritten
from partita.sql.partitioning import Tables
from partita.sql.queries import Reading, Reference, pushed, read_query
from partita.sql.statements import Delete, Insert, Merge, MergeClause, Target, Update
from partita.sql.words import Name, Piece

_TARGET, _SOURCE = "t", "s"
"""What `Table.merge` and `Table.update` call the table and the source."""


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """Statements on the tables of a lake, and on rows that are given by name."""

    tables: Tables
    given: Mapping[str, object]

    def query(self, text: Piece) -> DataFrame:
        """The rows of a query."""
        reading = read_query(text)
        spark = session()
        wanted: dict[tuple[str, ...], list[Reference]] = {}
        for reference in reading.references:
            wanted.setdefault(reference.parts, []).append(reference)
        frames: dict[str, Any] = {}
        edits: list[Edit] = []
        for references in wanted.values():
            frame = self._frame(reading, references, spark)
            if frame is None:
                continue
            name = f"partita_{len(frames)}"
            frames[name] = frame
            for reference in references:
                edits += reading.edits(reference, f"{{{name}}}")
        parts = edited(text.source, text.start, text.stop, edits)
        if not frames:
            said = text.text
        else:
            # Spark takes frames by name in braces, so that braces of the text's own are doubled.
            said = "".join(p if is_put else p.replace("{", "{{").replace("}", "}}") for p, is_put in parts)
        with translated():
            return spark.sql(said, **frames)

    def _frame(self, reading: Reading, references: Sequence[Reference], spark: SparkSession) -> DataFrame | None:
        """The rows of a table that is named in some places, read once; None where it is Spark's own."""
        parts = references[0].parts
        given = self._given(parts)
        if given is not None:
            return as_frame(given, spark)
        table = self._table(parts)
        if table is None:
            return None
        where = _prunable(reading, references, table, spark) if reads_as_we_do(spark) else None
        return table.read(where, spark=spark)

    def _given(self, parts: Sequence[str]) -> object | None:
        found = [rows for name, rows in self.given.items() if [name.casefold()] == [p.casefold() for p in parts]]
        return found[0] if found else None

    def _table(self, parts: Sequence[str]) -> Table | None:
        """The lake's table of that name; None where it has none, or could have none."""
        if any("." in part for part in parts):
            return None
        try:
            return self.tables.table(".".join(parts))
        except TableMissing:
            return None
        except TableError:
            if _is_name(parts):
                raise
            return None

    def _target(self, name: Name) -> Table:
        if any("." in part for part in name.parts):
            raise TableError(f"{name} is no table's name; a quoted part of a name can't have a dot")
        return self.tables.table(str(name))

    def insert(self, said: Insert) -> Outcome:
        """Add the rows of a query, or put them in the place of the partitions that they are in."""
        table = self._target(said.table)
        rows = self.query(said.rows)
        names = _inserted_names(said, table, rows)
        with translated():
            placed = rows if names is None else rows.toDF(*names)
            ready = _stored(placed, table)
            return table.overwrite_partitions(ready) if said.overwrite else table.append(ready)

    def delete(self, said: Delete) -> Outcome:
        """Take away rows."""
        table = self._target(said.table.name)
        where = _where(said.table, said.where, table)
        with translated():
            return table.delete("true" if where is None else where)

    def update(self, said: Update) -> Outcome:
        """Give rows new values."""
        table = self._target(said.table.name)
        where = _where(said.table, said.where, table)
        side = Side(said.table.called, table.schema.names, _TARGET, name_matching())
        values = _values(said.values, side, [side])
        with translated():
            return table.update(values, where)

    def merge(self, said: Merge) -> Outcome:
        """Change, take away and add rows by those of a source."""
        table = self._target(said.table.name)
        source = self._source(said)
        columns = tuple(source.columns)
        target_side = Side(said.table.called, table.schema.names, _TARGET, name_matching())
        source_side = Side(said.source_called, columns, _SOURCE, name_matching())
        on = rewritten(said.on, [target_side, source_side])
        clauses = [_clause(clause, target_side, source_side, table, said.on) for clause in said.clauses]
        with translated():
            return table.merge(source, on, *clauses)

    def _source(self, said: Merge) -> DataFrame:
        if isinstance(said.source, Piece):
            return self.query(said.source)
        given = self._given(said.source.parts)
        if given is not None:
            return as_frame(given)
        table = self._table(said.source.parts)
        if table is not None:
            return table.read()
        with translated():
            found = session().table(".".join(map(quoted, said.source.parts)))
            found.columns  # noqa: B018 - on a server, this is where a name that isn't there is noticed
            return found


def _prunable(reading: Reading, references: Sequence[Reference], table: Table, spark: SparkSession) -> Predicate | None:
    """What a row must be like to matter in any of the places; None where any row may."""
    schema, zone = table.schema, session_time_zone(spark)
    predicates = [pushed(reading, reference, schema, zone) for reference in references]
    known = [predicate for predicate in predicates if predicate is not None]
    return any_of(known) if len(known) == len(predicates) else None


def _is_name(parts: Sequence[str]) -> bool:
    return all(re.fullmatch(r"\w[\w-]*", part) for part in parts)


def _where(target: Target, where: Piece | None, table: Table) -> Predicate | None:
    """The condition, bound to the table's columns."""
    if where is None:
        return None
    schema = table.schema
    matching = name_matching()
    text = rewritten(where, [Side(target.called, schema.names, matching=matching)])
    return parse_predicate(Condition(text, session_time_zone(session()), matching), schema)


def _values(values: Sequence[tuple[Name, Piece]], target: Side, sides: Sequence[Side]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, piece in values:
        column = column_of(name, target, piece)
        if column in found:
            piece.fail(f"column {column!r} is set twice", name.start)
        found[column] = rewritten(piece, sides)
    return found


def _clause(said: MergeClause, target: Side, source: Side, table: Table, on: Piece) -> Clause:
    sides = {
        When.MATCHED: [target, source],
        When.NOT_MATCHED: [source],
        When.NOT_MATCHED_BY_SOURCE: [target],
    }[said.when]
    condition = None if said.condition is None else rewritten(said.condition, sides)
    values: dict[str, str] | None = None
    if said.values is not None:
        values = _values(said.values, target, sides)
    elif said.action is not Action.DELETE:
        values = _all(said, source, table, on)
    return Clause(said.when, condition, said.action, values)


def _all(said: MergeClause, source: Side, table: Table, on: Piece) -> dict[str, str]:
    """Every column of the table from the source's of the same name; what the table makes of others may be missing."""
    generated = _generated(table)
    values = {}
    for name in table.schema.names:
        if source.count(name) > 1:
            on.fail(f"the source has column {name!r} more than once", said.start)
        # A row that changes has what is generated made anew.
        if name in generated and (said.action is Action.UPDATE or not source.count(name)):
            continue
        if not source.count(name):
            on.fail(f"the source has no column {name!r}, which * takes; list the columns that it has", said.start)
        values[name] = f"{_SOURCE}.{quoted(name)}"
    return values


def _generated(table: Table) -> frozenset[str]:
    """The columns that the table makes from others."""
    store = table._store  # noqa: SLF001 - what is generated is the format's to say
    return store.generated(store.state())


def _inserted_names(said: Insert, table: Table, rows: DataFrame) -> list[str] | None:
    """The table's columns that the rows' are in turn; None where they are found by name."""
    if said.by_name:
        return None
    schema, count = table.schema, len(rows.columns)
    if said.columns is not None:
        side = Side((), schema.names, matching=name_matching())
        names = [column_of(name, side, said.rows) for name in said.columns]
        if len(set(names)) < len(names):
            raise SchemaError(f"a column is listed twice: {', '.join(names)}")
    else:
        generated = _generated(table)
        names = list(schema.names)
        if count != len(names):
            names = [name for name in names if name not in generated]
    if count != len(names):
        raise SchemaError(f"there are {count} values for {len(names)} columns: {', '.join(names)}")
    return names


_EXACT = ("tinyint", "smallint", "int", "bigint", "decimal")
_NUMBERS = (*_EXACT, "float", "double")


def _stored(rows: DataFrame, table: Table) -> DataFrame:
    """The rows with numbers as the types of the table's columns; one that would not stay itself fails the query."""
    wanted: Frame = table.read("false").schema
    types = {f.name.casefold(): f.dataType for f in wanted.fields}
    made, casts = rows, False
    columns = []
    for f in rows.schema.fields:
        type_ = types.get(f.name.casefold())
        name = quoted(f.name)
        if type_ is None or fits(f.dataType, type_) or not (_is_number(f.dataType) and _is_number(type_)):
            columns.append(name)
            continue
        casts = True
        sql = type_.simpleString()
        cast = f"try_cast({name} AS {sql})"
        kept = f"{cast} <=> {name}" if _word(type_) in _EXACT else f"{name} IS NULL OR {cast} IS NOT NULL"
        made = required_sql(made, kept, f"a value of column {f.name!r} does not fit {sql}")
        columns.append(f"{cast} AS {name}")
    return made.selectExpr(*columns) if casts else rows


def _word(type_: object) -> str:
    return str(type_.simpleString()).partition("(")[0]  # type: ignore[attr-defined] # a type of Spark's


def _is_number(type_: object) -> bool:
    return _word(type_) in _NUMBERS
