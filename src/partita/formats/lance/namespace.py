"""The namespaces and leaves of a partitioned table in a directory namespace (Lance partition spec, sections 2, 3).

A directory namespace has a Lance dataset, `__manifest`, with a row for each namespace and table. An id is the path of
names from the top, joined with `$`. The root namespace is created through the API of lance-namespace. Leaves are
registered many at a time, for which that API has no call: one merge into the manifest, which is keyed by the id and
rejects a second row of the same id, whoever writes it.
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
from partita.formats.lance.leaf_dataset import translate_lance_errors
from partita.formats.lance.values import ID_SEPARATOR, LEAF_SUFFIX
from partita.storage import Storage

if TYPE_CHECKING:
    from lance import LanceDataset

MANIFEST_NAME = "__manifest"
IS_PARTITIONED_PROPERTY = "lance.partitioning.is_partitioned"
PARTITION_COLUMNS_PROPERTY = "lance.partitioning.partition_columns"
SCHEMA_PROPERTY = "lance.partitioning.schema"

_MANIFEST_COLUMNS = ["object_id", "object_type", "location", "metadata"]
_MANIFEST_RETRIES = 100
_SLICE_END = 1 << 20
"""More bytes than an id has; Arrow's `binary_slice` needs an end."""


@dataclass(frozen=True, slots=True)
class RootNamespace:
    """The root namespace of a partitioned table.

    `storage` is the folder of the directory namespace, `id` the id of the root namespace in it, and `folder` the folder
    of the table inside of it; empty if the table is in the same folder.
    """

    storage: Storage
    id: str
    folder: str = ""

    def leaf_location(self, names: Sequence[str]) -> str:
        """Return the location of a new leaf: its names as folders."""
        path = "/".join(names) + LEAF_SUFFIX
        return f"{self.folder}/{path}" if self.folder else path

    def open_manifest(self) -> LanceDataset:
        """Open the manifest at its newest version; raise `TableMissing` if there is none."""
        manifest = _open_manifest(self.storage)
        if manifest is None:
            raise TableMissing(self.storage.uri)
        return manifest


@dataclass(frozen=True, slots=True, eq=False)
class NamespaceTree:
    """A partitioned table as the manifest has it; `leaves` has their ids under the root and their locations."""

    root: RootNamespace
    properties: Mapping[str, str]
    leaves: pa.Table


def create_root_namespace(table: Storage, properties: Mapping[str, str]) -> RootNamespace:
    """Create the root namespace of a table, in a directory namespace of its own; raise `TableExists` if it exists."""
    from lance_namespace import CreateNamespaceRequest, connect
    from lance_namespace.errors import NamespaceAlreadyExistsError

    root = RootNamespace(table, PurePosixPath(table.uri).name)
    options = {f"storage.{name}": value for name, value in table.options}
    try:
        namespace = connect("dir", {"root": table.uri, **options})
        namespace.create_namespace(CreateNamespaceRequest(id=[root.id], properties=dict(properties)))
    except NamespaceAlreadyExistsError:
        raise TableExists(table.uri) from None
    return root


def has_namespace(table: Storage) -> bool:
    """Whether a folder has a directory namespace of its own."""
    return next(table.list_paths(f"{MANIFEST_NAME}/_versions"), None) is not None


def read_namespace_tree(table: Storage) -> NamespaceTree:
    """Read the table of a folder in one pass over the manifest; raise `TableMissing` if there is none.

    The manifest is in the folder itself or in one above it; in the latter the root's id is the path from there.
    """
    tree = _read_tree_in(table, "")
    parent, folder = table.uri.rstrip("/"), ""
    for _ in range(_MAX_NAMESPACE_DEPTH):
        if tree is not None:
            return tree
        parent, _, name = parent.rpartition("/")
        folder = f"{name}/{folder}" if folder else name
        if not parent or parent.endswith(":/"):
            break
        tree = _read_tree_in(table.with_uri(parent), folder)
    if tree is None:
        raise TableMissing(table.uri)
    return tree


_MAX_NAMESPACE_DEPTH = 4
"""Maximum number of levels between a table and the folder with its manifest."""


def _read_tree_in(storage: Storage, folder: str) -> NamespaceTree | None:
    """Return the table of a folder below that of a manifest, or in the same folder if `folder` is empty."""
    manifest = _open_manifest(storage)
    if manifest is None:
        return None
    with translate_lance_errors(MANIFEST_NAME):
        rows = manifest.to_table(columns=_MANIFEST_COLUMNS)
    name = folder.replace("/", ID_SEPARATOR) or PurePosixPath(storage.uri).name
    roots = _root_namespaces(rows)
    if name in roots:
        root_id = name
    elif not folder and len(roots) == 1:
        root_id = next(iter(roots))
    elif not folder and roots:
        raise TableError(
            f"{storage.uri} has several partitioned tables: {', '.join(roots)}; open the folder of one of them"
        )
    else:
        return None
    return NamespaceTree(RootNamespace(storage, root_id, folder), roots[root_id], _leaves_below(rows, root_id))


def leaf_ids(root: RootNamespace) -> pa.Array:
    """Return the ids of all leaves under the root, in the manifest's order."""
    with translate_lance_errors(MANIFEST_NAME):
        rows = root.open_manifest().to_table(columns=["object_id", "object_type", "location"])
    return _leaves_below(rows, root.id)["id"].combine_chunks()


