"""Reads, writes and copies rows of a Delta table on Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from partita.errors import UnsupportedFeature
from partita.formats.capabilities import Operation
from partita.formats.delta.columns import (
    Json,
    generation_expressions,
    known_generated_columns,
    length_limited_columns,
    physical_schema,
    text_length_metadata,
)
from partita.formats.delta.expressions import check_expression, expression_names
from partita.formats.delta.files import containing_storage, resolve_file_paths
from partita.formats.delta.log import DeltaMetadata, column_mapping_mode, is_absolute
from partita.formats.delta.spark.generated_columns import generated_expression_column, generated_function_column
from partita.formats.delta.spark.text_lengths import length_violations, with_text_lengths
from partita.formats.delta.state import DeltaTableVersion
from partita.formats.field_ids import read_file_columns
from partita.formats.operations.copy_on_write import rewrite_changed_files
from partita.formats.operations.file_groups import file_groups
from partita.formats.operations.paths import spark_file_path
from partita.formats.partition_texts.spark import partition_text
from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange
from partita.formats.table_rows import TableRows
from partita.spark.constraints import (
    TableConstraint,
    check_not_null,
    constraint_violations,
    null_struct_violations,
    null_violations,
    refuse_violations,
)
from partita.spark.rewrite import row_changes, row_deletions
from partita.spark.rows import (
    Column,
    DataFrame,
    SparkSession,
    StructType,
    column_by_name,
    conform_to_schema,
    is_string_or_binary,
    replace_empty_with_null,
    select_fields,
    select_stored_columns,
    with_columns,
)
from partita.spark.scan import FileGroup, ScanFiles, scan_files
from partita.spark.schema import spark_schema_from_json
from partita.spark.session import spark_session
from partita.spark.time_zones import session_time_zone
from partita.spark.write import PARTITION_COLUMN_PREFIX, rebalance_by_partition, write_data_files
from partita.storage.hadoop import hadoop_location

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_GATHERED_OPERATIONS = frozenset({Operation.UPDATE, Operation.MERGE, Operation.REWRITE})
"""Operations that gather the rows of a partition in one task even if `optimizeWrite` is off."""


@dataclass(frozen=True, slots=True, eq=False)
class DeltaRows(TableRows):
    """The rows of one version of a Delta table."""

    table_version: DeltaTableVersion

    @property
    def _metadata(self) -> DeltaMetadata:
        return self.table_version.metadata

    def spark_schema(self) -> StructType:
        """Return the table schema as a Spark schema."""
        return spark_schema_from_json(self._metadata.schema_json)

    def conform_rows(self, rows: DataFrame) -> DataFrame:
        """Cast incoming rows to the table schema, fill generated columns and apply constraints."""
        schema = self.spark_schema()
        return self._enforce_constraints(
            schema, conform_to_schema(rows, schema, _generated_values(self._metadata, schema))
        )

    def refresh_generated_columns(self, rows: DataFrame) -> DataFrame:
        """Compute the generated columns of changed rows again and apply constraints; other columns are kept."""
        schema, names = self.spark_schema(), set(rows.columns)
        generated_columns = {
            name: value.cast(schema[name].dataType)
            for name, value in _generated_values(self._metadata, schema).items()
            if name in names
        }
        return self._enforce_constraints(
            schema, check_not_null(with_columns(rows, generated_columns), select_fields(schema, names))
        )

    def _enforce_constraints(self, schema: StructType, rows: DataFrame) -> DataFrame:
        """Replace empty partition texts by null, as Delta stores them, and apply constraints."""
        names = set(rows.columns)
        texts = [n for n in self._metadata.partition_columns if n in names and is_string_or_binary(schema[n].dataType)]
        lengths = {name: type_ for name, type_ in length_limited_columns(self._metadata).items() if name in names}
        return refuse_violations(
            replace_empty_with_null(rows, texts),
            [
                *null_violations(StructType([schema[name] for name in texts])),
                *null_struct_violations(select_fields(schema, names)),
                *length_violations(lengths),
                *constraint_violations(_constraint_rules(self._metadata)),
            ],
        )

    def has_constraints(self) -> bool:
        """Return whether the table has check constraints or invariants."""
        return bool(_constraint_rules(self._metadata))

    def dependent_columns(self, changed_columns: set[str]) -> set[str]:
        """Return the columns that change if these do: the columns themselves and those generated from them."""
        if not changed_columns:
            return changed_columns
        changed_names = {name.casefold() for name in changed_columns}
        return changed_columns | {
            name
            for name, text in generation_expressions(self._metadata).items()
            if not changed_names.isdisjoint(expression_names(text, f"the generated column {name!r}"))
        }

    def generated_columns(self) -> frozenset[str]:
        """Return the columns that have a generation expression."""
        return frozenset(generation_expressions(self._metadata))

    def write_data_files(self, rows: DataFrame) -> pa.Table:
        """Write rows to new files in the folders of their partitions.

        The rows of a partition are gathered in one task, so that the number of files doesn't grow with the tasks. An
        append or an overwrite of a table with `delta.autoOptimize.optimizeWrite` = `false` saves the shuffle.
        """
        optimize_write = self._metadata.configuration.get("delta.autoOptimize.optimizeWrite", "true")
        is_gathered = optimize_write.casefold() != "false" or self.operation in _GATHERED_OPERATIONS
        schema, names = self.spark_schema(), self._metadata.partition_columns
        texts = {
            f"{PARTITION_COLUMN_PREFIX}{i}": partition_text(column_by_name(name), schema[name].dataType, name)
            for i, name in enumerate(names)
        }
        stored_rows = select_stored_columns(rows, texts, self._stored_columns())
        if is_gathered:
            stored_rows = rebalance_by_partition(stored_rows, len(names))
        target = self.table_version.write_target(_directory_time_zone())
        return write_data_files(stored_rows, target, len(names), WRITTEN_FILE_SCHEMA)

    def _stored_columns(self) -> list[tuple[str, str, DataType]]:
        """Return the columns that files have: name, physical name, and the type with physical names."""
        schema = self.spark_schema()
        is_mapped = column_mapping_mode(self._metadata) != "none"
        physical = spark_schema_from_json(physical_schema(self._metadata)) if is_mapped else schema
        return [
            (logical_field.name, stored_field.name, stored_field.dataType)
            for logical_field, stored_field in zip(schema.fields, physical.fields, strict=True)
            if logical_field.name not in self._metadata.partition_columns
        ]

    def can_update_in_place(self, file_indices: np.ndarray, changed_columns: set[str]) -> bool:  # noqa: ARG002 - of the interface
        """Return whether no partition column changes."""
        return changed_columns.isdisjoint(self._metadata.partition_columns)

    def update_rows(self, file_indices: np.ndarray, changed_rows: DataFrame, changed_columns: set[str]) -> TableChange:
        """Copy the files with other values in some columns."""
        columns = [column for column in self._stored_columns() if column[0] in changed_columns]
        return self._rewrite_files(row_changes(changed_rows, columns), file_indices)

    def delete_rows(self, file_indices: np.ndarray, positions: DataFrame) -> TableChange:
        """Copy the files without some rows."""
        return self._rewrite_files(row_deletions(positions), file_indices)

    def _rewrite_files(self, changes: DataFrame, file_indices: np.ndarray) -> TableChange:
        copier = self.table_version.file_copier(file_indices, _directory_time_zone())
        return rewrite_changed_files(changes, copier, file_indices, self.operation)

    def scan(
        self,
        spark: SparkSession,
        file_indices: np.ndarray,
        names: Sequence[str],
        *,
        positions: bool = False,
    ) -> DataFrame:
        """Read some columns of some files; partition columns come from the log."""
        rows = scan_files(spark, self._scan_files(file_indices, names), positions=positions)
        return with_text_lengths(rows, {n: m for n, m in text_length_metadata(self._metadata).items() if n in names})

    def _scan_files(self, file_indices: np.ndarray, names: Sequence[str]) -> ScanFiles:
        storage, files = self.table_version.storage, self.table_version.snapshot.files.take(pa.array(file_indices))
        schema, physical = self.spark_schema(), physical_schema(self._metadata)
        fields = dict(zip(schema.fieldNames(), zip(schema.fields, physical["fields"], strict=True), strict=True))
        constants = [name for name in names if name in self._metadata.partition_columns]
        stored_struct = {"type": "struct", "fields": [fields[name][1] for name in names if name not in constants]}
        paths = resolve_file_paths(storage, files)
        locations = [hadoop_location(path) if is_absolute(path) else storage.hadoop_location(path) for path in paths]
        partitions = self.table_version.partitions.take(pa.array(file_indices))
        return ScanFiles(
            locations,
            [spark_file_path(location) for location in locations],
            tuple(field["name"] for field in stored_struct["fields"]),
            self._scan_file_groups(stored_struct, files, paths, locations),
            partitions.select(constants).rename_columns([fields[name][1]["name"] for name in constants]),
            tuple((name, fields[name][0].dataType, fields[name][1]["name"]) for name in names),
        )

    def _scan_file_groups(
        self, stored_struct: Json, files: pa.Table, canonical_paths: Sequence[str], locations: Sequence[str]
    ) -> tuple[FileGroup, ...]:
        """Group the files by their names of the columns: physical names, unless columns are mapped by id."""
        if column_mapping_mode(self._metadata) != "id" or not stored_struct["fields"]:
            return (FileGroup(np.arange(len(locations)), spark_schema_from_json(stored_struct)),)
        paths = dict(zip(locations, canonical_paths, strict=True))
        file_columns = read_file_columns(
            lambda location: self._open_input(paths[location]),
            list(zip(locations, files["size"].to_pylist(), strict=True)),
        )
        for location, columns in zip(locations, file_columns, strict=True):
            if not columns.top_level_ids:
                feature = f"files without field ids in a table that maps columns by id, such as {location}"
                raise UnsupportedFeature((feature,), "reading")
        return file_groups(stored_struct, file_columns)

    def _open_input(self, path: str) -> pa.NativeFile:
        storage, name = containing_storage(self.table_version.storage, path)
        return storage.open_input(name)


def _directory_time_zone() -> str:
    """Return the session's time zone, in which directories show timestamps; UTC if Python has no zone of that name."""
    zone = session_time_zone(spark_session())
    return "UTC" if zone.rules is None else zone.name


def _generated_values(metadata: DeltaMetadata, schema: StructType) -> dict[str, Column]:
    """Return the values of generated columns; those of known partition functions are computed in UTC."""
    values = {
        name: generated_expression_column(check_expression(text, f"the generated column {name!r}"))
        for name, text in generation_expressions(metadata).items()
    }
    for column in known_generated_columns(metadata):
        values[column.name] = generated_function_column(column.transform, column.source, schema[column.source].dataType)
    return values


def _constraint_rules(metadata: DeltaMetadata) -> list[TableConstraint]:
    """Return the check constraints and column invariants of a table."""
    prefix = "delta.constraints."
    rules = [
        TableConstraint(f"constraint {key.removeprefix(prefix)}", check_expression(text, f"the constraint {key}"))
        for key, text in metadata.configuration.items()
        if key.startswith(prefix)
    ]
    for field in metadata.schema_json["fields"]:
        invariant = (field.get("metadata") or {}).get("delta.invariants")
        if invariant is not None:
            name, text = field["name"], json.loads(invariant)["expression"]["expression"]
            rules.append(TableConstraint(f"invariant of {name}", check_expression(text, f"the invariant of {name!r}")))
    return rules
