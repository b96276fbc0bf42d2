"""A merge on Spark: the table joined with a source, and each row's first clause applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from partita.algebra.predicate import Predicate, UnboundPredicate, all_of, col
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.schema import Schema
from partita.algebra.types import INTEGER_KINDS, STRING, TypeKind, VarcharType
from partita.arrow.schema import to_logical_type
from partita.errors import PredicateError, TableError, value_repr
from partita.formats.capabilities import Operation
from partita.formats.file_plan import plan_files
from partita.formats.merge_clauses import MatchKind, MergeAction, WhenClause, split_join_condition
from partita.formats.operations.write_operation import ChangeResult, WriteOperation
from partita.formats.store import TableStore
from partita.formats.table_version import TableVersion
from partita.spark.frames import to_dataframe
from partita.spark.merge import (
    SOURCE_ROW_NUMBER,
    MergeBranch,
    check_single_match,
    column_bounds,
    comparable_columns,
    drop_repeated_rows,
    inserted_rows,
    matched_rows,
    number_source_rows,
    resolve_assignments,
    rows_unmatched_by_source,
)
from partita.spark.rows import DataFrame, select_fields
from partita.spark.session import spark_session
from partita.spark.sql_semantics import has_standard_semantics, has_standard_syntax, name_matching
from partita.spark.time_zones import session_time_zone

if TYPE_CHECKING:
    from partita.spark.rows import StructType


def merge_rows(store: TableStore, source_rows: object, on: str, clauses: Sequence[WhenClause]) -> ChangeResult:
    """Update, delete and insert rows by the rows of a source, which is evaluated once."""
    _check_clauses(on, clauses)
    operation = WriteOperation.begin(
        store, Operation.MERGE, removes=any(c.action is not MergeAction.INSERT for c in clauses)
    )
    source = number_source_rows(to_dataframe(source_rows))
    try:
        schema = operation.rows.spark_schema()
        columns = [name for name in source.columns if name != SOURCE_ROW_NUMBER]
        branches = {match_kind: _merge_branches(clauses, match_kind, schema, columns) for match_kind in MatchKind}
        return _MergeOperation(operation, source, on, branches, schema).run()
    finally:
        source.unpersist()


@dataclass(frozen=True, slots=True, eq=False)
class _MergeOperation:
    operation: WriteOperation
    source: DataFrame
    on: str
    branches: Mapping[MatchKind, Sequence[MergeBranch]]
    schema: StructType

    def run(self) -> ChangeResult:
        unmatched_branches = self.branches[MatchKind.WHEN_NOT_MATCHED_BY_SOURCE]
        # A row that the source doesn't match can be in any file.
        predicate = None if unmatched_branches else _match_predicate(self.operation.table_version, self.source, self.on)
        read_scope = parse_predicate("true", self.operation.table_version.schema) if predicate is None else predicate
        operation = self.operation.with_files_for(read_scope)
        file_indices = plan_files(operation.table_version, predicate).file_indices
        target = operation.scan_rows(file_indices)
        needed_fields = select_fields(self.schema, operation.needed_columns(file_indices, self._assigned_columns()))
        pairs = matched_rows(
            target, self.source, self.on, self.branches[MatchKind.WHEN_MATCHED], needed_fields
        ).persist()
        try:
            if self._can_miss_second_match():
                check_single_match(pairs)
            changes = drop_repeated_rows(pairs, len(file_indices)) if self._can_match_repeatedly() else pairs
            if unmatched_branches:
                unmatched_rows = rows_unmatched_by_source(
                    target, self.source, self.on, unmatched_branches, needed_fields
                )
                changes = changes.unionByName(unmatched_rows)
            change = operation.apply_row_changes(
                file_indices, changes.drop(SOURCE_ROW_NUMBER), self._assigned_columns(), self._rows_to_insert(pairs)
            )
        finally:
            pairs.unpersist()
        return operation.commit_rows(change, read_scope)

    def _can_miss_second_match(self) -> bool:
        """Whether a second match can be in a pair that no clause applies to; others raise when changes are written."""
        clauses = self.branches[MatchKind.WHEN_MATCHED]
        return bool(clauses) and clauses[-1].condition is not None

    def _can_match_repeatedly(self) -> bool:
        """Whether several source rows may match a row: only if all that they can do is delete it."""
        clauses = self.branches[MatchKind.WHEN_MATCHED]
        return len(clauses) == 1 and clauses[0].condition is None and clauses[0].values is None

    def _assigned_columns(self) -> set[str]:
        """Return the columns that any clause sets in existing rows."""
        match_kinds = (MatchKind.WHEN_MATCHED, MatchKind.WHEN_NOT_MATCHED_BY_SOURCE)
        return {
            name for match_kind in match_kinds for branch in self.branches[match_kind] for name in branch.values or ()
        }

    def _rows_to_insert(self, pairs: DataFrame) -> DataFrame | None:
        """Return the rows to insert, without generated columns that some clause doesn't set."""
        clauses = self.branches[MatchKind.WHEN_NOT_MATCHED]
        if not clauses:
            return None
        generated_columns = self.operation.rows.generated_columns()
        unset_columns = [name for name in generated_columns if any(name not in (b.values or {}) for b in clauses)]
        rows = inserted_rows(self.source, pairs, clauses, self.schema)
        return rows.drop(*unset_columns) if unset_columns else rows


