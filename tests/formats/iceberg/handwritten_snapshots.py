"""Tables as pyiceberg writes them, and snapshots with handwritten manifests, whose data files need not exist."""

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

from partita.formats.iceberg.catalogs import lake_catalog, load_table
from partita.formats.iceberg.create import create_table
from partita.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

    from partita.algebra.schema import Schema as Columns
    from partita.algebra.transforms import PartitionFunction

TABLE_NAME = "sales.orders"
_SNAPSHOT_IDS = count(1000)


def new_table(folder: Path, schema: Columns, functions: Sequence[PartitionFunction] = (), **properties: str) -> Table:
    """Create a table in a lake at that folder; property names have `_` for `-`."""
    catalog = lake_catalog(Storage.from_uri(folder))
    settings = {name.replace("_", "-"): value for name, value in properties.items()}
    return create_table(catalog, TABLE_NAME, f"{folder}/sales/orders", schema, functions, settings)


def reopen_table(folder: Path) -> Table:
    """Load the same table from its catalog."""
    return load_table(lake_catalog(Storage.from_uri(folder)), TABLE_NAME)


def data_file(path: str, *partition: Any, content: int = 0, rows: int = 10, spec_id: int = 0, **more: Any) -> DataFile:
    """Return a description of a data or delete file with those partition values."""
    fields = {
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
    file = DataFile.from_args(_table_format_version=3, **{**fields, **more})
    file.spec_id = spec_id
    return file


def added_entry(file: DataFile, **more: Any) -> ManifestEntry:
    """Return an entry that inherits its sequence numbers from the manifest list."""
    fields = {"status": ManifestEntryStatus.ADDED, "snapshot_id": None, "sequence_number": None, "data_file": file}
    return ManifestEntry.from_args(**{**fields, **more})


def existing_entry(file: DataFile, sequence_number: int | None, snapshot_id: int = 1) -> ManifestEntry:
    """Return an entry that an earlier snapshot added."""
    return added_entry(
        file,
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        file_sequence_number=sequence_number,
    )


class _AnyContentManifestWriter(ManifestWriterV2):
    """Writes manifests of deletes and of version 3, which pyiceberg doesn't."""

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


def write_manifest_file(
    table: Table,
    entries: Iterable[ManifestEntry],
    *,
    spec_id: int = 0,
    snapshot_id: int = 1,
    version: int | None = None,
) -> ManifestFile:
    """Write a manifest of those entries; it is a delete manifest if the first entry is a delete file."""
    entry_list = list(entries)
    content = (
        ManifestContent.DATA if entry_list[0].data_file.content == DataFileContent.DATA else ManifestContent.DELETES
    )
    output = table.io.new_output(f"{table.location()}/metadata/{uuid4()}-m0.avro")
    version = version or table.metadata.format_version
    arguments: Any = (table.specs()[spec_id], table.schema(), output, snapshot_id, "deflate")
    writer = (
        write_manifest(1, *arguments)
        if version == 1
        else _AnyContentManifestWriter(*arguments, content=content, version=version)
    )
    with writer:
        for entry in entry_list:
            if version == 1 and entry.snapshot_id is None:
                entry.snapshot_id = snapshot_id
            writer.add_entry(entry)
    return writer.to_manifest_file()


def commit_snapshot(
    table: Table,
    *groups: tuple[int, Iterable[ManifestEntry]],
    more: Sequence[ManifestFile] = (),
    version: int | None = None,
) -> Table:
    """Commit a snapshot with a manifest for each spec id and its entries, those in `more`, and the earlier ones."""
    snapshot_id, sequence_number = next(_SNAPSHOT_IDS), table.metadata.next_sequence_number()
    manifests = [
        write_manifest_file(table, entries, spec_id=spec_id, snapshot_id=snapshot_id, version=version)
        for spec_id, entries in groups
    ]
    parent_snapshot = table.metadata.current_snapshot()
    parent_manifests = [] if parent_snapshot is None else parent_snapshot.manifests(table.io)
    location = f"{table.location()}/metadata/snap-{snapshot_id}-{uuid4()}.avro"
    parent_id = None if parent_snapshot is None else parent_snapshot.snapshot_id
    with write_manifest_list(
        table.metadata.format_version, table.io.new_output(location), snapshot_id, parent_id, sequence_number, "deflate"
    ) as writer:
        writer.add_manifests([*manifests, *more, *parent_manifests])
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent_id,
            "sequence-number": sequence_number,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": location,
            "summary": Summary(Operation.APPEND),
            "schema-id": table.schema().schema_id,
        }
    )
    main = SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id})
    with table.transaction() as transaction:
        transaction._apply((AddSnapshotUpdate(snapshot=snapshot), main), ())
    return table


def as_version_3(table: Table, *fields: NestedField) -> Table:
    """Return the table with metadata of version 3, which pyiceberg reads but doesn't write, and with these columns."""
    document = json.loads(table.metadata.model_dump_json()) | {"format-version": 3, "next-row-id": 0}
    metadata: Any = TableMetadataUtil.parse_obj(document)
    if fields:
        metadata = metadata.model_copy(update={"schemas": [Schema(*fields, schema_id=0)]})
    table.metadata = metadata
    return table


def planned_paths(table: Table, where: str | None = None) -> set[str]:
    """Return the paths that pyiceberg plans to read."""
    scan = table.scan() if where is None else table.scan(row_filter=where)
    return {task.file.file_path for task in scan.plan_files()}
