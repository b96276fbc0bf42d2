"""Reads and writes rows of a plain folder on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from partita.algebra.spark_json import schema_to_json
from partita.algebra.types import LogicalType, TypeKind
from partita.arrow.schema import to_arrow_type
from partita.formats.containment import FolderLocation, check_no_links_outside
from partita.formats.operations.paths import spark_file_path
from partita.formats.parquet.footers import check_known_columns, check_known_fields, stored_types_by_file
from partita.formats.parquet.state import ParquetTableVersion
from partita.formats.partition_texts.spark import partition_text
from partita.formats.table_change import WRITTEN_FILE_SCHEMA
from partita.formats.table_rows import TableRows
from partita.spark.constraints import null_struct_violations, null_violations, refuse_violations
from partita.spark.rows import (
    DataFrame,
    SparkSession,
    StructType,
    column_by_name,
    conform_to_schema,
    replace_empty_with_null,
    select_fields,
    select_stored_columns,
)
from partita.spark.scan import FileGroup, ScanFiles, scan_files
from partita.spark.schema import spark_schema_from_json
from partita.spark.write import PARTITION_COLUMN_PREFIX, rebalance_by_partition, write_data_files


@dataclass(frozen=True, slots=True, eq=False)
class ParquetRows(TableRows):
    """The rows of a folder."""

    table_version: ParquetTableVersion

    def spark_schema(self) -> StructType:
        """Return the table schema as a Spark schema."""
        return spark_schema_from_json(schema_to_json(self.table_version.schema))

    def conform_rows(self, rows: DataFrame) -> DataFrame:
        """Cast incoming rows to the table schema; empty texts of partition columns become null, as readers see them."""
        schema = self.spark_schema()
        texts = [f.name for f in self.table_version.partition_fields if f.type.kind is TypeKind.STRING]
        return refuse_violations(
            replace_empty_with_null(conform_to_schema(rows, schema, {}), texts),
            [*null_violations(select_fields(schema, set(texts))), *null_struct_violations(schema)],
        )

    def refresh_generated_columns(self, rows: DataFrame) -> DataFrame:
        """Return the rows: no column is generated."""
        return rows

    def write_data_files(self, rows: DataFrame) -> pa.Table:
        """Stage rows in the folders of their partitions; the rows of a partition are gathered in one task."""
        schema, fields = self.spark_schema(), self.table_version.partition_fields
        texts = {
            f"{PARTITION_COLUMN_PREFIX}{i}": partition_text(column_by_name(f.name), schema[f.name].dataType, f.name)
            for i, f in enumerate(fields)
        }
        stored_columns = [(f.name, f.name, schema[f.name].dataType) for f in self.table_version.stored_columns]
        stored_rows = rebalance_by_partition(select_stored_columns(rows, texts, stored_columns), len(fields))
        return write_data_files(stored_rows, self.table_version.write_target(), len(fields), WRITTEN_FILE_SCHEMA)

    def scan(
        self,
        spark: SparkSession,
        file_indices: np.ndarray,
        names: Sequence[str],
        *,
        positions: bool = False,
    ) -> DataFrame:
        """Read some columns of some files; partition columns come from the names of their folders."""
        return scan_files(spark, self._scan_files(file_indices, names), positions=positions)

    def check_unknown_columns(self, file_indices: np.ndarray) -> None:
        """Raise `TableError` if a file has a column that the table lacks; a declared schema may leave some out."""
        table_version = self.table_version
        if not table_version.table_id:
            files = [table_version.data_files[index] for index in file_indices.tolist()]
            check_known_columns(table_version.storage, files, table_version.schema)

    def _scan_files(self, file_indices: np.ndarray, names: Sequence[str]) -> ScanFiles:
        table_version, schema = self.table_version, self.spark_schema()
        storage = table_version.storage
        files = [table_version.data_files[index] for index in file_indices.tolist()]
        constants = [name for name in names if name in table_version.spec.names]
        columns = [table_version.schema.find_field(name) for name in names if name not in constants]
        file_types = stored_types_by_file(storage, files, columns)
        if columns and not table_version.table_id:
            check_known_fields(storage, files, columns)
        location = FolderLocation.from_uri(storage.uri)
        check_no_links_outside(location, (f"{storage.uri}/{file.location}" for file in files))
        locations = [storage.hadoop_location(file.location) for file in files]
        return ScanFiles(
            locations,
            [spark_file_path(location) for location in locations],
            tuple(field.name for field in columns),
            _file_groups(StructType([schema[field.name] for field in columns]), file_types),
            table_version.partitions.take(pa.array(file_indices)).select(constants),
            tuple((name, schema[name].dataType, name) for name in names),
            tuple(f"{file.size} {file.modified_time!r}" for file in files),
        )


def _file_groups(schema: StructType, file_types: Sequence[Mapping[str, LogicalType]]) -> tuple[FileGroup, ...]:
    """Group files by the types that they have for some columns, which Spark casts to those of the table."""
    indices_by_types: dict[tuple[tuple[str, LogicalType], ...], list[int]] = {}
    for index, types in enumerate(file_types):
        indices_by_types.setdefault(tuple(types.items()), []).append(index)
    groups = []
    for stored_types, indices in indices_by_types.items():
        stored_fields = pa.schema([(name, to_arrow_type(type_)) for name, type_ in stored_types])
        stored_schema = from_arrow_schema(stored_fields, prefer_timestamp_ntz=True)
        names = set(stored_schema.names)
        fields = [stored_schema[field.name] if field.name in names else field for field in schema]
        groups.append(FileGroup(np.array(indices), StructType(fields)))
    return tuple(groups)
