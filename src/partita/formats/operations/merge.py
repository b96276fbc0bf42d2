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
from partita.formats.file_plan import plan_files
from partita.formats.merge_clauses import MatchKind, MergeAction, WhenClause, split_join_condition
from partita.formats.operations.write_operation import ChangeResult, WriteOperation
from partita.formats.store import TableStore
from partita.formats.table_version import TableVersion
from partita.spark.errors import translate_spark_errors
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
    """Change, delete and add rows by those of a source; the source is evaluated once."""
    _check_clauses(on, clauses)
    operation = WriteOperation.begin(store, "merge", removes=any(c.action is not MergeAction.INSERT for c in clauses))
    with translate_spark_errors():
        source = number_source_rows(to_dataframe(source_rows))
        try:
            schema = operation.rows.spark_schema()
            columns = [name for name in source.columns if name != SOURCE_ROW_NUMBER]
            branches = {when: _merge_branches(clauses, when, schema, columns) for when in MatchKind}
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
        unmatched = self.branches[MatchKind.NOT_MATCHED_BY_SOURCE]
        # A row that the source doesn't match can be in any file.
        predicate = None if unmatched else _match_predicate(self.operation.table_version, self.source, self.on)
        read_scope = parse_predicate("true", self.operation.table_version.schema) if predicate is None else predicate
        operation = self.operation.with_files_for(read_scope)
        file_indices = plan_files(operation.table_version, predicate).file_indices
        target = operation.scan_rows(file_indices)
        needed = select_fields(self.schema, operation.needed_columns(file_indices, self._assigned_columns()))
        pairs = matched_rows(target, self.source, self.on, self.branches[MatchKind.MATCHED], needed).persist()
        try:
            if self._can_miss_second_match():
                check_single_match(pairs)
            changes = drop_repeated_rows(pairs, len(file_indices)) if self._can_match_repeatedly() else pairs
            if unmatched:
                unmatched_rows = rows_unmatched_by_source(target, self.source, self.on, unmatched, needed)
                changes = changes.unionByName(unmatched_rows)
            change = operation.apply_row_changes(
                file_indices, changes.drop(SOURCE_ROW_NUMBER), self._assigned_columns(), self._rows_to_insert(pairs)
            )
        finally:
            pairs.unpersist()
        return operation.commit_rows(change, read_scope)

    def _can_miss_second_match(self) -> bool:
        """Whether one can be in a pair that no clause applies to; any other is noticed as changes are written."""
        clauses = self.branches[MatchKind.MATCHED]
        return bool(clauses) and clauses[-1].condition is not None

    def _can_match_repeatedly(self) -> bool:
        """Whether several source rows may match a row: where all that they can do is delete it, in any order."""
        clauses = self.branches[MatchKind.MATCHED]
        return len(clauses) == 1 and clauses[0].condition is None and clauses[0].values is None

    def _assigned_columns(self) -> set[str]:
        """The columns that any clause sets of a row that the table has."""
        existing = (MatchKind.MATCHED, MatchKind.NOT_MATCHED_BY_SOURCE)
        return {name for when in existing for branch in self.branches[when] for name in branch.values or ()}

    def _rows_to_insert(self, pairs: DataFrame) -> DataFrame | None:
        """What is inserted, without the generated columns that a clause leaves to the table."""
        clauses = self.branches[MatchKind.NOT_MATCHED]
        if not clauses:
            return None
        generated = self.operation.rows.generated_columns()
        unset = [name for name in generated if any(name not in (b.values or {}) for b in clauses)]
        rows = inserted_rows(self.source, pairs, clauses, self.schema)
        return rows.drop(*unset) if unset else rows


def _check_clauses(on: str, clauses: Sequence[WhenClause]) -> None:
    if not isinstance(on, str):
        raise PredicateError(f"the condition of a merge is SQL text, not {type(on).__name__}")
    if not clauses:
        raise TableError("a merge needs a clause: when_matched(), when_not_matched() or when_not_matched_by_source()")
    for clause in clauses:
        if not isinstance(clause, WhenClause):
            raise TableError(f"{value_repr(clause)} is no clause; end it with .delete(), .update() or .insert()")
    for when in MatchKind:
        own = [c for c in clauses if c.match_kind is when]
        if any(c.condition is None for c in own[:-1]):
            raise TableError(f"only the last {when.value} may be without a condition: none after it is reached")


def _merge_branches(
    clauses: Sequence[WhenClause], when: MatchKind, schema: StructType, source_columns: Sequence[str]
) -> list[MergeBranch]:
    return [
        MergeBranch(
            c.condition,
            None
            if c.action is MergeAction.DELETE
            else resolve_assignments(c.values, schema, source_columns, name_matching()),
        )
        for c in clauses
        if c.match_kind is when
    ]


def _match_predicate(table_version: TableVersion, source: DataFrame, on: str) -> Predicate | None:
    """What a row of the table must be like to match any of the source; None where that can't be told."""
    known = split_join_condition(on)
    if not has_standard_syntax(spark_session()):
        return None
    parts = (
        _predicates_from_texts(table_version.schema, known.target_conditions)
        if has_standard_semantics(spark_session())
        else []
    )
    names = {name.casefold(): name for name in table_version.schema.names}
    theirs = comparable_columns(source)
    equal = [
        (names[mine.casefold()], theirs[other.casefold()])
        for mine, other in known.equal_columns
        if mine.casefold() in names and other.casefold() in theirs
    ]
    for name, least, greatest in _equal_column_bounds(source, equal):
        if not least.is_valid:
            return parse_predicate("false", table_version.schema)
        type_, own = to_logical_type(least.type), table_version.schema.find_field(name).type
        if isinstance(own, VarcharType):
            own = STRING
        if type_ == own and type_.kind in INTEGER_KINDS | {TypeKind.STRING}:
            parts += [col(name) >= least.as_py(), col(name) <= greatest.as_py()]
    return all_of(parts) if parts else None


def _equal_column_bounds(source: DataFrame, equal: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Any, Any]]:
    """The columns of the table that equal some of the source, each with the least and the greatest that those have."""
    ends = column_bounds(source, [theirs for _, theirs in equal]) if equal else {}
    for at, (name, _) in enumerate(equal):
        yield name, ends[f"least_{at}"][0], ends[f"greatest_{at}"][0]


def _predicates_from_texts(schema: Schema, texts: Sequence[str]) -> list[Predicate]:
    """The conditions as predicates; one that can't be read is Spark's to judge, with the rest of the merge."""
    found = []
    zone = session_time_zone(spark_session())
    for text in texts:
        with suppress(PredicateError):
            found.append(parse_predicate(UnboundPredicate(text, zone), schema))
    return found
