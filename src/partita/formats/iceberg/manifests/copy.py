"""Large manifests handled as bytes: remaining entries are copied undecoded, and paths are searched in bytes.

An entry that stays differs from the original only in its head: status, snapshot id and sequence numbers. A block whose
entries all stay unchanged is copied as it is. In any other block, an entry starts where the bytes of its head and its
path are; both are known from the decoded records. Those bytes must occur exactly once in the block, else the position
would be ambiguous. A manifest where that fails, or whose layout differs from that of Iceberg's writers, raises
`ManifestNotCopyable`: its entries have to be decoded and encoded.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import dense_array, null_mask
from partita.formats.iceberg.manifests.avro import (
    AvroContainer,
    encode_long,
    read_container_and_records,
    read_record_bytes,
)
from partita.formats.iceberg.manifests.entries import plain_values
from partita.formats.iceberg.manifests.schema import (
    ADDED,
    CONTENT_ID,
    DATA_FILE_ID,
    DELETED,
    EXISTING,
    FILE_SEQUENCE_NUMBER_ID,
    PARTITION_ID,
    PATH_ID,
    RECORD_COUNT_ID,
    SEQUENCE_NUMBER_ID,
    SNAPSHOT_ID,
    STATUS_ID,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec

    from partita.arrow.buffers import Bools, Ints

_HEAD_FIELD_IDS = {STATUS_ID, SNAPSHOT_ID, SEQUENCE_NUMBER_ID, FILE_SEQUENCE_NUMBER_ID}
_OPTIONAL_LONG = ["null", "long"]
_COMPRESSION_LEVEL = 3
"""zlib level of rewritten blocks: twice as fast as the default, for a fifth more bytes."""
_MIN_PREFIX_LENGTH = 8
"""Bytes that paths must have in common to be searched for in a manifest's bytes."""


class ManifestNotCopyable(Exception):
    """The entries of a manifest can't be located in its bytes."""


@dataclass(frozen=True, slots=True)
class ManifestCopy:
    """The bytes of a manifest to write, and the values of its manifest list row.

    `partition_values` are the distinct values of each partition field.
    """

    data: bytes
    file_count: int
    row_count: int
    min_sequence_number: int | None
    partition_values: Sequence[list[Any]]


def open_copyable_manifest(
    io: FileIO, manifest: ManifestFile, spec: PartitionSpec, format_version: int
) -> CopyableManifest:
    """Read a manifest of a table of that format version; raise `ManifestNotCopyable` if its layout is another."""
    container, records = read_container_and_records(io, manifest.manifest_path)
    try:
        head_fields, starts_with_content = _entry_layout(container.header, spec, format_version)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ManifestNotCopyable from error
    return CopyableManifest(manifest, container, head_fields, starts_with_content, records)


def _entry_layout(
    header: Mapping[bytes, bytes], spec: PartitionSpec, format_version: int
) -> tuple[Mapping[int, bool], bool]:
    """Return the head fields, with whether each is optional, and whether a data file starts with its content."""
    schema: Any = json.loads(header[b"avro.schema"])
    types = {field.get("field-id"): field["type"] for field in schema["fields"]}
    *head_ids, last_id = types
    file_fields = types[DATA_FILE_ID]["fields"] if isinstance(types.get(DATA_FILE_ID), dict) else []
    file_field_ids = [field.get("field-id") for field in file_fields]
    partition_types = [field["type"] for field in file_fields if field.get("field-id") == PARTITION_ID]
    partition_ids = [field.get("field-id") for type_ in partition_types for field in type_["fields"]]
    is_copyable = (
        header.get(b"avro.codec", b"null") in (b"deflate", b"null")
        and header.get(b"format-version", b"1") == str(format_version).encode()
        and last_id == DATA_FILE_ID
        and (
            set(head_ids) == _HEAD_FIELD_IDS
            if format_version > 1
            else {STATUS_ID, SNAPSHOT_ID} <= set(head_ids) <= _HEAD_FIELD_IDS
        )
        and all(types[field_id] in ("int", "long", _OPTIONAL_LONG) for field_id in head_ids)
        and file_field_ids[:1] in ([PATH_ID], [CONTENT_ID])
        and file_field_ids[file_field_ids[0] == CONTENT_ID] == PATH_ID
        and partition_ids == [field.field_id for field in spec.fields]
    )
    if not is_copyable:
        raise ManifestNotCopyable
    head_fields = {field_id: types[field_id] == _OPTIONAL_LONG for field_id in head_ids}
    return head_fields, file_field_ids[0] == CONTENT_ID