def _check_clauses(on: str, clauses: Sequence[WhenClause]) -> None:
    if not isinstance(on, str):
        raise PredicateError(f"the condition of a merge is SQL text, not {type(on).__name__}")
    if not clauses:
        raise TableError("a merge needs a clause: when_matched(), when_not_matched() or when_not_matched_by_source()")
    for clause in clauses:
        if not isinstance(clause, WhenClause):
            raise TableError(f"{value_repr(clause)} is no clause; end it with .delete(), .update() or .insert()")
    for match_kind in MatchKind:
        same_kind = [c for c in clauses if c.match_kind is match_kind]
        if any(c.condition is None for c in same_kind[:-1]):
            raise TableError(f"only the last {match_kind.value} may be without a condition: none after it is reached")


def _merge_branches(
    clauses: Sequence[WhenClause], match_kind: MatchKind, schema: StructType, source_columns: Sequence[str]
) -> list[MergeBranch]:
    return [
        MergeBranch(
            c.condition,
            None
            if c.action is MergeAction.DELETE
            else resolve_assignments(c.values, schema, source_columns, name_matching()),
        )
        for c in clauses
        if c.match_kind is match_kind
    ]


def _match_predicate(table_version: TableVersion, source: DataFrame, on: str) -> Predicate | None:
    """Return a predicate that every row of the table that matches a source row meets; None if it can't be inferred."""
    condition = split_join_condition(on)
    if not has_standard_syntax(spark_session()):
        return None
    predicates = (
        _predicates_from_texts(table_version.schema, condition.target_conditions)
        if has_standard_semantics(spark_session())
        else []
    )
    names = {name.casefold(): name for name in table_version.schema.names}
    source_columns = comparable_columns(source)
    equal_columns = [
        (names[target_column.casefold()], source_columns[source_column.casefold()])
        for target_column, source_column in condition.equal_columns
        if target_column.casefold() in names and source_column.casefold() in source_columns
    ]
    for name, least, greatest in _equal_column_bounds(source, equal_columns):
        if not least.is_valid:
            return parse_predicate("false", table_version.schema)
        source_type, column_type = to_logical_type(least.type), table_version.schema.find_field(name).type
        if isinstance(column_type, VarcharType):
            column_type = STRING
        if source_type == column_type and source_type.kind in INTEGER_KINDS | {TypeKind.STRING}:
            predicates += [col(name) >= least.as_py(), col(name) <= greatest.as_py()]
    return all_of(predicates) if predicates else None


def _equal_column_bounds(source: DataFrame, equal_columns: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the minimum and maximum of the source column that each column of the table equals."""
    bounds = column_bounds(source, [source_column for _, source_column in equal_columns]) if equal_columns else {}
    for index, (name, _) in enumerate(equal_columns):
        yield name, bounds[f"least_{index}"][0], bounds[f"greatest_{index}"][0]


def _predicates_from_texts(schema: Schema, texts: Sequence[str]) -> list[Predicate]:
    """Parse conditions; those that can't be parsed are left out, since Spark evaluates the whole condition anyway."""
    predicates = []
    zone = session_time_zone(spark_session())
    for text in texts:
        with suppress(PredicateError):
            predicates.append(parse_predicate(UnboundPredicate(text, zone), schema))
    return predicates
