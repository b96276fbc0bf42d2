"""What keeps a Lance table well: partitions made and dropped, leaves compacted, indexed, cleaned up, found and added.

Nothing here starts Spark.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.parse import Condition
from partita.algebra.spec import PartitionField
from partita.arrow.transforms import apply
from partita.errors import PartitionValueError, SchemaError, TableError
from partita.formats.containment import LINK, OTHER_NAME, OUTSIDE, YOUNG, Removed
from partita.formats.lance.creation import check_name, check_type
from partita.formats.lance.fragments import difference, leaf_names
from partita.formats.lance.leaf import Leaf, files_in, fragments_of, translated
from partita.formats.lance.log import Ending
from partita.formats.lance.names import LEAF, texts
from partita.formats.lance.namespace import BETWEEN, MANIFEST, Root, register
from partita.formats.lance.operations import Operation, widened
from partita.formats.lance.schema_json import schema_to_json
from partita.formats.lance.state import ONLY, LanceState, partition_values
from partita.formats.lance.writes import ADD_COLUMN, PATIENCE, THREADS, Attempt
from partita.formats.plan import make_plan

if TYPE_CHECKING:
    from lance import LanceDataset

    from partita.formats.lance.store import LanceStore


def add_partitions(store: LanceStore, partitions: pa.Table | Sequence[Mapping[str, object]]) -> int:
    """Make empty leaves, all in one change of the manifest; those that are there stay. Returns how many are new."""
    state = store.state()
    given = partitions if isinstance(partitions, pa.Table) else _table_of(state, partitions)
    columns = []
    for field in state.spec.fields:
        if field.name not in given.column_names:
            raise PartitionValueError(field.name, "a value", "none; for null give None")
        values = _results(given[field.name], field)
        _check_values(values, field)
        columns.append(texts(values, field).to_pylist())
    wanted = dict.fromkeys(leaf_names(state.spec.names, row) for row in zip(*columns, strict=True)) or {(ONLY,): None}
    there = set(store.places(state))
    new = [names for names in wanted if BETWEEN.join(names) not in there]
    if new:
        made = [Operation(names, state.root.location(names), "add", True) for names in new]
        store.writes(state).commit(Attempt("add partition", made), state.known)
    return len(new)


def _table_of(state: LanceState, partitions: Sequence[Mapping[str, object]]) -> pa.Table:
    from partita.arrow.schema import to_arrow

    for values in partitions:
        stray = sorted(set(values) - set(state.spec.names))
        if stray:
            raise PartitionValueError(stray[0], f"one of {', '.join(state.spec.names)}", "no such field")
    columns = {}
    for field in state.spec.fields:
        missing = [values for values in partitions if field.name not in values]
        if missing:
            raise PartitionValueError(field.name, "a value", "none; for null give None")
        try:
            columns[field.name] = pa.array([values[field.name] for values in partitions], to_arrow(field.result_type))
        except (pa.ArrowException, TypeError) as error:
            raise PartitionValueError(field.name, str(field.result_type), str(error)) from error
    return pa.table(columns)


_PARTS = {"month": (1, 12), "day": (1, 31), "hour": (0, 23)}
_HASH = "^[0-9a-f]{8}$"


def _check_values(values: pa.Array, field: PartitionField) -> None:
    """Refuse values that the field's function has for no row: no row could ever go there."""
    transform = field.transform
    possible, expected = None, ""
    if transform.name in _PARTS or transform.name == "bucket":
        least, most = _PARTS.get(transform.name) or (0, (transform.width or 1) - 1)
        possible = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
        expected = f"a number from {least} to {most}"
    elif transform.name == "hash":
        possible, expected = pc.match_substring_regex(values, _HASH), "eight hex digits"
    elif transform.name == "truncate":
        cut = apply(field.function, values, family="lance", type=field.result_type)
        possible, expected = pc.equal(cut, values), f"a value that {transform} makes"
    elif transform.name == "void":
        possible, expected = pc.is_null(values), "null"
    wrong = values.filter(pc.invert(possible)) if possible is not None else values.slice(0, 0)
    if len(wrong):
        raise PartitionValueError(field.name, expected, repr(wrong[0].as_py()))


def _results(column: pa.ChunkedArray, field: Any) -> pa.Array:
    from partita.arrow.schema import to_arrow

    try:
        return column.combine_chunks().cast(to_arrow(field.result_type))
    except pa.ArrowException as error:
        raise PartitionValueError(field.name, str(field.result_type), str(column.type)) from error


