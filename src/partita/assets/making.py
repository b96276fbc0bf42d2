"""Making partitions: one call of an asset's function, one Spark job, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.key import PartitionKey
from partita.assets.asset import Asset
from partita.assets.batching import transaction_of
from partita.assets.context import Context
from partita.assets.ground import Ground
from partita.assets.holding import Holding
from partita.assets.observing import observe
from partita.errors import DefinitionError, TableExists, TableMissing
from partita.formats.opening import new_spec
from partita.status.definitions import Definition

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.formats.table import Table
    from partita.spark.rows import DataFrame, SparkSession

COUNTS = ("rows", "files", "bytes")
_LOOKING = Lock()


@dataclass(frozen=True, slots=True)
class Made:
    """What was written: for each key its rows, files and bytes, and the version that the commit made.

    Counts are None where they aren't known: of an asset without a table, or of a commit that was there already.
    """

    counts: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    version: int | None = None

    @property
    def rows(self) -> int | None:
        """All rows together."""
        known = [count for count in self.counts.get("rows", ()) if count is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, eq=False)
class Maker:
    """Makes partitions for one run. `check` is asked right before a commit, and raises where it may not be made."""

    ground: Ground
    assets: Mapping[str, Asset]
    run_id: str
    spark: SparkSession
    check: Callable[[], None]

    def make(self, asset: Asset, keys: Sequence[str]) -> Made:
        """Call the function for these partitions, and replace them by what it returns."""
        from partita.spark.rows import as_frame

        asked = [PartitionKey.parse(key) for key in keys]
        above = {u.asset for u in asset.definition.upstreams}
        sources = [name for name in above if self.assets[name].is_source]
        if sources:
            # After the attempt began, so that what comes to light later counts as later.
            with _LOOKING:
                observe(self.ground, sources, reading=True)
        rows = asset(Context(self.ground, asset, self.definitions, asked, self.run_id, self.spark))
        if asset.table is None:
            self.check()
            return Made()
        if rows is None:
            raise DefinitionError(f"{asset.name!r} returned nothing; an asset with a table returns its rows")
        frame = as_frame(rows, self.spark)
        table = self._table(asset, frame)
        holding = Holding.of(asset.name, asset.definition.partitions, table.spec)
        wanted = holding.of_keys(asked)
        self.check()
        outcome = table.replace_partitions(frame, wanted, transaction=transaction_of(self.run_id, asset.name, keys))
        if outcome.written is None:
            return self.found(asset, keys)
        return Made(_counted(holding, outcome.written, keys), outcome.version)

    def found(self, asset: Asset, keys: Sequence[str]) -> Made:
        """What the table has of some partitions now."""
        assert asset.table is not None  # noqa: S101 - a commit was found in it
        table = self.ground.table(asset.table)
        holding = Holding.of(asset.name, asset.definition.partitions, table.spec)
        there = table.partitions()
        current = there.filter(pc.equal(there["spec_id"], table.spec.spec_id))
        return Made(_counted(holding, current, keys), table.version)

    def is_made(self, asset: Asset, keys: Sequence[str]) -> bool:
        """Whether the commit of these partitions by this run is a part of the table."""
        if asset.table is None:
            return False
        try:
            return self.ground.table(asset.table).seen(transaction_of(self.run_id, asset.name, keys))
        except TableMissing:
            return False

    @property
    def definitions(self) -> dict[str, Definition]:
        """The definitions of all assets by name."""
        return {name: asset.definition for name, asset in self.assets.items()}

    def _table(self, asset: Asset, frame: DataFrame) -> Table:
        assert asset.table is not None  # noqa: S101 - asked before
        try:
            return self.ground.table(asset.table)
        except TableMissing:
            return self._created(asset, frame)

    def _created(self, asset: Asset, frame: DataFrame) -> Table:
        assert asset.table is not None  # noqa: S101 - asked before
        making = asset.making
        by = asset.definition.partitions.names if making.partition_by is None else making.partition_by
        options: dict[str, Any] = {"format": making.format, "partition_by": by, "properties": making.properties}
        missing = [n for n in by if isinstance(n, str) and n.casefold() not in map(str.casefold, frame.columns)]
        if missing:
            raise DefinitionError(
                f"the rows of {asset.name!r} have no column {missing[0]!r}, by which its new table would be "
                "partitioned; return one, or say partition_by"
            )
        schema = frame.schema if making.schema is None else making.schema
        # Before there is a table, which nobody would take away again.
        Holding.of(asset.name, asset.definition.partitions, new_spec(schema, making.format, by))
        try:
            return self.ground.create(asset.table, schema, **options)
        except TableExists:
            # Another batch was first.
            return self.ground.table(asset.table)


def _counted(holding: Holding, partitions: pa.Table, keys: Sequence[str]) -> dict[str, list[int]]:
    """The rows, files and bytes of partitions, summed up by key; 0 where there are none."""
    columns = {"key": holding.keys(partitions), **{name: partitions[name] for name in COUNTS}}
    summed = pa.table(columns).group_by("key").aggregate([(name, "sum") for name in COUNTS])
    rows = zip(*(summed[f"{name}_sum"].to_pylist() for name in COUNTS), strict=True)
    found = dict(zip(summed["key"].to_pylist(), rows, strict=True))
    return {name: [found.get(key, (0, 0, 0))[at] or 0 for key in keys] for at, name in enumerate(COUNTS)}
