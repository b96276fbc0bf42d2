"""A Lance table at one version: what its manifest and its log say, as Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.algebra.spec_text import parse_spec
from partita.arrow.schema import to_arrow, to_schema
from partita.errors import PartitionValueError, TableError
from partita.formats.containment import Place
from partita.formats.lance.leaf import Leaf
from partita.formats.lance.log import Intent, Known
from partita.formats.lance.names import LEAF, results
from partita.formats.lance.namespace import BETWEEN, PARTITION_COLUMNS, SCHEMA, Root, Tree
from partita.formats.lance.schema_json import schema_from_json
from partita.formats.plan import State

ONLY = "data"
"""The leaf of a table that has no partition fields."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What the root namespace says: the columns in Arrow's types and in ours, and the partitioning."""

    arrow: pa.Schema
    schema: Schema
    spec: PartitionSpec

    @property
    def left_out(self) -> frozenset[str]:
        """The columns that leaves don't hold, for their names do: those of identity fields, unless that is all."""
        known = {f.source for f in self.spec.fields if f.transform.name == "identity"}
        names = {name for name in self.arrow.names if name in known}
        return frozenset() if len(names) == len(self.arrow) else frozenset(names)

    @property
    def stored(self) -> pa.Schema:
        """The columns of a leaf."""
        return pa.schema([f for f in self.arrow if f.name not in self.left_out])


@dataclass(frozen=True, slots=True, eq=False)
class LanceState(State):
    """A Lance table at one version; the rows of `ids`, `locations` and `pins` are those of `files`.

    `pins` are the versions of the leaves that finished writes made, null where only others have written. `resolved` are
    the versions that rows are read at, by place: filled as they are asked for, and then kept.
    """

    root: Root
    properties: Mapping[str, str]
    definition: Definition
    known: Known
    ids: pa.Array
    locations: pa.Array
    pins: pa.Array
    unended: Intent | None = None
    resolved: dict[int, int] = field(default_factory=dict)

    def outside(self, places: np.ndarray) -> pa.Array:
        """The folders outside of the namespace's folder that leaves at some places have files in, as clones do."""
        own = Place.at(self.root.storage.uri)
        leaves = (Leaf(self.root.storage, self.locations[place].as_py()) for place in places.tolist())
        bases = dict.fromkeys(base.path for leaf in leaves for base in leaf.open().base_paths().values())
        return pa.array(own.outside(bases), pa.string())


@lru_cache(maxsize=64)
def definition_of(schema: str, partition_columns: str) -> Definition:
    """The table that the root's properties define."""
    arrow = schema_from_json(schema)
    logical = to_schema(arrow)
    return Definition(arrow, logical, parse_spec(partition_columns, logical, "lance"))


def state_of(tree: Tree, known: Known, unended: Intent | None) -> LanceState:
    """The table that a manifest and a log say."""
    for name in (SCHEMA, PARTITION_COLUMNS):
        if name not in tree.properties:
            raise TableError(f"the root namespace {tree.root.id!r} has no property {name}")
    definition = definition_of(tree.properties[SCHEMA], tree.properties[PARTITION_COLUMNS])
    leaves = _without_unborn(tree.leaves, known, unended)
    ids, locations = leaves["id"].combine_chunks(), leaves["location"].combine_chunks()
    pinned = known.pinned(ids)
    rows = pinned["rows"].combine_chunks()
    numbers = pa.array(np.zeros(len(ids), np.int32))
    files = pa.table({"path": _paths(locations, tree.root), "spec_id": numbers, "bytes": pinned["bytes"]})
    spec = definition.spec
    return LanceState(
        known.version,
        definition.schema,
        SpecHistory.start(spec, definition.schema),
        files,
        leaf_partitions(ids, locations, spec),
        lambda *_: {},
        lambda places: rows.take(pa.array(places)),
        tree.root,
        tree.properties,
        definition,
        known,
        ids,
        locations,
        pinned["version"].combine_chunks(),
        unended,
    )


def leaf_partitions(ids: pa.Array, locations: pa.Array, spec: PartitionSpec) -> pa.Table:
    """The partitions of leaves, as `State.partitions` has them."""
    return pa.table({**partition_values(ids, locations, spec), "spec_id": pa.array(np.zeros(len(ids), np.int32))})


def partition_values(ids: pa.Array, locations: pa.Array, spec: PartitionSpec) -> dict[str, pa.Array]:
    """The typed values that ids of leaves say, for each field."""
    depth = len(spec.fields)
    if not len(ids) or not depth:
        return {f.name: pa.nulls(0, to_arrow(f.result_type)) for f in spec.fields}
    names = pc.split_pattern(ids, BETWEEN)
    wrong = pc.not_equal(pc.list_value_length(names), depth)
    if wrong.true_count:
        stray = ids.filter(wrong)[0].as_py()
        raise TableError(f"the table {stray!r} is not {depth} levels below the root, as its leaves are; deregister it")
    flat = names.flatten()
    levels = [pc.take(flat, pa.array(np.arange(at, len(flat), depth))) for at in range(depth)] if depth > 1 else [flat]
    levels[-1] = _without_ending(levels[-1], locations)
    columns: dict[str, pa.Array] = {}
    for one, level in zip(spec.fields, levels, strict=True):
        try:
            columns[one.name] = results(level, one)
        except PartitionValueError as error:
            raise TableError(f"the leaves have a name that the table's partitioning doesn't: {error}") from error
    return columns


def _without_ending(names: pa.Array, locations: pa.Array) -> pa.Array:
    """The names of leaves without `.lance`, where others registered them by the names of folders.

    Partita escapes the dot of a value that ends so; of others, one whose folder has the ending twice is such a value.
    """
    ends = pc.ends_with(names, LEAF)
    if not ends.true_count:
        return names
    folders = pc.replace_substring_regex(locations, "^.*/", "")
    whole = pc.and_(ends, pc.not_equal(folders, pc.binary_join_element_wise(names, LEAF, "")))
    return pc.if_else(whole, pc.utf8_slice_codeunits(names, 0, -len(LEAF)), names)


def _without_unborn(leaves: pa.Table, known: Known, unended: Intent | None) -> pa.Table:
    """The leaves without those that a write made which has not ended, or was undone."""
    unborn = [leaf for leaf, made in known.suspects.items() if made]
    unborn += [leaf["id"] for leaf in unended.leaves if leaf["make"]] if unended is not None else []
    if not unborn:
        return leaves
    pinned = set(known.pins["id"].to_pylist())
    hidden = pa.array([leaf for leaf in unborn if leaf not in pinned], pa.string())
    return leaves.filter(pc.invert(pc.is_in(leaves["id"], value_set=hidden)))


def _paths(locations: pa.Array, root: Root) -> pa.Array:
    """The locations inside the table's own folder."""
    if not root.folder:
        return locations
    prefix = f"{root.folder}/"
    return pc.if_else(
        pc.starts_with(locations, prefix), pc.utf8_slice_codeunits(locations, len(prefix), None), locations
    )