def drop_partitions(store: LanceStore, where: Condition) -> int:
    """Take whole partitions out of the table; a predicate that cuts through one is refused. Returns how many went."""
    state = store.state()
    plan = make_plan(state, where)
    if not plan.whole.all():
        partial = plan.files.filter(pa.array(~plan.whole))["path"][0].as_py()
        raise TableError(
            f"drop_partition drops whole partitions, and {where} may be true of a part of {partial}; delete"
        )
    if len(plan.kept):
        dropped = [_operation(state, place, "drop") for place in plan.kept.tolist()]
        touched = {operation.id for operation in dropped}
        attempt = Attempt(
            "drop partition", dropped,
            lambda ending: "wrote to partitions that were to go" if touched & {i for i, *_ in ending.leaves} else None,
            {"predicate": str(where)},
        )  # fmt: skip
        store.writes(state).commit(attempt, state.known)
    return len(plan.kept)


def compact(store: LanceStore, where: Condition | None, options: Mapping[str, Any]) -> dict[str, int]:
    """Put small fragments together and deleted rows out, leaf by leaf."""

    def one(dataset: LanceDataset) -> int:
        metrics = dataset.optimize.compact_files(**options)
        return int(metrics.fragments_removed)

    removed = _each_leaf(store, "compact", where, one)
    return {"leaves": len(removed), "fragments_removed": sum(removed)}


_FEWEST = 256
"""Rows that Lance needs to train product quantization; fewer are quickly looked through."""


def index(
    store: LanceStore, column: str, where: Condition | None, kind: Any, options: Mapping[str, Any]
) -> dict[str, int]:
    """Give each leaf an index of a column: of vectors for search, or of values for filters."""
    state = store.state()
    name = state.schema.find(column).name
    if name in state.definition.left_out:
        raise SchemaError(f"{name!r} is in the names of the leaves, which need no index of it")
    type_ = state.definition.arrow.field(name).type
    is_vector = pa.types.is_fixed_size_list(type_)

    def one(dataset: LanceDataset) -> int:
        rows = dataset.count_rows()
        if not rows or (is_vector and rows < _FEWEST):
            return 0
        if is_vector:
            dataset.create_index(name, kind or "IVF_PQ", replace=True, **(_training(rows, type_) | dict(options)))
        else:
            dataset.create_scalar_index(name, kind or "BTREE", replace=True, **options)
        return 1

    made = _each_leaf(store, "index", where, one)
    return {"leaves": len(made), "indexed": sum(made)}


def _training(rows: int, type_: Any) -> dict[str, Any]:
    size = type_.list_size
    pieces = next(n for n in (size // 8, size // 4, size // 2, size) if n and size % n == 0)
    return {"num_partitions": max(1, round(rows**0.5 / 4)), "num_sub_vectors": pieces}


def _each_leaf(
    store: LanceStore, operation: str, where: Condition | None, do: Callable[[LanceDataset], int]
) -> list[int]:
    """Do something to leaves that changes no rows, and let the versions that it makes count.

    Each leaf is taken at the version that counts: what a write commits to it meanwhile is left alone.
    """
    store.settle()
    state = store.state()
    kept = make_plan(state, where).kept
    done = []
    for place, version in zip(kept.tolist(), store.versions(state, kept), strict=True):
        leaf = store.leaf(state, place)
        leaf.check_changeable()
        with translated(leaf.location):
            # Lance itself works on all cores.
            done.append(do(leaf.open(version)))
    _pin(store, state, kept.tolist(), operation, {"predicate": str(where)})
    return done


def _pin(
    store: LanceStore, state: LanceState, places: Sequence[int], operation: str, parameters: Mapping[str, str]
) -> None:
    """Let the newest versions of leaves count, in a write that takes back what undone writes left in them."""
    if places:
        pins = [_operation(state, place, "pin") for place in places]
        store.writes(state).commit(Attempt(operation, pins, parameters=parameters), state.known)


_TAG = "partita"
"""The tag of the version that counted when the table was last cleaned up."""


def clean(store: LanceStore, older_than: float) -> Removed:
    """Delete what no version of the table needs that is younger than so many seconds; the paths that went.

    Versions of leaves, files that no version names, and the folders of partitions that were dropped before that. A leaf
    with symbolic links in it is left alone: Lance would follow them.
    """
    store.settle()
    state = store.state()
    before = time.time() - older_than
    paths = {path for path, _ in state.root.storage.list(state.root.folder)}
    left: dict[str, str] = {}
    leaves = [store.leaf(state, place) for place in range(len(state.ids))]
    places = [place for place, leaf in enumerate(leaves) if _is_cleanable(state.root, leaf, left)]
    versions = dict(zip(places, store.versions(state, np.array(places, np.int64)), strict=True))

    def one(place: int) -> None:
        leaf = store.leaf(state, place)
        with translated(leaf.location):
            dataset = leaf.open()
            # Versions with a tag stay, also where a write has committed to the leaf and not ended.
            tagged = dataset.tags.update if _TAG in dataset.tags.list() else dataset.tags.create
            tagged(_TAG, versions[place])
            dataset.cleanup_old_versions(older_than=timedelta(seconds=older_than), error_if_tagged_old_versions=False)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, places))
    _remove_dropped(store, state, before, left)
    store.log.forget(before)
    if _is_cleanable(state.root, Leaf(state.root.storage, MANIFEST), left):
        with translated(MANIFEST):
            state.root.manifest().cleanup_old_versions(older_than=timedelta(seconds=older_than))
    there = {path for path, _ in state.root.storage.list(state.root.folder)}
    return Removed(sorted(paths - there), left)


