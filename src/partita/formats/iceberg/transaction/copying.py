"""Large manifests without some of their files: entries that stay are copied as bytes, not decoded and encoded.

An entry that stays differs in its head alone: status, snapshot id and sequence numbers. A block of which every entry
stays as it is, is copied as it lies. In any other block an entry is where the bytes are that it begins with: its head
and its path, which the decoded records tell. They must be there once, and then it can't be anywhere else. Manifests of
which that isn't so, and those that are laid out another way than Iceberg's writers do it, are `NotCopied`: they have to
be decoded and encoded.
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
from pyiceberg.manifest import ManifestEntryStatus

from partita.arrow.buffers import null_mask, one_array
from partita.formats.iceberg.manifests.avro import AvroParts, encode_long, read_records
from partita.formats.iceberg.transaction.probing import common_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec

    from partita.arrow.buffers import Bools, Ints

_STATUS, _SNAPSHOT, _DATA_FILE, _SEQUENCE, _FILE_SEQUENCE = 0, 1, 2, 3, 4
_HEAD = {_STATUS, _SNAPSHOT, _SEQUENCE, _FILE_SEQUENCE}
_PATH, _PARTITION, _RECORD_COUNT, _CONTENT = 100, 102, 103, 134
"""The ids of fields of an entry, and of its data file."""

_EXISTING, _ADDED, _DELETED = (
    ManifestEntryStatus.EXISTING.value, ManifestEntryStatus.ADDED.value, ManifestEntryStatus.DELETED.value,
)  # fmt: skip
_OPTIONAL = ["null", "long"]
_LEVEL = 3
"""How hard blocks are compressed: twice as fast as zlib's default, for a fifth more bytes."""


class NotCopied(Exception):
    """The entries of a manifest can't be told apart as bytes."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A manifest to be written: its bytes, and what the manifest list says of it.

    `lowest` is the least sequence number, and `partitions` has the distinct values of each partition field.
    """

    data: bytes
    files: int
    rows: int
    lowest: int | None
    partitions: Sequence[list[Any]]


def open_manifest(io: FileIO, manifest: ManifestFile, spec: PartitionSpec, version: int) -> OpenedManifest:
    """A manifest of a table of that format version, if entries of it can be copied."""
    parts, records = read_records(io, manifest.manifest_path)
    try:
        head, starts_with_content = _layout(parts.header, spec, version)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise NotCopied from error
    return OpenedManifest(manifest, parts, head, starts_with_content, records)


def _layout(header: Mapping[bytes, bytes], spec: PartitionSpec, version: int) -> tuple[Mapping[int, bool], bool]:
    """The fields of the head, with whether each is optional, and whether a data file begins with its content."""
    schema: Any = json.loads(header[b"avro.schema"])
    types = {field.get("field-id"): field["type"] for field in schema["fields"]}
    *head, last = types
    file = types[_DATA_FILE]["fields"] if isinstance(types.get(_DATA_FILE), dict) else []
    numbers = [field.get("field-id") for field in file]
    partition = [field["type"] for field in file if field.get("field-id") == _PARTITION]
    fields = [field.get("field-id") for type_ in partition for field in type_["fields"]]
    fits = (
        header.get(b"avro.codec", b"null") in (b"deflate", b"null")
        and header.get(b"format-version", b"1") == str(version).encode()
        and last == _DATA_FILE
        and (set(head) == _HEAD if version > 1 else {_STATUS, _SNAPSHOT} <= set(head) <= _HEAD)
        and all(types[number] in ("int", "long", _OPTIONAL) for number in head)
        and numbers[:1] in ([_PATH], [_CONTENT])
        and numbers[numbers[0] == _CONTENT] == _PATH
        and fields == [field.field_id for field in spec.fields]
    )
    if not fits:
        raise NotCopied
    return {number: types[number] == _OPTIONAL for number in head}, numbers[0] == _CONTENT


