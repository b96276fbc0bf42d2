"""The rows of a Lance table on Spark: as it takes them, as its leaves hold them, as they are read and taken away."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from partita.algebra.predicate import Predicate
from partita.algebra.spec import PartitionField
from partita.formats.lance.filters import loose_filters
from partita.formats.lance.fragments import rows_gone
from partita.formats.lance.leaf import Leaf
from partita.formats.lance.packs import LanceReader, SearchReader, constants_of, leaf_packs_of, packs_of
from partita.formats.lance.search import Wanted, ask, result_schema
from partita.formats.lance.state import LanceState
from partita.formats.store import TOLD, Edits, total
from partita.spark.lance_names import partition_text
from partita.spark.lance_scan import arrow_schema, nearest, scan_packs, spark_schema, task_count, with_positions
from partita.spark.nullability import relax_inside
from partita.spark.rewrite import by_file, row_numbers
from partita.spark.rows import (
    Column,
    DataFrame,
    SparkSession,
    StructType,
    conformed,
    not_null,
    only,
    partition_values,
    picked,
    with_columns,
)
from partita.spark.scan import FILE, ROW
from partita.spark.session import session
from partita.spark.write import PARTITION, run_in_arrow, write

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.formats.lance.store import LanceStore


@dataclass(frozen=True, slots=True)
class LanceRows:
    """The rows of a table."""

    store: LanceStore

    def schema(self, state: LanceState) -> StructType:
        """The columns as Spark has them."""
        return spark_schema(state.definition.arrow)

    def conform(self, state: LanceState, rows: DataFrame) -> DataFrame:
        """Rows of others as the table's: columns by name, types that fit, no null where none may be."""
        return conformed(rows, self.schema(state), {})

    def regenerate(self, state: LanceState, rows: DataFrame) -> DataFrame:
        """The table's own rows after a change."""
        return not_null(rows, only(self.schema(state), set(rows.columns)))

    def write(self, state: LanceState, rows: DataFrame) -> pa.Table:
        """New fragments in the leaves of their partitions."""
        schema = self.schema(state)
        texts = {f"{PARTITION}{at}": partition_text(f, schema) for at, f in enumerate(state.definition.spec.fields)}
        stored = picked(with_columns(rows, texts), [*texts, *state.definition.stored.names])
        return write(stored, self.store.target(state), len(texts), TOLD)

    def partition(self, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:
        """The values of partition fields of rows."""
        return partition_values(rows, [field.function for field in fields], PARTITION, family="lance")

    def scan(  # noqa: PLR0913 - as the store's, and the filter
        self, spark: SparkSession, state: LanceState, places: np.ndarray, names: Sequence[str],
        *, positions: bool = False, where: Predicate | None = None,
    ) -> DataFrame:  # fmt: skip
        """The rows of the leaves at those places; without some that don't match `where`, which Lance leaves out."""
        fields = {f.name: f for f in self.schema(state).fields}
        ordered = relax_inside(StructType([fields[name] for name in names]))
        packs = packs_of(self.store, state, places, loose_filters(state, places, where), task_count(spark))
        stored = tuple(name for name in names if name not in state.definition.left_out)
        reader = LanceReader(
            packs, stored, arrow_schema(ordered, positions=positions), constants_of(state, places, names), positions
        )
        return scan_packs(spark, reader, len(packs), with_positions(ordered) if positions else ordered)

    def take_away(self, state: LanceState, places: np.ndarray, positions: DataFrame) -> Edits:
        """Deletions of rows, noted in the leaves' own files."""
        leaves = [self.store.leaf(state, place) for place in places.tolist()]
        versions = self.store.versions(state, places)
        tasks = max(1, min(len(places), task_count(positions.sparkSession)))
        grouped = positions.repartition(tasks, FILE).sortWithinPartitions(FILE, ROW)
        told = run_in_arrow(grouped, _Deletions(leaves, versions, places.tolist()), TOLD)
        return Edits(marked=told, gone=total(told["rows"]))


@dataclass(frozen=True, slots=True)
class _Deletions:
    """What a task does with the positions of rows that go: a row of `TOLD` for each leaf."""

    leaves: list[Leaf]
    versions: list[int]
    places: list[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        for number, rows in by_file(batches):
            addresses = row_numbers(rows)
            leaf = self.leaves[number]
            changed = rows_gone(leaf.open(self.versions[number]), addresses)
            details = {
                "place": self.places[number],
                "before": {n: before for n, (before, _) in changed.items()},
                "after": {n: after for n, (_, after) in changed.items()},
            }
            yield {"path": leaf.location, "partition": None, "rows": len(addresses), "bytes": 0, "modified": 0,
                   "details": json.dumps(details)}  # fmt: skip


def search(store: LanceStore, wanted: Wanted) -> DataFrame:
    """The k nearest rows, as a job over the leaves."""
    spark = session()
    asked = ask(store, wanted)
    places = np.array(asked.places, np.int64)
    packs = leaf_packs_of(store, asked.state, places, asked.filters, task_count(spark))
    schema = spark_schema(result_schema(asked))
    reader = SearchReader(packs, asked.question, arrow_schema(schema), constants_of(asked.state, places, asked.names))
    return nearest(scan_packs(spark, reader, len(packs), schema), wanted.k)
