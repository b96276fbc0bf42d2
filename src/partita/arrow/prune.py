"""Pruning many partitions or files at once: `partita.algebra.prune`, over Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from operator import and_
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.facts import Within as Anything
from partita.algebra.parse import Condition, Where
from partita.algebra.plain import NAN_RANK
from partita.algebra.prune import Compiled, Known, Node, compiled
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.algebra.steps import TRUE, Steps, both, either
from partita.algebra.time_zones import find_time_zone
from partita.algebra.types import FLOATS, CharType, LogicalType
from partita.arrow.buffers import Array, Bools, Ints
from partita.arrow.evidence import Evidence, Masks, Within
from partita.arrow.fields import coded, column_of, from_fields
from partita.arrow.plain import Plains, padded_ends, ranks
from partita.arrow.schema import to_schema
from partita.arrow.spec import distinct_ids, spec_columns
from partita.errors import PartitionsError, SpecError, value_repr


@dataclass(frozen=True, eq=False)
class Pruned:
    """What a predicate says of each partition, in the order they were given.

    `may_match`: some row can match; where it is false, the partition can be skipped. `must_match`: every row does
    match. `why` makes the reasons.
    """

    may_match: pa.BooleanArray
    must_match: pa.BooleanArray
    why: Callable[[], pa.StringArray] = field(repr=False)

    @cached_property
    def reasons(self) -> pa.StringArray:
        """For what is excluded, the part of the predicate that did it, in its author's words; else null.

        They are found when first asked for, which takes as long as all else, and most don't ask.
        """
        return self.why()

    def with_answers(self, of: pa.BooleanArray, others: Pruned) -> Pruned:
        """These answers, but for the partitions where `of` is true: for those the others, in their order."""
        return Pruned(
            pc.replace_with_mask(self.may_match, of, others.may_match),
            pc.replace_with_mask(self.must_match, of, others.must_match),
            lambda: pc.replace_with_mask(self.reasons, of, others.reasons),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """What files say of one column: the least and the greatest value, and how many of their rows are null.

    Each is an Arrow array with one value a file, null where the file doesn't say, or None where none does.
    """

    lower: Array | None = None
    upper: Array | None = None
    null_count: Array | None = None
    row_count: Array | None = None

    def take(self, rows: Any) -> Statistics:
        """What the files at those places say."""
        every = (self.lower, self.upper, self.null_count, self.row_count)
        return Statistics(*(None if array is None else array.take(rows) for array in every))


def prune(  # noqa: PLR0913 - what is judged, and by what
    where: Where | Condition,
    *,
    schema: object,
    spec: PartitionSpec | SpecHistory,
    partitions: pa.Table | pa.RecordBatch,
    statistics: Mapping[str, Statistics] | None = None,
    time_zone: str = "UTC",
) -> Pruned:
    """Which partitions a predicate can match, must match, and why not.

    `partitions` has one column for each field of the spec, under the field's name. With a whole history of specs it has
    a column `spec_id` too, each row is judged by its own spec, and `SpecHistory.column_name` says what columns are
    called. `statistics` are by the name of the column. Dates and times that name no time zone are in `time_zone`.
    """
    if not isinstance(partitions, pa.Table | pa.RecordBatch):
        raise PartitionsError(f"partitions are an Arrow table, not {type(partitions).__name__}")
    if not isinstance(spec, PartitionSpec | SpecHistory):
        raise SpecError(f"a spec is a PartitionSpec or a SpecHistory, not {type(spec).__name__}; see parse_spec")
    columns = to_schema(schema)
    asked = compiled(where if isinstance(where, Condition) else Condition(where, find_time_zone(time_zone)), columns)
    measured = {columns.find(name).name: given for name, given in _checked(statistics).items()}
    judges = [
        (
            rows,
            _judge(
                asked.columns,
                columns,
                one,
                _of_spec(spec, one, partitions, rows),
                measured if rows is None else {n: s.take(rows) for n, s in measured.items()},
            ),
        )
        for one, rows in _by_spec(spec, partitions)
    ]
    return _pruned(asked, judges, partitions.num_rows)


def _checked(statistics: Mapping[str, Statistics] | None) -> Mapping[str, Statistics]:
    given = {} if statistics is None else statistics
    if not isinstance(given, Mapping) or not all(isinstance(one, Statistics) for one in given.values()):
        raise PartitionsError(f"statistics are a Statistics for each column, by its name, not {value_repr(statistics)}")
    return given


def may_match(asked: Compiled, evidence: Mapping[str, list[Evidence]], size: int) -> Bools:
    """Whether some row of each of so many things can match, by what is known of their columns."""
    return _is_possible(_Judge(evidence, size).possible(asked.whole))


def _is_possible(answers: Masks) -> Bools:
    return (answers & TRUE).astype(bool)


def _by_spec(
    spec: PartitionSpec | SpecHistory, partitions: pa.Table | pa.RecordBatch
) -> Iterator[tuple[PartitionSpec, Any]]:
    """Each spec with the rows that are its own; None is all of them."""
    if isinstance(spec, PartitionSpec):
        yield spec, None
        return
    if "spec_id" not in partitions.schema.names:
        raise PartitionsError("partitions of several specs need a column 'spec_id'")
    ids = column_of(partitions, "spec_id")
    if ids.null_count:
        raise PartitionsError("a partition has no 'spec_id'")
    known = distinct_ids(ids)
    for spec_id in known:
        yield spec.spec(spec_id), None if len(known) == 1 else pc.indices_nonzero(pc.equal(ids, spec_id))


def _of_spec(
    specs: PartitionSpec | SpecHistory, spec: PartitionSpec, partitions: pa.Table | pa.RecordBatch, rows: Any
) -> pa.Table | pa.RecordBatch:
    """The rows of one spec, with its fields under their own names."""
    if isinstance(specs, PartitionSpec):
        return partitions
    return spec_columns(specs, spec, partitions if rows is None else partitions.take(rows))


def _judge(
    wanted: frozenset[str],
    schema: Schema,
    spec: PartitionSpec,
    partitions: pa.Table | pa.RecordBatch,
    statistics: Mapping[str, Statistics],
) -> _Judge:
    size = partitions.num_rows
    evidence: dict[str, list[Evidence]] = {}
    for source, found in (*from_fields(spec, partitions, wanted), *_from_statistics(schema, statistics, size)):
        evidence.setdefault(source, []).append(found)
    return _Judge(evidence, size)


_Judges = list[tuple[Any, "_Judge"]]
"""For each spec, the rows that are its own and who judges them."""


def _pruned(asked: Compiled, judges: _Judges, size: int) -> Pruned:
    whole = _gathered([(rows, judge.possible(asked.whole)) for rows, judge in judges], size, np.uint8)
    return Pruned(pa.array(_is_possible(whole)), pa.array(whole == TRUE), partial(_reasons, asked, judges, size))


def _reasons(asked: Compiled, judges: _Judges, size: int) -> pa.StringArray:
    numbers = _gathered([(rows, _first_parts(asked, judge)) for rows, judge in judges], size, np.int64)
    return pa.array([*(part.text for part in asked.parts), None], pa.string()).take(pa.array(numbers))


def _first_parts(asked: Compiled, judge: _Judge) -> Ints:
    """The number of the first part that excludes each, after the last for what none does."""
    nothing = len(asked.parts)
    numbers = np.full(judge.size, nothing)
    excluded = ~_is_possible(judge.possible(asked.whole))
    for at, part in enumerate(asked.parts):
        unsaid = excluded & (numbers == nothing)
        if not unsaid.any():
            break
        numbers[unsaid & ~_is_possible(judge.possible(part.node))] = at
    return numbers


def _gathered(answers: list[tuple[Any, Any]], size: int, kind: type[np.generic]) -> Any:
    """What was found for the rows of each spec, in the order of all."""
    if len(answers) == 1 and answers[0][0] is None:
        return answers[0][1]
    every = np.zeros(size, kind)
    for rows, found in answers:
        every[rows] = found
    return every


_TABLES = {how: np.array([[how(a, b) for b in range(8)] for a in range(8)], np.uint8) for how in (both, either)}


@dataclass(frozen=True, slots=True, eq=False)
class _Judge:
    """`partita.algebra.prune.possible`, for each partition; a node that the parts share is asked once."""

    evidence: Mapping[str, list[Evidence]]
    size: int
    asked: dict[int, Masks] = field(default_factory=dict)

    def possible(self, node: Node) -> Masks:
        """What the node can be, for each."""
        if id(node) not in self.asked:
            self.asked[id(node)] = self._possible(node)
        return self.asked[id(node)]

    def _possible(self, node: Node) -> Masks:
        if isinstance(node, Steps):
            known = np.full(self.size, Anything().possible(node), np.uint8)
            return reduce(and_, (e.possible(node) for e in self.evidence.get(node.column, ())), known)
        if isinstance(node, Known):
            return np.full(self.size, node.answers, np.uint8)
        table = _TABLES[node.how]  # type: ignore[index] # both or either
        return reduce(lambda a, b: table[a, b], map(self.possible, node.parts))


def _from_statistics(schema: Schema, statistics: Mapping[str, Statistics], size: int) -> Iterator[tuple[str, Evidence]]:
    for name, given in statistics.items():
        _check_statistics(name, given, size)
        type_ = schema.find(name).type
        least, greatest = given.lower, given.upper
        if isinstance(type_, CharType):
            least, greatest = padded_ends(least, greatest, type_)
        lower = None if least is None else ends_of(least, type_)
        # Statistics leave NaN out, which sorts above all else.
        upper = None if greatest is None or type_.kind in FLOATS else ends_of(greatest, type_)
        never, always = _null_counts(given, size)
        yield name, Within(lower, upper, always, ~never & ~always)


def _check_statistics(name: str, given: Statistics, size: int) -> None:
    counts = [a for a in (given.null_count, given.row_count) if a is not None]
    known = [*counts, *(a for a in (given.lower, given.upper) if a is not None)]
    if not all(isinstance(a, pa.Array | pa.ChunkedArray) for a in known):
        raise PartitionsError(f"statistics of column {name!r} are Arrow arrays")
    if any(len(a) != size for a in known):
        raise PartitionsError(f"statistics of column {name!r} have {len(known[0])} values for {size} partitions")
    if not all(pa.types.is_integer(a.type) or pa.types.is_null(a.type) for a in counts):
        raise PartitionsError(f"statistics of column {name!r}: counts are integers")


def ends_of(array: Array, type_: LogicalType) -> Plains:
    """The ends of intervals; NaN, which some writers make one, says nothing."""
    plains = coded(ranks(array, type_))
    return Plains(plains.values, plains.null | (plains.values == NAN_RANK)) if type_.kind in FLOATS else plains


def _null_counts(given: Statistics, size: int) -> tuple[Bools, Bools]:
    """Where no row is null, and where every row is."""
    if given.null_count is None:
        return np.zeros(size, bool), np.zeros(size, bool)
    never = _true(pc.equal(given.null_count, 0))
    if given.row_count is None:
        return never, np.zeros(size, bool)
    return never, _true(pc.equal(given.null_count, given.row_count)) & ~never


def _true(answers: Iterable[Any]) -> Bools:
    return cast("Bools", cast("Any", answers).fill_null(fill_value=False).to_numpy(zero_copy_only=False))