@dataclass(frozen=True, eq=False)
class OpenedManifest:
    """The parts of a manifest's file, and its records; rows are places among all of its entries."""

    manifest: ManifestFile
    parts: AvroParts
    head: Mapping[int, bool]
    starts_with_content: bool
    records: pa.Table

    def rows_of(self, paths: frozenset[str]) -> list[int]:
        """The rows of the live entries of files at some paths."""
        there = pc.is_in(self._paths, value_set=pa.array(sorted(paths), self._paths.type))
        found: list[int] = np.flatnonzero(there.to_numpy(zero_copy_only=False) & self._are_live).tolist()
        return found

    def with_rows(self, rows: Sequence[int]) -> bytes:
        """A manifest with just the entries in those rows, as they are."""
        entries = self._entries(np.array(rows), self.records)
        return self.parts.joined([(len(rows), self._compressed(b"".join(entries)))])

    def copies_without(self, rows: Sequence[int], most: int) -> Iterator[Copy]:
        """Manifests of all live entries but for those rows, as existing ones; about so many in each."""
        stays = self._are_live.copy()
        stays[rows] = False
        kept: list[Ints] = []
        count = 0
        for own in self._by_block(stays):
            kept.append(own)
            count += len(own)
            if count >= most:
                yield self._copy(kept)
                kept, count = [], 0
        if kept:
            yield self._copy(kept)

    def _by_block(self, stays: Bools) -> Iterator[Ints]:
        """The rows that stay of each block that has any."""
        for start, stop in zip(self._starts[:-1], self._starts[1:], strict=True):
            own = start + np.flatnonzero(stays[start:stop])
            if len(own):
                yield own

    def _copy(self, kept: Sequence[Ints]) -> Copy:
        rows = np.concatenate(kept)
        moved = [own for own in kept if not self._is_same(own)]
        entries = iter(self._entries(np.concatenate(moved), self._records_after) if moved else ())
        blocks = []
        for own in kept:
            if self._is_same(own):
                blocks.append(self.parts.blocks[self._block_of(own[0])])
            else:
                octets = b"".join(next(entries) for _ in range(len(own)))
                blocks.append((len(own), self._compressed(octets)))
        places = pa.array(rows)
        files = self._files.take(places)
        numbers = self._records_after[f"f{_SEQUENCE}"].take(places) if _SEQUENCE in self.head else pa.array([0])
        is_partitioned = files.type.get_field_index(f"f{_PARTITION}") >= 0
        partitions = files.field(f"f{_PARTITION}").flatten() if is_partitioned else ()
        return Copy(
            self.parts.joined(blocks),
            len(rows),
            int(pc.sum(files.field(f"f{_RECORD_COUNT}")).as_py()),
            pc.min(numbers).as_py(),
            [_distinct(values) for values in partitions],
        )

    def _is_same(self, rows: Ints) -> bool:
        """Whether the rows are all of a block, and stay as they are."""
        number = self._block_of(rows[0])
        is_whole = len(rows) == self.parts.blocks[number][0]
        return is_whole and not self._are_moved[self._starts[number] : self._starts[number + 1]].any()

    def _block_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, "right")) - 1

    # --- entries as bytes

    def _entries(self, rows: Ints, records: pa.Table) -> list[bytes]:
        """The entries in those rows, under the heads that they have in `records`."""
        found: list[bytes] = []
        heads = self._heads(rows, records)
        for number in dict.fromkeys(self._block_of(row) for row in rows.tolist()):
            bodies = self._bodies(number)
            first, last = self._starts[number], self._starts[number + 1]
            own = rows[(rows >= first) & (rows < last)]
            found += [head + bodies[row - first] for head, row in zip(heads[len(found) :], own.tolist(), strict=False)]
        return found

    def _bodies(self, number: int) -> list[bytes]:
        """The entries of a block without their heads."""
        count, octets = self.parts.blocks[number]
        rows = np.arange(self._starts[number], self._starts[number] + count)
        try:
            data = zlib.decompress(octets, -zlib.MAX_WBITS) if self._is_deflated else octets
        except zlib.error as error:
            raise NotCopied from error
        heads = self._heads(rows, self.records)
        paths = [path.encode() for path in self._paths.take(pa.array(rows)).to_pylist()]
        marks = self._marks(rows, paths)
        starts = list(_found(data, [head + mark for head, mark in zip(heads, marks, strict=True)], paths))
        stops = [*starts[1:], len(data)]
        return [data[start + len(head) : stop] for head, start, stop in zip(heads, starts, stops, strict=True)]

    def _heads(self, rows: Ints, records: pa.Table) -> list[bytes]:
        places = pa.array(rows)
        columns = [records[f"f{number}"].take(places).to_pylist() for number in self.head]
        known: dict[tuple[int | None, ...], bytes] = {}
        heads = []
        for values in zip(*columns, strict=True):
            if values not in known:
                known[values] = b"".join(map(_encoded, values, self.head.values()))
            heads.append(known[values])
        return heads

    def _marks(self, rows: Ints, paths: Sequence[bytes]) -> list[bytes]:
        """What follows the heads: the content, where it comes first, and the path."""
        marks = [encode_long(len(path)) + path for path in paths]
        if not self.starts_with_content:
            return marks
        contents = self._files.take(pa.array(rows)).field(f"f{_CONTENT}").to_pylist()
        return [encode_long(content) + mark for content, mark in zip(contents, marks, strict=True)]

    def _compressed(self, data: bytes) -> bytes:
        if not self._is_deflated:
            return data
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        return deflate.compress(data) + deflate.flush()

    @property
    def _is_deflated(self) -> bool:
        return self.parts.header.get(b"avro.codec") == b"deflate"

    # --- columns

    @cached_property
    def _files(self) -> pa.StructArray:
        return one_array(self.records[f"f{_DATA_FILE}"])

    @cached_property
    def _paths(self) -> pa.Array:
        return self._files.field(f"f{_PATH}")

    @cached_property
    def _starts(self) -> Ints:
        """The first row of each block, and one past the last."""
        starts: Ints = np.cumsum([0, *(count for count, _ in self.parts.blocks)])
        return starts

    @cached_property
    def _are_live(self) -> Bools:
        live: Bools = self.records[f"f{_STATUS}"].to_numpy() != _DELETED
        return live

    @cached_property
    def _are_moved(self) -> Bools:
        """Which entries have another head once they are existing ones."""
        moved: Bools = self.records[f"f{_STATUS}"].to_numpy() != _EXISTING
        for number in self.head:
            before, after = (one_array(one[f"f{number}"]) for one in (self.records, self._records_after))
            moved |= null_mask(before) & ~null_mask(after)
        return moved

    @cached_property
    def _records_after(self) -> pa.Table:
        """The records as existing entries, with what they inherit ("Sequence Number Inheritance")."""
        records, manifest = self.records, self.manifest
        status = one_array(records[f"f{_STATUS}"])
        given: Mapping[int, pa.Array] = {
            number: one_array(records[f"f{number}"]) for number in self.head if number != _STATUS
        }
        is_new = pc.or_(pc.equal(status, _ADDED), manifest.sequence_number == 0)
        inherited = pc.if_else(is_new, manifest.sequence_number, pa.scalar(None, pa.int64()))
        after = {_STATUS: pa.array(np.full(len(status), _EXISTING), status.type)}
        after |= {number: pc.coalesce(values, inherited) for number, values in given.items()}
        after[_SNAPSHOT] = pc.coalesce(given[_SNAPSHOT], pa.scalar(manifest.added_snapshot_id, pa.int64()))
        for number, values in after.items():
            at = records.schema.get_field_index(f"f{number}")
            records = records.set_column(at, records.schema.field(at), values)
        if _SEQUENCE in self.head and (null_mask(one_array(records[f"f{_SEQUENCE}"])) & self._are_live).any():
            raise NotCopied
        return records


