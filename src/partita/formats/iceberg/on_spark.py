"""The rows of an Iceberg table on Spark: as it takes them, as its files hold them, as they are read and marked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.spec import PartitionField
from partita.errors import TableError, UnsupportedFeature
from partita.formats.iceberg.columns import stored_schema
from partita.formats.iceberg.deletes import is_vector
from partita.formats.iceberg.field_ids import check_have_column, file_columns
from partita.formats.iceberg.files import IcebergCopier, IcebergMarker, IcebergTarget
from partita.formats.iceberg.manifests import EQUALITY_DELETES, POSITION_DELETES
from partita.formats.iceberg.position_files import positions_of
from partita.formats.iceberg.spark_schema import spark_json
from partita.formats.iceberg.state import IcebergState
from partita.formats.iceberg.statistics import of_column
from partita.formats.iceberg.vectors import vector_positions
from partita.formats.on_spark.copying import copied
from partita.formats.on_spark.file_groups import file_groups
from partita.formats.on_spark.paths import located, reported
from partita.formats.store import TOLD, Edits, total
from partita.spark.positions import (
    GROUP,
    PLACE,
    counted,
    mark,
    marked_rows,
    without_equal,
    without_marked,
)
from partita.spark.rewrite import changing, leaving
from partita.spark.rows import (
    Column,
    DataFrame,
    DataType,
    SparkSession,
    StructType,
    column,
    conformed,
    not_null,
    only,
    partition_values,
    picked,
    renamed,
)
from partita.spark.scan import FILE, PATH, ROW, Files, frame_of, scan
from partita.spark.schema import from_json
from partita.spark.session import session
from partita.spark.write import PARTITION, gathered, write

_FEW_FILES, _FEW_ROWS = 256, 100_000
"""Position-delete files that the driver reads by itself, several at once."""
_LONG = 2**32
"""A file of so many rows has more than `scan` can leave rows out of without their positions."""
_SPREAD = 500_000
"""Up to so many marked rows go to every executor by the names of their files; of more, their numbers."""
_MARKED = pa.schema([*TOLD, ("gone", pa.int64())])


@dataclass(frozen=True, slots=True)
class IcebergRows:
    """The rows of one version of a table."""

    state: IcebergState

    def schema(self, doing: str) -> StructType:
        """The columns as Spark has them."""
        return from_json(spark_json(self.state.table.schema().fields, by_id=False, doing=doing))

    def conform(self, rows: DataFrame) -> DataFrame:
        """Rows of others as the table's."""
        return conformed(rows, self.schema("writing"), {})

    def required(self, rows: DataFrame) -> DataFrame:
        """The table's own rows after a change, without null where none may be."""
        return not_null(rows, only(self.schema("writing"), set(rows.columns)))

    def write(self, rows: DataFrame, target: IcebergTarget) -> pa.Table:
        """New files in the current spec, as few as may be unless the table's `write.distribution-mode` is none."""
        stored, count = self._stored(rows), len(target.fields)
        if self.state.table.metadata.properties.get("write.distribution-mode", "hash") != "none":
            stored = gathered(stored, count)
        return write(stored, target, count, TOLD)

    def _stored(self, rows: DataFrame) -> DataFrame:
        values = self.partition(rows, self.state.spec.fields)
        named = {f"{PARTITION}{at}": value for at, value in enumerate(values)}
        return renamed(rows, named, self._stored_columns())

    def _stored_columns(self) -> list[tuple[str, str, DataType]]:
        """The columns that are written: the name of each, and its name and type in files."""
        schema = self.state.table.schema()
        stored = from_json(spark_json(stored_schema(schema).fields, by_id=False, doing="writing"))
        return [(name, f.name, f.dataType) for name, f in zip(self.state.schema.names, stored.fields, strict=True)]

    def partition(self, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:
        """The values of partition fields of rows."""
        return partition_values(rows, [field.function for field in fields], PARTITION, family="iceberg")

    def scan(self, spark: SparkSession, places: np.ndarray, names: Sequence[str], *, positions: bool) -> DataFrame:
        """Some columns of the files at those places, without what is deleted."""
        if not len(places):
            return scan(spark, self._files(places, names), positions=positions)
        index = self.state.delete_index(places)
        if not index.num_rows:
            return scan(spark, self._files(places, names), positions=positions)
        if positions:
            return self._undeleted(spark, places, names, index)
        return self._left(spark, places, names, index)

    def count(self, places: np.ndarray) -> int:
        """How many rows the files at those places have; data files are read only for equality deletes."""
        index = self.state.delete_index(places)
        if self._is(EQUALITY_DELETES)[index["delete"].to_numpy()].any():
            return self.scan(session(), places, [self.state.schema.names[0]], positions=False).count()
        rows = self.state.entries["record_count"].take(pa.array(places))
        marked, _ = self._marked(session(), places, index, FILE) if index.num_rows else (None, 0)
        return total(rows) - _distinct(marked)

    def _left(self, spark: SparkSession, places: np.ndarray, names: Sequence[str], index: pa.Table) -> DataFrame:
        """The rows that no delete file speaks of, without positions, which is quicker."""
        touched = np.isin(places, index["place"].to_numpy())
        rows = self.state.entries["record_count"].take(pa.array(places)).to_numpy()
        by_row = rows.max() < _LONG and not self._is(EQUALITY_DELETES)[index["delete"].to_numpy()].any()
        gone, count = self._marked(spark, places, index, PATH) if by_row else (None, 0)
        by_row = by_row and count <= _SPREAD
        if by_row and rows[~touched].sum() < _FEW_ROWS:
            return scan(spark, self._files(places, names), gone=gone)
        if by_row:
            left = scan(spark, self._files(places[touched], names), gone=gone)
        else:
            left = picked(self._undeleted(spark, places[touched], names, index), names)
        # Where rows come from takes Spark some time to tell, so it is asked only of files that have deletes.
        return left if touched.all() else scan(spark, self._files(places[~touched], names)).unionAll(left)

    def _undeleted(self, spark: SparkSession, places: np.ndarray, names: Sequence[str], index: pa.Table) -> DataFrame:
        """The rows that no delete file speaks of, with positions; `index` is the state's of those places."""
        deletes = self.state.deletes
        equal = np.unique(index["delete"].to_numpy()[self._is(EQUALITY_DELETES)[index["delete"].to_numpy()]])
        groups = _by_columns(deletes, equal, self._names_of)
        needed = list(dict.fromkeys([*names, *(name for named in groups for name in named)]))
        rows = scan(spark, self._files(places, needed), positions=True)
        marked, count = self.marked(spark, places, index, FILE)
        if marked is not None:
            rows = without_marked(rows, marked, count)
        for named, files in groups.items():
            rows = self._without_equal(rows, places, named, files, index)
        return picked(rows, [*names, FILE, ROW])

    def _is(self, content: int) -> np.ndarray:
        found: np.ndarray = self.state.deletes["content"].to_numpy() == content
        return found

    def marked(
        self, spark: SparkSession, places: np.ndarray, index: pa.Table, under: str
    ) -> tuple[DataFrame | None, int]:
        """The rows of the files at those places that are marked as gone, by `under` and `ROW`, and about how many.

        Under `FILE` is the number of a file among the places, under `PLACE` its place in the table, and under `PATH`
        what Spark calls it.
        """
        found, count = self._marked(spark, places, index, under)
        return frame_of(spark, found) if isinstance(found, pa.Table) else found, count

    def _marked(
        self, spark: SparkSession, places: np.ndarray, index: pa.Table, under: str
    ) -> tuple[pa.Table | DataFrame | None, int]:
        """The same, in Arrow where it is read here."""
        pairs = _with_numbers(index, places)
        content = self._is(POSITION_DELETES)[pairs["delete"].to_numpy()]
        pairs = pairs.filter(pa.array(content))
        if not pairs.num_rows:
            return None, 0
        if under == PATH:
            named = [reported(located(path)) for path in self._paths(pairs).to_pylist()]
            pairs = pairs.append_column(PATH, pa.array(named, pa.string()))
        vector = is_vector(self.state.deletes)[pairs["delete"].to_numpy()]
        here = [self._vectors(pairs.filter(pa.array(vector)), under)] if vector.any() else []
        in_files = pairs.filter(pa.array(~vector))
        used = np.unique(pairs["delete"].to_numpy())
        count = total(self.state.deletes["record_count"].take(pa.array(used)))
        few = len(used) <= _FEW_FILES and count <= _FEW_ROWS
        if in_files.num_rows and few:
            here.append(self._read_here(in_files, under))
        read = pa.concat_tables(here) if here else None
        if not in_files.num_rows or few:
            return read, count
        frame = self._in_files(spark, in_files, under)
        return frame if read is None else frame_of(spark, read).unionByName(frame), count

    def _in_files(self, spark: SparkSession, pairs: pa.Table, under: str) -> DataFrame:
        deletes = self.state.deletes
        used = np.unique(pairs["delete"].to_numpy())
        locations, names = _on_spark(self.state, deletes, used)
        which = pa.array(np.searchsorted(used, pairs["delete"].to_numpy()))
        known = pa.table(
            {
                "reported": pa.array(names, pa.string()).take(which),
                "file_path": self._paths(pairs),
                under: pairs[under].combine_chunks(),
            }
        )
        return marked_rows(spark, locations, known)

    def _read_here(self, pairs: pa.Table, under: str) -> pa.Table:
        """The same, read by the driver: for a few rows in a few files that is done before Spark has begun."""
        pairs = pairs.sort_by("delete")
        deletes, starts = np.unique(pairs["delete"].to_numpy(), return_index=True)
        _on_spark(self.state, self.state.deletes, deletes)
        named = pa.table({"path": self._paths(pairs), under: pairs[under].combine_chunks()})
        about = [named.slice(start, stop - start) for start, stop in pairwise([*starts.tolist(), len(named)])]
        files = self.state.deletes.select(["path", "file_size"]).take(pa.array(deletes)).to_pylist()
        io = self.state.table.io
        read = positions_of(io, [(file["path"], file["file_size"]) for file in files])
        return pa.concat_tables(_about(rows, which, under) for rows, which in zip(read, about, strict=True))

    def _paths(self, pairs: pa.Table) -> pa.Array:
        return self.state.entries["path"].take(pairs["place"]).combine_chunks().cast(pa.string())

    def _vectors(self, pairs: pa.Table, under: str) -> pa.Table:
        """What deletion vectors say; they are read here, for Spark can't."""
        tables = []
        for at, delete in enumerate(pairs["delete"].to_pylist()):
            file = self.state.deletes.slice(delete, 1).to_pylist()[0]
            self.state.check_links([file["path"]])
            rows = vector_positions(self.state.table.io, file)
            tables.append(pa.table({under: pa.repeat(pairs[under][at], len(rows)), ROW: pa.array(rows)}))
        return pa.concat_tables(tables)

    def _names_of(self, ids: Sequence[int]) -> tuple[str, ...]:
        schema = self.state.table.schema()
        names = [schema.find_column_name(number) for number in ids]
        for number, name in zip(ids, names, strict=True):
            if name is None or "." in name:
                what = f"equality deletes by column {number}, which is dropped or inside of another"
                raise UnsupportedFeature((what,), "reading")
        return tuple(str(name) for name in names)

    def _without_equal(
        self, rows: DataFrame, places: np.ndarray, names: tuple[str, ...], files: np.ndarray, index: pa.Table
    ) -> DataFrame:
        deletes = self.state.deletes
        pairs = _with_numbers(index.filter(pa.array(np.isin(index["delete"].to_numpy(), files))), places)
        which = np.searchsorted(files, pairs["delete"].to_numpy()).astype(np.int32)
        about = pa.table({"delete": pa.array(which), FILE: pairs[FILE].combine_chunks()})
        deleted = scan(rows.sparkSession, self._stored_files(deletes, files, names), positions=True)
        count = total(deletes["record_count"].take(pa.array(files)))
        return without_equal(rows, deleted, about, names, spread=count * max(1, len(places)) <= 1_000_000)

    def _files(self, places: np.ndarray, names: Sequence[str]) -> Files:
        files = self._stored_files(self.state.entries, places, names)
        entries = self.state.entries.select(["path", "file_size", "spec_id", "value_counts"]).take(pa.array(places))
        self._check_columns(entries, names)
        return files

    def _stored_files(self, files: pa.Table, places: np.ndarray, names: Sequence[str]) -> Files:
        """Columns of data files or delete files, by what each file calls them."""
        locations, named = _on_spark(self.state, files, places)
        table = self.state.table
        fields = [table.schema().find_field(name) for name in dict.fromkeys(names)]
        struct = spark_json(fields, by_id=True, doing="reading")
        paths = files.select(["path", "file_size"]).take(pa.array(places))
        plain = from_json(spark_json([table.schema().find_field(name) for name in names], by_id=False, doing="reading"))
        return Files(
            locations,
            named,
            tuple(field.name for field in fields),
            file_groups(struct, file_columns(table.io, table.metadata, paths)),
            pa.table({}),
            tuple((f.name, f.dataType, f.name) for f in plain.fields),
        )

    def _check_columns(self, entries: pa.Table, names: Sequence[str]) -> None:
        """Columns that files are partitioned by are in them; one whose metrics don't know it is looked into."""
        schema = self.state.table.schema()
        specs = entries["spec_id"].to_numpy()
        for spec in self.state.specs.specs:
            for field in spec.fields:
                if field.transform.name == "identity" and field.source in names:
                    number = schema.find_field(field.source).field_id
                    unknown = of_column(entries["value_counts"], number).is_null().to_numpy(zero_copy_only=False)
                    doubtful = entries.filter(pa.array(unknown & (specs == spec.spec_id)))
                    files = list(zip(doubtful["path"].to_pylist(), doubtful["file_size"].to_pylist(), strict=True))
                    check_have_column(self.state.table.io, files, number, field.source)

    # --- changes

    def replace(self, changed: DataFrame, columns: set[str], copier: IcebergCopier, places: np.ndarray) -> Edits:
        """The files copied with other values in some columns."""
        stored = [column for column in self._stored_columns() if column[0] in columns]
        return copied(changing(changed, stored), copier, places)

    def copied_without(self, positions: DataFrame, copier: IcebergCopier, places: np.ndarray) -> Edits:
        """The files that have one of those rows, copied without them."""
        return copied(leaving(positions), copier, places)

    def written_without(self, positions: DataFrame, places: np.ndarray, target: IcebergTarget) -> Edits:
        """The rows that are left of the files that have one of those, written anew in the current spec."""
        held = positions.persist()
        try:
            named = counted(held)
            if not named.num_rows:
                return Edits()
            touched, gone = named[FILE].to_numpy(), total(named["rows"])
            names = [f.name for f in self.schema("writing").fields]
            numbers = pa.table({FILE: pa.array(touched.astype(np.int32)),
                                "__partita_new": pa.array(np.arange(len(touched), dtype=np.int32))})  # fmt: skip
            spark = session()
            renumbered = held.join(frame_of(spark, numbers), FILE).select(column("__partita_new").alias(FILE), ROW)
            rows = self.scan(spark, places[touched], names, positions=True)
            left = without_marked(rows, renumbered, gone)
            return Edits(removed=places[touched], added=self.write(picked(left, names), target), gone=gone)
        finally:
            held.unpersist()

    def mark(
        self, positions: DataFrame, places: np.ndarray, groups: np.ndarray, marker: IcebergMarker, index: pa.Table
    ) -> Edits:
        """The rows marked as gone, together with those of the same partitions that were before.

        `groups` are those of all files of the table, -1 where one isn't touched; `index` is the state's of those that
        are.
        """
        spark = session()
        numbered = pa.table(
            {
                FILE: pa.array(np.arange(len(places), dtype=np.int32)),
                PLACE: pa.array(places),
                GROUP: pa.array(groups[places].astype(np.int32)),
            }
        )
        touched = np.flatnonzero(groups >= 0)
        known, _ = self.marked(spark, touched, index, PLACE)
        if known is not None:
            of_places = pa.table({PLACE: pa.array(touched), GROUP: pa.array(groups[touched].astype(np.int32))})
            known = known.join(frame_of(spark, of_places), PLACE)
        told = mark(positions, numbered, known, marker, _MARKED)
        marked_groups = {json.loads(details)["group"] for details in told["details"].to_pylist()}
        replaced = index.filter(pa.array(np.isin(groups[index["place"].to_numpy()], list(marked_groups))))
        paths = self.state.deletes["path"].take(pa.array(np.unique(replaced["delete"].to_numpy())))
        return Edits(
            marked=told.select(TOLD.names),
            unmarked=tuple(paths.to_pylist()),
            gone=total(told["gone"]),
        )


def _distinct(marked: pa.Table | DataFrame | None) -> int:
    """How many rows are marked; two files may mark the same."""
    if marked is None:
        return 0
    if isinstance(marked, pa.Table):
        return int(marked.group_by([FILE, ROW]).aggregate([]).num_rows)
    return int(marked.distinct().count())


def _about(rows: pa.Table, named: pa.Table, under: str) -> pa.Table:
    """Of the rows that a delete file marks, those of the named data files, by what is under each."""
    which = pc.index_in(rows["file_path"].cast(pa.string()), value_set=named["path"].combine_chunks())
    return pa.table({under: named[under].take(which), ROW: rows["pos"]}).filter(which.is_valid())


def _with_numbers(index: pa.Table, places: np.ndarray) -> pa.Table:
    """The pairs with the number of each data file among the places, where it is one of them."""
    order = np.argsort(places, kind="stable")
    wanted = index["place"].to_numpy()
    at = np.searchsorted(places[order], wanted)
    found = np.isin(wanted, places)
    numbers = order[np.minimum(at, len(places) - 1)].astype(np.int32)
    pairs = index.append_column(FILE, pa.array(numbers)).append_column(PLACE, index["place"])
    return pairs.filter(pa.array(found))


def _by_columns(
    deletes: pa.Table, files: np.ndarray, names_of: Callable[[Sequence[int]], tuple[str, ...]]
) -> dict[tuple[str, ...], np.ndarray]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for file in files.tolist():
        names = names_of(deletes["equality_ids"][file].as_py() or [])
        groups.setdefault(names, []).append(file)
    return {names: np.array(found, np.int64) for names, found in groups.items()}


def _on_spark(state: IcebergState, files: pa.Table, places: np.ndarray) -> tuple[list[str], list[str]]:
    """Where Hadoop finds the files at those places, and what Spark reports them as.

    Files that are not Parquet, or behind a symbolic link out of the table, are refused.
    """
    files = files.select(["path", "format"]).take(pa.array(places))
    for format_ in pc.unique(pc.utf8_lower(files["format"])).to_pylist():
        if format_ != "parquet":
            raise TableError(f"the table has {format_} files, and Partita reads Parquet alone")
    paths = files["path"].to_pylist()
    state.check_links(paths)
    locations = [located(path) for path in paths]
    return locations, [reported(location) for location in locations]
