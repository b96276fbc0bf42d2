"""Reads, writes and deletes rows of a Lance table on Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from partita.algebra.predicate import Predicate
from partita.algebra.spec import PartitionField
from partita.formats.lance.files import write_deletion_files
from partita.formats.lance.filters import may_match_filters
from partita.formats.lance.leaf_dataset import LeafDataset
from partita.formats.lance.scan_tasks import LanceReader, SearchReader, leaf_scan_tasks, leaf_splits, scan_tasks
from partita.formats.lance.search import SearchRequest, plan_search, result_schema
from partita.formats.lance.spark.partition_texts import partition_text
from partita.formats.lance.spark.scan import (
    arrow_schema,
    min_task_count,
    nearest_rows,
    scan_leaves,
    schema_with_positions,
    spark_schema,
)
from partita.formats.lance.state import LanceTableVersion
from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange, total
from partita.formats.table_rows import TableRows
from partita.spark.constraints import check_not_null
from partita.spark.nullability import relax_nested_nullability
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from partita.spark.rewrite import rows_by_file, unique_row_indices
from partita.spark.rows import (
    Column,
    DataFrame,
    SparkSession,
    StructType,
    conform_to_schema,
    partition_value_columns,
    select_columns,
    select_fields,
    with_columns,
)
from partita.spark.session import spark_session
from partita.spark.write import PARTITION_COLUMN_PREFIX, run_arrow_tasks, write_data_files

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.formats.lance.store import LanceTableStore


@dataclass(frozen=True, slots=True, eq=False)
class LanceRows(TableRows):
    """The rows of one version of a Lance table."""

    table_version: LanceTableVersion

    def spark_schema(self) -> StructType:
        """Return the table schema as a Spark schema."""
        return spark_schema(self.table_version.definition.arrow_schema)

    def conform_rows(self, rows: DataFrame) -> DataFrame:
        """Cast incoming rows to the table schema."""
        return conform_to_schema(rows, self.spark_schema(), {})

    def refresh_generated_columns(self, rows: DataFrame) -> DataFrame:
        """Check that required columns of changed rows are not null; Lance has no generated columns."""
        return check_not_null(rows, select_fields(self.spark_schema(), set(rows.columns)))

    def write_data_files(self, rows: DataFrame) -> pa.Table:
        """Write rows to new fragments in the leaves of their partitions."""
        schema, definition = self.spark_schema(), self.table_version.definition
        texts = {
            f"{PARTITION_COLUMN_PREFIX}{i}": partition_text(field, schema)
            for i, field in enumerate(definition.spec.fields)
        }
        stored_rows = select_columns(with_columns(rows, texts), [*texts, *definition.stored_schema.names])
        return write_data_files(stored_rows, self.table_version.write_target(), len(texts), WRITTEN_FILE_SCHEMA)

    def partition_value_columns(self, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:
        """Apply the transforms of partition fields to rows."""
        return partition_value_columns(
            rows, [field.function for field in fields], PARTITION_COLUMN_PREFIX, family="lance"
        )

    def scan(
        self,
        spark: SparkSession,
        file_indices: np.ndarray,
        names: Sequence[str],
        *,
        positions: bool = False,
    ) -> DataFrame:
        """Read some columns of some leaves."""
        return self._scan_leaves(spark, file_indices, names, None, positions=positions)

    def scan_matching(
        self, spark: SparkSession, file_indices: np.ndarray, names: Sequence[str], where: Predicate
    ) -> DataFrame:
        """Read some columns of some leaves; Lance leaves out rows that don't match as far as it can."""
        return self._scan_leaves(spark, file_indices, names, where, positions=False)

    def _scan_leaves(
        self,
        spark: SparkSession,
        file_indices: np.ndarray,
        names: Sequence[str],
        where: Predicate | None,
        *,
        positions: bool,
    ) -> DataFrame:
        table_version = self.table_version
        fields = {f.name: f for f in self.spark_schema().fields}
        schema = relax_nested_nullability(StructType([fields[name] for name in names]))
        filters = may_match_filters(table_version, file_indices, where)
        leaves = leaf_splits(table_version, file_indices, table_version.read_versions(file_indices), filters)
        tasks = scan_tasks(leaves, min_task_count(spark))
        reader = LanceReader(
            tasks,
            tuple(name for name in names if name not in table_version.definition.omitted_columns),
            arrow_schema(schema, positions=positions),
            table_version.omitted_column_values(file_indices, names),
            positions,
        )
        return scan_leaves(spark, reader, len(tasks), schema_with_positions(schema) if positions else schema)

    def delete_rows(self, file_indices: np.ndarray, positions: DataFrame) -> TableChange:
        """Write deletion files of the leaves' fragments."""
        leaves = [self.table_version.leaf(index) for index in file_indices.tolist()]
        versions = self.table_version.read_versions(file_indices)
        tasks = max(1, min(len(file_indices), min_task_count(positions.sparkSession)))
        rows_by_leaf = positions.repartition(tasks, FILE_INDEX).sortWithinPartitions(FILE_INDEX, ROW_INDEX)
        deletion_task = _DeletionTask(leaves, versions, file_indices.tolist())
        delete_files = run_arrow_tasks(rows_by_leaf, deletion_task, WRITTEN_FILE_SCHEMA)
        return TableChange(self.operation, delete_files=delete_files, deleted_row_count=total(delete_files["rows"]))


@dataclass(frozen=True, slots=True)
class _DeletionTask:
    """Deletes rows by their positions on an executor, and returns a row of `WRITTEN_FILE_SCHEMA` for each leaf."""

    leaves: list[LeafDataset]
    versions: list[int]
    file_indices: list[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        for number, rows in rows_by_file(batches):
            addresses = unique_row_indices(rows)
            leaf = self.leaves[number]
            fragments = write_deletion_files(leaf.open(self.versions[number]), addresses)
            details = {
                "file_index": self.file_indices[number],
                "before": {fragment_id: before for fragment_id, (before, _) in fragments.items()},
                "after": {fragment_id: after for fragment_id, (_, after) in fragments.items()},
            }
            yield {"path": leaf.location, "partition": None, "rows": len(addresses), "bytes": 0, "modified": 0,
                   "details": json.dumps(details)}  # fmt: skip


def search_on_spark(store: LanceTableStore, request: SearchRequest) -> DataFrame:
    """Search the k nearest rows, as a Spark job over the leaves."""
    spark = spark_session()
    plan = plan_search(store, request)
    file_indices = np.array(plan.file_indices, np.int64)
    leaves = leaf_splits(plan.table_version, file_indices, plan.versions, plan.filters)
    tasks = leaf_scan_tasks(leaves, min_task_count(spark))
    schema = spark_schema(result_schema(plan))
    omitted_values = plan.table_version.omitted_column_values(file_indices, plan.column_names)
    reader = SearchReader(tasks, plan.query, arrow_schema(schema), omitted_values)
    return nearest_rows(scan_leaves(spark, reader, len(tasks), schema), request.k)
