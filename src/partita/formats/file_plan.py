"""Plan which files of a table a predicate needs, and list the partitions of a table; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import Predicate, PredicateLike, UnboundPredicate
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.schema import Schema
from partita.algebra.spec import SpecHistory
from partita.algebra.time_zones import UTC_TIME_ZONE
from partita.arrow.buffers import dense_array
from partita.arrow.distinct_rows import distinct_row_ids, first_row_indices
from partita.arrow.key import key_ids, key_texts
from partita.arrow.prune import PruneResult, distinct_spec_ids, prune
from partita.errors import KeyValueError
from partita.formats.table_version import TableVersion


@dataclass(frozen=True, eq=False, repr=False)
class FilePlan:
    """Which files of a table version a predicate needs, and which it skips.

    `Table.plan` returns one. `file_indices` are the positions of the needed files in the list of files of
    `table_version`, and `must_match` is true where every row of such a file matches.
    """

    table_version: TableVersion
    condition: PredicateLike | UnboundPredicate | None
    file_indices: np.ndarray
    must_match: np.ndarray
    skip_reasons: Callable[[], pa.Array] = field(repr=False)

    def __repr__(self) -> str:
        zone = "" if self.time_zone is None else f", read in time zone {self.time_zone}"
        where = "" if self.where is None else f" where {self.where}{zone}"
        return f"<Plan of version {self.version}: {len(self.file_indices):,} files{where}>"

    @property
    def where(self) -> PredicateLike | None:
        """The predicate as it was given."""
        return self.condition.where if isinstance(self.condition, UnboundPredicate) else self.condition

    @property
    def time_zone(self) -> str | None:
        """The time zone of dates and times without one in the predicate; None if the plan has no predicate.

        It is that of the Spark session that was running, or else that of the lake.
        """
        return self.condition.time_zone.name if isinstance(self.condition, UnboundPredicate) else None

    @property
    def version(self) -> int:
        """The version of the table that was planned."""
        return self.table_version.version

    @cached_property
    def files(self) -> pa.Table:
        """The needed files as an Arrow table: path, spec_id, key, rows, bytes."""
        return _files_with_keys(self.table_version, self.file_indices).add_column(
            3, "rows", self.table_version.row_counts(self.file_indices)
        )

    @cached_property
    def outside_paths(self) -> pa.Array:
        """The paths of the needed files that lie outside of the table's folder, as those of a shallow clone do."""
        return self.table_version.outside_paths(self.file_indices)

    @cached_property
    def skipped(self) -> pa.Table:
        """The skipped files as an Arrow table: path, spec_id, key, reason. Computed on first use."""
        table_version = self.table_version.with_all_files()
        plan = self if table_version is self.table_version else plan_files(table_version, self.condition)
        skipped_indices = np.setdiff1d(np.arange(table_version.files.num_rows), plan.file_indices, assume_unique=True)
        files = _files_with_keys(table_version, skipped_indices).drop_columns(["bytes"])
        return files.append_column("reason", plan.skip_reasons().take(pa.array(skipped_indices)))


def plan_files(table_version: TableVersion, where: PredicateLike | UnboundPredicate | None) -> FilePlan:
    """Plan which files of a table version a predicate needs; None needs every file."""
    file_count = table_version.files.num_rows
    if where is None:
        return FilePlan(
            table_version,
            where,
            np.arange(file_count),
            np.ones(file_count, bool),
            lambda: pa.nulls(file_count, pa.string()),
        )
    result = prune_files(table_version, where)
    file_indices = np.flatnonzero(result.may_match.to_numpy(zero_copy_only=False))
    must_match = result.must_match.to_numpy(zero_copy_only=False)[file_indices]
    return FilePlan(table_version, where, file_indices, must_match, lambda: result.reasons)


def _files_with_keys(table_version: TableVersion, file_indices: np.ndarray) -> pa.Table:
    """Return files by their indices, with their keys: path, spec_id, key, bytes."""
    files = table_version.files.take(pa.array(file_indices))
    return files.add_column(
        2, "key", partition_keys(table_version, table_version.partitions.take(pa.array(file_indices)))
    )


def prune_files(table_version: TableVersion, where: PredicateLike | UnboundPredicate) -> PruneResult:
    """Evaluate a predicate for each file of a table version, by its partition and its statistics."""
    condition = where if isinstance(where, UnboundPredicate) else UnboundPredicate(where, UTC_TIME_ZONE)
    is_text = isinstance(condition.where, str)
    names = (_cached_condition_columns if is_text else _condition_columns)(condition, table_version.schema)
    prune_table = partial(prune, condition, schema=table_version.schema, spec=table_version.spec_history)
    if {field.source for spec in table_version.spec_history.specs for field in spec.fields}.isdisjoint(names):
        return prune_table(partitions=table_version.partitions, statistics=table_version.statistics(names, None))
    # Statistics take much longer to read than partitions, so only those of undecided files are read.
    by_partition = prune_table(partitions=table_version.partitions)
    is_undecided = pc.and_not(by_partition.may_match, by_partition.must_match)
    undecided_indices = np.flatnonzero(is_undecided.to_numpy(zero_copy_only=False))
    if not len(undecided_indices):
        return by_partition
    if len(undecided_indices) == len(is_undecided):
        return prune_table(partitions=table_version.partitions, statistics=table_version.statistics(names, None))
    by_file = prune_table(
        partitions=table_version.partitions.take(pa.array(undecided_indices)),
        statistics=table_version.statistics(names, undecided_indices),
    )
    return by_partition.replace_results(is_undecided, by_file)