def _leaves_below(rows: pa.Table, root_id: str) -> pa.Table:
    """Return the leaves under a namespace: ids relative to it, and locations."""
    prefix = root_id + ID_SEPARATOR
    is_leaf = pc.and_(pc.equal(rows["object_type"], "table"), pc.starts_with(rows["object_id"], prefix))
    leaves = rows.select(["object_id", "location"]).filter(is_leaf)
    ids = pc.binary_slice(leaves["object_id"].cast(pa.binary()), len(prefix.encode()), _SLICE_END).cast(pa.string())
    return pa.table({"id": ids, "location": leaves["location"]})


def _root_namespaces(rows: pa.Table) -> dict[str, dict[str, str]]:
    """Return the properties of the namespaces that are roots of partitioned tables, by id."""
    with_metadata = rows.filter(pc.is_valid(rows["metadata"]))
    candidates = with_metadata.filter(pc.match_substring(with_metadata["metadata"], IS_PARTITIONED_PROPERTY))
    roots = {}
    for row in candidates.to_pylist():
        properties = json.loads(row["metadata"])
        if row["object_type"] == "namespace" and properties.get(IS_PARTITIONED_PROPERTY) == "true":
            roots[row["object_id"]] = properties
    return roots


def register_leaves(root: RootNamespace, leaves: Iterable[tuple[Sequence[str], str]]) -> int:
    """Register leaves, given by names and location, and the namespaces above them, in one change of the manifest.

    Registered ones stay as they are. Returns the number of new rows.
    """
    rows: dict[str, tuple[str, str | None]] = {}
    for names, location in leaves:
        for depth in range(1, len(names)):
            rows.setdefault(ID_SEPARATOR.join((root.id, *names[:depth])), ("namespace", None))
        rows[ID_SEPARATOR.join((root.id, *names))] = ("table", location)
    if not rows:
        return 0
    manifest = root.open_manifest()
    columns: dict[str, list[str | None]] = {
        "object_id": [*rows],
        "object_type": [kind for kind, _ in rows.values()],
        "location": [location for _, location in rows.values()],
    }
    with translate_lance_errors(MANIFEST_NAME):
        merge = manifest.merge_insert("object_id").when_not_matched_insert_all().conflict_retries(_MANIFEST_RETRIES)
        statistics = merge.execute(_manifest_rows(columns, manifest.schema))
    return int(statistics["num_inserted_rows"])


def deregister_leaves(root: RootNamespace, ids: Sequence[str]) -> None:
    """Remove leaves, and namespaces without other leaves, from the manifest in one change."""
    if not ids:
        return
    manifest = root.open_manifest()
    with translate_lance_errors(MANIFEST_NAME):
        rows = manifest.to_table(columns=["object_id", "object_type"])
        removed_ids = {ID_SEPARATOR.join((root.id, leaf_id)) for leaf_id in ids}
        remaining_ids = [i for i, t in zip(rows["object_id"].to_pylist(), rows["object_type"].to_pylist(), strict=True)
                     if t == "table" and i not in removed_ids]  # fmt: skip
        used_namespaces = {i[:end] for i in remaining_ids for end, c in enumerate(i) if c == ID_SEPARATOR}
        namespaces = {
            i[:end] for i in removed_ids for end, c in enumerate(i) if c == ID_SEPARATOR and end > len(root.id)
        }
        object_ids = sorted(removed_ids | (namespaces - used_namespaces))
        literals = ", ".join("'" + object_id.replace("'", "''") + "'" for object_id in object_ids)
        manifest.delete(f"object_id IN ({literals})", conflict_retries=_MANIFEST_RETRIES)


def namespace_properties(root: RootNamespace) -> dict[str, str]:
    """Return the current properties of the root namespace; raise `TableMissing` if it is gone."""
    with translate_lance_errors(MANIFEST_NAME):
        roots = _root_namespaces(root.open_manifest().to_table(columns=_MANIFEST_COLUMNS))
    if root.id not in roots:
        raise TableMissing(root.storage.uri)
    return roots[root.id]


def set_namespace_properties(root: RootNamespace, properties: Mapping[str, str]) -> None:
    """Replace the properties of the root namespace; lance-namespace has no call for that."""
    manifest = root.open_manifest()
    columns: dict[str, list[str | None]] = {
        "object_id": [root.id],
        "object_type": ["namespace"],
        "metadata": [json.dumps(dict(properties))],
    }
    with translate_lance_errors(MANIFEST_NAME):
        merge = manifest.merge_insert("object_id").when_matched_update_all().conflict_retries(_MANIFEST_RETRIES)
        merge.execute(_manifest_rows(columns, manifest.schema))


def _manifest_rows(columns: Mapping[str, list[str | None]], schema: pa.Schema) -> pa.Table:
    """Return rows of the manifest; columns that are not given are null."""
    size = len(columns["object_id"])
    return pa.table(
        [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(size, f.type) for f in schema],
        schema=schema,
    )


def _open_manifest(storage: Storage) -> LanceDataset | None:
    import lance

    with translate_lance_errors(MANIFEST_NAME):
        try:
            return lance.dataset(f"{storage.uri}/{MANIFEST_NAME}", storage_options=dict(storage.options) or None)
        except ValueError as error:
            if "was not found" in str(error):
                return None
            raise