def _is_cleanable(root: Root, leaf: Leaf, left: dict[str, str]) -> bool:
    """Whether Lance may delete files of a data set; `left` gets what is in the way.

    Where the manifest is in a folder above the table's, it and leaves beside the table are not in its folder.
    """
    if root.folder and not leaf.location.startswith(f"{root.folder}/"):
        left[leaf.location] = OUTSIDE
        return False
    try:
        leaf.check_inside()
    except TableError as error:
        left[leaf.location] = str(error)
        return False
    links = leaf.links()
    left |= {f"{leaf.location}/{link}": LINK for link in links}
    return not links


def _remove_dropped(store: LanceStore, state: LanceState, before: float, left: dict[str, str]) -> None:
    """Delete the files of leaves that were dropped before a time, and are not about to come again.

    That is done while no other write runs: a leaf may have come again since the state was read. `left` gets what isn't
    Lance's in their folders.
    """
    dropped = _dropped_before(store, state, before)
    if not dropped:
        return
    until = time.monotonic() + PATIENCE / 2  # the next time is soon enough for the rest

    def remove() -> None:
        now = store.state()
        there = set(now.locations.to_pylist())
        for name in dropped:
            location = now.root.location(name.split(BETWEEN))
            if name not in now.known.dropped or location in there or time.monotonic() > until:
                continue
            leaf = Leaf(now.root.storage, location)
            if not _is_cleanable(now.root, leaf, left):
                continue
            found = leaf.find()
            if found is None or found.count_rows() > 0:
                continue
            unnamed = _young_files(leaf, found)
            if unnamed:
                left.update(dict.fromkeys(unnamed, YOUNG))
                continue
            files = now.root.storage.files(location)
            own = [file.path for file in files if _is_lance_file(leaf, file.path)]
            left.update(dict.fromkeys({file.path for file in files} - set(own), OTHER_NAME))
            now.root.storage.delete(own)

    store.writes(state).commit(Attempt("cleanup", (), alone=remove), state.known)


_LANCE_FILE = re.compile(
    r"data/.+\.(?:lance|blob|pack|raw)|_versions/.+\.(?:manifest|json)|_transactions/.+\.txn|_deletions/.+\.(?:arrow|bin)"
    r"|_indices/.+|_refs/.+\.json|_latest\.manifest"
)
"""The files of a Lance data set, by their paths in it."""


def _is_lance_file(leaf: Leaf, path: str) -> bool:
    return _LANCE_FILE.fullmatch(path.removeprefix(f"{leaf.location}/")) is not None


def _dropped_before(store: LanceStore, state: LanceState, before: float) -> list[str]:
    left = set(state.known.dropped)
    found: list[str] = []
    for ending in store.log.endings() if left else ():
        gone = {name for name, _, rows, _ in ending.leaves if rows is None} & left
        found += sorted(gone) if ending.at / 1000 < before else []
        left -= gone
        if not left:
            break
    return found


_UNVERIFIED = 7 * 24 * 3600.0
"""Seconds for which a file that no version names may be one of a write that runs, as Lance has it."""


def _young_files(leaf: Leaf, dataset: LanceDataset) -> list[str]:
    """New data files that no version of the leaf names: a write that runs may commit them."""
    since = time.time() - _UNVERIFIED
    files = [path for path, _ in leaf.storage.list(f"{leaf.location}/data") if _is_lance_file(leaf, path)]
    young = {path.rpartition("/")[2]: path for path in files if leaf.storage.modified(path) >= since}
    for version in sorted((v["version"] for v in dataset.versions()), reverse=True):
        if not young:
            break
        for name in files_in(fragments_of(leaf.open(version))):
            young.pop(name, None)
    return sorted(young.values())


