"""Writes, updates and deletes rows of an Iceberg table on Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from partita.algebra.spec import PartitionField
from partita.algebra.types import NESTED_KINDS
from partita.errors import TableError, value_repr
from partita.formats.iceberg.columns import stored_schema
from partita.formats.iceberg.delete_file_index import is_deletion_vector, partition_groups
from partita.formats.iceberg.field_ids import NAME_MAPPING_PROPERTY
from partita.formats.iceberg.manifests import POSITION_DELETES
from partita.formats.iceberg.spark.position_deletes import (
    DELETE_GROUP,
    TABLE_FILE_INDEX,
    apply_position_deletes,
    row_counts_by_file,
    write_position_deletes,
)
from partita.formats.iceberg.spark.scan import IcebergScan
from partita.formats.iceberg.spark_schema import spark_struct_json
from partita.formats.iceberg.targets import file_copier, position_delete_writer, write_target
from partita.formats.operations.copy_on_write import rewrite_changed_files
from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange, total
from partita.spark.constraints import check_not_null
from partita.spark.frames import frame_from_arrow
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from partita.spark.rewrite import row_changes, row_deletions
from partita.spark.rows import (
    Column,
    DataFrame,
    StructType,
    column_by_name,
    conform_to_schema,
    partition_value_columns,
    select_columns,
    select_fields,
    select_stored_columns,
)
from partita.spark.schema import spark_schema_from_json
from partita.spark.session import spark_session
from partita.spark.write import PARTITION_COLUMN_PREFIX, rebalance_by_partition, write_data_files

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_DELETE_FILE_SCHEMA = pa.schema([*WRITTEN_FILE_SCHEMA, ("deleted_rows", pa.int64())])


@dataclass(frozen=True, slots=True, eq=False)
class IcebergRows(IcebergScan):
    """The rows of one version of an Iceberg table."""

    def spark_schema(self) -> StructType:
        """Return the table schema as a Spark schema."""
        return self._spark_schema("changing")

    def _spark_schema(self, action: str) -> StructType:
        fields = self.table_version.table.schema().fields
        return spark_schema_from_json(spark_struct_json(fields, by_id=False, action=action))

    def conform_rows(self, rows: DataFrame) -> DataFrame:
        """Cast incoming rows to the table schema."""
        return conform_to_schema(rows, self._spark_schema("writing"), {})

    def refresh_generated_columns(self, rows: DataFrame) -> DataFrame:
        """Check that required columns of changed rows are not null; Iceberg has no generated columns."""
        return check_not_null(rows, select_fields(self._spark_schema("writing"), set(rows.columns)))

    def write_data_files(self, rows: DataFrame) -> pa.Table:
        """Write rows to new files in the current spec.

        Unless `write.distribution-mode` is none, the rows of a partition are gathered, for few files.
        """
        target, field_count = write_target(self.table_version), len(self.table_version.spec.fields)
        stored_rows = self._to_stored_rows(rows)
        if self.table_version.table.metadata.properties.get("write.distribution-mode", "hash") != "none":
            stored_rows = rebalance_by_partition(stored_rows, field_count)
        return write_data_files(stored_rows, target, field_count, WRITTEN_FILE_SCHEMA)

    def _to_stored_rows(self, rows: DataFrame) -> DataFrame:
        values = self.partition_value_columns(rows, self.table_version.spec.fields)
        partition_columns = {f"{PARTITION_COLUMN_PREFIX}{i}": value for i, value in enumerate(values)}
        return select_stored_columns(rows, partition_columns, self._stored_columns())

    def _stored_columns(self) -> list[tuple[str, str, DataType]]:
        """Return the columns of files: name, name in files, and type in files."""
        schema = self.table_version.table.schema()
        stored_struct = spark_schema_from_json(
            spark_struct_json(stored_schema(schema).fields, by_id=False, action="writing")
        )
        return [
            (name, f.name, f.dataType)
            for name, f in zip(self.table_version.schema.names, stored_struct.fields, strict=True)
        ]

    def partition_value_columns(self, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:
        """Apply the transforms of partition fields to rows."""
        return partition_value_columns(
            rows, [field.function for field in fields], PARTITION_COLUMN_PREFIX, family="iceberg"
        )

    def is_outdated(self, file_indices: np.ndarray) -> np.ndarray:
        """Return which files are of another spec than the current one, or have deleted rows."""
        spec_ids = self.table_version.files["spec_id"].to_numpy()[file_indices]
        has_deletes = np.isin(file_indices, self.table_version.delete_index(file_indices)["file"].to_numpy())
        is_outdated: np.ndarray = (spec_ids != self.table_version.spec.spec_id) | has_deletes
        return is_outdated

    def can_update_in_place(self, file_indices: np.ndarray, changed_columns: set[str]) -> bool:
        """Return whether the table copies on write, the files can be copied, and no partition source changes."""
        if not self._is_copy_on_write() or not self._can_copy_files(file_indices):
            return False
        return changed_columns.isdisjoint(field.source.partition(".")[0] for field in self.table_version.spec.fields)

    def update_rows(self, file_indices: np.ndarray, changed_rows: DataFrame, changed_columns: set[str]) -> TableChange:
        """Copy the files with other values in some columns."""
        columns = [column for column in self._stored_columns() if column[0] in changed_columns]
        copier = file_copier(self.table_version, file_indices)
        return rewrite_changed_files(row_changes(changed_rows, columns), copier, file_indices, self.operation)

    def delete_rows(self, file_indices: np.ndarray, positions: DataFrame) -> TableChange:
        """Write position deletes, or copy the files if the table's write mode is copy-on-write."""
        if not self._is_copy_on_write():
            return self._write_position_deletes(positions, file_indices)
        if self._can_copy_files(file_indices):
            copier = file_copier(self.table_version, file_indices)
            return rewrite_changed_files(row_deletions(positions), copier, file_indices, self.operation)
        return self._rewrite_without_rows(positions, file_indices)

    def _is_copy_on_write(self) -> bool:
        """Return whether the operation copies files; format version 1 has no delete files."""
        metadata = self.table_version.table.metadata
        if metadata.format_version == 1:
            return True
        mode = metadata.properties.get(f"write.{self.operation}.mode", "merge-on-read")
        if mode not in ("merge-on-read", "copy-on-write"):
            raise TableError(f"write.{self.operation}.mode is merge-on-read or copy-on-write, not {value_repr(mode)}")
        return mode == "copy-on-write"

    def _can_copy_files(self, file_indices: np.ndarray) -> bool:
        """Return whether Arrow can copy the files: of the current spec, without deletes, with the current columns."""
        metadata = self.table_version.table.metadata
        if NAME_MAPPING_PROPERTY in metadata.properties:
            return False
        if len(metadata.schemas) > 1 and any(f.type.kind in NESTED_KINDS for f in self.table_version.schema):
            return False
        return not self.is_outdated(file_indices).any()

    def _rewrite_without_rows(self, positions: DataFrame, file_indices: np.ndarray) -> TableChange:
        """Write the remaining rows of the files that have one of those rows to new files in the current spec."""
        cached_positions = positions.persist()
        try:
            row_counts = row_counts_by_file(cached_positions)
            if not row_counts.num_rows:
                return TableChange(self.operation)
            changed_files, deleted_row_count = row_counts[FILE_INDEX].to_numpy(), total(row_counts["rows"])
            names = [f.name for f in self._spark_schema("writing").fields]
            new_indices = pa.array(np.arange(len(changed_files), dtype=np.int32))
            numbers = pa.table({FILE_INDEX: pa.array(changed_files.astype(np.int32)), "__partita_new": new_indices})
            spark = spark_session()
            renumbered_positions = cached_positions.join(frame_from_arrow(spark, numbers), FILE_INDEX).select(
                column_by_name("__partita_new").alias(FILE_INDEX), ROW_INDEX
            )
            rows = self.scan(spark, file_indices[changed_files], names, positions=True)
            remaining_rows = apply_position_deletes(rows, renumbered_positions, deleted_row_count)
            return TableChange(
                self.operation,
                added_files=self.write_data_files(select_columns(remaining_rows, names)),
                removed_file_indices=file_indices[changed_files],
                deleted_row_count=deleted_row_count,
            )
        finally:
            cached_positions.unpersist()

    def _write_position_deletes(self, positions: DataFrame, file_indices: np.ndarray) -> TableChange:
        """Write position deletes of rows, merged with the earlier ones of the same partitions."""
        groups, first_file_indices = self._delete_groups(file_indices)
        grouped_files = np.flatnonzero(groups >= 0)
        delete_index = self._position_delete_index(grouped_files)
        spark = spark_session()
        file_groups_table = pa.table(
            {
                FILE_INDEX: pa.array(np.arange(len(file_indices), dtype=np.int32)),
                TABLE_FILE_INDEX: pa.array(file_indices),
                DELETE_GROUP: pa.array(groups[file_indices].astype(np.int32)),
            }
        )
        earlier_deletes, _ = self._deleted_positions(spark, grouped_files, delete_index, TABLE_FILE_INDEX)
        if earlier_deletes is not None:
            table_groups = pa.table(
                {
                    TABLE_FILE_INDEX: pa.array(grouped_files),
                    DELETE_GROUP: pa.array(groups[grouped_files].astype(np.int32)),
                }
            )
            earlier_deletes = earlier_deletes.join(frame_from_arrow(spark, table_groups), TABLE_FILE_INDEX)
        writer = position_delete_writer(self.table_version, groups, first_file_indices)
        delete_files = write_position_deletes(
            positions, file_groups_table, earlier_deletes, writer, _DELETE_FILE_SCHEMA
        )
        written_groups = {json.loads(details)["group"] for details in delete_files["details"].to_pylist()}
        is_replaced = np.isin(groups[delete_index["file"].to_numpy()], list(written_groups))
        replaced_deletes = np.unique(delete_index["delete"].to_numpy()[is_replaced])
        return TableChange(
            self.operation,
            delete_files=delete_files.select(WRITTEN_FILE_SCHEMA.names),
            replaced_delete_files=tuple(
                self.table_version.delete_entries["path"].take(pa.array(replaced_deletes)).to_pylist()
            ),
            deleted_row_count=total(delete_files["deleted_rows"]),
        )

    def _delete_groups(self, file_indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Group all data files of the partitions that the files lie in, by spec and partition.

        Returns the group of each data file of the table, -1 if it has none, and one data file of each group. Removed
        files have no group: no delete may refer to a file that its own commit removes.
        """
        partition_numbers = partition_groups(self.table_version.data_entries)
        changed_partitions, first_positions = np.unique(partition_numbers[file_indices], return_index=True)
        candidates = np.minimum(np.searchsorted(changed_partitions, partition_numbers), len(changed_partitions) - 1)
        groups = np.where(changed_partitions[candidates] == partition_numbers, candidates, -1)
        groups[self.removed_file_indices] = -1
        return groups, file_indices[first_positions]

    def _position_delete_index(self, file_indices: np.ndarray) -> pa.Table:
        """Return which position-delete files can apply to some data files; deletion vectors are left out."""
        index = self.table_version.delete_index(file_indices)
        is_position_delete = self._has_content(POSITION_DELETES) & ~is_deletion_vector(
            self.table_version.delete_entries
        )
        return index.filter(pa.array(is_position_delete[index["delete"].to_numpy()]))
