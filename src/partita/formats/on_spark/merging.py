"""A merge on Spark: the table joined with a source, and each row's first clause applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from partita.algebra.parse import Condition, parse_predicate
from partita.algebra.predicate import Predicate, all_of, col
from partita.algebra.schema import Schema
from partita.algebra.types import INTEGERS, STRING, Kind, VarcharType
from partita.arrow.schema import to_logical
from partita.errors import PredicateError, TableError, value_repr
from partita.formats.merge import Action, Clause, When, sides
from partita.formats.on_spark.job import Job, Outcome
from partita.formats.plan import State, make_plan
from partita.formats.store import Store
from partita.spark.meaning import name_matching, reads_as_we_do, reads_words_as_we_do
from partita.spark.merge import (
    SOURCE,
    Branch,
    bounds,
    inserted,
    matched,
    numbered,
    one_match,
    plain_columns,
    resolved,
    unmatched_by_source,
    without_repeated_rows,
)
from partita.spark.rows import DataFrame, as_frame, only, translated
from partita.spark.session import session
from partita.spark.time_zones import session_time_zone

if TYPE_CHECKING:
    from partita.spark.rows import StructType


def merge(store: Store, given: object, on: str, clauses: Sequence[Clause]) -> Outcome:
    """Change, delete and add rows by those of a source; the source is evaluated once."""
    _check(on, clauses)
    job = Job.begin(store, "merge", removes=any(c.action is not Action.INSERT for c in clauses))
    with translated():
        source = numbered(as_frame(given))
        try:
            schema = store.frame_schema(job.state)
            columns = [name for name in source.columns if name != SOURCE]
            branches = {when: _branches(clauses, when, schema, columns) for when in When}
            return _Merge(job, source, on, branches, schema).run()
        finally:
            source.unpersist()


@dataclass(frozen=True, slots=True, eq=False)
class _Merge:
    job: Job
    source: DataFrame
    on: str
    branches: Mapping[When, Sequence[Branch]]
    schema: StructType

    def run(self) -> Outcome:
        # A row that the source does not match can be anywhere.
        alone = self.branches[When.NOT_MATCHED_BY_SOURCE]
        predicate = None if alone else _read_by(self.job.state, self.source, self.on)
        read = parse_predicate("true", self.job.state.schema) if predicate is None else predicate
        job = self.job.with_files_for(read)
        plan = make_plan(job.state, predicate)
        target = job.scan(plan.kept)
        needed = only(self.schema, job.columns(plan.kept, self._assigned()))
        pairs = matched(target, self.source, self.on, self.branches[When.MATCHED], needed).persist()
        try:
            if self._may_miss_a_second_match():
                one_match(pairs)
            changes = without_repeated_rows(pairs, len(plan.kept)) if self._may_match_often() else pairs
            if alone:
                rest = unmatched_by_source(target, self.source, self.on, alone, needed)
                changes = changes.unionByName(rest)
            changed = job.edited(plan.kept, changes.drop(SOURCE), self._assigned(), self._new(pairs))
        finally:
            pairs.unpersist()
        return job.commit_changed(changed, read)

    def _may_miss_a_second_match(self) -> bool:
        """Whether one can be in a pair that no clause applies to; any other is noticed as changes are written."""
        clauses = self.branches[When.MATCHED]
        return bool(clauses) and clauses[-1].condition is not None

    def _may_match_often(self) -> bool:
        """Whether several source rows may match a row: where all that they can do is delete it, in any order."""
        clauses = self.branches[When.MATCHED]
        return len(clauses) == 1 and clauses[0].condition is None and clauses[0].values is None

    def _assigned(self) -> set[str]:
        """The columns that any clause sets of a row that the table has."""
        existing = (When.MATCHED, When.NOT_MATCHED_BY_SOURCE)
        return {name for when in existing for branch in self.branches[when] for name in branch.values or ()}

    def _new(self, pairs: DataFrame) -> DataFrame | None:
        """What is inserted, without the generated columns that a clause leaves to the table."""
        clauses = self.branches[When.NOT_MATCHED]
        if not clauses:
            return None
        generated = self.job.store.generated(self.job.state)
        left = [name for name in generated if any(name not in (b.values or {}) for b in clauses)]
        new = inserted(self.source, pairs, clauses, self.schema)
        return new.drop(*left) if left else new


def _check(on: str, clauses: Sequence[Clause]) -> None:
    if not isinstance(on, str):
        raise PredicateError(f"the condition of a merge is SQL text, not {type(on).__name__}")
    if not clauses:
        raise TableError("a merge needs a clause: when_matched(), when_not_matched() or when_not_matched_by_source()")
    for clause in clauses:
        if not isinstance(clause, Clause):
            raise TableError(f"{value_repr(clause)} is no clause; end it with .delete(), .update() or .insert()")
    for when in When:
        own = [c for c in clauses if c.when is when]
        if any(c.condition is None for c in own[:-1]):
            raise TableError(f"only the last {when.value} may be without a condition: none after it is reached")


def _branches(clauses: Sequence[Clause], when: When, schema: StructType, source: Sequence[str]) -> list[Branch]:
    return [
        Branch(c.condition, None if c.action is Action.DELETE else resolved(c.values, schema, source, name_matching()))
        for c in clauses
        if c.when is when
    ]


def _read_by(state: State, source: DataFrame, on: str) -> Predicate | None:
    """What a row of the table must be like to match any of the source; None where that can't be told."""
    known = sides(on)
    if not reads_words_as_we_do(session()):
        return None
    parts = _said_of(state.schema, known.of_target) if reads_as_we_do(session()) else []
    names = {name.casefold(): name for name in state.schema.names}
    theirs = plain_columns(source)
    equal = [
        (names[mine.casefold()], theirs[other.casefold()])
        for mine, other in known.equal
        if mine.casefold() in names and other.casefold() in theirs
    ]
    for name, least, greatest in _ends(source, equal):
        if not least.is_valid:
            return parse_predicate("false", state.schema)
        type_, own = to_logical(least.type), state.schema.find(name).type
        if isinstance(own, VarcharType):
            own = STRING
        if type_ == own and type_.kind in INTEGERS | {Kind.STRING}:
            parts += [col(name) >= least.as_py(), col(name) <= greatest.as_py()]
    return all_of(parts) if parts else None


def _ends(source: DataFrame, equal: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Any, Any]]:
    """The columns of the table that equal some of the source, each with the least and the greatest that those have."""
    ends = bounds(source, [theirs for _, theirs in equal]) if equal else {}
    for at, (name, _) in enumerate(equal):
        yield name, ends[f"least_{at}"][0], ends[f"greatest_{at}"][0]


def _said_of(schema: Schema, texts: Sequence[str]) -> list[Predicate]:
    """The conditions as predicates; one that can't be read is Spark's to judge, with the rest of the merge."""
    found = []
    zone = session_time_zone(session())
    for text in texts:
        with suppress(PredicateError):
            found.append(parse_predicate(Condition(text, zone), schema))
    return found
