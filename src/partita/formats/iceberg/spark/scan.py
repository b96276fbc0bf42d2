"""Reads rows of an Iceberg table on Spark without those that delete files mark as deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.errors import TableError, UnsupportedFeature
from partita.formats.iceberg.delete_file_index import is_deletion_vector
from partita.formats.iceberg.field_ids import check_files_have_column, file_columns
from partita.formats.iceberg.manifests import EQUALITY_DELETES, POSITION_DELETES
from partita.formats.iceberg.row_deletes import read_deletion_vector, read_position_delete_files
from partita.formats.iceberg.spark.position_deletes import (
    TABLE_FILE_INDEX,
    apply_equality_deletes,
    apply_position_deletes,
    read_position_deletes,
)
from partita.formats.iceberg.spark_schema import spark_struct_json
from partita.formats.iceberg.state import IcebergTableVersion
from partita.formats.iceberg.statistics import column_metric
from partita.formats.operations.file_groups import file_groups
from partita.formats.operations.paths import spark_file_path
from partita.formats.table_change import total
from partita.formats.table_rows import TableRows
from partita.spark.frames import frame_from_arrow
from partita.spark.positions import FILE_INDEX, FILE_PATH, ROW_INDEX
from partita.spark.rows import (
    DataFrame,
    SparkSession,
    select_columns,
)
from partita.spark.scan import ScanFiles, scan_files
from partita.spark.schema import spark_schema_from_json
from partita.spark.session import spark_session
from partita.storage.hadoop import hadoop_location

_SMALL_FILE_COUNT, _SMALL_ROW_COUNT = 256, 100_000
"""At most this many position-delete files with this many rows are read by the driver, without a Spark job."""
_MAX_ROWS_PER_FILE = 2**32
"""`scan_files` leaves out deleted rows of files with fewer rows than this."""
_MAX_BROADCAST_ROWS = 500_000
"""At most this many deleted positions are broadcast with the paths of their files; more, with file indices."""


@dataclass(frozen=True, slots=True, eq=False)
class IcebergScan(TableRows):
    """Reads the live rows of one version of an Iceberg table; `IcebergRows` writes and changes rows."""

    table_version: IcebergTableVersion

    def scan(
        self,
        spark: SparkSession,
        file_indices: np.ndarray,
        names: Sequence[str],
        *,
        positions: bool = False,
    ) -> DataFrame:
        """Read some columns of some data files without deleted rows."""
        index = self.table_version.delete_index(file_indices)
        if not index.num_rows:
            return scan_files(spark, self._data_files(file_indices, names), positions=positions)
        if positions:
            return self._live_rows_with_positions(spark, file_indices, names, index)
        return self._live_rows(spark, file_indices, names, index)

    def count_rows(self, file_indices: np.ndarray) -> int:
        """Count the rows of some data files; they are read only if equality deletes apply to them."""
        index = self.table_version.delete_index(file_indices)
        if self._has_content(EQUALITY_DELETES)[index["delete"].to_numpy()].any():
            return self.scan(spark_session(), file_indices, [self.table_version.schema.names[0]]).count()
        rows = self.table_version.data_entries["record_count"].take(pa.array(file_indices))
        positions, _ = (
            self._read_deleted_positions(spark_session(), file_indices, index, FILE_INDEX)
            if index.num_rows
            else (None, 0)
        )
        return total(rows) - _count_distinct_positions(positions)

    def _live_rows(
        self, spark: SparkSession, file_indices: np.ndarray, names: Sequence[str], delete_index: pa.Table
    ) -> DataFrame:
        """Return the rows that no delete file deletes, without positions, which is faster."""
        has_deletes = np.isin(file_indices, delete_index["file"].to_numpy())
        rows = self.table_version.data_entries["record_count"].take(pa.array(file_indices)).to_numpy()
        by_row = (
            rows.max() < _MAX_ROWS_PER_FILE
            and not self._has_content(EQUALITY_DELETES)[delete_index["delete"].to_numpy()].any()
        )
        deleted_rows, count = (
            self._read_deleted_positions(spark, file_indices, delete_index, FILE_PATH) if by_row else (None, 0)
        )
        by_row = by_row and count <= _MAX_BROADCAST_ROWS
        if by_row and rows[~has_deletes].sum() < _SMALL_ROW_COUNT:
            return scan_files(spark, self._data_files(file_indices, names), deleted_rows=deleted_rows)
        if by_row:
            remaining_rows = scan_files(
                spark, self._data_files(file_indices[has_deletes], names), deleted_rows=deleted_rows
            )
        else:
            remaining_rows = select_columns(
                self._live_rows_with_positions(spark, file_indices[has_deletes], names, delete_index), names
            )
        # Spark needs time to compute the positions of rows, so only files with deletes are read with them.
        return (
            remaining_rows
            if has_deletes.all()
            else scan_files(spark, self._data_files(file_indices[~has_deletes], names)).unionAll(remaining_rows)
        )

    def _live_rows_with_positions(
        self, spark: SparkSession, file_indices: np.ndarray, names: Sequence[str], delete_index: pa.Table
    ) -> DataFrame:
        """Return the rows that no delete file deletes, with positions; `delete_index` is that of the data files."""
        deletes = self.table_version.delete_entries
        equal = np.unique(
            delete_index["delete"].to_numpy()[self._has_content(EQUALITY_DELETES)[delete_index["delete"].to_numpy()]]
        )
        groups = _group_by_equality_columns(deletes, equal, self._equality_column_names)
        needed_names = list(dict.fromkeys([*names, *(name for group_names in groups for name in group_names)]))
        rows = scan_files(spark, self._data_files(file_indices, needed_names), positions=True)
        deleted_positions, count = self._deleted_positions(spark, file_indices, delete_index, FILE_INDEX)
        if deleted_positions is not None:
            rows = apply_position_deletes(rows, deleted_positions, count)
        for group_names, files in groups.items():
            rows = self._apply_equality_deletes(rows, file_indices, group_names, files, delete_index)
        return select_columns(rows, [*names, FILE_INDEX, ROW_INDEX])

    def _has_content(self, content: int) -> np.ndarray:
        has_content: np.ndarray = self.table_version.delete_entries["content"].to_numpy() == content
        return has_content

    def _deleted_positions(
        self, spark: SparkSession, file_indices: np.ndarray, delete_index: pa.Table, file_column: str
    ) -> tuple[DataFrame | None, int]:
        """Return the positions of deleted rows, by `file_column` and `ROW_INDEX`, and about how many there are.

        `file_column` names the data file: `FILE_INDEX` by its index in `file_indices`, `TABLE_FILE_INDEX` by its index
        in the table version, `FILE_PATH` by the path that Spark reports. Without position deletes, the frame is None.
        """
        positions, count = self._read_deleted_positions(spark, file_indices, delete_index, file_column)
        return frame_from_arrow(spark, positions) if isinstance(positions, pa.Table) else positions, count

    def _read_deleted_positions(
        self, spark: SparkSession, file_indices: np.ndarray, delete_index: pa.Table, file_column: str
    ) -> tuple[pa.Table | DataFrame | None, int]:
        """Return `_deleted_positions` as an Arrow table where the driver reads all of them, else as a DataFrame."""
        pairs = _with_file_numbers(delete_index, file_indices)
        content = self._has_content(POSITION_DELETES)[pairs["delete"].to_numpy()]
        pairs = pairs.filter(pa.array(content))
        if not pairs.num_rows:
            return None, 0
        if file_column == FILE_PATH:
            spark_paths = [spark_file_path(hadoop_location(path)) for path in self._data_file_paths(pairs).to_pylist()]
            pairs = pairs.append_column(FILE_PATH, pa.array(spark_paths, pa.string()))
        vector = is_deletion_vector(self.table_version.delete_entries)[pairs["delete"].to_numpy()]
        vector_positions = (
            [self._read_deletion_vectors(pairs.filter(pa.array(vector)), file_column)] if vector.any() else []
        )
        in_files = pairs.filter(pa.array(~vector))
        delete_indices = np.unique(pairs["delete"].to_numpy())
        count = total(self.table_version.delete_entries["record_count"].take(pa.array(delete_indices)))
        is_small = len(delete_indices) <= _SMALL_FILE_COUNT and count <= _SMALL_ROW_COUNT
        if in_files.num_rows and is_small:
            vector_positions.append(self._read_positions_on_driver(in_files, file_column))
        read = pa.concat_tables(vector_positions) if vector_positions else None
        if not in_files.num_rows or is_small:
            return read, count
        frame = self._read_positions_on_spark(spark, in_files, file_column)
        return frame if read is None else frame_from_arrow(spark, read).unionByName(frame), count

    def _read_positions_on_spark(self, spark: SparkSession, pairs: pa.Table, file_column: str) -> DataFrame:
        deletes = self.table_version.delete_entries
        delete_indices = np.unique(pairs["delete"].to_numpy())
        locations, names = _spark_locations(self.table_version, deletes, delete_indices)
        pair_deletes = pa.array(np.searchsorted(delete_indices, pairs["delete"].to_numpy()))
        delete_pairs = pa.table(
            {
                "reported": pa.array(names, pa.string()).take(pair_deletes),
                "file_path": self._data_file_paths(pairs),
                file_column: pairs[file_column].combine_chunks(),
            }
        )
        return read_position_deletes(spark, locations, delete_pairs)

    def _read_positions_on_driver(self, pairs: pa.Table, file_column: str) -> pa.Table:
        """Read position-delete files without a Spark job, which is faster for a few rows in a few files."""
        pairs = pairs.sort_by("delete")
        deletes, starts = np.unique(pairs["delete"].to_numpy(), return_index=True)
        _spark_locations(self.table_version, self.table_version.delete_entries, deletes)
        file_paths = pa.table({"path": self._data_file_paths(pairs), file_column: pairs[file_column].combine_chunks()})
        paths_by_delete = [
            file_paths.slice(start, stop - start) for start, stop in pairwise([*starts.tolist(), len(file_paths)])
        ]
        files = self.table_version.delete_entries.select(["path", "file_size"]).take(pa.array(deletes)).to_pylist()
        io = self.table_version.table.io
        read = read_position_delete_files(io, [(file["path"], file["file_size"]) for file in files])
        return pa.concat_tables(
            _positions_in_files(rows, paths, file_column) for rows, paths in zip(read, paths_by_delete, strict=True)
        )

    def _data_file_paths(self, pairs: pa.Table) -> pa.Array:
        return self.table_version.data_entries["path"].take(pairs["file"]).combine_chunks().cast(pa.string())

    def _read_deletion_vectors(self, pairs: pa.Table, file_column: str) -> pa.Table:
        """Read the positions in deletion vectors; Spark can't read Puffin files."""
        tables = []
        for index, delete in enumerate(pairs["delete"].to_pylist()):
            file = self.table_version.delete_entries.slice(delete, 1).to_pylist()[0]
            self.table_version.check_no_symlinks([file["path"]])
            rows = read_deletion_vector(self.table_version.table.io, file)
            tables.append(
                pa.table({file_column: pa.repeat(pairs[file_column][index], len(rows)), ROW_INDEX: pa.array(rows)})
            )
        return pa.concat_tables(tables)

    def _equality_column_names(self, equality_ids: Sequence[int]) -> tuple[str, ...]:
        schema = self.table_version.table.schema()
        names = [schema.find_column_name(number) for number in equality_ids]
        for number, name in zip(equality_ids, names, strict=True):
            if name is None or "." in name:
                problem = f"equality deletes by column {number}, which is dropped or inside of another"
                raise UnsupportedFeature((problem,), "reading")
        return tuple(str(name) for name in names)

    def _apply_equality_deletes(
        self,
        rows: DataFrame,
        file_indices: np.ndarray,
        names: tuple[str, ...],
        equality_delete_indices: np.ndarray,
        delete_index: pa.Table,
    ) -> DataFrame:
        deletes = self.table_version.delete_entries
        pairs = _with_file_numbers(
            delete_index.filter(pa.array(np.isin(delete_index["delete"].to_numpy(), equality_delete_indices))),
            file_indices,
        )
        delete_numbers = np.searchsorted(equality_delete_indices, pairs["delete"].to_numpy()).astype(np.int32)
        delete_pairs = pa.table({"delete": pa.array(delete_numbers), FILE_INDEX: pairs[FILE_INDEX].combine_chunks()})
        delete_rows = scan_files(
            rows.sparkSession, self._scan_files(deletes, equality_delete_indices, names), positions=True
        )
        count = total(deletes["record_count"].take(pa.array(equality_delete_indices)))
        return apply_equality_deletes(
            rows, delete_rows, delete_pairs, names, broadcast=count * max(1, len(file_indices)) <= 1_000_000
        )

    def _data_files(self, file_indices: np.ndarray, names: Sequence[str]) -> ScanFiles:
        files = self._scan_files(self.table_version.data_entries, file_indices, names)
        entries = self.table_version.data_entries.select(["path", "file_size", "spec_id", "value_counts"]).take(
            pa.array(file_indices)
        )
        self._check_partition_columns(entries, names)
        return files

    def _scan_files(self, files: pa.Table, file_indices: np.ndarray, names: Sequence[str]) -> ScanFiles:
        """Return the scan of some columns of data files or delete files, by the column names of each file."""
        locations, spark_paths = _spark_locations(self.table_version, files, file_indices)
        table = self.table_version.table
        fields = [table.schema().find_field(name) for name in dict.fromkeys(names)]
        struct = spark_struct_json(fields, by_id=True, action="reading")
        paths = files.select(["path", "file_size"]).take(pa.array(file_indices))
        plain = spark_schema_from_json(
            spark_struct_json([table.schema().find_field(name) for name in names], by_id=False, action="reading")
        )
        return ScanFiles(
            locations,
            spark_paths,
            tuple(field.name for field in fields),
            file_groups(struct, file_columns(table.io, table.metadata, paths)),
            pa.table({}),
            tuple((f.name, f.dataType, f.name) for f in plain.fields),
        )

    def _check_partition_columns(self, entries: pa.Table, names: Sequence[str]) -> None:
        """Check that files have the columns that they are partitioned by; only files without metrics are opened.

        Some writers leave such columns out, and their values would be read as null.
        """
        schema = self.table_version.table.schema()
        specs = entries["spec_id"].to_numpy()
        for spec in self.table_version.spec_history.specs:
            for field in spec.fields:
                if field.transform.is_identity and field.source in names:
                    number = schema.find_field(field.source).field_id
                    unknown = column_metric(entries["value_counts"], number).is_null().to_numpy(zero_copy_only=False)
                    undecided_entries = entries.filter(pa.array(unknown & (specs == spec.spec_id)))
                    files = list(
                        zip(
                            undecided_entries["path"].to_pylist(),
                            undecided_entries["file_size"].to_pylist(),
                            strict=True,
                        )
                    )
                    check_files_have_column(self.table_version.table.io, files, number, field.source)


