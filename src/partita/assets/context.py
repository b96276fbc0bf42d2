"""What an asset's function gets: the session, the keys that are asked for, and its upstreams."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from partita.algebra.key import PartitionKey
from partita.algebra.mappings import chosen_upstream
from partita.algebra.spec import PartitionSpec
from partita.arrow.schema import to_arrow
from partita.assets.asset import Asset
from partita.assets.ground import Ground
from partita.assets.holding import Holding
from partita.errors import DefinitionError, TableMissing
from partita.status.definitions import Definition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from partita.spark.rows import DataFrame, SparkSession


class Context:
    """One attempt at some partitions of an asset.

    `keys` are the partitions that are asked for; the function returns the rows of all of them as one DataFrame. `log`
    is a logger of the asset's own.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what an attempt is made of
        self, ground: Ground, asset: Asset, known: Mapping[str, Definition], keys: Sequence[PartitionKey], run_id: str,
        spark: SparkSession,
    ) -> None:  # fmt: skip
        self.spark = spark
        self.asset = asset.name
        self.keys = tuple(keys)
        self.run_id = run_id
        self.log = logging.getLogger(f"partita.asset.{asset.name}")
        self._ground = ground
        self._definition = asset.definition
        self._making = asset.making
        self._known = known

    def __repr__(self) -> str:
        return f"<Context of {self.asset}, {len(self.keys)} partitions>"

    def read(self, upstream: Asset | str, columns: Sequence[str] | None = None) -> DataFrame:
        """The rows of an upstream's table, in the partitions that the asked ones are made from and no others."""
        name = upstream if isinstance(upstream, str) else upstream.name
        mapping = next((u.mapping for u in self._definition.upstreams if u.asset == name), None)
        if mapping is None:
            given = ", ".join(u.asset for u in self._definition.upstreams) or "none"
            raise DefinitionError(f"{name!r} is no upstream of {self.asset!r}, which has: {given}")
        theirs = self._known[name]
        if theirs.table is None:
            raise DefinitionError(f"the asset {name!r} has no table that could be read")
        table = self._ground.table(theirs.table)
        holding = Holding.of(name, theirs.partitions, table.spec)
        choice = chosen_upstream(mapping, self._definition.partitions, theirs.partitions, self.keys)
        return table.read_partitions(holding.chosen(choice), columns, spark=self.spark)

    def asked(self, rows: DataFrame) -> DataFrame:
        """Of rows that may be anywhere, those in the partitions that are asked for, found by native expressions.

        So a function whose partitions are buckets needs no arithmetic of its own.
        """
        from partita.spark.rows import among, partition_values
        from partita.spark.scan import frame_of

        spec = self._spec(rows)
        fields = [spec.field(name) for name in self._definition.partitions.names]
        holding = Holding.of(self.asset, self._definition.partitions, spec)
        wanted = holding.of_keys(self.keys)
        # What counts as a date in keys is a number of days to the function.
        types = [to_arrow(field.result_type) for field in fields]
        columns = [wanted[f.name].cast(type_) for f, type_ in zip(fields, types, strict=True)]
        values = partition_values(rows, [field.function for field in fields], _VALUE, family=spec.family.value)
        return among(rows, values, frame_of(self.spark, pa.table(columns, names=[f.name for f in fields])))

    def _spec(self, rows: DataFrame) -> PartitionSpec:
        """How the asset's table is partitioned, or will be."""
        from partita.spark.schema import to_schema

        if self._definition.table is None:
            raise DefinitionError(f"{self.asset!r} has no table, and so no partitions that rows could be in")
        try:
            return self._ground.table(self._definition.table).spec
        except TableMissing:
            by = self._making.partition_by
            functions = self._definition.partitions.names if by is None else by
            family = "lance" if self._making.format == "lance" else "iceberg"
            return PartitionSpec.of(functions, to_schema(rows.schema), family)


_VALUE = "__partita_asked_"
