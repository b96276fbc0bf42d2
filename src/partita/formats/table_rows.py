"""The rows of one table version on Spark: what each format implements in its `spark/rows.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from partita.formats.capabilities import Operation
from partita.formats.table_change import NO_FILE_INDICES, TableChange, total

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from partita.algebra.predicate import Predicate
    from partita.algebra.spec import PartitionField
    from partita.formats.table_version import TableVersion
    from partita.spark.rows import Column, DataFrame, SparkSession, StructType


@dataclass(frozen=True, slots=True, eq=False)
class TableRows(ABC):
    """Reads, writes and changes rows of one table version; `TableVersion.rows` creates it.

    `operation` is what the rows are opened for: settings of a table may depend on it. `removed_file_indices` are files
    that the commit of the operation removes as a whole.
    """

    table_version: TableVersion
    operation: Operation
    removed_file_indices: np.ndarray = field(default_factory=lambda: NO_FILE_INDICES)

    @abstractmethod
    def spark_schema(self) -> StructType:
        """Return the table schema as a Spark schema."""

    @abstractmethod
    def conform_rows(self, rows: DataFrame) -> DataFrame:
        """Cast incoming rows to the table schema, fill generated columns and apply constraints."""

    @abstractmethod
    def refresh_generated_columns(self, rows: DataFrame) -> DataFrame:
        """Compute the generated columns of changed rows of the table again, and apply constraints.

        If the table has neither, the rows may have only some of the columns.
        """

    def has_constraints(self) -> bool:
        """Return whether the table has constraints that refer to more than one column."""
        return False

    def dependent_columns(self, changed_columns: set[str]) -> set[str]:
        """Return the columns that change if these do: the columns themselves and those generated from them."""
        return changed_columns

    def generated_columns(self) -> frozenset[str]:
        """Return the columns that the table computes from others."""
        return frozenset()

    @abstractmethod
    def scan(
        self,
        spark: SparkSession,
        file_indices: np.ndarray,
        names: Sequence[str],
        *,
        positions: bool = False,
    ) -> DataFrame:
        """Read some columns of the rows of some files; with `positions`, `FILE_INDEX` and `ROW_INDEX` follow them.

        `FILE_INDEX` is a position in `file_indices`, and `ROW_INDEX` identifies a row of that file.
        """

    def check_unknown_columns(self, file_indices: np.ndarray) -> None:  # noqa: B027 - most formats know all columns
        """Raise `TableError` if a read of all columns of some files would lose a column that the schema lacks."""

    def scan_matching(
        self,
        spark: SparkSession,
        file_indices: np.ndarray,
        names: Sequence[str],
        where: Predicate,  # noqa: ARG002 - of the interface
    ) -> DataFrame:
        """Read some columns of some files; rows that don't match may be left out, and the caller filters the rest."""
        return self.scan(spark, file_indices, names)

    def count_rows(self, file_indices: np.ndarray) -> int:
        """Count the rows of some files; only files whose metadata doesn't say are read."""
        from partita.spark.session import spark_session

        counts = self.table_version.row_counts(file_indices)
        unknown_indices = file_indices[counts.is_null().to_numpy(zero_copy_only=False)]
        if not len(unknown_indices):
            return total(counts)
        return total(counts) + self.scan(spark_session(), unknown_indices, self.table_version.schema.names[:1]).count()

    def partition_value_columns(self, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:  # noqa: ARG002 - of the interface
        """Return the values of partition fields of rows of the table: by default, the rows have them as columns."""
        from partita.spark.rows import column_by_name

        return [column_by_name(field.source) for field in fields]

    def is_outdated(self, file_indices: np.ndarray) -> np.ndarray:
        """Return which of the files differ from what would be written now: by default, those of another spec."""
        spec_ids = self.table_version.files["spec_id"].to_numpy()[file_indices]
        has_other_spec: np.ndarray = spec_ids != self.table_version.spec.spec_id
        return has_other_spec

    @abstractmethod
    def write_data_files(self, rows: DataFrame) -> pa.Table:
        """Write rows of the table to new data files, and return a row of `WRITTEN_FILE_SCHEMA` for each file."""

    def can_update_in_place(self, file_indices: np.ndarray, changed_columns: set[str]) -> bool:  # noqa: ARG002 - of the interface
        """Return whether `update_rows` can change those columns of rows of those files.

        If not, the operation deletes the old rows and writes the new ones to other files.
        """
        return False

    def update_rows(self, file_indices: np.ndarray, changed_rows: DataFrame, changed_columns: set[str]) -> TableChange:
        """Delete or update rows of some files where they are: `FILE_INDEX`, `ROW_INDEX`, `IS_DELETED` and the columns.

        Only where `can_update_in_place` is true. Raises `ConstraintError` if a row is named twice.
        """
        raise NotImplementedError(f"{type(self).__name__} updates no rows in place")

    def delete_rows(self, file_indices: np.ndarray, positions: DataFrame) -> TableChange:
        """Delete rows of some files by `FILE_INDEX` and `ROW_INDEX`; a row that is named twice is an error.

        Only where the format supports `Operation.DELETE`.
        """
        raise NotImplementedError(f"{type(self).__name__} deletes no rows")