@dataclass(frozen=True, eq=False)
class CopyableManifest:
    """The Avro container of a manifest and its decoded records; rows are indices into all of its entries."""

    manifest: ManifestFile
    container: AvroContainer
    head_fields: Mapping[int, bool]
    starts_with_content: bool
    records: pa.Table

    def live_rows_of(self, paths: frozenset[str]) -> list[int]:
        """Return the rows of the live entries whose files have one of the paths."""
        return live_rows_of(self.records, paths)

    def copies_without_rows(self, rows: Sequence[int], max_entries: int) -> Iterator[ManifestCopy]:
        """Copy all live entries except `rows` into manifests of about `max_entries` existing entries each."""
        keep_mask = self._live_mask.copy()
        keep_mask[rows] = False
        block_rows: list[Ints] = []
        entry_count = 0
        for rows_of_block in self._rows_by_block(keep_mask):
            block_rows.append(rows_of_block)
            entry_count += len(rows_of_block)
            if entry_count >= max_entries:
                yield self._manifest_copy(block_rows)
                block_rows, entry_count = [], 0
        if block_rows:
            yield self._manifest_copy(block_rows)

    def _rows_by_block(self, keep_mask: Bools) -> Iterator[Ints]:
        """Yield the rows to keep of each block that has any."""
        for start, stop in zip(self._block_starts[:-1], self._block_starts[1:], strict=True):
            rows = start + np.flatnonzero(keep_mask[start:stop])
            if len(rows):
                yield rows

    def _manifest_copy(self, block_rows: Sequence[Ints]) -> ManifestCopy:
        rows = np.concatenate(block_rows)
        changed_blocks = [block for block in block_rows if not self._is_unchanged_block(block)]
        entries = iter(self._entry_bytes(np.concatenate(changed_blocks)) if changed_blocks else ())
        blocks = []
        for rows_of_block in block_rows:
            if self._is_unchanged_block(rows_of_block):
                blocks.append(self.container.blocks[self._block_index(rows_of_block[0])])
            else:
                data = b"".join(next(entries) for _ in range(len(rows_of_block)))
                blocks.append((len(rows_of_block), self._compress_block(data)))
        indices = pa.array(rows)
        files = self._data_files.take(indices)
        sequence_numbers = (
            self._existing_records[f"f{SEQUENCE_NUMBER_ID}"].take(indices)
            if SEQUENCE_NUMBER_ID in self.head_fields
            else pa.array([0])
        )
        is_partitioned = files.type.get_field_index(f"f{PARTITION_ID}") >= 0
        partitions = files.field(f"f{PARTITION_ID}").flatten() if is_partitioned else ()
        return ManifestCopy(
            self.container.file_with_blocks(blocks),
            len(rows),
            int(pc.sum(files.field(f"f{RECORD_COUNT_ID}")).as_py()),
            pc.min(sequence_numbers).as_py(),
            [plain_values(pc.unique(values)) for values in partitions],
        )

    def _is_unchanged_block(self, rows: Ints) -> bool:
        """Return whether the rows are a whole block whose entries keep their heads."""
        block_index = self._block_index(rows[0])
        start, stop = self._block_starts[block_index], self._block_starts[block_index + 1]
        return len(rows) == stop - start and not self._changed_mask[start:stop].any()

    def _block_index(self, row: int) -> int:
        return int(np.searchsorted(self._block_starts, row, "right")) - 1

    # --- entries as bytes

    def _entry_bytes(self, rows: Ints) -> list[bytes]:
        """Return the bytes of the entries in those rows, as existing entries."""
        entries: list[bytes] = []
        heads = self._entry_heads(rows, self._existing_records)
        for block_index in dict.fromkeys(self._block_index(row) for row in rows.tolist()):
            bodies = self._entry_bodies(block_index)
            start, stop = self._block_starts[block_index], self._block_starts[block_index + 1]
            rows_of_block = rows[(rows >= start) & (rows < stop)]
            heads_of_block = heads[len(entries) : len(entries) + len(rows_of_block)]
            entries += [
                head + bodies[row - start] for head, row in zip(heads_of_block, rows_of_block.tolist(), strict=True)
            ]
        return entries

    def _entry_bodies(self, block_index: int) -> list[bytes]:
        """Return the entries of a block without their heads."""
        record_count, compressed_block = self.container.blocks[block_index]
        rows = np.arange(self._block_starts[block_index], self._block_starts[block_index] + record_count)
        try:
            data = zlib.decompress(compressed_block, -zlib.MAX_WBITS) if self._is_deflated else compressed_block
        except zlib.error as error:
            raise ManifestNotCopyable from error
        heads = self._entry_heads(rows, self.records)
        paths = [path.encode() for path in self._file_paths.take(pa.array(rows)).to_pylist()]
        path_bytes = self._path_bytes(rows, paths)
        starts = list(_entry_positions(data, [h + p for h, p in zip(heads, path_bytes, strict=True)], paths))
        stops = [*starts[1:], len(data)]
        return [data[start + len(head) : stop] for head, start, stop in zip(heads, starts, stops, strict=True)]

    def _entry_heads(self, rows: Ints, records: pa.Table) -> list[bytes]:
        indices = pa.array(rows)
        columns = [records[f"f{field_id}"].take(indices).to_pylist() for field_id in self.head_fields]
        partition_bytes: dict[tuple[int | None, ...], bytes] = {}
        heads = []
        for values in zip(*columns, strict=True):
            if values not in partition_bytes:
                partition_bytes[values] = b"".join(map(_encode_long_field, values, self.head_fields.values()))
            heads.append(partition_bytes[values])
        return heads

    def _path_bytes(self, rows: Ints, paths: Sequence[bytes]) -> list[bytes]:
        """Return the bytes that follow the heads: the content where it comes first, and the path."""
        path_bytes = [encode_long(len(path)) + path for path in paths]
        if not self.starts_with_content:
            return path_bytes
        contents = self._data_files.take(pa.array(rows)).field(f"f{CONTENT_ID}").to_pylist()
        return [encode_long(content) + path for content, path in zip(contents, path_bytes, strict=True)]

    def _compress_block(self, data: bytes) -> bytes:
        if not self._is_deflated:
            return data
        deflate = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        return deflate.compress(data) + deflate.flush()

    @property
    def _is_deflated(self) -> bool:
        return self.container.header.get(b"avro.codec") == b"deflate"

    # --- columns

    @cached_property
    def _data_files(self) -> pa.StructArray:
        return dense_array(self.records[f"f{DATA_FILE_ID}"])

    @cached_property
    def _file_paths(self) -> pa.Array:
        return self._data_files.field(f"f{PATH_ID}")

    @cached_property
    def _block_starts(self) -> Ints:
        """The first row of each block, and one past the last."""
        starts: Ints = np.cumsum([0, *(record_count for record_count, _ in self.container.blocks)])
        return starts

    @cached_property
    def _live_mask(self) -> Bools:
        return _live_mask(self.records)

    @cached_property
    def _changed_mask(self) -> Bools:
        """The entries whose head changes when they become existing entries."""
        is_changed: Bools = self.records[f"f{STATUS_ID}"].to_numpy() != EXISTING
        for field_id in self.head_fields:
            before, after = (dense_array(records[f"f{field_id}"]) for records in (self.records, self._existing_records))
            is_changed |= null_mask(before) & ~null_mask(after)
        return is_changed

    @cached_property
    def _existing_records(self) -> pa.Table:
        """The records as existing entries, with inherited values ("Sequence Number Inheritance")."""
        records, manifest = self.records, self.manifest
        status = dense_array(records[f"f{STATUS_ID}"])
        stored_columns: Mapping[int, pa.Array] = {
            field_id: dense_array(records[f"f{field_id}"]) for field_id in self.head_fields if field_id != STATUS_ID
        }
        inherits = pc.or_(pc.equal(status, ADDED), manifest.sequence_number == 0)
        inherited_numbers = pc.if_else(inherits, manifest.sequence_number, pa.scalar(None, pa.int64()))
        columns = {STATUS_ID: pa.array(np.full(len(status), EXISTING), status.type)}
        columns |= {field_id: pc.coalesce(values, inherited_numbers) for field_id, values in stored_columns.items()}
        columns[SNAPSHOT_ID] = pc.coalesce(
            stored_columns[SNAPSHOT_ID], pa.scalar(manifest.added_snapshot_id, pa.int64())
        )
        for field_id, values in columns.items():
            index = records.schema.get_field_index(f"f{field_id}")
            records = records.set_column(index, records.schema.field(index), values)
        if (
            SEQUENCE_NUMBER_ID in self.head_fields
            and (null_mask(dense_array(records[f"f{SEQUENCE_NUMBER_ID}"])) & self._live_mask).any()
        ):
            raise ManifestNotCopyable
        return records


