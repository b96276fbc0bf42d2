"""Avro files as Arrow tables whose columns, and struct fields, are named by their Iceberg field ids: `f100`.

The names of the writer are replaced in the header before decoding: they may contain characters that Avro doesn't allow,
and older writers use other names for the same field (specification, "Avro": field ids identify fields).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.codecs import KNOWN_CODECS

from partita.cache import LruCache
from partita.errors import StorageError, TableError
from partita.untrusted_input import parse_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO

_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16
_MAX_LONG_BITS = 63
"""A long has at most ten bytes of seven bits."""
_MAX_SCHEMA_TYPES = 100_000
"""Types of a schema with references spelled out: nested references double their number at each step."""


_EXTRA_RECORDS = 1 << 30
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class AvroContainer:
    """The parts of an Avro file (Avro specification, "Object Container Files").

    `blocks` are pairs of a record count and the bytes of the block, compressed as the header says.
    """

    location: str
    header: Mapping[bytes, bytes]
    sync_marker: bytes
    blocks: tuple[tuple[int, bytes], ...]

    @property
    def record_count(self) -> int:
        """The number of records."""
        return sum(record_count for record_count, _ in self.blocks)

    def record_bytes(self) -> bytes:
        """Return the decompressed bytes of all records."""
        name = _codec_name(self.header).decode()
        if name not in KNOWN_CODECS:
            raise ValueError(f"its compression codec is {name!r}")
        codec = KNOWN_CODECS[name]
        return b"".join(data if codec is None else codec.decompress(data) for _, data in self.blocks)

    def file_with_blocks(self, blocks: Iterable[tuple[int, bytes]]) -> bytes:
        """Return the bytes of a file with the same header and those blocks."""
        return _encode_container(self.header, self.sync_marker, blocks)


_recent_files: LruCache[str, tuple[AvroContainer, pa.Table]] = LruCache(1 << 26)
"""Files that were read last: a commit reads again the manifests that planning has just read."""


def read_avro(io: FileIO, location: str) -> pa.Table:
    """Read the records of an Avro file, in order, with columns named by field id."""
    container = read_container(io, location)
    records = decode_records(container)
    _recent_files.put(location, (container, records), records.nbytes + sum(len(data) for _, data in container.blocks))
    return records


def read_container_and_records(io: FileIO, location: str) -> tuple[AvroContainer, pa.Table]:
    """Read the container and the records of an Avro file that never changes, from memory if it was just read."""
    recent = _recent_files.get(location)
    if recent is not None:
        return recent
    container = read_container(io, location)
    return container, decode_records(container)


def read_container(io: FileIO, location: str) -> AvroContainer:
    """Read the parts of an Avro file; raise `TableError` for a truncated one, which DataFusion would read in part."""
    data = _read_file(io, location)
    with _translate_avro_errors(location):
        return _parse_container(location, data)


def read_record_bytes(io: FileIO, location: str) -> bytes:
    """Read the decompressed bytes of all records of an Avro file."""
    container = read_container(io, location)
    with _translate_avro_errors(location):
        return container.record_bytes()


def read_containers(io: FileIO, locations: Sequence[str]) -> list[AvroContainer]:
    """Read several files at the same time."""
    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        return list(pool.map(lambda location: read_container(io, location), locations))


def decode_records(container: AvroContainer) -> pa.Table:
    """Decode the records of an Avro file, in order, with columns named by field id."""
    with _translate_avro_errors(container.location):
        return _decode_containers([container])


def decode_by_schema(containers: Sequence[AvroContainer]) -> Iterator[tuple[list[int], pa.Table]]:
    """Decode several files, those of one schema together; yield the indices of the files and their records in order.

    DataFusion takes a millisecond per file, however small it is.
    """
    groups: dict[tuple[bytes, bytes], list[int]] = {}
    for index, container in enumerate(containers):
        groups.setdefault((container.header[_SCHEMA_KEY], _codec_name(container.header)), []).append(index)
    for indices in groups.values():
        group = [containers[index] for index in indices]
        try:
            yield indices, _decode_containers(group)
        except Exception:
            for container in group:
                decode_records(container)
            raise


def _decode_containers(containers: Sequence[AvroContainer]) -> pa.Table:
    from datafusion import SessionConfig, SessionContext

    first_container, record_count = containers[0], sum(container.record_count for container in containers)
    data = b"".join(container.record_bytes() for container in containers)
    if not 0 <= record_count <= len(data) or (data and not record_count):
        raise ValueError(f"it has {len(data)} bytes for {record_count} records")
    avro_schema = parse_json(first_container.header[_SCHEMA_KEY])
    check_value_sizes(avro_schema)
    schema = json.dumps(_schema_by_field_ids(avro_schema)).encode()
    header = {_SCHEMA_KEY: schema, _CODEC_KEY: b"null"}
    with tempfile.TemporaryDirectory(prefix="partita-") as folder:
        # DataFusion opens only paths. It never ends if a block has bytes after its last record, so the file has one
        # block that declares more records than there are: surplus bytes are then read as further records.
        file = Path(folder, "records.avro")
        file.write_bytes(
            _encode_container(
                header, first_container.sync_marker, [(record_count + _EXTRA_RECORDS, data)] if record_count else []
            )
        )
        config = SessionConfig().with_batch_size(max(1, record_count))
        table = SessionContext(config).read_avro(str(file)).to_arrow_table().combine_chunks()
    if table.num_rows != record_count:
        raise ValueError(f"{table.num_rows} of its {record_count} records can be read")
    return table


def _read_file(io: FileIO, location: str) -> bytes:
    try:
        with io.new_input(location).open() as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise StorageError(f"can't read {location}: {error}") from error


@contextmanager
def _translate_avro_errors(location: str) -> Iterator[None]:
    try:
        yield
    except TableError:
        raise
    except Exception as error:  # DataFusion raises nothing narrower
        reason = str(error).partition("\n")[0]
        raise TableError(f"{location} is not an Avro file of table metadata: {reason}") from error


# --- encoding of containers


@dataclass(slots=True)
class _BinaryDecoder:
    """A position in Avro binary data."""

    data: bytes
    position: int = 0

    def read_long(self) -> int:
        """Read a long: seven bits per byte, zigzag-encoded (Avro specification, "Binary Encoding")."""
        shift, number = 0, 0
        while True:
            if self.position >= len(self.data) or shift > _MAX_LONG_BITS:
                raise ValueError("it is cut, or broken in the middle")
            byte = self.data[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)

    def read_bytes(self) -> bytes:
        """Read length-prefixed bytes."""
        length = self.read_length()
        data = self.data[self.position : self.position + length]
        self.position += length
        return data

    def read_length(self) -> int:
        """Read a length; raise `ValueError` if fewer bytes are left."""
        length = self.read_long()
        if not 0 <= length <= len(self.data) - self.position:
            raise ValueError("it is cut, or broken in the middle")
        return length


_SCHEMA_KEY, _CODEC_KEY = b"avro.schema", b"avro.codec"


def _codec_name(header: Mapping[bytes, bytes]) -> bytes:
    return header.get(_CODEC_KEY, b"null")


def _parse_container(location: str, data: bytes) -> AvroContainer:
    if not data.startswith(_MAGIC):
        raise ValueError("it has no header")
    decoder = _BinaryDecoder(data, len(_MAGIC))
    header: dict[bytes, bytes] = {}
    while (entry_count := decoder.read_long()) != 0:
        if entry_count < 0:
            entry_count = -entry_count
            decoder.read_long()
        for _ in range(entry_count):
            key = decoder.read_bytes()
            header[key] = decoder.read_bytes()
    sync_marker = data[decoder.position : decoder.position + _SYNC_SIZE]
    decoder.position += _SYNC_SIZE
    return AvroContainer(location, header, sync_marker, tuple(_parse_blocks(decoder, sync_marker)))


def _parse_blocks(decoder: _BinaryDecoder, sync_marker: bytes) -> Iterator[tuple[int, bytes]]:
    while decoder.position < len(decoder.data):
        record_count, data = decoder.read_long(), decoder.read_bytes()
        decoder.position += _SYNC_SIZE
        if decoder.data[decoder.position - _SYNC_SIZE : decoder.position] != sync_marker:
            raise ValueError("it is cut, or broken in the middle")
        yield record_count, data


def _encode_container(header: Mapping[bytes, bytes], sync_marker: bytes, blocks: Iterable[tuple[int, bytes]]) -> bytes:
    parts = [_MAGIC, _encode_map(header), sync_marker]
    for record_count, data in blocks:
        parts += (encode_long(record_count), _encode_bytes(data), sync_marker)
    return b"".join(parts)


def _encode_map(entries: Mapping[bytes, bytes]) -> bytes:
    pairs = b"".join(_encode_bytes(key) + _encode_bytes(value) for key, value in entries.items())
    return encode_long(len(entries)) + pairs + encode_long(0)


def _encode_bytes(data: bytes) -> bytes:
    return encode_long(len(data)) + data


def encode_long(number: int) -> bytes:
    """Encode a long as Avro does: zigzag, seven bits per byte, the lowest first."""
    remaining = (number << 1) ^ (number >> 63)
    octets = bytearray()
    while remaining >= 0x80:
        octets.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    return bytes((*octets, remaining))


def _schema_by_field_ids(schema: Any) -> Any:
    """Return an Avro schema whose fields are named by field id, and whose named types are numbered."""
    named_types: dict[str, Any] = {}
    type_numbers = count()

    type_counter = count()

    def rename_fields(type_: Any) -> Any:
        if next(type_counter) > _MAX_SCHEMA_TYPES:
            raise ValueError("its schema has too many types")
        if isinstance(type_, list):
            return [rename_fields(branch) for branch in type_]
        if isinstance(type_, str):
            # A reference to an earlier type is spelled out again, under a new name.
            return rename_fields(named_types[type_]) if type_ in named_types else type_
        kind = type_["type"]
        if isinstance(kind, dict | list):
            return rename_fields(kind)
        if kind in ("record", "fixed", "enum"):
            named_types[type_.get("name", "")] = type_
            renamed_type = {**type_, "name": f"t{next(type_numbers)}"}
            renamed_type.pop("namespace", None)
            if kind == "record":
                fields = (_field_by_id(f, rename_fields(f["type"])) for f in type_["fields"])
                # A record without fields, such as the partition of an unpartitioned table, has no Arrow column.
                renamed_type["fields"] = [f for f in fields if not _is_empty_record(f["type"])]
            return renamed_type
        inner = {"array": "items", "map": "values"}.get(kind)
        return {**type_, inner: rename_fields(type_[inner])} if inner is not None else type_

    return rename_fields(schema)


def check_value_sizes(schema: Any) -> None:
    """Raise `ValueError` for a schema whose records or items take no bytes, which could be of any number."""
    if not _has_nonempty_values(schema, {}, count()):
        raise ValueError("its records take no bytes")


def _has_nonempty_values(type_: Any, known_types: dict[str, bool], type_counter: Iterator[int]) -> bool:
    """Return whether each value of a type takes at least one byte; raise `ValueError` for lists of empty items."""
    if next(type_counter) > _MAX_SCHEMA_TYPES:
        raise ValueError("its schema has too many types")
    if isinstance(type_, list):
        for branch in type_:
            _has_nonempty_values(branch, known_types, type_counter)
        return True
    if isinstance(type_, str):
        return known_types.get(type_, type_ != "null")
    kind = type_["type"]
    if isinstance(kind, dict | list):
        return _has_nonempty_values(kind, known_types, type_counter)
    if kind in ("array", "map"):
        if (
            not _has_nonempty_values(type_["items" if kind == "array" else "values"], known_types, type_counter)
            and kind == "array"
        ):
            raise ValueError("it has lists of items that take no bytes")
        return True
    if kind == "record":
        has_bytes = [_has_nonempty_values(f["type"], known_types, type_counter) for f in type_["fields"]]
        is_nonempty = any(has_bytes)
    else:
        is_nonempty = kind != "null" and not (kind == "fixed" and type_["size"] == 0)
    known_types[type_.get("name", "")] = is_nonempty
    return is_nonempty


def _is_empty_record(type_: Any) -> bool:
    return isinstance(type_, dict) and type_["type"] == "record" and not type_["fields"]


def _field_by_id(field: Mapping[str, Any], type_: Any) -> dict[str, Any]:
    field_id = field.get("field-id")
    return {"name": field["name"] if field_id is None else f"f{field_id}", "type": type_}
