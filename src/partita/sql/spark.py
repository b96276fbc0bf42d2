"""Queries, INSERT, UPDATE, DELETE and MERGE on Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DecimalType, IntegralType, NumericType

from partita.algebra.predicate import Predicate, UnboundPredicate, any_of
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.schema import Schema
from partita.errors import SchemaError, TableError, TableMissing
from partita.formats.merge_clauses import MatchKind, MergeAction, WhenClause
from partita.formats.operations.write_operation import ChangeResult
from partita.formats.table import Table
from partita.spark.constraints import require_condition
from partita.spark.errors import translate_spark_errors
from partita.spark.frames import to_dataframe
from partita.spark.schema import is_assignable
from partita.spark.session import spark_session
from partita.spark.sql_semantics import has_standard_semantics, name_matching
from partita.spark.sql_text import quote_identifier
from partita.spark.time_zones import session_time_zone
from partita.sql.ddl import TableCatalog
from partita.sql.name_resolution import TableScope, TextEdit, apply_edits, qualify_columns, resolve_column
from partita.sql.queries import ParsedQuery, TableReference, needs_all_columns, parse_query, pushdown_predicate
from partita.sql.statements import (
    DeleteStatement,
    InsertStatement,
    MergeStatement,
    ParsedMergeClause,
    QueryStatement,
    SparkStatement,
    TargetTable,
    UpdateStatement,
)
from partita.sql.tokens import QualifiedName, SqlFragment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TARGET_ALIAS, _SOURCE_ALIAS = "t", "s"
"""The aliases of the table and the source in `Table.merge` and `Table.update`."""


@dataclass(frozen=True, slots=True, eq=False)
class StatementRunner:
    """Runs statements on the tables of a lake, and on rows that are given by name."""

    tables: TableCatalog
    named_rows: Mapping[str, object]

    def run(self, statement: SparkStatement) -> DataFrame | ChangeResult:
        """Run a statement: return the rows of a query, or the result of a change."""
        match statement:
            case QueryStatement():
                return self._run_query(statement.fragment)
            case InsertStatement():
                return self._run_insert(statement)
            case DeleteStatement():
                return self._run_delete(statement)
            case UpdateStatement():
                return self._run_update(statement)
            case MergeStatement():
                return self._run_merge(statement)

    def _run_query(self, fragment: SqlFragment) -> DataFrame:
        query = parse_query(fragment)
        spark = spark_session()
        references_by_name: dict[tuple[str, ...], list[TableReference]] = {}
        for reference in query.references:
            references_by_name.setdefault(reference.parts, []).append(reference)
        frames: dict[str, Any] = {}
        edits: list[TextEdit] = []
        for references in references_by_name.values():
            frame = self._referenced_rows(query, references, spark)
            if frame is None:
                continue
            name = f"partita_{len(frames)}"
            frames[name] = frame
            for reference in references:
                edits += query.table_edits(reference, f"{{{name}}}")
        text = fragment.text
        if frames:
            # Spark replaces names in braces by DataFrames, so other braces in the text are doubled.
            parts = apply_edits(fragment.source, fragment.start, fragment.stop, edits)
            text = "".join(
                part if is_edited else part.replace("{", "{{").replace("}", "}}") for part, is_edited in parts
            )
        with translate_spark_errors():
            return spark.sql(text, **frames)

    def _referenced_rows(
        self, query: ParsedQuery, references: Sequence[TableReference], spark: SparkSession
    ) -> DataFrame | None:
        """Read a table once for all references to it; None for a table or a view of Spark's own."""
        parts = references[0].parts
        named_rows = self._find_named_rows(parts)
        if named_rows is not None:
            return to_dataframe(named_rows, spark)
        table = self._find_table(parts)
        if table is None:
            return None
        schema = table.schema
        where = _prune_predicate(query, references, schema, spark) if has_standard_semantics(spark) else None
        columns = None if any(needs_all_columns(query, reference) for reference in references) else schema.names
        return table.read(where, columns, spark=spark)

    def _find_named_rows(self, parts: Sequence[str]) -> object | None:
        matches = (rows for name, rows in self.named_rows.items() if [name.casefold()] == [p.casefold() for p in parts])
        return next(matches, None)

    def _find_table(self, parts: Sequence[str]) -> Table | None:
        """Return the table of the lake with that name; None if it has none, or can have none."""
        if any("." in part for part in parts):
            return None
        try:
            return self.tables.table(".".join(parts))
        except TableMissing:
            return None
        except TableError:
            if _is_table_name(parts):
                raise
            return None

    def _target_table(self, name: QualifiedName) -> Table:
        if any("." in part for part in name.parts):
            raise TableError(f"{name} is not a table name; a quoted part of a name can't contain a dot")
        return self.tables.table(str(name))

    def _run_insert(self, statement: InsertStatement) -> ChangeResult:
        """Append the rows of a query, or replace the partitions that they are in."""
        table = self._target_table(statement.table)
        rows = self._run_query(statement.query)
        names = _insert_column_names(statement, table, rows)
        with translate_spark_errors():
            named_rows = rows if names is None else rows.toDF(*names)
            new_rows = _cast_numbers(named_rows, table)
            return table.overwrite_partitions(new_rows) if statement.overwrite else table.append(new_rows)

    def _run_delete(self, statement: DeleteStatement) -> ChangeResult:
        table = self._target_table(statement.table.name)
        where = _where_predicate(statement.table, statement.where, table)
        with translate_spark_errors():
            return table.delete("true" if where is None else where)

    def _run_update(self, statement: UpdateStatement) -> ChangeResult:
        table = self._target_table(statement.table.name)
        where = _where_predicate(statement.table, statement.where, table)
        target = TableScope(statement.table.qualifiers, table.schema.names, _TARGET_ALIAS, name_matching())
        values = _resolve_assignments(statement.assignments, target, [target])
        with translate_spark_errors():
            return table.update(values, where)

    def _run_merge(self, statement: MergeStatement) -> ChangeResult:
        table = self._target_table(statement.table.name)
        source_rows = self._source_rows(statement)
        target = TableScope(statement.table.qualifiers, table.schema.names, _TARGET_ALIAS, name_matching())
        source = TableScope(statement.source_qualifiers, tuple(source_rows.columns), _SOURCE_ALIAS, name_matching())
        on = qualify_columns(statement.on, [target, source])
        clauses = [_merge_clause(clause, target, source, table, statement.on) for clause in statement.clauses]
        with translate_spark_errors():
            return table.merge(source_rows, on, *clauses)

    def _source_rows(self, statement: MergeStatement) -> DataFrame:
        if isinstance(statement.source, SqlFragment):
            return self._run_query(statement.source)
        named_rows = self._find_named_rows(statement.source.parts)
        if named_rows is not None:
            return to_dataframe(named_rows)
        table = self._find_table(statement.source.parts)
        if table is not None:
            return table.read()
        with translate_spark_errors():
            rows = spark_session().table(".".join(map(quote_identifier, statement.source.parts)))
            rows.columns  # noqa: B018 - Spark Connect looks the name up here
            return rows