def _found(data: bytes, beginnings: Sequence[bytes], paths: Sequence[bytes]) -> Iterator[int]:
    """Where in a block the entries begin that have those beginnings; each must be there once."""
    # Where the start that all paths share is there as often as there are paths, no path is there twice.
    shared = common_start(min(paths), max(paths))
    is_once = len(list(islice(_places(data, shared), len(paths) + 1))) == len(paths)
    at = -1
    for number, beginning in enumerate(beginnings):
        at = data.find(beginning, at + 1)
        if at < 0 or (number == 0 and at > 0) or not (is_once or data.find(beginning, at + 1) < 0):
            raise NotCopied
        yield at


def _places(data: bytes, text: bytes) -> Iterator[int]:
    """Every place of a text, also those that overlap."""
    at = data.find(text)
    while at >= 0:
        yield at
        at = data.find(text, at + 1)


def _encoded(value: int | None, is_optional: bool) -> bytes:
    if not is_optional:
        if value is None:
            raise NotCopied
        return encode_long(value)
    return b"\x00" if value is None else b"\x02" + encode_long(value)


def _distinct(values: pa.Array) -> list[Any]:
    """Each value once, as pyiceberg has partition values: dates and times as numbers."""
    found = pc.unique(values)
    if pa.types.is_timestamp(found.type):
        found = found.cast(pa.timestamp("us", found.type.tz))
    if pa.types.is_temporal(found.type):
        found = found.view(pa.int32() if found.type.bit_width == 32 else pa.int64())
    plain: list[Any] = found.to_pylist()
    return plain
