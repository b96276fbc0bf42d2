"""The tree of a partitioned table in lance-namespace's directory namespace (seed 001, sections 2 and 3).

A directory namespace keeps one row for each namespace and table in a Lance data set, `__manifest`, where an id is the
names from the top with `$` between them. The root is made through lance-namespace's own API. Leaves are registered
many at a time, which its API has no call for: one merge into the manifest, which is keyed by the id and refuses two
rows of one, whoever writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from partita.errors import TableError, TableExists, TableMissing
from partita.formats.lance.leaf import translated
from partita.formats.lance.names import LEAF
from partita.storage import Storage

if TYPE_CHECKING:
    from lance import LanceDataset

MANIFEST = "__manifest"
BETWEEN = "$"
IS_PARTITIONED = "lance.partitioning.is_partitioned"
PARTITION_COLUMNS = "lance.partitioning.partition_columns"
SCHEMA = "lance.partitioning.schema"

_COLUMNS = ["object_id", "object_type", "location", "metadata"]
_RETRIES = 100
_LONGEST = 1 << 20
"""More bytes than an id has: Arrow takes none for "to the end" here."""


@dataclass(frozen=True, slots=True)
class Root:
    """The root namespace of a partitioned table.

    `storage` is the folder of the directory namespace, `id` the root's own id there, and `folder` the folder of the
    table inside of it: nothing where the two are one.
    """

    storage: Storage
    id: str
    folder: str = ""

    def location(self, names: Sequence[str]) -> str:
        """Where a new leaf goes: the tree of names as folders."""
        path = "/".join(names) + LEAF
        return f"{self.folder}/{path}" if self.folder else path

    def manifest(self) -> LanceDataset:
        """The manifest at its newest version."""
        found = _manifest(self.storage)
        if found is None:
            raise TableMissing(self.storage.uri)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A partitioned table as the manifest has it: `leaves` are the ids under the root, and locations."""

    root: Root
    properties: Mapping[str, str]
    leaves: pa.Table


def create_root(table: Storage, properties: Mapping[str, str]) -> Root:
    """Make the root namespace of a table, in a directory namespace of its own; one that exists is `TableExists`."""
    from lance_namespace import CreateNamespaceRequest, connect
    from lance_namespace.errors import NamespaceAlreadyExistsError

    root = Root(table, PurePosixPath(table.uri).name)
    options = {f"storage.{name}": value for name, value in table.options}
    try:
        namespace = connect("dir", {"root": table.uri, **options})
        namespace.create_namespace(CreateNamespaceRequest(id=[root.id], properties=dict(properties)))
    except NamespaceAlreadyExistsError:
        raise TableExists(table.uri) from None
    return root


def is_there(table: Storage) -> bool:
    """Whether a folder has a directory namespace of its own."""
    return next(table.list(f"{MANIFEST}/_versions"), None) is not None


def read_tree(table: Storage) -> Tree:
    """The table in a folder, by one pass over the manifest.

    The manifest is the folder's own, or that of a folder above, where the root's id are the names from there.
    """
    found = _tree_in(table, "")
    above, folder = table.uri.rstrip("/"), ""
    for _ in range(_DEEPEST):
        if found is not None:
            return found
        above, _, name = above.rpartition("/")
        folder = f"{name}/{folder}" if folder else name
        if not above or above.endswith(":/"):
            break
        found = _tree_in(Storage(above, table.options), folder)
    if found is None:
        raise TableMissing(table.uri)
    return found


_DEEPEST = 4
"""Levels of namespaces above a table, for which others may have one manifest."""


def _tree_in(storage: Storage, folder: str) -> Tree | None:
    """The table in a folder below that of a manifest; with no folder, the one that is in the manifest's own."""
    manifest = _manifest(storage)
    if manifest is None:
        return None
    with translated(MANIFEST):
        rows = manifest.to_table(columns=_COLUMNS)
    name = folder.replace("/", BETWEEN) or PurePosixPath(storage.uri).name
    roots = _roots(rows)
    if name in roots:
        root_id = name
    elif not folder and len(roots) == 1:
        root_id = next(iter(roots))
    elif not folder and roots:
        raise TableError(f"{storage.uri} has several partitioned tables: {', '.join(roots)}; open the folder of one")
    else:
        return None
    return Tree(Root(storage, root_id, folder), roots[root_id], _below(rows, root_id))


def leaf_ids(root: Root) -> pa.Array:
    """The ids of all leaves under the root, in the manifest's order."""
    with translated(MANIFEST):
        rows = root.manifest().to_table(columns=["object_id", "object_type", "location"])
    return _below(rows, root.id)["id"].combine_chunks()