def _prune_predicate(
    query: ParsedQuery, references: Sequence[TableReference], schema: Schema, spark: SparkSession
) -> Predicate | None:
    """Return a predicate that holds for each row that a reference needs; None if any row may be needed."""
    zone = session_time_zone(spark)
    predicates = [pushdown_predicate(query, reference, schema, zone) for reference in references]
    usable = [predicate for predicate in predicates if predicate is not None]
    return any_of(usable) if len(usable) == len(predicates) else None


def _is_table_name(parts: Sequence[str]) -> bool:
    return all(re.fullmatch(r"\w[\w-]*", part) for part in parts)


def _where_predicate(target: TargetTable, where: SqlFragment | None, table: Table) -> Predicate | None:
    """Return the condition bound to the columns of the table."""
    if where is None:
        return None
    schema = table.schema
    matching = name_matching()
    text = qualify_columns(where, [TableScope(target.qualifiers, schema.names, matching=matching)])
    return parse_predicate(UnboundPredicate(text, session_time_zone(spark_session()), matching), schema)


def _resolve_assignments(
    assignments: Sequence[tuple[QualifiedName, SqlFragment]], target: TableScope, scopes: Sequence[TableScope]
) -> dict[str, str]:
    """Return the new values in SQL by the names of the table's columns."""
    values: dict[str, str] = {}
    for name, expression in assignments:
        column = resolve_column(name, target, expression)
        if column in values:
            expression.fail(f"column {column!r} is set twice", name.start)
        values[column] = qualify_columns(expression, scopes)
    return values