def _condition_columns(where: UnboundPredicate, schema: Schema) -> tuple[str, ...]:
    return tuple(referenced_columns(parse_predicate(where, schema), schema))


_cached_condition_columns = lru_cache(maxsize=256)(_condition_columns)


def referenced_columns(predicate: Predicate, schema: Schema) -> list[str]:
    """Return the columns that a predicate may refer to: all whose names occur anywhere in its text."""
    text = predicate.sql().casefold()
    return [name for name in schema.names if name.replace("`", "``").casefold() in text]


def partition_table(
    table_version: TableVersion, where: PredicateLike | UnboundPredicate | None, table_name: str
) -> pa.Table:
    """Return the partitions that a predicate may match: key, id, spec_id, files, rows, bytes, then the fields."""
    rows = table_version.row_counts(np.arange(table_version.files.num_rows))
    files = table_version.files.select(["spec_id", "bytes"]).append_column("rows", rows)
    files = files.append_column("key", partition_keys(table_version, table_version.partitions))
    fields = [name for name in table_version.partitions.column_names if name != "spec_id"]
    table = files
    for name in fields:
        table = table.append_column(f"field.{name}", table_version.partitions[name])
    if where is not None:
        table = table.filter(prune_files(table_version, where).may_match)
    group_columns = ["spec_id", "key", *(f"field.{name}" for name in fields)]
    groups = _group_partitions(table, group_columns)
    keys = groups["key"].combine_chunks()
    ids = key_ids(table_name, keys) if len(keys) and keys.null_count == 0 else pa.nulls(len(keys), pa.string())
    columns = {"key": keys, "id": ids, "spec_id": groups["spec_id"], "files": groups["files"],
               "rows": groups["rows"], "bytes": groups["bytes"]}  # fmt: skip
    columns |= {name: groups[f"field.{name}"] for name in fields}
    return pa.table(columns)


def _group_partitions(table: pa.Table, group_columns: list[str]) -> pa.Table:
    """Sum files, rows and bytes by group, in order of first occurrence; rows is null if that of a file is unknown."""
    keep_nulls = pc.ScalarAggregateOptions(skip_nulls=False)
    # Threads would lose the order.
    groups = table.group_by(group_columns, use_threads=False).aggregate(
        [([], "count_all"), ("rows", "sum", keep_nulls), ("bytes", "sum")]
    )
    return groups.rename_columns({"count_all": "files", "rows_sum": "rows", "bytes_sum": "bytes"})


def partition_identities(partitions: pa.Table) -> list[tuple[object, ...]]:
    """Return the values of each partition in a form that is equal exactly if SQL's `<=>` is true of them."""
    columns = [_comparable_values(partitions[name]) for name in partitions.column_names if name != "spec_id"]
    return list(zip(*columns, strict=True)) if columns else [()] * partitions.num_rows


def _comparable_values(column: pa.ChunkedArray) -> Sequence[object]:
    if pa.types.is_date32(column.type):
        return cast("list[object]", column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type):
        return cast("list[object]", column.cast(pa.int64()).to_pylist())
    if pa.types.is_floating(column.type):
        # NaN is not itself to Python, and -0.0 is 0.0 to SQL.
        return [None if x is None else "NaN" if x != x else x + 0.0 for x in column.to_pylist()]  # noqa: PLR0124
    return cast("list[object]", column.to_pylist())


def partition_keys(table_version: TableVersion, partitions: pa.Table) -> pa.Array:
    """Return the canonical key of each partition; null if a name or a type of it can't be in a key."""
    ids = dense_array(partitions["spec_id"])
    distinct_ids = distinct_spec_ids(ids)
    if len(distinct_ids) == 1:
        return _spec_keys(table_version.spec_history, distinct_ids[0], partitions)
    keys = pa.nulls(partitions.num_rows, pa.string())
    for spec_id in distinct_ids:
        rows = pc.equal(ids, spec_id)
        keys = pc.replace_with_mask(
            keys, rows, _spec_keys(table_version.spec_history, spec_id, partitions.filter(rows))
        )
    return keys


def _spec_keys(spec_history: SpecHistory, spec_id: int, partitions: pa.Table) -> pa.Array:
    spec, size = spec_history.spec(spec_id), partitions.num_rows
    if not spec.fields:
        return pa.array([""] * size, pa.string())
    columns = {f.name: partitions[spec_history.column_name(spec, f)] for f in spec.fields}
    for f in spec.fields:
        if f.transform.key_type(f.source_type, spec.family) != f.result_type:
            columns[f.name] = columns[f.name].cast(pa.int32()).cast(pa.date32())
    try:
        if size <= _FEW_ROWS:
            return key_texts(columns)
        row_ids = distinct_row_ids(columns.values(), size)
        return key_texts(pa.table(columns).take(pa.array(first_row_indices(row_ids)))).take(pa.array(row_ids))
    except KeyValueError:
        return pa.nulls(size, pa.string())


_FEW_ROWS = 1000
"""Up to this number of rows, formatting all keys is faster than finding the distinct partitions first."""