def _below(rows: pa.Table, root_id: str) -> pa.Table:
    """The tables under a namespace: ids under it, and locations."""
    prefix = root_id + BETWEEN
    is_leaf = pc.and_(pc.equal(rows["object_type"], "table"), pc.starts_with(rows["object_id"], prefix))
    below = rows.select(["object_id", "location"]).filter(is_leaf)
    ids = pc.binary_slice(below["object_id"].cast(pa.binary()), len(prefix.encode()), _LONGEST).cast(pa.string())
    return pa.table({"id": ids, "location": below["location"]})


def _roots(rows: pa.Table) -> dict[str, dict[str, str]]:
    """The namespaces that are roots of partitioned tables, with their properties."""
    described = rows.filter(pc.is_valid(rows["metadata"]))
    spaces = described.filter(pc.match_substring(described["metadata"], IS_PARTITIONED))
    found = {}
    for row in spaces.to_pylist():
        properties = json.loads(row["metadata"])
        if row["object_type"] == "namespace" and properties.get(IS_PARTITIONED) == "true":
            found[row["object_id"]] = properties
    return found


def register(root: Root, leaves: Iterable[tuple[Sequence[str], str]]) -> int:
    """Add leaves, given by names and location, and the namespaces above them, in one change of the manifest.

    What is registered already stays as it is. Returns how many rows are new.
    """
    rows: dict[str, tuple[str, str | None]] = {}
    for names, location in leaves:
        for depth in range(1, len(names)):
            rows.setdefault(BETWEEN.join((root.id, *names[:depth])), ("namespace", None))
        rows[BETWEEN.join((root.id, *names))] = ("table", location)
    if not rows:
        return 0
    manifest = root.manifest()
    columns: dict[str, list[str | None]] = {
        "object_id": [*rows],
        "object_type": [kind for kind, _ in rows.values()],
        "location": [location for _, location in rows.values()],
    }
    with translated(MANIFEST):
        merge = manifest.merge_insert("object_id").when_not_matched_insert_all().conflict_retries(_RETRIES)
        told = merge.execute(_filled(columns, manifest.schema))
    return int(told["num_inserted_rows"])


def deregister(root: Root, ids: Sequence[str]) -> None:
    """Take leaves out of the manifest, with the namespaces that hold nothing else, in one change."""
    if not ids:
        return
    manifest = root.manifest()
    with translated(MANIFEST):
        rows = manifest.to_table(columns=["object_id", "object_type"])
        gone = {BETWEEN.join((root.id, one)) for one in ids}
        kept = [i for i, t in zip(rows["object_id"].to_pylist(), rows["object_type"].to_pylist(), strict=True)
                if t == "table" and i not in gone]  # fmt: skip
        needed = {i[:at] for i in kept for at, c in enumerate(i) if c == BETWEEN}
        above = {i[:at] for i in gone for at, c in enumerate(i) if c == BETWEEN and at > len(root.id)}
        empty = sorted(gone | (above - needed))
        listed = ", ".join("'" + one.replace("'", "''") + "'" for one in empty)
        manifest.delete(f"object_id IN ({listed})", conflict_retries=_RETRIES)


def properties_of(root: Root) -> dict[str, str]:
    """The properties of the root namespace as they are now."""
    with translated(MANIFEST):
        found = _roots(root.manifest().to_table(columns=_COLUMNS))
    if root.id not in found:
        raise TableMissing(root.storage.uri)
    return found[root.id]


def set_properties(root: Root, properties: Mapping[str, str]) -> None:
    """Give the root namespace other properties; lance-namespace has no call for that."""
    manifest = root.manifest()
    columns: dict[str, list[str | None]] = {
        "object_id": [root.id],
        "object_type": ["namespace"],
        "metadata": [json.dumps(dict(properties))],
    }
    with translated(MANIFEST):
        merge = manifest.merge_insert("object_id").when_matched_update_all().conflict_retries(_RETRIES)
        merge.execute(_filled(columns, manifest.schema))


def _filled(columns: Mapping[str, list[str | None]], schema: pa.Schema) -> pa.Table:
    """Rows of the manifest, null in what is not given."""
    size = len(columns["object_id"])
    return pa.table(
        [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(size, f.type) for f in schema],
        schema=schema,
    )


def _manifest(storage: Storage) -> LanceDataset | None:
    import lance

    with translated(MANIFEST):
        try:
            return lance.dataset(f"{storage.uri}/{MANIFEST}", storage_options=dict(storage.options) or None)
        except ValueError as error:
            if "was not found" in str(error):
                return None
            raise
