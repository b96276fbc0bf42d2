"""The argument of an asset's function: the Spark session, the keys to make, and the upstreams to read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from partita.algebra.key import PartitionKey
from partita.algebra.mappings import upstream_selection
from partita.algebra.spec import PartitionSpec
from partita.arrow.schema import to_arrow_type
from partita.assets.asset import Asset
from partita.assets.dimension_fields import DimensionFields
from partita.assets.lake_context import LakeContext
from partita.errors import DefinitionError, TableMissing
from partita.status.definitions import AssetDefinition

if TYPE_CHECKING:
    from partita.spark.rows import DataFrame, SparkSession


class AssetContext:
    """The argument of an asset's function.

    Attributes:
        spark: the Spark session.
        asset: the name of the asset.
        keys: the keys of the partitions to make. The function returns the rows of all of them as one DataFrame.
        run_id: the id of the run.
        log: a logger of the asset.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of an attempt
        self,
        lake: LakeContext,
        asset: Asset,
        definitions: Mapping[str, AssetDefinition],
        keys: Sequence[PartitionKey],
        run_id: str,
        spark: SparkSession,
    ) -> None:
        self.spark = spark
        self.asset = asset.name
        self.keys = tuple(keys)
        self.run_id = run_id
        self.log = logging.getLogger(f"partita.asset.{asset.name}")
        self._lake = lake
        self._definition = asset.definition
        self._table_options = asset.table_options
        self._definitions = definitions

    def __repr__(self) -> str:
        return f"<Context of {self.asset}, {len(self.keys)} partitions>"

    def read(self, upstream: Asset | str, columns: Sequence[str] | None = None) -> DataFrame:
        """Return the rows of an upstream's table, only in the partitions from which `keys` are made.

        Args:
            upstream: an upstream of the asset, or its name.
            columns: the names of the columns to read; None for all.
        """
        name = upstream if isinstance(upstream, str) else upstream.name
        mapping = next((u.mapping for u in self._definition.upstreams if u.asset == name), None)
        if mapping is None:
            upstreams = ", ".join(u.asset for u in self._definition.upstreams) or "none"
            raise DefinitionError(f"{name!r} is not an upstream of {self.asset!r}, which has: {upstreams}")
        definition = self._definitions[name]
        if definition.table is None:
            raise DefinitionError(f"the asset {name!r} has no table that could be read")
        table = self._lake.tables.open(definition.table)
        dimension_fields = DimensionFields.of(name, definition.partitions, table.spec)
        selection = upstream_selection(mapping, self._definition.partitions, definition.partitions, self.keys)
        return table.read_partitions(dimension_fields.partition_rows(selection), columns, spark=self.spark)

    def filter_to_keys(self, rows: DataFrame) -> DataFrame:
        """Return the rows that belong to `keys`, filtered by native Spark expressions.

        With it, a function whose partitions are buckets doesn't have to compute hashes itself.
        """
        from partita.spark.frames import frame_from_arrow
        from partita.spark.rows import keep_matching_rows, partition_value_columns

        spec = self._table_spec(rows)
        fields = [spec.field(name) for name in self._definition.partitions.names]
        dimension_fields = DimensionFields.of(self.asset, self._definition.partitions, spec)
        partitions = dimension_fields.partition_rows_of_keys(self.keys)
        # A key holds a date where the partition function returns a number of days.
        columns = [partitions[field.name].cast(to_arrow_type(field.result_type)) for field in fields]
        values = partition_value_columns(
            rows, [field.function for field in fields], _VALUE_COLUMN_PREFIX, family=spec.family.value
        )
        key_rows = frame_from_arrow(self.spark, pa.table(columns, names=[field.name for field in fields]))
        return keep_matching_rows(rows, values, key_rows)

    def _table_spec(self, rows: DataFrame) -> PartitionSpec:
        """Return the partition spec of the asset's table, or the one that it will be created with."""
        from partita.spark.schema import to_schema

        if self._definition.table is None:
            raise DefinitionError(f"{self.asset!r} has no table, so its rows belong to no partition")
        try:
            return self._lake.tables.open(self._definition.table).spec
        except TableMissing:
            partition_by = self._table_options.partition_by
            functions = self._definition.partitions.names if partition_by is None else partition_by
            from partita.formats.registry import table_format

            family = table_format(self._table_options.format).family
            return PartitionSpec.of(functions, to_schema(rows.schema), family)


_VALUE_COLUMN_PREFIX = "__partita_asked_"