def _count_distinct_positions(positions: pa.Table | DataFrame | None) -> int:
    """Count the deleted rows; two delete files may have the same position."""
    if positions is None:
        return 0
    if isinstance(positions, pa.Table):
        return int(positions.group_by([FILE_INDEX, ROW_INDEX]).aggregate([]).num_rows)
    return int(positions.distinct().count())


def _positions_in_files(rows: pa.Table, data_files: pa.Table, file_column: str) -> pa.Table:
    """Return the positions of a delete file in some data files, by `file_column` and `ROW_INDEX`."""
    data_file_indices = pc.index_in(rows["file_path"].cast(pa.string()), value_set=data_files["path"].combine_chunks())
    return pa.table({file_column: data_files[file_column].take(data_file_indices), ROW_INDEX: rows["pos"]}).filter(
        data_file_indices.is_valid()
    )


def _with_file_numbers(delete_index: pa.Table, file_indices: np.ndarray) -> pa.Table:
    """Return the pairs of some data files, with the index of each in `file_indices` and in the table version."""
    order = np.argsort(file_indices, kind="stable")
    pair_files = delete_index["file"].to_numpy()
    sorted_positions = np.searchsorted(file_indices[order], pair_files)
    is_selected = np.isin(pair_files, file_indices)
    numbers = order[np.minimum(sorted_positions, len(file_indices) - 1)].astype(np.int32)
    pairs = delete_index.append_column(FILE_INDEX, pa.array(numbers)).append_column(
        TABLE_FILE_INDEX, delete_index["file"]
    )
    return pairs.filter(pa.array(is_selected))


def _group_by_equality_columns(
    delete_entries: pa.Table,
    equality_delete_indices: np.ndarray,
    column_names_of: Callable[[Sequence[int]], tuple[str, ...]],
) -> dict[tuple[str, ...], np.ndarray]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for file in equality_delete_indices.tolist():
        names = column_names_of(delete_entries["equality_ids"][file].as_py() or [])
        groups.setdefault(names, []).append(file)
    return {names: np.array(files, np.int64) for names, files in groups.items()}


def _spark_locations(
    table_version: IcebergTableVersion, files: pa.Table, file_indices: np.ndarray
) -> tuple[list[str], list[str]]:
    """Return the locations of files for Hadoop, and the paths that Spark reports for them.

    Raises an error for files that are not Parquet, and for those that a symbolic link leads out of the table.
    """
    files = files.select(["path", "format"]).take(pa.array(file_indices))
    for format_ in pc.unique(pc.utf8_lower(files["format"])).to_pylist():
        if format_ != "parquet":
            raise TableError(f"the table has {format_} files, and Partita reads only Parquet")
    paths = files["path"].to_pylist()
    table_version.check_no_symlinks(paths)
    locations = [hadoop_location(path) for path in paths]
    return locations, [spark_file_path(location) for location in locations]
