"""Which files of a table a predicate needs, and what partitions the table has; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.parse import Condition, Where, parse_predicate
from partita.algebra.predicate import Predicate
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.algebra.time_zones import IN_UTC
from partita.arrow.buffers import one_array
from partita.arrow.key import key_ids, key_texts
from partita.arrow.prune import Pruned, Statistics, prune
from partita.arrow.spec import distinct_ids
from partita.errors import KeyValueError
from partita.formats.containment import absolute_paths

if TYPE_CHECKING:
    from partita.formats.chosen import Chosen


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A table at one version.

    `files` has a row for each data file: path, spec_id, bytes. `row_counts` says how many rows the files at some places
    have, null where one doesn't say. `partitions` has the same rows, with a column for each field of each spec, called
    as `SpecHistory.column_name` says, and `spec_id`. `statistics` gives what the files at some places say of the
    columns that it is asked for; None stands for all places.
    """

    version: int
    schema: Schema
    specs: SpecHistory
    files: pa.Table
    partitions: pa.Table
    statistics: Callable[[Sequence[str], np.ndarray | None], Mapping[str, Statistics]]
    row_counts: Callable[[np.ndarray], pa.Array]

    @property
    def spec(self) -> PartitionSpec:
        """How new files are partitioned."""
        return self.specs.current

    def with_every_file(self) -> State:
        """The same version, with the files that were left out because a predicate can't match in them."""
        return self

    def outside(self, places: np.ndarray) -> pa.Array:
        """The paths of those files at some places that lie outside of the table's folder."""
        return absolute_paths(self.files["path"].take(pa.array(places)))

    def with_files_for(self, read: Where | Condition | Chosen) -> State:  # noqa: ARG002
        """The same version with every file that may hold rows of a predicate, or of chosen partitions.

        Of each partition that has such a file, all files are there.
        """
        return self


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The files that a predicate needs, and those that it doesn't, with the part of it that says so.

    `kept` are the places of the files in `state`, and `whole` is true where every row of one matches. `why` says of
    each file of the state what excludes it. `condition` is the predicate in its time zone, or bound already.
    """

    state: State
    condition: Where | Condition | None
    kept: np.ndarray
    whole: np.ndarray
    why: Callable[[], pa.Array] = field(repr=False)

    def __repr__(self) -> str:
        zone = "" if self.time_zone is None else f", read in time zone {self.time_zone}"
        where = "" if self.where is None else f" where {self.where}{zone}"
        return f"<Plan of version {self.version}: {len(self.kept):,} files{where}>"

    @property
    def where(self) -> Where | None:
        """The predicate."""
        return self.condition.where if isinstance(self.condition, Condition) else self.condition

    @property
    def time_zone(self) -> str | None:
        """The time zone in which dates and times of the predicate that name none were read; None without a predicate.

        It is that of the Spark session that ran, or else of the lake.
        """
        return self.condition.time_zone.name if isinstance(self.condition, Condition) else None

    @property
    def version(self) -> int:
        """The version of the table."""
        return self.state.version

    @cached_property
    def files(self) -> pa.Table:
        """The files that are needed: path, spec_id, key, rows, bytes; made when first asked for, as a read doesn't."""
        return _keyed(self.state, self.kept).add_column(3, "rows", self.state.row_counts(self.kept))

    @cached_property
    def outside(self) -> pa.Array:
        """The paths of the needed files that lie outside of the table's folder, as those of shallow clones do."""
        return self.state.outside(self.kept)

    @cached_property
    def skipped(self) -> pa.Table:
        """The files that are not needed: path, spec_id, key, reason; made when first asked for, as few look.

        Of the version that was planned, which must be there still.
        """
        state = self.state.with_every_file()
        plan = self if state is self.state else make_plan(state, self.condition)
        places = np.setdiff1d(np.arange(state.files.num_rows), plan.kept, assume_unique=True)
        files = _keyed(state, places).drop_columns(["bytes"])
        return files.append_column("reason", plan.why().take(pa.array(places)))


def make_plan(state: State, where: Where | Condition | None) -> Plan:
    """The plan of a predicate; None needs every file."""
    size = state.files.num_rows
    if where is None:
        return Plan(state, where, np.arange(size), np.ones(size, bool), lambda: pa.nulls(size, pa.string()))
    pruned = pruned_files(state, where)
    kept = np.flatnonzero(pruned.may_match.to_numpy(zero_copy_only=False))
    return Plan(
        state, where, kept, pruned.must_match.to_numpy(zero_copy_only=False)[kept], lambda: pruned.reasons
    )  # fmt: skip


def _keyed(state: State, places: np.ndarray) -> pa.Table:
    """The files at those places, with their keys: path, spec_id, key, bytes."""
    files = state.files.take(pa.array(places))
    return files.add_column(2, "key", partition_keys(state, state.partitions.take(pa.array(places))))


def pruned_files(state: State, where: Where | Condition) -> Pruned:
    """What the predicate says of each file, by its partition and by its statistics."""
    condition = where if isinstance(where, Condition) else Condition(where, IN_UTC)
    is_text = isinstance(condition.where, str)
    names = (_names_of_text if is_text else _names)(condition, state.schema)
    judged = partial(prune, condition, schema=state.schema, spec=state.specs)
    if {field.source for spec in state.specs.specs for field in spec.fields}.isdisjoint(names):
        return judged(partitions=state.partitions, statistics=state.statistics(names, None))
    # Statistics take much longer to read than partitions, so only those files are asked for theirs that are in doubt.
    by_partition = judged(partitions=state.partitions)
    left = pc.and_not(by_partition.may_match, by_partition.must_match)
    places = np.flatnonzero(left.to_numpy(zero_copy_only=False))
    if not len(places):
        return by_partition
    if len(places) == len(left):
        return judged(partitions=state.partitions, statistics=state.statistics(names, None))
    by_file = judged(partitions=state.partitions.take(pa.array(places)), statistics=state.statistics(names, places))
    return by_partition.with_answers(left, by_file)


