"""Classic checkpoints, in one Parquet file or in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partita.errors import StorageError, TableError, UnsupportedFeature
from partita.formats.delta.log.commits import vector_ids, vector_path
from partita.formats.delta.log.segment import Checkpoint
from partita.formats.delta.log.snapshot import files_schema
from partita.storage import Storage


def checkpoint_actions(storage: Storage, checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """The protocol, the metadata and the transactions, as a commit would have them."""
    return [action for path in checkpoint.paths for action in _small_actions(storage, path)]


def checkpoint_files(storage: Storage, checkpoint: Checkpoint, partitions: Sequence[str]) -> pa.Table:
    """The files of a checkpoint, in the columns of `Snapshot.files`."""
    return pa.concat_tables(_files(_read(storage, path, _of_files), partitions) for path in checkpoint.paths)


def checkpoint_removes(storage: Storage, checkpoint: Checkpoint) -> pa.Table:
    """The files that a checkpoint says went: `path` and `deletion_vector`, the vector's unique id or null."""
    return pa.concat_tables(_removes(_read(storage, path, _of_removes)) for path in checkpoint.paths)


def checkpoint_paths(storage: Storage, checkpoint: Checkpoint) -> Iterator[str]:
    """The paths of the files of a checkpoint, and of those that it says went, and those of their deletion vectors."""
    for part in checkpoint.paths:
        table = _read(storage, part, _of_paths)
        for name in table.column_names:
            actions = table[name].drop_null()
            yield from pc.struct_field(actions, "path").to_pylist()
            if "deletionVector" in {field.name for field in actions.type}:
                vectors = pc.struct_field(actions, "deletionVector").drop_null().to_pylist()
                yield from (path for vector in vectors if (path := vector_path(vector)) is not None)


_SMALL = ("protocol", "metaData", "txn")
_OF_V2 = ("checkpointMetadata", "sidecar")
_FIELDS = ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector")


def _of_actions(schema: pa.Schema) -> list[str]:
    return [name for name in (*_SMALL, *_OF_V2) if name in schema.names]


def _of_files(schema: pa.Schema) -> list[str]:
    known = {f.name for f in schema.field("add").type} if "add" in schema.names else set()
    return [f"add.{name}" for name in _FIELDS if name in known]


def _of_removes(schema: pa.Schema) -> list[str]:
    known = {f.name for f in schema.field("remove").type} if "remove" in schema.names else set()
    return [f"remove.{name}" for name in ("path", "deletionVector") if name in known]


def _removes(table: pa.Table) -> pa.Table:
    if "remove" not in table.schema.names:
        return pa.table({"path": pa.nulls(0, pa.string()), "deletion_vector": pa.nulls(0, pa.string())})
    remove = table["remove"].drop_null()
    has_vectors = "deletionVector" in {f.name for f in remove.type}
    vector = vector_ids(pc.struct_field(remove, "deletionVector")) if has_vectors else _nulls(pa.string(), remove)
    return pa.table({"path": pc.struct_field(remove, "path"), "deletion_vector": vector})


def _of_paths(schema: pa.Schema) -> list[str]:
    wanted = []
    for name in (name for name in ("add", "remove") if name in schema.names):
        known = {field.name for field in schema.field(name).type}
        wanted += [f"{name}.{inner}" for inner in ("path", "deletionVector") if inner in known]
    return wanted


def _read(storage: Storage, path: str, wanted: Any) -> pa.Table:
    try:
        with storage.open_input(path) as file, pq.ParquetFile(file) as parquet:
            return parquet.read(columns=wanted(parquet.schema_arrow))
    except StorageError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"the checkpoint {path} can't be read: {error}") from error


def _small_actions(storage: Storage, path: str) -> Iterator[dict[str, Any]]:
    table = _read(storage, path, _of_actions)
    if any(name in table.schema.names and table[name].null_count < len(table) for name in _OF_V2):
        raise UnsupportedFeature(("v2Checkpoint",), "reading")
    for name in (name for name in _SMALL if name in table.schema.names):
        yield from ({name: _plain(action)} for action in table[name].drop_null().to_pylist())


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    """An action as JSON has it: maps as dicts."""
    plain = dict(action)
    if "configuration" in plain:
        plain["configuration"] = dict(plain["configuration"] or ())
    if plain.get("format"):
        plain["format"] = {**plain["format"], "options": dict(plain["format"].get("options") or ())}
    return plain


def _files(table: pa.Table, partitions: Sequence[str]) -> pa.Table:
    schema = files_schema(partitions)
    if "add" not in table.schema.names:
        return schema.empty_table()
    add = table["add"].drop_null()
    known = {f.name for f in add.type}
    columns = {name: pc.struct_field(add, name) for name in _FIELDS if name in known}
    vector = vector_ids(columns["deletionVector"]) if "deletionVector" in known else _nulls(pa.string(), add)
    return pa.Table.from_arrays(
        [
            columns["path"],
            _looked_up(columns["partitionValues"], partitions),
            columns["size"],
            columns["modificationTime"],
            columns.get("stats", _nulls(pa.string(), add)),
            pc.is_valid(vector),
            vector,
        ],
        schema=schema,
    )


def _looked_up(maps: pa.ChunkedArray, partitions: Sequence[str]) -> pa.ChunkedArray:
    """The values of the partition columns out of maps, as structs."""
    chunks = [
        structs([pc.map_lookup(chunk, name, "first") for name in partitions], partitions, len(chunk))
        for chunk in maps.chunks
    ]
    return pa.chunked_array(chunks, pa.struct([(name, pa.string()) for name in partitions]))


def structs(columns: Sequence[pa.Array], names: Sequence[str], size: int) -> pa.Array:
    """Structs of those columns; of a length of their own, for a struct may have no fields."""
    type_ = pa.struct([(name, pa.string()) for name in names])
    return pa.Array.from_buffers(type_, size, [None], children=list(columns))


def _nulls(type_: pa.DataType, like: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(len(like), type_)])
