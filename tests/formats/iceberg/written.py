"""Tables as pyiceberg writes them, and snapshots whose manifests are made by hand, of files that need not exist."""

from __future__ import annotations

import json
import time
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from partita.formats.iceberg.catalogs import create, lake_catalog, load
from partita.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

    from partita.algebra.schema import Schema as Columns
    from partita.algebra.transforms import PartitionFunction

NAME = "sales.orders"
_SNAPSHOTS = count(1000)


def new_table(folder: Path, schema: Columns, functions: Sequence[PartitionFunction] = (), **properties: str) -> Table:
    """A table in a lake at that folder; properties by their names with `_` for `-`."""
    catalog = lake_catalog(Storage.at(folder))
    settings = {name.replace("_", "-"): value for name, value in properties.items()}
    return create(catalog, NAME, f"{folder}/sales/orders", schema, functions, settings)


def reopened(folder: Path) -> Table:
    """The same table, as its catalog has it now."""
    return load(lake_catalog(Storage.at(folder)), NAME)


def file_of(path: str, *partition: Any, content: int = 0, rows: int = 10, spec_id: int = 0, **more: Any) -> DataFile:
    """A data or delete file of those partition values."""
    given = {
        "content": DataFileContent(content),
        "file_path": path,
        "file_format": FileFormat.PARQUET,
        "partition": Record(*partition),
        "record_count": rows,
        "file_size_in_bytes": 100 * rows,
        "column_sizes": None,
        "value_counts": None,
        "null_value_counts": None,
        "nan_value_counts": None,
        "lower_bounds": None,
        "upper_bounds": None,
        "key_metadata": None,
        "split_offsets": None,
        "equality_ids": None,
        "sort_order_id": None,
    }
    made = DataFile.from_args(_table_format_version=3, **{**given, **more})
    made.spec_id = spec_id
    return made


def added(file: DataFile, **more: Any) -> ManifestEntry:
    """An entry that leaves its numbers to the manifest list."""
    given = {"status": ManifestEntryStatus.ADDED, "snapshot_id": None, "sequence_number": None, "data_file": file}
    return ManifestEntry.from_args(**{**given, **more})


def existing(file: DataFile, sequence_number: int | None, snapshot_id: int = 1) -> ManifestEntry:
    """An entry that an earlier snapshot added."""
    return added(
        file,
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        file_sequence_number=sequence_number,
    )


class _Writer(ManifestWriterV2):
    """Manifests of deletes, and of version 3, which pyiceberg writes none of."""

    def __init__(self, *args: Any, content: ManifestContent, version: int) -> None:
        super().__init__(*args)
        self._content = content
        self._version = version

    def content(self) -> ManifestContent:
        return self._content

    @property
    def version(self) -> Any:
        return self._version

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(self.version)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )


def manifest(
    table: Table,
    entries: Iterable[ManifestEntry],
    *,
    spec_id: int = 0,
    snapshot_id: int = 1,
    version: int | None = None,
) -> ManifestFile:
    """A manifest of those entries, of deletes where the first is one."""
    given = list(entries)
    content = ManifestContent.DATA if given[0].data_file.content == DataFileContent.DATA else ManifestContent.DELETES
    out = table.io.new_output(f"{table.location()}/metadata/{uuid4()}-m0.avro")
    version = version or table.metadata.format_version
    parts: Any = (table.specs()[spec_id], table.schema(), out, snapshot_id, "deflate")
    writer = write_manifest(1, *parts) if version == 1 else _Writer(*parts, content=content, version=version)
    with writer:
        for entry in given:
            if version == 1 and entry.snapshot_id is None:
                entry.snapshot_id = snapshot_id
            writer.add_entry(entry)
    return writer.to_manifest_file()


def snapshot(
    table: Table,
    *groups: tuple[int, Iterable[ManifestEntry]],
    more: Sequence[ManifestFile] = (),
    version: int | None = None,
) -> Table:
    """The table with a snapshot of a manifest for each spec id and its entries, and of those in `more`."""
    number, sequence = next(_SNAPSHOTS), table.metadata.next_sequence_number()
    made = [
        manifest(table, entries, spec_id=spec_id, snapshot_id=number, version=version) for spec_id, entries in groups
    ]
    before = table.metadata.current_snapshot()
    older = [] if before is None else before.manifests(table.io)
    location = f"{table.location()}/metadata/snap-{number}-{uuid4()}.avro"
    parent = None if before is None else before.snapshot_id
    with write_manifest_list(
        table.metadata.format_version, table.io.new_output(location), number, parent, sequence, "deflate"
    ) as writer:
        writer.add_manifests([*made, *more, *older])
    new = Snapshot.model_validate(
        {
            "snapshot-id": number,
            "parent-snapshot-id": parent,
            "sequence-number": sequence,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": location,
            "summary": Summary(Operation.APPEND),
            "schema-id": table.schema().schema_id,
        }
    )
    main = SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": number})
    with table.transaction() as transaction:
        transaction._apply((AddSnapshotUpdate(snapshot=new), main), ())
    return table


def as_version_3(table: Table, *fields: NestedField) -> Table:
    """The table with metadata of version 3, which pyiceberg reads and doesn't write; and with these columns."""
    document = json.loads(table.metadata.model_dump_json()) | {"format-version": 3, "next-row-id": 0}
    metadata: Any = TableMetadataUtil.parse_obj(document)
    if fields:
        metadata = metadata.model_copy(update={"schemas": [Schema(*fields, schema_id=0)]})
    table.metadata = metadata
    return table


def plan_of(table: Table, where: str | None = None) -> set[str]:
    """The paths that pyiceberg plans to read."""
    scan = table.scan() if where is None else table.scan(row_filter=where)
    return {task.file.file_path for task in scan.plan_files()}