def live_rows_of(records: pa.Table, paths: frozenset[str]) -> list[int]:
    """Return the rows of a manifest's records that are live entries of files with one of the paths."""
    file_paths = dense_array(records[f"f{DATA_FILE_ID}"]).field(f"f{PATH_ID}")
    has_path = pc.is_in(file_paths, value_set=pa.array(sorted(paths), file_paths.type))
    rows: list[int] = np.flatnonzero(has_path.to_numpy(zero_copy_only=False) & _live_mask(records)).tolist()
    return rows


def _live_mask(records: pa.Table) -> Bools:
    mask: Bools = records[f"f{STATUS_ID}"].to_numpy() != DELETED
    return mask


def _entry_positions(data: bytes, entry_starts: Sequence[bytes], paths: Sequence[bytes]) -> Iterator[int]:
    """Yield where in a block the entries start that begin with those bytes; each must occur exactly once."""
    # If the common prefix of all paths occurs as often as there are paths, no path occurs twice.
    prefix = common_prefix(min(paths), max(paths))
    are_unique = len(list(islice(_text_positions(data, prefix), len(paths) + 1))) == len(paths)
    position = -1
    for index, entry_start in enumerate(entry_starts):
        position = data.find(entry_start, position + 1)
        is_misplaced = position < 0 or (index == 0 and position > 0)
        if is_misplaced or not (are_unique or data.find(entry_start, position + 1) < 0):
            raise ManifestNotCopyable
        yield position