def _merge_clause(
    clause: ParsedMergeClause, target: TableScope, source: TableScope, table: Table, on: SqlFragment
) -> WhenClause:
    scopes = {
        MatchKind.WHEN_MATCHED: [target, source],
        MatchKind.WHEN_NOT_MATCHED: [source],
        MatchKind.WHEN_NOT_MATCHED_BY_SOURCE: [target],
    }[clause.kind]
    condition = None if clause.condition is None else qualify_columns(clause.condition, scopes)
    values: dict[str, str] | None = None
    if clause.assignments is not None:
        values = _resolve_assignments(clause.assignments, target, scopes)
    elif clause.action is not MergeAction.DELETE:
        values = _all_source_columns(clause, source, table, on)
    return WhenClause(clause.kind, condition, clause.action, values)


def _all_source_columns(clause: ParsedMergeClause, source: TableScope, table: Table, on: SqlFragment) -> dict[str, str]:
    """Return the values of `*`: the source column of the same name for each column that is not generated."""
    _, generated_names = table.spark_columns()
    values = {}
    for name in table.schema.names:
        if source.column_count(name) > 1:
            on.fail(f"the source has column {name!r} more than once", clause.start)
        # Generated columns of an updated row are computed again.
        if name in generated_names and (clause.action is MergeAction.UPDATE or not source.column_count(name)):
            continue
        if not source.column_count(name):
            on.fail(f"the source has no column {name!r}, which * needs; list the columns that it has", clause.start)
        values[name] = f"{_SOURCE_ALIAS}.{quote_identifier(name)}"
    return values


def _insert_column_names(statement: InsertStatement, table: Table, rows: DataFrame) -> list[str] | None:
    """Return the table's column for each column of the rows, by position; None if they are matched by name."""
    if statement.by_name:
        return None
    schema, count = table.schema, len(rows.columns)
    if statement.columns is not None:
        scope = TableScope((), schema.names, matching=name_matching())
        names = [resolve_column(name, scope, statement.query) for name in statement.columns]
        if len(set(names)) < len(names):
            raise SchemaError(f"a column is listed twice: {', '.join(names)}")
    else:
        _, generated_names = table.spark_columns()
        names = list(schema.names)
        if count != len(names):
            names = [name for name in names if name not in generated_names]
    if count != len(names):
        raise SchemaError(f"there are {count} values for {len(names)} columns: {', '.join(names)}")
    return names


def _cast_numbers(rows: DataFrame, table: Table) -> DataFrame:
    """Cast numbers to the types of the table's columns; a number that would change its value fails the query."""
    schema, _ = table.spark_columns()
    target_types = {f.name.casefold(): f.dataType for f in schema.fields}
    checked_rows, has_casts = rows, False
    columns = []
    for f in rows.schema.fields:
        target_type = target_types.get(f.name.casefold())
        name = quote_identifier(f.name)
        if (
            target_type is None
            or is_assignable(f.dataType, target_type)
            or not (isinstance(f.dataType, NumericType) and isinstance(target_type, NumericType))
        ):
            columns.append(name)
            continue
        has_casts = True
        type_name = target_type.simpleString()
        cast = f"try_cast({name} AS {type_name})"
        is_exact = isinstance(target_type, IntegralType | DecimalType)
        fits = f"{cast} <=> {name}" if is_exact else f"{name} IS NULL OR {cast} IS NOT NULL"
        checked_rows = require_condition(checked_rows, fits, f"a value of column {f.name!r} does not fit {type_name}")
        columns.append(f"{cast} AS {name}")
    return checked_rows.selectExpr(*columns) if has_casts else rows
