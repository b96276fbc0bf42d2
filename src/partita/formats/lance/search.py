"""The nearest vectors of a table: the nearest of each leaf, by its own index where it has one, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.parse import Condition, parse_predicate
from partita.errors import SchemaError, TableError
from partita.formats.lance.filters import exact_filters
from partita.formats.lance.leaf import Leaf, translated
from partita.formats.lance.state import LanceState
from partita.formats.plan import make_plan

if TYPE_CHECKING:
    from partita.formats.lance.store import LanceStore

DISTANCE = "_distance"


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is looked for in each leaf; it travels to executors."""

    column: str
    vector: tuple[float, ...]
    k: int
    columns: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def asked(self, leaf: Leaf, version: int, where: str | None) -> pa.Table:
        """The nearest rows of a leaf, with their distances."""
        nearest = {"column": self.column, "q": pa.array(self.vector, pa.float32()), "k": self.k, **self.options}
        with translated(leaf.location):
            dataset = leaf.open(version)
            if not dataset.count_rows():
                return pa.schema(
                    [*(dataset.schema.field(c) for c in self.columns), (DISTANCE, pa.float32())]
                ).empty_table()
            scanner = dataset.scanner(
                columns=[*self.columns, DISTANCE], nearest=nearest, filter=where, prefilter=where is not None
            )
            return scanner.to_table()


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What a search is for: the k rows whose vectors in a column are nearest to one."""

    vector: Sequence[float]
    column: str
    k: int
    where: Condition | None = None
    columns: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question and the leaves that it goes to: places, versions and filters."""

    state: LanceState
    question: Question
    places: list[int]
    versions: list[int]
    filters: list[str | None]
    names: list[str]


def ask(store: LanceStore, wanted: Wanted) -> Asked:
    """The question to the leaves that a predicate leaves over."""
    state = store.state()
    name = state.schema.find(wanted.column).name
    type_ = state.definition.arrow.field(name).type
    if not pa.types.is_fixed_size_list(type_):
        raise SchemaError(f"{name!r} is {type_}; search takes a column of vectors, a fixed_size_list")
    if len(wanted.vector) != type_.list_size:
        raise SchemaError(f"{name!r} has vectors of {type_.list_size} numbers, and {len(wanted.vector)} were given")
    if wanted.k < 1:
        raise SchemaError(f"k is the number of rows to find, not {wanted.k}")
    names = [state.schema.find(c).name for c in (state.schema.names if wanted.columns is None else wanted.columns)]
    predicate = None if wanted.where is None else parse_predicate(wanted.where, state.schema)
    places = make_plan(state, predicate).kept
    stored = tuple(c for c in names if c not in state.definition.left_out)
    filters = exact_filters(state, places, predicate)
    versions = store.versions(state, places)
    options = dict(wanted.options)
    if options.get("metric") is None:
        leaves = [store.leaf(state, place) for place in places.tolist()]
        options["metric"] = _one_metric(leaves, versions, name)
    question = Question(name, tuple(map(float, wanted.vector)), wanted.k, stored, options)
    return Asked(state, question, places.tolist(), versions, filters, names)


def _one_metric(leaves: Sequence[Leaf], versions: Sequence[int], column: str) -> str:
    """The metric of the leaves' indices, by which those without one are asked too; L2 where there is none.

    Distances by several can't be put in one order.
    """
    with ThreadPoolExecutor(8) as pool:
        metrics = list(pool.map(lambda leaf, version: _metric(leaf, version, column), leaves, versions))
    found = {metric: leaf.location for metric, leaf in zip(metrics, leaves, strict=True) if metric is not None}
    if len(found) > 1:
        told = ", ".join(f"{metric} in {location}" for metric, location in sorted(found.items()))
        raise TableError(
            f"the indices of {column!r} have several metrics: {told}; say which, as in metric='cosine', or index again"
        )
    return next(iter(found), "l2")


@lru_cache(maxsize=100_000)
def _metric(leaf: Leaf, version: int, column: str) -> str | None:
    """The metric of a leaf's index of a column; None where it has none."""
    with translated(leaf.location):
        dataset = leaf.open(version)
        for index in dataset.describe_indices():
            if index.field_names != [column]:
                continue
            metric = (index.details or {}).get("metric_type")
            if metric is None:  # an index that an older Lance made
                told = dataset.stats.index_stats(index.name).get("indices") or [{}]
                metric = told[0].get("metric_type")
            if metric is not None:
                return str(metric).lower()
    return None


def search(store: LanceStore, wanted: Wanted) -> pa.Table:
    """The k nearest rows, nearest first: the columns, and `_distance`."""
    asked = ask(store, wanted)

    def one(place: int, version: int, where: str | None) -> pa.Table:
        found = asked.question.asked(store.leaf(asked.state, place), version, where)
        return with_names(found, asked.state, place, asked.names)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, asked.places, asked.versions, asked.filters))
    schema = result_schema(asked)
    return nearest(pa.concat_tables([schema.empty_table(), *(t.cast(schema) for t in found)]), wanted.k)


def result_schema(asked: Asked) -> pa.Schema:
    """The columns of the answer."""
    fields = [asked.state.definition.arrow.field(name) for name in asked.names]
    return pa.schema([*(f.with_nullable(True) for f in fields), pa.field(DISTANCE, pa.float32())])


def nearest(found: pa.Table, k: int) -> pa.Table:
    """The k rows with the least distance."""
    return found.take(pc.sort_indices(found, [(DISTANCE, "ascending")])[:k])


def with_names(found: pa.Table, state: LanceState, place: int, names: Sequence[str]) -> pa.Table:
    """The rows of a leaf with the columns that its name says, in the order that is asked for."""
    columns = []
    for name in names:
        if name in found.column_names:
            columns.append(found[name])
        else:
            columns.append(pa.repeat(constant(state, place, name), found.num_rows))
    return pa.table([*columns, found[DISTANCE]], names=[*names, DISTANCE])


def constant(state: LanceState, place: int, name: str) -> pa.Scalar:
    """The value of a column that leaves don't hold."""
    fields = [f for f in state.spec.fields if f.source == name and f.transform.name == "identity"]
    value = state.partitions[fields[0].name][place]
    return value.cast(state.definition.arrow.field(name).type)