def _text_positions(data: bytes, text: bytes) -> Iterator[int]:
    """Yield every position of a text, overlapping ones included."""
    position = data.find(text)
    while position >= 0:
        yield position
        position = data.find(text, position + 1)


def _encode_long_field(value: int | None, is_optional: bool) -> bytes:
    if not is_optional:
        if value is None:
            raise ManifestNotCopyable
        return encode_long(value)
    return b"\x00" if value is None else b"\x02" + encode_long(value)


# --- paths in bytes


def may_contain_paths(io: FileIO, manifest_path: str, paths: frozenset[str]) -> bool:
    """Return whether a manifest may contain one of the paths; False is certain.

    Searching the decompressed bytes is far cheaper than decoding every entry.
    """
    texts = frozenset(path.encode() for path in paths)
    prefix = common_prefix(min(texts), max(texts))
    # A short prefix would be found everywhere.
    if len(prefix) < _MIN_PREFIX_LENGTH:
        return True
    lengths = sorted({len(text) for text in texts})
    return _has_any_text(read_record_bytes(io, manifest_path), prefix, lengths, texts)


def common_prefix(first: bytes, second: bytes) -> bytes:
    """Return the common prefix of two texts, and so of all texts that sort between them."""
    length = next(
        (index for index, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    return first[:length]


def _has_any_text(data: bytes, prefix: bytes, lengths: list[int], texts: frozenset[bytes]) -> bool:
    """Return whether one of the texts, all with that prefix, is in the data: Avro writes a text as its bytes."""
    return any(
        data[position : position + length] in texts for position in _text_positions(data, prefix) for length in lengths
    )
