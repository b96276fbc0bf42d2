"""Read classic checkpoints, in one Parquet file or in several parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partita.errors import StorageError, TableError, UnsupportedFeature
from partita.formats.delta.log.commit_files import deletion_vector_ids, deletion_vector_path
from partita.formats.delta.log.partition_values import partition_value_structs
from partita.formats.delta.log.segment import Checkpoint
from partita.formats.delta.log.snapshot import files_schema
from partita.storage import Storage


def checkpoint_actions(storage: Storage, checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """Return the `protocol`, `metaData` and `txn` actions of a checkpoint, in the form that commits have them."""
    return [action for path in checkpoint.paths for action in _read_non_file_actions(storage, path)]


def checkpoint_files(storage: Storage, checkpoint: Checkpoint, partition_names: Sequence[str]) -> pa.Table:
    """Return the files of a checkpoint, with the columns of `DeltaSnapshot.files`."""
    return pa.concat_tables(
        _added_file_rows(_read_checkpoint_part(storage, path, _add_columns), partition_names)
        for path in checkpoint.paths
    )


def checkpoint_removed_files(storage: Storage, checkpoint: Checkpoint) -> pa.Table:
    """Return the removed files of a checkpoint: `path`, and the unique id of the `deletion_vector` or null."""
    return pa.concat_tables(
        _removed_file_rows(_read_checkpoint_part(storage, path, _remove_columns)) for path in checkpoint.paths
    )


def checkpoint_file_paths(storage: Storage, checkpoint: Checkpoint) -> Iterator[str]:
    """Return the paths of the added and removed files of a checkpoint, and of their deletion vectors."""
    for part in checkpoint.paths:
        table = _read_checkpoint_part(storage, part, _path_columns)
        for name in table.column_names:
            actions = table[name].drop_null()
            yield from pc.struct_field(actions, "path").to_pylist()
            if "deletionVector" in {field.name for field in actions.type}:
                vectors = pc.struct_field(actions, "deletionVector").drop_null().to_pylist()
                yield from (path for vector in vectors if (path := deletion_vector_path(vector)) is not None)


_NON_FILE_ACTIONS = ("protocol", "metaData", "txn")
_V2_ACTIONS = ("checkpointMetadata", "sidecar")
_ADD_FIELDS = ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector")
_PATH_FIELDS = ("path", "deletionVector")


def _non_file_columns(schema: pa.Schema) -> list[str]:
    return [name for name in (*_NON_FILE_ACTIONS, *_V2_ACTIONS) if name in schema.names]


def _add_columns(schema: pa.Schema) -> list[str]:
    return [f"add.{name}" for name in _ADD_FIELDS if name in _action_fields(schema, "add")]


def _remove_columns(schema: pa.Schema) -> list[str]:
    return [f"remove.{name}" for name in _PATH_FIELDS if name in _action_fields(schema, "remove")]


def _path_columns(schema: pa.Schema) -> list[str]:
    return [
        f"{kind}.{name}" for kind in ("add", "remove") for name in _PATH_FIELDS if name in _action_fields(schema, kind)
    ]


def _action_fields(schema: pa.Schema, kind: str) -> set[str]:
    """Return the names of the fields that the actions of one kind have in a checkpoint."""
    return {f.name for f in schema.field(kind).type} if kind in schema.names else set()


def _removed_file_rows(table: pa.Table) -> pa.Table:
    if "remove" not in table.schema.names:
        return pa.table({"path": pa.nulls(0, pa.string()), "deletion_vector": pa.nulls(0, pa.string())})
    remove = table["remove"].drop_null()
    has_vectors = "deletionVector" in {f.name for f in remove.type}
    vector = (
        deletion_vector_ids(pc.struct_field(remove, "deletionVector"))
        if has_vectors
        else _null_column(pa.string(), remove)
    )
    return pa.table({"path": pc.struct_field(remove, "path"), "deletion_vector": vector})


def _read_checkpoint_part(storage: Storage, path: str, select_columns: Any) -> pa.Table:
    try:
        with storage.open_input(path) as file, pq.ParquetFile(file) as parquet:
            return parquet.read(columns=select_columns(parquet.schema_arrow))
    except StorageError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"the checkpoint {path} can't be read: {error}") from error


def _read_non_file_actions(storage: Storage, path: str) -> Iterator[dict[str, Any]]:
    table = _read_checkpoint_part(storage, path, _non_file_columns)
    if any(name in table.schema.names and table[name].null_count < len(table) for name in _V2_ACTIONS):
        raise UnsupportedFeature(("v2Checkpoint",), "reading")
    for name in (name for name in _NON_FILE_ACTIONS if name in table.schema.names):
        yield from ({name: _json_action(action)} for action in table[name].drop_null().to_pylist())


def _json_action(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action in the form of a commit: maps as dicts."""
    plain = dict(action)
    if "configuration" in plain:
        plain["configuration"] = dict(plain["configuration"] or ())
    if plain.get("format"):
        plain["format"] = {**plain["format"], "options": dict(plain["format"].get("options") or ())}
    return plain


def _added_file_rows(table: pa.Table, partition_names: Sequence[str]) -> pa.Table:
    schema = files_schema(partition_names)
    if "add" not in table.schema.names:
        return schema.empty_table()
    add = table["add"].drop_null()
    existing_fields = {f.name for f in add.type}
    columns = {name: pc.struct_field(add, name) for name in _ADD_FIELDS if name in existing_fields}
    vector = (
        deletion_vector_ids(columns["deletionVector"])
        if "deletionVector" in columns
        else _null_column(pa.string(), add)
    )
    return pa.Table.from_arrays(
        [
            columns["path"],
            _partition_values_from_maps(columns["partitionValues"], partition_names),
            columns["size"],
            columns["modificationTime"],
            columns.get("stats", _null_column(pa.string(), add)),
            pc.is_valid(vector),
            vector,
        ],
        schema=schema,
    )


def _partition_values_from_maps(maps: pa.ChunkedArray, partition_names: Sequence[str]) -> pa.ChunkedArray:
    """Convert maps of partition values to structs with a field for each partition column."""
    chunks = [
        partition_value_structs(
            [pc.map_lookup(chunk, name, "first") for name in partition_names], partition_names, len(chunk)
        )
        for chunk in maps.chunks
    ]
    return pa.chunked_array(chunks, pa.struct([(name, pa.string()) for name in partition_names]))


def _null_column(type_: pa.DataType, like: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(len(like), type_)])