def unregistered(store: LanceStore) -> pa.Table:
    """The leaves in the table's folder that the manifest doesn't have: path, and the values that their names say.

    A folder whose names the table's partitioning doesn't have is a `TableError`.
    """
    state = store.state()
    known = set(state.locations.to_pylist())
    prefix = f"{state.root.folder}/" if state.root.folder else ""
    found = dict.fromkeys(
        path.partition(f"{LEAF}/_versions/")[0] + LEAF
        for path, _ in state.root.storage.list(state.root.folder)
        if f"{LEAF}/_versions/" in path
    )
    new = [path for path in found if path not in known]
    dropped = state.known.dropped
    ids = [path.removeprefix(prefix).removesuffix(LEAF).replace("/", BETWEEN) for path in new]
    kept = [(i, p) for i, p in zip(ids, new, strict=True) if i not in dropped or _has_rows(state, p)]
    names = pa.array([i for i, _ in kept], pa.string())
    paths = pa.array([p for _, p in kept], pa.string())
    return pa.table({"path": paths, "id": names, **partition_values(names, paths, state.spec)})


def _has_rows(state: LanceState, location: str) -> bool:
    found = Leaf(state.root.storage, location).find()
    return found is not None and found.count_rows() > 0


def repair(store: LanceStore) -> dict[str, int]:
    """Register the leaves that others laid out, and let count what others wrote.

    A leaf with other columns is refused.
    """
    store.settle()
    found = unregistered(store)
    state = store.state()
    stored = state.definition.stored
    for path in found["path"].to_pylist():
        columns = Leaf(state.root.storage, path).open().schema
        if {f.name: f.type for f in columns} != {f.name: f.type for f in stored}:
            raise SchemaError(f"the leaf {path} has other columns than its table:\n{difference(columns, stored)}")
    leaves = [(i.split(BETWEEN), p) for i, p in zip(found["id"].to_pylist(), found["path"].to_pylist(), strict=True)]
    register(state.root, leaves)
    state = store.state()
    _widen(store, state, [f for f in stored if f.nullable])
    newest = store.versions(state, np.arange(len(state.ids)))
    behind = [at for at, version in enumerate(newest) if state.pins[at].as_py() != version]
    _pin(store, state, behind, "repair", {})
    return {"registered": len(leaves), "taken over": len(behind)}


def add_column(store: LanceStore, field: pa.Field) -> None:
    """Give the table one more column, null in every row that it has: one write over all leaves and the root."""
    store.settle()
    state = store.state()
    if not field.nullable:
        raise SchemaError(f"column {field.name!r}: the rows that are there are null in it, so it must be nullable")
    if field.name.casefold() in {name.casefold() for name in state.schema.names}:
        raise SchemaError(f"the table has a column {field.name!r} already")
    if any(f.name.casefold() == field.name.casefold() for f in state.spec.fields):
        raise SchemaError(f"{field.name!r} is the name of a partition field")
    if not state.definition.left_out and _is_all_names(state) and len(state.ids):
        raise TableError(
            "every column of the table is in the names of its leaves, which hold them too for want of another; make a "
            f"new table with {field.name!r} in it, and append this one's rows"
        )
    check_name(field.name)
    check_type(field.name, field.type)
    text = schema_to_json(state.definition.arrow.append(field))
    column = schema_to_json(pa.schema([field]))
    leaves = [replace(_operation(state, place, "widen"), columns=column) for place in range(len(state.ids))]
    known = {operation.id for operation in leaves}

    def conflicts(ending: Ending) -> str | None:
        moved = any(name not in known or rows is None for name, _, rows, _ in ending.leaves)
        return "made or dropped partitions" if moved else None

    attempt = Attempt(ADD_COLUMN, leaves, conflicts, {"column": field.name}, schema=text)
    store.writes(state).commit(attempt, state.known)


def _is_all_names(state: LanceState) -> bool:
    known = {f.source for f in state.spec.fields if f.transform.name == "identity"}
    return known >= set(state.definition.arrow.names)


def _widen(store: LanceStore, state: LanceState, fields: Sequence[pa.Field]) -> None:
    """Give leaves the columns that they lack; one of another type is refused."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda place: widened(store.leaf(state, place), fields), range(len(state.ids))))


def _operation(state: LanceState, place: int, kind: str) -> Operation:
    return Operation(tuple(state.ids[place].as_py().split(BETWEEN)), state.locations[place].as_py(), kind)


def behind(store: LanceStore, where: Condition | None) -> pa.Table:
    """The leaves that others have written to since the last write of ours: path, version, newest version."""
    state = store.state()
    places = make_plan(state, where).kept
    newest = pa.array(store.versions(state, places), pa.int64())
    pins = state.pins.take(pa.array(places))
    found = pa.table({"path": state.files["path"].take(pa.array(places)), "version": pins, "newest": newest})
    return found.filter(pc.fill_null(pc.not_equal(pins, newest), fill_value=True))
