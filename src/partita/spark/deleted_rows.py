"""Rows of Parquet files without those that are deleted by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from partita.spark.frames import frame_from_arrow
from partita.spark.parquet_reader import ALWAYS_TRUE, read_parquet
from partita.spark.positions import FILE_PATH, ROW_INDEX
from partita.spark.sql_text import string_literal_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

POSITION_COLUMNS = (f"_metadata.file_path AS {FILE_PATH}", f"_metadata.row_index AS {ROW_INDEX}")
MAX_LITERAL_FILES = 8
"""How many files a condition in SQL names, instead of a join with them."""
_MAX_LITERAL_ROWS = 1000
_ROW_KEY = "__partita_key"


@dataclass(frozen=True, slots=True, eq=False)
class DeletedRows:
    """Positions of deleted rows, by `FILE_PATH` and `ROW_INDEX`.

    `has_unique_checksums` says whether the CRC-32 of each path in the scan is unique, so that a row has a number for a
    key: Spark joins on a number in a fifth of the time that it takes for a path and a number.
    """

    rows: pa.Table | DataFrame
    has_unique_checksums: bool

    @classmethod
    def of(cls, rows: pa.Table | DataFrame, paths: Sequence[str]) -> DeletedRows:
        """Return the deleted rows of a scan of these paths."""
        return cls(rows, len({crc32(path.encode()) for path in paths}) == len(paths))

    def read_other_rows(
        self, spark: SparkSession, schema: StructType, locations: Sequence[str], paths: Sequence[str] | None
    ) -> DataFrame:
        """Return the rows of some files that are not deleted.

        `paths` are the files as Spark reports them; None if they are all files of the scan.
        """
        deleted_rows = self.rows
        if isinstance(deleted_rows, pa.Table):
            if paths is not None:
                file_paths = pa.array(paths, pa.string())
                deleted_rows = deleted_rows.filter(pc.is_in(deleted_rows[FILE_PATH], value_set=file_paths))
            if (
                deleted_rows.num_rows <= _MAX_LITERAL_ROWS
                and len(pc.unique(deleted_rows[FILE_PATH])) <= MAX_LITERAL_FILES
            ):
                return read_parquet(spark, schema, locations, _not_deleted_sql(deleted_rows))
        return self._anti_join(read_parquet(spark, schema, locations), deleted_rows)

    def _anti_join(self, rows: DataFrame, deleted_rows: pa.Table | DataFrame) -> DataFrame:
        is_arrow = isinstance(deleted_rows, pa.Table)
        if not self.has_unique_checksums:
            frame = frame_from_arrow(rows.sparkSession, deleted_rows) if is_arrow else deleted_rows
            return (
                rows.selectExpr("*", *POSITION_COLUMNS)
                .join(F.broadcast(frame), [FILE_PATH, ROW_INDEX], "left_anti")
                .drop(FILE_PATH, ROW_INDEX)
            )
        keys = (
            _row_key_frame(rows.sparkSession, _row_keys(deleted_rows))
            if is_arrow
            else deleted_rows.selectExpr(f"{_row_key_sql(FILE_PATH, ROW_INDEX)} AS {_ROW_KEY}")
        )
        keyed_rows = rows.selectExpr("*", f"{_row_key_sql('_metadata.file_path', '_metadata.row_index')} AS {_ROW_KEY}")
        return keyed_rows.join(F.broadcast(keys), _ROW_KEY, "left_anti").drop(_ROW_KEY)


def _row_key_frame(spark: SparkSession, keys: pa.Array) -> DataFrame:
    """Return the keys as a column, exploded from one row with a list, which Spark plans and sends faster than rows."""
    key_list = pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), keys)
    return frame_from_arrow(spark, pa.table({_ROW_KEY: key_list})).selectExpr(f"explode({_ROW_KEY}) AS {_ROW_KEY}")


def _row_keys(deleted_rows: pa.Table) -> pa.Array:
    """Return for each row the checksum of its path in the upper 32 bits, and its index in the lower ones."""
    paths = deleted_rows[FILE_PATH].combine_chunks().dictionary_encode()
    checksums = np.array([crc32(path.encode()) for path in paths.dictionary.to_pylist()], np.uint64)
    keys = (checksums[paths.indices.to_numpy()] << np.uint64(32)) | deleted_rows[ROW_INDEX].to_numpy().astype(np.uint64)
    return pa.array(keys.view(np.int64))


def _row_key_sql(path: str, row: str) -> str:
    return f"shiftleft(crc32(CAST({path} AS BINARY)), 32) | {row}"


def _not_deleted_sql(deleted_rows: pa.Table) -> str:
    files = deleted_rows.group_by(FILE_PATH, use_threads=False).aggregate([(ROW_INDEX, "list")]).to_pylist()
    # This is the form into which Spark's optimizer would bring the condition; each rewrite costs a turn of all rules.
    conditions = [
        f"(_metadata.file_path <> {string_literal_sql(file[FILE_PATH])} OR _metadata.row_index NOT IN "
        f"({','.join([f'{row}L' for row in file[f'{ROW_INDEX}_list']])}))"
        for file in files
    ]
    return " AND ".join(conditions) or ALWAYS_TRUE