def _names(where: Condition, schema: Schema) -> tuple[str, ...]:
    return tuple(named_in(parse_predicate(where, schema), schema))


_names_of_text = lru_cache(maxsize=256)(_names)


def named_in(predicate: Predicate, schema: Schema) -> list[str]:
    """The columns that a predicate may speak of: all whose names are in its text, wherever they stand there."""
    text = predicate.sql().casefold()
    return [name for name in schema.names if name.replace("`", "``").casefold() in text]


def partition_table(state: State, where: Where | Condition | None, asset: str) -> pa.Table:
    """The partitions that a predicate can match: key, id, spec_id, files, rows, bytes, and then the fields."""
    rows = state.row_counts(np.arange(state.files.num_rows))
    files = state.files.select(["spec_id", "bytes"]).append_column("rows", rows)
    files = files.append_column("key", partition_keys(state, state.partitions))
    fields = [name for name in state.partitions.column_names if name != "spec_id"]
    table = files
    for name in fields:
        table = table.append_column(f"field.{name}", state.partitions[name])
    if where is not None:
        table = table.filter(pruned_files(state, where).may_match)
    by = ["spec_id", "key", *(f"field.{name}" for name in fields)]
    grouped = _grouped(table, by)
    keys = grouped["key"].combine_chunks()
    ids = key_ids(asset, keys) if len(keys) and keys.null_count == 0 else pa.nulls(len(keys), pa.string())
    columns = {"key": keys, "id": ids, "spec_id": grouped["spec_id"], "files": grouped["files"],
               "rows": grouped["rows"], "bytes": grouped["bytes"]}  # fmt: skip
    columns |= {name: grouped[f"field.{name}"] for name in fields}
    return pa.table(columns)


def _grouped(table: pa.Table, by: list[str]) -> pa.Table:
    """One row for each distinct `by`, in the order that they come; rows is null where a file doesn't say."""
    summed = pc.ScalarAggregateOptions(skip_nulls=False)
    # Threads would lose the order.
    grouped = table.group_by(by, use_threads=False).aggregate(
        [([], "count_all"), ("rows", "sum", summed), ("bytes", "sum")]
    )
    return grouped.rename_columns({"count_all": "files", "rows_sum": "rows", "bytes_sum": "bytes"})


def identities(partitions: pa.Table) -> list[tuple[object, ...]]:
    """Each partition's values, as what is equal exactly where SQL would join them or both are null."""
    columns = [_identity(partitions[name]) for name in partitions.column_names if name != "spec_id"]
    return list(zip(*columns, strict=True)) if columns else [()] * partitions.num_rows


def _identity(column: pa.ChunkedArray) -> Sequence[object]:
    if pa.types.is_date32(column.type):
        return cast("list[object]", column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type):
        return cast("list[object]", column.cast(pa.int64()).to_pylist())
    if pa.types.is_floating(column.type):
        # NaN is not itself to Python, and -0.0 is 0.0 to SQL.
        return [None if x is None else "NaN" if x != x else x + 0.0 for x in column.to_pylist()]  # noqa: PLR0124
    return cast("list[object]", column.to_pylist())


def partition_keys(state: State, partitions: pa.Table) -> pa.Array:
    """The canonical key of each of the partitions; null where a name or a type of it can't be in a key."""
    ids = one_array(partitions["spec_id"])
    known = distinct_ids(ids)
    if len(known) == 1:
        return _spec_keys(state.specs, known[0], partitions)
    keys = pa.nulls(partitions.num_rows, pa.string())
    for spec_id in known:
        rows = pc.equal(ids, spec_id)
        keys = pc.replace_with_mask(keys, rows, _spec_keys(state.specs, spec_id, partitions.filter(rows)))
    return keys


def _spec_keys(specs: SpecHistory, spec_id: int, partitions: pa.Table) -> pa.Array:
    spec, size = specs.spec(spec_id), partitions.num_rows
    if not spec.fields:
        return pa.array([""] * size, pa.string())
    columns = {f.name: partitions[specs.column_name(spec, f)] for f in spec.fields}
    for f in spec.fields:
        if f.transform.key_type(f.source_type, spec.family) != f.result_type:
            columns[f.name] = columns[f.name].cast(pa.int32()).cast(pa.date32())
    try:
        if size <= _FEW:
            return key_texts(columns)
        first, places = _distinct(columns)
        return key_texts(pa.table(columns).take(first)).take(places)
    except KeyValueError:
        return pa.nulls(size, pa.string())


_FEW = 1000
"""So many keys are made sooner than the distinct ones among them are found."""


def _distinct(columns: Mapping[str, pa.ChunkedArray]) -> tuple[pa.Array, pa.Array]:
    """The first row of each distinct one, and for every row which of them it is like."""
    codes = np.zeros(len(next(iter(columns.values()))), np.int64)
    first = codes[:1]
    for column in columns.values():
        encoded = pc.dictionary_encode(one_array(column), null_encoding="encode")
        codes = codes * len(encoded.dictionary) + np.asarray(encoded.indices)
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return pa.array(first), pa.array(codes)
