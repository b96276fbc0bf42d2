"""Vector search: the nearest rows of each leaf, from its index if it has one, merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import UnboundPredicate
from partita.algebra.predicate_text import parse_predicate
from partita.errors import SchemaError, TableError
from partita.formats.file_plan import plan_files
from partita.formats.lance.filters import exact_filters
from partita.formats.lance.leaf_dataset import LeafDataset, translate_lance_errors
from partita.formats.lance.state import LanceTableVersion

if TYPE_CHECKING:
    from partita.formats.lance.store import LanceTableStore

DISTANCE_COLUMN = "_distance"


@dataclass(frozen=True, slots=True, eq=False)
class VectorQuery:
    """The query for each leaf; it is sent to executors."""

    column: str
    vector: tuple[float, ...]
    k: int
    columns: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def nearest_in_leaf(self, leaf: LeafDataset, version: int, where: str | None) -> pa.Table:
        """Return the nearest rows of a leaf, with their distances."""
        nearest = {"column": self.column, "q": pa.array(self.vector, pa.float32()), "k": self.k, **self.options}
        with translate_lance_errors(leaf.location):
            dataset = leaf.open(version)
            if not dataset.count_rows():
                return pa.schema(
                    [*(dataset.schema.field(c) for c in self.columns), (DISTANCE_COLUMN, pa.float32())]
                ).empty_table()
            scanner = dataset.scanner(
                columns=[*self.columns, DISTANCE_COLUMN], nearest=nearest, filter=where, prefilter=where is not None
            )
            return scanner.to_table()


@dataclass(frozen=True, slots=True, eq=False)
class SearchRequest:
    """A search for the k rows whose vectors in a column are nearest to a vector."""

    vector: Sequence[float]
    column: str
    k: int
    where: UnboundPredicate | None = None
    columns: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class SearchPlan:
    """A query, and the file indices, versions and filters of the leaves that it goes to."""

    table_version: LanceTableVersion
    query: VectorQuery
    file_indices: list[int]
    versions: list[int]
    filters: list[str | None]
    column_names: list[str]


def plan_search(store: LanceTableStore, request: SearchRequest) -> SearchPlan:
    """Plan a search over the leaves that may match its predicate; raise `SchemaError` if it doesn't fit the column."""
    table_version = store.current_version()
    name = table_version.schema.find_field(request.column).name
    type_ = table_version.definition.arrow_schema.field(name).type
    if not pa.types.is_fixed_size_list(type_):
        raise SchemaError(f"column {name!r} is {type_}; search needs a column of vectors, a fixed_size_list")
    if len(request.vector) != type_.list_size:
        raise SchemaError(f"column {name!r} has vectors of {type_.list_size} numbers, not {len(request.vector)}")
    if request.k < 1:
        raise SchemaError(f"k must be a positive number of rows, not {request.k}")
    column_names = table_version.schema.names if request.columns is None else request.columns
    names = [table_version.schema.find_field(c).name for c in column_names]
    predicate = None if request.where is None else parse_predicate(request.where, table_version.schema)
    file_indices = plan_files(table_version, predicate).file_indices
    stored_names = tuple(c for c in names if c not in table_version.definition.omitted_columns)
    filters = exact_filters(table_version, file_indices, predicate)
    versions = table_version.read_versions(file_indices)
    options = dict(request.options)
    if options.get("metric") is None:
        leaves = [table_version.leaf(index) for index in file_indices.tolist()]
        options["metric"] = _common_metric(leaves, versions, name)
    query = VectorQuery(name, tuple(map(float, request.vector)), request.k, stored_names, options)
    return SearchPlan(table_version, query, file_indices.tolist(), versions, filters, names)


def _common_metric(leaves: Sequence[LeafDataset], versions: Sequence[int], column: str) -> str:
    """Return the metric of the leaves' indices, which leaves without an index use too; L2 if there is no index.

    Raises `TableError` if the indices have several metrics, since their distances can't be compared.
    """
    with ThreadPoolExecutor(8) as pool:
        metrics = list(pool.map(lambda leaf, version: _index_metric(leaf, version, column), leaves, versions))
    locations = {metric: leaf.location for metric, leaf in zip(metrics, leaves, strict=True) if metric is not None}
    if len(locations) > 1:
        metric_texts = ", ".join(f"{metric} in {location}" for metric, location in sorted(locations.items()))
        raise TableError(
            f"the indices of {column!r} have several metrics: {metric_texts}; choose one, as metric='cosine', "
            "or index again"
        )
    return next(iter(locations), "l2")


@lru_cache(maxsize=100_000)
def _index_metric(leaf: LeafDataset, version: int, column: str) -> str | None:
    """Return the metric of a leaf's index of a column; None if it has none."""
    with translate_lance_errors(leaf.location):
        dataset = leaf.open(version)
        for index in dataset.describe_indices():
            if index.field_names != [column]:
                continue
            metric = (index.details or {}).get("metric_type")
            if metric is None:  # an index of an older Lance version
                statistics = dataset.stats.index_stats(index.name).get("indices") or [{}]
                metric = statistics[0].get("metric_type")
            if metric is not None:
                return str(metric).lower()
    return None


def search_vectors(store: LanceTableStore, request: SearchRequest) -> pa.Table:
    """Return the k nearest rows, nearest first, with their `_distance`."""
    plan = plan_search(store, request)

    def search_leaf(file_index: int, version: int, where: str | None) -> pa.Table:
        rows = plan.query.nearest_in_leaf(plan.table_version.leaf(file_index), version, where)
        return with_omitted_columns(rows, plan.table_version, file_index, plan.column_names)

    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(search_leaf, plan.file_indices, plan.versions, plan.filters))
    schema = result_schema(plan)
    return nearest_rows(pa.concat_tables([schema.empty_table(), *(t.cast(schema) for t in tables)]), request.k)


def result_schema(plan: SearchPlan) -> pa.Schema:
    """Return the columns of the result."""
    fields = [plan.table_version.definition.arrow_schema.field(name) for name in plan.column_names]
    return pa.schema([*(f.with_nullable(True) for f in fields), pa.field(DISTANCE_COLUMN, pa.float32())])


def nearest_rows(rows: pa.Table, k: int) -> pa.Table:
    """Return the k rows with the least distance, nearest first."""
    return rows.take(pc.sort_indices(rows, [(DISTANCE_COLUMN, "ascending")])[:k])


def with_omitted_columns(
    rows: pa.Table, table_version: LanceTableVersion, file_index: int, column_names: Sequence[str]
) -> pa.Table:
    """Add the columns that a leaf doesn't store to its rows, in the order of `column_names`."""
    values = table_version.omitted_column_values([file_index], column_names)
    columns = [
        pa.repeat(values[name][0], rows.num_rows) if name in values.column_names else rows[name]
        for name in column_names
    ]
    return pa.table([*columns, rows[DISTANCE_COLUMN]], names=[*column_names, DISTANCE_COLUMN])
