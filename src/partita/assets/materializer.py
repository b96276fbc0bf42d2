"""Materializing partitions: one call of an asset's function, one Spark job, one commit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.key import PartitionKey
from partita.assets.asset import Asset
from partita.assets.asset_context import AssetContext
from partita.assets.dimension_fields import DimensionFields
from partita.assets.lake_context import LakeContext
from partita.assets.source_observation import observe_sources
from partita.errors import DefinitionError, PlanError, TableExists, TableMissing
from partita.formats.lake_tables import new_table_spec
from partita.status.definitions import AssetDefinition

if TYPE_CHECKING:
    from partita.formats.table import Table
    from partita.spark.rows import DataFrame, SparkSession

COUNT_COLUMNS = ("rows", "files", "bytes")
_OBSERVE_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class MaterializeResult:
    """What was written: rows, files and bytes of each key, by column name, and the version of the commit.

    A count is None if it isn't known, and there are no counts for an asset without a table.
    """

    counts: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    table_version: int | None = None

    @property
    def total_rows(self) -> int | None:
        """The number of rows of all partitions, or None if no count is known."""
        row_counts = [count for count in self.counts.get("rows", ()) if count is not None]
        return sum(row_counts) if row_counts else None


@dataclass(frozen=True, slots=True, eq=False)
class Materializer:
    """Materializes partitions for one run. `check_commit` is called before each commit, and raises to prevent it."""

    lake: LakeContext
    assets: Mapping[str, Asset]
    run_id: str
    spark: SparkSession
    check_commit: Callable[[], None]

    def materialize(self, asset: Asset, keys: Sequence[str]) -> MaterializeResult:
        """Call the asset's function for these partitions, and replace them in its table by the rows it returns."""
        from partita.spark.frames import to_dataframe

        partition_keys = [PartitionKey.parse(key) for key in keys]
        sources = {u.asset for u in asset.definition.upstreams if self.assets[u.asset].is_source}
        if sources:
            # After the attempt started, so that a commit which is observed later counts as later than the attempt.
            with _OBSERVE_LOCK:
                observe_sources(self.lake, sources, will_read=True)
        rows = self._call_function(asset, partition_keys)
        if asset.table is None:
            self.check_commit()
            return MaterializeResult()
        if rows is None:
            raise DefinitionError(f"{asset.name!r} returned nothing; an asset with a table returns its rows")
        frame = to_dataframe(rows, self.spark)
        table = self._open_or_create_table(asset, frame)
        dimension_fields = DimensionFields.of(asset.name, asset.definition.partitions, table.spec)
        partitions = dimension_fields.partition_rows_of_keys(partition_keys)
        self.check_commit()
        transaction = commit_transaction(self.run_id, asset.name, keys)
        change = table.replace_partitions(frame, partitions, transaction=transaction)
        if change.written_partitions is None:
            return self.stored_result(asset, keys)
        return MaterializeResult(_counts_by_key(dimension_fields, change.written_partitions, keys), change.version)

    def stored_result(self, asset: Asset, keys: Sequence[str]) -> MaterializeResult:
        """Return what the asset's table holds of these partitions now."""
        table = self.lake.tables.open(_table_name(asset))
        dimension_fields = DimensionFields.of(asset.name, asset.definition.partitions, table.spec)
        partitions = table.partitions()
        current = partitions.filter(pc.equal(partitions["spec_id"], table.spec.spec_id))
        return MaterializeResult(_counts_by_key(dimension_fields, current, keys), table.version)

    def is_committed(self, asset: Asset, keys: Sequence[str]) -> bool:
        """Return whether the asset's table has the commit of these partitions by this run."""
        if asset.table is None:
            return False
        transaction = commit_transaction(self.run_id, asset.name, keys)
        try:
            return self.lake.tables.open(asset.table).has_transaction(transaction)
        except TableMissing:
            return False

    @property
    def definitions(self) -> dict[str, AssetDefinition]:
        """The definitions of all assets by name."""
        return {name: asset.definition for name, asset in self.assets.items()}

    def _call_function(self, asset: Asset, keys: Sequence[PartitionKey]) -> Any:
        context = AssetContext(self.lake, asset, self.definitions, keys, self.run_id, self.spark)
        try:
            return asset(context)
        except SystemExit as error:
            raise PlanError(f"the function of {asset.name!r} called sys.exit({error.code!r})") from error

    def _open_or_create_table(self, asset: Asset, frame: DataFrame) -> Table:
        try:
            return self.lake.tables.open(_table_name(asset))
        except TableMissing:
            return self._create_table(asset, frame)

    def _create_table(self, asset: Asset, frame: DataFrame) -> Table:
        options = asset.table_options
        partition_by = asset.definition.partitions.names if options.partition_by is None else options.partition_by
        columns = {name.casefold() for name in frame.columns}
        missing_columns = [name for name in partition_by if isinstance(name, str) and name.casefold() not in columns]
        if missing_columns:
            raise DefinitionError(
                f"the rows of {asset.name!r} have no column {missing_columns[0]!r}, by which its new table would be "
                "partitioned; return one, or set partition_by"
            )
        schema = frame.schema if options.schema is None else options.schema
        # Checked before the table is created, because nothing would delete it again.
        DimensionFields.of(
            asset.name, asset.definition.partitions, new_table_spec(schema, options.format, partition_by)
        )
        try:
            return self.lake.tables.create(_table_name(asset), schema, options.format, partition_by, options.properties)
        except TableExists:
            # Another batch created it meanwhile.
            return self.lake.tables.open(_table_name(asset))


def commit_transaction(run_id: str, asset: str, keys: Iterable[str]) -> tuple[str, int]:
    """Return the transaction of a run's commit of these partitions: the same partitions again are the same commit."""
    digest = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:24]
    return f"partita/{run_id}/{asset}/{digest}", 1


def _table_name(asset: Asset) -> str:
    assert asset.table is not None  # noqa: S101 - callers handle assets without a table
    return asset.table


def _counts_by_key(
    dimension_fields: DimensionFields, partitions: pa.Table, keys: Sequence[str]
) -> dict[str, list[int]]:
    """Return rows, files and bytes of each key, summed over the table's partitions; 0 for a key without any."""
    columns = {"key": dimension_fields.partition_keys(partitions), **{name: partitions[name] for name in COUNT_COLUMNS}}
    sums = pa.table(columns).group_by("key").aggregate([(name, "sum") for name in COUNT_COLUMNS])
    counts: dict[str, list[int]] = {}
    for name in COUNT_COLUMNS:
        count_of = dict(zip(sums["key"].to_pylist(), sums[f"{name}_sum"].to_pylist(), strict=True))
        counts[name] = [count_of.get(key) or 0 for key in keys]
    return counts
